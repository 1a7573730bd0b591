// SPDX-License-Identifier: GPL-2.0-only
/*
 * Random numbers that are the same on every machine.
 *
 * The generator is xoshiro256** (Blackman and Vigna, "Scrambled linear
 * pseudorandom number generators", 2018), its state filled by splitmix64 (Steele,
 * Lea and Flood 2014) as its authors advise. A stream belongs to a seed, to
 * an owner (a session) and to a kind (sizes, gaps): the numbers of one stream do
 * not depend on how many were drawn from another.
 *
 * Logarithm and exponential are our own: the C library picks among several by
 * the CPU (with and without fused multiply-add), whose last bits differ. Below
 * there are only additions, multiplications and divisions of doubles, which
 * IEEE 754 defines to the bit (built with -ffp-contract=off). Their error is
 * below 4e-16 relative, far below what a rounded byte or nanosecond shows.
 */
#include "traffic.h"

#include <string.h>

#define LN_2 0.693147180559945309417
#define SQRT_HALF 0.70710678118654752440
#define DOUBLE_BITS 52
#define DOUBLE_BIAS 1023
#define LOG_TERMS 12 /* s <= 0.172: s^25 / 25 < 4e-21 */
#define EXP_TERMS 16 /* |x| <= 0.35: x^17 / 17! < 1e-22 */
#define BISECTIONS 200

static uint64_t splitmix64(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
	return z ^ (z >> 31);
}

void stream_open(struct stream *stream, uint64_t seed, uint64_t who, uint64_t kind)
{
	uint64_t state = seed;

	state = splitmix64(&state) ^ who;
	state = splitmix64(&state) ^ kind;
	for (int i = 0; i < 4; i++)
		stream->s[i] = splitmix64(&state);
}

static uint64_t rotate(uint64_t x, int k)
{
	return (x << k) | (x >> (64 - k));
}

uint64_t stream_next(struct stream *stream)
{
	uint64_t *s = stream->s;
	uint64_t result = rotate(s[1] * 5, 7) * 9;
	uint64_t t = s[1] << 17;

	s[2] ^= s[0];
	s[3] ^= s[1];
	s[1] ^= s[2];
	s[0] ^= s[3];
	s[2] ^= t;
	s[3] = rotate(s[3], 45);
	return result;
}

double stream_uniform(struct stream *stream)
{
	return ((double)(stream_next(stream) >> 11) + 1) * 0x1p-53;
}

/* x = m 2^e with m in [sqrt(1/2), sqrt(2)); ln m = 2 atanh((m - 1) / (m + 1)) */
static double own_log(double x)
{
	uint64_t bits;
	double s, square, sum = 0;
	int e;

	memcpy(&bits, &x, sizeof(bits));
	e = (int)(bits >> DOUBLE_BITS) - (DOUBLE_BIAS - 1);
	bits &= (1ULL << DOUBLE_BITS) - 1;
	bits |= (uint64_t)(DOUBLE_BIAS - 1) << DOUBLE_BITS;
	memcpy(&x, &bits, sizeof(x)); /* in [1/2, 1) */
	if (x < SQRT_HALF) {
		x *= 2;
		e--;
	}
	s = (x - 1) / (x + 1);
	square = s * s;
	for (int k = LOG_TERMS; k >= 0; k--)
		sum = sum * square + 1.0 / (2 * k + 1);
	return 2 * s * sum + e * LN_2;
}

/* x = k ln 2 + r; exp r by its series. For |x| up to some hundred. */
static double own_exp(double x)
{
	int k = (int)(x / LN_2 + (x < 0 ? -0.5 : 0.5));
	double r = x - k * LN_2, sum = 1;

	for (int i = EXP_TERMS; i >= 1; i--)
		sum = 1 + sum * r / i;
	for (; k > 0; k--)
		sum *= 2;
	for (; k < 0; k++)
		sum /= 2;
	return sum;
}

static double own_pow(double x, double y)
{
	return own_exp(own_log(x) * y);
}

uint64_t stream_exponential(struct stream *stream, double mean)
{
	return (uint64_t)(-own_log(stream_uniform(stream)) * mean + 0.5);
}

/* The mean of a Pareto distribution on [min, max]. */
static double bounded_mean(double shape, double min, double max)
{
	double r = min / max;

	if (shape == 1)
		return min * -own_log(r) / (1 - r);
	return shape / (shape - 1) * min * (1 - own_pow(r, shape - 1)) / (1 - own_pow(r, shape));
}

double pareto_min_of_mean(double shape, double mean, double max)
{
	double low = 0, high = mean;

	if (!max)
		return mean * (shape - 1) / shape;
	for (int i = 0; i < BISECTIONS; i++) {
		double middle = (low + high) / 2;

		if (bounded_mean(shape, middle, max) < mean)
			low = middle;
		else
			high = middle;
	}
	return (low + high) / 2;
}

/* By inversion: P(X > x) = (min / x)^shape, cut at max. */
uint64_t pareto_draw(const struct pareto *pareto, struct stream *stream)
{
	double u = stream_uniform(stream), size;

	if (pareto->max) {
		double tail = own_pow(pareto->min / pareto->max, pareto->shape);

		u = tail + u * (1 - tail);
	}
	size = pareto->min * own_pow(u, -1 / pareto->shape) + 0.5;
	if (size > OBJECT_BYTES_MAX)
		size = OBJECT_BYTES_MAX;
	return size < 1 ? 1 : (uint64_t)size;
}

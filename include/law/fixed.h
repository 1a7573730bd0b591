/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * Fixed-point helpers of the laws. Nothing here divides by a value that can be
 * zero, and nothing needs signed division (BPF has it only with -mcpu=v4).
 */
#ifndef CCBPF_LAW_FIXED_H
#define CCBPF_LAW_FIXED_H

#include "ccbpf/types.h"

/* How a law's function is declared: inline where it is used; the host tests'
 * library (tests/unit/laws.c) exports them all. */
#ifndef LAW
#define LAW static inline
#endif

/* For a function of a few instructions: inline also where kern/chirp.bpf.h compiles the laws'
 * functions as separate BPF functions, because the kernel allows only eight nested calls. */
#ifndef INLINE_LAW
#define INLINE_LAW LAW
#endif

/* For a function that only a rare branch calls: a separate function in BPF too. At its end the
 * verifier forgets what it knew inside. */
#ifndef LAW_APART
#define LAW_APART static __attribute__((noinline))
#endif

/* For a function that must be a part of its caller in BPF: a chain of calls has 512 bytes of stack,
 * and Linux 6.1 rounds each frame up to 32. */
#ifndef LAW_INSIDE
#define LAW_INSIDE static __attribute__((always_inline)) inline
#endif

/* The compiler moves unlikely code away from the code that runs at every ACK,
 * which then needs fewer lines of the instruction cache. */
#define law_likely(condition) __builtin_expect(!!(condition), 1)
#define law_unlikely(condition) __builtin_expect(!!(condition), 0)

#define LAW_S32_MAX 0x7fffffff
#define LAW_S32_MIN (-LAW_S32_MAX - 1)

/* The laws' slow clock: one unit is 1024 us, a shift instead of a division on
 * every ACK; 32 bits of it wrap after 50 days. 977 units are 1.0004 s. */
#define KIUS_SHIFT 10
#define KIUS_PER_S 977

LAW u32 law_min(u32 a, u32 b)
{
	return a < b ? a : b;
}

LAW u32 law_max(u32 a, u32 b)
{
	return a > b ? a : b;
}

LAW u32 law_clamp(u32 v, u32 low, u32 high)
{
	return v < low ? low : v > high ? high : v;
}

/* The index @i if it is below @size, else 0. Hidden from the compiler, which would omit a test
 * that always holds; the verifier does not know that it holds. */
LAW u32 law_index(u32 i, u32 size)
{
	asm volatile("" : "+r"(i));
	return i < size ? i : 0;
}

/* The same value, hidden from the compiler. So a loop's constant bound stays beside a bound by
 * this value: the verifier of Linux 6.1 forgets what it knew of a value that was on the stack. */
LAW u32 law_hide(u32 v)
{
	asm volatile("" : "+r"(v));
	return v;
}

/* The same value, hidden from the verifier: if it knew each possible value, it would follow each
 * combination of a loop's branches separately. */
#ifdef __bpf__
static volatile u32 law_zero;
LAW u64 law_forget(u64 v)
{
	return v + law_zero;
}
#else
LAW u64 law_forget(u64 v)
{
	return v;
}
#endif

/* Is @a later than @b on the circle of 2^32 (RFC 1982; TCP sequence numbers)?
 * Right while the two are less than 2^31 apart. */
LAW bool law_after(u32 a, u32 b)
{
	return (s32)(a - b) > 0;
}

/* One step of an exponential average, v += (sample - v) / n, n >= 1, rounded
 * towards v: the average never overshoots the sample and stays in its range. */
LAW u32 law_ewma(u32 v, u32 sample, u32 n)
{
	return sample >= v ? v + (sample - v) / n : v - (v - sample) / n;
}

#endif

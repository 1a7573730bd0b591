// SPDX-License-Identifier: GPL-2.0-only
/*
 * The peers, in floating point: reno (RFC 5681) and cubic (RFC 9438; HyStart's two signs, a train of ACKs and a delay,
 * as Linux has them), and the kernel's functions that the programs call.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "peers.h"

#define CUBIC_C 0.4
#define CUBIC_BETA 0.7
#define CUBIC_FRIENDLY (3 * (1 - CUBIC_BETA) / (1 + CUBIC_BETA))
#define HYSTART_LOW_WINDOW 16
#define HYSTART_SAMPLES 8
#define HYSTART_ACK_GAP_S 0.002
#define HYSTART_RISE_MIN_S 0.004
#define HYSTART_RISE_MAX_S 0.016

/* --- what programs call ------------------------------------------------- */

__u32 tcp_slow_start(struct tcp_sock *tp, __u32 acked)
{
	u32 cwnd = tp->snd_cwnd + acked;

	cwnd = cwnd < tp->snd_ssthresh ? cwnd : tp->snd_ssthresh;
	acked -= cwnd - tp->snd_cwnd;
	tp->snd_cwnd = cwnd < tp->snd_cwnd_clamp ? cwnd : tp->snd_cwnd_clamp;
	return acked;
}

void tcp_cong_avoid_ai(struct tcp_sock *tp, __u32 w, __u32 acked)
{
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd_cnt = 0;
		tp->snd_cwnd++;
	}
	tp->snd_cwnd_cnt += acked;
	if (tp->snd_cwnd_cnt >= w) {
		tp->snd_cwnd += tp->snd_cwnd_cnt / w;
		tp->snd_cwnd_cnt %= w;
	}
	if (tp->snd_cwnd > tp->snd_cwnd_clamp)
		tp->snd_cwnd = tp->snd_cwnd_clamp;
}

static bool is_cwnd_limited(const struct tcp_sock *tp)
{
	if (tp->is_cwnd_limited)
		return true;
	return tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd < 2 * tp->max_packets_out;
}

static u32 undo_to_prior(struct sock *sk)
{
	struct flow *f = flow_of(sk);

	return f->tp.snd_cwnd > f->tp.prior_cwnd ? f->tp.snd_cwnd : f->tp.prior_cwnd;
}

/* --- reno --------------------------------------------------------------- */

static void reno_init(struct sock *sk)
{
	(void)sk;
}

static u32 reno_ssthresh(struct sock *sk)
{
	u32 half = flow_of(sk)->tp.snd_cwnd / 2;

	return half > 2 ? half : 2;
}

static void reno_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct tcp_sock *tp = &flow_of(sk)->tp;

	(void)ack;
	if (!is_cwnd_limited(tp))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, tp->snd_cwnd, acked);
}

/* --- cubic -------------------------------------------------------------- */

struct cubic {
	double most; /* W_max */
	double origin, k; /* of the curve, packets and s */
	double friendly; /* W_est */
	u64 epoch_ns; /* 0: the next ACK begins one */
	double delay_min_s;
	/* HyStart */
	bool found;
	u32 round_end; /* segment */
	u64 round_ns, last_ack_ns;
	double round_least_s;
	u32 samples;
};

static struct cubic *cubic_of(struct sock *sk)
{
	return flow_of(sk)->peer_state;
}

static void cubic_init(struct sock *sk)
{
	struct flow *f = flow_of(sk);

	free(f->peer_state);
	f->peer_state = calloc(1, sizeof(struct cubic));
	if (!f->peer_state)
		abort();
}

static void hystart_round(struct flow *f, struct cubic *c)
{
	c->round_ns = c->last_ack_ns = engine_now_ns;
	c->round_end = f->nxt;
	c->round_least_s = INFINITY;
	c->samples = 0;
}

static double hystart_rise_s(const struct cubic *c)
{
	return fmin(fmax(c->delay_min_s / 8, HYSTART_RISE_MIN_S), HYSTART_RISE_MAX_S);
}

static void hystart(struct flow *f, struct cubic *c, double rtt_s)
{
	double train_s;

	if (index_after(f->una, c->round_end))
		hystart_round(f, c);
	if (engine_now_ns - c->last_ack_ns <= (u64)(HYSTART_ACK_GAP_S * 1e9)) {
		c->last_ack_ns = engine_now_ns;
		train_s = (double)(engine_now_ns - c->round_ns) / 1e9;
		/* a paced flow spreads its packets over half of the round trip by itself */
		if (train_s > (sock_of(f)->sk_pacing_status ? c->delay_min_s : c->delay_min_s / 2))
			c->found = true;
	}
	c->round_least_s = fmin(c->round_least_s, rtt_s);
	if (c->samples < HYSTART_SAMPLES)
		c->samples++;
	else if (c->round_least_s > c->delay_min_s + hystart_rise_s(c))
		c->found = true;
	if (c->found)
		f->tp.snd_ssthresh = f->tp.snd_cwnd;
}

static void cubic_epoch(struct cubic *c, double window)
{
	c->epoch_ns = engine_now_ns;
	c->friendly = window;
	c->origin = fmax(window, c->most);
	c->k = window < c->most ? cbrt((c->most - window) / CUBIC_C) : 0;
}

/* ACKs for one packet of growth */
static u32 cubic_count(struct cubic *c, double window, u32 acked)
{
	double t, target, count;

	if (!c->epoch_ns)
		cubic_epoch(c, window);
	t = (double)(engine_now_ns - c->epoch_ns) / 1e9 + c->delay_min_s;
	target = c->origin + CUBIC_C * pow(t - c->k, 3);
	count = target > window ? window / (target - window) : 100 * window;
	if (c->most == 0 && count > 20)
		count = 20; /* no loss yet: 5 % per round trip */
	c->friendly += CUBIC_FRIENDLY * acked / window;
	if (c->friendly > window)
		count = fmin(count, window / (c->friendly - window));
	return (u32)fmin(fmax(count, 2), 1e6);
}

static void cubic_cong_avoid(struct sock *sk, u32 ack, u32 acked)
{
	struct flow *f = flow_of(sk);
	struct tcp_sock *tp = &f->tp;
	struct cubic *c = cubic_of(sk);
	double rtt_s = tp->rack.rtt_us / 1e6;

	(void)ack;
	if (rtt_s > 0 && (c->delay_min_s == 0 || rtt_s < c->delay_min_s))
		c->delay_min_s = rtt_s;
	if (!c->found && tp->snd_cwnd < tp->snd_ssthresh && tp->snd_cwnd >= HYSTART_LOW_WINDOW &&
	    rtt_s > 0)
		hystart(f, c, rtt_s);
	if (!is_cwnd_limited(tp))
		return;
	if (tp->snd_cwnd < tp->snd_ssthresh)
		acked = tcp_slow_start(tp, acked);
	if (acked)
		tcp_cong_avoid_ai(tp, cubic_count(c, tp->snd_cwnd, acked), acked);
}

static u32 cubic_ssthresh(struct sock *sk)
{
	struct cubic *c = cubic_of(sk);
	double window = flow_of(sk)->tp.snd_cwnd;
	u32 to = (u32)(window * CUBIC_BETA);

	c->epoch_ns = 0;
	c->most = window < c->most ? window * (1 + CUBIC_BETA) / 2 : window;
	return to > 2 ? to : 2;
}

static void cubic_event(struct sock *sk, enum tcp_ca_event event)
{
	struct cubic *c = cubic_of(sk);
	u64 idle_ns = engine_now_ns - flow_of(sk)->last_sent_ns;

	if (event == CA_EVENT_TX_START && c->epoch_ns && idle_ns > 0)
		c->epoch_ns = c->epoch_ns + idle_ns < engine_now_ns ? c->epoch_ns + idle_ns
								    : engine_now_ns;
}

static void cubic_state(struct sock *sk, u8 state)
{
	struct cubic *c = cubic_of(sk);

	if (state != TCP_CA_Loss)
		return;
	*c = (struct cubic){ 0 };
	hystart_round(flow_of(sk), c);
}

static const struct controller peers[] = {
	{
		.name = "reno",
		.init = reno_init,
		.ssthresh = reno_ssthresh,
		.cong_avoid = reno_cong_avoid,
		.undo_cwnd = undo_to_prior,
	},
	{
		.name = "cubic",
		.init = cubic_init,
		.ssthresh = cubic_ssthresh,
		.cong_avoid = cubic_cong_avoid,
		.undo_cwnd = undo_to_prior,
		.cwnd_event = cubic_event,
		.set_state = cubic_state,
	},
};

const struct controller *peer_find(const char *name)
{
	for (size_t i = 0; i < sizeof(peers) / sizeof(peers[0]); i++)
		if (strcmp(peers[i].name, name) == 0)
			return &peers[i];
	return NULL;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * The iterator of `ccbpf renice --download`: it puts the receive window of sockets that are
 * connected in the background, and takes it back.
 *
 *	for each TCP socket of one network namespace that is selected (kern/select.bpf.h)
 *		hold	its state into the map `receives` of bpf/rx_moved.bpf.c, and the callbacks
 *			on that make the kernel call that program for each segment that is sent
 *		let go	the other way round, and the window opens at once (kern/release.bpf.h)
 *
 * The kernel holds the lock of the socket meanwhile.
 *
 *  1. TCP_BPF_SOCK_OPS_CB_FLAGS switches callbacks on from outside of a sockops program since
 *     Linux 6.12; before, the kernel refuses it, and the loader does not come so far.
 *  2. A connection for which a program asks for HDR_OPT_LEN_CB already is left to that, as in
 *     kern/receive.bpf.h.
 *  3. What was advertised before stays: the window yields when that was used up.
 *  4. Namespaces, skipped sockets, and records that do not fit: as bpf/renice.bpf.c has them.
 */
#include "kern/release.bpf.h"
#include "kern/select.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define RCV_SHUTDOWN 1 /* include/net/sock.h: the application reads no more */

static __always_inline bool can_receive(struct tcp_sock *tp)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;

	return state_in(&sk->__sk_common,
			1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 | 1 << TCP_FIN_WAIT2) &&
	       !(sk->sk_shutdown & RCV_SHUTDOWN);
}

static __always_inline __u16 refused(struct ccbpf_renice_record *out, int error)
{
	out->error = error;
	return CCBPF_RENICE_REFUSED;
}

static __always_inline __u16 hold(struct tcp_sock *tp, struct ccbpf_renice_record *out,
				  int callbacks)
{
	struct receive *r;
	int err;

	if (callbacks & BPF_SOCK_OPS_WRITE_HDR_OPT_CB_FLAG)
		return CCBPF_RENICE_ELSEWHERE;
	if (!sock_timestamps(tp))
		return CCBPF_RENICE_UNSTAMPED;
	if (config.look)
		return CCBPF_RENICE_WOULD_MOVE;
	r = bpf_sk_storage_get(&receives, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!r)
		return refused(out, -12 /* ENOMEM */);
	r->key = out->cookie;
	r->most = RX_MOST;
	r->counted = payload(tp);
	err = release_call_for(tp, callbacks | RECEIVE_CALLBACKS);
	if (!err)
		return CCBPF_RENICE_MOVED;
	bpf_sk_storage_delete(&receives, tp);
	return refused(out, err);
}

static __always_inline __u16 let_go(struct tcp_sock *tp, struct ccbpf_renice_record *out,
				    struct receive *r)
{
	int err;

	if (config.look)
		return CCBPF_RENICE_WOULD_MOVE;
	err = release(tp, r->rx.started, r->most);
	return err ? refused(out, err) : CCBPF_RENICE_MOVED;
}

static __always_inline __u16 act(struct tcp_sock *tp, struct ccbpf_renice_record *out)
{
	const struct sock_common *c = (void *)tp;
	struct receive *r = receive_of(tp);
	int callbacks, err;

	if (listens(c))
		return CCBPF_RENICE_LISTENS;
	if (connects(c))
		return CCBPF_RENICE_CONNECTS;
	if (!!r != !!config.off)
		return CCBPF_RENICE_HAS_IT;
	if (r)
		return let_go(tp, out, r);
	err = bpf_getsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &callbacks, sizeof(callbacks));
	return err ? refused(out, err) : hold(tp, out, callbacks);
}

SEC("iter/tcp")
int renice_rx(struct bpf_iter__tcp *ctx)
{
	struct sock_common *c = ctx->sk_common;
	struct ccbpf_renice_record record = {};
	struct tcp_sock *tp = c ? bpf_skc_to_tcp_sock(c) : NULL;

	if (!tp || !(can_receive(tp) || connects(c) || listens(c)) || !selected(tp, &record))
		return 0;
	if (!is_full(ctx->meta->seq))
		record.verdict = act(tp, &record);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

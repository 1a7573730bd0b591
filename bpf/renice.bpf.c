// SPDX-License-Identifier: GPL-2.0-only
/*
 * The iterator of `ccbpf renice`: it gives another congestion controller to sockets that are
 * connected.
 *
 *	for each TCP socket of one network namespace
 *		no full socket (TIME_WAIT, a request) ......... left alone, no record
 *		not selected (struct ccbpf_renice_config) ..... left alone, no record
 *		listens, or its handshake is not over ......... left alone, a record
 *		can still send ................................ moved, a record
 *		all others .................................... left alone, no record
 *
 * The kernel holds the lock of the socket meanwhile, so no ACK is processed between the old
 * controller's release() and the new one's init(). init() is called in the middle of a
 * transfer: window and ssthresh are those of the old controller, and icsk_ca_priv is zeroed.
 *
 *  1. The namespace is that of the process that opens the iterator.
 *  2. Before Linux 6.17 a socket may be skipped or repeated where the kernel's hash table
 *     changes meanwhile. The loader repeats the walk until nothing is left to move, and knows
 *     the sockets by their cookies.
 *  3. If a record does not fit into the buffer, the kernel visits the socket again after the
 *     buffer was read. The socket is not moved at the first visit: its record would be lost.
 *  4. The kernel does not check in BPF whether the process may select a restricted controller.
 *     The loader asks the kernel with a socket of its own.
 *  5. A listener's controller would be inherited by later connections, and a socket whose
 *     handshake is not over would run init() before ECN and the options are agreed.
 */
#include "kern/select.bpf.h"

char _license[] SEC("license") = "GPL";

static __always_inline bool can_send(const struct sock_common *c)
{
	return state_in(c, 1 << TCP_ESTABLISHED | 1 << TCP_FIN_WAIT1 | 1 << TCP_CLOSE_WAIT |
				   1 << TCP_LAST_ACK | 1 << TCP_CLOSING);
}

static __always_inline __u16 move(struct tcp_sock *tp, struct ccbpf_renice_record *out)
{
	if (same_name(out->from, config.to))
		return CCBPF_RENICE_HAS_IT;
	if (config.look)
		return CCBPF_RENICE_WOULD_MOVE;
	out->error = bpf_setsockopt(tp, SOL_TCP, TCP_CONGESTION, (void *)config.to,
				    CCBPF_RENICE_NAME_LEN);
	return out->error ? CCBPF_RENICE_REFUSED : CCBPF_RENICE_MOVED;
}

static __always_inline __u16 act(struct tcp_sock *tp, struct ccbpf_renice_record *out)
{
	const struct sock_common *c = (void *)tp;

	if (listens(c))
		return CCBPF_RENICE_LISTENS;
	return connects(c) ? CCBPF_RENICE_CONNECTS : move(tp, out);
}

SEC("iter/tcp")
int renice(struct bpf_iter__tcp *ctx)
{
	struct sock_common *c = ctx->sk_common;
	struct ccbpf_renice_record record = {};
	struct tcp_sock *tp = c ? bpf_skc_to_tcp_sock(c) : NULL;

	if (!tp || !(can_send(c) || connects(c) || listens(c)) || !selected(tp, &record))
		return 0;
	if (!is_full(ctx->meta->seq))
		record.verdict = act(tp, &record);
	bpf_seq_write(ctx->meta->seq, &record, sizeof(record));
	return 0;
}

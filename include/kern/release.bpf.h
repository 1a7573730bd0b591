/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * How an iterator lets go of a socket whose receive window is held (kern/receive.bpf.h): the window
 * opens at once, nothing of ours is called for its segments any more, and nothing is remembered. So
 * whatever program held it leaves it alone from then on, also where that program stays.
 *
 * Before Linux 6.12 callbacks cannot be switched off from outside of a sockops program. There they
 * stay on; without what is remembered they do nothing.
 */
#ifndef CCBPF_KERN_RELEASE_BPF_H
#define CCBPF_KERN_RELEASE_BPF_H

#include "kern/flows.bpf.h"
#include "kern/receives.bpf.h"

#define TCP_BPF_SOCK_OPS_CB_FLAGS 1008 /* include/uapi/linux/bpf.h */

/* Switch callbacks on, or off. Returns 0 or -errno. */
static __always_inline int release_call_for(struct tcp_sock *tp, int callbacks)
{
	return bpf_setsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &callbacks,
			      sizeof(callbacks));
}

/* `held`: its window may be small. `most`: bytes up to which it opens. Returns 0 or -errno. */
static __always_inline int release(struct tcp_sock *tp, bool held, u32 most)
{
	int clamp = most, callbacks, err = 0;
	u64 key = bpf_get_socket_cookie(tp);

	if (!bpf_getsockopt(tp, SOL_TCP, TCP_BPF_SOCK_OPS_CB_FLAGS, &callbacks, sizeof(callbacks)))
		err = release_call_for(tp, callbacks & ~RECEIVE_OURS);
	if (!err && held)
		err = bpf_setsockopt(tp, SOL_TCP, TCP_WINDOW_CLAMP, &clamp, sizeof(clamp));
	if (err)
		return err;
	bpf_map_delete_elem(&flows, &key);
	bpf_sk_storage_delete(&receives, tp);
	return 0;
}

#endif

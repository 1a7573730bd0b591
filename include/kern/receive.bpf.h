/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What bpf/rx_lp.bpf.c remembers of a connection that receives in the background.
 */
#ifndef CCBPF_KERN_RECEIVE_BPF_H
#define CCBPF_KERN_RECEIVE_BPF_H

#include "kern/socket.bpf.h"
#include "law/rx_window.h"

#define TCP_WINDOW_CLAMP 10 /* include/uapi/linux/tcp.h */

struct receive {
	struct rx rx;
	u64 key; /* of its record in `flows`: the socket's cookie, which is no address */
	u64 counted; /* bytes that are in the account */
	u64 held_us;
	u32 published_us; /* our clock */
	u32 halves, leasts, losses; /* reactions */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct receive);
} receives SEC(".maps");

#endif

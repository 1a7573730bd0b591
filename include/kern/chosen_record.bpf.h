/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What bpf/chosen.bpf.c and bpf/chosen_tcp.bpf.c write about a socket that a program of ours
 * remembers.
 */
#ifndef CCBPF_KERN_CHOSEN_RECORD_BPF_H
#define CCBPF_KERN_CHOSEN_RECORD_BPF_H

#include "ccbpf/rule.h"
#include "kern/compat.bpf.h"
#include <bpf/bpf_helpers.h>

/* `first`: the first member of the storage: the rule's id, if a rule holds the receive window. */
static __always_inline void chosen_write(struct seq_file *to, struct sock *sk, __u32 first)
{
	struct ccbpf_chosen_record record = {};

	record.flow = (__u64)(unsigned long)sk; /* flow_key() of kern/flows.bpf.h */
	record.cookie = sk->__sk_common.skc_cookie.counter;
	record.rule = first;
	bpf_seq_write(to, &record, sizeof(record));
}

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* The yardstick of `make bench` for nf_red: a tc program that does nothing. */
#include "vmlinux.h"
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

SEC("tc")
int empty_tc(struct __sk_buff *ctx)
{
	return -1; /* TC_ACT_UNSPEC */
}

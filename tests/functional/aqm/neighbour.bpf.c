// SPDX-License-Identifier: GPL-2.0-only
/* Other people's tc programs, for the tests of nf_red. */
#include "vmlinux.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

#define TC_ACT_UNSPEC (-1)
#define TC_ACT_OK 0
#define TC_ACT_SHOT 2
#define OF 200 /* packets, of which one is lost */
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88a8

char _license[] SEC("license") = "GPL";

__u64 seen SEC(".data.seen") = 0;

SEC("tc/pass")
int pass(struct __sk_buff *ctx)
{
	__sync_fetch_and_add(&seen, 1);
	return TC_ACT_UNSPEC;
}

/* The end of the way: no program behind this one sees the packet. */
SEC("tc/ok")
int ok(struct __sk_buff *ctx)
{
	__sync_fetch_and_add(&seen, 1);
	return TC_ACT_OK;
}

/* A path that loses packets, now and then. */
SEC("tc/lossy")
int lossy(struct __sk_buff *ctx)
{
	return __sync_fetch_and_add(&seen, 1) % OF == OF - 1 ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

/* One tag, accelerated. */
SEC("tc/vlan")
int vlan(struct __sk_buff *ctx)
{
	bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), 100);
	return TC_ACT_UNSPEC;
}

/* One tag in the packet and one accelerated. */
SEC("tc/qinq")
int qinq(struct __sk_buff *ctx)
{
	bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021Q), 100);
	bpf_skb_vlan_push(ctx, bpf_htons(ETH_P_8021AD), 200);
	return TC_ACT_UNSPEC;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * A unit of systemd in the background: a sockops program that is pinned, one for each controller,
 * and that systemd attaches to a unit's cgroup where a line of the unit names the pin
 * (BPFProgram=sock_ops:PATH, since systemd 249). It gives the connections of that cgroup, and of
 * those below it, the controller (kern/choose.bpf.h).
 *
 * It names the controller and nothing else, so it goes on when the controller is disabled and
 * enabled again; meanwhile connections have their default.
 *
 * Cost: nothing per packet; per connection the storage that remembers it.
 */
#include "ccbpf/rule.h"
#include "kern/choose.bpf.h"
#include "kern/chosen.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct ccbpf_unit unit SEC(".rodata.unit") = { .abi = CCBPF_RULE_ABI };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ccbpf_choice_counts);
} unit_counts SEC(".maps");

SEC("sockops")
int ccbpf_unit(struct bpf_sock_ops *ctx)
{
	struct ccbpf_choice_counts *counts;
	struct ccbpf_choice choice;
	struct tcp_sock *tp;
	u32 zero = 0;

	if (ctx->op != BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB &&
	    ctx->op != BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB)
		return 1;
	tp = choose_socket(ctx);
	counts = bpf_map_lookup_elem(&unit_counts, &zero);
	if (!tp || !counts)
		return 1;
	for (int i = 0; i < CCBPF_NAME_LEN; i++)
		choice.controller[i] = unit.choice.controller[i];
	choice.flags = unit.choice.flags;
	choice.dscp = CCBPF_DSCP_KEEP;
	if (choose(ctx, tp, &choice, counts))
		chosen_remember(tp, 0);
	return 1;
}

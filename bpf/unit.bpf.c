// SPDX-License-Identifier: GPL-2.0-only
/*
 * A unit of systemd in the background: a sockops program that is pinned, one for each controller,
 * and that systemd attaches to a unit's cgroup where a line of the unit names the pin
 * (BPFProgram=sock_ops:PATH, since systemd 249). It gives the connections of that cgroup, and of
 * those below it, the controller (kern/choose.bpf.h). Another pin, with CCBPF_CHOICE_DOWNLOAD,
 * holds their receive windows (kern/receive.bpf.h).
 *
 * It names the controller and nothing else, so it goes on when the controller is disabled and
 * enabled again; meanwhile connections have their default.
 *
 * Cost: nothing per packet; per connection the storage that remembers it. Downloads also have
 * the cost of kern/receive.bpf.h.
 */
#include "kern/choose.bpf.h"
#include "kern/chosen.bpf.h"
#include "kern/receive.bpf.h"

char LICENSE[] SEC("license") = "GPL";

const volatile struct ccbpf_unit unit SEC(".rodata.unit") = { .abi = CCBPF_RULE_ABI };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ccbpf_choice_counts);
} unit_counts SEC(".maps");

/* Not inline, for the stack of its caller. */
static __noinline int established(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
				  struct ccbpf_choice_counts *counts)
{
	bool again = choose_is_made(tp) && choose_again(tp, chosen_before(tp));
	struct ccbpf_choice choice;

	if (unit.choice.flags & CCBPF_CHOICE_DOWNLOAD)
		receive_begin(ctx, tp, 0, counts);
	for (int i = 0; i < CCBPF_NAME_LEN; i++)
		choice.controller[i] = unit.choice.controller[i];
	choice.flags = unit.choice.flags;
	choice.dscp = CCBPF_DSCP_KEEP;
	if (choose(ctx, tp, &choice, counts, again))
		chosen_remember(tp);
	return 0;
}

SEC("sockops")
int ccbpf_unit(struct bpf_sock_ops *ctx)
{
	struct tcp_sock *tp = choose_socket(ctx);
	struct ccbpf_choice_counts *counts;
	struct receive *r;
	u32 zero = 0;

	counts = bpf_map_lookup_elem(&unit_counts, &zero);
	if (!tp || !counts)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		if (unit.choice.flags & CCBPF_CHOICE_DOWNLOAD)
			receive_at_connect(ctx, tp);
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ctx, tp, counts);
		break;
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
		r = receive_of(tp);
		if (r && ctx->args[0] != BPF_WRITE_HDR_TCP_CURRENT_MSS &&
		    receive_segment(ctx, tp, r, CCBPF_RECEIVED_BY_UNIT, NULL))
			choose_count(counts, receivers);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		receive_state(ctx, tp, NULL);
		break;
	}
	return 1;
}

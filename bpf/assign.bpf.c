// SPDX-License-Identifier: GPL-2.0-only
/*
 * Standing rules: a sockops program at the root cgroup that gives connections the controller of
 * the first rule that matches (kern/choose.bpf.h), when they are established, or holds their
 * receive window (kern/receive.bpf.h), or both.
 *
 * The loader sorts the rules in the order in which they win, and makes sets of them. A set is a
 * string of bits, one for each rule:
 *
 *   prefixes      an address -> the rules whose prefix contains it, and those without a prefix
 *                 (kern/rule_prefixes.bpf.h)
 *   cgroup_ids    a cgroup -> the rules that name it
 *   cgroup_names  a systemd unit -> the rules that name it, whichever cgroup it has today
 *   looked        a socket's cgroup -> its rules: those without a cgroup (looked_first), and those
 *                 of itself and of all above. It is filled when a cgroup is met for the first time.
 *
 *   candidates = prefixes[remote address] & looked[cgroup of the socket]
 *
 * The ports, the network namespace and the controller of the candidates are compared one by one, in
 * order, until one matches.
 *
 * A condition on the controller (`--from`) means the one that the connection has when it is established:
 * by a setsockopt() before, by its listener, by a route's `congctl`, by the sysctl, or by the program
 * of a run or unit, which the kernel calls before this one. At connect the route's is not in force
 * yet. So if such a rule may win, the SYN gets no DSCP, which could not be taken back.
 *
 * Nothing changes in these maps while the program is in use: another set of rules is another
 * program, which replaces this one in its link at once. The storage of the sockets stays. So a
 * program without a rule for downloads opens the windows that the program before it held.
 *
 * Cost: nothing per packet; per connection up to nine look-ups, one for each candidate; for the first one of
 * a cgroup two more for each cgroup above it (kern/rule_cgroups.bpf.h). Where a controller is given
 * there are two more, of the flow's record, which remembers the rule, and of the rule's
 * totals. If a rule has a DSCP or is for downloads, the rule is also looked for at connect, because
 * the SYN carries the DSCP and the window scale. Downloads also have the cost of kern/receive.bpf.h.
 */
#include "kern/choose.bpf.h"
#include "kern/receive.bpf.h"
#include "kern/rule_cgroups.bpf.h"
#include "kern/rule_prefixes.bpf.h"
#include "kern/ruled.bpf.h"

char LICENSE[] SEC("license") = "GPL";

/* What the loader fills in. */
const volatile struct {
	u32 abi;
	u32 rules; /* how many */
	u32 marks; /* 1: one of them has a DSCP, which the SYN gets as well */
	u32 receives; /* 1: one is for downloads; 0: windows that are held are opened */
	u32 names; /* 1: one asks for the controller that the connection has */
	u32 next; /* the id of the next rule: sockets remember ids of rules that are no more */
} table SEC(".rodata.table") = { .abi = CCBPF_RULE_ABI };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1); /* as many as there are */
	__type(key, __u32);
	__type(value, struct ccbpf_rule);
} rules SEC(".maps");

struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, CCBPF_RULES_MOST);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct ccbpf_choice_counts);
} rule_counts SEC(".maps");

/* The candidates, one after the other. */
struct search {
	struct ccbpf_rule_set *to, *of; /* rules of the address, of the cgroup */
	u64 netns_cookie;
	u32 local_port, remote_port;
	u64 controller[CCBPF_NAME_LEN / sizeof(u64)]; /* its name, zeroes behind it */
	struct position {
		u64 words; /* with candidates, after `word` */
		u64 left; /* candidates of `word` */
		u32 word;
		u32 found; /* number of the rule that matches; CCBPF_RULES_MOST: none */
		u32 by_name; /* 1: a rule was met for which only the controller decides */
	} at;
};

/* As getsockopt(TCP_CONGESTION) reads it, which takes 200 ns longer. */
static __always_inline void read_controller(struct tcp_sock *tp, u64 *name)
{
	const u64 *words = (const void *)tp->inet_conn.icsk_ca_ops->name;

	name[0] = words[0];
	name[1] = words[1];
}

static __always_inline bool matches(const struct search *search, const struct ccbpf_rule *rule)
{
	u32 conditions = rule->conditions;

	if (conditions & CCBPF_RULE_LOCAL_PORT &&
	    (search->local_port < rule->local_first || search->local_port > rule->local_last))
		return false;
	if (conditions & CCBPF_RULE_REMOTE_PORT &&
	    (search->remote_port < rule->remote_first || search->remote_port > rule->remote_last))
		return false;
	return !(conditions & CCBPF_RULE_NETNS) || search->netns_cookie == rule->netns_cookie;
}

static __always_inline bool is_under(const struct search *search, const char *name)
{
	return !__builtin_memcmp(search->controller, name, sizeof(search->controller));
}

/* Go on to the next word, or try the next candidate of this one. Returns 1 at the end. */
static long search_step(u32 step, struct search *search)
{
	struct ccbpf_rule *rule;
	u32 number, word;

	if (!search->at.left) {
		if (!search->at.words)
			return 1;
		word = __builtin_ctzll(search->at.words);
		if (word >= WORDS)
			return 1;
		search->at.words &= search->at.words - 1;
		search->at.left = search->to->words[word] & search->of->words[word];
		search->at.word = word;
		return 0;
	}
	number = search->at.word * 64 + __builtin_ctzll(search->at.left);
	search->at.left &= search->at.left - 1;
	rule = bpf_map_lookup_elem(&rules, &number);
	if (!rule || !matches(search, rule))
		return 0;
	if (rule->conditions & CCBPF_RULE_FROM) {
		search->at.by_name = 1;
		if (!is_under(search, rule->from))
			return 0;
	}
	search->at.found = number;
	return 1;
}

/* `*by_name`: with another controller another rule may win. */
static __always_inline struct ccbpf_rule *find(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					       bool *by_name)
{
	struct sock *sk = &tp->inet_conn.icsk_inet.sk;
	struct cgroup *cgroup = sk->sk_cgrp_data.cgroup;
	struct search search = {};

	search.to = rules_to(sk);
	if (!search.to || !cgroup)
		return NULL;
	search.of = rules_of(cgroup, sk);
	if (!search.of)
		return NULL;
	search.local_port = sk->__sk_common.skc_num;
	search.remote_port = __builtin_bswap16(sk->__sk_common.skc_dport);
	search.netns_cookie = bpf_get_netns_cookie(ctx);
	if (table.names)
		read_controller(tp, search.controller);
	/* Linux 6.1 follows a step once, with what it knows of these values at the beginning, and
	 * removes code that these do not reach. So it must know nothing of them. */
	search.at.words = search.to->filled & search.of->filled;
	search.at.left = law_forget(0);
	search.at.word = law_forget(0);
	search.at.found = law_forget(CCBPF_RULES_MOST);
	search.at.by_name = law_forget(0);
	bpf_loop(CCBPF_RULES_MOST + WORDS + 1, search_step, &search, 0);
	*by_name = search.at.by_name;
	return bpf_map_lookup_elem(&rules, &search.at.found);
}

/* --- what is done ----------------------------------------------------------------- */

/* The controller's init() has run within choose(), and made a record, unless the controller was the
 * default: then it runs after this program. */
static __always_inline void remember(struct tcp_sock *tp, const struct ccbpf_rule *rule)
{
	struct ccbpf_chosen chosen = { .rule = rule->id, .made_ns = rule->made_ns };
	struct ccbpf_flow *f = NULL;

	if (choose_has_begun(tp))
		f = flow_of(&tp->inet_conn.icsk_inet.sk);
	if (f)
		ruled_begin(f, &chosen);
	else
		ruled_keep(tp, &chosen);
}

/* Does the connection still have what a rule gave to the one before it? Established, it is of one rule
 * or of none: what is remembered of the other goes. */
static __always_inline bool had_a_rule(struct tcp_sock *tp, bool connecting)
{
	bool again;

	if (law_likely(!choose_is_made(tp)))
		return false;
	again = choose_again(tp, ruled_before(tp));
	if (!connecting)
		bpf_sk_storage_delete(&ruled, tp);
	return again;
}

/* Do what the winning rule says; at connect only what the SYN must carry. */
static __always_inline void obey(struct bpf_sock_ops *ctx, struct tcp_sock *tp, bool connecting)
{
	bool receives, by_name = false, again = had_a_rule(tp, connecting);
	struct ccbpf_rule *rule = find(ctx, tp, &by_name);
	struct ccbpf_choice_counts *counts;
	u32 id;

	if (!rule) {
		if (!connecting)
			receive_not(ctx, tp);
		return;
	}
	id = rule->id;
	counts = bpf_map_lookup_elem(&rule_counts, &id);
	if (!counts)
		return;
	receives = table.receives && rule->choice.flags & CCBPF_CHOICE_DOWNLOAD;
	if (connecting) {
		if (!by_name)
			choose_at_connect(ctx, tp, &rule->choice, counts, again);
		if (receives)
			receive_at_connect(ctx, tp);
		return;
	}
	if (choose(ctx, tp, &rule->choice, counts, again))
		remember(tp, rule);
	if (receives)
		receive_begin(ctx, tp, id, counts);
	else
		receive_not(ctx, tp);
	life_receive_rule(tp, rule->made_ns);
}

/* If the rule of a connection was removed, bpf/rx_open.bpf.c opens its window; what that does not find is
 * held as before while another rule is for downloads. */
static __always_inline void segment(struct bpf_sock_ops *ctx, struct tcp_sock *tp)
{
	struct receive *r = receive_of(tp);
	struct ccbpf_choice_counts *counts;
	u32 id;

	if (!r || ctx->args[0] == BPF_WRITE_HDR_TCP_CURRENT_MSS)
		return;
	if (!table.receives) {
		receive_end(ctx, tp, r, NULL);
		return;
	}
	if (!receive_segment(ctx, tp, r, CCBPF_RECEIVED_BY_RULE, NULL))
		return;
	id = r->rule;
	counts = bpf_map_lookup_elem(&rule_counts, &id);
	if (counts)
		choose_count(counts, receivers);
}

/* A connection begins, sends a segment, or changes its state. */
static __always_inline void attend(struct bpf_sock_ops *ctx, struct tcp_sock *tp)
{
	bool connecting = ctx->op == BPF_SOCK_OPS_TCP_CONNECT_CB;

	if (ctx->op == BPF_SOCK_OPS_HDR_OPT_LEN_CB)
		segment(ctx, tp);
	else if (ctx->op == BPF_SOCK_OPS_STATE_CB)
		receive_state(ctx, tp, NULL);
	else if (!connecting || table.marks || table.receives)
		obey(ctx, tp, connecting);
}

SEC("sockops")
int ccbpf_assign(struct bpf_sock_ops *ctx)
{
	struct tcp_sock *tp;

	switch (ctx->op) { /* most calls are for something else */
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_HDR_OPT_LEN_CB:
	case BPF_SOCK_OPS_STATE_CB:
		tp = choose_socket(ctx);
		if (tp)
			attend(ctx, tp);
	}
	return 1;
}

// SPDX-License-Identifier: GPL-2.0-only
/*
 * One command in the background: a sockops program at the cgroup of `ccbpf run`. It gives every
 * TCP connection of that cgroup, connecting or accepted, the controller of the run
 * (kern/choose.bpf.h), and keeps the account that `ccbpf run` shows at the end.
 *
 * The account is of the connections that got the controller:
 *
 *   bytes       payload. When a connection leaves ESTABLISHED because our side closes it, the
 *               kernel still sends what the application wrote: bytes = acknowledged + queued. At
 *               its end that is corrected to what was acknowledged, which is less after a reset.
 *   sending_ns  once per round trip (RTT_CB), the time since the round trip before. A gap of
 *               more than GAP_MOST_NS is a pause of the application and does not count.
 *   held_ns     the same time where the controller's record in `flows` says that it holds the
 *               window back: after an early indication (inference), or below small_window.
 *
 * Cost: nothing per packet; per round trip one look-up of the storage and one of `flows`.
 */
#include "ccbpf/rule.h"
#include "kern/choose.bpf.h"
#include "kern/flows.bpf.h"
#include "law/small_window.h"

char LICENSE[] SEC("license") = "GPL";

#define GAP_MOST_NS (SMALL_GAP_MAX_US * 1000ULL) /* more is a pause of the application */

const volatile struct ccbpf_run run SEC(".rodata.run") = { .abi = CCBPF_RULE_ABI };

struct {
	__uint(type, BPF_MAP_TYPE_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ccbpf_run_counts);
} counts SEC(".maps");

/* What the program remembers of a connection. */
struct account {
	u64 acked_before; /* bytes acknowledged before our controller; the SYN is one */
	u64 bytes; /* bytes that the counts already have */
	u64 last_ns; /* of the last round trip */
	u32 key; /* the kernel's, of the controller that the connection got */
	u32 ended; /* 1: the socket may be connected anew */
};

struct {
	__uint(type, BPF_MAP_TYPE_SK_STORAGE);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, int);
	__type(value, struct account);
} accounts SEC(".maps");

static __always_inline struct ccbpf_choice choice_of_run(void)
{
	struct ccbpf_choice choice;

	for (int i = 0; i < CCBPF_NAME_LEN; i++)
		choice.controller[i] = run.choice.controller[i];
	choice.flags = run.choice.flags;
	choice.dscp = run.choice.dscp;
	return choice;
}

/* Of a connection that runs. */
static __always_inline struct account *account_of(struct tcp_sock *tp)
{
	struct account *account = bpf_sk_storage_get(&accounts, tp, NULL, 0);

	return account && !account->ended ? account : NULL;
}

/* Does a socket that connects anew still have the controller of the run? */
static __always_inline bool had_it(struct tcp_sock *tp)
{
	struct account *account;

	if (!choose_is_made(tp))
		return false;
	account = bpf_sk_storage_get(&accounts, tp, NULL, 0);
	return account && choose_again(tp, account->key);
}

static __always_inline void established(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					struct ccbpf_run_counts *to)
{
	struct ccbpf_choice choice = choice_of_run();
	struct account *account;

	if (!choose(ctx, tp, &choice, &to->choice, had_it(tp))) {
		if (choose_is_made(tp)) /* what is remembered is of the connection before */
			bpf_sk_storage_delete(&accounts, tp);
		return;
	}
	choose_count(to, opened);
	account = bpf_sk_storage_get(&accounts, tp, NULL, BPF_SK_STORAGE_GET_F_CREATE);
	if (!account) {
		choose_count(to, uncounted);
		return;
	}
	account->acked_before = tp->bytes_acked;
	account->bytes = 0;
	account->last_ns = bpf_ktime_get_ns();
	account->key = sock_controller_key(tp);
	account->ended = 0;
	bpf_sock_ops_cb_flags_set(ctx, ctx->bpf_sock_ops_cb_flags | BPF_SOCK_OPS_STATE_CB_FLAG |
					       BPF_SOCK_OPS_RTT_CB_FLAG);
}

static __always_inline bool holds_back(const struct ccbpf_flow *f)
{
	return f->phase == CCBPF_PHASE_INFERENCE || f->phase == CCBPF_PHASE_SMALL;
}

static __always_inline void round_trip(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
				       struct ccbpf_run_counts *to)
{
	struct account *account = account_of(tp);
	u64 now_ns = bpf_ktime_get_ns(), passed_ns;
	struct ccbpf_flow *f;
	bool held;

	if (!account)
		return;
	passed_ns = now_ns - account->last_ns;
	account->last_ns = now_ns;
	f = flow_of((struct sock *)tp);
	held = f && holds_back(f);
	if (passed_ns > GAP_MOST_NS << held) /* between two pairs their RTT is on top */
		return;
	__sync_fetch_and_add(&to->sending_ns, passed_ns);
	if (held)
		__sync_fetch_and_add(&to->held_ns, passed_ns);
}

/* Has our side sent a FIN, and was it acknowledged? It counts as a byte. */
static __always_inline bool fin_acked(struct tcp_sock *tp, u32 old_state)
{
	return old_state != BPF_TCP_ESTABLISHED && old_state != BPF_TCP_CLOSE_WAIT &&
	       tp->snd_una == tp->write_seq;
}

static __always_inline void state_changed(struct bpf_sock_ops *ctx, struct tcp_sock *tp,
					  struct ccbpf_run_counts *to)
{
	struct account *account = account_of(tp);
	u32 old_state = ctx->args[0], state = ctx->args[1];
	u64 bytes;

	if (!account)
		return;
	bytes = tp->bytes_acked - account->acked_before;
	if (state == BPF_TCP_FIN_WAIT1 || state == BPF_TCP_LAST_ACK)
		bytes += tp->write_seq - tp->snd_una;
	else if (state != BPF_TCP_CLOSE)
		return;
	else if (fin_acked(tp, old_state))
		bytes--;
	__sync_fetch_and_add(&to->bytes, bytes - account->bytes);
	account->bytes = bytes;
	if (state != BPF_TCP_CLOSE)
		return;
	choose_count(to, closed);
	account->ended = 1;
}

SEC("sockops")
int ccbpf_run(struct bpf_sock_ops *ctx)
{
	struct tcp_sock *tp = choose_socket(ctx);
	struct ccbpf_choice choice;
	struct ccbpf_run_counts *to;
	u32 zero = 0;

	to = bpf_map_lookup_elem(&counts, &zero);
	if (!tp || !to)
		return 1;
	switch (ctx->op) {
	case BPF_SOCK_OPS_TCP_CONNECT_CB:
		choice = choice_of_run();
		choose_at_connect(ctx, tp, &choice, &to->choice, had_it(tp));
		break;
	case BPF_SOCK_OPS_ACTIVE_ESTABLISHED_CB:
	case BPF_SOCK_OPS_PASSIVE_ESTABLISHED_CB:
		established(ctx, tp, to);
		break;
	case BPF_SOCK_OPS_RTT_CB:
		round_trip(ctx, tp, to);
		break;
	case BPF_SOCK_OPS_STATE_CB:
		state_changed(ctx, tp, to);
		break;
	}
	return 1;
}

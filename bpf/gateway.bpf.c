// SPDX-License-Identifier: GPL-2.0-only
/*
 * Downloads of other hosts in the background: at the device towards the senders of a router, an access
 * point, or a host with containers or guests. Two tc programs lower the window field of the ACKs
 * that go out to what the receiver's law wants (law/rx_window.h), as RFC 9840 has it for a receiver.
 * Neither of the two ends knows of it.
 *
 *	in    SYN	 what the sender's end agrees to
 *	      data	 its arrival is remembered: time, TSval, TSecr, end
 *	out   SYN	 what the host's end agrees to, its window scale
 *	      ACK	 measure	which of the arrivals does it answer?
 *			 decide, act	rx_step()
 *			 set		the window field, and the checksum
 *			 publish	the record in `flows`, every 9 ms
 *	both  RST, FIN	 forget, where the host would (RFC 5961); also after a silence
 *
 * All packets pass, in order. Only the window field and the checksum of a segment change, and the
 * window only becomes smaller:
 *
 *  1. The field is what the host has written at the most. 0 stays 0.
 *  2. What was advertised is never taken back: the right edge that the sender saw is remembered.
 *     The window scale rounds it up, as the kernel does.
 *  3. A connection is left alone, and counted, whose SYNs were not both seen (the window scale is
 *     only there), or that does not use timestamps, or that a program of ccbpf on this host holds.
 *
 * Where it differs from a host that holds back its own windows (kern/receive.bpf.h):
 *
 *  1. The host may be a network away from us. So an ACK is matched with the data that it answers by its
 *     number, or by its first SACK block: 32 arrivals are remembered, what comes within a millisecond
 *     is one. A host that answers later than that shows no delays, and only losses reduce its window.
 *  2. Time stands still between arrivals: `now` is the arrival of the newest data that is answered.
 *     So a delayed ACK is as good as one at once.
 *  3. Whether data waits behind a hole, or had come before, is what SACK and D-SACK say.
 *  4. In SMALL the host does not know that a single segment has used up its window, and may delay the
 *     ACK of it: up to 40 ms for each packet on Linux.
 *
 * The table has room for 16384 connections. Those that were silent for 10 minutes, or for one without having
 * been agreed, are removed when a connection begins, at most every 10 s.
 */
#include "kern/gateway_life.bpf.h"

char _license[] SEC("license") = "GPL";

#define TC_ACT_UNSPEC (-1) /* include/uapi/linux/pkt_cls.h: what else is there decides */

/* --- what comes -------------------------------------------------------------------- */

SEC("tc")
int gateway_in(struct __sk_buff *ctx)
{
	struct segment s = {};
	struct gateway_connection *c;
	struct gateway_entry *entry;
	u64 now;

	if (!segment_read(ctx, &s, true))
		return TC_ACT_UNSPEC;
	if (s.flags & SYN) {
		meet(&s, false);
		return TC_ACT_UNSPEC;
	}
	entry = bpf_map_lookup_elem(&connections, &s.key);
	if (!entry) {
		if (s.payload && is_wanted(&s.key))
			count(unseen);
		return TC_ACT_UNSPEC;
	}
	c = &entry->of;
	if (part(&s, c, false))
		return TC_ACT_UNSPEC;
	now = bpf_ktime_get_ns();
	c->heard_ns = now;
	bpf_spin_lock(&entry->lock);
	sent(c, &s);
	if (!c->left && s.payload && s.options.stamped)
		arrive(c, &s, now / 1000);
	bpf_spin_unlock(&entry->lock);
	return TC_ACT_UNSPEC;
}

/* --- what goes out ------------------------------------------------------------------ */

static __always_inline u32 offered(const struct segment *s, const struct gateway_connection *c)
{
	return (u32)s->window << (c->scale & 15);
}

/*
 * What the law reads of an ACK. Returns whether the law decides on it: not on an older one that
 * comes late, nor while another CPU has one of this connection with the law. The first ACK only
 * tells where the window begins.
 */
static __noinline bool read_ack(struct gateway_entry *entry, const struct segment *s,
				struct rx_ack *a)
{
	struct gateway_connection *c = &entry->of;
	bool hole = options_hole(&s->options, s->ack), known, turn, advanced;
	struct gateway_arrival at = {};
	u32 end = s->ack;

	a->long_us = bpf_ktime_get_ns() / 1000;
	bpf_spin_lock(&entry->lock);
	if (!c->edge && !c->ack) {
		c->ack = s->ack;
		c->edge = s->ack + offered(s, c);
	}
	turn = !law_after(c->ack, s->ack);
	advanced = law_after(s->ack, c->ack);
	if (advanced) {
		c->received += s->ack - c->ack;
		c->ack = s->ack;
	}
	if (hole && !advanced)
		end = s->options.blocks[0].right;
	known = answered(c, end, &at);
	a->left = c->edge - s->ack;
	turn &= s->options.stamped && at.us && !c->deciding;
	if (turn) /* Only then: who has the turn gives it back without the lock. */
		c->deciding = 1;
	bpf_spin_unlock(&entry->lock);

	a->left = law_forget((s32)a->left < 0 ? 0 : a->left);
	if (!turn)
		return false;
	a->hole = hole;
	a->again = options_again(&s->options, s->ack);
	a->fresh = known && at.us != c->answered_us && (hole || advanced);
	/* The clock wraps: after 36 minutes without data the last answer would seem to be ahead. */
	if ((s32)(at.us - c->answered_us) > 0 || !c->answered_us ||
	    (u32)a->long_us - c->answered_us > LAW_S32_MAX)
		c->answered_us = at.us;
	a->now_us = c->answered_us;
	a->tsval = at.tsval;
	a->tsecr = at.tsecr;
	a->our_ts = s->options.tsval;
	a->rcv_nxt = s->ack;
	a->rtt_us = law_max(c->rtt_us, 1);
	return true;
}

/* Not static: the verifier goes through it once. */
__noinline int decide(struct rx *x, const struct rx_ack *a)
{
	return x && a ? rx_step(x, a) : 0;
}

/* Returns whether a program of ccbpf on this host holds the window of this, its own, connection. */
static __always_inline bool is_ours(struct __sk_buff *ctx)
{
	u64 cookie = bpf_get_socket_cookie(ctx);

	return cookie && bpf_map_lookup_elem(&flows, &cookie);
}

/* Not static: the verifier goes through it once. */
__noinline int publish(struct __sk_buff *ctx, const struct ccbpf_gateway_key *key,
		       struct gateway_connection *c)
{
	u32 passed_us;

	if (!key || !c)
		return 0;
	passed_us = c->answered_us - c->published_us;
	if (passed_us < PUBLISH_US)
		return 0;
	c->published_us = c->answered_us;
	if (rx_holds(gateway_law(c)) && passed_us <= GAP_MOST_US)
		c->held_us += passed_us;
	if (is_ours(ctx)) {
		c->left = 1;
		gateway_close(c);
		count(ours);
		return 0;
	}
	if (!gateway_fill(c) && !c->record)
		gateway_open(key, c, config.id, identity.netns);
	return 0;
}

/* Returns what the law wants, in bytes; what the host has offered, where it has no say (yet).
 * @turn: read_ack() */
static __always_inline u32 want(const struct segment *s, struct gateway_connection *c,
				const struct rx_ack *a, bool turn)
{
	struct rx *x = gateway_law(c);
	u32 verdict;

	if (!x->started && (!turn || c->received < LEAST_BYTES))
		return offered(s, c);
	if (!x->started) {
		rx_init(x, a);
		count(downloads);
	}
	if (!turn)
		return rx_window(x, a);
	verdict = decide(x, a);
	c->drains += verdict == RX_DRAINED;
	c->yields += verdict == RX_YIELDED;
	c->losses += verdict == RX_LOSS;
	return rx_window(x, a);
}

/* The field for a window of @bytes: not more than the host's, and no less than what was advertised
 * before. The edge is where the sender sees it, if it @takes this ACK. */
static __always_inline u16 advertise(struct gateway_entry *entry, const struct segment *s,
				     u32 bytes, bool takes)
{
	struct gateway_connection *c = &entry->of;
	u32 unit = 1 << (c->scale & 15), left, field;

	bpf_spin_lock(&entry->lock);
	left = c->edge - s->ack;
	if ((s32)left > 0 && left > bytes)
		bytes = left;
	field = law_min((bytes + unit - 1) >> (c->scale & 15), s->window);
	if (takes && law_after(s->ack + (field << (c->scale & 15)), c->edge))
		c->edge = s->ack + (field << (c->scale & 15));
	bpf_spin_unlock(&entry->lock);
	return field;
}

static __always_inline void answer(struct __sk_buff *ctx, const struct segment *s,
				   struct gateway_entry *entry)
{
	struct gateway_connection *c = &entry->of;
	struct rx_ack a = { .mss = law_max(c->mss, 1), .unit = 1 << (c->scale & 15) };
	bool takes = !c->sends || !law_after(s->ack, c->sent), turn, started;
	u32 bytes;
	u16 field;

	/* An ACK of more than was sent is forged, and the sender drops it; or data came that could not be
	 * read (fragments). So the law learns nothing of it, and its window is lowered as of any other. */
	turn = law_likely(takes) && read_ack(entry, s, &a);
	bytes = want(s, c, &a, turn);
	started = gateway_law(c)->started;
	if (started && turn)
		publish(ctx, &s->key, c);
	if (turn)
		c->deciding = 0;
	if (law_unlikely(c->left))
		return;
	field = advertise(entry, s, bytes, takes);
	if (!started)
		return;
	count(acks);
	if (field != s->window && segment_set_window(ctx, s, field))
		count(rewritten);
}

SEC("tc")
int gateway_out(struct __sk_buff *ctx)
{
	struct segment s = {};
	struct gateway_connection *c;
	struct gateway_entry *entry;

	if (!segment_read(ctx, &s, false))
		return TC_ACT_UNSPEC;
	if (s.flags & SYN) {
		meet(&s, true);
		return TC_ACT_UNSPEC;
	}
	entry = bpf_map_lookup_elem(&connections, &s.key);
	if (!entry)
		return TC_ACT_UNSPEC;
	c = &entry->of;
	c->heard_ns = bpf_ktime_get_ns();
	if ((s.flags & (ACK | RST)) == ACK && agree(c))
		answer(ctx, &s, entry);
	part(&s, c, true);
	return TC_ACT_UNSPEC;
}

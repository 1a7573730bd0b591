// SPDX-License-Identifier: GPL-2.0-only
/*
 * nf_red: the router's part of NF-TCP. At the egress of the device where the queue is, it
 * marks background traffic as soon as a queue begins.
 *
 * M. Arumaithurai, X. Fu, K. K. Ramakrishnan: "NF-TCP: A Network Friendly TCP Variant for
 * Background Delay-Insensitive Applications", NETWORKING 2011, section 3.1, figure 1, table 1
 * (thresholds), section 3.2 (probe packets).
 *
 *	class	   DSCP			 marked or dropped
 *	nf	   LE (1) and given ones RED, between 1 % and 50 % of the limit
 *	probe	   7 (ours)		 more than one packet waits, now
 *	standard   all others		 RED, between 90.667 % and 100 %, or never
 *
 *	packet -> look (DSCP, ECN) -> measure (queue, average) -> decide -> act
 *		  ECT: CE. Not ECT: dropped (7: deviation 7). Else: passed on, in order.
 *		  nf and probe where standard is due: dropped, ECT or not.
 *
 * RED is law/red.h. The queue is that of the device's qdisc: tc egress runs before the packet is
 * put into the qdisc, so the qdisc's backlog is what the packet meets. The qdisc is looked up for
 * every packet, so it may be replaced at any time.
 *
 * Deviations from the paper:
 *
 *  1. The queue's length is in bytes, because an skb may be many packets. For a probe "more
 *     than one packet" means more bytes than one packet of the device has (MTU and link
 *     header). A few ACKs that wait are no queue.
 *  2. The router's queue is not changed: one FIFO, or whatever qdisc is there. We mark or
 *     drop before it and never reorder; its own tail drop stays.
 *  3. The paper does not give the weight of the average: 1/16 of the limit in packets, at
 *     most RED's 512 (which it is at the paper's 7500 packets). With a buffer of one
 *     bandwidth-delay product that is 1/16 RTT, "feedback on time-scales of an RTT".
 *  4. Packets that are not IP pass, and count as standard.
 *  5. Where the standard class's RED takes packets, it takes those of all classes, and those
 *     of nf and probe are dropped: marks were not obeyed, or were removed on the way, and
 *     packets that nothing stops would push aside traffic that only reacts to loss (RFC
 *     7567, 4.2.1; RFC 3168, 7).
 *  6. 1 % of the paper's queue is 75 packets; of a home router's it is less than one. By
 *     default marks begin at no less than three packets: fewer are no queue but packets that
 *     came together, and a flow alone would leave a fifth of the link unused.
 *  7. Of the TCP packets of nf and probe that are due for a mark but are not ECT, a random half
 *     is dropped. A retransmission is never ECT (RFC 3168, 6.1.5): a flow that lost all of them
 *     would wait ever longer, until the foreground is gone, and then for as long again.
 */
#include "ccbpf/aqm.h"
#include "kern/compat.bpf.h"
#include "law/red.h"
#include <bpf/bpf_endian.h>
#include <bpf/bpf_helpers.h>

char _license[] SEC("license") = "GPL";

/* include/uapi/linux/pkt_cls.h, if_ether.h; include/net/sch_generic.h */
#define TC_ACT_UNSPEC (-1)
#define TC_ACT_SHOT 2
#define ETH_P_IP 0x0800
#define ETH_P_IPV6 0x86dd
#define ETH_P_8021Q 0x8100
#define ETH_P_8021AD 0x88a8
#define TCQ_F_MQROOT 8
#define TCQ_F_NOLOCK 0x100

#define ETH_TYPE_AT 12
#define VLAN_LEN 4
#define MOST_TAGS 2 /* tags in the packet; one more may be beside it, accelerated */

#define MOST_QUEUES 64 /* queues of mq that are read */
#define BLIND (1ull << 32) /* beside a sum of 32 bits */
/* qdiscs in one bucket of the hash table. The default qdiscs of classes are all in the same one. */
#define LONGEST_CHAIN 256

#define AT_MOST 255 /* where a header is looked for in the skb's linear part */
#define HEAD_LEN 12 /* of an IP header: DSCP, ECN, IPv4's checksum */
#define PROTOCOL_AT 9 /* of IPv4 */
#define NEXT_HEADER_AT 6 /* of IPv6 */
#define TCP 6
#define CE 3

_Static_assert(CCBPF_AQM_BUCKETS == RED_BUCKETS && CCBPF_AQM_WHOLE == RED_WHOLE &&
		       CCBPF_AQM_SHIFT_MOST == RED_SHIFT_MAX,
	       "the law's and the maps'");

const volatile struct ccbpf_aqm_identity
	identity SEC(".rodata.identity") = { .abi = CCBPF_AQM_ABI };
struct ccbpf_aqm_config config SEC(".data.config") = {};
struct ccbpf_aqm_state state SEC(".data.state") = {};

struct {
	__uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
	__uint(max_entries, 1);
	__type(key, __u32);
	__type(value, struct ccbpf_aqm_counts);
} counts SEC(".maps");

/* The functions that are not inline are not static either: so the verifier proves each of them
 * once, for any argument, and not again for every call. */

/* What we need to know of a packet. */
struct look {
	enum ccbpf_aqm_class class;
	u32 packets;
	u32 at; /* offset of the IP header */
	u16 type; /* ETH_P_IP, ETH_P_IPV6, or 0: no IP */
	u8 ecn;
	u8 head[HEAD_LEN];
};

static __always_inline bool is_vlan(u16 type)
{
	return type == ETH_P_8021Q || type == ETH_P_8021AD;
}

/* Find the IP header. Of two tags one is in the packet (a bridge, bpf_skb_vlan_push),
 * and the kernel's own offset is that tag's: bpf_skb_ecn_set_ce(), which goes by
 * it, would write there. Behind tags we look for ourselves. */
static __always_inline void look_for_ip(struct __sk_buff *ctx, struct look *look)
{
	struct sk_buff *skb = compat_skb(ctx);
	u16 type = bpf_ntohs(ctx->protocol);
	__be16 next;

	look->at = COMPAT_READ(skb, network_header) -
		   (u32)(COMPAT_READ(skb, data) - COMPAT_READ(skb, head));
	for (int i = 0; i < MOST_TAGS && is_vlan(type); i++) {
		look->at = ETH_TYPE_AT + 2 + (i + 1) * VLAN_LEN;
		if (bpf_skb_load_bytes(ctx, look->at - 2, &next, sizeof(next)))
			return;
		type = bpf_ntohs(next);
	}
	if (type == ETH_P_IP || type == ETH_P_IPV6)
		look->type = type;
}

static __always_inline u32 packets_of(struct __sk_buff *ctx)
{
	u32 n = ctx->gso_segs;

	if (!n && ctx->gso_size) /* from a guest, not yet counted */
		n = ctx->len / ctx->gso_size;
	return n ?: 1;
}

static __always_inline enum ccbpf_aqm_class class_of(u8 dscp)
{
	if (config.dscps[CCBPF_AQM_nf] >> dscp & 1)
		return CCBPF_AQM_nf;
	return config.dscps[CCBPF_AQM_probe] >> dscp & 1 ? CCBPF_AQM_probe : CCBPF_AQM_standard;
}

/* The header, mostly in the linear part of the skb. */
static __always_inline bool load_head(struct __sk_buff *ctx, struct look *look)
{
	void *data = (void *)(u64)ctx->data, *end = (void *)(u64)ctx->data_end;

	if (law_unlikely(look->at > AT_MOST || data + look->at + HEAD_LEN > end))
		return !bpf_skb_load_bytes(ctx, look->at, look->head, HEAD_LEN);
	__builtin_memcpy(look->head, data + look->at, HEAD_LEN);
	return true;
}

static __always_inline void look_at(struct __sk_buff *ctx, struct look *look)
{
	u8 field;

	look->packets = packets_of(ctx);
	look_for_ip(ctx, look);
	if (!look->type)
		return;
	if (!load_head(ctx, look)) {
		look->type = 0;
		return;
	}
	field = look->head[1];
	if (look->type == ETH_P_IPV6)
		field = look->head[0] << 4 | field >> 4;
	look->ecn = field & 3;
	look->class = class_of(field >> 2);
}

/* --- the queue ----------------------------------------------------------- */

/* bytes: in all children of mq, which share the device's rate. Which of them the
 * packet will go to is decided after us. BLIND: one of them does not say what it has. */
__noinline u64 children_backlog(struct __sk_buff *ctx)
{
	struct net_device *dev = COMPAT_READ(compat_skb(ctx), dev);
	u64 tx = (u64)BPF_CORE_READ(dev, _tx);
	u32 n = BPF_CORE_READ(dev, real_num_tx_queues);
	u64 sum = 0, blind = 0;

	for (u32 i = 0; i < MOST_QUEUES && i < n; i++) {
		struct netdev_queue *queue = (void *)tx;

		sum += BPF_CORE_READ(queue, qdisc, qstats.backlog);
		if (BPF_CORE_READ(queue, qdisc, flags) & TCQ_F_NOLOCK)
			blind = BLIND;
		tx += bpf_core_type_size(struct netdev_queue);
	}
	return (sum < ~0u ? sum : ~0u) | blind;
}

/* bytes: in the qdisc under the class whose queue is read, if it is one of those from
 * `at` on, a struct hlist_node; or -1 */
__noinline s64 chained_backlog(u64 at)
{
	struct hlist_node *node = (void *)at;
	struct Qdisc *q;

	for (u32 i = 0; i < LONGEST_CHAIN && node; i++) {
		q = (void *)node - bpf_core_field_offset(q->hash);
		if (BPF_CORE_READ(q, parent) == config.leaf)
			return BPF_CORE_READ(q, qstats.backlog);
		node = BPF_CORE_READ(node, next);
	}
	return -1;
}

/* bytes: in the qdisc under one class, found by its classid, because the qdisc
 * itself may be replaced */
__noinline u32 leaf_backlog(struct __sk_buff *ctx)
{
	struct net_device *dev = COMPAT_READ(compat_skb(ctx), dev);
	s64 found;

	for (u32 i = 0; i < 16; i++) {
		found = chained_backlog((u64)BPF_CORE_READ(dev, qdisc_hash[i].first));
		if (found >= 0)
			return found;
	}
	return 0;
}

static __always_inline u32 queue_bytes(struct __sk_buff *ctx, bool *blind)
{
	struct net_device *dev = COMPAT_READ(compat_skb(ctx), dev);
	struct Qdisc *q = COMPAT_READ(dev, qdisc);
	u32 flags = COMPAT_READ(q, flags);
	u64 children;

	*blind = flags & TCQ_F_NOLOCK;
	if (law_unlikely(config.leaf))
		return leaf_backlog(ctx);
	if (law_unlikely(flags & TCQ_F_MQROOT)) {
		children = children_backlog(ctx);
		*blind = children & BLIND;
		return children;
	}
	return COMPAT_READ(q, qstats.backlog);
}

/* --- the law ------------------------------------------------------------- */

__noinline int measure(u32 queue, u32 own_bytes, u32 packets)
{
	u64 now = bpf_ktime_get_ns(), last = state.last_ns, steps = packets;
	u64 waiting = (u64)queue + own_bytes;

	if (!queue && now > last) /* another CPU may have stored a later time */
		steps += red_idle_packets(now - last, config.packet_ns, state.waiting_bytes,
					  config.packet_bytes);
	state.average_q16 = red_average_q16(state.average_q16, queue, config.average_shift, steps);
	state.last_ns = now;
	state.waiting_bytes = waiting < ~0u ? waiting : ~0u;
	state.backlog_bytes = queue;
	return 0;
}

static __always_inline bool decide_red(enum ccbpf_aqm_class class, u32 min, u32 max, u32 packets)
{
	struct red_curve curve = { config.limit_bytes, min, max };
	struct ccbpf_aqm_spacing *kept = &state.spacing[class];
	struct red_spacing spacing = { kept->count, kept->random_q16 };
	u64 average_q16 = state.average_q16;
	enum red_zone zone = red_zone(average_q16, &curve);
	bool due = zone == RED_ABOVE;

	if (zone == RED_BETWEEN)
		due = red_due(average_q16, &curve, &spacing, packets,
			      spacing.count ? 0 : bpf_get_prandom_u32());
	else
		spacing.count = 0;
	kept->count = spacing.count;
	kept->random_q16 = spacing.random_q16;
	return due;
}

/* Is it this packet's turn among all of them, as if there were one class? */
__noinline bool decide_late(u32 packets)
{
	return config.std_min != CCBPF_AQM_OFF &&
	       decide_red(CCBPF_AQM_standard, config.std_min, config.std_max, packets);
}

/* Is it this packet's turn, in a class that is marked early? */
__noinline bool decide_early(u32 class, u32 packets, u32 queue)
{
	switch (class) {
	case CCBPF_AQM_probe:
		return queue > config.packet_bytes;
	case CCBPF_AQM_nf:
		return decide_red(CCBPF_AQM_nf, config.nf_min, config.nf_max, packets);
	default:
		return false;
	}
}

/* --- the packet ---------------------------------------------------------- */

/* RFC 1624, equation 3, for the header's first word, which changes from `old` */
static __always_inline void update_check(u8 *head, u8 old_tos)
{
	u32 sum = (u16) ~(head[10] << 8 | head[11]);

	sum += (u16) ~(head[0] << 8 | old_tos);
	sum += head[0] << 8 | head[1];
	sum = (sum & 0xffff) + (sum >> 16);
	sum = (u16) ~(sum + (sum >> 16));
	head[10] = sum >> 8;
	head[11] = sum;
}

/* Set CE. Returns whether the packet has it now. */
static __always_inline bool set_ce(struct __sk_buff *ctx, struct look *look)
{
	u8 old = look->head[1];

	if (look->ecn == CE)
		return true;
	if (look->type == ETH_P_IPV6) {
		look->head[1] |= CE << 4;
		return !bpf_skb_store_bytes(ctx, look->at, look->head, 2, BPF_F_RECOMPUTE_CSUM);
	}
	look->head[1] |= CE;
	update_check(look->head, old); /* the checksum of the header stays right */
	return !bpf_skb_store_bytes(ctx, look->at, look->head, HEAD_LEN, 0);
}

__noinline u32 bucket_of(u32 queue)
{
	return red_bucket(queue);
}

static __always_inline void count(const struct look *look, u32 bytes, u32 queue, bool blind,
				  bool marked, bool dropped)
{
	u32 zero = 0, bucket = bucket_of(queue), class = look->class;
	struct ccbpf_aqm_counts *c = bpf_map_lookup_elem(&counts, &zero);

	if (!c || class >= CCBPF_AQM_CLASS_COUNT || bucket >= RED_BUCKETS)
		return;
	c->of[class].packets += look->packets;
	c->of[class].bytes += bytes;
	if (marked)
		c->of[class].marked += look->packets;
	if (dropped)
		c->of[class].dropped += look->packets;
	if (law_unlikely(blind))
		c->blind += look->packets;
	c->histogram[bucket] += look->packets;
}

/* 7. Behind extension headers (IPv6) it is not looked for. */
static __always_inline bool is_spared(const struct look *look)
{
	u8 protocol = look->type == ETH_P_IPV6 ? look->head[NEXT_HEADER_AT]
					       : look->head[PROTOCOL_AT];

	return protocol == TCP && bpf_get_prandom_u32() & 1;
}

SEC("tc")
int nf_red(struct __sk_buff *ctx)
{
	struct look look = {};
	bool blind, early, late, due, marked = false, dropped = false;
	u32 queue = queue_bytes(ctx, &blind), bytes = ctx->wire_len;

	look_at(ctx, &look);
	measure(queue, bytes, look.packets);
	late = decide_late(look.packets);
	early = decide_early(look.class, look.packets, queue);
	due = look.type && (early || late); /* packets that are not IP pass */
	if (look.ecn && (!late || look.class == CCBPF_AQM_standard))
		marked = due && set_ce(ctx, &look);
	else
		dropped = due && (late || !is_spared(&look));
	count(&look, bytes, queue, blind, marked, dropped);
	return dropped ? TC_ACT_SHOT : TC_ACT_UNSPEC;
}

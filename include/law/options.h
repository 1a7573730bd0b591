/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What the options of a TCP segment say: timestamps (RFC 7323, 3), window scale (RFC 7323, 2), and the first
 * two blocks of SACK (RFC 2018; a duplicate first: RFC 2883).
 *
 * Any bytes may come. An option that does not fit into the header makes the whole segment unreadable. One
 * of another length than its RFC says is left out.
 */
#ifndef CCBPF_LAW_OPTIONS_H
#define CCBPF_LAW_OPTIONS_H

#include "law/fixed.h"

#define OPTIONS_AT 20 /* bytes of the header before them */
#define OPTIONS_MOST 40 /* bytes: what a header of 60 has room for */
#define OPTIONS_USUAL 0x0101080a /* NOP, NOP, timestamps of 10 bytes */
#define OPTIONS_INDEX 63 /* has each place in a header */
#define OPTIONS_ROOM (OPTIONS_INDEX + 1 + 18) /* so that of two blocks each index is inside */
#define OPTIONS_SCALE_MOST 14 /* RFC 7323, 2.3 */
#define OPTIONS_BLOCKS 2

enum options_kind {
	OPTIONS_END,
	OPTIONS_NOP,
	OPTIONS_SCALE = 3,
	OPTIONS_SACK = 5,
	OPTIONS_STAMPS = 8,
};

/* A TCP header, of 20 to 60 bytes. */
struct options_header {
	u8 at[OPTIONS_ROOM];
};

struct options_block {
	u32 left, right; /* sequence numbers: [left, right) has come */
};

struct options {
	u32 tsval, tsecr;
	struct options_block blocks[OPTIONS_BLOCKS];
	u8 n_blocks;
	u8 stamped; /* it has timestamps, */
	u8 scaled; /* ... a window scale, up to 14 */
	u8 scale;
};

LAW u32 options_u32(const struct options_header *h, u32 at)
{
	return (u32)h->at[at] << 24 | h->at[at + 1] << 16 | h->at[at + 2] << 8 | h->at[at + 3];
}

/* Are the options two NOPs and timestamps, as nearly every segment has them (RFC 7323, appendix A)? Then they are
 * read. */
LAW bool options_usual(const struct options_header *h, u32 length, struct options *out)
{
	if (length != OPTIONS_AT + 12 || options_u32(h, OPTIONS_AT) != OPTIONS_USUAL)
		return false;
	*out = (struct options){
		.stamped = 1,
		.tsval = options_u32(h, OPTIONS_AT + 4),
		.tsecr = options_u32(h, OPTIONS_AT + 8),
	};
	return true;
}

/* A way through the options of a header, one at a step. */
struct options_walk {
	u32 next; /* where the next one begins */
	u32 bad; /* 1: one does not fit into the header */
	u32 stamps, scale, sack; /* where those are that count; 0: nowhere */
	u32 sack_size;
};

/* Nothing of it is known to the verifier: otherwise it would follow each combination of options. */
LAW void options_begin(struct options_walk *w)
{
	w->next = law_forget(OPTIONS_AT);
	w->bad = law_forget(0);
	w->stamps = law_forget(0);
	w->scale = law_forget(0);
	w->sack = law_forget(0);
	w->sack_size = law_forget(0);
}

/* The option at `at`, of `size` bytes, all of which are there. */
LAW void options_note(struct options_walk *w, u32 kind, u32 at, u32 size)
{
	if (kind == OPTIONS_STAMPS && size == 10) {
		w->stamps = at;
	} else if (kind == OPTIONS_SCALE && size == 3) {
		w->scale = at;
	} else if (kind == OPTIONS_SACK && size >= 10 && (size - 2) % 8 == 0) {
		w->sack = at;
		w->sack_size = size;
	}
}

/* One option of a header of `length` bytes, OPTIONS_MOST times at the most. Returns whether there may be another one. */
LAW bool options_step(const struct options_header *h, u32 length, struct options_walk *w)
{
	u32 at = w->next & OPTIONS_INDEX, kind = h->at[at], size = h->at[at + 1];

	if (at >= length || kind == OPTIONS_END)
		return false;
	if (kind == OPTIONS_NOP) {
		w->next = at + 1;
		return true;
	}
	if (at + 1 >= length || size < 2 || size > length - at) {
		w->bad = 1;
		return false;
	}
	options_note(w, kind, at, size);
	w->next = at + size;
	return true;
}

/* After the last step. Returns whether the options can be read. */
LAW bool options_end(const struct options_header *h, const struct options_walk *w,
		     struct options *out)
{
	u32 stamps = w->stamps & OPTIONS_INDEX, sack = w->sack & OPTIONS_INDEX;

	*out = (struct options){ 0 };
	if (w->scale) {
		out->scaled = 1;
		out->scale = law_min(h->at[(w->scale & OPTIONS_INDEX) + 2], OPTIONS_SCALE_MOST);
	}
	if (stamps) {
		out->stamped = 1;
		out->tsval = options_u32(h, stamps + 2);
		out->tsecr = options_u32(h, stamps + 6);
	}
	if (sack) {
		out->n_blocks = w->sack_size >= 18 ? 2 : 1;
		out->blocks[0].left = options_u32(h, sack + 2);
		out->blocks[0].right = options_u32(h, sack + 6);
		out->blocks[1].left = options_u32(h, sack + 10);
		out->blocks[1].right = options_u32(h, sack + 14);
	}
	return !w->bad;
}

/* Has what the first block says come before (D-SACK)? @ack: all before it has come. */
LAW bool options_again(const struct options *o, u32 ack)
{
	const struct options_block *first = &o->blocks[0], *second = &o->blocks[1];

	if (!o->n_blocks)
		return false;
	if (!law_after(first->right, ack))
		return true;
	return o->n_blocks > 1 && !law_after(second->left, first->left) &&
	       !law_after(first->right, second->right);
}

/* Does data wait behind a hole? */
LAW bool options_hole(const struct options *o, u32 ack)
{
	return o->n_blocks > 1 || (o->n_blocks && !options_again(o, ack));
}

#endif

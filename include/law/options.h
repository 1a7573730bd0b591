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
#define OPTIONS_ROOM \
	(OPTIONS_AT + OPTIONS_MOST + 18) /* so that of two blocks each index is inside */
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

/* The option at `at`, of `size` bytes, all of which are there. */
LAW void options_take(const struct options_header *h, u32 at, u32 size, struct options *out)
{
	switch (h->at[at]) {
	case OPTIONS_STAMPS:
		if (size != 10)
			break;
		out->stamped = 1;
		out->tsval = options_u32(h, at + 2);
		out->tsecr = options_u32(h, at + 6);
		break;
	case OPTIONS_SCALE:
		if (size != 3)
			break;
		out->scaled = 1;
		out->scale = law_min(h->at[at + 2], OPTIONS_SCALE_MOST);
		break;
	case OPTIONS_SACK:
		if (size < 10 || (size - 2) % 8)
			break;
		out->n_blocks = size >= 18 ? 2 : 1;
		out->blocks[0].left = options_u32(h, at + 2);
		out->blocks[0].right = options_u32(h, at + 6);
		out->blocks[1].left = options_u32(h, at + 10);
		out->blocks[1].right = options_u32(h, at + 14);
		break;
	}
}

/*
 * Of a header of `length` bytes. Returns whether they can be read.
 *
 * It goes from byte to byte, and not from option to option: so each index is a constant of its round, and
 * the verifier need not follow each sum of lengths.
 */
LAW bool options_read(const struct options_header *h, u32 length, struct options *out)
{
	u32 next = OPTIONS_AT; /* where the next option begins */

	*out = (struct options){ 0 };
	for (u32 at = OPTIONS_AT; at < OPTIONS_AT + OPTIONS_MOST && at < length; at++) {
		u32 kind = h->at[at], size = h->at[at + 1];

		if (at != next)
			continue;
		if (kind == OPTIONS_END)
			return true;
		if (kind == OPTIONS_NOP) {
			next = at + 1;
			continue;
		}
		if (at + 1 >= length || size < 2 || size > length - at)
			return false;
		options_take(h, at, size, out);
		next = law_forget(at + size);
	}
	return true;
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

/* SPDX-License-Identifier: GPL-2.0-only */
/* Flow records as words, for a person. */
#ifndef CCBPF_FLOWTEXT_H
#define CCBPF_FLOWTEXT_H

#include "cc/flowfields.h"

/* "slow-start", "owd"; "?" for a number that this ccbpf does not know. */
const char *phase_word(__u32 phase);
const char *signal_word(__u32 signal);

/* "10.0.0.1", "fd00::1", "?" for an unknown family, made by text(). */
const char *address_text(__u16 family, const __u8 *address);

/* "10.0.0.1:443", "[fd00::1]:443", made by text(). */
const char *endpoint(__u16 family, const __u8 *address, __u16 port);

/* A reason, for a program and for a person. */
struct reason {
	const char *word, *text;
};

/*
 * Why no chirp begins, and why the last one was not complete. NULL: there is no
 * reason, or it has a number that this ccbpf does not know.
 */
const struct reason *chirp_wait_of(__u32 wait);
const struct reason *chirp_end_of(__u32 end);

/*
 * A field of a struct that is not a number, as text; `family` is that of its
 * addresses. NULL: a number, or no reason.
 */
const char *field_text(const struct field *field, const void *of, __u16 family);

/*
 * For a person, made by text(): the controller's own part of a record, and
 * what met the flow so far.
 */
const char *flow_own_words(const struct ccbpf_flow *flow);
const char *flow_met_words(const struct ccbpf_flow *flow);

#endif

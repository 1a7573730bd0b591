/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * What a loaded object says of itself, in its read-only map `.rodata.identity`. `ccbpf` writes `instance` and `version`
 * before loading, and finds both again in the pinned map; loaded by other means (bpftool) they keep their zeroes.
 */
#ifndef CCBPF_IDENTITY_H
#define CCBPF_IDENTITY_H

#include "ccbpf/types.h"

#define CCBPF_ABI 4 /* grows with any change to a pinned map's layout */
#define CCBPF_VERSION_LEN 24

struct ccbpf_identity {
	__u32 abi; /* CCBPF_ABI of the object */
	__u32 kind; /* enum ccbpf_kind */
	__u64 instance; /* CLOCK_MONOTONIC ns of the loading: tells flows of this loading from those of older ones */
	char version[CCBPF_VERSION_LEN];
};

#define CCBPF_FLOWS_MAX \
	65536 /* entries of `flows`; a full map costs visibility, never a connection */
#define CCBPF_EVENTS_BYTES \
	(1 << 20) /* size of `events`: 8 000 events, a second of 500 flows in trouble */

#endif

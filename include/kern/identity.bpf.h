/* SPDX-License-Identifier: GPL-2.0-only */
/* Which controller an object is: what its parts of the shared maps are found by. */
#ifndef CCBPF_KERN_IDENTITY_BPF_H
#define CCBPF_KERN_IDENTITY_BPF_H

#include "ccbpf/controllers.h"
#include "ccbpf/identity.h"

/* Each object defines it, by CCBPF_IDENTITY(). */
extern const volatile struct ccbpf_identity identity;

#define CCBPF_IDENTITY(name)                               \
	const volatile struct ccbpf_identity identity SEC( \
		".rodata.identity") = { .abi = CCBPF_ABI, .kind = CCBPF_KIND_##name }

#endif

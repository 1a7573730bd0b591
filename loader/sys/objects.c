// SPDX-License-Identifier: GPL-2.0-only
/*
 * The BPF objects, embedded by the assembler: one file to install, and the
 * programs always fit their loader. They are aligned to 16 bytes because libelf
 * reads them where they lie.
 */
#include "sys/objects.h"

#define EMBED(name)                                               \
	__asm__(".section .rodata\n"                              \
		".balign 16\n"                                    \
		".global ccbpf_object_" #name "\n"                \
		"ccbpf_object_" #name ":\n"                       \
		".incbin \"" CCBPF_BPF_DIR "/" #name ".bpf.o\"\n" \
		".global ccbpf_object_" #name "_end\n"            \
		"ccbpf_object_" #name "_end:\n"                   \
		".byte 0\n"                                       \
		".previous\n");

#define X(number, name, access, title, source) EMBED(name)
CCBPF_CONTROLLERS(X)
#undef X
EMBED(nf_red)

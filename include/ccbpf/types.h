/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/* The integer types that kernel side, loader and host tests share. */
#ifndef CCBPF_TYPES_H
#define CCBPF_TYPES_H

#ifdef __bpf__
#include "vmlinux.h"
#else
#include <linux/types.h>
#include <stdbool.h>
#endif

typedef __u8 u8;
typedef __u16 u16;
typedef __u32 u32;
typedef __s32 s32;
typedef __u64 u64;
typedef __s64 s64;

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef CCBPF_SIM_BPF_ENDIAN_H
#define CCBPF_SIM_BPF_ENDIAN_H

#define bpf_ntohs(v) __builtin_bswap16(v)
#define bpf_htons(v) __builtin_bswap16(v)

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Every kernel member that the programs know is there, and memory is read as it is. */
#ifndef CCBPF_SIM_BPF_CORE_READ_H
#define CCBPF_SIM_BPF_CORE_READ_H

#define BPF_CORE_READ_BITFIELD(from, member) ((from)->member)
#define BPF_CORE_READ_2(from, a) ((from)->a)
#define BPF_CORE_READ_3(from, a, b) ((from)->a->b)
#define BPF_CORE_READ_OF(_1, _2, _3, name, ...) name
#define BPF_CORE_READ(...) \
	BPF_CORE_READ_OF(__VA_ARGS__, BPF_CORE_READ_3, BPF_CORE_READ_2)(__VA_ARGS__)
#define bpf_core_field_exists(field) 1
#define bpf_core_type_size(type) sizeof(type)
#define bpf_core_field_offset(field) 0
#define bpf_ksym_exists(symbol) 1

#endif

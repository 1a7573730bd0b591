/* SPDX-License-Identifier: GPL-2.0-only */
/* A program of a struct_ops map is a plain function on a host. */
#ifndef CCBPF_SIM_BPF_TRACING_H
#define CCBPF_SIM_BPF_TRACING_H

#define BPF_PROG(name, ...) name(__VA_ARGS__)

#endif

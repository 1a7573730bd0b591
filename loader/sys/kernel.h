/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What this kernel offers and this process may do. Features are looked up in
 * the kernel's BTF, never derived from a version number.
 */
#ifndef CCBPF_KERNEL_H
#define CCBPF_KERNEL_H

#include <bpf/btf.h>
#include <stdbool.h>

#define KERNEL_LEAST "6.1" /* the oldest one that `make kernels` loads them on */

/* The kernel's BTF, loaded once, or NULL where there is none. Not to be freed. */
const struct btf *kernel_btf(void);

/*
 * The file that it was read from: the kernel's own, or one of those that libbpf tries where that
 * is missing (/boot/vmlinux-RELEASE and others). NULL where there is no BTF.
 */
const char *kernel_btf_origin(void);

/* Whether TCP congestion controllers can be written in BPF here. */
bool kernel_has_struct_ops(void);

/*
 * Whether they can be held by a link (6.4), which a pin keeps and an update
 * replaces without a gap. For tests only: CCBPF_NO_LINKS=1 in the environment
 * says no.
 */
bool kernel_has_links(void);

/*
 * Whether a tc program can be held by a link (TCX, 6.6). For tests only:
 * CCBPF_NO_TCX=1 in the environment says no.
 */
bool kernel_has_tcx(void);

/*
 * Whether the callbacks of sockops programs can be switched on for a running connection
 * (TCP_BPF_SOCK_OPS_CB_FLAGS, 6.12). For tests only: CCBPF_NO_CALLBACKS=1 in the environment
 * says no.
 */
bool kernel_has_callbacks(void);
#define KERNEL_CALLBACKS "6.12"

/* Whether the libbpf that runs is new enough: struct_ops links need 1.4. */
bool kernel_has_libbpf(void);
#define KERNEL_LIBBPF_REMEDY "install libbpf 1.4 or newer (`make deps` does)"

/* Whether the JIT compiler is on: struct_ops needs it. */
bool kernel_has_jit(void);

/*
 * Check all that loading needs before anything is touched; `on`: what it is for, or NULL. Returns EXIT_OK, or
 * the exit code after saying what is missing: EXIT_PERMISSION for capabilities,
 * EXIT_KERNEL for the kernel's part.
 */
int kernel_require(const char *what, const char *on);

/* The same without what only congestion controllers need. */
int kernel_require_bpf(const char *what, const char *on);

/* Check only the capabilities for changing what runs. */
int kernel_require_changing(const char *what, const char *on);

/* Check only that maps and pins may be read. */
int kernel_require_reading(const char *what, const char *on);

#define SECURITYFS "/sys/kernel/security"

/* Whether the file system of the security modules is mounted there: in a container it may be missing. */
bool kernel_has_securityfs(void);

#endif

// SPDX-License-Identifier: GPL-2.0-only
/* What this kernel offers and this process may do: see kernel.h. */
#include <bpf/libbpf.h>
#include <limits.h>
#include <linux/magic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "out/errors.h"
#include "sys/kernel.h"
#include "util/capabilities.h"
#include "util/file.h"
#include "util/text.h"

static char btf_origin[PATH_MAX];
static libbpf_print_fn_t log_before;

/* libbpf tries several files, and says of each that it tries one: the last one is what it has read. */
static int note_origin(enum libbpf_print_level level, const char *format, va_list args)
{
	char line[PATH_MAX + 64];
	va_list again;

	va_copy(again, args);
	vsnprintf(line, sizeof(line), format, again);
	va_end(again);
	if (strstr(line, "kernel BTF"))
		sscanf(line, "%*[^']'%4095[^']", btf_origin);
	return log_before ? log_before(level, format, args) : 0;
}

const struct btf *kernel_btf(void)
{
	static struct btf *btf;
	static bool tried;

	if (!tried) {
		log_before = libbpf_set_print(note_origin);
		btf = btf__load_vmlinux_btf();
		libbpf_set_print(log_before);
	}
	tried = true;
	return btf;
}

const char *kernel_btf_origin(void)
{
	if (!kernel_btf())
		return NULL;
	return *btf_origin ? btf_origin : "found by libbpf";
}

static bool has_struct(const char *name)
{
	return kernel_btf() && btf__find_by_name_kind(kernel_btf(), name, BTF_KIND_STRUCT) > 0;
}

bool kernel_has_struct_ops(void)
{
	return has_struct("bpf_struct_ops_tcp_congestion_ops");
}

/* What a test forces by the environment. */
static bool is_set(const char *name)
{
	const char *value = getenv(name);

	return value && strcmp(value, "1") == 0;
}

bool kernel_has_links(void)
{
	return !is_set("CCBPF_NO_LINKS") && has_struct("bpf_struct_ops_link");
}

bool kernel_has_tcx(void)
{
	return !is_set("CCBPF_NO_TCX") && has_struct("tcx_link");
}

static bool has_enumerator(const struct btf *btf, const struct btf_type *type, const char *name)
{
	const struct btf_enum *at = btf_enum(type);

	for (int i = 0; i < btf_vlen(type); i++, at++)
		if (!strcmp(btf__name_by_offset(btf, at->name_off), name))
			return true;
	return false;
}

bool kernel_has_callbacks(void)
{
	const struct btf *btf = is_set("CCBPF_NO_CALLBACKS") ? NULL : kernel_btf();

	for (__u32 id = 1; btf && id < btf__type_cnt(btf); id++) {
		const struct btf_type *type = btf__type_by_id(btf, id);

		if (btf_is_enum(type) && has_enumerator(btf, type, "TCP_BPF_SOCK_OPS_CB_FLAGS"))
			return true;
	}
	return false;
}

bool kernel_has_libbpf(void)
{
	unsigned int major = libbpf_major_version();

	return major > 1 || (major == 1 && libbpf_minor_version() >= 4);
}

bool kernel_has_jit(void)
{
	char line[16];

	/*
	 * No such file: a kernel without the choice, CONFIG_BPF_JIT_ALWAYS_ON
	 * aside; let loading decide.
	 */
	return read_line("/proc/sys/net/core/bpf_jit_enable", line, sizeof(line)) ||
	       strcmp(line, "0") != 0;
}

static int require_capabilities(const char *what, const char *on, enum capabilities use)
{
	const char *missing = capabilities_missing(use);

	if (!missing)
		return EXIT_OK;
	return FAIL(EXIT_PERMISSION, .what = what, .on = on,
		    .why = text("this process lacks %s", missing), .remedy = capabilities_remedy());
}

int kernel_require_reading(const char *what, const char *on)
{
	return require_capabilities(what, on, CAPABILITIES_READING);
}

int kernel_require_changing(const char *what, const char *on)
{
	return require_capabilities(what, on, CAPABILITIES_CHANGING);
}

int kernel_require_bpf(const char *what, const char *on)
{
	int err = kernel_require_changing(what, on);

	if (err)
		return err;
	if (!kernel_has_libbpf())
		return FAIL(EXIT_KERNEL, .what = what, .on = on,
			    .why = text("libbpf %s is too old", libbpf_version_string()),
			    .remedy = KERNEL_LIBBPF_REMEDY);
	if (!kernel_btf())
		return FAIL(
			EXIT_KERNEL, .what = what, .on = on,
			.why = "this kernel has no BTF (/sys/kernel/btf/vmlinux)",
			.remedy =
				"boot one built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are");
	return EXIT_OK;
}

int kernel_require(const char *what, const char *on)
{
	int err = kernel_require_bpf(what, on);

	if (err)
		return err;
	if (!kernel_has_struct_ops())
		return FAIL(EXIT_KERNEL, .what = what, .on = on,
			    .why = "this kernel has no struct_ops for TCP congestion control",
			    .remedy = "boot Linux " KERNEL_LEAST
				      " or newer with CONFIG_BPF_JIT=y and CONFIG_BPF_SYSCALL=y");
	if (!kernel_has_jit())
		return FAIL(EXIT_KERNEL, .what = what, .on = on,
			    .why = "the BPF JIT compiler is off",
			    .remedy = "`sysctl net.core.bpf_jit_enable=1`");
	return EXIT_OK;
}

bool kernel_has_securityfs(void)
{
	struct statfs fs;

	return !statfs(SECURITYFS, &fs) && (unsigned long)fs.f_type == SECURITYFS_MAGIC;
}

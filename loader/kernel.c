// SPDX-License-Identifier: GPL-2.0-only
/* What this kernel offers and this process may do: see kernel.h. */
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/capability.h>
#include <time.h>
#include <unistd.h>

#include "errors.h"
#include "kernel.h"

static const cap_value_t needed[] = {
	CAP_BPF, /* maps, programs, pins */
	CAP_PERFMON, /* reading kernel structures in a program */
	CAP_NET_ADMIN, /* programs of networking, the default controller */
};

/* And where somebody who is not root works with root's pins. */
static const cap_value_t needed_for_files[] = { CAP_DAC_OVERRIDE };

/* Put the names of those of `caps` that are not effective behind `names`. */
static void append_missing(char *names, unsigned int size,
			   const cap_value_t *caps, unsigned int n)
{
	cap_t own = cap_get_proc();

	for (unsigned int i = 0; i < n; i++) {
		cap_flag_value_t value = CAP_CLEAR;
		char *name;

		if (own)
			cap_get_flag(own, caps[i], CAP_EFFECTIVE, &value);
		if (value == CAP_SET)
			continue;
		name = cap_to_name(caps[i]);
		append(names, size, ", ", "%s", name ?: "a capability");
		cap_free(name);
	}
	cap_free(own);
}

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

const char *kernel_missing_caps(bool files)
{
	static char names[128];

	*names = '\0';
	append_missing(names, sizeof(names), needed, COUNT(needed));
	if (files)
		append_missing(names, sizeof(names), needed_for_files,
			       COUNT(needed_for_files));
	return *names ? names : NULL;
}

const struct btf *kernel_btf(void)
{
	static struct btf *btf;
	static bool tried;

	if (!tried)
		btf = btf__load_vmlinux_btf();
	tried = true;
	return btf;
}

static bool has_struct(const char *name)
{
	return kernel_btf() &&
	       btf__find_by_name_kind(kernel_btf(), name, BTF_KIND_STRUCT) > 0;
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
	return read_line("/proc/sys/net/core/bpf_jit_enable", line,
			 sizeof(line)) ||
	       strcmp(line, "0") != 0;
}

const char *kernel_caps_remedy(void)
{
	return geteuid() ? "run it as root, for example with sudo"
			 : "root lacks it here, as in a container: run it on the host, or let the container have it";
}

static int require_caps(const char *what, unsigned int n)
{
	char missing[128] = "";

	append_missing(missing, sizeof(missing), needed, n);
	if (!*missing)
		return EXIT_OK;
	return FAIL(EXIT_PERMISSION, .what = what,
		    .why = text("this process lacks %s", missing),
		    .remedy = kernel_caps_remedy());
}

int kernel_require_reading(const char *what)
{
	return require_caps(what, 1);
}

int kernel_require_changing(const char *what)
{
	return require_caps(what, COUNT(needed));
}

int kernel_require_bpf(const char *what)
{
	int err = kernel_require_changing(what);

	if (err)
		return err;
	if (!kernel_has_libbpf())
		return FAIL(EXIT_KERNEL, .what = what,
			    .why = text("libbpf %s is too old",
					libbpf_version_string()),
			    .remedy = KERNEL_LIBBPF_REMEDY);
	if (!kernel_btf())
		return FAIL(
			EXIT_KERNEL, .what = what,
			.why = "this kernel has no BTF (/sys/kernel/btf/vmlinux)",
			.remedy =
				"boot one built with CONFIG_DEBUG_INFO_BTF=y, as distributions' are");
	return EXIT_OK;
}

int kernel_require(const char *what)
{
	int err = kernel_require_bpf(what);

	if (err)
		return err;
	if (!kernel_has_struct_ops())
		return FAIL(
			EXIT_KERNEL, .what = what,
			.why = "this kernel has no struct_ops for TCP congestion control",
			.remedy =
				"boot Linux " KERNEL_LEAST " or newer with CONFIG_BPF_JIT=y and CONFIG_BPF_SYSCALL=y");
	if (!kernel_has_jit())
		return FAIL(EXIT_KERNEL, .what = what,
			    .why = "the BPF JIT compiler is off",
			    .remedy = "`sysctl net.core.bpf_jit_enable=1`");
	return EXIT_OK;
}

uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

int read_line(const char *path, char *buffer, unsigned int size)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t length;

	if (fd < 0)
		return -errno;
	length = read(fd, buffer, size - 1);
	close(fd);
	if (length < 0)
		return -EIO;
	buffer[length] = '\0';
	buffer[strcspn(buffer, "\n")] = '\0';
	return 0;
}

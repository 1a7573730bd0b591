// SPDX-License-Identifier: GPL-2.0-only
/* What the programs need of the kernel: see needs.h. */
#include <bpf/btf.h>
#include <errno.h>
#include <libelf.h>
#include <string.h>

#include "sys/kernel.h"
#include "sys/needs.h"
#include "util/text.h"

/*
 * Members that the programs ask for before they read them
 * (bpf_core_field_exists), or that program_open() puts in.
 */
static const char *const optional[] = {
	"tcp_sock.tcp_usec_ts", /* 6.7: timestamps in microseconds */
	"sock.sk_ino", /* 6.18: compat_sock_inode() */
	"netns_ipv4.sysctl_tcp_shrink_window", /* 6.5: compat_shrinks_window() */
	"tcp_congestion_ops.cwnd_event_tx_start", /* 7.1 */
};

/* Functions likewise (bpf_ksym_exists). */
static const char *const optional_functions[] = {
	"bpf_cast_to_kern_ctx", /* 6.2: tc programs read without a helper */
};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static bool is_among(const char *const *names, size_t n, const char *name)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(names[i], name) == 0)
			return true;
	return false;
}

/*
 * Whether a structure has the member, also inside its nameless structures and
 * unions.
 */
static bool has_member(const struct btf *btf, __u32 id, const char *name)
{
	const struct btf_type *type = btf__type_by_id(btf, btf__resolve_type(btf, id));
	const struct btf_member *member;

	if (!type || !btf_is_composite(type))
		return false;
	member = btf_members(type);
	for (int i = 0; i < btf_vlen(type); i++, member++) {
		const char *its = btf__name_by_offset(btf, member->name_off);

		if (strcmp(its, name) == 0 || (!*its && has_member(btf, member->type, name)))
			return true;
	}
	return false;
}

static void compare_struct(const struct btf *own, const struct btf_type *type, char *missing,
			   unsigned int size)
{
	const char *name = btf__name_by_offset(own, type->name_off);
	const struct btf_member *member = btf_members(type);
	int id = *name ? btf__find_by_name_kind(kernel_btf(), name, BTF_KIND_STRUCT) : -ENOENT;

	if (id < 0)
		return; /* ours, not the kernel's */
	for (int i = 0; i < btf_vlen(type); i++, member++) {
		const char *its = btf__name_by_offset(own, member->name_off), *full;

		if (!*its || has_member(kernel_btf(), id, its))
			continue;
		full = text("%s.%s", name, its);
		if (!is_among(optional, COUNT(optional), full) && !strstr(missing, full))
			append(missing, size, ", ", "%s", full);
	}
}

/* The section .ksyms names the functions of the kernel that are called. */
static void compare_functions(const struct btf *own, const struct btf_type *section, char *missing,
			      unsigned int size)
{
	const struct btf_var_secinfo *entry = btf_var_secinfos(section);

	if (strcmp(btf__name_by_offset(own, section->name_off), ".ksyms"))
		return;
	for (int i = 0; i < btf_vlen(section); i++, entry++) {
		const struct btf_type *type = btf__type_by_id(own, entry->type);
		const char *name = btf__name_by_offset(own, type->name_off);

		if (btf_is_func(type) &&
		    btf__find_by_name_kind(kernel_btf(), name, BTF_KIND_FUNC) < 0 &&
		    !is_among(optional_functions, COUNT(optional_functions), name) &&
		    !strstr(missing, name))
			append(missing, size, ", ", "%s", name);
	}
}

/*
 * The object's BTF as the compiler wrote it, from its section .BTF: what libbpf
 * has opened is of no use here, it renames the functions in .ksyms.
 */
static struct btf *own_btf(const char *object, const char *end)
{
	struct btf *btf = NULL;
	Elf_Scn *section = NULL;
	size_t names;
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_memory((char *)object, end - object);
	if (!elf || elf_getshdrstrndx(elf, &names))
		goto out;
	while (!btf && (section = elf_nextscn(elf, section))) {
		Elf64_Shdr *header = elf64_getshdr(section);
		Elf_Data *data = elf_rawdata(section, NULL);
		const char *name = header ? elf_strptr(elf, names, header->sh_name) : NULL;

		if (name && data && strcmp(name, BTF_ELF_SEC) == 0)
			btf = btf__new(data->d_buf, data->d_size);
	}
out:
	elf_end(elf);
	return btf;
}

int needs_missing(const char *object, const char *end, char *members, char *functions,
		  unsigned int size)
{
	struct btf *own = kernel_btf() ? own_btf(object, end) : NULL;

	if (!own)
		return -ENODATA;
	for (__u32 id = 1; id < btf__type_cnt(own); id++) {
		const struct btf_type *type = btf__type_by_id(own, id);

		if (btf_is_struct(type))
			compare_struct(own, type, members, size);
		else if (btf_is_datasec(type))
			compare_functions(own, type, functions, size);
	}
	btf__free(own);
	return 0;
}

bool needs_kernel_has(const char *structure, const char *member)
{
	const struct btf *btf = kernel_btf();
	int id = btf ? btf__find_by_name_kind(btf, structure, BTF_KIND_STRUCT) : -ENOENT;

	return id >= 0 && has_member(btf, id, member);
}

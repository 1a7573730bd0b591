// SPDX-License-Identifier: GPL-2.0-only
/*
 * The BPF objects, embedded by the assembler: one file to install, and the
 * programs always fit their loader. They are aligned to 16 bytes because libelf
 * reads them where they lie.
 */
#include <errno.h>

#include "out/errors.h"
#include "out/output.h"
#include "sys/objects.h"
#include "util/text.h"

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
EMBED(gateway)
EMBED(renice)
EMBED(renice_rx)
EMBED(run)
EMBED(chosen)
EMBED(chosen_tcp)
EMBED(held)
EMBED(unit)
EMBED(assign)
EMBED(rx_le)
EMBED(rx_moved)
EMBED(rx_open)

/* BPF_LOG_STATS of include/linux/bpf_verifier.h. At 0 libbpf asks for the log of a refused program. */
#define VERIFIER_COUNTS 4

int object_open(const char *what, const char *name, const char *begin, const char *end,
		struct bpf_object **obj)
{
	LIBBPF_OPTS(bpf_object_open_opts, opts, .object_name = name,
		    .kernel_log_level = output.verbose > 1 ? VERIFIER_COUNTS : 0);

	*obj = bpf_object__open_mem(begin, end - begin, &opts);
	return *obj ? EXIT_OK : fail_errno(what, name, errno);
}

int object_map(const char *what, const struct bpf_object *obj, const char *name, size_t size,
	       struct bpf_map **map)
{
	*map = bpf_object__find_map_by_name(obj, name);
	if (*map && (!size || bpf_map__value_size(*map) == size))
		return EXIT_OK;
	return FAIL(EXIT_FAILED, .what = what, .on = bpf_object__name(obj),
		    .why = text("its object has no map `%s` of this version's layout", name),
		    .remedy =
			    "rebuild ccbpf: the object and the command must be of the same build");
}

void *object_initial(const struct bpf_map *map)
{
	size_t size; /* checked by object_map() */

	return bpf_map__initial_value(map, &size);
}

int object_reuse(const char *what, const struct bpf_object *obj, const char *name, int fd)
{
	struct bpf_map *map;
	int err = object_map(what, obj, name, 0, &map);

	if (!err && bpf_map__reuse_fd(map, fd))
		err = fail_errno(what, text("the map %s of %s", name, bpf_object__name(obj)),
				 errno);
	return err;
}

int object_load(const char *what, struct bpf_object *obj)
{
	int err = bpf_object__load(obj);

	return err ? fail_load(what, bpf_object__name(obj), err) : EXIT_OK;
}

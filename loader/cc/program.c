// SPDX-License-Identifier: GPL-2.0-only
/* A controller's BPF object on its way into the kernel: see program.h. */
#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cc/program.h"
#include "sys/shared.h"
#include "ccbpf/identity.h"
#include "out/errors.h"
#include "out/output.h"
#include "sys/kernel.h"
#include "sys/needs.h"
#include "sys/objects.h"
#include "util/clock.h"
#include "util/memory.h"
#include "util/text.h"

#if LIBBPF_MAJOR_VERSION < 1 || (LIBBPF_MAJOR_VERSION == 1 && LIBBPF_MINOR_VERSION < 4)
#error "ccbpf needs libbpf 1.4 or newer (`make deps` installs it)"
#endif

#define TAKEN_WAIT_NS \
	1000000000ULL /* a ccbpf that was killed gives its name back within \
			 this time */
#define TAKEN_POLL_NS 20000000L

#define OPS_STRUCT "tcp_congestion_ops"
#define OPS_VALUE "bpf_struct_ops_" OPS_STRUCT /* what its map holds */

static int log_line(enum libbpf_print_level level, const char *format, va_list args)
{
	if (output.verbose == 0 || (level == LIBBPF_DEBUG && output.verbose < 2))
		return 0;
	return output_log(stderr, format, args);
}

void program_logging(void)
{
	libbpf_set_print(log_line);
}

static int find_maps(const char *what, struct program *program)
{
	const struct attachment_map *maps = program->controller->maps;
	int err = object_map(what, program->obj, program->controller->name, 0, &program->ops);

	for (int i = 0; !err && i < CONTROLLER_MAPS; i++)
		err = object_map(what, program->obj, maps[i].name, maps[i].shape.value_size,
				 &program->maps[i]);
	return err;
}

static void write_identity(struct program *program)
{
	struct ccbpf_identity *identity = object_initial(program->maps[CONTROLLER_IDENTITY]);

	identity->instance = monotonic_ns();
	snprintf(identity->version, sizeof(identity->version), "%s", CCBPF_VERSION);
}

/*
 * Members of the ops table that some kernels lack. They are empty in the object,
 * so that it loads everywhere by whatever tool, and their programs are not
 * loaded by themselves (SEC("?struct_ops")); where the kernel knows the member,
 * the two are put in.
 */
static const struct {
	const char *member, *program; /* the program's name after "<name>_" */
} optional_ops[] = {
	{ "cwnd_event_tx_start", "tx_start" }, /* 7.1; before: cwnd_event() */
};

static const struct btf_member *find_member(const struct btf *btf, const char *structure,
					    const char *name)
{
	int id = btf__find_by_name_kind(btf, structure, BTF_KIND_STRUCT);
	const struct btf_type *type = id < 0 ? NULL : btf__type_by_id(btf, id);

	for (int i = 0; type && i < btf_vlen(type); i++)
		if (!strcmp(btf__name_by_offset(btf, btf_members(type)[i].name_off), name))
			return &btf_members(type)[i];
	return NULL;
}

static void put_in_op(struct program *program, const char *op, const char *suffix)
{
	const struct btf_member *member =
		find_member(bpf_object__btf(program->obj), OPS_STRUCT, op);
	char *table = object_initial(program->ops), name[64];
	struct bpf_program *prog;

	snprintf(name, sizeof(name), "%s_%s", program->controller->name, suffix);
	prog = bpf_object__find_program_by_name(program->obj, name);
	if (!member || !prog || !needs_kernel_has(OPS_STRUCT, op))
		return;
	bpf_program__set_autoload(prog, true);
	memcpy(table + member->offset / 8, &prog, sizeof(prog));
}

int program_open(const char *what, struct program *program, const struct controller *c,
		 const struct values *values, int params_fd)
{
	int err;

	*program = (struct program){ .controller = c };
	err = object_open(what, c->name, c->object, c->object_end, &program->obj);
	if (!err)
		err = find_maps(what, program);
	if (err)
		return err;
	write_identity(program);
	for (size_t i = 0; i < sizeof(optional_ops) / sizeof(*optional_ops); i++)
		put_in_op(program, optional_ops[i].member, optional_ops[i].program);
	if (params_fd >= 0)
		err = bpf_map__reuse_fd(program->maps[CONTROLLER_PARAMS], params_fd);
	else
		memcpy(object_initial(program->maps[CONTROLLER_PARAMS]), values->v, values_size(c));
	if (!err && kernel_has_links())
		err = bpf_map__set_map_flags(program->ops, BPF_F_LINK);
	return err ? fail_errno(what, c->name, err) : EXIT_OK;
}

int program_load(const char *what, struct program *program)
{
	return shared_load(what, program->obj);
}

static int name_taken(const char *what, const struct program *program)
{
	const char *name = program->controller->name;

	return FAIL(
		EXIT_FAILED, .what = what, .on = name,
		.why = "the kernel already has a controller of this name, registered by bpftool or by a ccbpf with another CCBPF_PIN_ROOT",
		.remedy = text(
			"set CCBPF_PIN_ROOT to that directory; if nobody needs the registration, `bpftool link` "
			"shows it and `bpftool link detach id ID` removes it, or `bpftool struct_ops unregister name %s`",
			name));
}

int program_attach(const char *what, struct program *program)
{
	struct timespec pause = { .tv_nsec = TAKEN_POLL_NS };
	uint64_t until = monotonic_ns() + TAKEN_WAIT_NS;

	for (;;) {
		program->link = bpf_map__attach_struct_ops(program->ops);
		if (program->link)
			break;
		if (errno != EEXIST)
			return fail_errno(what, program->controller->name, errno);
		if (monotonic_ns() > until)
			return name_taken(what, program);
		nanosleep(&pause, NULL);
	}
	if (!kernel_has_links())
		bpf_link__disconnect(program->link); /* the registration is the
							map's, not this
							process's */
	return EXIT_OK;
}

/*
 * One member of the ops table, from the object's layout (`from`) to the kernel's
 * (`to`), where a program is its descriptor. The kernel fills `owner`, which is a
 * pointer as well. libbpf has refused tables whose members differ in size.
 */
static void convert_op(const struct btf_member *member, const char *from, char *to)
{
	const struct btf *btf = kernel_btf();
	const struct btf_type *type = btf__type_by_id(btf, btf__resolve_type(btf, member->type));
	struct bpf_program *prog;
	unsigned long fd;

	if (!btf_is_ptr(type)) {
		memcpy(to, from, btf__resolve_size(btf, member->type));
		return;
	}
	memcpy(&prog, from, sizeof(prog));
	if (!prog)
		return;
	fd = bpf_program__fd(prog);
	memcpy(to, &fd, sizeof(fd));
}

/*
 * Write the ops table into its map, in the kernel's layout, struct
 * OPS_VALUE. Returns 0 or -errno.
 */
static int write_ops(const struct program *program)
{
	const struct btf *own = bpf_object__btf(program->obj), *btf = kernel_btf();
	const struct btf_member *data = find_member(btf, OPS_VALUE, "data");
	const struct btf_type *type = data ? btf__type_by_id(btf, data->type) : NULL;
	size_t size = bpf_map__value_size(program->ops);
	const char *table = object_initial(program->ops);
	uint32_t zero = 0;
	char *value;
	int err;

	if (!type)
		return -ENOTSUP;
	value = must_alloc(1, size);
	for (int i = 0; i < btf_vlen(type); i++) {
		const struct btf_member *to = &btf_members(type)[i];
		const struct btf_member *from =
			find_member(own, OPS_STRUCT, btf__name_by_offset(btf, to->name_off));

		if (from)
			convert_op(to, table + from->offset / 8,
				   value + (data->offset + to->offset) / 8);
	}
	err = bpf_map_update_elem(bpf_map__fd(program->ops), &zero, value, BPF_ANY) ? -errno : 0;
	free(value);
	return err;
}

int program_replace(const char *what, const struct program *program, int link_fd)
{
	int err = write_ops(program);

	if (!err && bpf_link_update(link_fd, bpf_map__fd(program->ops), NULL))
		err = -errno;
	return err ? fail_errno(what, program->controller->name, err) : EXIT_OK;
}

void program_close(struct program *program)
{
	bpf_link__destroy(program->link);
	bpf_object__close(program->obj);
	program->link = NULL;
	program->obj = NULL;
}

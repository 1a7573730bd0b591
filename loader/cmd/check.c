// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf check: what this kernel and this process offer of what ccbpf needs, one
 * row each: ok, missing, or a note, and what to do. Exit code 3 if the kernel
 * lacks something required, 4 if only permission is missing.
 */
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cc/sysecn.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/table.h"
#include "rules/programs.h"
#include "sys/bpffs.h"
#include "sys/cgroup.h"
#include "sys/chirps.h"
#include "sys/kernel.h"
#include "sys/needs.h"
#include "sys/objects.h"
#include "sys/pins.h"
#include "sys/sysctlfiles.h"
#include "util/capabilities.h"
#include "util/file.h"
#include "util/memory.h"
#include "util/text.h"

#define MOST_ROWS 24

enum verdict {
	OK,
	NOTE,
	MISSING
};

struct row {
	const char *name;
	enum verdict verdict;
	bool permission; /* what is missing is a permission, not a feature */
	char found[256], remedy[256];
};

struct rows {
	struct row row[MOST_ROWS];
	unsigned int n;
};

static struct row *add(struct rows *rows, const char *name, bool ok, enum verdict otherwise,
		       const char *found, const char *remedy)
{
	struct row *row = &rows->row[rows->n++];

	row->name = name;
	row->verdict = ok ? OK : otherwise;
	snprintf(row->found, sizeof(row->found), "%s", found);
	snprintf(row->remedy, sizeof(row->remedy), "%s", ok ? "" : remedy);
	return row;
}

/* Controllers and queues need those for changing, rules need all. */
static void check_capabilities(struct rows *rows)
{
	const char *missing = capabilities_missing(CAPABILITIES_CHANGING);
	const char *use = missing ? "" : ", for rules, `run` and other network namespaces";

	missing = missing ?: capabilities_missing(CAPABILITIES_ALL);
	add(rows, "capabilities", !missing, *use ? NOTE : MISSING,
	    missing ? text("lacks %s%s", missing, use) : "all that are needed",
	    capabilities_remedy())
		->permission = true;
}

static void check_process(struct rows *rows)
{
	struct utsname name;

	uname(&name);
	add(rows, "kernel", true, OK, text("%s %s, %s", name.sysname, name.release, name.machine),
	    "");
	add(rows, "libbpf", kernel_has_libbpf(), MISSING, libbpf_version_string(),
	    KERNEL_LIBBPF_REMEDY);
	check_capabilities(rows);
}

static void check_features(struct rows *rows)
{
	bool struct_ops = kernel_has_struct_ops(), links = kernel_has_links();
	const char *btf = kernel_btf_origin();

	add(rows, "BTF", btf, MISSING, btf ?: "none",
	    "boot a kernel with CONFIG_DEBUG_INFO_BTF=y, as distributions' are");
	add(rows, "struct_ops", struct_ops, MISSING,
	    struct_ops ? "tcp_congestion_ops" : "no tcp_congestion_ops",
	    "boot Linux " KERNEL_LEAST " or newer with CONFIG_BPF_JIT=y");
	add(rows, "struct_ops links", links, NOTE, links ? "yes" : "no",
	    "`reload` needs Linux 6.4; enable and disable work without");
	add(rows, "JIT", kernel_has_jit(), MISSING, kernel_has_jit() ? "on" : "off",
	    "`sysctl net.core.bpf_jit_enable=1`");
}

static void check_needs(struct rows *rows)
{
	char members[256] = "", functions[256] = "";
	bool unread = false;

	for_each_controller (c)
		unread |= needs_missing(c->object, c->object_end, members, functions,
					sizeof(members)) != 0;
	if (unread)
		return; /* no BTF: that row says it */
	add(rows, "kernel members", !*members, MISSING,
	    *members ? members : "all that the programs read",
	    "boot Linux " KERNEL_LEAST " or newer");
	add(rows, "kernel functions", !*functions, MISSING,
	    *functions ? functions : "all that the programs call",
	    "boot Linux " KERNEL_LEAST " or newer");
}

/* What a command finds here whose programs are at a device. */
static void check_device(struct rows *rows, const char *name, const char *command,
			 const char *object, const char *end)
{
	char lacks[256] = "";
	bool tcx = kernel_has_tcx();

	if (needs_missing(object, end, lacks, lacks, sizeof(lacks)))
		return; /* no BTF: that row says it */
	if (*lacks)
		add(rows, name, false, NOTE, lacks,
		    text("`%s` needs Linux " KERNEL_LEAST " or newer; the controllers work without",
			 command));
	else
		add(rows, name, tcx, NOTE, tcx ? "by TCX links" : "by filters at clsact",
		    text("`%s` works without TCX links (Linux 6.6), but other tools can then remove its programs by accident",
			 command));
}

/* What `ccbpf renice` needs: an iterator over sockets, and what its program reads of them. */
static void check_renice(struct rows *rows)
{
	bool walks = needs_kernel_has("bpf_iter__tcp", "sk_common");
	char lacks[256] = "";

	if (needs_missing(ccbpf_object_renice, ccbpf_object_renice_end, lacks, lacks,
			  sizeof(lacks)))
		return; /* no BTF: that row says it */
	if (!walks)
		append(lacks, sizeof(lacks), ", ", "the iterator over TCP sockets");
	add(rows, "renice", !*lacks, NOTE, *lacks ? lacks : "running transfers can be moved",
	    "`renice` needs Linux " KERNEL_LEAST " or newer; the controllers work without");
}

/* What downloads in the background find here. */
static void check_downloads(struct rows *rows)
{
	const char *remedy = "downloads in the background need Linux " KERNEL_LEAST
			     " or newer; the controllers work without";
	const char *hindered = NULL;
	char lacks[256] = "";

	if (needs_missing(ccbpf_object_rx_le, ccbpf_object_rx_le_end, lacks, lacks, sizeof(lacks)))
		return; /* no BTF: that row says it */
	if (!*lacks)
		hindered = programs_receive_hindered(&remedy);
	add(rows, "downloads", !*lacks && !hindered, NOTE,
	    *lacks ? lacks : hindered ?: "all that downloads in the background read", remedy);
}

/* What `renice --download` finds here. */
static void check_callbacks(struct rows *rows)
{
	bool has = kernel_has_callbacks();

	if (!kernel_btf())
		return; /* that row says it */
	add(rows, "renice --download", has, NOTE,
	    has ? "running downloads can be moved" : "no callbacks for a running connection",
	    "`renice --download` needs Linux " KERNEL_CALLBACKS
	    "; `run` and `assign` hold new downloads");
}

static void check_bpffs(struct rows *rows)
{
	bool standard = bpffs_is_above(pins_root());
	char path[512];
	char *slash;

	/* The nearest directory above the root that can be seen. */
	snprintf(path, sizeof(path), "%s", pins_root());
	while (faccessat(AT_FDCWD, path, F_OK, AT_EACCESS) && (slash = strrchr(path, '/')) &&
	       slash > path)
		*slash = '\0';
	if (bpffs_at(path)) {
		if (standard && access(BPFFS, F_OK) == 0)
			add(rows, "bpffs", false, NOTE, "not mounted on " BPFFS,
			    "`ccbpf enable` mounts it");
		else
			add(rows, "bpffs", false, MISSING,
			    text("%s does not lie on one", pins_root()),
			    "`mount -t bpf bpf " BPFFS "`, and let "
			    "CCBPF_PIN_ROOT lie below");
		return;
	}
	if (faccessat(AT_FDCWD, path, R_OK | W_OK | X_OK, AT_EACCESS) == 0)
		add(rows, "bpffs", true, OK, pins_root(), "");
	else if (errno == EROFS)
		add(rows, "bpffs", false, MISSING, text("%s is mounted read-only", path),
		    "mount it read-write");
	else
		add(rows, "bpffs", false, MISSING, text("no access to %s", path), "run as root")
			->permission = true;
}

/* What `run`, `assign` and systemd's units need; a hybrid hierarchy has cgroup v2 elsewhere. */
static void check_cgroup(struct rows *rows)
{
	bool mounted = !cgroup_reach();

	add(rows, "cgroup v2", mounted, NOTE, mounted ? cgroup_mount() : "not mounted",
	    "`run`, `assign` and `systemd` need it: `mount -t cgroup2 cgroup2 /sys/fs/cgroup/unified`, or boot with systemd.unified_cgroup_hierarchy=1; the controllers work without");
}

/*
 * Lockdown may refuse BPF that reads kernel memory. Its file is missing where the kernel has no
 * lockdown, and where securityfs is not mounted, as in a container.
 */
static void check_lockdown(struct rows *rows)
{
	char mode[64] = "";
	bool open;

	if (read_line(SECURITYFS "/lockdown", mode, sizeof(mode)) && !kernel_has_securityfs()) {
		add(rows, "lockdown", false, NOTE, "unknown: securityfs is not mounted",
		    "`mount -t securityfs securityfs " SECURITYFS "`");
		return;
	}
	open = !strstr(mode, "[confidentiality]");
	add(rows, "lockdown", open, NOTE, open ? "does not forbid BPF" : "confidentiality",
	    "it may refuse the programs: boot with lockdown=integrity or none");
}

static void check_modules(struct rows *rows)
{
	char modules[128];

	if (read_line(SECURITYFS "/lsm", modules, sizeof(modules)) == 0)
		add(rows, "security modules", true, OK, modules, "");
}

/* Where nobody asks for ECN there are no marks; where AccECN is agreed, no echo of each. */
static void check_ecn(struct rows *rows)
{
	bool has = sysecn_now() == SYSECN_CLASSIC;

	add(rows, "ECN", has, NOTE, text("%s%s%s", sysecn_text(), has ? "" : ": ", sysecn_lacks()),
	    sysecn_remedy());
}

/* Files that set at boot what `enable --default` and `enable --ecn` set as well. */
static void check_boot(struct rows *rows)
{
	static const struct {
		const char *row, *name, *option;
	} shared[] = { { "default at boot", "net.ipv4.tcp_congestion_control", "--default" },
		       { "ECN at boot", "net.ipv4.tcp_ecn", "--ecn" } };
	char value[SYSCTLFILES_VALUE];

	for (size_t i = 0; i < sizeof(shared) / sizeof(shared[0]); i++) {
		const char *path = sysctlfiles_find(shared[i].name, value);

		add(rows, shared[i].row, !path, NOTE,
		    path ? text("%s, by %s", value, path) : "no file sets it",
		    text("that file takes the place of `ccbpf enable %s` at boot and with each `sysctl --system`: remove the line there if you use that option",
			 shared[i].option));
	}
}

/* What nf_tcp's chirps need: without it the controller works, by marks alone. */
static void check_chirps(struct rows *rows)
{
	const char *fq = chirps_fq_devices();
	int err = chirps_try_storage();

	if (err != -EPERM) /* else the row of the capabilities says it */
		add(rows, "socket storage", !err, NOTE,
		    err ? text("refused: %s", strerror(-err)) : "yes",
		    "nf_tcp sends no chirps, and downloads are not held back: sockets need net.core.optmem_max of 20480 bytes, and on x86 since Linux 6.19 a CPU with cmpxchg16b (a guest: a model with cx16)");
	add(rows, "fq (nf_tcp)", !fq, NOTE,
	    fq ? text("fq chooses them on %s", fq) : "no device has fq",
	    "through fq nf_tcp sends no chirps: `tc qdisc replace dev DEVICE root fq_codel`");
}

static const char *verdict_word(const struct row *row)
{
	return row->verdict == OK ? "ok" : row->verdict == NOTE ? "note" : "missing";
}

/* The answer. `err`: the exit code. */
static const char *conclusion(int err)
{
	if (err == EXIT_OK)
		return "ccbpf works on this kernel";
	return err == EXIT_KERNEL ? "ccbpf does not work on this kernel: see the lines `missing`"
				  : "this process may not use ccbpf: see the lines `missing`";
}

static void print(const struct rows *rows, int err)
{
	static const struct column columns[] = { { .title = "WHAT" },
						 { .title = "VERDICT" },
						 { .title = "FOUND", .elastic = true } };
	static const enum style styles[] = {
		[OK] = STYLE_GOOD, [NOTE] = STYLE_HEAD, [MISSING] = STYLE_BAD
	};
	struct table *table = table_new(columns, 3);

	for (unsigned int i = 0; i < rows->n; i++) {
		table_cell(table, "%s", rows->row[i].name);
		table_styled(table, styles[rows->row[i].verdict], verdict_word(&rows->row[i]));
		table_cell(table, "%s", rows->row[i].found);
	}
	table_print(table);
	for (unsigned int i = 0; i < rows->n; i++)
		if (*rows->row[i].remedy)
			output_line("%s: %s", rows->row[i].name, rows->row[i].remedy);
	output_line("%s", conclusion(err));
}

static void print_json(const struct rows *rows, bool ok)
{
	struct json_object *doc = json_object_new_object(), *list = json_object_new_array();

	for (unsigned int i = 0; i < rows->n; i++) {
		const struct row *row = &rows->row[i];
		struct json_object *entry = json_object_new_object();

		add_text(entry, "name", row->name);
		add_text(entry, "verdict", verdict_word(row));
		add_text(entry, "found", row->found);
		add_text(entry, "remedy", *row->remedy ? row->remedy : NULL);
		json_object_array_add(list, entry);
	}
	add_bool(doc, "ok", ok);
	json_object_object_add(doc, "rows", list);
	output_json(doc);
}

static int check(const struct request *request)
{
	struct rows *rows;
	int err = request_no_args(request);

	if (err)
		return err;
	rows = must_alloc(1, sizeof(*rows));
	check_process(rows);
	check_features(rows);
	check_needs(rows);
	check_device(rows, "queue (aqm)", "aqm", ccbpf_object_nf_red, ccbpf_object_nf_red_end);
	check_renice(rows);
	check_downloads(rows);
	check_callbacks(rows);
	check_device(rows, "gateway", "gateway", ccbpf_object_gateway, ccbpf_object_gateway_end);
	check_bpffs(rows);
	check_cgroup(rows);
	check_lockdown(rows);
	check_modules(rows);
	check_ecn(rows);
	check_boot(rows);
	check_chirps(rows);
	for (unsigned int i = 0; i < rows->n; i++)
		if (rows->row[i].verdict == MISSING && err != EXIT_KERNEL)
			err = rows->row[i].permission ? EXIT_PERMISSION : EXIT_KERNEL;
	if (output.json)
		print_json(rows, err == EXIT_OK);
	else
		print(rows, err);
	free(rows);
	return err;
}

const struct command cmd_check = {
	.name = "check",
	.args = "",
	.text = "Say what this kernel offers or lacks",
	.run = check,
};

// SPDX-License-Identifier: GPL-2.0-only
/*
 * ccbpf renice NAME (--pid P… | --cgroup C | --dst PREFIX | --port N | --from CC | --all):
 * give running TCP transfers another congestion controller, and back, in all network
 * namespaces. Several conditions must all hold.
 *
 * ccbpf renice --download [--off] (the same conditions): put what they receive in the background,
 * and back. The program that holds it (rules/moved.h) is there before, and goes with the last one.
 *
 *	parse     the conditions; what they name is looked up
 *	require   capabilities, BTF, libbpf
 *	lock      for reading: nobody disables the controller meanwhile; for a change where ours is
 *	          not enabled: it is enabled first (a dry run does not)
 *	target    a socket of our own selects the controller: the kernel says whether there is
 *	          such a one (and loads its module), and whether this process may select it
 *	move      renice/transfers.h; what was moved is verified
 *	report    moved, refused and why
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "cc/running.h"
#include "commands.h"
#include "cmd/enable.h"
#include "cmd/sweep.h"
#include "out/errors.h"
#include "renice/report.h"
#include "sys/kernel.h"
#include "sys/pins.h"
#include "util/file.h"
#include "util/text.h"

#define WHAT "renice"
#define AVAILABLE_PATH "/proc/sys/net/ipv4/tcp_available_congestion_control"

enum own_option {
	OWN_CGROUP,
	OWN_DST,
	OWN_PORT,
	OWN_FROM,
	OWN_OFF,
};

/* The kernel's answer to a socket that selects the controller: 0 or -errno. */
static int ask_kernel(const char *name)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), err = 0;

	if (fd < 0)
		return -errno;
	if (setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, strlen(name)))
		err = -errno;
	close(fd);
	return err;
}

static int not_enabled(const struct controller *controller)
{
	struct running absent = running_of(controller);

	return running_absent(WHAT, &absent);
}

/* For a dry run ours need not be enabled. */
static int require_target(const char *name, bool look)
{
	const struct controller *ours = controller_find(name);
	int err = ask_kernel(name);
	char available[TEXT_MOST / 2] = "";

	if (err != -ENOENT)
		return err ? fail_errno(WHAT, text("to %s", name), err) : EXIT_OK;
	if (ours)
		return look ? EXIT_OK : not_enabled(ours);
	read_line(AVAILABLE_PATH, available, sizeof(available));
	return FAIL(EXIT_USAGE, .what = WHAT, .on = text("to %s", name),
		    .why = "neither ccbpf nor this kernel has a controller of this name",
		    .remedy = text("`ccbpf list` shows ours, the kernel has %s now", available));
}

static int move(const struct selection *selection, const struct moved *moved)
{
	const struct ccbpf_renice_config *config = &selection->config;
	struct transfers transfers = { 0 };
	struct iterator iterator;
	int err = iterator_open(WHAT, selection, moved, &iterator);

	if (!err)
		err = transfers_move(WHAT, &iterator, config, &transfers);
	if (!err)
		err = report(WHAT, &transfers);
	transfers_free(&transfers);
	iterator_close(&iterator);
	return err;
}

static int bad_usage(const char *on, const char *why)
{
	return FAIL(EXIT_USAGE, .what = WHAT, .on = on, .why = why,
		    .remedy = "see `ccbpf help renice`");
}

static int read_words(const struct request *request, struct selection_words *words)
{
	bool any;

	*words = (struct selection_words){
		.pids = request->sets,
		.n_pids = request->n_sets,
		.cgroup = request->own[OWN_CGROUP],
		.dst = request->own[OWN_DST],
		.port = request->own[OWN_PORT],
		.from = request->own[OWN_FROM],
	};
	any = words->n_pids || words->cgroup || words->dst || words->port || words->from;
	if (request->own[OWN_OFF] && !request->download)
		return bad_usage("--off",
				 "it is for --download; a controller is named to move back");
	if (request->download && request->n_args)
		return bad_usage(request->args[0],
				 "--download takes no controller: that is for what is sent");
	if (!request->download && !request->n_args)
		return bad_usage(NULL, "no controller is named");
	if (request->n_args > 1)
		return bad_usage(request->args[1], "only one controller can be named");
	words->to = request->n_args ? request->args[0] : NULL;
	if (any && request->all)
		return bad_usage(words->to, "--all takes no other condition");
	if (!any && !request->all)
		return bad_usage(words->to, "no condition says which transfers");
	return EXIT_OK;
}

static int move_locked(const struct selection *selection)
{
	int err = require_target(selection->config.to, selection->config.look);

	return err ?: move(selection, NULL);
}

static int enable_and_move(const struct selection *selection, const struct controller *target)
{
	bool did = false;
	int err = sweep(WHAT, SWEEP_RESTS, NULL);

	if (!err)
		err = enable_needed(target, &did);
	if (!err)
		err = move_locked(selection);
	if (did && err == EXIT_NOTHING)
		enable_give_back(target);
	else if (did)
		enable_note(target);
	return err;
}

static int move_sent(const struct selection *selection)
{
	const struct controller *ours = controller_find(selection->config.to);
	bool exists, enables = ours && !selection->config.look && ask_kernel(ours->name) == -ENOENT;
	int err = enables ? pins_lock_change(WHAT) : pins_lock_read(WHAT, &exists);

	if (err)
		return err;
	err = enables ? enable_and_move(selection, ours) : move_locked(selection);
	pins_unlock();
	return err;
}

static int require_callbacks(void)
{
	if (kernel_has_callbacks())
		return EXIT_OK;
	return FAIL(
		EXIT_KERNEL, .what = WHAT, .on = "--download",
		.why = "this kernel cannot call a program for a connection that runs already; that needs Linux " KERNEL_CALLBACKS,
		.remedy =
			"`ccbpf run --download` and `ccbpf assign --download` hold new connections here");
}

/* Those that are held already are found by the program that holds them. */
static int open_moved(const struct ccbpf_renice_config *config, struct moved *moved)
{
	int err;

	if (!config->off && !config->look)
		return moved_make(WHAT, moved);
	err = moved_open(moved);
	if (err)
		return pin_unusable(WHAT, pin_path(MOVED_DIR, NULL), err);
	if (config->off && moved->receives_fd < 0)
		return FAIL(EXIT_NOTHING, .what = WHAT, .on = "--off",
			    .why = "`renice` holds no download",
			    .remedy = "`ccbpf flows rx_le` shows by what a download is held");
	return EXIT_OK;
}

static int move_received(const struct selection *selection)
{
	const struct ccbpf_renice_config *config = &selection->config;
	struct moved moved = MOVED_NONE;
	int err = require_callbacks(), swept;
	bool exists;

	if (!err)
		err = config->look ? pins_lock_read(WHAT, &exists) : pins_lock_change(WHAT);
	if (err)
		return err;
	err = open_moved(config, &moved);
	if (!err)
		err = move(selection, &moved);
	moved_close(&moved);
	if (!config->look) {
		swept = sweep(WHAT, SWEEP_UNUSED, NULL);
		if (!err)
			err = swept;
	}
	pins_unlock();
	return err;
}

static int renice(const struct request *request)
{
	struct selection_words words;
	struct selection selection = { 0 };
	int err = read_words(request, &words);

	if (!err)
		err = selection_parse(WHAT, &words, &selection);
	selection.config.look = request->dry_run;
	selection.config.off = request->own[OWN_OFF] != NULL;
	if (!err)
		err = kernel_require_bpf(WHAT, NULL);
	if (!err)
		err = request->download ? move_received(&selection) : move_sent(&selection);
	selection_free(&selection);
	return err;
}

static const struct argp_option options[] = {
	{ "pid", OPTION_SET, "PID", 0, "the sockets of a process (can be repeated)", 0 },
	{ "cgroup", OPTION_OWN + OWN_CGROUP, "CGROUP", 0,
	  "sockets made in PATH, unit:NAME, slice:NAME, container:ID or pod:UID, or below", 0 },
	{ "dst", OPTION_OWN + OWN_DST, "PREFIX", 0,
	  "to this address or prefix, IPv4 or IPv6 (192.0.2.0/24)", 0 },
	{ "port", OPTION_OWN + OWN_PORT, "N", 0, "with this local or remote port, 1 to 65535", 0 },
	{ "from", OPTION_OWN + OWN_FROM, "NAME", 0, "transfers that have this controller now", 0 },
	{ "all", OPTION_ALL, 0, 0,
	  "all transfers of this system, also those that no controller of ccbpf has", 0 },
	{ "download", 'd', 0, 0, "put what they receive in the background", 0 },
	{ "off", OPTION_OWN + OWN_OFF, 0, 0, "with --download: back to the foreground", 0 },
	{ "dry-run", 'n', 0, 0, "only show what would be moved", 0 },
	{ 0 },
};

const struct command cmd_renice = {
	.name = "renice",
	.args = "[NAME] CONDITION...",
	.text = "Move running transfers to a controller",
	.more = "NAME is a controller of ccbpf, which is enabled if it is not, or any other that the kernel has (to move back: cubic). "
		"Transfers of all network namespaces are moved, if all conditions hold, also where the program has chosen the controller. A socket's cgroup is "
		"that of the process that made it, or that made its listener. Listeners, and connections "
		"whose handshake is not over, are left alone; -v counts them. With --download and without a NAME the receive window of "
		"the transfers yields instead (Linux " KERNEL_CALLBACKS
		"); their controller stays.",
	.options = options,
	.run = renice,
};

// SPDX-License-Identifier: GPL-2.0-only
/* A gateway on a device, as its pins tell: see gateway.h. */
#include <bpf/bpf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/gateway.h"
#include "gateway/kinds.h"
#include "out/errors.h"
#include "out/json.h"
#include "sys/pins.h"
#include "util/memory.h"

/* CCBPF_RECEIVED_BY_GATEWAY */
#define INSTANCE_SHIFT 32
#define INSTANCE_TOP 62

const struct attachment_map gateway_maps[GATEWAY_MAPS] = {
	[GATEWAY_MAP_IDENTITY] = { PIN_IDENTITY, ".rodata.identity",
				   ONE_VALUE(BPF_MAP_TYPE_ARRAY,
					     sizeof(struct ccbpf_aqm_identity)) },
	[GATEWAY_MAP_CONFIG] = { "config", ".rodata.config",
				 ONE_VALUE(BPF_MAP_TYPE_ARRAY,
					   sizeof(struct ccbpf_gateway_config)) },
	[GATEWAY_MAP_COUNTS] = { "counts", "counts",
				 ONE_VALUE(BPF_MAP_TYPE_PERCPU_ARRAY,
					   sizeof(struct ccbpf_gateway_counts)) },
	[GATEWAY_MAP_CONNECTIONS] = { "connections",
				      "connections",
				      { BPF_MAP_TYPE_HASH, sizeof(struct ccbpf_gateway_key), 0,
					CCBPF_GATEWAY_CONNECTIONS } },
};

static const struct attachment_kind attachment_in =
	TCHOOK_ATTACHMENT(1, CCBPF_GATEWAY_ABI, "gateway_in");
static const struct attachment_kind attachment_out =
	TCHOOK_ATTACHMENT(GATEWAY_MAPS, CCBPF_GATEWAY_ABI, "gateway_out");

#define KIND(side, is_ingress)     \
	{ .dir = GATEWAY_DIR,      \
	  .suffix = "_" #side,     \
	  .title = "the gateway",  \
	  .command = "gateway",    \
	  .ingress = (is_ingress), \
	  .maps = gateway_maps,    \
	  .attachment = &attachment_##side }

const struct tchook_kind gateway_kind_in = KIND(in, true);
const struct tchook_kind gateway_kind_out = KIND(out, false);

int gateway_open(const char *what, uint32_t netns, uint32_t ifindex, struct gateway *out)
{
	int err = tchook_open(what, &gateway_kind_in, netns, ifindex, &out->in);

	if (err)
		return err;
	err = tchook_open(what, &gateway_kind_out, netns, ifindex, &out->out);
	if (err)
		attachment_close(&out->in.attachment);
	return err;
}

void gateway_close(struct gateway *gateway)
{
	attachment_close(&gateway->in.attachment);
	attachment_close(&gateway->out.attachment);
}

int gateway_require_device(const char *what, const char *name, struct device *device)
{
	return tchook_require_device(what, &gateway_kind_out, name, device);
}

/* Those of the sort `kind` whose device is not among the pairs yet. Returns EXIT_OK or the first exit code. */
static int add_pairs(const char *what, const struct tchook_kind *kind, struct gateway **all,
		     unsigned int *n)
{
	unsigned int n_found;
	struct tchook *found;
	int err = tchook_open_all(what, kind, &found, &n_found);

	for (unsigned int i = 0; i < n_found; i++) {
		uint32_t netns = found[i].identity.netns, ifindex = found[i].identity.ifindex;
		bool known = false;
		int failed;

		attachment_close(&found[i].attachment);
		for (unsigned int j = 0; j < *n; j++)
			known |= (*all)[j].out.identity.netns == netns &&
				 (*all)[j].out.identity.ifindex == ifindex;
		if (known)
			continue;
		*all = must_grow(*all, (*n + 1) * sizeof(**all));
		failed = gateway_open(what, netns, ifindex, &(*all)[*n]);
		*n += !failed;
		if (!err)
			err = failed;
	}
	free(found);
	return err;
}

int gateway_open_all(const char *what, struct gateway **out, unsigned int *n)
{
	int err, failed;

	*out = NULL;
	*n = 0;
	err = add_pairs(what, &gateway_kind_out, out, n);
	failed = add_pairs(what, &gateway_kind_in, out, n);
	return err ?: failed;
}

const struct ccbpf_aqm_identity *gateway_identity(const struct gateway *gateway)
{
	return *gateway->out.identity.device ? &gateway->out.identity : &gateway->in.identity;
}

/* The one whose state is that of both. */
static const struct tchook *teller(const struct gateway *gateway)
{
	static const enum attachment_state order[] = { ATTACHMENT_UNREADABLE, ATTACHMENT_GONE,
						       ATTACHMENT_DETACHED, ATTACHMENT_STALE };

	for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
		if (gateway->out.attachment.state == order[i])
			return &gateway->out;
		if (gateway->in.attachment.state == order[i])
			return &gateway->in;
	}
	return gateway->in.attachment.state == gateway->out.attachment.state ? &gateway->out : NULL;
}

enum attachment_state gateway_state(const struct gateway *gateway)
{
	const struct tchook *hook = teller(gateway);

	return hook ? hook->attachment.state : ATTACHMENT_STALE;
}

const char *gateway_state_text(const struct gateway *gateway)
{
	const struct tchook *hook = teller(gateway);

	return hook ? tchook_state_text(hook) : "an interrupted ccbpf left a half of it";
}

int gateway_read_config(const char *what, const struct gateway *gateway,
			struct ccbpf_gateway_config *out)
{
	int err = tchook_read_map(what, &gateway->out, GATEWAY_MAP_CONFIG, out);

	if (!err && out->n_hosts > CCBPF_GATEWAY_PREFIXES)
		out->n_hosts = CCBPF_GATEWAY_PREFIXES;
	if (!err && out->n_remotes > CCBPF_GATEWAY_PREFIXES)
		out->n_remotes = CCBPF_GATEWAY_PREFIXES;
	return err;
}

int gateway_read_counts(const char *what, const struct gateway *gateway,
			struct ccbpf_gateway_counts *out)
{
	return tchook_read_sums(what, &gateway->out, GATEWAY_MAP_COUNTS, (__u64 *)out,
				sizeof(*out) / sizeof(__u64));
}

size_t gateway_connections(const struct gateway *gateway)
{
	int fd = attachment_open_map(&gateway->out.attachment, GATEWAY_MAP_CONNECTIONS);
	struct ccbpf_gateway_key key, *before = NULL;
	size_t n = 0;

	if (fd < 0)
		return 0;
	while (n < CCBPF_GATEWAY_CONNECTIONS && !bpf_map_get_next_key(fd, before, &key)) {
		before = &key;
		n++;
	}
	close(fd);
	return n;
}

__u64 gateway_instance(uint32_t id)
{
	return CCBPF_RECEIVED_BY_GATEWAY | (__u64)id << INSTANCE_SHIFT;
}

__u64 gateway_instance_of(__u64 key)
{
	__u64 instance = key >> INSTANCE_SHIFT << INSTANCE_SHIFT;

	return instance >> INSTANCE_TOP == CCBPF_RECEIVED_BY_GATEWAY >> INSTANCE_TOP ? instance : 0;
}

unsigned int gateway_names(struct gateway_name **out)
{
	struct gateway *all;
	unsigned int n_all, n = 0;

	*out = NULL;
	if (!gateway_is_pinned())
		return 0;
	gateway_open_all("read", &all, &n_all);
	*out = must_alloc(n_all ?: 1, sizeof(**out));
	for (unsigned int i = 0; i < n_all; i++) {
		struct ccbpf_gateway_config config;

		if (gateway_state(&all[i]) == ATTACHMENT_HELD &&
		    !gateway_read_config("read", &all[i], &config)) {
			(*out)[n].instance = gateway_instance(config.id);
			(*out)[n].netns = gateway_identity(&all[i])->netns;
			snprintf((*out)[n++].device, sizeof((*out)->device), "%s",
				 gateway_identity(&all[i])->device);
		}
		gateway_close(&all[i]);
	}
	free(all);
	return n;
}

bool gateway_is_pinned(void)
{
	return pin_exists(pin_path(GATEWAY_DIR, NULL));
}

/* Whether `clean` removes it. */
static bool goes(const struct gateway *gateway, bool all)
{
	struct attachment both = { .state = gateway_state(gateway) };

	return attachment_goes(&both, all);
}

int gateway_sweep(const char *what, bool all, struct json_object *removed)
{
	struct gateway *found;
	unsigned int n;
	int err = gateway_open_all(what, &found, &n);

	for (unsigned int i = 0; i < n; i++) {
		bool going = goes(&found[i], all);
		int failed = going ? gateway_remove(what, &found[i]) : EXIT_OK;

		if (going && !failed && removed)
			json_object_array_add(removed, json_text(attachment_path(
							       &found[i].out.attachment, NULL)));
		if (!err)
			err = failed;
		gateway_close(&found[i]);
	}
	free(found);
	if (all)
		pin_remove_dir(pin_path(GATEWAY_DIR, NULL));
	else
		rmdir(pin_path(GATEWAY_DIR, NULL)); /* an interrupted attach may leave it */
	return err;
}

void gateway_foreign(struct json_object *foreign)
{
	static const struct tchook_kind *const kinds[] = { &gateway_kind_in, &gateway_kind_out };

	tchook_foreign(kinds, 2, foreign);
}

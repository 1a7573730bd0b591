/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * A gateway on a device: bpf/gateway.bpf.c at both sides of it, each as sys/tchook.h has it:
 *
 *   <root>/gateway/<netns>_<ifindex>_in/identity
 *   <root>/gateway/<netns>_<ifindex>_out/identity config counts connections
 *
 * Order of making: what comes in, what goes out; of removal: the other way round. So a kill at any instant
 * leaves a pair, of which both are attached, or one that `clean` removes.
 */
#ifndef CCBPF_GATEWAY_LOADER_H
#define CCBPF_GATEWAY_LOADER_H

#include <json-c/json.h>

#include "ccbpf/gateway.h"
#include "sys/tchook.h"

#define GATEWAY_DIR "gateway" /* in the pin directory */

struct gateway {
	struct tchook in, out; /* the maps are pinned with `out` */
};

/* Open what is pinned for a device. Returns EXIT_OK or the exit code. */
int gateway_open(const char *what, uint32_t netns, uint32_t ifindex, struct gateway *out);
void gateway_close(struct gateway *gateway);

/* Open all that are pinned; the caller closes and frees them. Returns EXIT_OK or the exit code. */
int gateway_open_all(const char *what, struct gateway **out, unsigned int *n);

/* tchook_require_device() of gateways. */
int gateway_require_device(const char *what, const char *name, struct device *device);

/* Its device, as the one of its two that can be read says. */
const struct ccbpf_aqm_identity *gateway_identity(const struct gateway *gateway);

/* That of both; where one of them alone is attached, that of the other, or STALE. */
enum attachment_state gateway_state(const struct gateway *gateway);
const char *gateway_state_text(const struct gateway *gateway);

/* Its maps. Return EXIT_OK or the exit code. */
int gateway_read_config(const char *what, const struct gateway *gateway,
			struct ccbpf_gateway_config *out);
int gateway_read_counts(const char *what, const struct gateway *gateway,
			struct ccbpf_gateway_counts *out);

/* How many connections it knows now; 0 where that cannot be read. */
size_t gateway_connections(const struct gateway *gateway);

/* What the instance of its records is, by its id. */
__u64 gateway_instance(uint32_t id);

/* The instance of the record with this key; 0: it is of no gateway. */
__u64 gateway_instance_of(__u64 key);

/* The instances of all that are attached, to be freed; none where they cannot be read. Silent. */
struct gateway_name {
	__u64 instance;
	uint32_t netns; /* inode of its device's network namespace */
	char device[CCBPF_AQM_NAME_LEN];
};
unsigned int gateway_names(struct gateway_name **out);

/* Load, pin and attach; its id is chosen here. Returns EXIT_OK or the exit code; then nothing is left. */
int gateway_attach(const char *what, const struct device *device,
		   const struct ccbpf_gateway_config *config, struct gateway *out);

/*
 * Take it off the device and remove its pins; its records go with the next sweep (cmd/sweep.h). Returns
 * EXIT_OK or the exit code.
 */
int gateway_remove(const char *what, struct gateway *gateway);

/* Whether one is pinned, or part of one. */
bool gateway_is_pinned(void);

/* As tchook_sweep() and tchook_foreign(): what is not attached as a pair goes. */
int gateway_sweep(const char *what, bool all, struct json_object *removed);
void gateway_foreign(struct json_object *foreign);

#endif

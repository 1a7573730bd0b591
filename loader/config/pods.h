/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The pods of this node that ask for a controller, as rules behind those of the file:
 *
 *   metadata: {annotations: {ccbpf/controller: le}}
 *
 * A list of pods is what the API server answers to GET /api/v1/pods, as JSON; without what
 * is not read here it is shorter (PartialObjectMetadataList). Read of each pod are its uid,
 * namespace, name and this annotation. Whoever may make pods writes these, so a pod
 * whose annotation is wrong gets one note and no rule, and the others have theirs.
 *
 * A pod without a cgroup here runs on another node, not yet, or no more: no rule, no note. Its
 * cgroup is where the kubelet makes it, by its driver and by its class of service:
 *
 *   cgroupfs   /kubepods[/burstable, /besteffort]/podUID
 *   systemd    /kubepods.slice[/kubepods-burstable.slice, …]/kubepods[-burstable, …]-podUID.slice,
 *              with underscores in UID
 */
#ifndef CCBPF_CONFIG_PODS_H
#define CCBPF_CONFIG_PODS_H

#include <stddef.h>

#include "config/config.h"

#define PODS_ANNOTATION "ccbpf/controller"
#define PODS_BYTES_MOST (64 << 20)

/*
 * Read a list of pods from a file, or with "-" from standard input, and add their rules; after
 * config_find(). Returns EXIT_OK, or the exit code after saying why it is no such list.
 */
int pods_add(const char *what, const char *path, struct config *config);

/* The same of what a list holds, `length` bytes. */
int pods_parse(const char *what, const char *bytes, size_t length, struct config *config);

#endif

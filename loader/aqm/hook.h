/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * What holds nf_red on a device: a TCX link (6.6), or a filter at its clsact where there
 * is no TCX.
 */
#ifndef CCBPF_AQM_HOOK_H
#define CCBPF_AQM_HOOK_H

#include "aqm/aqm.h"
#include "sys/device.h"

#define AQM_PROGRAM "nf_red"
#define AQM_PIN_LINK "link"
#define AQM_PIN_PROGRAM "program"

/* What the pin that is open as `hold_fd`, a link or a program, says. Sets the ids. */
enum aqm_state hook_read_link(struct aqm *aqm);
enum aqm_state hook_read_filter(struct aqm *aqm);

/* Whether the device has a clsact. */
bool hook_has_clsact(uint32_t ifindex);

/*
 * The qdisc `ingress` takes a filter for egress, and runs it at ingress. Returns
 * EXIT_OK where the device has none, or the exit code.
 */
int hook_refuse_ingress(const char *what, const struct device *device);

/* Attach the program and pin what holds it. Return EXIT_OK or the exit code. */
int hook_attach_link(const char *what, const struct device *device, struct aqm *aqm,
		     int program_fd);
int hook_attach_filter(const char *what, const struct device *device, struct aqm *aqm,
		       int program_fd);

/* Take the filter away, and clsact with it. Returns EXIT_OK or the exit code. */
int hook_remove_filter(const char *what, const struct aqm *aqm);

/* The clsact that we made goes when nobody else uses it. */
void hook_remove_clsact(const struct aqm *aqm);

#endif

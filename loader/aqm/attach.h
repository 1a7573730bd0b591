/* SPDX-License-Identifier: GPL-2.0-only */
/* Attaching nf_red to a device and taking it away. */
#ifndef CCBPF_AQM_ATTACH_H
#define CCBPF_AQM_ATTACH_H

#include "aqm/aqm.h"
#include "ccbpf/aqm.h"
#include "sys/device.h"

/* Whether this kernel can attach it at all; says why not and returns the code. */
int aqm_require(const char *what);

/* Load, pin and attach. Returns EXIT_OK or the exit code; then nothing is left. */
int aqm_attach(const char *what, const struct device *device, const struct ccbpf_aqm_config *config,
	       struct aqm *out);

/* Take it off the device and remove its pins. Returns EXIT_OK or the exit code. */
int aqm_remove(const char *what, struct aqm *aqm);

#endif

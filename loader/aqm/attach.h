/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Attaching nf_red to a device and taking it away. What holds it there is a TCX link (6.6), or a
 * filter at its clsact where there is no TCX.
 */
#ifndef CCBPF_AQM_ATTACH_H
#define CCBPF_AQM_ATTACH_H

#include "aqm/aqm.h"

extern const struct attachment_kind aqm_attachment;

/* Load, pin and attach. Returns EXIT_OK or the exit code; then nothing is left. */
int aqm_attach(const char *what, const struct device *device, const struct ccbpf_aqm_config *config,
	       struct aqm *out);

/* Take it off the device and remove its pins. Returns EXIT_OK or the exit code. */
int aqm_remove(const char *what, struct aqm *aqm);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/* Attaching nf_red to a device; tchook_remove() takes it away. */
#ifndef CCBPF_AQM_ATTACH_H
#define CCBPF_AQM_ATTACH_H

#include "aqm/aqm.h"

/* Load, pin and attach. Returns EXIT_OK or the exit code; then nothing is left. */
int aqm_attach(const char *what, const struct device *device, const struct ccbpf_aqm_config *config,
	       struct tchook *out);

#endif

/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * The configuration of nf_red, made of the options of `ccbpf aqm`, of what the
 * device's qdiscs say of themselves, and of the defaults.
 */
#ifndef CCBPF_AQM_CONFIG_H
#define CCBPF_AQM_CONFIG_H

#include "aqm/options.h"
#include "aqm/queue.h"
#include "ccbpf/aqm.h"

/*
 * The device's packets may have got another size since: a configuration takes it,
 * at the rate that it has, and where its limit is the queue's own, in packets, it
 * goes with them.
 */
void aqm_follow_device(const struct device *device, const struct qdiscs *all,
		       struct ccbpf_aqm_config *config);

/*
 * Put the options into a configuration. First `fresh` is filled with the defaults,
 * and it or one that gets another class with what the queue says: limit, rate.
 * Returns EXIT_OK, or EXIT_USAGE after saying which option is wrong. `what`: "attach nf_red to v0 with".
 */
int aqm_configure(const char *what, const struct aqm_options *options, const struct device *device,
		  const struct aqm_queue *queue, bool fresh, struct ccbpf_aqm_config *config);

#endif

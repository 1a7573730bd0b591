// SPDX-License-Identifier: GPL-2.0-only
/* What the flows of each controller, and downloads, have done, those that have ended included. */
#include <unistd.h>

#include "cc/flowkinds.h"
#include "cc/totals.h"
#include "metrics/metrics.h"
#include "metrics/totals.h"
#include "out/errors.h"
#include "sys/pins.h"
#include "sys/shared.h"

int metrics_totals(const char *what, struct exposition *out)
{
	struct ccbpf_totals all[CCBPF_KINDS];
	int fd, err = shared_open(what, SHARED_TOTALS, &fd);

	if (err || fd < 0)
		return err; /* programs of an older ccbpf keep none */
	for (unsigned int i = 0; !err && i < n_flow_kinds; i++)
		err = totals_read(fd, flow_kinds[i].kind, &all[i]);
	close(fd);
	if (err)
		return fail_errno(what, pin_path(shared_name(SHARED_TOTALS), NULL), err);
#define X(field, called, form, help)                                   \
	exposition_family(out, METRIC_COUNTER, "ccbpf_" called, help); \
	for (unsigned int i = 0; i < n_flow_kinds; i++)                \
		exposition_##form(out, LABELS({ "controller", flow_kinds[i].name }), all[i].field);
	TOTALS_ADDED(X)
#undef X
	return EXIT_OK;
}

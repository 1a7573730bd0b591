/* SPDX-License-Identifier: GPL-2.0-only */
/* The full screen of `ccbpf top`: what is drawn, and what the keys do. */
#ifndef CCBPF_TOP_SCREEN_H
#define CCBPF_TOP_SCREEN_H

#include "top/view.h"

struct screen {
	struct model model;
	struct view view;
	size_t cursor; /* the chosen row */
	struct view_id chosen; /* what it is of: the cursor stays on it, wherever it is listed */
	bool chooses; /* a key has chosen one */
	size_t first; /* the first row that is shown */
	uint64_t period_ns;
	bool paused; /* nothing is read */
	bool helps; /* the help is shown */
	bool edits; /* the filter is being typed */
	/* The detail of a flow is shown while the model holds one. */
	bool ended; /* by a key, or because nobody can type any more */
};

/* Draw it all. */
void screen_draw(struct screen *screen);

/* Do what the keys say that were pressed; `readable`: there is input. */
void screen_keys(struct screen *screen, bool readable);

/* Show the detail of this flow; no detail any more. */
void screen_detail(struct screen *screen, const struct flow_id *id);
void screen_list(struct screen *screen);

/* The cursor goes to a row, and stays on what it is of. */
void screen_choose(struct screen *screen, size_t row);

/* How many rows of flows there is room for. */
size_t screen_room(void);

#endif

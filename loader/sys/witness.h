/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether a signal that this process got was for its whole process group, or for all processes of its
 * cgroup (`kill -- -PGID`, timeout(1), `systemctl stop`): siginfo_t does not tell.
 *
 * The witness is a child that stays in this process's group and cgroup, blocks all signals and does
 * nothing. A signal for all is pending at the witness as well (ShdPnd in /proc/PID/status); a signal
 * for this process alone is not. Once it has seen a signal, a new witness takes its place, because
 * nobody but itself could take the signal away.
 *
 * It has another name and other words than this process: `pkill netnice` and `pkill -f 'netnice …'` do
 * not find it. Both match by name, and send their signals to one process after another.
 */
#ifndef CCBPF_WITNESS_H
#define CCBPF_WITNESS_H

#include <stdbool.h>

#define WITNESS_PATIENCE_MS \
	20 /* who signals each process of a cgroup may come to the witness last */

/* All signals are blocked. Where it cannot be had, no signal is for all. */
void witness_start(void);

/* Whether the witness has this signal, or gets it within `patience_ms`. It is asked once per signal. */
bool witness_saw(int signal, int patience_ms);

void witness_end(void);

#endif

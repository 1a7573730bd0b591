/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Whether a signal that this process got was for its whole process group, or for all processes of its
 * cgroup (`kill -- -PGID`, `systemctl stop`): siginfo_t does not tell.
 *
 * The witness is a child that stays in this process's group and cgroup, and blocks all signals. A
 * signal for all is pending at the witness as well (ShdPnd in /proc/PID/status); a signal for this
 * process alone is not. Once this process has asked for a signal that is there, a new witness takes
 * the place of the old one. What nobody asks for (`kill` of the witness, `pkill -P`) it forgets after
 * a second, or the next signal for this process alone would seem to be for all.
 *
 * It has another name and other words than this process: `pkill netnice` and `pkill -f 'netnice …'` do
 * not find it. Both match by name, and send their signals to one process after another.
 */
#ifndef CCBPF_WITNESS_H
#define CCBPF_WITNESS_H

#include <stdbool.h>

/* A sender that signals each process of a cgroup may signal the witness last. */
#define WITNESS_PATIENCE_MS 20

/* All signals must be blocked. If no process can be made, no signal will seem to be for all. */
void witness_start(void);

/* Whether the witness has this signal, or gets it within `patience_ms`. Ask once for each signal. */
bool witness_saw(int signal, int patience_ms);

void witness_end(void);

#endif

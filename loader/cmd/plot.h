/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * Pictures of flows, drawn by plot.py of the package ccbpf-tools, in python3 with matplotlib. It lies
 * in ../share/ccbpf seen from this command, or beside it where it was built.
 */
#ifndef CCBPF_CMD_PLOT_H
#define CCBPF_CMD_PLOT_H

/*
 * Draw `picture` from n files: what `flows --record` or `-j trace` has written. Without a file: see
 * whether it could be drawn. Returns EXIT_OK, or the exit code after saying why not.
 */
int plot_draw(const char *what, const char *picture, const char *const *files, unsigned int n);

#endif

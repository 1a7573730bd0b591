/* SPDX-License-Identifier: GPL-2.0-only */
/* Names of systemd's units. */
#ifndef CCBPF_UNIT_H
#define CCBPF_UNIT_H

/*
 * The whole name of a unit that is given with or without its type, as systemctl completes it:
 * "backup" is "backup.service", also "python3.11", where `type` is ".service". A text(), or
 * NULL: no unit can have this name.
 */
const char *unit_name(const char *given, const char *type);

#endif

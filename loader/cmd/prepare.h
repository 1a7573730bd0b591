/* SPDX-License-Identifier: GPL-2.0-only */
/* `run --prepare USER`, and `--off`, which takes it back. */
#ifndef CCBPF_PREPARE_H
#define CCBPF_PREPARE_H

#include "commands.h"

/* Do what the request asks for, with the controller that it names. Returns an exit code. */
int prepare(const struct request *request, const struct controller *c);

#endif

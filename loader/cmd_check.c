// SPDX-License-Identifier: GPL-2.0-only
/* stub */
#include "commands.h"
static int check(const struct request *request) { (void)request; return 0; }
const struct command cmd_check = { .name = "check", .args = "", .text = "Say what this kernel offers and what is missing", .run = check };

// SPDX-License-Identifier: GPL-2.0-only
/* ccbpf version: of the command, of libbpf, and of the maps' layout. */
#include <bpf/libbpf.h>
#include <stdio.h>

#include "ccbpf/identity.h"
#include "commands.h"
#include "out/errors.h"
#include "out/json.h"
#include "out/output.h"

static int version(const struct request *request)
{
	int err = request_no_args(request);
	struct json_object *doc;

	if (err)
		return err;
	if (!output.json) {
		output_line("ccbpf %s (map layout %d), libbpf %s", CCBPF_VERSION, CCBPF_ABI,
			    libbpf_version_string());
		return EXIT_OK;
	}
	doc = json_object_new_object();
	add_text(doc, "version", CCBPF_VERSION);
	add_number(doc, "abi", CCBPF_ABI);
	add_text(doc, "libbpf", libbpf_version_string());
	output_json(doc);
	return EXIT_OK;
}

const struct command cmd_version = {
	.name = "version",
	.args = "",
	.text = "Print the versions of ccbpf and libbpf",
	.run = version,
};

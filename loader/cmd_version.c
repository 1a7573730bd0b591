// SPDX-License-Identifier: GPL-2.0-only
/* ccbpf version: of the command, of libbpf, and of the maps' layout. */
#include <bpf/libbpf.h>
#include <stdio.h>

#include "ccbpf/identity.h"
#include "commands.h"
#include "errors.h"
#include "output.h"

static int version(const struct request *request)
{
	int err = request_no_args(request);
	struct json_object *doc;

	if (err)
		return err;
	if (!output.json) {
		printf("ccbpf %s (map layout %d), libbpf %s\n", CCBPF_VERSION,
		       CCBPF_ABI, libbpf_version_string());
		return EXIT_OK;
	}
	doc = json_object_new_object();
	json_object_object_add(doc, "version",
			       json_object_new_string(CCBPF_VERSION));
	json_object_object_add(doc, "abi", json_object_new_int(CCBPF_ABI));
	json_object_object_add(doc, "libbpf",
			       json_object_new_string(libbpf_version_string()));
	output_json(doc);
	return EXIT_OK;
}

const struct command cmd_version = {
	.name = "version",
	.args = "",
	.text = "Print the versions of ccbpf and libbpf",
	.run = version,
};

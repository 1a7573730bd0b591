// SPDX-License-Identifier: GPL-2.0-only
/* fetch: files of given sizes, one after a fixed time each. */
#include "traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SIZES_MAX 64
#define COUNT_MAX 1e6
#define LIST_MAX 1024 /* characters of --bytes */

struct files {
	struct source source; /* first: they are cast to each other */
	uint64_t sizes[SIZES_MAX];
	size_t size_count;
	uint64_t every_ns, count, taken;
};

static struct files files;

static bool files_peek(struct source *source, uint64_t *due_ns)
{
	const struct files *these = (const struct files *)source;

	*due_ns = these->taken * these->every_ns;
	return these->taken < these->count;
}

static void files_take(struct source *source, struct object *object)
{
	struct files *these = (struct files *)source;

	object->due_ns = these->taken * these->every_ns;
	object->bytes = these->sizes[these->taken % these->size_count];
	these->taken++;
}

static void files_done(struct source *source, const struct object *object, uint64_t when_ns)
{
	(void)source;
	(void)object;
	(void)when_ns;
}

/* "30k" or "3k,30k,300k" */
static void sizes_parse(const char *text)
{
	char list[LIST_MAX], *rest = list, *word;

	if (!text)
		usage("--bytes is needed: sizes as in 3k,30k,300k");
	if (strlen(text) >= sizeof(list))
		usage("--bytes: the list is longer than %zu characters", sizeof(list) - 1);
	strcpy(list, text);
	while ((word = strsep(&rest, ","))) {
		if (files.size_count == SIZES_MAX)
			usage("--bytes: more than %d sizes", SIZES_MAX);
		files.sizes[files.size_count++] =
			(uint64_t)amount_parse("--bytes", word, 1, OBJECT_BYTES_MAX);
	}
}

/* Response times of one size. */
static void print_size(const struct client *client, uint64_t size, uint64_t *took)
{
	uint64_t asked = 0;
	size_t count = 0;
	double sum = 0;

	for (size_t i = 0; i < client->count; i++) {
		const struct object *object = &client->objects[i];

		if (object->bytes != size)
			continue;
		asked++;
		if (object->took_ns < 0)
			continue;
		took[count++] = (uint64_t)object->took_ns;
		sum += (double)object->took_ns;
	}
	qsort(took, count, sizeof(*took), by_value);
	printf("{\"bytes\": %" PRIu64 ", \"asked\": %" PRIu64 ", \"response_s\": ", size, asked);
	print_summary(took, count, sum);
	printf("}");
}

static void print_sizes(const struct client *client)
{
	uint64_t *took = malloc((client->count + 1) * sizeof(*took));
	const char *comma = "";

	if (!took)
		fail("memory for %zu response times: none left", client->count);
	printf("\"sizes\": [");
	for (size_t i = 0; i < files.size_count; i++) {
		bool again = false;

		for (size_t j = 0; j < i; j++)
			again |= files.sizes[j] == files.sizes[i];
		if (again)
			continue;
		printf("%s", comma);
		print_size(client, files.sizes[i], took);
		comma = ", ";
	}
	printf("]");
	free(took);
}

int run_fetch(const struct command *self, int argc, char **argv)
{
	static struct client client = { .source = &files.source,
					.drain_ns = 60 * NS_PER_S,
					.print_more = print_sizes };
	const char *bytes = NULL, *positional[2];
	const struct option_spec specs[] = {
		{ "bytes", 0, OPTION_TEXT, &bytes, 0, 0, "N[,N…]", "sizes, by turns; k, M, G" },
		{ "every", 0, OPTION_SECONDS, &files.every_ns, 0, FOR_MAX_S, "S",
		  "from one request to the next" },
		{ "count", 0, OPTION_COUNT, &files.count, 1, COUNT_MAX, "N", "how many files (1)" },
		{ "start", 0, OPTION_SECONDS, &client.start_ns, 0, FOR_MAX_S, "S",
		  "wait this long first (0)" },
		{ "drain", 0, OPTION_SECONDS, &client.drain_ns, 0, FOR_MAX_S, "S",
		  "wait so long for the last answers (60)" },
		{ "controller", 'C', OPTION_TEXT, &client.controller, 0, 0, "NAME",
		  "congestion control of the requests" },
		{ "brief", 0, OPTION_FLAG, &client.brief, 0, 0, NULL,
		  "no list of files, only the summary" },
		{ "dry-run", 0, OPTION_FLAG, &client.dry_run, 0, 0, NULL,
		  "print the sample path, ask for nothing" },
	};

	files.source = (struct source){ files_peek, files_take, files_done };
	files.count = 1;
	options_parse(self, specs, sizeof(specs) / sizeof(specs[0]), argc, argv, positional, 2);
	address_parse(&client.server, positional[0], positional[1]);
	sizes_parse(bytes);
	if (files.count > 1 && !files.every_ns)
		usage("--every is needed: seconds from one request to the next");
	client.for_ns = (files.count - 1) * files.every_ns + 1;
	return client_run(&client);
}

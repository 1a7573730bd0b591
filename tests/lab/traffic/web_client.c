// SPDX-License-Identifier: GPL-2.0-only
/* web-client: sessions that ask for pages of objects. */
#include "traffic.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SESSIONS_MAX 100000
#define BIN_GROWTH 1.1
#define BIN_CENTRE 10000.0 /* bytes: the size that the text of the paper discusses */
#define BINS_BELOW 100 /* BIN_CENTRE / 1.1^100 < 1 byte */
#define BINS 300 /* BIN_CENTRE * 1.1^199 > OBJECT_BYTES_MAX */
#define MEAN_BYTES 12000.0

enum stream_kind {
	SIZES,
	PAGE_GAPS,
	OBJECT_GAPS,
	KINDS
};

struct session {
	struct stream streams[KINDS];
	uint64_t next_ns; /* when its next object is due */
	uint32_t page;
	uint32_t taken; /* objects of this page that were asked for */
	uint32_t open; /* and not yet done */
};

struct web {
	struct source source; /* first: they are cast to each other */
	struct pareto sizes;
	uint64_t objects, session_count, seed;
	uint64_t page_gap_ns, object_gap_ns;
	bool think;
	struct session *sessions;
	uint32_t *heap; /* sessions whose next object's time is known */
	size_t heap_count;
};

/* --- the heap: the earliest first, of equal ones the lower session -------- */

static bool before(const struct web *web, size_t a, size_t b)
{
	const struct session *x = &web->sessions[web->heap[a]];
	const struct session *y = &web->sessions[web->heap[b]];

	return x->next_ns != y->next_ns ? x->next_ns < y->next_ns : web->heap[a] < web->heap[b];
}

static void swap(struct web *web, size_t a, size_t b)
{
	uint32_t session = web->heap[a];

	web->heap[a] = web->heap[b];
	web->heap[b] = session;
}

static void heap_push(struct web *web, uint32_t session)
{
	size_t at = web->heap_count++;

	web->heap[at] = session;
	for (; at && before(web, at, (at - 1) / 2); at = (at - 1) / 2)
		swap(web, at, (at - 1) / 2);
}

static uint32_t heap_pop(struct web *web)
{
	uint32_t session = web->heap[0];
	size_t at = 0, child;

	web->heap[0] = web->heap[--web->heap_count];
	while ((child = 2 * at + 1) < web->heap_count) {
		if (child + 1 < web->heap_count && before(web, child + 1, child))
			child++;
		if (!before(web, child, at))
			break;
		swap(web, child, at);
		at = child;
	}
	return session;
}

/* --- the path ------------------------------------------------------------- */

static uint64_t gap(struct session *session, enum stream_kind kind, uint64_t mean_ns)
{
	return stream_exponential(&session->streams[kind], (double)mean_ns);
}

static bool web_peek(struct source *source, uint64_t *due_ns)
{
	const struct web *web = (const struct web *)source;

	if (web->heap_count)
		*due_ns = web->sessions[web->heap[0]].next_ns;
	return web->heap_count;
}

static void turn_page(struct web *web, uint32_t index, uint64_t from_ns)
{
	struct session *session = &web->sessions[index];

	session->page++;
	session->taken = 0;
	session->next_ns = from_ns + gap(session, PAGE_GAPS, web->page_gap_ns);
	heap_push(web, index);
}

static void web_take(struct source *source, struct object *object)
{
	struct web *web = (struct web *)source;
	uint32_t index = heap_pop(web);
	struct session *session = &web->sessions[index];

	object->due_ns = session->next_ns;
	object->session = index;
	object->page = session->page;
	object->bytes = pareto_draw(&web->sizes, &session->streams[SIZES]);
	session->open++;
	if (++session->taken < web->objects) {
		session->next_ns += gap(session, OBJECT_GAPS, web->object_gap_ns);
		heap_push(web, index);
	} else if (!web->think) {
		turn_page(web, index, session->next_ns);
	}
}

static void web_done(struct source *source, const struct object *object, uint64_t when_ns)
{
	struct web *web = (struct web *)source;
	struct session *session = &web->sessions[object->session];

	session->open--;
	if (web->think && !session->open && session->taken == web->objects)
		turn_page(web, object->session, when_ns);
}

static void sessions_open(struct web *web)
{
	web->sessions = calloc(web->session_count, sizeof(*web->sessions));
	web->heap = calloc(web->session_count, sizeof(*web->heap));
	if (!web->sessions || !web->heap)
		fail("memory for %" PRIu64 " sessions: none left", web->session_count);
	for (uint32_t i = 0; i < web->session_count; i++) {
		struct session *session = &web->sessions[i];

		for (uint64_t kind = 0; kind < KINDS; kind++)
			stream_open(&session->streams[kind], web->seed, i, kind);
		session->next_ns = gap(session, PAGE_GAPS, web->page_gap_ns);
		heap_push(web, i);
	}
}

/* --- response time by size ------------------------------------------------ */

static void print_mean(double sum, uint64_t count)
{
	if (count)
		print_seconds((int64_t)(sum / (double)count + 0.5));
	else
		printf("null");
}

static void print_bins(const struct client *client)
{
	static double edges[BINS + 1], sums[BINS];
	static uint64_t counts[BINS];
	/* the middle of bin BINS_BELOW, on a logarithmic scale */
	const double half = 1.0488088481701516; /* sqrt(BIN_GROWTH) */
	const char *comma = "";

	edges[BINS_BELOW] = BIN_CENTRE / half;
	for (int i = BINS_BELOW; i > 0; i--)
		edges[i - 1] = edges[i] / BIN_GROWTH;
	for (int i = BINS_BELOW; i < BINS; i++)
		edges[i + 1] = edges[i] * BIN_GROWTH;
	for (size_t i = 0; i < client->count; i++) {
		const struct object *object = &client->objects[i];
		int bin = 0;

		if (object->took_ns < 0)
			continue;
		while (bin < BINS - 1 && (double)object->bytes >= edges[bin + 1])
			bin++;
		counts[bin]++;
		sums[bin] += (double)object->took_ns;
	}
	printf("\"mean_10kB_s\": ");
	print_mean(sums[BINS_BELOW], counts[BINS_BELOW]);
	printf(", \"count_10kB\": %" PRIu64 ", \"bins\": [", counts[BINS_BELOW]);
	for (int i = 0; i < BINS; i++) {
		if (!counts[i])
			continue;
		printf("%s{\"from\": %.1f, \"to\": %.1f, \"count\": %" PRIu64 ", \"mean_s\": ",
		       comma, edges[i], edges[i + 1], counts[i]);
		print_mean(sums[i], counts[i]);
		printf("}");
		comma = ", ";
	}
	printf("]");
}

/* --- options -------------------------------------------------------------- */

static void sizes_check(struct pareto *sizes, double mean)
{
	if (mean && sizes->min)
		usage("--mean and --min exclude each other: take one");
	if (!mean && !sizes->min)
		mean = MEAN_BYTES;
	if (mean && sizes->max && sizes->max <= mean)
		usage("--max: %.15g is not above the mean of %.15g", sizes->max, mean);
	if (mean && !sizes->max && sizes->shape <= 1)
		usage("--shape: %.15g has no mean (only above 1 has); use --min, or give a --max",
		      sizes->shape);
	if (mean)
		sizes->min = pareto_min_of_mean(sizes->shape, mean, sizes->max);
	if (sizes->max && sizes->max <= sizes->min)
		usage("--max: %.15g is not above the --min of %.15g", sizes->max, sizes->min);
}

int run_web_client(const struct command *self, int argc, char **argv)
{
	static struct web web = {
		.source = { web_peek, web_take, web_done },
		.sizes = { .shape = 1.2 },
		.objects = 10,
		.session_count = 1,
		.page_gap_ns = NS_PER_S,
		.object_gap_ns = NS_PER_MS,
		.seed = 1,
	};
	static struct client client = { .source = &web.source, .print_more = print_bins };
	uint64_t mean = 0, min = 0, max = 0;
	const struct option_spec specs[] = {
		{ "for", 0, OPTION_SECONDS, &client.for_ns, 0.001, FOR_MAX_S, "S",
		  "ask for objects so long" },
		{ "start", 0, OPTION_SECONDS, &client.start_ns, 0, FOR_MAX_S, "S",
		  "wait this long first (0)" },
		{ "drain", 0, OPTION_SECONDS, &client.drain_ns, 0, FOR_MAX_S, "S",
		  "wait so long for the last answers (0)" },
		{ "seed", 0, OPTION_COUNT, &web.seed, 0, 1.8e19, "N", "of the sample path (1)" },
		{ "sessions", 0, OPTION_COUNT, &web.session_count, 1, SESSIONS_MAX, "N",
		  "how many browse at once (1)" },
		{ "shape", 0, OPTION_REAL, &web.sizes.shape, 0.1, 100, "A",
		  "of the Pareto distribution of sizes (1.2)" },
		{ "mean", 0, OPTION_AMOUNT, &mean, 1, 1e9, "BYTES", "of the sizes (12k)" },
		{ "min", 0, OPTION_AMOUNT, &min, 1, 1e9, "BYTES",
		  "smallest size, instead of --mean" },
		{ "max", 0, OPTION_AMOUNT, &max, 2, OBJECT_BYTES_MAX, "BYTES",
		  "cut the distribution here (nowhere)" },
		{ "objects", 0, OPTION_COUNT, &web.objects, 1, 1000, "N",
		  "of a page, a connection each (10)" },
		{ "page-gap", 0, OPTION_SECONDS, &web.page_gap_ns, 1e-6, 1e4, "S",
		  "mean gap between pages (1)" },
		{ "object-gap", 0, OPTION_SECONDS, &web.object_gap_ns, 0, 1e4, "S",
		  "mean gap within a page (0.001)" },
		{ "think", 0, OPTION_FLAG, &web.think, 0, 0, NULL,
		  "the page gap begins when the page is complete" },
		{ "controller", 'C', OPTION_TEXT, &client.controller, 0, 0, "NAME",
		  "congestion control of the requests" },
		{ "brief", 0, OPTION_FLAG, &client.brief, 0, 0, NULL,
		  "no list of objects, only the summary" },
		{ "dry-run", 0, OPTION_FLAG, &client.dry_run, 0, 0, NULL,
		  "print the sample path, ask for nothing" },
	};
	const char *positional[2];

	options_parse(self, specs, sizeof(specs) / sizeof(specs[0]), argc, argv, positional, 2);
	address_parse(&client.server, positional[0], positional[1]);
	if (!client.for_ns)
		usage("--for is needed: how many seconds to ask for objects");
	web.sizes.min = (double)min;
	web.sizes.max = (double)max;
	sizes_check(&web.sizes, (double)mean);
	sessions_open(&web);
	return client_run(&client);
}

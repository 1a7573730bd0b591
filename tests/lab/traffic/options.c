// SPDX-License-Identifier: GPL-2.0-only
/* Options from a table, so that every subcommand's help and errors are alike. */
#include "traffic.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OPTIONS_MAX 24
#define LONG_BASE 256 /* above every letter */

static double suffix(const char *end)
{
	static const struct {
		char letter;
		double factor;
	} suffixes[] = { { 'k', 1e3 }, { 'M', 1e6 }, { 'G', 1e9 } };

	for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (end[0] == suffixes[i].letter && !end[1])
			return suffixes[i].factor;
	return *end ? 0 : 1;
}

static double number_parse(const char *what, const char *text, double min, double max, bool amount)
{
	double value, factor;
	char *end;

	errno = 0;
	value = strtod(text, &end);
	factor = amount ? suffix(end) : *end == 0;
	value *= factor;
	/* strtod takes blanks, "nan", "inf" and hexadecimal too */
	if (end == text || errno || !factor || text[strspn(text, "0123456789.ekMG+-")] ||
	    !(value >= min && value <= max))
		usage("%s: \"%s\" is not a number from %.15g to %.15g%s", what, text, min, max,
		      amount ? " (k, M, G are allowed)" : "");
	return value;
}

double amount_parse(const char *what, const char *text, double min, double max)
{
	double value = number_parse(what, text, min, max, true);

	if (value != (double)(uint64_t)value)
		usage("%s: \"%s\" is not a whole number", what, text);
	return value;
}

static uint64_t whole_parse(const char *what, const char *text, double max)
{
	unsigned long long value;
	char *end;

	errno = 0;
	value = strtoull(text, &end, 10);
	if (errno || *text < '0' || *text > '9' || *end || (double)value > max)
		usage("%s: \"%s\" is not a whole number up to %.15g", what, text, max);
	return value;
}

static void set(const struct option_spec *spec, const char *text)
{
	char what[32];

	snprintf(what, sizeof(what), "--%s", spec->name);
	switch (spec->kind) {
	case OPTION_FLAG:
		*(bool *)spec->to = true;
		break;
	case OPTION_SECONDS:
		*(uint64_t *)spec->to =
			(uint64_t)(number_parse(what, text, spec->min, spec->max, false) *
					   (double)NS_PER_S +
				   0.5);
		break;
	case OPTION_COUNT:
		*(uint64_t *)spec->to = whole_parse(what, text, spec->max);
		if ((double)*(uint64_t *)spec->to < spec->min)
			usage("%s: \"%s\" is less than %.15g", what, text, spec->min);
		break;
	case OPTION_AMOUNT:
		*(uint64_t *)spec->to = (uint64_t)amount_parse(what, text, spec->min, spec->max);
		break;
	case OPTION_REAL:
		*(double *)spec->to = number_parse(what, text, spec->min, spec->max, false);
		break;
	case OPTION_TEXT:
		if (!*text)
			usage("%s: it is empty; leave the option out or name something", what);
		*(const char **)spec->to = text;
		break;
	}
}

static void help(const struct command *command, const struct option_spec *specs, size_t count)
{
	printf("usage: traffic %s %s [OPTION…]\n%s.\n\n", command->name, command->arguments,
	       command->summary);
	for (size_t i = 0; i < count; i++) {
		char left[48], letter[8] = "";

		if (specs[i].letter)
			snprintf(letter, sizeof(letter), "-%c, ", specs[i].letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, specs[i].name,
			 specs[i].value ? " " : "", specs[i].value ? specs[i].value : "");
		printf("  %-22s %s\n", left, specs[i].help);
	}
	printf("  %-22s %s\n", "--help", "this text");
	exit(EXIT_SUCCESS);
}

/* What getopt_long wants, from the table. */
static void translate(const struct option_spec *specs, size_t count, struct option *longs,
		      char *shorts)
{
	*shorts++ = ':';
	for (size_t i = 0; i < count; i++) {
		bool value = specs[i].kind != OPTION_FLAG;

		longs[i] = (struct option){ .name = specs[i].name,
					    .has_arg = value,
					    .val = LONG_BASE + (int)i };
		if (specs[i].letter) {
			*shorts++ = specs[i].letter;
			if (value)
				*shorts++ = ':';
		}
	}
	*shorts = 0;
	longs[count] = (struct option){ .name = "help", .val = 'h' };
	longs[count + 1] = (struct option){ 0 };
}

void options_parse(const struct command *command, const struct option_spec *specs, size_t count,
		   int argc, char **argv, const char **positional, int wanted)
{
	struct option longs[OPTIONS_MAX + 2];
	char shorts[2 * OPTIONS_MAX + 2];
	int option;

	translate(specs, count, longs, shorts);
	opterr = 0;
	optind = 1;
	while ((option = getopt_long(argc, argv, shorts, longs, NULL)) != -1) {
		const char *word = argv[optind - 1];

		if (option == 'h')
			help(command, specs, count);
		if (option == ':')
			usage("%s: its value is missing", word);
		if (option == '?')
			usage("%s: no such option, or one without a value", word);
		for (size_t i = 0; i < count; i++)
			if (option == LONG_BASE + (int)i || option == specs[i].letter)
				set(&specs[i], optarg);
	}
	if (argc - optind != wanted)
		usage("%s arguments; usage: traffic %s %s [OPTION…]",
		      argc - optind < wanted ? "too few" : "too many", command->name,
		      command->arguments);
	for (int i = 0; i < wanted; i++)
		positional[i] = argv[optind + i];
}

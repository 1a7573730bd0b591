// SPDX-License-Identifier: GPL-2.0-only
/*
 * Where `ccbpf metrics --listen` is told to listen.
 *
 *  1. An input is accepted exactly if it is a port, or an address and a port, as understood here.
 *  2. Without an address it is the loopback's.
 *  3. What is shown of it is understood as the same.
 */
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>

#include "frame.h"
#include "sys/listener.h"

static bool is_port(const char *word)
{
	unsigned int value;
	char digits[16];
	int end = 0;

	if (strlen(word) > 5 || sscanf(word, "%15[0-9]%n", digits, &end) != 1 || word[end])
		return false;
	return sscanf(digits, "%u", &value) == 1 && value < 65536;
}

/* The port, behind the last colon if there is one, and what stands before that. */
static bool is_good(char *given)
{
	char *colon = strrchr(given, ':');
	unsigned char address[16];
	size_t length;

	if (!is_port(colon ? colon + 1 : given))
		return false;
	if (!colon || colon == given)
		return true;
	*colon = '\0';
	length = strlen(given);
	if (inet_pton(AF_INET, given, address) == 1)
		return true;
	if (length < 3 || given[0] != '[' || given[length - 1] != ']')
		return false;
	given[length - 1] = '\0';
	return inet_pton(AF_INET6, given + 1, address) == 1;
}

static void shown_again(const struct listener *listener)
{
	struct listener again;

	HOLDS(!listener_parse(listener_place(listener), &again));
	HOLDS(again.size == listener->size);
	HOLDS(!memcmp(&again.address, &listener->address, again.size));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *given = fuzz_text(data, size);
	struct listener listener;
	bool bare = !strchr(given, ':') || *given == ':', good;

	fuzz_begin();
	good = !listener_parse(given, &listener);
	if (good)
		shown_again(&listener);
	if (good && bare)
		HOLDS(!strcmp(listener_address(&listener), "127.0.0.1"));
	if (!strchr(given, '%')) /* else a device of this machine decides */
		HOLDS(good == is_good(given));
	fuzz_end();
	free(given);
	return 0;
}

// SPDX-License-Identifier: GPL-2.0-only
/* Prefixes of addresses: see prefix.h. */
#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "out/errors.h"
#include "sys/prefix.h"
#include "util/number.h"
#include "util/text.h"

static int wrong(const char *what, const char *option, const char *given, const char *why,
		 const char *remedy)
{
	return FAIL(EXIT_USAGE, .what = what, .on = text("%s %s", option, given), .why = why,
		    .remedy = remedy);
}

struct ccbpf_prefix prefix_cut(const struct ccbpf_prefix *prefix, unsigned int bits)
{
	struct ccbpf_prefix cut = *prefix;

	cut.bits = bits;
	for (unsigned int i = 0; i < sizeof(cut.address); i++) {
		unsigned int left = bits > 8 * i ? bits - 8 * i : 0;

		if (left < 8)
			cut.address[i] &= 0xff00 >> left;
	}
	return cut;
}

int prefix_parse(const char *what, const char *option, const char *given,
		 struct ccbpf_prefix *prefix)
{
	char address[INET6_ADDRSTRLEN];
	const char *slash = strchr(given, '/');
	size_t length = slash ? (size_t)(slash - given) : strlen(given);
	unsigned long bits;
	char *end = "";
	bool v4;

	snprintf(address, sizeof(address), "%.*s", (int)length, given);
	*prefix = (struct ccbpf_prefix){ .address = { [10] = 0xff, [11] = 0xff } };
	v4 = length < sizeof(address) && inet_pton(AF_INET, address, prefix->address + 12) == 1;
	if (!v4 &&
	    (length >= sizeof(address) || inet_pton(AF_INET6, address, prefix->address) != 1))
		return wrong(what, option, given, "it is not an address or a prefix",
			     "give ADDRESS or ADDRESS/LENGTH, for example 10.0.0.0/8");
	bits = v4 ? 32 : 128;
	if (slash && (!number_parse(slash + 1, 0, bits, &bits, &end) || *end))
		return wrong(what, option, given, "its length is not a number of its bits",
			     v4 ? "give /0 to /32" : "give /0 to /128");
	*prefix = prefix_cut(prefix, bits + (v4 ? CCBPF_MAPPED_BITS : 0));
	return EXIT_OK;
}

const char *prefix_text(const struct ccbpf_prefix *prefix)
{
	static const unsigned char mapped[12] = { [10] = 0xff, [11] = 0xff };
	bool v4 = prefix->bits >= CCBPF_MAPPED_BITS &&
		  !memcmp(prefix->address, mapped, sizeof(mapped));
	char address[INET6_ADDRSTRLEN] = "?";

	inet_ntop(v4 ? AF_INET : AF_INET6, prefix->address + (v4 ? 12 : 0), address,
		  sizeof(address));
	return text("%s/%u", address, prefix->bits - (v4 ? CCBPF_MAPPED_BITS : 0));
}

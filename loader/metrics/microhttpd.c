// SPDX-License-Identifier: GPL-2.0-only
/* Loads libmicrohttpd: see microhttpd.h. */
#include <dlfcn.h>
#include <stddef.h>

#include "metrics/microhttpd.h"
#include "out/errors.h"
#include "util/text.h"

#define LIBRARY "libmicrohttpd.so.12" /* the ABI of the header: versions 0.9.39 to 1.0 */

static const struct function {
	const char *name;
	size_t at;
} functions[] = {
#define X(name) { "MHD_" #name, offsetof(struct microhttpd, name) },
	MICROHTTPD_FUNCTIONS(X)
#undef X
};

static int fail_to_load(const char *what)
{
	return FAIL(
		EXIT_FAILED, .what = what, .on = "HTTP", .why = text("%s", dlerror()),
		.remedy = "install libmicrohttpd (Debian: libmicrohttpd12, or libmicrohttpd12t64)");
}

int microhttpd_load(const char *what, struct microhttpd *mhd)
{
	void *library = dlopen(LIBRARY, RTLD_NOW | RTLD_LOCAL); /* until this process ends */

	if (!library)
		return fail_to_load(what);
	for (size_t i = 0; i < sizeof(functions) / sizeof(functions[0]); i++) {
		void **to = (void **)((char *)mhd + functions[i].at);

		*to = dlsym(library, functions[i].name);
		if (!*to)
			return fail_to_load(what);
	}
	return EXIT_OK;
}

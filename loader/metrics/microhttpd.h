/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * libmicrohttpd, loaded where the page is served: it brings GnuTLS along, which would make the start of
 * every command longer by 2 ms. `mhd->run` is the library's MHD_run.
 */
#ifndef CCBPF_MICROHTTPD_H
#define CCBPF_MICROHTTPD_H

#include <microhttpd.h>

#define MICROHTTPD_FUNCTIONS(X)        \
	X(add_response_header)         \
	X(create_response_from_buffer) \
	X(destroy_response)            \
	X(get_connection_info)         \
	X(get_connection_values)       \
	X(get_daemon_info)             \
	X(get_timeout)                 \
	X(get_version)                 \
	X(lookup_connection_value)     \
	X(queue_response)              \
	X(run)                         \
	X(start_daemon)                \
	X(stop_daemon)

struct microhttpd {
#define X(name) __typeof__(&MHD_##name) name;
	MICROHTTPD_FUNCTIONS(X)
#undef X
};

/* Load it. Returns EXIT_OK, or the exit code after saying which package has it. */
int microhttpd_load(const char *what, struct microhttpd *mhd);

#endif

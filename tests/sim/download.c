// SPDX-License-Identifier: GPL-2.0-only
/*
 * A receiver whose window yields: what kern/receive.bpf.h does around law/rx_window.h, which is used as it is. Windows
 * are counted in full segments here, so the window scale is 0, and no edge is rounded. A peer's law takes its place where
 * the scenario asks for it: tests/lab/peers/rledbatpp.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "law/rx_window.h"
#include "tests/lab/peers/rledbatpp.h"

#include "download.h"

#define LEAST_BYTES 3000 /* kern/download.bpf.h: what brings less is no download */

struct download {
	struct rx rx;
	struct rledbatpp rledbatpp;
	bool has_peers_law;
	u32 right; /* segment: the edge that is advertised */
};

void download_begin(struct flow *f, const char *law)
{
	bool peers = strcmp(law, "rledbatpp") == 0;

	if (*law && !peers) {
		fprintf(stderr, "simulator: no receiver has the law %s\n", law);
		exit(2);
	}
	f->peer.download = calloc(1, sizeof(*f->peer.download));
	if (!f->peer.download) {
		fprintf(stderr, "simulator: out of memory for the download %s\n", f->name);
		exit(2);
	}
	f->peer.download->has_peers_law = peers;
	f->peer.window = RX_START_WINDOW / f->tp.mss_cache;
	f->window = f->peer.download->right = f->peer.window;
}

static u32 left(const struct receiver *r)
{
	return index_after(r->download->right, r->rcv_nxt) ? r->download->right - r->rcv_nxt : 0;
}

/* bytes: what this ACK may advertise */
static u32 our_window(struct rx *x, const struct rx_ack *a)
{
	if (!x->started)
		rx_init(x, a);
	rx_step(x, a);
	return rx_window(x, a);
}

static u32 peers_window(struct rledbatpp *x, const struct rx_ack *a)
{
	if (!x->started)
		rledbatpp_begin(x, a);
	rledbatpp_step(x, a);
	return rledbatpp_window(x, a);
}

void download_ack(struct flow *f, u32 our_ts, bool fresh)
{
	struct receiver *r = &f->peer;
	struct download *d = r->download;
	u32 mss = f->tp.mss_cache, bytes;
	struct rx_ack a = {
		.now_us = (u32)((fresh ? r->last_data_ns : engine_now_ns) / NS_PER_US),
		.long_us = (fresh ? r->last_data_ns : engine_now_ns) / NS_PER_US,
		.our_ts = our_ts,
		.tsval = r->last_tsval,
		.tsecr = r->last_tsecr,
		.rcv_nxt = r->rcv_nxt * mss,
		.left = left(r) * mss,
		.mss = mss,
		.unit = 1,
		.rtt_us = (u32)(2 * f->delay_ns / NS_PER_US) ?: 1,
		.fresh = fresh,
		.hole = r->n_blocks,
		.again = r->dsack,
	};

	if (r->delivered * mss < LEAST_BYTES)
		return;
	bytes = d->has_peers_law ? peers_window(&d->rledbatpp, &a) : our_window(&d->rx, &a);
	r->window = bytes / mss;
	if (index_after(r->rcv_nxt + r->window, d->right))
		d->right = r->rcv_nxt + r->window;
}

/* tcp_cleanup_rbuf(): data was read, and the window would become twice as large */
bool download_opens(const struct flow *f)
{
	const struct receiver *r = &f->peer;

	return r->download && 2 * left(r) <= r->window;
}

u32 download_advertised(const struct flow *f)
{
	return left(&f->peer);
}

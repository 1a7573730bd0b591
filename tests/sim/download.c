// SPDX-License-Identifier: GPL-2.0-only
/*
 * A receiver whose window yields: what kern/receive.bpf.h does around law/rx_window.h, which is used as it is. Windows
 * are counted in full segments here, so the window scale is 0, and no edge is rounded.
 */
#include <stdio.h>
#include <stdlib.h>

#include "law/rx_window.h"

#include "download.h"

#define LEAST_BYTES 3000 /* kern/receive.bpf.h: what brings less is no download */

struct download {
	struct rx rx;
	u32 right; /* segment: the edge that is advertised */
};

void download_begin(struct flow *f)
{
	f->peer.download = calloc(1, sizeof(*f->peer.download));
	if (!f->peer.download) {
		fprintf(stderr, "simulator: out of memory for the download %s\n", f->name);
		exit(2);
	}
	f->peer.window = RX_START_WINDOW / f->tp.mss_cache;
	f->window = f->peer.download->right = f->peer.window;
}

static u32 left(const struct receiver *r)
{
	return index_after(r->download->right, r->rcv_nxt) ? r->download->right - r->rcv_nxt : 0;
}

void download_ack(struct flow *f, u32 our_ts, bool fresh)
{
	struct receiver *r = &f->peer;
	struct download *d = r->download;
	u32 mss = f->tp.mss_cache;
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
	};

	if (r->delivered * mss < LEAST_BYTES)
		return;
	if (!d->rx.started)
		rx_init(&d->rx, &a);
	rx_step(&d->rx, &a);
	r->window = rx_window(&d->rx, &a) / mss;
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

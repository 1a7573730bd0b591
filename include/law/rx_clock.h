/* SPDX-License-Identifier: (GPL-2.0-only OR BSD-2-Clause) */
/*
 * The one-way delay of received data, from the sender's timestamps (TSval) and our clock.
 *
 *	owd = (arrival - first arrival) - (TSval - first TSval) tick
 *
 * It is known up to a constant, and only its rise above its own minimum counts. Each data
 * packet carries a TSval of its own, a retransmission too, so no packet is ambiguous.
 *
 * Learning the tick. The tick of the sender's clock is not known:
 *
 *	after 1/8 s	it is assumed to be 1 ms, if the sender's clock then went between 3/4
 *			and 3/2 as fast as ours. Linux's clock does, and most others.
 *	after 1 s	for other clocks: the tick in use (delay_snap_tick()) that fits within 1/64.
 *	every 16 s	it is measured again, in the same way. A queue that grew or drained by
 *			less than 1/4 s does not hide the tick; a larger one makes the window longer.
 *	after 64 s	that fit no tick in use, the clock is not usable: no delay, until it fits.
 *
 * Drift of the two clocks (up to 200 ppm) is not removed here: see rx_drift() in rx_delay.h.
 *
 * Wrap-around. Differences are signed and to an anchor that is never older than a window.
 * A silence of 2^31 us (36 minutes), or a delay beyond 2^30 us, begins the clock anew.
 */
#ifndef CCBPF_LAW_RX_CLOCK_H
#define CCBPF_LAW_RX_CLOCK_H

#include "law/delay_clock.h"

#define RX_CLOCK_ASSUME_US 125000
#define RX_CLOCK_WINDOW_US 1000000
#define RX_CLOCK_CHECK_US 16000000
#define RX_CLOCK_GIVE_UP_US 64000000
#define RX_CLOCK_ASSUMED_NS 1000000

struct rx_clock {
	u32 anchor_us; /* our clock: arrival */
	u32 anchor_tsval; /* the sender's ticks */
	s32 anchor_owd_us;
	u32 tick_ns; /* 0: not known */
	u8 anchored;
};

LAW void rx_clock_init(struct rx_clock *c)
{
	c->anchor_us = 0;
	c->anchor_tsval = 0;
	c->anchor_owd_us = 0;
	c->tick_ns = 0;
	c->anchored = 0;
}

LAW void rx_clock_anchor(struct rx_clock *c, u32 now_us, u32 tsval, s32 owd_us)
{
	c->anchor_us = now_us;
	c->anchor_tsval = tsval;
	c->anchor_owd_us = owd_us;
	c->anchored = 1;
}

/* us: one-way delay relative to the first pair; with a known tick */
LAW s64 rx_clock_owd_us(const struct rx_clock *c, u32 now_us, u32 tsval)
{
	s64 theirs_ns = (s64)(s32)(tsval - c->anchor_tsval) * c->tick_ns;

	return (s64)c->anchor_owd_us + (s32)(now_us - c->anchor_us) - delay_us(theirs_ns);
}

/* ns: what the sender's tick is by this window, or 0. @ticks and @elapsed_us are not negative. */
LAW u32 rx_clock_measure(u32 ticks, u32 elapsed_us)
{
	u64 ticks_us = (u64)ticks * (RX_CLOCK_ASSUMED_NS / 1000);

	if (elapsed_us >= RX_CLOCK_WINDOW_US && ticks <= LAW_S32_MAX) {
		u32 tick_ns = delay_snap_tick(ticks, elapsed_us * 1000ll);

		if (tick_ns)
			return tick_ns;
	}
	if (ticks_us >= elapsed_us * 3ull / 4 && ticks_us <= elapsed_us * 3ull / 2)
		return RX_CLOCK_ASSUMED_NS;
	return 0;
}

/* The window is long enough: is the tick what we take it for? Returns whether the delays from
 * now on have another zero. */
LAW bool rx_clock_check(struct rx_clock *c, u32 now_us, u32 tsval)
{
	u32 elapsed_us = now_us - c->anchor_us, was_ns = c->tick_ns;
	u32 tick_ns = delay_snap_tick(tsval - c->anchor_tsval, elapsed_us * 1000ll);

	if (tick_ns && tick_ns == was_ns) {
		rx_clock_anchor(c, now_us, tsval, rx_clock_owd_us(c, now_us, tsval));
		return false;
	}
	if (!tick_ns && elapsed_us < RX_CLOCK_GIVE_UP_US)
		return false;
	c->tick_ns = tick_ns;
	rx_clock_anchor(c, now_us, tsval, 0);
	return true;
}

/*
 * A data packet arrived: learn. Returns whether the one-way delays before this packet cannot
 * be compared with those from here on.
 */
LAW bool rx_clock_heard(struct rx_clock *c, u32 now_us, u32 tsval)
{
	s32 elapsed_us = now_us - c->anchor_us, ticks = tsval - c->anchor_tsval;
	bool known = c->tick_ns;

	if (law_unlikely(!c->anchored || elapsed_us < 0 ||
			 (known && delay_owd_far(rx_clock_owd_us(c, now_us, tsval) * 1000)))) {
		rx_clock_init(c);
		rx_clock_anchor(c, now_us, tsval, 0);
		return known;
	}
	if (law_likely(elapsed_us < (known ? RX_CLOCK_CHECK_US : RX_CLOCK_ASSUME_US)) || ticks < 0)
		return false;
	if (known)
		return rx_clock_check(c, now_us, tsval);
	c->tick_ns = rx_clock_measure(ticks, elapsed_us);
	if (!c->tick_ns && elapsed_us >= RX_CLOCK_GIVE_UP_US)
		rx_clock_anchor(c, now_us, tsval, 0);
	return false;
}

#endif

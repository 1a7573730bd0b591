# SPDX-License-Identifier: GPL-2.0-only
"""Can the unit tests fail? Changes the laws in one place at a time, in a scratch copy, and sees whether they notice.

    python -m tests.unit.mutate [-j JOBS] [WORD...]     all mutants, or those whose name has one of the words
    python -m tests.unit.mutate --check                 only whether each mutant finds its place

Exit code 1 if a mutant survives. Not part of `make test`: it is for whoever changes a law or its tests.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.unit.headers import ROOT

COPIED = ["Makefile", "include", "pyproject.toml", "tests/__init__.py", "tests/unit"]

# name, header, what it says, what the mutant says
# fmt: off
MUTANTS = [
    ("ewma rounds away", "fixed.h", "v + (sample - v) / n : v", "v + (sample - v + n - 1) / n : v"),
    ("ewma forgets a step", "fixed.h", ": v - (v - sample) / n", ": sample"),
    ("after includes equal", "fixed.h", "(s32)(a - b) > 0", "(s32)(a - b) >= 0"),
    ("after without the circle", "fixed.h", "(s32)(a - b) > 0", "a > b"),
    ("slow clock 0.1 % off", "fixed.h", "KIUS_PER_S 977", "KIUS_PER_S 978"),
    ("aged forgets the half before", "aged.h", "a->now < a->before ? a->now : a->before", "a->now"),
    ("aged turn keeps now", "aged.h", "\ta->before = a->now;\n\ta->now = none;\n", "\ta->before = a->now;\n"),
    ("memory twice as long", "aged.h", "memory_s * KIUS_PER_S / 2", "memory_s * KIUS_PER_S"),
    ("memory half as long", "aged.h", "memory_s * KIUS_PER_S / 2", "memory_s * KIUS_PER_S / 4"),
    ("halves of another clock", "aged.h", "AGED_CLOCK_SHIFT 16", "AGED_CLOCK_SHIFT 17"),
    ("eq. 2 at equality", "delay.h", "d->smoothed_q8 > delay_threshold", "d->smoothed_q8 >= delay_threshold"),
    ("eq. 2 without the floor", "delay_buffer.h", "law_max(law_forget(delay_part(d, p)),\n\t\t       law_forget(delay_floor(d, p)))", "delay_part(d, p)"),
    ("an unknown buffer has no floor", "delay_buffer.h", "return law_max(p->floor_us, p->noise_us);", "return p->noise_us;"),
    ("an unknown buffer has no noise", "delay_buffer.h", "return law_max(p->floor_us, p->noise_us);", "return p->floor_us;"),
    ("noise above a quarter of q_max", "delay_buffer.h", "law_min(p->noise_us, d->most_us / 4)", "law_min(p->noise_us, d->most_us / 3)"),
    ("noise is no floor", "delay_buffer.h", "law_min(p->noise_us, d->most_us / 4)", "0"),
    ("every buffer is known", "delay_buffer.h", "return law_likely(d->overflowed) ||", "return true ||"),
    ("no buffer is known by its queue", "delay_buffer.h", "d->most_us * 2 >= delay_provisional_us(d) * DELAY_FAR_HALVES", "false"),
    ("twice the threshold is far", "delay_buffer.h", "DELAY_FAR_HALVES 3", "DELAY_FAR_HALVES 4"),
    ("a stale buffer is known", "delay_buffer.h", "\tif (law_unlikely(d->stale))\n\t\treturn false;\n", ""),
    ("an eighth of the base", "delay_buffer.h", "DELAY_PROVISIONAL_SHIFT 2", "DELAY_PROVISIONAL_SHIFT 3"),
    ("no least threshold of an unknown buffer", "delay_buffer.h", "DELAY_PROVISIONAL_MIN_US 4000", "DELAY_PROVISIONAL_MIN_US 0"),
    ("no largest threshold of an unknown buffer", "delay_buffer.h", "DELAY_PROVISIONAL_MAX_US 20000", "DELAY_PROVISIONAL_MAX_US 2000000"),
    ("eq. 2 in 32 bits", "delay_buffer.h", "(u64)d->most_us * p->delta", "d->most_us * p->delta"),
    ("floor above half of q_max", "delay_buffer.h", "law_min(p->floor_us, d->most_us / 2)", "law_min(p->floor_us, d->most_us)"),
    ("gamma off by one", "delay.h", "queue_q8, smoothing);\n\t\treturn;", "queue_q8, smoothing + 1);\n\t\treturn;"),
    ("delays not cut", "delay.h", "u32 rtt_us = law_min(a->rtt_us, DELAY_MAX_US);\n\tu32 queue_us = delay_rtt_queue", "u32 rtt_us = a->rtt_us;\n\tu32 queue_us = delay_rtt_queue"),
    ("a loss's delay not cut", "delay.h", "\tu32 rtt_us = law_min(a->rtt_us, DELAY_MAX_US);\n\n\tif (base_us", "\tu32 rtt_us = a->rtt_us;\n\n\tif (base_us"),
    ("a pair indicts itself", "delay.h", "return queue_us > own_us ? queue_us - own_us : 0;", "return queue_us + 0 * own_us;"),
    ("a pair's own below 0", "delay.h", "return queue_us > own_us ? queue_us - own_us : 0;", "return queue_us - own_us;"),
    ("a stall is a queue", "delay_buffer.h", "return queue_us > stood_us ? queue_us - stood_us : 0;", "return queue_us;"),
    ("a stall takes its queue along", "delay_buffer.h", "return queue_us > stood_us ? queue_us - stood_us : 0;", "return 0;"),
    ("a short stall counts", "delay_buffer.h", "law_likely(stood_us <= queue_us / 2)", "law_likely(!stood_us)"),
    ("q_max learns from stalls", "delay.h", "law_max(d->most_us, delay_certain(queue_us, stood_us))", "law_max(d->most_us, queue_us + 0 * stood_us)"),
    ("a late ACK is a sample", "delay.h", "if (law_unlikely(late) && (!d->samples || queue_q8 >= d->smoothed_q8))", "if (0 && late)"),
    ("a late ACK never counts", "delay.h", "if (law_unlikely(late) && (!d->samples || queue_q8 >= d->smoothed_q8))", "if (late)"),
    ("a late ACK begins the average", "delay.h", "if (law_unlikely(late) && (!d->samples || queue_q8 >= d->smoothed_q8))", "if (late && queue_q8 >= d->smoothed_q8)"),
    ("a stale q_max learns", "delay.h", "\tif (law_likely(!d->stale))\n\t\td->most_us", "\tif (1)\n\t\td->most_us"),
    ("one loss tells", "delay_buffer.h", "DELAY_FULL 3", "DELAY_FULL 1"),
    ("losses tell not in a row", "delay_buffer.h", "\t\td->full = 0;\n\telse if", "\t\t;\n\telse if"),
    ("losses anywhere tell in a row", "delay_buffer.h", "queue_us < most_us - most_us / 16", "queue_us < most_us / 4"),
    ("a loss in half of the queue tells", "delay_buffer.h", "queue_us < most_us - most_us / 4", "queue_us < most_us / 2"),
    ("a loss elsewhere keeps the row", "delay_buffer.h", "\t\td->full = 0;\n\t\treturn;", "\t\treturn;"),
    ("a loss without a queue tells", "delay_buffer.h", "if (!queue_us || queue_us < most_us - most_us / 4)", "if (queue_us < most_us - most_us / 4)"),
    ("slow start's loss does not tell", "delay_buffer.h", "if (slow_start || d->full == DELAY_FULL ||", "if (d->full == DELAY_FULL ||"),
    ("a loss above the threshold does not tell", "delay_buffer.h", "queue_us > delay_threshold(d, p)) {", "0) {"),
    ("a loss leaves it stale", "delay_buffer.h", "\t\td->stale = 0;\n\t\td->overflowed = 1;", "\t\td->overflowed = 1;"),
    ("of a stale path nearly all is asked", "delay_buffer.h", "d->stale ? 0 : d->most_us", "d->most_us"),
    ("a loss is in its own delay only", "delay.h", "law_max(queue_us, before_us), stood_us", "queue_us + 0 * before_us, stood_us"),
    ("a loss in a stall", "delay.h", "return delay_certain(law_max(queue_us, before_us), stood_us);", "return law_max(queue_us, before_us) + 0 * stood_us;"),
    ("a loss in the reverse path's queue", "delay.h", "\tif (a->stamped && d->tick_ns && !delay_owd_far(delay_owd_ns(d, a)))\n\t\tqueue_us = delay_bounded(d, delay_owd_ns(d, a), queue_us);\n", ""),
    ("rebase keeps the buffer", "delay.h", "\td->stale = 1;\n", ""),
    ("rebase keeps the row", "delay.h", "\td->stale = 1;\n\td->full = 0;\n", "\td->stale = 1;\n"),
    ("rebase is not remembered", "delay.h", "\td->rise_us += rise_us;\n", ""),
    ("a path that is back is another", "delay_buffer.h", "\t\td->stale = 0;\n\tif (most_us)", "\t\t;\n\tif (most_us)"),
    ("back to the microsecond", "delay_buffer.h", "DELAY_BACK_US + back_us / 8", "0"),
    ("a first base that was late is a queue", "delay_buffer.h", "\tif (most_us)\n\t\tdelay_move_one", "\tif (1)\n\t\tdelay_move_one"),
    ("back takes q_max along", "delay_buffer.h", "delay_move_one(&most_us, by_us - (s32)back_us);", "delay_move_one(&most_us, by_us);"),
    ("a rise is forgotten at once", "delay_buffer.h", "u32 back_us = by_us > 0 ? law_min(by_us, d->rise_us) : 0;", "u32 back_us = by_us > 0 ? d->rise_us : 0;"),
    ("no overflow is forgotten", "delay_buffer.h", "\td->overflowed &= !!most_us;\n", ""),
    ("base shift leaves q_max", "delay.h", "\t\tdelay_most_moved(d, base_was - base);\n", ""),
    ("base shift leaves the smoothed", "delay.h", "d->smoothed_q8 = smoothed_q8 > 0 ? smoothed_q8 : 0;", ""),
    ("base shift leaves the anchor", "delay.h", "\td->anchor_queue_us = anchor_us;\n", ""),
    ("q_max ages", "delay.h", "\taged_turn(&d->rtt, AGED_NO_MIN);\n", "\taged_turn(&d->rtt, AGED_NO_MIN);\n\td->most_us = 0;\n"),
    ("rtt_min never ages", "delay.h", "\taged_turn(&d->rtt, AGED_NO_MIN);\n", ""),
    ("owd_min never ages", "delay.h", "\taged_turn(&d->owd, AGED_NO_MIN);\n", ""),
    ("silence keeps the clock", "delay.h", "since >= DELAY_ANCHOR_HALF", "0"),
    ("a silence that goes round keeps the clock", "delay_clock.h", "!(d->tick_ns && delay_owd_far(delay_owd_ns(d, a)))", "true"),
    ("window of 0.5 s", "delay_clock.h", "DELAY_CLOCK_WINDOW_NS 1000000000ll", "DELAY_CLOCK_WINDOW_NS 500000000ll"),
    ("window regardless of the queue", "delay_clock.h", "elapsed_ns < error_ns * DELAY_CLOCK_PRECISION", "error_ns < 0"),
    ("window forgets the anchor's queue", "delay_clock.h", "((s64)rtt_queue_us + d->anchor_queue_us) * 1000",
     "(s64)rtt_queue_us * 1000"),
    ("nothing is assumed", "delay_clock.h", "\t\tif (!d->tick_ns)\n\t\t\tdelay_assume_tick(d, ticks, elapsed_ns, error_ns);\n", ""),
    ("1 ms is assumed of anybody", "delay_clock.h", "if (off <= error_ns + DELAY_ASSUMED_TICK_NS)", "if (off >= 0)"),
    ("assumed from half a window", "delay_clock.h", "DELAY_ASSUME_PRECISION 8", "DELAY_ASSUME_PRECISION 1"),
    ("precision 64", "delay_clock.h", "DELAY_CLOCK_PRECISION 128", "DELAY_CLOCK_PRECISION 64"),
    ("1024 Hz unknown", "delay_clock.h", "1953125, 976562 }", "1953125 }"),
    ("10 ms unknown", "delay_clock.h", "1000000, 1000,\t   10000000,", "1000000, 1000,"),
    ("snap takes anything", "delay_clock.h", "off < best_off && off <= (elapsed_ns >> 6) + in_use_ns[i]", "off < best_off"),
    ("tick of the first window kept for ever", "delay_clock.h", "\tdelay_set_tick(d, tick_ns);\n", "\tif (!d->tick_ns)\n\t\tdelay_set_tick(d, tick_ns);\n"),
    ("anchor moved without its delay", "delay_clock.h", "owd_ns = tick_ns ? delay_owd_ns(d, a) : 0;", "owd_ns = 0;"),
    ("no sign in the peer's ticks", "delay_clock.h", "(s64)(s32)(a->tsval - d->anchor_tsval)", "((s64)a->tsval - d->anchor_tsval)"),
    ("one-way delay not added a tick", "delay_clock.h", "bound_ns = d->tick_ns;", "bound_ns = 0;"),
    ("one-way delay not asked", "delay_clock.h", "return queue_us * 1000ll > bound_ns ? delay_us(bound_ns) : queue_us;",
     "return 0 * bound_ns + queue_us;"),
    ("one-way delay above the RTT's", "delay_clock.h", "return queue_us * 1000ll > bound_ns ? delay_us(bound_ns) : queue_us;",
     "return delay_us(bound_ns);"),
    ("one-way delay unlimited", "delay_clock.h", "DELAY_OWD_LIMIT_US (1ll << 30)", "DELAY_OWD_LIMIT_US (1ll << 40)"),
    ("the last of the first samples", "delay.h", "law_min(d->smoothed_q8, queue_q8);", "queue_q8;"),
    ("one sample indicates", "delay.h", "d->samples < p->least", "!d->samples"),
    ("restart forgets nothing", "delay.h", "LAW void delay_restart(struct delay *d)\n{\n\td->smoothed_q8 = DELAY_NOT_SMOOTHED;",
     "LAW void delay_restart(struct delay *d)\n{\n\t(void)d;"),
    ("no mute after a reaction", "inference.h", "\tinference_mute(m, a->snd_nxt);\n\treturn verdict;", "\treturn verdict;"),
    ("mute ends one ACK early", "inference.h", "!law_after(snd_una, m->muted_until)", "law_after(m->muted_until, snd_una)"),
    ("mute never ends", "inference.h", "\tm->muted = 0;\n\treturn true;", "\treturn true;"),
    ("second indication halves", "inference.h", "m->active ? INFERENCE_TO_ONE : INFERENCE_HALVE", "INFERENCE_HALVE"),
    ("timer does not restart", "inference.h", "\tm->until_us = a->now_us", "\tif (verdict == INFERENCE_HALVE)\n\t\tm->until_us = a->now_us"),
    ("timer in 32 bits", "inference.h", "(u64)a->rtt_us * a->rtts", "a->rtt_us * a->rtts"),
    ("growth in the phase", "inference.h", "m->active ? INFERENCE_HOLD : INFERENCE_GROW", "INFERENCE_GROW"),
    ("growth at an indication", "inference.h", "\tif (m->muted)\n\t\treturn INFERENCE_HOLD;", "\tif (m->muted)\n\t\treturn m->active ? INFERENCE_HOLD : INFERENCE_GROW;"),
    ("phase one tick long", "inference.h", "if (!m->active || inference_left_us(m, now_us))", "if (!m->active || inference_left_us(m, now_us - 1))"),
    ("a phase without an end", "inference.h", "length_us < INFERENCE_MOST_US ? length_us\n\t\t\t\t\t     : INFERENCE_MOST_US - 1", "length_us"),
    ("a phase whose clock goes round", "inference.h", "left_us < INFERENCE_MOST_US ? left_us : 0", "(s32)left_us > 0 ? left_us : 0"),
    ("a phase outlives a pause", "inference.h", "if (idle_kius >= INFERENCE_MOST_US >> KIUS_SHIFT)", "if (0 && idle_kius)"),
    ("a pause ends it", "inference.h", "if (idle_kius >= INFERENCE_MOST_US >> KIUS_SHIFT)", "if (idle_kius)"),
    ("pairs as single packets", "small_window.h", "SMALL_PAIR * k / law_max(w, 1), 2)", "k / law_max(w, 1), 2)"),
    ("no bound on the spread", "small_window.h", "law_clamp(mss / SMALL_SEGMENT_BYTES, 1, spread)", "law_max(mss / SMALL_SEGMENT_BYTES, spread)"),
    ("segments of 128 bytes", "small_window.h", "SMALL_SEGMENT_BYTES 64", "SMALL_SEGMENT_BYTES 128"),
    ("gap unlimited", "small_window.h", "gap_us > SMALL_GAP_MAX_US ? SMALL_GAP_MAX_US :", "gap_us > ~0u ? ~0u :"),
    ("gap of 0", "small_window.h", "law_max(gap_us, 1)", "law_max(gap_us, 0)"),
    ("rate rounded down", "small_window.h", "1000000 + gap_us - 1)", "1000000)"),
    ("rate of 0", "small_window.h", "law_max(mss, 1) * 1000000 + gap_us - 1", "mss * 1000000 + gap_us - 1"),
    ("three in a row do", "gentle_start.h", "GENTLE_SAMPLES 4", "GENTLE_SAMPLES 3"),
    ("limit without its bounds", "gentle_start.h", "law_clamp(g->base_us >> GENTLE_RISE_SHIFT,\n\t\t\t\t      GENTLE_RISE_MIN_US, GENTLE_RISE_MAX_US)",
     "(g->base_us >> GENTLE_RISE_SHIFT)"),
    ("in all, not in a row", "gentle_start.h", "\t\tg->high = 0;\n\telse", "\t\t;\n\telse"),
    ("the last RTT, not the smallest", "gentle_start.h", "\tg->base_us = law_min(g->base_us, rtt_us);\n\tif (rtt_us <", "\tg->base_us = rtt_us;\n\tif (rtt_us <"),
    ("the odd packet is lost", "gentle_start.h", "acked / 2 + (g->half & acked & 1)", "acked / 2"),
    ("the odd packet counts at once", "gentle_start.h", "acked / 2 + (g->half & acked & 1)", "acked / 2 + (acked & 1)"),
    ("held, but not in a row", "gentle_start.h", "acked = g->held = 0;", "acked = 0;"),
    ("held without a delay", "gentle_start.h", "waits && rtt_us && rtt_us >= gentle_start_limit_us(g)", "waits && rtt_us"),
    ("held, though nothing waits", "gentle_start.h", "held = waits && ", "held = "),
    ("limited in between", "gentle_start.h", "\tg->held = 0;\n\tif (rtt_us)", "\tif (rtt_us)"),
    ("held for one ACK", "gentle_start.h", "g->held >= law_min(window, GENTLE_HELD_MAX)", "g->held"),
    ("slow start as fast as ever", "gentle_start.h", "acked / 2 + (g->half & acked & 1)", "acked"),
    ("the second reduction halves", "inference.h", "verdict == INFERENCE_TO_ONE ? 1 : law_max", "law_max"),
    ("a half of nothing", "inference.h", "law_max(window / 2, 1)", "window / 2"),
    ("a line of RFC 3649 mistyped", "highspeed.h", "12834, 13614", "12834, 13641"),
    ("the last line forgotten", "highspeed.h", "\t\t94717,\n", "\t\t~0u,\n"),
    ("a rounded up, as the kernel's", "highspeed.h", "return row + 1;", "return row + 2;"),
    ("a line begins one packet late", "highspeed.h", "if (w >= highspeed_begins(row + bit))", "if (w > highspeed_begins(row + bit))"),
    ("the search stops early", "highspeed.h", "bit; bit >>= 1", "bit > 1; bit >>= 1"),
    ("the search has no end", "highspeed.h", "w = law_min(w, HIGHSPEED_TOP);", ""),
    ("any hint will do", "highspeed.h", "row < HIGHSPEED_ROWS && w < highspeed_begins(row + 1)", "row < HIGHSPEED_ROWS"),
    ("a hint that is too high", "highspeed.h", "(!row || w >= highspeed_begins(row))", "true"),
    ("a hint refused below the first line", "highspeed.h", "(!row || w >=", "(w >="),
    ("credit overflows", "highspeed.h", "law_min(acked, HIGHSPEED_ACKED_MAX)", "acked"),
    ("log of eight bits", "highspeed.h", "HIGHSPEED_LOG_BITS 16", "HIGHSPEED_LOG_BITS 8"),
    ("the mantissa forgets its carry", "highspeed.h", "mantissa >>= mantissa >> 32;", "mantissa >>= 0;"),
    ("the coefficients have no end", "highspeed.h", "highspeed_log2(law_min(w, HIGHSPEED_TOP))", "highspeed_log2(w)"),
    ("W_high 100 000", "highspeed.h", "HIGHSPEED_LOG_SPAN 726984u", "HIGHSPEED_LOG_SPAN 744601u"),
    ("b falls to 0", "highspeed.h", "highspeed_level(w) * 2 / 5", "highspeed_level(w) / 2"),
    ("c begins at b", "highspeed.h", "HIGHSPEED_C_LOW_Q16 63811u", "HIGHSPEED_C_LOW_Q16 32768u"),
    ("c ends at 0", "highspeed.h", "HIGHSPEED_B_HIGH_Q16 6554u", "HIGHSPEED_B_HIGH_Q16 0u"),
    ("c below b", "highspeed.h", "if (level >= HIGHSPEED_Q16)", "if (level >= 2 * HIGHSPEED_Q16)"),
    ("L below 0", "highspeed.h", "log < HIGHSPEED_LOG_LOW ? 0 : log - HIGHSPEED_LOG_LOW",
     "log < HIGHSPEED_LOG_LOW ? HIGHSPEED_LOG_LOW - log : log - HIGHSPEED_LOG_LOW"),
    ("first_half does nothing", "highspeed.h", "first_half ? HIGHSPEED_HALF_Q16 : highspeed_decrease(w)", "highspeed_decrease(w)"),
    ("second_one does nothing", "highspeed.h", "else if (second_one)", "else if (second_one && !w)"),
    ("always second_one", "highspeed.h", "else if (second_one)", "else if (second_one || w)"),
    ("always first_half", "highspeed.h", "first_half ? HIGHSPEED_HALF_Q16 : highspeed_decrease(w)", "HIGHSPEED_HALF_Q16"),
    ("the second takes what the first takes", "highspeed.h", "verdict != INFERENCE_TO_ONE", "true"),
    ("a cut leaves nothing", "highspeed.h", "law_max(highspeed_left(w, part), 1)", "highspeed_left(w, part)"),
    ("a cut in 32 bits", "highspeed.h", "(u64)w * (HIGHSPEED_Q16 - part)", "w * (HIGHSPEED_Q16 - part)"),
    ("a loss takes c", "highspeed.h", "highspeed_left(w, highspeed_decrease(w)), 2)", "highspeed_left(w, highspeed_second(w)), 2)"),
    ("a loss leaves one packet", "highspeed.h", "highspeed_left(w, highspeed_decrease(w)), 2)", "highspeed_left(w, highspeed_decrease(w)), 1)"),
    ("layers as squares", "layers.h", "layer * (layer + 1) * (layer - 1) / 6", "layer * layer * (layer - 1) / 6"),
    ("a layer begins after its window", "layers.h", "next * next * next - next <= m", "next * next * next - next < m"),
    ("only the cube root", "layers.h", "\tif (next * next * next - next <= m)\n\t\troot = next;\n", ""),
    ("layers without an end", "layers.h", "root > LAYERS_MAX ? LAYERS_MAX : law_max(root, 1)", "law_max(root, 1)"),
    ("the cube root rounds up", "layers.h", "v / more - more * more", "v / more + 1 - more * more"),
    ("the cube root has 20 bits", "layers.h", "LAYERS_CBRT_BIT 20", "LAYERS_CBRT_BIT 19"),
    ("a new W_T is not seen", "layers.h", " && first == l->first", ""),
    ("a layer ends one packet late", "layers.h", "window - l->begin < l->end - l->begin", "window - l->begin <= l->end - l->begin"),
    ("every placing is a change", "layers.h", "return l->layer != was;", "return true || was;"),
    ("K_R below 1", "layers.h", "rtt_us <= rtt_ref_us", "!rtt_us"),
    ("K_R as a square root", "layers.h", "layers_cbrt((rtt_us << 3 * LAYERS_Q)", "layers_cbrt((rtt_us << 2 * LAYERS_Q)"),
    ("K_R of any RTT", "layers.h", "law_min(rtt_min_us, LAYERS_RTT_MAX_US)", "rtt_min_us"),
    ("K_R in the first layer", "layers.h", "l->layer == 1 ? LAYERS_ONE : l->layer * l->kr_q12", "l->layer * l->kr_q12"),
    ("K_R left out", "layers.h", "l->layer == 1 ? LAYERS_ONE : l->layer * l->kr_q12", "l->layer * LAYERS_ONE"),
    ("a round's rest is lost", "layers.h", "layers_begin(l, l->window, l->credit / l->round)", "layers_begin(l, l->window, 0)"),
    ("the increment's rest is lost", "layers.h", "l->credit %= price;", "l->credit = 0;"),
    ("one packet at a time", "layers.h", "l->window += l->credit / price;", "l->window++;"),
    ("rounds of the window that is", "layers.h", "u64 price = (u64)l->round << LAYERS_Q;", "u64 price = (u64)l->window << LAYERS_Q;"),
    ("credit in 32 bits", "layers.h", "(u64)acked * layers_rate_q12(l)", "acked * layers_rate_q12(l)"),
    ("price in 32 bits", "layers.h", "(u64)l->round << LAYERS_Q", "l->round << LAYERS_Q"),
    ("a stretch ACK ends at the round's end", "layers.h", "acked = law_min(acked, l->round - 1);", "acked = 0;"),
    ("a stretch ACK without an end", "layers.h", "acked = law_min(acked, l->round - 1);", ""),
    ("another's window keeps the round", "layers.h", "window != l->window || !l->left", "!l->left"),
    ("beta from the first packet", "layers.h", "window > first ?", "window + 1 ?"),
    ("beta at W_T", "layers.h", "window > first ?", "window >= first ?"),
    ("beta in 32 bits", "layers.h", "(u64)window * (1000 - beta)", "window * (1000 - beta)"),
    ("a loss leaves nothing", "layers.h", "LAYERS_REDUCED_MIN 2", "LAYERS_REDUCED_MIN 1"),
    ("the queue without RTT", "backlog.h", "> (u64)backlog_threshold(b, p) * b->rtt_us", "> (u64)backlog_threshold(b, p) * backlog_base(b)"),
    ("a queue at its threshold exceeds", "backlog.h", "\treturn queue > (u64)backlog_threshold(b, p) * b->rtt_us", "\treturn queue >= (u64)backlog_threshold(b, p) * b->rtt_us"),
    ("no least threshold", "backlog.h", "return law_max(threshold, p->least);", "return threshold;"),
    ("D_loss unknown is full", "backlog.h", "u32 near = 0, threshold,", "u32 near = BACKLOG_ONE, threshold,"),
    ("D_loss is always believed", "backlog_delay.h", "if (loss_us <= p->floor_us &&", "if (0 &&"),
    ("D_loss in the noise is never believed", "backlog_delay.h", "backlog_delay(b, b->most_us) > p->floor_us)", "1)"),
    ("no foreground ratio", "backlog.h", "(BACKLOG_ONE - b->foreground) >>", "BACKLOG_ONE >>"),
    ("no congestion level", "backlog.h", "(u64)p->most * (BACKLOG_ONE - near) *", "(u64)p->most * BACKLOG_ONE *"),
    ("ratio above 1", "backlog_delay.h", "part >= whole ? BACKLOG_ONE : part", "!whole ? BACKLOG_ONE : part"),
    ("nothing of nothing is all", "backlog_delay.h", "\tif (!part)\n\t\treturn 0;\n\treturn part >=", "\treturn part >="),
    ("noise counts", "backlog_delay.h", "\tif (delay_us <= backlog_noise(b, p))\n\t\treturn 0;\n", ""),
    ("noise is a foreground", "backlog_delay.h", "u32 ratio = backlog_ratio(backlog_clear(b, b->least_us, steady_us),", "u32 ratio = backlog_ratio(backlog_clear(b, b->least_us, 0),"),
    ("a reduction takes the noise", "backlog.h", "u32 base_us = backlog_base(b) + backlog_steady(b, p);", "u32 base_us = backlog_base(b) + 0 * p->noise_us;"),
    ("a full buffer is a path as soon", "flat.h", "return law_min(pairs * FLAT_FULL, FLAT_COUNT_MAX);", "return pairs;"),
    ("every buffer is full", "flat.h", "if (!full_us || queue_us <= full_us - band_us ||", "if (!full_us ||"),
    ("a pause is a standstill", "silence.h", "if (!apart && rise_us < since_us - since_us / 4)", "if (0 && apart)"),
    ("pairs apart have pauses", "silence.h", "if (!apart && rise_us", "if (rise_us"),
    ("an early reduction is not seen", "chance.h", "queue >= CHANCE_QUEUE ||", "0 * queue ||"),
    ("any early reduction is seen", "chance.h", "queue >= CHANCE_QUEUE || others >= CHANCE_OTHERS", "queue || others"),
    ("no wait counts down", "chance.h", "if (!--c->wait)", "if (!c->wait)"),
    ("noise that is a part of a large D counts", "backlog_delay.h", "\treturn delay_us > steady_us ? delay_us - steady_us : 0;\n}\n\n/* part", "\treturn delay_us;\n}\n\n/* part"),
    ("slow from the first loss", "chance.h", "return c->wait && c->misses >= CHANCE_QUIET;", "return c->wait && c->misses;"),
    ("slow in a trial", "chance.h", "return c->wait && c->misses >= CHANCE_QUIET;", "return c->misses >= CHANCE_QUIET;"),
    ("others' queues are not seen", "chance.h", "queue >= CHANCE_QUEUE || others >= CHANCE_OTHERS", "queue >= CHANCE_QUEUE || 0 * others"),
    ("a trial begins with misses", "chance.h", "\tif (!--c->wait)\n\t\tc->misses = 0;", "\t--c->wait;"),
    ("no packets of an unknown time", "spacing.h", "return s->packet_us ? delay_us / s->packet_us : 0;", "return delay_us / (s->packet_us ? s->packet_us : 1);"),
    ("all of the noise is none", "backlog_delay.h", "noise_us = p->noise_us * 3 / 4;", "noise_us = p->noise_us;"),
    ("noise above an eighth of D_loss", "backlog_delay.h", "law_min(noise_us, loss_us / 8)", "law_min(noise_us, loss_us / 7)"),
    ("one's own pairs count", "backlog_delay.h", "law_max(p->floor_us, p->own_us)", "p->floor_us"),
    ("one's own pairs are taken out twice", "backlog_delay.h", "\tsteady_us -= p->own_us;\n", ""),
    ("visible with its noise", "backlog.h", "queue * (delay_us - own_us) * BACKLOG_MILLI", "queue * delay_us * BACKLOG_MILLI"),
    ("visible with the packet before", "backlog.h", "u32 own_us = law_max(p->own_us, p->noise_us);", "u32 own_us = p->noise_us;"),
    ("any queue loses packets", "backlog.h", "backlog_visible(b, rtt_us, window, p) >= BACKLOG_OVERFLOW", "true"),
    ("an empty buffer loses packets", "backlog.h", "backlog_delay(b, rtt_us) >= backlog_loss_delay(b, p) / 2 &&", ""),
    ("a fall as fast as a rise", "backlog.h", "\t\taveraging *= BACKLOG_FALL;\n", "\t\t;\n"),
    ("chance makes D_loss smaller", "backlog.h", "(!chance || rtt_us > b->loss_us)", "1"),
    ("chance never tells", "backlog.h", "(!chance || rtt_us > b->loss_us)", "!chance"),
    ("D_loss not cut", "backlog.h", "\n\trtt_us = law_min(rtt_us, BACKLOG_RTT_MAX_US);\n\tif (rtt_us < b->loss_us)", "\n\tif (rtt_us < b->loss_us)"),
    ("noise as large as D_loss", "backlog_delay.h", "law_min(floor_us, loss_us / 2)", "law_min(floor_us, loss_us)"),
    ("the larger one of two blocks", "backlog_delay.h", "return law_min(b->block_us, b->before_us);", "return law_max(b->block_us, b->before_us);"),
    ("one block only", "backlog_delay.h", "return law_min(b->block_us, b->before_us);", "return b->block_us;"),
    ("a block is its last", "backlog_delay.h", "b->block_us = law_min(b->block_us, rtt_us);", "b->block_us = rtt_us;"),
    ("a block of an eighth", "backlog_delay.h", "BACKLOG_BLOCK 8", "BACKLOG_BLOCK 16"),
    ("a block without an end", "backlog_delay.h", "BACKLOG_BLOCK_MOST 63", "BACKLOG_BLOCK_MOST 64"),
    ("one sample counts", "backlog_delay.h", "\t\tif (first)\n\t\t\treturn false;\n", ""),
    ("sparse ACKs need two", "backlog_delay.h", "if (sparse || alone) {", "if (alone) {"),
    ("a packet alone counts", "backlog_delay.h", "\tif (alone && rtt_us >= b->rtt_us)\n\t\treturn false;\n", ""),
    ("a packet alone never counts", "backlog_delay.h", "if (alone && rtt_us >= b->rtt_us)", "if (alone)"),
    ("RTTs not cut", "backlog_delay.h", "\trtt_us = law_min(rtt_us, BACKLOG_RTT_MAX_US);\n\tbacklog_put_base", "\tbacklog_put_base"),
    ("no RTT is one of 0", "backlog_delay.h", "\tif (!rtt_us)\n\t\treturn false;\n", ""),
    ("RTT_min for ever", "backlog_delay.h", "\taged_turn(&b->rtt, AGED_NO_MIN);\n", ""),
    ("the ratio keeps the old base", "backlog_delay.h", "\tif (law_unlikely(aged_min(&b->rtt) != base_was))\n\t\tbacklog_learn_foreground(b, p);\n", ""),
    ("a loss below D_max tells", "backlog.h", "rtt_us && rtt_us >= b->most_us", "rtt_us"),
    ("D_min is the last", "backlog_delay.h", "!b->low_us || rtt_us < b->low_us", "true"),
    ("D_max is the last", "backlog_delay.h", "if (rtt_us > b->high_us)", "if (1)"),
    ("a cycle goes on", "backlog.h", "\tb->low_us = 0;\n\tb->high_us = 0;\n\tbacklog_learn_foreground(b, p);", "\tbacklog_learn_foreground(b, p);"),
    ("D_max by another gain", "backlog.h", "b->most_us = backlog_average(b->most_us, b->high_us, p->averaging)", "b->most_us = backlog_average(b->most_us, b->high_us, 1)"),
    ("D_loss by another gain", "backlog.h", "u32 averaging = p->averaging;", "u32 averaging = p->averaging + 1;"),
    ("averages begin at 0", "backlog.h", "return v ? law_ewma(v, sample, n) : sample;", "return law_ewma(v, sample, n);"),
    ("rebase leaves the ratio", "backlog_delay.h", "+ rise_us));\n\tbacklog_learn_foreground(b, p);", "+ rise_us));"),
    ("no mute after a reduction", "backlog.h", "\tbacklog_mute(b, snd_nxt);\n\tif (!b->low_us)", "\tif (!b->low_us)"),
    ("the mute ends one ACK early", "backlog.h", "b->muted && law_after(snd_una, b->muted_until)", "b->muted && !law_after(b->muted_until, snd_una)"),
    ("the pipe of the threshold", "backlog.h", "return window * base_us / b->rtt_us;", "return window * base_us / (b->rtt_us + 1);"),
    ("windows not cut", "backlog.h", "#define BACKLOG_WINDOW_MAX (1u << 26)", "#define BACKLOG_WINDOW_MAX (1u << 31)"),
    ("idle keeps the block", "backlog_delay.h", "LAW void backlog_restart(struct backlog *b)\n{\n\tb->block_us = 0;", "LAW void backlog_restart(struct backlog *b)\n{\n\t(void)b;"),
    ("the limit forgets the queue's own part", "backlog.h", "/ (all - threshold)", "/ all"),
    ("reno at a random loss", "westwood.h", "if (!chance)", "if (1 + chance)"),
    ("the delivered not asked", "westwood.h", "law_min(law_min(cwnd, pipe), delivered)", "law_min(cwnd, pipe)"),
    ("the pipe not asked", "westwood.h", "law_min(law_min(cwnd, pipe), delivered)", "law_min(cwnd, delivered)"),
    ("a mark is chance", "westwood.h", "if (!chance)", "if (0 * chance)"),
    ("ssthresh of 1", "westwood.h", "WESTWOOD_LEAST 2", "WESTWOOD_LEAST 1"),
    ("a round of no time", "westwood.h", "if (!base_us || !w->elapsed_us)", "if (!base_us)"),
    ("a round delivers all", "westwood.h", "w->packets = delivered - w->mark_packets;", "w->packets = delivered;"),
    ("a round goes on", "westwood.h", "\twestwood_begin(w, delivered, now_us);\n}\n\n/* packets: what the last", "}\n\n/* packets: what the last"),
    ("a growing window is behind", "westwood.h", "w->elapsed_us + WESTWOOD_BEHIND", "w->elapsed_us"),
    ("delivered per round", "westwood.h", "(u64)w->packets * base_us", "(u64)w->packets * w->elapsed_us"),
    ("noise is not averaged", "noise.h", "n->noise = law_ewma(n->noise, spread,\n\t\t\t    spread > n->noise ? NOISE_RISE : NOISE_FALL);", "n->noise = spread;"),
    ("noise falls as it rises", "noise.h", "NOISE_FALL 8", "NOISE_FALL 16"),
    ("noise rises as it falls", "noise.h", "NOISE_RISE 16", "NOISE_RISE 8"),
    ("two samples are a spread", "noise.h", "NOISE_SAMPLES 4", "NOISE_SAMPLES 3"),
    ("spreads without an end", "noise.h", "\tspread = law_min(spread, NOISE_MOST);\n", ""),
    ("delays go round", "noise.h", "law_min(delay_us >> NOISE_SPREAD_SHIFT, NOISE_MOST)", "delay_us >> NOISE_SPREAD_SHIFT"),
    ("a short round is kept", "noise.h", "\t\tnoise_begin(n);\n\t\treturn NOISE_UNKNOWN;", "\t\treturn NOISE_UNKNOWN;"),
    ("a long round is kept", "noise.h", "\tnoise_begin(n);\n\treturn low_us;", "\treturn low_us;"),
    ("a round's largest", "noise.h", "u32 low_us = (u32)n->low << NOISE_SPREAD_SHIFT;", "u32 low_us = (u32)n->high << NOISE_SPREAD_SHIFT;"),
    ("the last is the smallest", "noise.h", "if (delay < n->low)", "if (1)"),
    ("the last is the largest", "noise.h", "if (delay > n->high)", "if (1)"),
    ("rounds do not end", "noise.h", "if (law_likely(!law_after(snd_una, n->end)))", "if (1)"),
    ("rounds end with each ACK", "noise.h", "if (law_likely(!law_after(snd_una, n->end)))", "if (0)"),
    ("a round without a new end", "noise.h", "\tn->end = snd_nxt;\n\treturn true;", "\treturn true;"),
    ("a new flow's noise", "noise.h", "\tn->noise = 0;\n", "\tn->noise = 100;\n"),
    ("any pause is a silence", "silence.h", "SILENCE_LEAST_US 8000", "SILENCE_LEAST_US 1"),
    ("a slow link is silent", "silence.h", "since_us >= packet_us * SILENCE_PACKETS", "1 + packet_us"),
    ("one packet's time is a silence", "silence.h", "SILENCE_PACKETS 3", "SILENCE_PACKETS 1"),
    ("slow paths have no delayed ACKs", "silence.h", "law_min(packet_us,\n\t\t\t\t   SILENCE_DELAYED_US / SILENCE_PACKETS)", "packet_us"),
    ("idle is a stall", "silence.h", "law_min(since_us, rise_us) >> SILENCE_SHIFT", "since_us >> SILENCE_SHIFT"),
    ("a queue is a stall", "silence.h", "law_min(since_us, rise_us) >> SILENCE_SHIFT", "rise_us >> SILENCE_SHIFT"),
    ("a stall below 0", "silence.h", "delay_us > before_us ? delay_us - before_us : 0", "delay_us - before_us"),
    ("the last stall", "silence.h", "if (stood > s->stood)", "if (1)"),
    ("stalls go round", "silence.h", "\tstood = law_min(stood, SILENCE_MOST);\n", ""),
    ("stalls of this round only", "silence.h", "law_max(s->stood, s->before)", "s->stood"),
    ("stalls for ever", "silence.h", "\ts->before = s->stood;\n\ts->stood = 0;\n", "\ts->before = s->stood;\n"),
    ("one spacing is enough", "spacing.h", "larger_us = law_max(each_us, s->last_us);\n\tif (s->last_us &&", "larger_us = law_max(each_us, s->last_us);\n\tif (each_us &&"),
    ("the smaller of two spacings", "spacing.h", "larger_us = law_max(each_us, s->last_us);", "larger_us = law_min(each_us, s->last_us);"),
    ("the last spacing", "spacing.h", "(!s->packet_us || larger_us < s->packet_us)", "1"),
    ("a pair's spacing is a packet's", "spacing.h", "acked == 2 ? since_us / 2 : since_us / acked", "acked == 2 ? since_us : since_us / acked"),
    ("spacings go round", "spacing.h", "\teach_us = law_min(each_us, SPACING_MOST_US);\n", ""),
    ("single packets are spaced", "spacing.h", "if (acked >= 2)", "if (acked)"),
    ("spaced since the beginning", "spacing.h", "\ts->heard_us = now_us;\n\tif (acked", "\tif (acked"),
    ("one's own without an end", "spacing.h", "law_min(s->packet_us, base_us / 8)", "s->packet_us + 0 * base_us"),
    ("a wait of 2", "chance.h", "CHANCE_WAIT 4 ", "CHANCE_WAIT 2 "),
    ("waits as long as before", "chance.h", "CHANCE_WAIT_SHIFT 2", "CHANCE_WAIT_SHIFT 0"),
    ("waits without an end", "chance.h", "law_min(losses << CHANCE_WAIT_SHIFT, CHANCE_WAIT_MOST)", "losses << CHANCE_WAIT_SHIFT"),
    ("a trial goes on for ever", "chance.h", "c->high >= c->low / 2 && ", ""),
    ("a trial ends at once", "chance.h", "c->high >= c->low / 2 &&", "c->high > c->low &&"),
    ("a held window goes on", "chance.h", " && (!most || c->misses < most)", " && (1 || most)"),
    ("0 ends it at once", "chance.h", "(!most || c->misses < most)", "c->misses < most"),
    ("one loss longer", "chance.h", "c->misses < most)", "c->misses <= most)"),
    ("a larger window is a miss", "chance.h", "\t\tc->misses = 0;\n\t} else", "\t} else"),
    ("misses go round", "chance.h", "else if (c->misses < 255)", "else"),
    ("a long trial was wrong", "chance.h", "c->tried >= CHANCE_LONG ? CHANCE_WAIT : c->next", "c->next"),
    ("small windows are asked", "chance.h", "CHANCE_WINDOW 8", "CHANCE_WINDOW 1"),
    ("intervals since the beginning", "chance.h", "\tc->mark = delivered;\n\tif (window", "\tif (window"),
    ("intervals without an end", "chance.h", "law_min(delivered - c->mark, CHANCE_INTERVAL_MOST)", "delivered - c->mark"),
    ("low is the last", "chance.h", "c->low ? law_ewma(c->low, interval, CHANCE_LOW) : interval", "interval"),
    ("high begins at 0", "chance.h", "\tc->high = c->low;\n", ""),
    ("high by the gain of low", "chance.h", "CHANCE_HIGH 8", "CHANCE_HIGH 4"),
    ("noise is not flat", "flat.h", "apart_us > law_max(FLAT_TOLERANCE_US, noise_us)", "apart_us > FLAT_TOLERANCE_US"),
    ("flat counts go round", "flat.h", "law_min(count + 1, FLAT_COUNT_MAX)", "count + 1"),
    ("nothing to explain is flat", "flat.h", "if (low_us <= law_max(FLAT_TOLERANCE_US, noise_us))", "if (0)"),
    ("rounds within all of the noise", "flat.h", "law_max(noise_us / 4, packet_us + packet_us / 2)", "law_max(noise_us, packet_us + packet_us / 2)"),
    ("rounds within three packets", "flat.h", "packet_us + packet_us / 2)", "packet_us * 3)"),
    ("nf: a mark takes nothing of three", "nf.h", "law_min(left, w - 1)", "left"),
    ("nf: a mark leaves one packet", "nf.h", "NF_LEAST 2", "NF_LEAST 1"),
    ("nf: eq. 2 in 32 bits", "nf.h", "(u64)w * (1000 - law_min(b_permille, 1000))", "w * (1000 - law_min(b_permille, 1000))"),
    ("nf: a share below eq. 8", "nf.h", "NF_SHARE_ONE);\n}\n\n/* packets: up to here", "1);\n}\n\n/* packets: up to here"),
    ("nf: alpha left out", "nf.h", "all_q8 * law_min(alpha_permille, 1000) / 1000", "all_q8 * law_max(alpha_permille, 1000) / 1000"),
    ("nf: eq. 7 beyond the target", "nf.h", "\tshare_q8 = law_min(share_q8, room << NF_SHARE_SHIFT);\n", ""),
    ("nf: past the target", "nf.h", "w < target ? law_min(target - w, NF_WINDOW_MAX) : 1", "w < target ? NF_WINDOW_MAX : 1"),
    ("nf: faster than slow start", "nf.h", "sum > acked ? acked : sum", "sum"),
    ("nf: the credit's rest is lost", "nf.h", "*credit = sum % unit;", "*credit = 0;"),
    ("nf: credit in 32 bits", "nf.h", "(u64)law_min(acked, NF_WINDOW_MAX) * share_q8", "law_min(acked, NF_WINDOW_MAX) * share_q8"),
    ("nf: a window of 0", "nf.h", "law_clamp(w, 1, NF_WINDOW_MAX)", "law_min(w, NF_WINDOW_MAX)"),
    ("chirp: eq. 3 from 1", "chirp.h", "gap < CHIRP_MOST - 2 && gap < i", "gap < CHIRP_MOST - 2 && gap <= i"),
    ("chirp: eq. 4 a gap too far", "chirp.h", "chirp_steps(n) - 2);", "chirp_steps(n) - 1);"),
    ("chirp: eq. 6 over n", "chirp.h", "u32 gaps = chirp_steps(n) - 1;", "u32 gaps = chirp_steps(n);"),
    ("chirp: below the floor", "chirp.h", "CHIRP_SHARE_SHIFT,\n\t\t       floor_kbps)", "CHIRP_SHARE_SHIFT,\n\t\t       0 * floor_kbps)"),
    ("chirp: a gap of nothing", "chirp.h", "gap_ns ? gap_ns : 1", "gap_ns"),
    ("chirp: rates wrap", "chirp.h", "rate_q8 > CHIRP_RATE_MAX ? CHIRP_RATE_MAX : rate_q8", "rate_q8"),
    ("chirp: bursts of any size", "chirp.h", "CHIRP_BURST_MOST 8", "CHIRP_BURST_MOST 16"),
    ("nf: a row takes no more", "nf.h", "law_min(b_permille, 1000) << law_min(row, NF_ROW_MOST)", "law_min(b_permille, 1000)"),
    ("nf: a row takes all", "nf.h", "law_max(law_min(b, most_permille), law_min(b_permille, 1000))", "b"),
    ("nf: a row grows for ever", "nf.h", "row + 1) > b ? row + 1", "row + 1) >= b ? row + 1"),
    ("nf: back to more than a mark left", "nf.h", "(u64)w * law_min(part_permille, 1000) / 1000", "w"),
    ("nf: back by eq. 8", "nf.h", "law_min(missing << NF_SHARE_SHIFT, NF_SHARE_MAX)", "NF_SHARE_ONE"),
    ("nf: a loss leaves one packet", "nf.h", "law_max(w / 2, NF_LEAST)", "law_max(w / 2, 1)"),
    ("knee: ECE without ECN", "knee.h", "\tif (!c->ecn)\n\t\treturn n;\n", ""),
    ("knee: a run of marks that ended", "knee.h", "\t\t\tknee = n;\n\t\telse if (knee == n)", "\t\t\t;\n\t\telse if (knee == n)"),
    ("knee: no pile", "knee.h", "knee_rate_kbps(c, e->by_ece, 1 + m)", "knee_rate_kbps(c, e->by_ece, 1)"),
    ("knee: one packet's pile", "knee.h", "KNEE_PILE 3", "KNEE_PILE 1"),
    ("knee: the rates end at the first", "knee.h", "i <= CHIRP_MOST && i + knee < down", "i + knee < 0 * down"),
    ("knee: the larger of both", "knee.h", "((u64)ece_kbps + delay_kbps) / 2", "law_max(ece_kbps, delay_kbps)"),
    ("knee: F of 2", "knee.h", "KNEE_FALL_NUM 3", "KNEE_FALL_NUM 4"),
    ("knee: an excursion stays", "knee.h", "\t\t\tknee = n; /* the excursion is over */", "\t\t\t;"),
    ("knee: noise is a rise", "knee.h", "height_us > c->noise_us ? knee : n", "knee"),
    ("knee: half a chirp will do", "knee.h", "have * 4 >= n * 3", "have * 4 >= n * 2"),
    ("knee: without the last step", "knee.h", "knee_has(c->sampled, n - 1) && c->min_kbps", "c->min_kbps"),
    ("knee: a hump is no trace", "knee.h", "if (!e->signal && e->highest_us <= c->noise_us)", "if (!e->signal)"),
    ("knee: above max", "knee.h", "kbps < max_kbps ? kbps : max_kbps", "kbps"),
    ("knee: below is not 0", "knee.h", "e->verdict == KNEE_BELOW ? 0 : e->raw_kbps", "e->raw_kbps"),
    ("range: an eighth", "range.h", "RANGE_GAIN 4", "RANGE_GAIN 8"),
    ("range: carried leaves the range", "range.h", "\tr->have = RANGE_MEMORY;\n\trange_follow(r, par);", "\tr->have = RANGE_MEMORY;"),
    ("range: carried keeps the old average's weight", "range.h", "\tr->have = RANGE_MEMORY;\n\trange_follow(r, par);", "\trange_follow(r, par);"),
    ("range: the first chirp searches", "range.h", "u32 kbps)\n{\n\tr->searching = 0;", "u32 kbps)\n{"),
    ("range: congestion keeps the estimate", "range.h", "\tr->bw_kbps = 0;\n\tr->have = law_min(", "\tr->have = law_min("),
    ("range: congestion refutes nothing", "range.h", "\t\tr->avg_kbps = law_min(r->avg_kbps, kbps);", "\t\tr->avg_kbps += 0;"),
    ("range: congestion weighs nothing", "range.h", "\tr->have = law_min(r->have, RANGE_MEMORY);\n", ""),
    ("range: one estimate raises it as far as it says", "range.h", "r->have > 1 ? law_min(to_kbps, most_kbps) : to_kbps", "to_kbps"),
    ("range: the first one is held, too", "range.h", "r->have > 1 ? law_min", "r->have ? law_min"),
    ("range: the search goes on for ever", "range.h", "r->searching && max_kbps < par->ceiling_kbps &&", "r->searching &&"),
    ("range: a search's steps stay", "range.h", "chirp_steps(steps) * 2, chirp_steps(par->steps)", "chirp_steps(steps), chirp_steps(par->steps)"),
    ("range: no ceiling", "range.h", "\tif (max_kbps > ceiling_kbps)\n\t\tmin_kbps", "\tif (0 * max_kbps)\n\t\tmin_kbps"),
    ("range: no bound", "range.h", "\tif (e->verdict != KNEE_ABOVE) {", "\tif (1) {"),
    ("range: a bound is averaged", "range.h", "\tif (r->avg_kbps > kbps)\n\t\tr->have = 0;", ""),
    ("range: 0 below the floor itself", "range.h", "kbps * 4ull < floor_kbps * 3ull", "kbps * 4ull < floor_kbps * 4ull"),
    ("range: nothing is 0", "range.h", "\t\t\tkbps = range_worth(kbps, par->floor_kbps);", "\t\t\t;"),
    ("range: pause of half a mean", "range.h", "LAW_S32_MAX) * 2 * random >> 32", "LAW_S32_MAX) * 1 * random >> 32"),
    ("range: r_avg not lifted", "range.h", "RANGE_LIFT 2", "RANGE_LIFT 1"),
    ("range: no doubt", "range.h", "\t\tr->doubt++;", "\t\t;"),
    ("range: doubt for ever", "range.h", "\t\tr->doubt--;", "\t\t;"),
    ("range: doubt without an end", "range.h", "\tu32 doubt = law_min(r->doubt, RANGE_DOUBT_MOST);", "\tu32 doubt = r->doubt;"),
    ("le: a block of any ACKs", "le.h", "l->samples >= (noisy ? LE_SAMPLES_NOISY : LE_SAMPLES)", "l->samples >= 1"),
    ("le: a noisy path is as another", "le.h", "noisy ? LE_SAMPLES_NOISY : LE_SAMPLES", "LE_SAMPLES"),
    ("le: a block's last delay", "le.h", "l->low = law_min(l->low, queue);", "l->low = queue;"),
    ("le: what was in flight is a pair", "le.h", "l->stage == LE_SMALL && flying >= LE_LEAST", "false"),
    ("le: a delayed ACK is a delay", "le.h", "acked <= 1 && !flying && !l->samples && queue > l->last", "false"),
    ("le: a cut is judged by the queue before", "le.h", "\t\tl->stage = LE_JUDGE;\n", ""),
    ("le: the window before", "le.h", "l->then_q8 ? l->then_q8 / 2 + window_q8 / 2 : window_q8", "window_q8"),
    ("le: growth beside a queue", "le.h", "\t\tl->growth = law_min(l->growth, LE_SLOW);\n", ""),
    ("le: growth that nothing limits", "le.h", "if (l->stage != LE_FREE || !grows)", "if (l->stage != LE_FREE)"),
    ("le: faster than a sixteenth", "le.h", "law_max(window >> (l->growth - LE_SLOW), LE_FAST)", "window >> (l->growth - LE_SLOW)"),
    ("le: half of the queue", "le.h", "((u64)p->base_us + queue_us)", "((u64)p->base_us + queue_us / 2)"),
    ("le: back is what was left", "le.h", "law_max(l->back_q8, le_pipe(then_q8, most_us, p))", "le_pipe(then_q8, queue_us, p)"),
    ("le: a short path is drained", "le.h", "if (le_short(p) && p->base_seen)", "if (0 * le_short(p))"),
    ("le: a short path that is never drained", "le.h", "le_short(p) && p->base_seen", "le_short(p)"),
    ("le: back is never less", "le.h", "\t\tl->back_q8 -= (l->back_q8 - window_q8) / LE_FELL;\n", "\t\t;\n"),
    ("le: gaps of any length", "le.h", "law_min(l->count * 2, le_gap_most(l, p))", "l->count * 2"),
    ("le: one empty pair", "le.h", "if (l->count >= LE_AGAIN)", "if (l->count >= 255)"),
    ("le: judged by one block", "le.h", "l->count < LE_JUDGED && ", "0 * l->count && "),
    ("le: a doubled queue waits", "le.h", " && l->q <= 2 * (u32)l->cut_q", ""),
    ("le: plateaus are longer paths", "le.h", "law_clamp(most, pairs, LE_FLAT_MOST)", "law_min(pairs, most)"),
    ("le: every loss without a queue is chance", "le.h", "return l->fits && !starting && !soon &&", "return !starting && !soon &&"),
    ("le: a row of losses is chance", "le.h", "l->lost && l->rounds < LE_CHANCE_ROUNDS", "false"),
    ("le: a loss takes the drain", "le.h", "law_min(le_drained(l, window_q8, queue_us, p) >> LE_Q8_SHIFT, window / 2)", "le_drained(l, window_q8, queue_us, p) >> LE_Q8_SHIFT"),
    ("le: every buffer is small", "le.h", "queue >= l->most / 4 * 3", "true"),
    ("le: a start's first loss is a policer's", "le.h", "\tl->fits |= l->samples >= LE_SAMPLES && le_us(l->low) >= p->threshold_us;\n", ""),
    ("le: a crowd looks late", "le.h", "le_steady(l, 0) ? law_min(LE_GAP_FIRST, le_gap_most(l, p)) : 1", "law_min(LE_GAP_FIRST, le_gap_most(l, p))"),
    ("le: a mark takes nothing", "le.h", "law_min(to, window - window / 8)", "to"),
    ("le: a mark between pairs is another", "le.h", "\tif (l->stage == LE_CUT)\n\t\treturn window;\n", ""),
    ("le: a small buffer is as others", "le_state.h", "if (l->small_buffer)", "if (0 * l->small_buffer)"),
    ("le: noise is no delay", "le_state.h", "return law_max(t_us, noise_us);", "return t_us + 0 * noise_us;"),
    ("le: a packet's time is none", "le_state.h", "t_us = law_max(t_us, p->packet_us + p->packet_us / 2);", ""),
    ("le: a new path has the old buffer", "le_state.h", "\tl->most = 0;\n\tl->small_buffer = 0;\n}", "}"),
    ("le: a base half a millisecond above is another", "le_state.h", "now_us - LE_SEEN_US <= before_us", "now_us <= before_us"),
    ("M of 2", "params.h", "100, 64000, 3000,", "100, 64000, 2000,"),
    ("a default out of range", "params.h", "10, 900, 150,", "10, 100, 150,"),
    ("red: average one packet late", "red.h", "if (law_likely(n == 1))", "if (n >= 1)"),
    ("red: average from the wrong side", "red.h", "return above ? queue_q16 + away : queue_q16 - away;", "return queue_q16 + away;"),
    ("red: rounds away from the queue", "red.h", "(away + (1u << shift) - 1) >> shift", "away >> shift"),
    ("red: the power forgets a bit", "red.h", "odd = -(n & 1)", "odd = -((n & 3) / 3)"),
    ("red: long trains are short ones", "red.h", "i < RED_STEPS_BITS && n", "i < RED_TRAIN_BITS && n"),
    ("red: forgets too soon", "red.h", "RED_FORGOTTEN 64u", "RED_FORGOTTEN 8u"),
    ("red: idle from the last arrival", "red.h", "\tcould -= sent;\n", ""),
    ("red: idle without a rate", "red.h", "if (!packet_ns || !packet_bytes)\n\t\treturn 0;", "if (!packet_ns || !packet_bytes)\n\t\treturn 1;"),
    ("red: marks at min", "red.h", "if (place <= red_threshold(c, c->min))", "if (place < red_threshold(c, c->min))"),
    ("red: marks half", "red.h", "part * s->count <", "part * s->count / 2 <"),
    ("red: a coin each packet", "red.h", "if (!s->count)\n\t\ts->random_q16", "if (true)\n\t\ts->random_q16"),
    ("red: a train counts once", "red.h", "s->count + law_min(n, RED_COUNT_MAX)", "s->count + law_min(n, 1)"),
    ("red: count does not start anew", "red.h", "\ts->count = 0;\n\treturn true;", "\treturn true;"),
    ("red: never due", "red.h", "s->count < RED_COUNT_MAX &&", "s->count <= RED_COUNT_MAX &&"),
    ("red: a bucket off", "red.h", "u32 bucket = !!v;", "u32 bucket = 0;"),
    ("red: a hole in a record", "aqm.h", "\t__u32 reserved;\n", ""),
    ("a controller's name too long", "controllers.h", "tcp_lp_ecn, OPEN", "tcp_lp_ecn_marks, OPEN"),
    ("a hole in a record", "event.h", "__u16 reserved;", ""),
]
# fmt: on


def path_of(header: str) -> Path:
    return Path("include", "law" if (ROOT / "include/law" / header).exists() else "ccbpf", header)


OF_THE_TREE = {"test_docs.py", "test_flow_record.py", "test_rooms.py", "test_mutants.py"}  # not of one law


def tests_for(header: str) -> list[str]:
    """All unit tests, those of this law first."""
    tests = [str(path.relative_to(ROOT)) for path in sorted(ROOT.glob("tests/unit/test_*.py")) if path.name not in OF_THE_TREE]
    return sorted(tests, key=lambda name: f"test_{header[:-2].split('_')[0]}" not in name)


def mutated(text: str, header: str, old: str, new: str) -> str:
    """The header with one place changed. White space between tokens is the formatter's business: it need not be the same."""
    pattern = r"\s*".join(map(re.escape, re.findall(r"\w+|[^\w\s]", old)))
    found = len(re.findall(pattern, text))
    if found != 1:
        raise LookupError(f"{header} has {old!r} {found} times: bring the list of mutants up to date")
    return re.sub(pattern, lambda _: new.strip(), text)


def lost() -> Iterator[str]:
    """The mutants that do not find their place, as messages."""
    for _, header, old, new in MUTANTS:
        try:
            mutated((ROOT / path_of(header)).read_text(), header, old, new)
        except LookupError as error:
            yield str(error)


def killed_by(mutant: tuple[str, str, str, str]) -> str | None:
    """The first test that fails on the mutant, None if all pass."""
    _, header, old, new = mutant
    with tempfile.TemporaryDirectory() as scratch:
        tree = Path(scratch)
        for name in COPIED:
            target = tree / name
            target.parent.mkdir(parents=True, exist_ok=True)
            if (ROOT / name).is_dir():
                shutil.copytree(ROOT / name, target, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(ROOT / name, target)
        victim = tree / path_of(header)
        victim.write_text(mutated(victim.read_text(), header, old, new))
        subprocess.run(
            ["make", "-s", "build/tests/liblaws.so", "WARN=-w"], cwd=tree, check=True, stdout=subprocess.DEVNULL
        )  # it is C, at least
        run = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-o", "addopts=", *tests_for(header)],
            cwd=tree,
            capture_output=True,
            text=True,
            env={**os.environ, "MAKEFLAGS": "WARN=-w"},
        )
    if run.returncode == 0:
        return None
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    assert not (failed and failed[0].startswith("ERROR") and "::" not in failed[0]), f"not even collected: {failed[0]}"
    return failed[0].split(" - ")[0].split("::", 1)[-1] if failed else run.stdout[-300:]


def main() -> bool:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("--check", action="store_true", help="only whether each mutant finds its place")
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
    if arguments.check:
        print(*(messages := list(lost())), sep="\n")
        return bool(messages)
    chosen = [m for m in MUTANTS if not arguments.words or any(word in m[0] for word in arguments.words)]
    survivors = 0
    with ThreadPoolExecutor(arguments.jobs) as pool:
        for mutant, killer in zip(chosen, pool.map(killed_by, chosen)):
            survivors += killer is None
            print(f"{mutant[0]:45} {killer or 'SURVIVES'}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} killed")
    return survivors > 0


if __name__ == "__main__":
    sys.exit(main())

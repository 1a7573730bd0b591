# SPDX-License-Identifier: GPL-2.0-only
"""Can the unit tests fail? Changes the laws in one place at a time, in a scratch copy, and sees whether they notice.

    python -m tests.unit.mutate [-j JOBS] [WORD...]     all mutants, or those whose name has one of the words

Exit code 1 if a mutant survives. Not part of `make test`: it is for whoever changes a law or its tests.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.unit.headers import ROOT

COPIED = ["Makefile", "include", "pytest.ini", "tests/__init__.py", "tests/unit"]

# name, header, what it says, what the mutant says
MUTANTS = [
    ("ewma rounds away", "fixed.h", "v + (sample - v) / n : v", "v + (sample - v + n - 1) / n : v"),
    ("ewma forgets a step", "fixed.h", ": v - (v - sample) / n", ": sample"),
    ("after includes equal", "fixed.h", "(s32)(a - b) > 0", "(s32)(a - b) >= 0"),
    ("after without the circle", "fixed.h", "(s32)(a - b) > 0", "a > b"),
    ("slow clock 0.1 % off", "fixed.h", "KIUS_PER_S 977", "KIUS_PER_S 978"),
    ("aged forgets the half before", "aged.h", "a->now < a->before ? a->now : a->before", "a->now"),
    ("aged turn keeps now", "aged.h", "\ta->now = none;\n}\n\nLAW s32 aged_min", "}\n\nLAW s32 aged_min"),
    ("eq. 2 at equality", "delay.h", "smoothed * 1000 > delay", "smoothed * 1000 >= delay"),
    ("eq. 2 without the floor", "delay.h", "smoothed > delay_floor(d, p) * unit", "true"),
    ("floor above half of q_max", "delay.h", "delay_queue_max(d) / 2", "delay_queue_max(d)"),
    ("gamma off by one", "delay.h", "queue_q8, smoothing);\n\t\treturn;", "queue_q8, smoothing + 1);\n\t\treturn;"),
    ("delays not cut", "delay.h", "law_min(a->rtt_us, DELAY_MAX_US)", "a->rtt_us"),
    ("lone packets smoothed", "delay.h", "\tif (a->lone)\n\t\treturn queue_us;\n", ""),
    ("half of a pair is a whole one", "delay.h", "a->half ? delay_queue_max(d) : 0", "0"),
    ("half of a pair teaches nothing at first", "delay.h", "most_us ? most_us : DELAY_MAX_US", "a->half ? most_us : DELAY_MAX_US"),
    ("base shift leaves q_max", "delay.h", "\tdelay_move_one(&d->queue.now, by_us);\n", ""),
    ("base shift leaves the half before", "delay.h", "\tdelay_move_one(&d->queue.before, by_us);\n", ""),
    ("base shift leaves the smoothed", "delay.h", "d->smoothed_q8 = smoothed_q8 > 0 ? smoothed_q8 : 0;", ""),
    ("base shift leaves the anchor", "delay.h", "\td->anchor_queue_us = anchor_us;\n", ""),
    ("smoothed above the largest", "delay.h", "\tdelay_cap_smoothed(d);\n}\n\n/* us: the RTT", "}\n\n/* us: the RTT"),
    ("memory twice as long", "delay.h", "memory_s * KIUS_PER_S / 2", "memory_s * KIUS_PER_S"),
    ("memory half as long", "delay.h", "memory_s * KIUS_PER_S / 2", "memory_s * KIUS_PER_S / 4"),
    ("q_max never ages", "delay.h", "\taged_turn(&d->queue, 0);\n", ""),
    ("rtt_min never ages", "delay.h", "\taged_turn(&d->rtt, AGED_NO_MIN);\n", ""),
    ("owd_min never ages", "delay.h", "\taged_turn(&d->owd, AGED_NO_MIN);\n", ""),
    ("silence keeps the clock", "delay.h", ">= DELAY_ANCHOR_KIUS", ">= ~0u"),
    ("window by TSecr", "delay.h", "(s64)(s32)(sent_us - d->anchor_sent_us) * 1000",
     "(s64)(s32)(a->tsecr - d->anchor_tsecr) * a->our_tick_ns + 0 * sent_us"),
    ("window of 0.5 s", "delay.h", "DELAY_CLOCK_WINDOW_NS 1000000000ll", "DELAY_CLOCK_WINDOW_NS 500000000ll"),
    ("window regardless of the queue", "delay.h", "elapsed_ns < error_ns * DELAY_CLOCK_PRECISION", "error_ns < 0"),
    ("window forgets the anchor's queue", "delay.h", "((s64)rtt_queue_us + d->anchor_queue_us) * 1000",
     "(s64)rtt_queue_us * 1000"),
    ("nothing is assumed", "delay.h", "\t\tif (!d->tick_ns)\n\t\t\tdelay_assume_tick(d, ticks, elapsed_ns, error_ns);\n", ""),
    ("1 ms is assumed of anybody", "delay.h", "if (off <= error_ns + DELAY_ASSUMED_TICK_NS)", "if (off >= 0)"),
    ("assumed from half a window", "delay.h", "DELAY_ASSUME_PRECISION 8", "DELAY_ASSUME_PRECISION 1"),
    ("precision 64", "delay.h", "DELAY_CLOCK_PRECISION 128", "DELAY_CLOCK_PRECISION 64"),
    ("1024 Hz unknown", "delay.h", "1953125, 976562 }", "1953125 }"),
    ("10 ms unknown", "delay.h", "1000, 10000000,", "1000,"),
    ("snap takes anything", "delay.h", "off < best_off && off <= (elapsed_ns >> 6) + in_use_ns[i]", "off < best_off"),
    ("tick of the first window kept for ever", "delay.h", "\tdelay_set_tick(d, tick_ns);\n", "\tif (!d->tick_ns)\n\t\tdelay_set_tick(d, tick_ns);\n"),
    ("anchor moved without its delay", "delay.h", "\towd_ns = delay_owd_ns(d, a);\n\tdelay_anchor", "\towd_ns = 0;\n\tdelay_anchor"),
    ("no sign in the peer's ticks", "delay.h", "(s64)(s32)(a->tsval - d->anchor_tsval)", "((s64)a->tsval - d->anchor_tsval)"),
    ("one-way delay not added a tick", "delay.h", "law_max(d->tick_ns, a->our_tick_ns)", "0"),
    ("one-way delay not asked", "delay.h", "return queue_us * 1000ll > bound_ns ? delay_us(bound_ns) : queue_us;",
     "return 0 * bound_ns + queue_us;"),
    ("one-way delay above the RTT's", "delay.h", "return queue_us * 1000ll > bound_ns ? delay_us(bound_ns) : queue_us;",
     "return delay_us(bound_ns);"),
    ("one-way delay unlimited", "delay.h", "DELAY_OWD_LIMIT_US (1ll << 30)", "DELAY_OWD_LIMIT_US (1ll << 40)"),
    ("the last of the first samples", "delay.h", "law_min(d->smoothed_q8, queue_q8);", "queue_q8;"),
    ("one sample indicates", "delay.h", "d->samples < p->least", "!d->samples"),
    ("restart forgets nothing", "delay.h", "LAW void delay_restart(struct delay *d)\n{\n\td->smoothed_q8 = DELAY_NOT_SMOOTHED;",
     "LAW void delay_restart(struct delay *d)\n{\n\t(void)d;"),
    ("rtt 0 is a sample", "delay.h", "\tif (!rtt_us)\n\t\treturn 0;\n", ""),
    ("no mute after a reaction", "inference.h", "\tinference_mute(m, a->snd_nxt);\n\treturn verdict;", "\treturn verdict;"),
    ("mute ends one ACK early", "inference.h", "!law_after(snd_una, m->muted_until)", "law_after(m->muted_until, snd_una)"),
    ("mute never ends", "inference.h", "\tm->muted = 0;\n\treturn true;", "\treturn true;"),
    ("second indication halves", "inference.h", "m->active ? INFERENCE_TO_ONE : INFERENCE_HALVE", "INFERENCE_HALVE"),
    ("timer does not restart", "inference.h", "\tm->until_us = a->now_us", "\tif (verdict == INFERENCE_HALVE)\n\t\tm->until_us = a->now_us"),
    ("timer in 32 bits", "inference.h", "(u64)a->rtt_us * a->rtts", "a->rtt_us * a->rtts"),
    ("growth in the phase", "inference.h", "m->active ? INFERENCE_HOLD : INFERENCE_GROW", "INFERENCE_GROW"),
    ("growth at an indication", "inference.h", "\tif (m->muted)\n\t\treturn INFERENCE_HOLD;", "\tif (m->muted)\n\t\treturn m->active ? INFERENCE_HOLD : INFERENCE_GROW;"),
    ("phase one tick long", "inference.h", "now_us < m->until_us", "now_us <= m->until_us"),
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
    ("the last RTT, not the smallest", "gentle_start.h", "law_min(g->base_us, rtt_us)", "rtt_us"),
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
    ("D_loss is always believed", "backlog.h", "if (loss_us <= p->floor_us &&", "if (0 &&"),
    ("D_loss in the noise is never believed", "backlog.h", "backlog_delay(b, b->most_us) > p->floor_us)", "1)"),
    ("no foreground ratio", "backlog.h", "(BACKLOG_ONE - b->foreground) >>", "BACKLOG_ONE >>"),
    ("no congestion level", "backlog.h", "(u64)p->most * (BACKLOG_ONE - near) *", "(u64)p->most * BACKLOG_ONE *"),
    ("ratio above 1", "backlog.h", "part >= whole ? BACKLOG_ONE : part", "!whole ? BACKLOG_ONE : part"),
    ("nothing of nothing is all", "backlog.h", "\tif (!part)\n\t\treturn 0;\n\treturn part >=", "\treturn part >="),
    ("noise counts", "backlog.h", "\tif (delay_us <= backlog_noise(b, p))\n\t\treturn false;\n", ""),
    ("noise as large as D_loss", "backlog.h", "law_min(p->floor_us, loss_us / 2)", "law_min(p->floor_us, loss_us)"),
    ("the larger one of two RTTs", "backlog.h", "rtt_us : law_min(rtt_us, last_us);", "rtt_us : law_max(rtt_us, last_us);"),
    ("one sample counts", "backlog.h", "if (!last_us && !sparse && !alone)", "if (0)"),
    ("sparse ACKs need two", "backlog.h", "b->rtt_us = sparse || alone ?", "b->rtt_us = alone ?"),
    ("a packet alone counts", "backlog.h", "\tif (alone && rtt_us >= b->rtt_us)\n\t\treturn false;\n", ""),
    ("a packet alone never counts", "backlog.h", "if (alone && rtt_us >= b->rtt_us)", "if (alone)"),
    ("RTTs not cut", "backlog.h", "\trtt_us = law_min(rtt_us, BACKLOG_RTT_MAX_US);\n", ""),
    ("no RTT is one of 0", "backlog.h", "\tif (!rtt_us)\n\t\treturn false;\n", ""),
    ("RTT_min for ever", "backlog.h", "\taged_turn(&b->rtt, AGED_NO_MIN);\n", ""),
    ("RTT_min half as long", "backlog.h", "memory_s * KIUS_PER_S / 2", "memory_s * KIUS_PER_S / 4"),
    ("the ratio keeps the old base", "backlog.h", "\tif (law_unlikely(aged_min(&b->rtt) != base_was))\n\t\tbacklog_learn_foreground(b);\n", ""),
    ("chance tells of a buffer", "backlog.h", "b->rtt_us && b->rtt_us >= b->most_us", "b->rtt_us"),
    ("D_min is the last", "backlog.h", "!b->low_us || rtt_us < b->low_us", "true"),
    ("D_max is the last", "backlog.h", "if (rtt_us > b->high_us)", "if (1)"),
    ("a cycle goes on", "backlog.h", "\tb->low_us = 0;\n\tb->high_us = 0;\n\tbacklog_learn_foreground(b);", "\tbacklog_learn_foreground(b);"),
    ("D_max by another gain", "backlog.h", "b->most_us = backlog_average(b->most_us, b->high_us, p->averaging)", "b->most_us = backlog_average(b->most_us, b->high_us, 1)"),
    ("D_loss by another gain", "backlog.h", "backlog_average(b->loss_us, b->rtt_us, p->averaging)", "backlog_average(b->loss_us, b->rtt_us, p->averaging + 1)"),
    ("averages begin at 0", "backlog.h", "return v ? law_ewma(v, sample, n) : sample;", "return law_ewma(v, sample, n);"),
    ("rebase leaves the ratio", "backlog.h", "+ rise_us));\n\tbacklog_learn_foreground(b);", "+ rise_us));"),
    ("no mute after a reduction", "backlog.h", "\tbacklog_mute(b, snd_nxt);\n\tif (!b->low_us)", "\tif (!b->low_us)"),
    ("no mute after a loss", "backlog.h", "\tbacklog_mute(b, snd_nxt);\n\tif (b->rtt_us &&", "\tif (b->rtt_us &&"),
    ("the mute ends one ACK early", "backlog.h", "b->muted && law_after(snd_una, b->muted_until)", "b->muted && !law_after(b->muted_until, snd_una)"),
    ("the pipe of the threshold", "backlog.h", "return window * base_us / b->rtt_us;", "return window * base_us / (b->rtt_us + 1);"),
    ("windows not cut", "backlog.h", "#define BACKLOG_WINDOW_MAX (1u << 26)", "#define BACKLOG_WINDOW_MAX (1u << 31)"),
    ("full without a margin", "backlog.h", "delay_us > loss_us + loss_us / 8 ?", "delay_us > loss_us ?"),
    ("full whatever the losses said", "backlog.h", "delay_us > loss_us + loss_us / 8 ? ~0u : loss_us", "loss_us"),
    ("idle keeps the last RTT", "backlog.h", "LAW void backlog_restart(struct backlog *b)\n{\n\tb->last_us = 0;", "LAW void backlog_restart(struct backlog *b)\n{\n\t(void)b;"),
    ("the limit forgets the queue's own part", "backlog.h", "/ (all - threshold)", "/ all"),
    ("reno at a random loss", "westwood.h", "to = law_min(cwnd, pipe);", "to = law_min(half, pipe);"),
    ("no half at the least", "westwood.h", "law_min(to, law_max(delivered, half))", "delivered"),
    ("the delivered not asked", "westwood.h", "if (delivered < to)", "if (0)"),
    ("a mark is chance", "westwood.h", "if (no_chance)", "if (0)"),
    ("ssthresh of 1", "westwood.h", "WESTWOOD_LEAST 2", "WESTWOOD_LEAST 1"),
    ("slow start down to half", "westwood.h", "to = slow_start ? delivered", "to = 0 ? delivered"),
    ("a round of no time", "westwood.h", "if (!base_us || !w->elapsed_us)", "if (!base_us)"),
    ("rounds do not end", "westwood.h", "if (law_likely(!law_after(snd_una, w->round_end)))", "if (1)"),
    ("rounds end with each ACK", "westwood.h", "if (law_likely(!law_after(snd_una, w->round_end)))", "if (0)"),
    ("a growing window is behind", "westwood.h", "w->elapsed_us + WESTWOOD_BEHIND", "w->elapsed_us"),
    ("delivered per round", "westwood.h", "(u64)w->packets * base_us", "(u64)w->packets * w->elapsed_us"),
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
    ("proecn: ECE without ECN", "proecn.h", "\tif (!c->ecn)\n\t\treturn n;\n", ""),
    ("proecn: a run of marks that ended", "proecn.h", "\t\t\tknee = n;\n\t\telse if (knee == n)", "\t\t\t;\n\t\telse if (knee == n)"),
    ("proecn: no pile", "proecn.h", "(knee - k) * burst - PROECN_PILE)", "(knee - k) * burst)"),
    ("proecn: F of 2", "proecn.h", "PROECN_FALL_NUM 3", "PROECN_FALL_NUM 4"),
    ("proecn: L of 3", "proecn.h", "PROECN_EXCURSION 5", "PROECN_EXCURSION 3"),
    ("proecn: half a chirp will do", "proecn.h", "have * 4 >= n * 3", "have * 4 >= n * 2"),
    ("proecn: without the last step", "proecn.h", "proecn_has(c->sampled, n - 1) && c->min_kbps", "c->min_kbps"),
    ("proecn: no bound", "proecn.h", "\tif (kbps > far)\n\t\tkbps = far;\n", ""),
    ("proecn: less than nothing is nothing", "proecn.h", "negative ? -(s32)kbps : (s32)kbps", "negative ? 0 : (s32)kbps"),
    ("proecn: direct without the queue", "proecn.h", "stayed = law_forget(stayed);", "stayed = 0;"),
    ("proecn: above the capacity", "proecn.h", "kbps > 0 && (u32)kbps > most ? (s32)most : kbps", "(void)most, kbps"),
    ("proecn: pairs rise at once", "proecn.h", "\t\telse if (sample > most)\n\t\t\tsample = most;\n", ""),
    ("proecn: an eighth", "proecn.h", "PROECN_GAIN 16", "PROECN_GAIN 8"),
    ("proecn: carried keeps the old average's weight", "proecn.h", "LAW_S32_MAX);\n\t\tp->have = PROECN_MEMORY;\n\t\tproecn_follow", "LAW_S32_MAX);\n\t\tproecn_follow"),
    ("proecn: carried leaves the range", "proecn.h", "p->have = PROECN_MEMORY;\n\t\tproecn_follow(p, par);", "p->have = PROECN_MEMORY;"),
    ("proecn: any pair", "proecn.h", " && proecn_queued(c)) {", ") {"),
    ("proecn: congestion keeps the estimate", "proecn.h", "\tp->bw_kbps = 0;\n\tp->have = law_min(", "\tp->have = law_min("),
    ("proecn: congestion refutes nothing", "proecn.h", "\t\tp->avg_kbps = kbps;\n}", "\t\tp->avg_kbps += 0;\n}"),
    ("proecn: one estimate lifts it as far as it says", "proecn.h", "\t\tstep = base_kbps / 2;", "\t\tstep += 0;"),
    ("proecn: the first one is held, too", "proecn.h", "p->have > 1 && step", "p->have && step"),
    ("proecn: congestion weighs nothing", "proecn.h", "\tp->have = law_min(p->have, PROECN_MEMORY);\n", ""),
    ("proecn: the search goes on for ever", "proecn.h", "p->searching && max_kbps < par->ceiling_kbps &&", "p->searching &&"),
    ("proecn: a search's steps stay", "proecn.h", "chirp_steps(steps) * 2, chirp_steps(par->steps)", "chirp_steps(steps), chirp_steps(par->steps)"),
    ("proecn: no ceiling", "proecn.h", "\tif (max_kbps > par->ceiling_kbps)\n\t\tmin_kbps", "\tif (0 * max_kbps)\n\t\tmin_kbps"),
    ("proecn: not lifted", "proecn.h", "\t\tp->avg_kbps = kbps;\n", "\t\t;\n"),
    ("proecn: a bound is averaged", "proecn.h", "\t\t\tp->have = 0;\n\t\tp->avg", "\t\t\tp->have += 0;\n\t\tp->avg"),
    ("proecn: lifted above the capacity", "proecn.h", "\t\tkbps = c->capacity_kbps;\n", "\t\tkbps += 0;\n"),
    ("proecn: 0 below the floor itself", "proecn.h", "avg_kbps * 4ull < floor_kbps * 3ull", "avg_kbps * 4ull < floor_kbps * 4ull"),
    ("proecn: pause of half a mean", "proecn.h", "LAW_S32_MAX) * 2 * random >> 32", "LAW_S32_MAX) * 1 * random >> 32"),
    ("proecn: r_avg not lifted", "proecn.h", "PROECN_LIFT 2", "PROECN_LIFT 1"),
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


def path_of(header):
    return Path("include", "law" if (ROOT / "include/law" / header).exists() else "ccbpf", header)


def killed_by(mutant):
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
        text = victim.read_text()
        assert text.count(old) == 1, f"{header} has {old!r} {text.count(old)} times: bring the list of mutants up to date"
        victim.write_text(text.replace(old, new))
        subprocess.run(["make", "-s", "build/tests/liblaws.so", "WARN=-w"], cwd=tree, check=True,
                       stdout=subprocess.DEVNULL)  # it is C, at least
        run = subprocess.run([sys.executable, "-m", "pytest", "tests/unit", "-q", "-x", "-p", "no:cacheprovider", "-o", "addopts=",
                              "--ignore=tests/unit/test_readme.py"],
                             cwd=tree, capture_output=True, text=True, env={**os.environ, "MAKEFLAGS": "WARN=-w"})
    if run.returncode == 0:
        return None
    failed = [line for line in run.stdout.splitlines() if line.startswith(("FAILED", "ERROR"))]
    return failed[0].split(" - ")[0].split("::", 1)[-1] if failed else run.stdout[-300:]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("-j", "--jobs", type=int, default=1)
    parser.add_argument("words", nargs="*")
    arguments = parser.parse_args()
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

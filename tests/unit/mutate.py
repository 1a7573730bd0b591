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
    ("precision 64", "delay.h", "DELAY_CLOCK_PRECISION 128", "DELAY_CLOCK_PRECISION 64"),
    ("1024 Hz unknown", "delay.h", "1953125, 976562 }", "1953125 }"),
    ("10 ms unknown", "delay.h", "1000, 10000000,", "1000,"),
    ("snap takes anything", "delay.h", "off < best_off && off <= (elapsed_ns >> 6) + in_use_ns[i]", "off < best_off"),
    ("tick of the first window kept for ever", "delay.h", "\tdelay_set_tick(d, tick_ns);\n", "\tif (!d->tick_ns)\n\t\tdelay_set_tick(d, tick_ns);\n"),
    ("anchor moved without its delay", "delay.h", "aged_min(&d->owd) == AGED_NO_MIN ? 0 : owd_ns", "0 * owd_ns"),
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
    ("seven samples do", "gentle_start.h", "GENTLE_SAMPLES 8", "GENTLE_SAMPLES 7"),
    ("limit without its bounds", "gentle_start.h", "law_clamp(g->last_min_us >> GENTLE_RISE_SHIFT,\n\t\t\t\t\t  GENTLE_RISE_MIN_US,\n\t\t\t\t\t  GENTLE_RISE_MAX_US)",
     "(g->last_min_us >> GENTLE_RISE_SHIFT)"),
    ("rounds do not end", "gentle_start.h", "!g->begun || law_after(snd_una, g->round_end)", "!g->begun"),
    ("rounds end at their last packet", "gentle_start.h", "law_after(snd_una, g->round_end)", "!law_after(g->round_end, snd_una)"),
    ("the round's last RTT, not the smallest", "gentle_start.h", "law_min(g->round_min_us, rtt_us)", "rtt_us"),
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
    ("the coefficients have no end", "highspeed.h", "law_min(w, HIGHSPEED_TOP)", "w"),
    ("W_high 100 000", "highspeed.h", "HIGHSPEED_LOG_SPAN 726984u", "HIGHSPEED_LOG_SPAN 744601u"),
    ("b falls to 0", "highspeed.h", "highspeed_level(w) * 2 / 5", "highspeed_level(w) / 2"),
    ("c begins at b", "highspeed.h", "HIGHSPEED_C_LOW_Q16 63811u", "HIGHSPEED_C_LOW_Q16 32768u"),
    ("c ends at 0", "highspeed.h", "HIGHSPEED_B_HIGH_Q16 6554u", "HIGHSPEED_B_HIGH_Q16 0u"),
    ("c below b", "highspeed.h", "if (level >= HIGHSPEED_Q16)", "if (level >= 2 * HIGHSPEED_Q16)"),
    ("L below 0", "highspeed.h", "log < HIGHSPEED_LOG_LOW ? 0 : log - HIGHSPEED_LOG_LOW",
     "log < HIGHSPEED_LOG_LOW ? HIGHSPEED_LOG_LOW - log : log - HIGHSPEED_LOG_LOW"),
    ("first_half does nothing", "highspeed.h", "first_half ? HIGHSPEED_HALF_Q16 : highspeed_decrease(w)", "highspeed_decrease(w)"),
    ("always first_half", "highspeed.h", "first_half ? HIGHSPEED_HALF_Q16 : highspeed_decrease(w)", "HIGHSPEED_HALF_Q16"),
    ("the second takes what the first takes", "highspeed.h", "verdict != INFERENCE_TO_ONE", "true"),
    ("a cut leaves nothing", "highspeed.h", "law_max(highspeed_left(w, part), 1)", "highspeed_left(w, part)"),
    ("a cut in 32 bits", "highspeed.h", "(u64)w * (HIGHSPEED_Q16 - part)", "w * (HIGHSPEED_Q16 - part)"),
    ("a loss takes c", "highspeed.h", "highspeed_left(w, highspeed_decrease(w)), 2)", "highspeed_left(w, highspeed_second(w)), 2)"),
    ("a loss leaves one packet", "highspeed.h", "highspeed_left(w, highspeed_decrease(w)), 2)", "highspeed_left(w, highspeed_decrease(w)), 1)"),
    ("a default out of range", "params.h", "10, 900, 150,", "10, 100, 150,"),
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

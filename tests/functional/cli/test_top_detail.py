# SPDX-License-Identifier: GPL-2.0-only
"""ccbpf top: the detail of a flow, and the flows that have ended."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time

import pytest

from tests.functional import kernel
from tests.functional.cli.test_flows import lines_of
from tests.functional.conftest import Cli
from tests.functional.tmux import Tmux
from tests.functional.top import ENDED, NO_COOKIE, put, remove, rows, shown

UTF8 = {"LC_ALL": "C.UTF-8"}


def detail(screen: Tmux, remote: str, what: str = "the detail") -> list[str]:
    return screen.until(lambda lines: re.match(rf"\w+: \S+ to {re.escape(remote)}(,|$| )", lines[0]), what)


def resized(screen: Tmux, height: int) -> list[str]:
    return screen.until(lambda lines: len(lines) == height and "CWND" in "".join(lines[2:5]), "the new size")


# --- the detail ---


@pytest.mark.parametrize(("locale", "low", "middle", "high"), [("C.UTF-8", "▂", "▅", "█"), ("C", r"\.", "=", "#")])
def test_curves(watching: Cli, flows: kernel.Map, locale: str, low: str, middle: str, high: str) -> None:
    put(flows, 1, cwnd=10, delay_smoothed_us=4000, delay_threshold_us=6000)
    with shown(watching, 80, 24, LC_ALL=locale) as screen:
        screen.keys("Down", "Enter")
        lines = detail(screen, "192.0.2.1:1")
        assert lines[1].split("   ")[0] == "Enter or Esc: the list"
        screen.until(
            lambda lines: re.search(rf"^  window  {high}{{2,}}  10, at most 10 packets$", "\n".join(lines), re.M), "a curve"
        )
        put(flows, 1, cwnd=80, delay_smoothed_us=8000, delay_threshold_us=6000, bytes_acked=10_000_000)
        lines = screen.until(lambda lines: re.search(rf"^  window +{low}+{high}{{2,}}  ", "\n".join(lines), re.M), "it rises")
        (window,) = [line for line in lines if line.startswith("  window  ")]
        assert re.fullmatch(rf"  window  ({low}+{high}+)  80, at most 80 packets", window)
        (delay,) = [line for line in lines if line.startswith("  delay  ")]
        assert re.fullmatch(rf"  delay   {middle}+{high}+  8\.0, at most 8\.0 ms", delay)
        (rate,) = [line for line in lines if line.startswith("  rate  ")]  # 80 Mbit in a period of about 0.25 s, then none
        assert (found := re.fullmatch(r"  rate    (\S+)  0, at most (\d+)M bit/s", rate)), rate
        assert 150 < int(found[2]) < 500 and len(re.findall(high, found[1])) == 1 and not re.search(rf"{high}$", found[1])
        assert len(window.split()[1]) == len(delay.split()[1]) == len(rate.split()[1])
        (periods,) = re.findall(r"the last (\d+) periods of 0.25 s", "\n".join(lines))
        assert int(periods) == len(rate.split()[1])


def test_it_says_all_that_flows_says(watching: Cli, flows: kernel.Map) -> None:
    put(flows, NO_COOKIE, remote="192.0.2.1", remote_port=1,
        kind=kernel.KINDS["nf_tcp"], controller=b"nf_tcp", cwnd=31, srtt_us=40_100, rtt_us=41_300, rate_bps=18_400_000,
        bytes_acked=12_300_000, delay_smoothed_us=4000, delay_threshold_us=8000, indications=11, losses=22, marks=33,
        retransmits=44, phase=2, delay_source=2, started_ns=time.monotonic_ns() - 65 * 10**9)  # fmt: skip
    notes = [line.strip() for line in watching("-v", "flows").out.splitlines()[2:4]]
    with shown(watching, 80, 24, **UTF8) as screen:
        screen.keys("Down", "Enter")
        lines = detail(screen, "192.0.2.1:1")
        assert lines[0].startswith("nf_tcp: 192.0.2.251:40000 to 192.0.2.1:1") and max(map(len, lines)) <= 80
        said = " ".join(" ".join(lines).split())
        for words in ("CWND 31", "SRTT ms 40.1", "DELAY ms 4.0/8.0", "PHASE inference", "YIELD mark", "AGE 6", "INDIC 11", "LOSSES 22",
                      "MARKS 33", "RETRANS 44", "12.3 MB acknowledged; last round trip 41.3 ms, delivery rate 18.4M bit/s", *notes,
                      "rule or run, cgroup and process: unknown"):  # fmt: skip
            assert words in said, words
        assert len(notes) == 2 and notes[1].startswith("met: 11 indications")


def test_a_long_history(watching: Cli, flows: kernel.Map) -> None:
    """60 periods are kept, and as many are shown as fit."""
    put(flows, 1, cwnd=99)
    with Tmux([str(watching.command), "top", "--watch", "0.05"], 200, 60, watching.env() | UTF8) as screen:
        screen.until(lambda lines: "192.0.2.1:1" in "".join(lines), "the flow")
        screen.keys("Down", "Enter")
        screen.until(lambda lines: f"  window  {'█' * 60}  99" in "\n".join(lines), "a full history")
        put(flows, 1, cwnd=33)
        lines = screen.until(lambda lines: "".join(lines).count("▃") >= 5, "a step")
        (curve,) = [line.split()[1] for line in lines if line.startswith("  window  ")]
        assert re.fullmatch(r"█+▃+", curve) and len(curve) == 60
        lines = screen.until(
            lambda lines: f"  window  {'█' * 60}  33, at most 33" in "\n".join(lines), "what is older is forgotten"
        )
        assert "the last 60 periods of 0.05 s" in "\n".join(lines)


def test_resize_and_keys_in_the_detail(watching: Cli, flows: kernel.Map) -> None:
    for key in (1, 2, 3):
        put(flows, key, cwnd=10 * key)
    with shown(watching, 80, 24, "--sort", "age", **UTF8) as screen:
        screen.keys("Down", "Enter")
        detail(screen, "192.0.2.1:1")
        for width, height in ((200, 60), (40, 10), (100, 30), (80, 24)):
            screen.resize(width, height)
            lines = resized(screen, height)
            assert max(map(len, lines)) <= width and lines[0].startswith("tcp_lp: 192.0.2.251:40000 to ")
        screen.keys("k")
        screen.keys("j")
        detail(screen, "192.0.2.2:2")
        screen.keys("Down", "Down")  # the last flow: the second has no effect
        detail(screen, "192.0.2.3:3")
        screen.keys("Up")
        detail(screen, "192.0.2.2:2")
        screen.keys("p")
        screen.until(lambda lines: "PAUSED" in lines[1], "it pauses")
        screen.keys("?")
        screen.until(lambda lines: "Any key goes back." in "".join(lines), "the help")
        screen.keys("x", "p", "s", "a", "g", "/")  # the last four are keys of the list
        screen.until(lambda lines: "PAUSED" not in lines[1], "it goes on")
        detail(screen, "192.0.2.2:2")
        screen.keys("Escape")
        lines = screen.until(lambda lines: lines[0].startswith("ccbpf top: 3 flows"), "the list")
        assert lines[1].startswith("grouped by controller, sorted by age") and rows(lines) == [
            "tcp_lp",
            "192.0.2.1",
            "192.0.2.2",
            "192.0.2.3",
        ]
        screen.keys("Enter")  # the cursor has followed
        detail(screen, "192.0.2.2:2")
        screen.keys("q")
        assert screen.ended() == 0


# --- flows that have ended ---


def test_a_flow_that_ends_in_its_detail_stays_there(watching: Cli, flows: kernel.Map) -> None:
    put(flows, 1, cwnd=77, bytes_acked=5_000_000, phase=3, life={"yielded_ns": 2**60})
    put(flows, 2)
    with shown(watching, 80, 24, "--sort", "age", **UTF8) as screen:
        screen.keys("Down", "Enter")
        screen.until(lambda lines: "77, at most 77 packets" in "\n".join(lines), "a period")
        remove(flows, 1)
        screen.until(lambda lines: re.search(r"192\.0\.2\.1:1, ended 5 s ago", lines[0]), "it has ended")
        lines = screen.until(lambda lines: re.search(r"192\.0\.2\.1:1, ended 1[1-9] s ago", lines[0]), "it is shown for longer")
        said = " ".join(" ".join(lines).split())
        assert "YIELD FOR PART 100%" in said and "BIT/S 0" in said  # it yields no more
        assert "77, at most 77 packets" in "\n".join(lines) and "5.00 MB acknowledged" in "\n".join(lines)
        screen.keys("Escape")
        lines = screen.until(
            lambda lines: rows(lines) == ["tcp_lp", "192.0.2.2"] and "192.0.2.1:1" not in "".join(lines), "it goes"
        )
        assert lines[0] == "ccbpf top: 1 flow, 0 bit/s, 0 yield"
        screen.keys("q")
        assert screen.ended() == 0


def test_a_flow_that_has_ended_is_shown_for_a_while_and_is_in_no_sum(watching: Cli, flows: kernel.Map) -> None:
    started_ns = time.monotonic_ns() - 30 * 10**9
    more = {"started_ns": started_ns, "losses": 3, "phase": 3}
    put(flows, 1, cwnd=10)
    put(flows, 2, **more)
    with shown(watching, 80, 24, "--sort", "rate") as screen:
        screen.until(lambda lines: "2 flows" in lines[0] and "1 yields" in lines[0], "both")
        put(flows, 2, bytes_acked=12_300_000, **more)
        screen.until(lambda lines: re.search(r"\d\dM bit/s", lines[0]), "its rate")
        remove(flows, 2)
        lines = screen.until(lambda lines: ENDED.search("".join(lines)), "it has ended")
        assert lines[0] == "ccbpf top: 1 flow, 0 bit/s, 0 yield, 1 ended"
        assert lines[3] == "- tcp_lp: 1 flow, 0 bit/s, 0 yield, 1 ended"
        assert rows(lines) == ["tcp_lp", "192.0.2.1"]
        assert re.fullmatch(r"  192\.0\.2\.2:2 +ended [01] s ago: 12\.3 MB in 3\ds, yielded \d+%", lines[5]), lines[5]
        assert re.search(r"\x1b\[(\d;)*2m[^\x1b]*192\.0\.2\.2", screen.lines(styles=True)[5])  # dimmed
        put(flows, 2, cwnd=5)  # the same address of a socket, another flow
        lines = screen.until(lambda lines: "2 flows" in lines[0], "another flow")
        assert lines[0].endswith(", 1 ended") and len([line for line in lines if "192.0.2.2:2" in line]) == 2
        screen.until(lambda lines: "ended 9 s ago" in "".join(lines), "it is shown for 10 s")
        lines = screen.until(lambda lines: not ENDED.search("".join(lines)), "it is forgotten")
        assert lines[0] == "ccbpf top: 2 flows, 0 bit/s, 0 yield" and len([line for line in lines if "192.0.2.2:2" in line]) == 1


def test_a_frozen_order_and_a_wide_screen(watching: Cli, flows: kernel.Map) -> None:
    for key in (1, 2, 3):
        put(flows, key, retransmits=4, marks=2, indications=5, losses=1)
    with shown(watching, 200, 60, "--sort", "age") as screen:
        screen.keys("f")
        screen.until(lambda lines: "FROZEN" in lines[1], "the order is frozen")
        remove(flows, 1)
        lines = screen.until(lambda lines: ENDED.search("".join(lines)), "it has ended")
        assert re.fullmatch(r"  192\.0\.2\.251:40000 +192\.0\.2\.1:1 +ended \d s ago: 0 bytes in \d.*, yielded \d+%, losses 1, marks 2, "
                            r"indications 5, retransmits 4", lines[4]), lines[4]  # fmt: skip
        screen.keys("f")
        screen.until(lambda lines: ENDED.search(lines[6]), "it comes last")


def test_batches_have_live_flows_alone(watching: Cli, flows: kernel.Map) -> None:
    put(flows, 1)
    put(flows, 2)
    process = watching.popen("top", "-b", "-j", "--watch", "0.1", stdout=subprocess.PIPE)
    try:
        batch = json.loads(lines_of(process, 1)[0])
        assert set(batch) == {"time_ns", "controllers", "flows"} and [f["key"] for f in batch["flows"]] == [1, 2]
        remove(flows, 1)
        time.sleep(0.2)
        batch = json.loads(lines_of(process, 3)[-1])
        assert [f["key"] for f in batch["flows"]] == [2] and batch["controllers"][0]["n_flows"] == 1
        assert "ended" not in json.dumps(batch)
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=10)

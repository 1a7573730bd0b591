# SPDX-License-Identifier: GPL-2.0-only
"""struct delay with a Python face: what a controller sees of it, in us."""

TICKS_NS = {  # true length of a peer's tick: what the law shall learn
    1_000: 1_000,  # Linux with microsecond timestamps
    1_000_000_000 / 1024: 976_562,
    1_000_000: 1_000_000,  # Linux
    1_000_000_000 / 512: 1_953_125,
    4_000_000: 4_000_000,
    10_000_000: 10_000_000,
}
OUR_TICKS_NS = [1_000, 1_000_000]


class Estimator:
    def __init__(self, ffi, law, c, delta=150, smoothing=8, memory_s=180, floor_us=500, least=1):
        self.law, self.c = law, c
        self.state = ffi.new("struct delay *")
        self.params = ffi.new("struct delay_params *", dict(delta=delta, smoothing=smoothing, memory_s=memory_s,
                                                            floor_us=floor_us, least=least))
        self.input = ffi.new("struct delay_ack *")
        law.delay_init(self.state)

    def ack(self, now_us, rtt_us, tsval=0, tsecr=0, our_tick_ns=0, lone=False, half=False):
        a = self.input
        a.now_us, a.rtt_us, a.tsval, a.tsecr, a.our_tick_ns = now_us, rtt_us, tsval, tsecr, our_tick_ns
        a.lone, a.half = lone, half
        return self.law.delay_sample(self.state, a, self.params)

    def feed(self, ack):
        """One ACK of path.py's with its timestamps."""
        return self.ack(ack.now_us, ack.rtt_us, ack.tsval, ack.tsecr, int(ack.our_tick_ns), ack.lone)

    def restart(self):
        self.law.delay_restart(self.state)

    @property
    def base(self):
        return min(self.state.rtt.now, self.state.rtt.before)

    @property
    def tick_ns(self):
        return self.state.tick_ns

    @property
    def queue_max(self):
        return self.law.delay_queue_max(self.state)

    @property
    def smoothed(self):
        """us with its fraction, or None"""
        value = self.state.smoothed_q8
        return None if value == self.c.DELAY_NOT_SMOOTHED else value / self.c.DELAY_SMOOTHED_UNIT

    @property
    def threshold(self):
        return self.law.delay_threshold(self.state, self.params)

    @property
    def indicates(self):
        return self.law.delay_indicates(self.state, self.params)

    def check(self, queue_us, rtt_us):
        """What holds whatever came in."""
        assert 0 <= queue_us <= min(rtt_us, self.c.DELAY_MAX_US)
        if rtt_us:
            assert queue_us <= min(rtt_us, self.c.DELAY_MAX_US) - self.base, "above the RTT's queueing delay"
        assert 0 <= self.threshold <= self.queue_max <= self.c.DELAY_MAX_US
        assert self.smoothed is None or self.smoothed <= self.queue_max
        assert self.smoothed is not None or not self.indicates
        assert self.tick_ns in (0, *TICKS_NS.values())

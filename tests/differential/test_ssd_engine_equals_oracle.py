"""The engine of drives against its slow twin: every count and time, exactly, on small drives drawn at random."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.lab.instorage.flash.input import EngineConsumer, EngineInput, EngineTraffic
from penstock.scheme.play.engine import _engine
from twins.drive import Oracle
from twins.drive_parts import Kind

TIMES = st.one_of(st.integers(0, 12), st.integers(0, 30_000))
"""Small ones make ties, which are where an order could be wrong."""


@st.composite
def consumer(draw: st.DrawFn, channels: list[int]) -> EngineConsumer:
    chunk = draw(st.integers(1, 6))
    return EngineConsumer(
        channels=channels,
        chunk_pages=chunk,
        buffer_pages=chunk + draw(st.integers(0, 12)),
        serve=draw(TIMES),
        dram=draw(TIMES),
        edram=draw(TIMES),
        upload=draw(TIMES),
        final_upload=draw(TIMES),
    )


@st.composite
def inputs(draw: st.DrawFn) -> EngineInput:
    channels, planes = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    chips, dies = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    capacity = channels * chips * dies * planes * 5 * 8
    first = draw(st.integers(0, 20))
    pages = draw(st.integers(0, min(capacity - first, 400)))
    where = draw(st.sampled_from(["none", "host", "host consumer", "drive"]))
    groups = draw(st.integers(1, channels))
    random = draw(st.booleans()) and pages > 0
    reads = EngineTraffic()
    if pages == 0 or draw(st.booleans()):
        reads = EngineTraffic(
            interval=draw(st.integers(1_000, 30_000)),
            span_pages=draw(st.integers(1, capacity)),
            requests=draw(st.integers(1, 60)) if pages == 0 else draw(st.integers(0, 60)),
            seed=draw(st.integers(0, 9)),
        )
    return EngineInput(
        channels=channels,
        chips_per_channel=chips,
        dies_per_chip=dies,
        planes_per_die=planes,
        blocks_per_plane=6,
        pages_per_block=8,
        spare_blocks=1,
        order=draw(st.sampled_from(["pcwd", "cwdp", "wdpc", "dpcw"])),
        read_command=draw(TIMES),
        further_plane=draw(TIMES),
        sense=draw(TIMES),
        data_out=draw(TIMES),
        program_command=0,
        data_in=draw(TIMES),
        program=0,
        erase_command=0,
        erase=0,
        correction=draw(st.one_of(st.just(0), TIMES)),
        dram=draw(TIMES),
        upload=draw(TIMES),
        download=0,
        convoy=draw(st.booleans()),
        multi_plane=draw(st.booleans()),
        cache_read=draw(st.booleans()),
        retry=draw(st.sampled_from([0, 0, 2**62, 2**64 - 1])),
        max_retries=draw(st.integers(0, 3)),
        host_buffer_pages=draw(st.integers(1, 12)),
        first_page=first,
        pages=pages,
        random_span=draw(st.integers(1, capacity - first)) if random else 0,
        queue_depth=draw(st.integers(1, 60)),
        seed=draw(st.integers(0, 9)),
        to_host=where.startswith("host"),
        consumers=[draw(consumer(list(range(group, channels, groups)))) for group in range(groups)]
        if where == "drive"
        else [],
        host_consumer=draw(consumer([])) if where == "host consumer" else None,
        aggregate=draw(st.one_of(st.none(), TIMES)),
        cached_pages=draw(st.sampled_from([0, 0, 1, 3])),
        entries=draw(st.integers(4, 40)),
        ahead=draw(st.booleans()),
        reads=reads,
        writes=EngineTraffic(),
        collect_below=3,
        wear_gap=0,
        jump=draw(st.booleans()),
    )


def played(given_input: EngineInput) -> Any:
    return _engine.play_drive(given_input)


@settings(suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(inputs())
def test_engine_and_twin_agree_in_every_count_and_time(given_input: EngineInput) -> None:
    expected = Oracle(given_input).play()
    got = played(given_input)
    for kind, latency in (("latencies", got.latency), ("read_latencies", got.read_latency)):
        each = expected.pop(kind)
        assert latency.count == len(each)
        assert latency.max_ps == (each[-1] if each else None)
        assert latency.mean_ps == (pytest.approx(sum(each) / len(each), rel=1e-12) if each else None)
        if each:
            # Buckets are 1/1024 of a value wide.
            assert latency.p50_ps == pytest.approx(each[-(-len(each) // 2) - 1], rel=1e-3)
            assert latency.p99_ps == pytest.approx(each[-(-len(each) * 99 // 100) - 1], rel=1e-3)
    assert {name: getattr(got, name) for name in expected} == expected


class Noting(Oracle):
    """The twin, which notes when its units are busy as it plans it."""

    def __init__(self, given_input: EngineInput) -> None:
        super().__init__(given_input)
        self.intervals: list[tuple[str, int, str, int, int, int | None]] = []

    def push(self, time: int, kind: Kind, about: Any) -> None:
        if kind is Kind.COMMANDED:
            self.intervals.append(("channel", about, "command", self.now, time, None))
        elif kind is Kind.SENSED:
            die = about[0] * self.g.chips_per_channel * self.g.dies_per_chip + about[1]
            self.intervals.append(("die", die, "sense", time - self.g.sense, time, None))
        elif kind is Kind.SENT:
            self.intervals.append(("channel", about.channel, about.what, self.now, time, about.logical))
        super().push(time, kind, about)

    def serve(self, server: str, time: int) -> int:
        end = super().serve(server, time)
        if time:
            self.intervals.append(("drive", 0, server, end - time, end, None))
        return end


@settings(suppress_health_check=[HealthCheck.too_slow], derandomize=True)
@given(inputs(), st.integers(0, 300))
def test_the_engine_s_units_are_busy_when_the_twin_s_are(given_input: EngineInput, most: int) -> None:
    twin = Noting(given_input)
    expected = twin.play()
    got = _engine.play_drive(given_input, max_intervals=10**6)
    short = _engine.play_drive(given_input, max_intervals=most)
    end = expected["scan_end_ps"] if given_input.pages else expected["end_ps"]
    until_end = [(*each[:4], min(each[4], end), each[5]) for each in twin.intervals if each[3] < end]
    first = sum(each[3] < end for each in twin.intervals[:most])
    assert (got.intervals, got.intervals_left_out) == (until_end, 0)
    assert (got.end_ps, got.events, got.jumped_events) == (expected["end_ps"], expected["events"], 0)
    assert short.intervals == until_end[:first]
    assert short.intervals_left_out == len(until_end) - first
    assert played(given_input).intervals is None


@settings(derandomize=True)
@given(inputs())
def test_jumping_changes_no_number(given_input: EngineInput) -> None:
    one, other = (played(EngineInput(**vars(given_input) | {"jump": jump})) for jump in (False, True))
    for name in dir(one):
        if name.startswith("_") or name in ("jumped_events", "period_pages"):
            continue
        got, expected = getattr(other, name), getattr(one, name)
        if name.endswith("latency"):
            got, expected = (
                [getattr(each, f) for f in ("count", "mean_ps", "p50_ps", "p99_ps", "max_ps")]
                for each in (got, expected)
            )
        assert got == expected, name


def test_a_long_scan_jumps_and_equals_the_twin() -> None:
    """Hypothesis keeps scans short; this one has a steady state."""
    long = EngineInput(
        channels=2,
        chips_per_channel=2,
        dies_per_chip=2,
        planes_per_die=2,
        blocks_per_plane=40,
        pages_per_block=16,
        spare_blocks=4,
        order="pcwd",
        read_command=29,
        further_plane=65,
        sense=3000,
        data_out=2048,
        program_command=0,
        data_in=2048,
        program=0,
        erase_command=0,
        erase=0,
        correction=100,
        dram=128,
        upload=300,
        download=0,
        convoy=False,
        multi_plane=True,
        cache_read=False,
        retry=0,
        max_retries=0,
        host_buffer_pages=8,
        first_page=3,
        pages=8000,
        random_span=0,
        queue_depth=40,
        seed=0,
        to_host=False,
        consumers=[
            EngineConsumer(
                channels=[channel],
                chunk_pages=3,
                buffer_pages=7,
                serve=7000,
                dram=700,
                edram=90,
                upload=400,
                final_upload=900,
            )
            for channel in (0, 1)
        ],
        host_consumer=None,
        aggregate=250,
        cached_pages=0,
        entries=64,
        ahead=True,
        reads=EngineTraffic(),
        writes=EngineTraffic(),
        collect_below=3,
        wear_gap=0,
        jump=True,
    )
    got, expected = played(long), Oracle(long).play()
    assert got.jumped_events > 0.8 * got.events
    latencies = expected.pop("latencies")
    expected.pop("read_latencies")
    assert got.latency.mean_ps == pytest.approx(sum(latencies) / len(latencies), rel=1e-12)
    assert {name: getattr(got, name) for name in expected} == expected

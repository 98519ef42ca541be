"""Fleets under a stream equal the slow twin run by run, with times that are exact in binary."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import UsageError
from penstock.lab.simulation.servers.fleet import Arrangement, Fleet, Loading
from penstock.lab.simulation.servers.play import play
from penstock.lab.simulation.servers.stream import Application, Stream, poisson
from support.examples import at_most
from twins import servers as twin

EIGHTHS = st.integers(0, 40).map(lambda n: n / 8)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Stream, Fleet]:
    programs = [
        Application(name=f"program {i}", run_s=draw(st.integers(1, 24)) / 8, key_bytes=draw(st.integers(1, 32)))
        for i in range(draw(st.integers(1, 3)))
    ]
    count = draw(st.integers(1, 6))
    users = tuple(programs[i % len(programs)] for i in range(count))
    runs = draw(st.lists(st.tuples(EIGHTHS, st.integers(0, count - 1)), min_size=1, max_size=40))
    stream = Stream(
        users=users,
        at_s=np.array(sorted(at for at, _ in runs)),
        user=np.array([user for _, user in runs], dtype=np.int64),
        rate_per_s=1.0,
    )
    arrangement, loading = draw(st.sampled_from(list(Arrangement))), draw(st.sampled_from(list(Loading)))
    sizes = sorted((each.key_bytes for each in users), reverse=True)
    fleet = Fleet(
        arrangement=arrangement,
        servers=count if arrangement is Arrangement.DEDICATED else draw(st.integers(1, 4)),
        loading=loading,
        memory_bytes=sum(sizes[:2]) + draw(st.integers(0, 60)),
        tier="disk",
        tier_bytes_per_s=float(draw(st.sampled_from([2, 8, 32]))),
        tier_latency_s=draw(st.sampled_from([0.0, 0.125])),
        switch_s=draw(st.sampled_from([0.0, 0.25])),
        max_overtaken=draw(st.integers(0, 5)),
    )
    return stream, fleet


@given(cases())
def test_every_run_is_the_twins(case: tuple[Stream, Fleet]) -> None:
    stream, fleet = case
    found, expected = play(stream, fleet), twin.play(stream, fleet)
    for name in ("server", "start_s", "end_s", "loaded_bytes", "stalled_s"):
        assert getattr(found, name).tolist() == [getattr(each, name) for each in expected], name
    assert found.most_overtaken == max(each.overtaken for each in expected)


def test_a_run_that_begins_at_once_leaves_room_for_the_next_claim_at_the_same_time() -> None:
    users = (Application(name="a", run_s=0.125, key_bytes=1),)
    stream = Stream(users=users, at_s=np.array([0.0, 0.0, 0.5, 0.5]), user=np.zeros(4, dtype=np.int64), rate_per_s=1.0)
    fleet = Fleet(
        arrangement=Arrangement.POOLED, servers=2, loading=Loading.AHEAD, memory_bytes=1, tier="disk",
        tier_bytes_per_s=2.0, switch_s=0.0,
    )  # fmt: skip
    assert play(stream, fleet).server.tolist() == [each.server for each in twin.play(stream, fleet)] == [0, 1, 0, 0]


@pytest.mark.parametrize("arrangement", Arrangement)
@pytest.mark.parametrize("loading", Loading)
def test_a_stream_at_random_is_the_twins_to_rounding(arrangement: Arrangement, loading: Loading) -> None:
    programs = [Application(name="a", run_s=0.3, key_bytes=700), Application(name="b", run_s=1.1, key_bytes=300)]
    stream = poisson(programs, users=5, rate_per_s=1.5, runs=80, zipf=0.8, seed=4)
    fleet = Fleet(
        arrangement=arrangement,
        servers=5 if arrangement is Arrangement.DEDICATED else 2,
        loading=loading,
        memory_bytes=1500,
        tier="disk",
        tier_bytes_per_s=1300.0,
        switch_s=0.01,
    )
    found, expected = play(stream, fleet), twin.play(stream, fleet)
    assert found.server.tolist() == [each.server for each in expected]
    assert found.end_s == pytest.approx(np.array([each.end_s for each in expected]), rel=1e-12)


@at_most(40)
@given(cases())
def test_no_server_does_two_things_and_none_rests_while_a_run_waits(case: tuple[Stream, Fleet]) -> None:
    stream, fleet = case
    found = play(stream, fleet)
    assert (found.start_s >= stream.at_s).all()
    assert found.end_s == pytest.approx(found.start_s + stream.run_s)
    for number in range(fleet.servers):
        mine = np.flatnonzero(found.server == number)
        order = mine[np.argsort(found.start_s[mine], kind="stable")]
        assert (found.start_s[order][1:] >= found.end_s[order][:-1]).all()
    # Computing and stalls of a server do not add up to more than the time until its last end.
    for number in range(fleet.servers):
        mine = found.server == number
        if mine.any():
            busy = (stream.run_s + found.stalled_s)[mine].sum()
            assert busy <= found.end_s[mine].max() + 1e-9


def test_too_small_a_memory_is_refused_with_the_least_that_works() -> None:
    stream = poisson([Application(name="a", run_s=1.0, key_bytes=700)], users=3, rate_per_s=1.0, runs=5)
    least = {(Arrangement.POOLED, Loading.WAIT): 700, (Arrangement.LOCAL, Loading.AHEAD): 1400}
    for (arrangement, loading), needed in least.items():
        made = Fleet(
            arrangement=arrangement, servers=2, loading=loading, memory_bytes=needed, tier="disk", tier_bytes_per_s=1.0
        )
        play(stream, made)
        with pytest.raises(UsageError, match=rf"\({needed} B\)"):
            play(stream, replace(made, memory_bytes=needed - 1))

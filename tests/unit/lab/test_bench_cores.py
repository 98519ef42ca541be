"""Two threads of OpenMP are bound to a core each while something is timed, and free again after it."""

from __future__ import annotations

import ctypes
import os
from pathlib import Path

import pytest

from penstock.lab.measure.bench.cores import one_core_each

pytestmark = pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may use one core only")


def of_team(size: int = 2) -> dict[int, tuple[int, set[int]]]:
    """Number of a thread of the team -> its identity and where it may run."""
    openmp = ctypes.CDLL("libgomp.so.1")
    found: dict[int, tuple[int, set[int]]] = {}

    def look(_: int | None) -> None:
        found[openmp.omp_get_thread_num()] = int(Path("/proc/thread-self").resolve().name), os.sched_getaffinity(0)

    openmp.GOMP_parallel(ctypes.CFUNCTYPE(None, ctypes.c_void_p)(look), None, size, 0)
    return found


def test_both_threads_have_a_core_of_their_own_and_only_meanwhile() -> None:
    allowed = os.sched_getaffinity(0)
    with one_core_each(2) as bound:
        assert bound
        inside = of_team()
        first, second = (cores for _, cores in inside.values())
        assert len(first) == len(second) == 1
        assert first != second
    after = of_team()
    assert {number: thread for number, (thread, _) in after.items()} == {n: t for n, (t, _) in inside.items()}
    assert [cores for _, cores in after.values()] == [allowed, allowed]


def test_they_are_free_again_after_a_failure() -> None:
    allowed = os.sched_getaffinity(0)
    with pytest.raises(ZeroDivisionError), one_core_each(2):
        _ = 1 / 0
    assert [cores for _, cores in of_team().values()] == [allowed, allowed]


@pytest.mark.parametrize("threads", [1, 3])
def test_other_numbers_of_threads_are_left_alone(threads: int) -> None:
    allowed = os.sched_getaffinity(0)
    with one_core_each(threads) as bound:
        assert not bound
        assert os.sched_getaffinity(0) == allowed

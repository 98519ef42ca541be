"""What a worker keeps for its next jobs: by bytes, those used last; each program made once."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from penstock.runtime.native.compiled import Compiled
from penstock.runtime.native.lanes import Lanes
from penstock.scheme.params import catalogue
from penstock.service.work.kept import KeptWork
from penstock.service.work.messages import WorkerSettings
from penstock.service.work.programs import WorkerProgram, evaluator_bytes

PARAMS = catalogue.get("insecure-small")
EMPTY = 100_000
"""Bytes that a program of no tasks counts."""


def program(name: str) -> WorkerProgram:
    return WorkerProgram(
        name=name,
        params=PARAMS,
        digest="",
        inputs=(),
        outputs=(),
        keys={},
        compiled=Compiled(PARAMS),
        lanes=Lanes(1, ""),
    )


def kept(most: int, **more: Any) -> KeptWork:
    return KeptWork(WorkerSettings(store=Path("none"), budget_bytes=1, kept_bytes=most, **more))


def nobody() -> None: ...


def test_programs_leave_by_bytes_and_the_longest_unused_first() -> None:
    held = kept(3 * EMPTY)
    for name in "abc":
        held.program(name, "t", lambda name=name: program(name), nobody)  # type: ignore[misc]
    assert held.known("a") is not None
    held.program("d", "t", lambda: program("d"), nobody)
    assert [name for name in "abcd" if held.known(name)] == ["a", "c", "d"]
    assert held.figures()["program_bytes"] == 3 * EMPTY


def test_a_program_that_is_larger_than_all_is_made_for_its_job_and_not_kept() -> None:
    held = kept(EMPTY - 1)
    assert held.program("a", "t", lambda: program("a"), nobody).name == "a"
    assert held.known("a") is None
    assert held.figures()["program_bytes"] == 0


def test_jobs_of_one_program_wait_for_it_and_jobs_of_others_do_not() -> None:
    held, may_end, made = kept(1 << 30), threading.Event(), []

    def slowly() -> WorkerProgram:
        made.append("a")
        assert may_end.wait(10)
        return program("a")

    found: list[WorkerProgram] = []
    threads = [threading.Thread(target=lambda: found.append(held.program("a", "t", slowly, nobody))) for _ in range(3)]
    for thread in threads:
        thread.start()
    assert held.program("b", "t", lambda: program("b"), nobody).name == "b"
    assert found == []
    may_end.set()
    for thread in threads:
        thread.join(10)
    assert made == ["a"]
    assert len({id(each) for each in found}) == 1
    assert len(found) == 3


def test_one_that_is_not_wanted_any_more_leaves_its_place_to_the_next() -> None:
    held = kept(1 << 30)

    def refused() -> WorkerProgram:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        held.program("a", "t", refused, nobody)
    assert held.program("a", "t", lambda: program("a"), nobody).name == "a"


def test_who_waits_for_a_program_is_asked_whether_to_go_on() -> None:
    held, may_end, begun = kept(1 << 30), threading.Event(), threading.Event()

    def slowly() -> WorkerProgram:
        begun.set()
        assert may_end.wait(10)
        return program("a")

    def ends() -> None:
        raise TimeoutError

    maker = threading.Thread(target=lambda: held.program("a", "t", slowly, nobody))
    maker.start()
    assert begun.wait(10)
    with pytest.raises(TimeoutError):
        held.program("a", "t", slowly, ends)
    may_end.set()
    maker.join(10)


def test_an_evaluator_is_one_jobs_at_a_time_and_waits_for_the_next_one() -> None:
    held = kept(1 << 30)
    first, second = held.take(PARAMS, 0), held.take(PARAMS, 0)
    assert first is not second
    assert held.figures()["evaluators"] == 0
    held.give(first)
    assert held.take(replace(PARAMS, scale_bits=40), 0) is not first
    assert held.take(PARAMS, 3) is not first
    assert held.take(PARAMS, 0) is first


def test_evaluators_leave_by_bytes() -> None:
    one = evaluator_bytes(PARAMS)
    held = kept(2 * one + one // 2)
    taken = [held.take(replace(PARAMS, scale_bits=50 - number), 0) for number in range(5)]
    for each in taken:
        held.give(each)
    assert held.figures()["evaluators"] == 2
    assert held.figures()["evaluator_bytes"] <= 2 * one + one // 2
    assert held.take(replace(PARAMS, scale_bits=46), 0) is taken[4]


MEASURED = """
import numpy as np
from pathlib import Path
from dataclasses import replace
from penstock.runtime.native.engine import make_context
from penstock.scheme.params import catalogue
from penstock.service.work.programs import evaluator_bytes

def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

def made(params, count):
    contexts = [make_context(replace(params, scale_bits=params.scale_bits - number)) for number in range(count)]
    for each in contexts:
        each.encode(np.zeros(params.slots, dtype=np.complex128), params.num_q, 1, params.slots)
        each.release_memory()
    return contexts

params = catalogue.get("openfhe-demo")
first = made(params, 1)
before = resident()
held = made(params, 4)
print((resident() - before) / 4, evaluator_bytes(params))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_bytes_of_an_evaluator_are_what_it_takes() -> None:
    measured, stated = measured_of(MEASURED)
    assert 0.7 * stated < measured <= stated


PROGRAMS = """
import ctypes, gc, sys
from pathlib import Path
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Verb
from penstock.program.package.file import write_package
from penstock.runtime.native.engine import make_context
from penstock.scheme.params import catalogue
from penstock.service.work.programs import compile_planned, plan_program

params, folder = catalogue.get("insecure-small"), Path(sys.argv[1])
context = make_context(params)

def compiled(operations):
    builder = PackageBuilder(ConstantsInMemory())
    x = builder.encrypt(Input("x", 8))
    for _ in range(operations):
        x = builder.add(Verb.ROTATE, [x], argument=1)
    builder.output(x, Output("y", 8))
    path = folder / f"{operations}.pkg"
    write_package(builder.finish("turns", params, ConstantsInMemory()), path)
    del builder, x
    return compile_planned(plan_program(path, 1 << 30), context, 1)

def resident():
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

kept = [compiled(30_000)]
before = resident()
kept += [compiled(30_000 + number) for number in (1, 2, 3)]
print((resident() - before) / 3, kept[-1].bytes)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_the_bytes_of_a_program_are_what_it_takes(tmp_path: Path) -> None:
    measured, stated = measured_of(PROGRAMS, str(tmp_path))
    assert 0.3 * stated < measured <= stated


def measured_of(text: str, *words: str) -> tuple[float, float]:
    """Bytes as the system and as the formula say, in a process of their own with a worker's memory pools."""
    pools = {**os.environ, "ARROW_DEFAULT_MEMORY_POOL": "system", "MALLOC_ARENA_MAX": "2"}
    ran = subprocess.run([sys.executable, "-c", text, *words], capture_output=True, text=True, check=True, env=pools)
    measured, stated = map(float, ran.stdout.split())
    return measured, stated

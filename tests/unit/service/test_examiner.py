"""Examinations of packages: turns of tenants, bounds, ends, and what the processes can see."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from faults.service_packages import parts, sealed, sections
from penstock.service.http import examine
from penstock.service.http.examine import describe
from penstock.service.http.examiner import MOST_OF_TENANT, Examiner
from penstock.service.http.verdict import WRONG, checked_verdict
from penstock.service.state.problems import Problem
from support.serve_site import eventually, long_package, package_bytes

Make = Callable[..., Examiner]


@pytest.fixture
def make() -> Iterator[Make]:
    made = []

    def examiner(seconds: float = 60.0, most_bytes: int = 4 << 30) -> Examiner:
        made.append(Examiner(most_bytes=most_bytes, seconds=seconds, key_bytes=10**9, machine="", user="nobody"))
        return made[-1]

    yield examiner
    for each in made:
        each.close()


@pytest.fixture
def package(tmp_path: Path) -> Path:
    package_bytes(tmp_path, keys=True)
    return tmp_path / "small-True.pkg"


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A package that takes longer to examine than these tests."""
    return long_package(tmp_path_factory.mktemp("long") / "long.pkg")


def children(pid: int) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if int(fields[1]) == pid and fields[0] != "Z":
                found.append(int(entry.name))
    return found


def running(examiner: Examiner) -> list[int]:
    """The children that examine now."""
    return [child for each in examiner._processes if each is not None for child in children(each.pid)]


def test_a_package_is_described_or_refused_by_a_process_that_then_ends(make: Make, package: Path) -> None:
    examiner = make()
    found = examiner.examine("a", package).result(30)["found"]
    assert [key["key"] for key in found["keys"]] == ["rot:5"]
    package.write_bytes(package.read_bytes()[:-9])
    refused = examiner.examine("a", package).result(30)["refused"]
    assert str(package) not in refused
    assert not running(examiner)


def test_a_set_whose_sizes_no_library_has_is_refused_in_words(make: Make, package: Path) -> None:
    """Its scale of 84 bits was an error of the engine once."""
    body, tables = map(bytearray, parts(package.read_bytes()))
    at, size, _ = sections(bytes(tables))["params"]
    place = tables.index(b'"scale_bits": ', at, at + size) + len(b'"scale_bits": ')
    tables[place : place + 2] = b"84"
    package.write_bytes(sealed(bytes(body), bytes(tables)))
    refused = make().examine("a", package).result(30)["refused"]
    assert "scale_bits 84 must be 14 to 59 in OpenFHE" in refused


def test_an_error_that_nobody_foresaw_is_named(package: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def breaks(*_: object) -> None:
        raise OverflowError("a word of the package")

    monkeypatch.setattr(examine, "describe", breaks)
    assert examine._verdict(package, 10**9, None) == {"broke": "OverflowError"}


def test_each_tenant_has_one_at_work_and_two_waiting_and_others_do_not_wait_for_them(
    make: Make, package: Path, endless: Path
) -> None:
    examiner = make()
    held = [examiner.examine("hostile", endless) for _ in range(MOST_OF_TENANT)]
    with pytest.raises(Problem, match="of this tenant are examined or wait"):
        examiner.examine("hostile", endless)
    for tenant in ("ann", "bob"):
        assert "found" in examiner.examine(tenant, package).result(30)
    assert not any(each.done() for each in held)


class Noted(set[str]):
    """Tenants whose packages are examined; in `order`, those that began."""

    def __init__(self, now: set[str]) -> None:
        super().__init__(now)
        self.order: list[str] = []

    def add(self, tenant: str) -> None:
        self.order.append(tenant)
        super().add(tenant)


def test_turns_go_round_the_tenants(make: Make, package: Path, endless: Path) -> None:
    examiner = make(seconds=3.0)
    examiner.start()
    blocked = [examiner.examine(tenant, endless) for tenant in ("x", "y")]
    eventually(lambda: len(running(examiner)) == 2)
    with examiner._lock:
        noted = examiner._busy = Noted(examiner._busy)
        asked = [examiner.examine(tenant, package) for tenant in ("a", "a", "a", "b", "c")]
    assert all("found" in future.result(30) for future in asked)
    for each in blocked:
        each.result(30)
    assert noted.order == ["a", "b", "c", "a", "a"]


def test_an_examination_ends_with_its_time_and_its_memory(make: Make, package: Path, endless: Path) -> None:
    examiner = make(seconds=0.5)
    assert examiner.examine("a", endless).result(30) == {"is_late": True}
    assert not running(examiner)
    said = make(most_bytes=1 << 20).examine("a", package).result(30)
    assert "memory" in said.get("refused", "memory")
    assert "found" not in said


def test_a_killed_child_is_answered_and_a_dead_process_is_started_again(
    make: Make, package: Path, endless: Path
) -> None:
    examiner = make()
    future = examiner.examine("a", endless)
    eventually(lambda: bool(running(examiner)))
    os.kill(running(examiner)[0], signal.SIGKILL)
    assert future.result(30) == {"is_late": False}
    for process in examiner._processes:
        if process is not None:
            os.kill(process.pid, signal.SIGKILL)
    assert "found" in examiner.examine("a", package).result(30)
    assert "found" in examiner.examine("b", package).result(30)


def test_a_close_ends_what_is_examined_at_once(make: Make, endless: Path) -> None:
    examiner = make()
    futures = [examiner.examine(tenant, endless) for tenant in ("a", "a", "b", "c")]
    eventually(lambda: len(running(examiner)) == 2)
    pids = running(examiner)
    begun_s = time.monotonic()
    examiner.close()
    assert time.monotonic() - begun_s < 5.0
    for future in futures:
        with pytest.raises(Problem, match="about to stop") as refused:
            future.result(0)
        assert refused.value.status == 503
    eventually(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids))
    with pytest.raises(Problem, match="about to stop"):
        examiner.examine("a", endless)


def test_children_end_with_the_process_that_started_them(make: Make, endless: Path) -> None:
    examiner = make()
    examiner.examine("a", endless)
    eventually(lambda: bool(running(examiner)))
    (child,), process = running(examiner), examiner._processes[0]
    parent = int(Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[1])
    os.kill(parent, signal.SIGKILL)
    eventually(lambda: not Path(f"/proc/{child}").exists())
    assert process is not None


def test_an_examination_sees_no_variable_and_no_descriptor_of_the_front(
    make: Make, endless: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE", "postgresql://user:secret@host/name")
    with (tmp_path / "of the front").open("w") as file:
        os.set_inheritable(file.fileno(), True)
        examiner = make()
        examiner.examine("a", endless)
        eventually(lambda: bool(running(examiner)))
        child = running(examiner)[0]
        eventually(lambda: (Path(f"/proc/{child}/fd/3")).exists())
        eventually(lambda: len(list(Path(f"/proc/{child}/fd").iterdir())) in (4, 5))
        assert b"PENSTOCK" not in Path(f"/proc/{child}/environ").read_bytes()
        opened = sorted(Path(f"/proc/{child}/fd").iterdir(), key=lambda each: int(each.name))
        targets = [str(each.readlink()) for each in opened]
    assert targets[:3] == ["/dev/null"] * 3
    assert targets[3].startswith("pipe:")
    assert set(targets[4:]) <= {str(endless)}


def changed(found: dict[str, Any], place: str, value: object) -> str:
    """A verdict with one member changed; `None` removes it."""
    copy = json.loads(json.dumps({"found": found}))
    *path, last = place.split(".")
    inner = copy
    for step in path:
        inner = inner[int(step)] if isinstance(inner, list) else inner[step]
    if value is None:
        del inner[last]
    else:
        inner[last] = value
    return json.dumps(copy)


def test_a_verdict_is_checked_before_it_becomes_a_description(package: Path) -> None:
    found = describe(package, 10**9)
    assert checked_verdict(json.dumps({"found": found}), 10**9) == {"found": found}
    assert checked_verdict('{"found": {"pro', 10**9) == checked_verdict("", 10**9) == {}
    lies = [
        changed(found, place, value)
        for place, values in {
            "found.inputs": (None, 3, [{}]),
            "found.inputs.0.limbs": (0, 10**6, -1),
            "found.predicted.seconds": (float("nan"), float("inf"), -1.0, "1"),
            "found.predicted.memory_bytes": (-1, 10**30, 0.5),
            "found.predicted.key_bytes": (0,),
            "found.keys.0.bytes": (1, 10**18),
            "found.keys.0.key": ("rot:" + "9" * 100, "nothing", "rot:5\n"),
            "found.planned_key_bytes": (1,),
            "found.output_bytes": (-5,),
            "found.params": ({}, {"ring_dim": 1 << 60}),
            "found.more": (1,),
            "refused": ("both",),
        }.items()
        for value in values
    ]
    for lie in ({"broke": "an /path"}, {"broke": "Error", "found": found}):
        lies.append(json.dumps(lie))
    assert checked_verdict('{"broke": "OverflowError"}', 10**9) == {"broke": "OverflowError"}
    lies += ["[]", "3", '{"refused": 3}', '{"is_late": true}', "null"]
    assert [checked_verdict(lie, 10**9) for lie in lies] == [{"refused": WRONG}] * len(lies)
    assert checked_verdict("[" * 10**6, 10**9) == {}

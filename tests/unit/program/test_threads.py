"""Functions called from several threads: each answers as alone, and leaves the state of the process as it was."""

from __future__ import annotations

import sys
import threading
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.program.package.capture import capture
from penstock.program.package.content import ConstantsInMemory
from penstock.program.package.file import PackageFile
from penstock.runtime.keystore import KeyStore
from penstock.scheme.params import catalogue
from support.forked import in_child

ROUNDS = 6


def in_threads(works: list[Callable[[], Any]], rounds: int = ROUNDS) -> list[list[Any]]:
    """What each returns, `rounds` times, at the same time as the others; errors are results."""
    found: list[list[Any]] = [[] for _ in works]

    def work(number: int) -> None:
        for _ in range(rounds):
            try:
                found[number].append(works[number]())
            except BaseException as error:  # the words of a failure
                found[number].append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(len(works))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return found


@pytest.fixture
def programs(tmp_path: Path) -> dict[float, Path]:
    """Programs in folders of their own, each of which has a module of the same name. Constant -> file."""
    made = {}
    for value in (1.0, 2.0, 3.0):
        folder = tmp_path / f"program-{value:g}"
        folder.mkdir()
        (folder / "helper.py").write_text(f"VALUE = {value}\n")
        made[value] = folder / "p.py"
        made[value].write_text(
            "import time\nimport numpy as np\nPARAMS = 'insecure-ci'\n"
            "def data(size, slots, seed):\n    return np.ones(4)\n"
            "def program(ev, data, size):\n    time.sleep(0.002)\n    import helper\n    print('a line')\n"
            "    return ev.decrypt(ev.add(ev.encrypt(data), helper.VALUE))[:4]\n"
        )
    return made


@pytest.mark.parametrize("reading", ["clear", "native"])
def test_programs_import_their_own_modules_and_standard_output_comes_back(
    programs: dict[float, Path], reading: str
) -> None:
    if reading == "native":
        pytest.importorskip("penstock_client")
    options = {"client": "inside"} if reading == "native" else {}
    before = sys.stdout, list(sys.path), sys.dont_write_bytecode
    found = in_threads(
        [
            lambda path=path: complex(ps.run(path, reading=reading, **options).values[0]).real
            for path in programs.values()
        ]
    )
    assert found == [[pytest.approx(1 + value, abs=1e-4)] * ROUNDS for value in programs]
    assert (sys.stdout, list(sys.path), sys.dont_write_bytecode) == before
    assert "helper" not in sys.modules


def test_a_simulation_beside_others_has_the_numbers_that_it_has_alone() -> None:
    def rows(machine: str, cache: str) -> Any:
        return ps.simulate("logistic-regression", machine=machine, size="ci", cache=cache).rows

    asked = [("sharp", "64 MiB"), ("ark", "64 MiB"), ("sharp", "128 MiB")]
    alone = [rows(*each) for each in asked]
    found = in_threads([lambda each=each: rows(*each) for each in asked])
    assert found == [[each] * ROUNDS for each in alone]


def test_a_capture_in_a_thread_leaves_the_filters_of_warnings() -> None:
    params = catalogue.get("insecure-ci")

    def program(ev: Any) -> Any:
        time.sleep(0.003)
        warnings.warn("a program's", RuntimeWarning, stacklevel=1)
        return ev.decrypt(ev.encrypt(np.ones(4), name="x"))

    before = list(warnings.filters)
    found = in_threads([lambda: len(capture(program, params, ConstantsInMemory(), "p").instructions)] * 3)
    assert found == [[found[0][0]] * ROUNDS] * 3
    assert isinstance(found[0][0], int)
    assert list(warnings.filters) == before


def test_a_child_of_a_fork_does_not_wait_for_a_program_of_another_thread(
    programs: dict[float, Path], tmp_path: Path
) -> None:
    (tmp_path / "slow.py").write_text(
        "import time\nimport numpy as np\nPARAMS = 'insecure-ci'\n"
        "def data(size, slots, seed):\n    return np.ones(4)\n"
        "def program(ev, data, size):\n    open(r'%s', 'w').close()\n    time.sleep(2)\n"
        "    return ev.decrypt(ev.encrypt(data))[:4]\n" % (tmp_path / "begun")
    )
    other = threading.Thread(target=lambda: ps.run(tmp_path / "slow.py", reading="clear"))
    other.start()
    while not (tmp_path / "begun").exists():
        time.sleep(0.01)
    begun = time.monotonic()
    assert in_child(lambda: float(ps.run(programs[2.0], reading="clear").values[0])) == 3
    assert time.monotonic() - begun < 2
    other.join()


def test_a_package_server_answers_several_threads_each_its_own(tmp_path: Path) -> None:
    client = pytest.importorskip("penstock.runtime.client")
    params = catalogue.get("insecure-ci")

    def program(ev: Any) -> Any:
        x = ev.encrypt(np.zeros(8), name="x")
        return ev.decrypt(ev.add(ev.rotate(x, 1), ev.rescale(ev.square(x))))

    with PackageFile(tmp_path / "p.pkg") as file:
        file.finish(capture(program, params, file, "p"))
    pair = client.KeyPair.generate(params, threads=2)
    pair.add_keys(KeyStore(tmp_path / "keys"), ps.package_keys(tmp_path / "p.pkg"))
    with ps.package_server(tmp_path / "p.pkg", tmp_path / "keys", threads=2, key_budget="4 MB") as server:

        def answered(value: float) -> float:
            results = server.run({"x": pair.encrypt_seeded(np.full(8, value))})
            return float(pair.decrypt(results["output[0]"], result_for="owner")[0].real)

        found = in_threads([lambda value=value: answered(value) for value in (0.25, 0.5, -1.0)])
    assert found == [[pytest.approx(value + value**2, abs=1e-3)] * ROUNDS for value in (0.25, 0.5, -1.0)]


def test_runs_with_clients_in_processes_of_their_own_pass_in_threads(programs: dict[float, Path]) -> None:
    pytest.importorskip("penstock_client")
    found = in_threads([lambda path=path: ps.run(path, client="process").passed for path in programs.values()], 1)
    assert found == [[True]] * 3

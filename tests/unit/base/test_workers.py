"""Processes that share work: what comes back, and what becomes of those that die."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from penstock.base.system import workers
from penstock.base.system.workers import Lost, Workers
from penstock.base.units import parse_bytes
from penstock.errors import PenstockError, UnknownName


def test_results_errors_and_deaths_come_back_under_the_name_of_their_task():
    others = set(multiprocessing.active_children())
    threads = set(threading.enumerate())
    with Workers[str](1, os.nice, 1) as pool:
        pool.give("nice", os.nice, 0)
        assert (pool.has_room, pool.is_busy) == (False, True)
        assert list(pool.finished()) == [("nice", os.nice(0) + 1)]
        assert (pool.has_room, pool.is_busy) == (True, False)
        pool.give("large", bytes, 1 << 20)
        assert list(pool.finished()) == [("large", bytes(1 << 20))]

        pool.give("wrong", parse_bytes, "7 parsecs")
        with pytest.raises(PenstockError, match="parsecs") as error:
            list(pool.finished())
        assert "in parse_bytes" in str(error.value.__cause__)

        (worker,) = set(multiprocessing.active_children()) - others
        pool.give("dies", os._exit, 3)
        ((task, result),) = pool.finished()
        assert task == "dies"
        assert isinstance(result, Lost)
        assert not worker.is_alive()

        pool.give("by another", os.getpid)
        ((task, result),) = pool.finished()
        (worker,) = set(multiprocessing.active_children()) - others
        assert (task, result) == ("by another", worker.pid)

        # One that dies between two tasks is found out by the next.
        os.kill(result, signal.SIGKILL)
        worker.join()
        pool.give("late", bytes, b"0" * (1 << 20))
        ((task, result),) = pool.finished()
        assert isinstance(result, Lost)
    assert set(multiprocessing.active_children()) == others
    assert set(threading.enumerate()) == threads  # nothing beside that could die


def test_an_error_that_cannot_be_made_again_says_the_same_elsewhere():
    sendable = workers._sendable
    unknown = UnknownName("tier", "hbn", ["hbm"])
    there = sendable(unknown)
    assert (str(there), there.exit_code) == (str(unknown), 2)
    panic = type("PanicException", (BaseException,), {})("index out of bounds")
    assert str(sendable(panic)) == "PanicException: index out of bounds"
    assert sendable(there) is there


def test_a_worker_without_memory_is_lost_or_says_so():
    with Workers[str](1, resource.setrlimit, resource.RLIMIT_AS, (300 << 20, 300 << 20)) as pool:
        pool.give("too much", bytes, 1 << 30)
        with pytest.raises(MemoryError):
            list(pool.finished())
        pool.give("enough", bytes, 3)
        assert list(pool.finished()) == [("enough", bytes(3))]


NO_SEMAPHORES = """
import _multiprocessing, os, sys
def refused(*_):
    raise OSError(28, os.strerror(28))
_multiprocessing.SemLock = refused
from penstock.front.cli import main
if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
"""


def test_a_sweep_needs_no_semaphores_and_nothing_in_dev_shm(tmp_path: Path) -> None:
    (tmp_path / "main.py").write_text(NO_SEMAPHORES)
    (tmp_path / "sweep.toml").write_text(
        'workload = "inner-product"\nparams = "sharp"\nmachine = ["sharp", "bts"]\ntier = "hbm"\nhit_ratio = [0, 0.5]\n'
    )
    done = subprocess.run(
        [sys.executable, "main.py", "sweep", "sweep.toml", "-o", "out", "--workers", "2", "--format", "csv", "-q"],
        cwd=tmp_path, env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    assert len(done.stdout.splitlines()) == 5

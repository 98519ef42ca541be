"""A process whose address space is small."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from types import ModuleType

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from penstock.base.system import limits
from penstock.errors import PenstockError
from penstock.program.openfhe import evaluator
from penstock.program.running import trace_workload
from penstock.scheme.traces.io import read_trace, write_trace

THREADS = """
import ctypes, json, os, resource, threading
from penstock.base.system.limits import _FRUGAL, keep_within_limit

limit = {limit}
if limit:
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
keep_within_limit()

def taken():
    return int(open("/proc/self/statm").read().split()[0]) * 4096

def allocate(barrier=threading.Barrier(4)):
    ctypes.CDLL(None).malloc(1000)
    barrier.wait()

threading.stack_size(1 << 20)
before = taken()
threads = [threading.Thread(target=allocate) for _ in range(4)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(json.dumps([taken() - before, sum(os.environ.get(name) == value for name, value in _FRUGAL.items())]))
"""


@pytest.mark.parametrize(("limit", "small"), [(512 << 20, True), (16 << 30, False)])
def test_threads_take_few_addresses_where_there_are_few(
    monkeypatch: pytest.MonkeyPatch, limit: int, small: bool
) -> None:
    for name in limits._FRUGAL:
        monkeypatch.delenv(name, raising=False)
    done = subprocess.run(
        [sys.executable, "-c", THREADS.format(limit=limit)], capture_output=True, text=True, check=True
    )
    taken, told = json.loads(done.stdout)
    assert (taken < 32 << 20) == small  # an arena has 64 MiB
    assert told == (len(limits._FRUGAL) if small else 0)


def test_a_library_that_finds_no_room_is_not_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_room(name: str) -> ModuleType:
        raise ImportError("openfhe.so: failed to map segment from shared object")

    monkeypatch.setattr(importlib, "import_module", no_room)
    with pytest.raises(PenstockError, match=r"^out of memory for a library ") as error:
        evaluator.load_openfhe()
    assert error.value.exit_code == 1
    assert limits.shortage(ImportError("No module named 'openfhe'")) is None
    assert limits.shortage(OSError(28, "No space left on device")) is None


def test_a_file_that_memory_does_not_suffice_for_is_not_damaged(monkeypatch, tmp_path):
    path = tmp_path / "trace.parquet"
    write_trace(trace_workload("inner-product", size="ci"), path)

    told = []

    class Spied(pq.ParquetFile):
        def __init__(self, path, **options):
            told.append(options["pre_buffer"])
            super().__init__(path, **options)

        def read(self, **options):
            told.append(options["use_threads"])
            return super().read(**options)

    def full(*_, **__):
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    whole = read_trace(path)
    monkeypatch.setattr(limits, "address_limit", lambda: 1 << 30)
    monkeypatch.setattr(pq, "ParquetFile", Spied)
    assert read_trace(path).operations.equals(whole.operations)
    assert told == [False, False]
    monkeypatch.setattr(pq.ParquetFile, "read", full)
    with pytest.raises(MemoryError) as error:
        read_trace(path)
    assert not isinstance(error.value, pa.ArrowException)

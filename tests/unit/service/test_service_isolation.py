"""The bounds of a worker, tried from inside of one; and which modules the processes of the service have."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.service.work import isolation

TRIES = """
import ctypes, json, os, socket, sys, threading
from pathlib import Path
from penstock.service.work.isolation import apply
inside, results, outside = map(Path, sys.argv[1:])
report = apply([inside], [results])
def tried(act):
    try:
        act()
    except OSError as error:
        return error.errno
    except Exception as error:
        return type(error).__name__
    return 0
def write(path):
    path.write_bytes(b"1")
def replace():
    write(results / "a")
    (results / "a").rename(results / "b")
def thread():
    one = threading.Thread(target=lambda: None); one.start(); one.join()
print(json.dumps({"report": report, "tries": {
    "read inside": tried(lambda: (inside / "file").read_bytes()),
    "replace a result": tried(replace),
    "thread": tried(thread),
    "library": tried(lambda: __import__("penstock._engine")),
    "read outside": tried(lambda: (outside / "file").read_bytes()),
    "list outside": tried(lambda: os.listdir(outside)),
    "write outside": tried(lambda: write(outside / "new")),
    "write inside": tried(lambda: write(inside / "new")),
    "other processes": tried(lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes()),
    "socket": tried(socket.socket),
    "fork": tried(os.fork),
    "execute": tried(lambda: os.execv("/bin/true", ["true"])),
    "signal": tried(lambda: os.kill(os.getppid(), 0)),
    "io_uring": 0 if ctypes.CDLL(None).syscall(425, 1, None) != -1 else "refused",
}}))
"""


STORE = """
import json, sys
from pathlib import Path
from penstock.runtime.keystore import KeyStore
from penstock.service.work.isolation import apply
store, results = map(Path, sys.argv[1:])
report = apply([store], [results])
def tried(path, mode):
    try:
        path.open(mode).close()
    except OSError as error:
        return error.errno
    return 0
opened = KeyStore(store, reader="pread", reading=True)
keys = [opened.verify(key.name).fault for key in opened.list_keys()]
segment = next(store.glob("*/*/*.pkey"))
print(json.dumps({"report": report, "keys": keys, "tries": {
    "segment": tried(segment, "r+b"), "beside it": tried(segment.with_name("new"), "wb"),
    "index": tried(store / "index.sqlite", "r+b"), "lock": tried(store / "lock", "r+b"),
}}))
"""


def test_a_worker_reads_every_key_and_can_change_none(tmp_path: Path) -> None:
    from penstock.runtime.keystore import KeyStore
    from penstock.runtime.native.client import open_client
    from penstock.runtime.native.store import add_missing_keys
    from support.service_jobs import PARAMS

    pytest.importorskip("penstock_client", reason="penstock's client is not installed")
    store = KeyStore(tmp_path / "keys")
    add_missing_keys(open_client(PARAMS, library="penstock"), store, "alice", {"relin": PARAMS.num_q})
    (tmp_path / "results").mkdir()
    folders = [str(tmp_path / name) for name in ("keys", "results")]
    done = subprocess.run([sys.executable, "-c", STORE, *folders], capture_output=True, text=True, check=True)
    found = json.loads(done.stdout)
    assert found["keys"] == [None]
    if not found["report"]["landlock"].startswith("in force"):
        pytest.skip(f"Landlock: {found['report']['landlock']}")
    assert all(found["tries"].values()), found["tries"]


@pytest.fixture
def tried(tmp_path: Path) -> dict[str, dict[str, object]]:
    for name in ("inside", "results", "outside"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_bytes(b"0")
    folders = [str(tmp_path / name) for name in ("inside", "results", "outside")]
    done = subprocess.run([sys.executable, "-c", TRIES, *folders], capture_output=True, text=True, check=True)
    found: dict[str, dict[str, object]] = json.loads(done.stdout)
    return found


def test_a_bounded_process_reads_and_writes_its_folders_and_nothing_else(tried: dict[str, dict[str, object]]) -> None:
    report, tries = tried["report"], tried["tries"]
    for allowed in ("read inside", "replace a result", "thread", "library"):
        assert tries[allowed] == 0, allowed
    if not str(report["landlock"]).startswith("in force"):
        pytest.skip(f"Landlock: {report['landlock']}")
    for refused in ("read outside", "list outside", "write outside", "write inside", "other processes"):
        assert tries[refused] != 0, refused


def test_a_bounded_process_has_no_network_and_starts_no_process(tried: dict[str, dict[str, object]]) -> None:
    report, tries = tried["report"], tried["tries"]
    assert str(report["limits"]) == "in force: core files, descriptors"
    if not str(report["seccomp"]).startswith("in force"):
        pytest.skip(f"seccomp: {report['seccomp']}")
    for refused in ("socket", "fork", "execute", "signal", "io_uring"):
        assert tries[refused] != 0, refused


def test_a_kernel_without_the_measures_is_reported_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refusing:
        def syscall(self, *_: object) -> int:
            return -1

    library: object = Refusing()
    assert "no Landlock" in isolation._landlock(library, (), ())  # type: ignore[arg-type]
    assert isolation._seccomp(library).startswith("seccomp: ")  # type: ignore[arg-type]
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    assert isolation._seccomp(library) == "no filter is written for riscv64"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("version", "file_rights", "network_and_scopes"),
    [(1, 13, ()), (2, 14, ()), (3, 15, ()), (4, 15, (3,)), (5, 16, (3,)), (6, 16, (3, 3)), (9, 16, (3, 3))],
)
def test_a_kernel_is_asked_for_every_right_that_it_knows_and_no_other(
    version: int, file_rights: int, network_and_scopes: tuple[int, ...]
) -> None:
    asked: list[tuple[int, ...]] = []

    class Kernel:
        def syscall(self, number: int, rules: bytes | None, size: int, flags: int) -> int:
            assert number == 444
            if rules is None:
                return version
            asked.append(struct.unpack(f"{size // 8}Q", rules[:size]))
            return -1

    assert "Landlock" in isolation._landlock(Kernel(), (), ())  # type: ignore[arg-type]
    assert asked == [((1 << file_rights) - 1, *network_and_scopes)]


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        ("penstock.service.work.pool", ("penstock._engine", "penstock.runtime.client", "openfhe", "numpy")),
        ("penstock.service.work.worker", ("penstock._engine", "penstock.runtime.client", "openfhe", "numpy")),
        ("penstock.service.work.computer", ("penstock.runtime.client", "openfhe")),
    ],
)
def test_no_process_of_the_service_loads_a_client_library(module: str, absent: tuple[str, ...]) -> None:
    script = f"import sys, {module}; print([name for name in {absent!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

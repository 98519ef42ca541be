"""The bounds of a worker, tried from inside of one; and which modules the processes of the service have."""

from __future__ import annotations

import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.errors import UsageError
from penstock.service.work import isolation
from penstock.service.work.process import clean_environment

TRIES = """
import ctypes, json, os, socket, sys, threading, time
from pathlib import Path
from penstock.service.work.isolation import Bounds, apply, user_of
inside, results, outside = map(Path, sys.argv[1:4])
examining, victim = sys.argv[4] == "examining", os.getppid()
user = user_of("nobody")
if user:
    os.chown(results, *user)
report = apply(Bounds(readable=(inside,), writable=() if examining else (results,), user=user, is_examining=examining))
library = ctypes.CDLL(None, use_errno=True)
def call(name, *arguments):
    if getattr(library, name)(*arguments) == -1:
        raise OSError(ctypes.get_errno(), name)
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
    (results / "b").unlink()
def thread():
    one = threading.Thread(target=lambda: None); one.start(); one.join()
key = inside / "file"
words = ctypes.create_string_buffer(256)
print(json.dumps({"report": report, "tries": {
    "read inside": tried(key.read_bytes),
    "replace a result": tried(replace),
    "thread": tried(thread),
    "library": tried(lambda: __import__("numpy")),
    "own limit": tried(lambda: __import__("resource").getrlimit(7)),
    "own signal": tried(lambda: os.kill(os.getpid(), 0)),
    "read outside": tried(lambda: (outside / "file").read_bytes()),
    "list outside": tried(lambda: os.listdir(outside)),
    "write outside": tried(lambda: write(outside / "new")),
    "write inside": tried(lambda: write(inside / "new")),
    "rename out of the folder": tried(lambda: (write(results / "x"), (results / "x").rename(inside / "x"))),
    "other processes": tried(lambda: Path(f"/proc/{victim}/environ").read_bytes()),
    "socket": tried(socket.socket),
    "pair of sockets": tried(socket.socketpair),
    "fork": tried(os.fork),
    "execute": tried(lambda: os.execv("/bin/true", ["true"])),
    "signal": tried(lambda: os.kill(victim, 0)),
    "thread's signal": tried(lambda: call("tgkill", victim, victim, 0)),
    "another's priority": tried(lambda: os.setpriority(os.PRIO_PROCESS, victim, 19)),
    "another's limits": tried(lambda: __import__("resource").prlimit(victim, 7, (3, 3))),
    "another's processors": tried(lambda: os.sched_setaffinity(victim, {0})),
    "another's scheduling": tried(lambda: os.sched_setscheduler(victim, os.SCHED_IDLE, os.sched_param(0))),
    "mode": tried(lambda: key.chmod(0o777)),
    "owner": tried(lambda: os.chown(key, 65534, 65534)),
    "times": tried(lambda: os.utime(key, (1, 1))),
    "attribute": tried(lambda: os.setxattr(key, "user.x", b"1")),
    "symlink": tried(lambda: (results / "s").symlink_to(key)),
    "link": tried(lambda: (results / "l").hardlink_to(key)),
    "folder": tried(lambda: (results / "d").mkdir()),
    "fifo": tried(lambda: os.mkfifo(results / "f")),
    "memory file": tried(lambda: os.memfd_create("x")),
    "shared memory": tried(lambda: call("shmget", 0, 4096, 0o1600)),
    "trace": tried(lambda: call("ptrace", 16, victim, 0, 0)),
    "clock": tried(lambda: time.clock_settime(time.CLOCK_REALTIME, time.time())),
    "system's log": tried(lambda: call("klogctl", 3, words, 256)),
    "dumpable": tried(lambda: call("prctl", 4, 1, 0, 0, 0)),
    "signals of descriptors": tried(lambda: __import__("fcntl").fcntl(1, 8, victim)),
    "unshare": tried(lambda: call("unshare", 0x10000000)),
    "io_uring": tried(lambda: call("syscall", 425, 1, None)),
}}))
"""
ALLOWED = "read inside", "replace a result", "thread", "library", "own limit", "own signal"
BY_FOLDERS = (
    "read outside",
    "list outside",
    "write outside",
    "write inside",
    "rename out of the folder",
    "other processes",
)


STORE = """
import json, sys
from pathlib import Path
from penstock.runtime.keystore import KeyStore
from penstock.service.work.isolation import Bounds, apply, user_of
store, results = map(Path, sys.argv[1:])
report = apply(Bounds(readable=(store,), writable=(results,), user=user_of("nobody")))
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


def tries(folder: Path, kind: str) -> tuple[dict[str, str], dict[str, object]]:
    for name in ("inside", "results", "outside"):
        (folder / name).mkdir()
        (folder / name / "file").write_bytes(b"0")
    folders = [str(folder / name) for name in ("inside", "results", "outside")]
    words, environment = [sys.executable, "-c", TRIES, *folders, kind], clean_environment()
    done = subprocess.run(words, capture_output=True, text=True, check=True, env=environment)
    found = json.loads(done.stdout)
    return found["report"], found["tries"]


@pytest.mark.parametrize("kind", ["computing", "examining"])
def test_a_bounded_process_does_what_its_work_needs_and_nothing_else(tmp_path: Path, kind: str) -> None:
    report, found = tries(tmp_path, kind)
    assert report["limits"] == "in force: core files, descriptors"
    needed = ALLOWED if kind == "computing" else tuple(set(ALLOWED) - {"replace a result", "thread"})
    assert {name: found[name] for name in needed} == dict.fromkeys(needed, 0)
    if report["seccomp"].startswith("in force"):
        refused = set(found) - set(ALLOWED) - set(BY_FOLDERS)
        assert {found[name] for name in refused} == {errno.EPERM}, found
        if kind == "examining":
            assert found["replace a result"] == errno.EPERM  # no file is opened to be written
            assert found["thread"] == "RuntimeError"
    if report["landlock"].startswith("in force"):
        assert all(found[name] for name in BY_FOLDERS), found
    assert report["user"].startswith("in force" if os.geteuid() == 0 else "not in force")


def test_a_path_of_python_that_holds_the_data_is_no_library(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (tmp_path / "state.sqlite").write_text("")
    (tmp_path / "tenants").mkdir()
    held = isolation._around(isolation.Bounds(readable=(tmp_path / "tenants",)))
    assert list(isolation._outside(tmp_path, held)) == [package]
    assert list(isolation._outside(package, held)) == [package]


def test_a_kernel_that_refuses_a_measure_is_reported_and_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = pytest.importorskip("penstock._engine")

    def refuse(*_: object, **__: object) -> None:
        raise OSError("this kernel has none")

    for name in ("confine_to", "filter", "become_user", "no_new_privileges"):
        monkeypatch.setattr(engine, f"sandbox_{name}", refuse)
    monkeypatch.setattr(isolation, "_limits", lambda: "in force")
    report = isolation.apply(isolation.Bounds(user=(65534, 65534)))
    assert report.pop("limits") == "in force"
    assert set(report.values()) == {"not in force: this kernel has none"}
    monkeypatch.setattr(engine, "sandbox_has_landlock", lambda: False)
    assert "no Landlock" in isolation.lacking((65534, 65534))[0]
    assert "not started as root" in isolation.lacking(None)[-1]


def test_workers_of_root_run_as_another_user_that_there_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(isolation, "_permitted", lambda: (1 << 41) - 1)
    for name, why in (("nobody-by-this-name", "no such user"), ("root", "is root")):
        with pytest.raises(UsageError, match=why):
            isolation.user_of(name)
    found = isolation.user_of("nobody")
    assert found is not None
    assert found[0] > 0
    for number in (0, 2, 6, 7, 8):  # the root of a container lacks some
        monkeypatch.setattr(isolation, "_permitted", lambda lost=number: ((1 << 41) - 1) & ~(1 << lost))
        assert isolation.user_of("nobody") is None
    monkeypatch.setattr(isolation, "_permitted", lambda: (1 << 41) - 1)
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert isolation.user_of("nobody-by-this-name") is None


def test_an_examination_is_bounded_and_inherits_no_secret(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_DATABASE", "sqlite:///secret")
    assert not {"PENSTOCK_DATABASE"} & set(clean_environment())
    script = (
        "import json, sys; from pathlib import Path; from penstock.service.http import examine; "
        "bounds = examine.ExamineBounds(most_bytes=1 << 32, seconds=60, user=examine.isolation.user_of('nobody')); "
        "report = examine.confine(bounds, Path(sys.argv[1])); "
        "print(json.dumps([report, open('/proc/self/status').read()]))"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(tmp_path / "package")],
        capture_output=True, text=True, check=True, env=clean_environment(),
    )  # fmt: skip
    report, status = json.loads(done.stdout)
    if report["seccomp"].startswith("in force"):
        assert "Seccomp:\t2" in status
        assert "NoNewPrivs:\t1" in status


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

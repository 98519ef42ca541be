"""A client in a process of its own: the secret key stays there, it rests, and its faults are told."""

from __future__ import annotations

import errno
import os
import re
import resource
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from penstock.base.system.files import FileError
from penstock.errors import CapabilityMissing, ParamsError, PenstockError, UnknownName, UsageError
from penstock.program.openfhe import key_pair
from penstock.program.openfhe.evaluator import OpenFheContext
from penstock.runtime.keystore import KeyStore
from penstock.runtime.keystore.pairs import PAIRS
from penstock.runtime.native import client as client_module
from penstock.runtime.native.client import LIBRARIES, chosen_library
from penstock.runtime.native.client_process import ClientProcess
from penstock.runtime.native.memory import resident_bytes
from penstock.runtime.native.prepared import ClientPlace, KeyPlace
from penstock.scheme.params import catalogue
from penstock.scheme.traces.inspect import differences
from support.native_runs import record_native

PARAMS = "insecure-small"


def running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_client_that_rests_is_gone_and_comes_back_with_the_same_key_pair(tmp_path: Path, library: str) -> None:
    params = catalogue.get(PARAMS)
    client = ClientProcess(params, tmp_path / "client", library=library, threads=1, fleeting=tmp_path)
    try:
        tag, pid = client.key_tag, client.pid
        assert pid is not None
        assert pid != os.getpid()
        values = np.linspace(-1, 1, params.slots)
        made = client.encrypt(values)
        assert made.begun_s <= made.encoded_s <= made.ended_s
        client.rest()
        assert not running(pid)
        assert resident_bytes(pid) == 0
        assert client.peak_rss_bytes > 30e6
        client.wake()
        assert client.pid != pid
        found = client.decrypt(made.content)
        assert client.key_tag == tag
        assert float(np.max(np.abs(found.values - values))) < 1e-6
        secret = tmp_path / "client" / PAIRS[library].secret
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    finally:
        client.release()


def test_keys_of_the_process_are_of_its_key_pair_and_no_secret_is_among_its_bytes(tmp_path: Path, library: str) -> None:
    params = catalogue.get(PARAMS)
    client = ClientProcess(params, tmp_path / "client", library=library, threads=1)
    try:
        seen: dict[str, bytes] = {}
        wanted = dict.fromkeys(("relin", "rot:5", "conj"), params.num_q)
        client.make_keys(wanted, tmp_path, "alice", lambda key, made: seen.update({key: made.read_bytes()}))
        assert not [*tmp_path.glob("*.key"), *tmp_path.glob("*.pkey")]
        assert list(seen) == ["relin", "rot:5", "conj"]
        store = KeyStore(tmp_path / "store")
        for key, content in seen.items():
            (tmp_path / "made").write_bytes(content)
            if LIBRARIES[library].makes_segments:
                store.import_segment(tmp_path / "made", tenant="alice", params=params)
            else:
                store.import_openfhe("alice", tmp_path / "made", params=params, key=key)
        assert {key.secret_tag for key in store.list_keys()} == {client.key_tag}
        secret = (tmp_path / "client" / PAIRS[library].secret).read_bytes()
        # Its words, past the header: in nothing that was sent.
        part = secret[len(secret) // 2 : len(secret) // 2 + 64]
        made = client.encrypt(np.zeros(params.slots)).content
        assert all(part not in content for content in (*seen.values(), made))
    finally:
        client.release()


def test_a_client_that_was_killed_is_told_with_the_remedy(tmp_path: Path, library: str) -> None:
    params = catalogue.get(PARAMS)
    client = ClientProcess(params, tmp_path / "client", library=library, threads=1)
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    with pytest.raises(PenstockError, match=r"signal 9.*--client inside"):
        client.encrypt(np.zeros(params.slots))
    # Another one takes its place.
    assert client.encrypt(np.zeros(params.slots)).content
    client.release()


def test_a_client_that_was_asked_for_keys_and_interrupted_at_once_writes_no_more(
    tmp_path: Path, library: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = ClientProcess(catalogue.get(PARAMS), tmp_path / "client", library=library, threads=1)
    send = client._send

    def interrupted(content: bytes) -> None:
        send(content)
        raise KeyboardInterrupt

    monkeypatch.setattr(client, "_send", interrupted)
    pid = client.pid
    assert pid is not None
    try:
        with pytest.raises(KeyboardInterrupt):
            client.make_keys({"relin": 3}, tmp_path, "local", lambda key, made: None)
        assert client.pid is None
        assert not running(pid)
    finally:
        client.release()


@pytest.mark.usefixtures("encrypting")
def test_a_fault_of_the_client_leaves_no_file_of_its_memory(tmp_path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (limits[1], limits[1]))
    try:
        client = ClientProcess(catalogue.get(PARAMS), tmp_path / "client", threads=1)
    finally:
        resource.setrlimit(resource.RLIMIT_CORE, limits)
    try:
        lines = Path(f"/proc/{client.pid}/limits").read_text().splitlines()
        assert [line.split()[4:6] for line in lines if line.startswith("Max core file size")] == [["0", "0"]]
    finally:
        client.release()


def test_a_set_that_openfhe_refuses_is_refused_here_too(tmp_path: Path, library: str) -> None:
    with pytest.raises(ParamsError, match="accelerator"):
        ClientProcess(catalogue.get("sharp"), tmp_path / "client", library=library)


def test_another_key_pair_in_the_folder_is_noticed(tmp_path: Path, library: str) -> None:
    params = catalogue.get(PARAMS)
    one, two = (ClientProcess(params, tmp_path / name, library=library, threads=1) for name in ("one", "two"))
    one.rest()
    two.release()
    for name in PAIRS[library].names:
        (tmp_path / "one" / name).write_bytes((tmp_path / "two" / name).read_bytes())
    with pytest.raises(PenstockError, match="another key pair"):
        one.encrypt(np.zeros(params.slots))
    assert one.pid is None


@pytest.mark.usefixtures("openfhe")
def test_a_key_pair_of_openfhe_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    context = OpenFheContext.create(catalogue.get(PARAMS), relinearize=False)
    folder = tmp_path / "store.client" / "alice"

    def full(path: Path, content: bytes, *, mode: int) -> None:
        if path.name == "public.key":
            raise FileError(path, "write", OSError(errno.ENOSPC, "full"))
        path.write_bytes(content)

    try:
        with monkeypatch.context() as patch:
            patch.setattr(key_pair, "write_atomic", full)
            with pytest.raises(FileError, match="the disk is full"):
                key_pair.save_client_keys(context, folder)
        assert list(folder.parent.iterdir()) == []
        assert key_pair.save_client_keys(context, folder)
        # Another process that comes second takes what is there.
        whole = {each.name: each.read_bytes() for each in folder.iterdir()}
        assert set(whole) == {"secret.key", "public.key", "pair.sha256"}
        assert not key_pair.save_client_keys(context, folder)
        assert {each.name: each.read_bytes() for each in folder.iterdir()} == whole
        assert list(folder.parent.iterdir()) == [folder]
    finally:
        context.release()


def test_half_a_key_pair_is_told_with_the_remedy(tmp_path: Path, library: str) -> None:
    folder, public = tmp_path / "client", PAIRS[library].public
    ClientProcess(catalogue.get(PARAMS), folder, library=library, threads=1).release()
    (folder / public).unlink()
    with pytest.raises(PenstockError, match=rf"{re.escape(public)} is missing, .* put the right file back; or remove"):
        ClientProcess(catalogue.get(PARAMS), folder, threads=1)


@pytest.mark.usefixtures("encrypting")
def test_both_places_of_the_client_give_one_trace_and_the_process_ends_while_it_computes() -> None:
    runs = [
        record_native("inner-product", size="ci", threads=1, keys=KeyPlace(budget_bytes=8 << 20), client=place)
        for place in ClientPlace
    ]
    beside, inside = runs
    assert list(differences(beside.trace, inside.trace)) == []
    assert float(np.max(np.abs(beside.result - inside.result))) < 1e-4
    assert inside.client_peak_rss_bytes is None
    assert beside.client_peak_rss_bytes is not None
    assert beside.standing_rss_bytes is not None
    assert beside.standing_rss_bytes > beside.client_peak_rss_bytes
    assert resident_bytes(os.getpid()) > 0
    assert resident_bytes(1 << 30) == 0


@pytest.mark.usefixtures("encrypting")
def test_modules_in_the_current_folder_are_not_taken_for_pythons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("queue", "signal", "random"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the user was run')\n")
    monkeypatch.chdir(tmp_path)
    client = ClientProcess(catalogue.get(PARAMS), tmp_path / "client", threads=1)
    try:
        assert client.key_tag
    finally:
        client.release()


def test_the_library_of_a_kept_pair_goes_on_and_another_is_refused(tmp_path: Path) -> None:
    for name, pair in PAIRS.items():
        folder = tmp_path / name
        folder.mkdir()
        (folder / pair.public).write_bytes(b"")
        assert chosen_library(folder=folder).name == name
        assert chosen_library(name, folder).name == name
        for other in LIBRARIES.keys() - {name}:
            with pytest.raises(UsageError, match=r"holds a key pair of .* leave that out"):
                chosen_library(other, folder)
    (tmp_path / "openfhe" / PAIRS["penstock"].public).write_bytes(b"")
    with pytest.raises(UsageError, match="two key pairs"):
        chosen_library(folder=tmp_path / "openfhe")
    with pytest.raises(UnknownName, match="did you mean 'openfhe'"):
        chosen_library("openfe")


def test_without_a_client_library_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client_module.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(CapabilityMissing, match="nothing can be encrypted"):
        chosen_library()


def test_what_evaluates_imports_no_client_library() -> None:
    """Neither the native reading nor a worker, the key node or a scan; nor are they among the loaded files."""
    modules = (
        "penstock.runtime.native.reading",
        "penstock.service.work.computer",
        "penstock.service.near.node",
        "penstock.runtime.scanning.query",
    )
    script = (
        f"import sys, {', '.join(modules)}\n"
        "maps = open('/proc/self/maps').read()\n"
        "clients = 'openfhe', 'penstock_client', 'penstock.runtime.client'\n"
        "print(*[name for name in sys.modules if name.startswith(clients)])\n"
        "print(*[name for name in ('penstock_client', '_client.', 'OPENFHE') if name in maps])\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []

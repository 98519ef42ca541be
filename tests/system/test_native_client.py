"""A client in a process of its own: the secret key stays there, it rests, and its faults are told."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import ParamsError, PenstockError
from penstock.native.client_process import ClientProcess
from penstock.native.engine import make_context
from penstock.native.memory import resident_bytes
from penstock.native.reading import ClientPlace, KeyPlace, record_native
from penstock.openfhe import key_pair
from penstock.openfhe.evaluator import OpenFheContext
from penstock.params import catalogue
from penstock.system.files import FileError
from penstock.traces.inspect import differences

pytestmark = pytest.mark.usefixtures("openfhe")
PARAMS = "insecure-small"


def running(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def test_a_client_that_rests_is_gone_and_comes_back_with_the_same_key_pair(tmp_path: Path) -> None:
    params = catalogue.get(PARAMS)
    client = ClientProcess(params, tmp_path / "client", threads=1, fleeting=tmp_path)
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
        secret = tmp_path / "client" / "secret.key"
        assert stat.S_IMODE(secret.stat().st_mode) == 0o600
        assert stat.S_IMODE(secret.parent.stat().st_mode) == 0o700
    finally:
        client.release()


def test_keys_of_the_process_are_of_its_key_pair_and_no_secret_is_among_its_bytes(tmp_path: Path) -> None:
    params = catalogue.get(PARAMS)
    client = ClientProcess(params, tmp_path / "client", threads=1)
    try:
        seen: dict[str, bytes] = {}
        wanted = dict.fromkeys(("relin", "rot:5", "conj"), params.num_q)
        client.make_keys(wanted, tmp_path, "alice", lambda key, made: seen.update({key: made.read_bytes()}))
        assert not list(tmp_path.glob("*.key"))
        assert list(seen) == ["relin", "rot:5", "conj"]
        engine = make_context(params)
        for content in seen.values():
            engine.import_key(content)
        secret = (tmp_path / "client" / "secret.key").read_bytes()
        # Its words, past the header: in nothing that was sent.
        part = secret[len(secret) // 2 : len(secret) // 2 + 64]
        made = client.encrypt(np.zeros(params.slots)).content
        assert all(part not in content for content in (*seen.values(), made))
    finally:
        client.release()


def test_a_client_that_was_killed_is_told_with_the_remedy(tmp_path: Path) -> None:
    params = catalogue.get(PARAMS)
    client = ClientProcess(params, tmp_path / "client", threads=1)
    assert client.pid is not None
    os.kill(client.pid, signal.SIGKILL)
    with pytest.raises(PenstockError, match=r"signal 9.*--client inside"):
        client.encrypt(np.zeros(params.slots))
    # Another one takes its place.
    assert client.encrypt(np.zeros(params.slots)).content
    client.release()


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


def test_a_set_that_openfhe_refuses_is_refused_here_too(tmp_path: Path) -> None:
    with pytest.raises(ParamsError, match="accelerators"):
        ClientProcess(catalogue.get("sharp"), tmp_path / "client")


def test_another_key_pair_in_the_folder_is_noticed(tmp_path: Path) -> None:
    params = catalogue.get(PARAMS)
    one, two = (ClientProcess(params, tmp_path / name, threads=1) for name in ("one", "two"))
    one.rest()
    two.release()
    for name in ("secret.key", "public.key", "pair.sha256"):
        (tmp_path / "one" / name).write_bytes((tmp_path / "two" / name).read_bytes())
    with pytest.raises(PenstockError, match="another key pair"):
        one.encrypt(np.zeros(params.slots))
    assert one.pid is None


def test_a_key_pair_appears_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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


def test_half_a_key_pair_is_told_with_the_remedy(tmp_path: Path) -> None:
    folder = tmp_path / "client"
    ClientProcess(catalogue.get(PARAMS), folder, threads=1).release()
    (folder / "public.key").unlink()
    with pytest.raises(PenstockError, match=r"public\.key is missing, .* put the right file back; or remove"):
        ClientProcess(catalogue.get(PARAMS), folder, threads=1)


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

"""The client's key pair: nothing is made from a damaged one, and no evaluation key is kept that does not work."""

from __future__ import annotations

import errno
import os
import resource
import signal
import stat
from pathlib import Path
from typing import Any

import pytest

from penstock.base.system.files import FileError
from penstock.errors import KeyPairDamaged, PenstockError
from penstock.program.openfhe.evaluator import OpenFheContext
from penstock.program.openfhe.key_pair import DIGEST, PUBLIC, SECRET, save_client_keys
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client_process import ClientProcess
from penstock.runtime.native.openfhe_client import make_keys, open_context
from penstock.runtime.native.store import add_missing_keys, client_folder
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters, Scaling
from support.toy import toy

pytestmark = pytest.mark.usefixtures("openfhe")
PARAMS = catalogue.get("insecure-small")


def flip(path: Path, at: float = 0.5, bit: int = 3) -> None:
    content = bytearray(path.read_bytes())
    content[int(at * len(content))] ^= 1 << bit
    path.write_bytes(content)


def pair_in(folder: Path, params: CkksParameters = PARAMS) -> None:
    context = OpenFheContext.create(params, relinearize=False)
    try:
        save_client_keys(context, folder)
    finally:
        context.release()


def most_memory_kb() -> int:
    """Of this process and of any that it has started."""
    return max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))


@pytest.mark.parametrize("name", [SECRET, PUBLIC])
def test_one_flipped_bit_of_a_pair_is_told_before_a_key_is_made_from_it(tmp_path: Path, name: str) -> None:
    store = KeyStore(tmp_path / "keys")
    folder = client_folder(store.folder, "alice", PARAMS)
    client = ClientProcess(PARAMS, folder, library="openfhe", threads=1)
    add_missing_keys(client, store, "alice", {"rot:5": client.params.num_q})
    client.release()
    flip(folder / name)
    with pytest.raises(PenstockError, match=rf"{folder}: {name} .*put the right file back; or remove {folder}"):
        ClientProcess(PARAMS, folder, library="openfhe", threads=1)
    assert [key.name.key for key in store.list_keys()] == ["rot:5"]


@pytest.mark.parametrize("name", [SECRET, PUBLIC])
def test_a_pair_without_a_digest_is_tried_and_a_flipped_bit_is_found(tmp_path: Path, name: str) -> None:
    pair_in(tmp_path / "pair")
    (tmp_path / "pair" / DIGEST).unlink()
    flip(tmp_path / "pair" / name)
    with pytest.raises(KeyPairDamaged, match="put the right file back"):
        open_context(PARAMS, tmp_path / "pair")
    assert not (tmp_path / "pair" / DIGEST).exists()


@pytest.mark.parametrize(
    ("name", "at", "content", "said"),
    [
        (PUBLIC, 509, bytes(8), "signal 11"),  # OpenFHE reads what is not there
        (SECRET, 371, bytes(8), "signal 8"),  # it divides by zero
        (SECRET, 864, (1 << 29).to_bytes(8, "little"), "no key of OpenFHE"),  # it asks for 4 GiB
        (SECRET, 921, b"\xff" * 8, "one of them is damaged"),  # a tag that is not a text
    ],
    ids=["segmentation-fault", "division-by-zero", "memory", "tag"],
)
def test_a_damaged_pair_without_a_digest_takes_neither_this_process_nor_the_memory(
    tmp_path: Path, name: str, at: int, content: bytes, said: str
) -> None:
    pair_in(tmp_path / "pair")
    (tmp_path / "pair" / DIGEST).unlink()
    with (tmp_path / "pair" / name).open("r+b") as file:
        file.seek(at)
        file.write(content)
    before_kb = most_memory_kb()
    with pytest.raises(KeyPairDamaged, match=f"{tmp_path}/pair.*{said}.*put the right file back"):
        open_context(PARAMS, tmp_path / "pair")
    assert most_memory_kb() <= max(before_kb, 2 << 20)


def test_a_whole_pair_of_an_earlier_version_gets_its_digest_for_its_owner_alone(tmp_path: Path) -> None:
    pair_in(tmp_path / "pair")
    first = (tmp_path / "pair" / DIGEST).read_bytes()
    (tmp_path / "pair" / DIGEST).unlink()
    before = os.umask(0)
    try:
        open_context(PARAMS, tmp_path / "pair").release()
    finally:
        os.umask(before)
    assert (tmp_path / "pair" / DIGEST).read_bytes() == first
    assert all(stat.S_IMODE(each.stat().st_mode) == 0o600 for each in (tmp_path / "pair").iterdir())


def test_two_halves_of_two_pairs_are_no_pair(tmp_path: Path) -> None:
    for name in ("one", "two"):
        pair_in(tmp_path / name)
        (tmp_path / name / DIGEST).unlink()
    (tmp_path / "one" / PUBLIC).write_bytes((tmp_path / "two" / PUBLIC).read_bytes())
    with pytest.raises(KeyPairDamaged, match="different key pairs"):
        open_context(PARAMS, tmp_path / "one")


@pytest.mark.parametrize(
    "params", [PARAMS, toy(), toy(scaling=Scaling.FLEXIBLE_AUTO_EXT), toy(scaling=Scaling.FIXED_AUTO)]
)
def test_every_kind_of_key_passes_its_trial(params: CkksParameters) -> None:
    context = OpenFheContext.create(params, relinearize=False)
    seen: list[str] = []
    try:
        # Rotations by 1, 2 and -1, and the conjugation.
        back = pow(5, -1, 2 * params.ring_dim)
        keys = ["relin", "conj", "rot:5", "rot:25", f"rot:{back}"]
        make_keys(context, keys, lambda key, _: seen.append(key))
    finally:
        context.release()
    assert seen == keys


class OtherSecret:
    """OpenFHE's context, which makes keys from another secret key than it is told."""

    def __init__(self, real: Any) -> None:
        self._real, self._other = real, real.KeyGen().secretKey

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def EvalMultKeyGen(self, secret: Any) -> None:
        self._other.SetKeyTag(secret.GetKeyTag())
        self._real.EvalMultKeyGen(self._other)

    def EvalAutomorphismKeyGen(self, secret: Any, elements: list[int]) -> Any:
        self._other.SetKeyTag(secret.GetKeyTag())
        return self._real.EvalAutomorphismKeyGen(self._other, elements)


@pytest.mark.parametrize("key", ["relin", "conj", "rot:5"])
def test_an_evaluation_key_that_does_not_work_is_not_handed_out(key: str) -> None:
    context = OpenFheContext.create(PARAMS, relinearize=False)
    real = context.context
    try:
        context.context = OtherSecret(real)
        with pytest.raises(KeyPairDamaged, match=f"evaluation key {key} does not work"):
            make_keys(context, [key], lambda *_: pytest.fail("it was handed out"))
    finally:
        context.context = real
        context.release()


def test_a_client_whose_process_dies_over_a_pair_names_the_pair_and_the_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What OpenFHE does with some damaged files: the process ends by SIGSEGV, and nobody is left to say why.
    (tmp_path / "openfhe.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)\n")
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    folder = tmp_path / "pair"
    with pytest.raises(PenstockError, match=rf"signal 11\. .* the key pair in {folder} is damaged: put the right file"):
        ClientProcess(PARAMS, folder, library="openfhe", threads=1)


def test_whatever_openfhe_makes_of_damaged_bytes_is_an_error_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    pair_in(tmp_path / "pair")
    whole = {each: each.read_bytes() for each in (tmp_path / "pair").iterdir() if each.name != DIGEST}
    (tmp_path / "pair" / DIGEST).unlink()
    for at in (0.0, 0.001, 0.01, 0.4, 0.999):
        for path, content in whole.items():
            path.write_bytes(content)
        flip(tmp_path / "pair" / SECRET, at, bit=6)
        with pytest.raises(KeyPairDamaged, match="put the right file back"):
            open_context(PARAMS, tmp_path / "pair")
    with pytest.raises(PenstockError, match="put the right file back"):
        ClientProcess(PARAMS, tmp_path / "pair", library="openfhe", threads=1)
    assert capfd.readouterr().err == ""


def test_a_client_whose_parent_goes_away_ends_without_a_traceback(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    client = ClientProcess(PARAMS, tmp_path / "pair", library="openfhe", threads=1)

    def full_disk(key: str, made: Path) -> None:
        raise FileError(made, "import", OSError(errno.ENOSPC, "full"))

    process = client._process
    assert process is not None
    with pytest.raises(FileError):
        client.make_keys({"relin": 1, "conj": 1}, tmp_path, "alice", full_disk)
    # It would write into a folder that goes next.
    assert (client.pid, process.returncode) == (None, 0)
    client.release()
    assert capfd.readouterr().err == ""


def test_ctrl_c_leaves_the_client_to_its_parent(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    client = ClientProcess(PARAMS, tmp_path / "pair", library="openfhe", threads=1)
    client.rest()
    client.wake()
    assert client.pid is not None
    os.kill(client.pid, signal.SIGINT)  # a terminal sends it to both
    try:
        assert client.key_tag
        assert client.encrypt([0.5] * PARAMS.slots).content  # type: ignore[arg-type]
    finally:
        client.release()
    assert capfd.readouterr().err == ""

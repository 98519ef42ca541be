"""The secret keys of a similarity search on the disk: sealed or not, whole or not there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("penstock_client")

from penstock.errors import KeyPairDamaged, KeyPairRefused, PenstockError, UsageError
from penstock.runtime.client import KeyPair
from penstock.runtime.client.pair import is_sealed
from penstock.runtime.similarity.owner import Owner
from penstock.scheme.params.ckks import CkksParameters
from support.similarity_search import DIM, Searched

PHRASE = b"correct horse"
SMALL_DIM = 128
FILES = (Path("large") / "secret.pskey", Path("small.key"))
"""The two secrets."""
HEAD, CHECKSUM = 72, 32
"""Bytes of a secret file before its coefficients, and of its checksum (docs/guides/client.md)."""
SEALED_AT = 12


@pytest.fixture(scope="module")
def searched(tmp_path_factory: pytest.TempPathFactory) -> Searched:
    """A search at the least size of these tests."""
    return Searched(tmp_path_factory.mktemp("searched"), 2**11, 100)


@pytest.fixture(scope="module")
def params(searched: Searched) -> CkksParameters:
    return searched.server.params


@pytest.fixture(scope="module")
def sealed(searched: Searched, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder that no test changes."""
    folder = tmp_path_factory.mktemp("sealed") / "secret"
    searched.owner.save(folder, passphrase=PHRASE)
    return folder


def loaded(folder: Path, params: CkksParameters, passphrase: bytes | None = None) -> Owner:
    return Owner.load(folder, params, small_dim=SMALL_DIM, passphrase=passphrase)


def test_an_owner_from_sealed_keys_searches_as_before(searched: Searched, params: CkksParameters, sealed: Path) -> None:
    again = loaded(sealed, params, PHRASE)
    assert again.pair.tag == searched.owner.pair.tag
    # Each owner decrypts the result of the other's query.
    for asks, reads in ((again, searched.owner), (searched.owner, again), (again, again)):
        answer = searched.server.answer(asks.encrypt_query(searched.query))
        found = reads.decrypt(answer.content, searched.layout)
        assert len(searched.expected) > 2
        np.testing.assert_array_equal(found.payloads, searched.expected)


def test_sealed_files_hold_no_coefficient_in_the_clear(searched: Searched, sealed: Path, tmp_path: Path) -> None:
    searched.owner.save(tmp_path / "open")
    assert is_sealed(sealed / "large")
    for name in FILES:
        clear, hidden = (tmp_path / "open" / name).read_bytes(), (sealed / name).read_bytes()
        assert [content[SEALED_AT] for content in (clear, hidden)] == [0, 1]
        assert clear[16:HEAD] == hidden[16:HEAD]  # the header is of the same secret
        packed = clear[HEAD:-CHECKSUM]
        assert len(packed) >= SMALL_DIM // 4
        parts = [packed[at : at + 8] for at in range(len(packed) - 8)]
        for content in (each.read_bytes() for each in sealed.rglob("*") if each.is_file()):
            assert not any(part in content for part in parts)
    # The two seals have salts and nonces of their own.
    one, two = ((sealed / name).read_bytes()[HEAD + 12 : HEAD + 52] for name in FILES)
    assert one[:16] != two[:16]
    assert one[16:] != two[16:]


@pytest.mark.parametrize(
    ("passphrase", "said"),
    [
        (None, "it is sealed: give its passphrase"),
        (b"correct hors", "passphrase is wrong, or the file was changed"),
        (b"", "passphrase is wrong, or the file was changed"),
    ],
)
@pytest.mark.parametrize("file", FILES)
def test_each_sealed_secret_needs_the_passphrase(
    searched: Searched, params: CkksParameters, sealed: Path, tmp_path: Path, passphrase: bytes | None, said: str,
    file: Path,
) -> None:  # fmt: skip
    folder = tmp_path / "secret"
    searched.owner.save(folder)
    (folder / file).write_bytes((sealed / file).read_bytes())
    with pytest.raises(KeyPairRefused, match=rf"{file.name}: .*{said}.*--passphrase-file.*PENSTOCK_PASSPHRASE_FILE"):
        loaded(folder, params, passphrase)


def test_an_empty_passphrase_seals_nothing(searched: Searched, tmp_path: Path) -> None:
    with pytest.raises(PenstockError, match="an empty passphrase: it seals nothing: give one of at least a byte"):
        searched.owner.save(tmp_path / "secret", passphrase=b"")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("passphrase", [None, PHRASE, b""])
def test_unsealed_keys_open_whether_a_passphrase_is_given_or_not(
    searched: Searched, params: CkksParameters, tmp_path: Path, passphrase: bytes | None
) -> None:
    searched.owner.save(tmp_path / "secret")
    assert loaded(tmp_path / "secret", params, passphrase).pair.tag == searched.owner.pair.tag
    # As a pair does.
    assert KeyPair.load(tmp_path / "secret" / "large", params, passphrase=passphrase).tag == searched.owner.pair.tag


@pytest.mark.parametrize("passphrase", [None, PHRASE])
@pytest.mark.parametrize("at", ["pair", "small", "rename"])
def test_an_interrupt_leaves_no_half_of_a_folder(
    searched: Searched, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str, passphrase: bytes | None
) -> None:
    """Before the pair is written, before the small secret is, and where the folder gets its name."""
    owner = searched.owner

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    class Ring:
        write_secret = staticmethod(interrupted)

    if at == "small":
        monkeypatch.setattr(owner, "_ring", Ring())
    elif at == "pair":
        monkeypatch.setattr(owner.pair, "save", interrupted)
    else:
        rename = Path.rename
        monkeypatch.setattr(
            Path, "rename", lambda self, to: interrupted() if to == tmp_path / "secret" else rename(self, to)
        )
    with pytest.raises(KeyboardInterrupt):
        owner.save(tmp_path / "secret", passphrase=passphrase)
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    owner.save(tmp_path / "secret", passphrase=passphrase)
    assert sorted(each.name for each in (tmp_path / "secret").iterdir()) == ["large", "small.key"]


def test_a_killed_process_leaves_nothing_that_stays(params: CkksParameters, tmp_path: Path) -> None:
    """What it had written of the secrets goes when penstock is there next."""
    code = """
import os, sys
from pathlib import Path
from penstock.program.database.similarity.scheme import large_parameters
from penstock.runtime.similarity.owner import Owner

class Ring:
    def write_secret(self, *_):
        os.kill(os.getpid(), 9)

owner = Owner.generate(large_parameters(2**11, security=0), small_dim=128)
owner._ring = Ring()
owner.save(Path(sys.argv[1]))
"""
    ran = subprocess.run([sys.executable, "-c", code, tmp_path / "secret"], timeout=120, check=False)
    assert ran.returncode == -9
    assert not (tmp_path / "secret").exists()
    assert list(tmp_path.iterdir()) != []
    with pytest.raises(PenstockError):
        loaded(tmp_path / "secret", params)
    assert list(tmp_path.iterdir()) == []


def test_the_folder_is_its_owners_whatever_the_mask(searched: Searched, tmp_path: Path) -> None:
    mask = os.umask(0)
    try:
        searched.owner.save(tmp_path / "new" / "secret", passphrase=PHRASE)
    finally:
        os.umask(mask)
    folder = tmp_path / "new" / "secret"
    modes = [(folder / each).stat().st_mode & 0o777 for each in (".", "large", *FILES)]
    assert modes == [0o700, 0o700, 0o600, 0o600]


def test_an_empty_folder_is_taken_and_one_with_files_is_left_alone(searched: Searched, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir(mode=0o755)
    searched.owner.save(tmp_path / "empty")
    assert (tmp_path / "empty").stat().st_mode & 0o777 == 0o700
    before = {each: each.read_bytes() for each in (tmp_path / "empty").rglob("*") if each.is_file()}
    with pytest.raises(UsageError, match="holds secret keys already: name another folder"):
        searched.owner.save(tmp_path / "empty")
    assert {each: each.read_bytes() for each in (tmp_path / "empty").rglob("*") if each.is_file()} == before
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes").touch()
    with pytest.raises(UsageError, match="holds files already: name another folder"):
        searched.owner.save(tmp_path / "mine")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["empty", "mine"]


@pytest.mark.parametrize("file", FILES)
def test_half_of_the_secrets_are_refused(
    searched: Searched, params: CkksParameters, tmp_path: Path, file: Path
) -> None:
    searched.owner.save(tmp_path / "secret")
    (tmp_path / "secret" / file).unlink()
    with pytest.raises(KeyPairDamaged, match=f"{file.name} is missing, and half .*put the right file back"):
        loaded(tmp_path / "secret", params)


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_a_folder_that_others_may_change_is_refused(
    searched: Searched, params: CkksParameters, tmp_path: Path, mode: int
) -> None:
    searched.owner.save(tmp_path / "secret")
    (tmp_path / "secret").chmod(mode)
    with pytest.raises(KeyPairRefused, match=rf"others may put files into it \(mode 0{mode:o}\).*chmod 700"):
        loaded(tmp_path / "secret", params)


STEPS = Path(__file__).parents[3] / "submissions" / "fetch-by-similarity" / "submission"


def test_the_steps_of_the_benchmark_take_the_passphrase_of_the_environment(
    searched: Searched, params: CkksParameters, sealed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(STEPS))
    from secret_keys import made_owner, opened_owner

    phrase = tmp_path / "phrase"
    phrase.write_bytes(PHRASE + b"\n")
    phrase.chmod(0o600)
    with pytest.raises(SystemExit, match=r"penstock: .* it is sealed: .*PENSTOCK_PASSPHRASE_FILE"):
        opened_owner(sealed, params, small_dim=SMALL_DIM)
    monkeypatch.setenv("PENSTOCK_PASSPHRASE_FILE", str(phrase))
    assert opened_owner(sealed, params, small_dim=SMALL_DIM).pair.tag == searched.owner.pair.tag
    made = made_owner(tmp_path / "made", params, small_dim=SMALL_DIM)
    assert is_sealed(tmp_path / "made" / "large")
    assert (tmp_path / "made" / "small.key").read_bytes()[SEALED_AT] == 1
    assert made.encrypt_query(searched.query)[:8] == searched.owner.encrypt_query(searched.query)[:8]
    assert opened_owner(tmp_path / "made", params, small_dim=SMALL_DIM).layout(10, DIM)
    monkeypatch.delenv("PENSTOCK_PASSPHRASE_FILE")
    assert made_owner(tmp_path / "open", params, small_dim=SMALL_DIM).pair.tag
    assert not is_sealed(tmp_path / "open" / "large")
    phrase.write_bytes(b"\n")
    monkeypatch.setenv("PENSTOCK_PASSPHRASE_FILE", str(phrase))
    with pytest.raises(SystemExit, match=r"penstock: .*it holds no passphrase"):
        made_owner(tmp_path / "again", params, small_dim=SMALL_DIM)
    assert not (tmp_path / "again").exists()

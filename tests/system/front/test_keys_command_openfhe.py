"""`penstock keys` on real keys: import, list, verify, damage, heal, remove."""

from __future__ import annotations

import json
import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from penstock.front.cli.main import main
from penstock.front.cli.verbs import keys as keys_command
from penstock.program.openfhe.evaluator import OpenFheContext
from penstock.runtime.keystore import parameter_digest
from penstock.scheme.params import catalogue

SET = "insecure-ci"


@pytest.fixture(scope="module")
def files(openfhe: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two rotation keys in one map, and the relinearization key."""
    folder = tmp_path_factory.mktemp("serialized")
    made = OpenFheContext.create(catalogue.get(SET), rotation_steps=(1, 2))
    tag = made.secret_key.GetKeyTag()
    automorphisms = made.context.GetEvalAutomorphismKeyMap(tag)
    assert openfhe.SerializeToFile(str(folder / "rotations.bin"), automorphisms, openfhe.BINARY)
    relinearization = made.context.GetEvalMultKeyVector(tag)[0]
    assert openfhe.SerializeToFile(str(folder / "relin.bin"), relinearization, openfhe.BINARY)
    assert made.context.SerializeEvalAutomorphismKey(str(folder / "all-rotations.bin"), openfhe.BINARY, tag)
    assert made.context.SerializeEvalMultKey(str(folder / "all-products.bin"), openfhe.BINARY, tag)
    made.release()
    return folder


class Keys:
    """The command on one store."""

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.folder, self.capsys = folder, capsys

    def __call__(self, verb: str, *arguments: object) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = main(["keys", verb, "--store", str(self.folder), *map(str, arguments)])
        printed = self.capsys.readouterr()
        return code, printed.out, printed.err

    def rows(self, verb: str, *arguments: object, code: int = 0) -> Sequence[dict[str, Any]]:
        got, out, err = self(verb, *arguments, "--format", "json")
        assert got == code, err
        return json.loads(out)


@pytest.fixture
def keys(tmp_path: Path, files: Path, capsys: pytest.CaptureFixture[str]) -> Keys:
    made = Keys(tmp_path / "keys", capsys)
    made.rows("import", "--tenant", "alice", "--params", SET, files / "rotations.bin")
    made.rows("import", "--tenant", "alice", "--params", SET, "--key", "relin", files / "relin.bin")
    return made


def test_more_keys_than_a_ring_has_rotations_are_not_benched(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["keys", "bench", "--params", SET, "--num-keys", str(catalogue.get(SET).ring_dim // 2)]) == 2
    assert "each with a key; ask for fewer" in capsys.readouterr().err


def test_imported_keys_are_listed_with_their_parameters_and_sizes(keys: Keys) -> None:
    params = catalogue.get(SET)
    rows = keys.rows("ls")
    assert [row["key"] for row in rows] == ["relin", "rot:25", "rot:5"]
    for row in rows:
        assert (row["tenant"], row["params"], row["digest"]) == ("alice", SET, parameter_digest(params))
        assert row["key_bytes"] == params.key_bytes()
        assert 0 < row["file_bytes"] - row["key_bytes"] <= 8192
    assert keys.rows("ls", "--tenant", "alice", "--params", SET) == rows
    names = keys_command._set_names()
    assert names[parameter_digest(catalogue.get("openfhe-bootstrap"))] == "openfhe-bootstrap"
    (total,) = keys.rows("stat")
    assert (total["num_keys"], total["key_bytes"]) == (3, 3 * params.key_bytes())
    by_limbs = {row["limbs"]: row["bytes"] for row in keys.rows("stat", "--key", "rot:5")}
    assert by_limbs == {limbs: params.key_bytes(limbs) for limbs in range(1, params.num_q + 1)}
    code, out, _ = keys("ls")
    assert code == 0
    assert "3 keys" in out


def test_what_a_context_keeps_is_the_same_keys(keys: Keys, files: Path, tmp_path: Path) -> None:
    other = Keys(tmp_path / "other", keys.capsys)
    named = ("--tenant", "alice", "--params", SET)
    rows = other.rows("import", *named, files / "all-rotations.bin", files / "all-products.bin")
    assert [row["key"] for row in rows] == ["rot:5", "rot:25", "relin"]
    assert other.rows("ls") == keys.rows("ls")
    for one, two in zip(sorted(keys.folder.rglob("*.pkey")), sorted(other.folder.rglob("*.pkey")), strict=True):
        assert one.read_bytes() == two.read_bytes()


@pytest.mark.smoke
def test_a_flipped_bit_is_found_and_another_import_heals_it(keys: Keys, files: Path) -> None:
    assert all(row["ok"] for row in keys.rows("verify"))
    path = keys.folder / "alice" / keys.rows("ls")[0]["digest"] / "relin.pkey"
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 0x10
    path.write_bytes(bytes(data))
    rows = keys.rows("verify", code=1)
    assert [(row["key"], row["damaged_rows"]) for row in rows if not row["ok"]] == [("relin", 1)]
    (row,) = keys.rows("import", "--tenant", "alice", "--params", SET, "--key", "relin", files / "relin.bin")
    assert row["replaced"]
    assert all(row["ok"] for row in keys.rows("verify"))


def test_a_truncated_segment_is_reported_not_listed_and_removed(keys: Keys) -> None:
    path = keys.folder / "alice" / keys.rows("ls")[0]["digest"] / "rot-5.pkey"
    path.write_bytes(path.read_bytes()[:-1])
    leftover = path.with_name(".tmp-penstock-1-2")
    leftover.write_bytes(b"half a key")
    code, out, err = keys("ls", "--format", "json")
    assert code == 0
    assert [row["key"] for row in json.loads(out)] == ["relin", "rot:25"]
    assert err.count("rot-5.pkey") == 1
    assert "unfinished" in err
    assert not leftover.exists()
    keys.rows("verify", code=1)
    (row,) = keys.rows("gc", "--dry-run")
    assert (row["path"].rpartition("/")[2], row["removed"]) == ("rot-5.pkey", False)
    assert path.exists()
    keys.rows("gc")
    assert not path.exists()
    assert all(row["ok"] for row in keys.rows("verify"))


def test_verify_misses_a_key_whose_file_is_gone_until_gc_forgets_it(keys: Keys) -> None:
    digest = keys.rows("ls")[0]["digest"]
    (keys.folder / "alice" / digest / "rot-5.pkey").unlink()
    keys.rows("ls")
    for _ in range(2):
        (lost,) = [row for row in keys.rows("verify", code=1) if not row["ok"]]
        assert (lost["tenant"], lost["digest"], lost["key"], lost["bytes"]) == ("alice", digest, "rot:5", None)
        assert "is gone: import it again" in lost["fault"]
    code, _, err = keys("verify", "--quiet")
    assert code == 1
    assert "rot:5 of tenant 'alice' is gone" in err
    (row,) = keys.rows("gc")
    assert row["removed"]
    assert all(row["ok"] for row in keys.rows("verify"))


def test_verify_of_a_tenant_is_of_its_keys_alone(keys: Keys, files: Path, openfhe: ModuleType) -> None:
    digest = keys.rows("ls")[0]["digest"]
    for path in (keys.folder / "alice" / digest).iterdir():
        path.write_bytes(path.read_bytes()[:-1])
    other = OpenFheContext.create(catalogue.get(SET), rotation_steps=(1,))
    made = files / "bob.bin"
    tag = other.secret_key.GetKeyTag()
    assert openfhe.SerializeToFile(str(made), other.context.GetEvalAutomorphismKeyMap(tag), openfhe.BINARY)
    other.release()
    keys.rows("import", "--tenant", "bob", "--params", SET, made)
    assert {row["tenant"] for row in keys.rows("verify", "--tenant", "bob")} == {"bob"}
    rows = keys.rows("verify", "--tenant", "alice", code=1)
    assert [(row["tenant"], row["key"]) for row in rows] == [("alice", key) for key in ("relin", "rot:25", "rot:5")]
    assert keys.rows("verify", "--tenant", "alice", "--params", "openfhe-bench") == []
    assert keys("verify", "--tenant", "carol")[0] == 2


def test_gc_keeps_what_is_whole(keys: Keys) -> None:
    with closing(sqlite3.connect(keys.folder / "index.sqlite")) as index, index:
        index.execute("UPDATE keys SET header_checksum = 5 WHERE key = 'rot:5'")
    keys.rows("verify", code=1)
    for dry in (["--dry-run"], []):
        (row,) = keys.rows("gc", *dry)
        assert "its row is put anew" in row["reason"]
        assert not row["removed"]
    assert all(row["ok"] for row in keys.rows("verify"))
    (keys.folder / "alice").rename(keys.folder / "alicia")
    rows = keys.rows("gc")
    assert [row["removed"] for row in rows if "alicia" in row["path"]] == [False] * 3
    (keys.folder / "alicia").rename(keys.folder / "alice")
    assert len(keys.rows("verify")) == 3


def test_an_import_that_fails_says_what_it_has_imported_before(keys: Keys, files: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.bin").write_bytes(b"no key")
    rows = keys.rows(
        "import", "--tenant", "alice", "--params", SET, files / "rotations.bin", tmp_path / "bad.bin", code=2
    )
    assert [row["key"] for row in rows] == ["rot:5", "rot:25"]


def test_a_tenants_keys_can_be_removed(keys: Keys, files: Path) -> None:
    assert len(keys.rows("gc", "--tenant", "alice")) == 3
    assert keys.rows("ls") == []
    keys.rows("import", "--tenant", "bob", "--params", SET, files / "rotations.bin")
    assert {row["tenant"] for row in keys.rows("ls")} == {"bob"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["ls", "--tenant", "alcie"], "did you mean 'alice'"),
        (["stat", "--key", "rot:7"], "unknown key 'rot:7'"),
        (["import", "--tenant", "alice", "{relin}"], "--params SET, or --limbs"),
        (["import", "--tenant", "alice", "--params", SET, "{relin}"], "does not say what it is for"),
        (["import", "--tenant", "alice", "--params", "insecure-toy", "--key", "relin", "{relin}"], ""),
        (["import", "--tenant", "a/b", "--params", SET, "{rotations}"], "letters, digits"),
        (
            ["import", "--tenant", "alice", "--params", SET, "--key", "relin", "{here}"],
            "test_keys_command_openfhe.py: byte ",
        ),
        (["import", "--tenant", "alice", "--params", SET, "{relin}.gone"], "does not exist"),
        (["gone"], "known: bench, export, gc, import, ls, "),
    ],
)
def test_wrong_requests_are_refused_with_the_remedy(keys: Keys, files: Path, arguments: list[str], said: str) -> None:
    names = {"relin": files / "relin.bin", "rotations": files / "rotations.bin", "here": Path(__file__)}
    before = keys.rows("ls")
    code, _, err = keys(arguments[0], *(argument.format(**names) for argument in arguments[1:]))
    assert code in (1, 2)
    assert said in err
    assert keys.rows("ls") == before


def test_a_tag_that_another_tenant_took_locks_its_owner_out_of_nothing_and_names_nobody(
    keys: Keys, files: Path
) -> None:
    rotations = str(files / "rotations.bin")
    code, _, err = keys("import", "--tenant", "carol", "--params", SET, rotations)
    assert (code, "alice" in err) == (0, False)
    code, _, err = keys("import", "--tenant", "alice", "--params", SET, rotations)
    assert (code, "carol" in err) == (0, False)


def test_a_folder_without_a_store_is_no_empty_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = Keys(tmp_path / "nothing", capsys)("ls")
    assert code == 2
    assert "there is no key store" in err
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize(
    "verb", [["ls"], ["stat"], ["verify"], ["gc"], ["node", "--params", SET, "--listen", "unix:n"]]
)
def test_only_an_import_makes_a_store_of_a_folder(
    verb: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """What lies in another program's folder stays, leftovers that look like the store's own included."""
    folder = tmp_path / "work"
    for name in (".tmp-penstock-1234abcd.parquet", "db/segments/.tmp-penstock-0.seg", "index.sqlite"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("somebody else's")
    before = sorted(folder.rglob("*"))
    code, _, err = Keys(folder, capsys)(*verb)
    assert code == 2
    assert "there is no key store" in err
    assert sorted(folder.rglob("*")) == before


def test_a_store_without_its_index_is_one(keys: Keys) -> None:
    listed = keys.rows("ls")
    (keys.folder / "index.sqlite").unlink()
    assert keys.rows("ls") == listed


def test_other_programs_files_below_a_store_are_left_alone(keys: Keys) -> None:
    foreign = keys.folder / "db" / "segments" / ".tmp-penstock-0.seg"
    foreign.parent.mkdir(parents=True)
    foreign.write_text("half")
    keys.rows("ls")
    assert keys.rows("gc") == []
    assert foreign.exists()


@pytest.fixture
def read_only(keys: Keys) -> Iterator[list[str]]:
    """What a command begins with that may not write to the store: root may, unless the file system says no."""
    if os.geteuid() != 0:
        modes = {path: path.stat().st_mode for path in (keys.folder, *keys.folder.rglob("*"))}
        for path, mode in modes.items():
            path.chmod(mode & 0o555)
        yield []
        for path, mode in modes.items():
            path.chmod(mode)
        return
    mount = 'mount --bind "$0" "$0" && mount -o remount,bind,ro "$0" && exec "$@"'
    begins = ["unshare", "--mount", "sh", "-c", mount, str(keys.folder)]
    try:
        subprocess.run([*begins, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("root cannot mount here")
    yield begins


MANY = """
import json, sys
from penstock.front.cli.main import main
print(*[main(["keys", *each]) for each in json.loads(sys.argv[1])])
"""


def test_a_store_that_may_only_be_read_is_listed_and_verified_and_says_so_to_who_writes(
    keys: Keys, files: Path, read_only: list[str]
) -> None:
    expected = keys.rows("ls")
    store = ["--store", str(keys.folder)]
    verbs = [
        ["ls", *store, "--format", "json"],
        ["verify", *store, "--format", "json"],
        ["stat", *store, "--format", "json"],
        ["gc", "--dry-run", *store],
        ["import", *store, "--tenant", "alice", "--params", SET, str(files / "rotations.bin")],
        ["gc", *store],
    ]
    done = subprocess.run(
        [*read_only, sys.executable, "-c", MANY, json.dumps(verbs)], capture_output=True, text=True, check=True
    )
    assert done.stdout.splitlines()[-1] == "0 0 0 0 1 1", done.stderr
    assert json.JSONDecoder().raw_decode(done.stdout)[0] == expected
    assert done.stderr.count(f"{keys.folder}: this store is read-only here") == 2
    assert done.stderr.count("keys are listed, verified and read; to import or remove some") == 2


def test_a_node_needs_a_key_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = Keys(tmp_path / "nothing", capsys)("node", "--params", SET, "--listen", "unix:n")
    assert code == 2
    assert "there is no key store" in err

"""`penstock client`: a key's owner makes a pair, keys and ciphertexts, and a store and an evaluator take them."""

from __future__ import annotations

import json
import stat
from pathlib import Path

import numpy as np
import pytest

from penstock.front.cli.main import main
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.engine import make_context
from penstock.scheme.params import catalogue

SET = "insecure-ci"


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("PENSTOCK_PASSPHRASE_FILE", raising=False)
    return tmp_path


@pytest.fixture
def pair(here):
    assert main(["client", "keygen", "alice", "--params", SET, "--quiet"]) == 0
    return here / "alice"


def rows(capsys, *words: str) -> list[dict[str, object]]:
    capsys.readouterr()
    assert main([*words, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return found if isinstance(found, list) else [found]


def refused(capsys, *words: str) -> str:
    capsys.readouterr()
    assert main([*words]) != 0
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    return shown.err


def test_a_pair_is_its_owners_alone_and_never_replaced(pair, capsys):
    assert stat.S_IMODE(pair.stat().st_mode) == 0o700
    assert {stat.S_IMODE(file.stat().st_mode) for file in pair.iterdir()} == {0o600}
    before = (pair / "secret.pskey").read_bytes()
    assert "alice" in refused(capsys, "client", "keygen", "alice", "--params", SET)
    assert (pair / "secret.pskey").read_bytes() == before


def test_show_says_whose_pair_it_is_and_nothing_secret(pair, capsys):
    capsys.readouterr()
    assert main(["client", "show", "alice", "--params", SET, "--format", "json"]) == 0
    text = capsys.readouterr().out
    secret = (pair / "secret.pskey").read_bytes()
    assert secret[40:72].decode() in text, "the tag"
    assert secret[72:88].hex() not in text


def test_keys_of_a_program_go_into_a_store_and_compute(pair, here, capsys):
    made = rows(
        capsys,
        "client",
        "keys",
        "alice",
        "--workload",
        "inner-product",
        "--size",
        "ci",
        "--tenant",
        "alice",
        "-o",
        "up",
    )
    assert made
    assert all(row["form"] in ("seeded", "seeded+truncated") for row in made)
    first = {file: file.stat().st_mtime_ns for file in (here / "up").iterdir()}
    assert (
        main(
            ["client", "keys", "alice", "--workload", "inner-product", "--size", "ci", "--tenant", "alice", "-o", "up"]
        )
        == 0
    )
    assert {file: file.stat().st_mtime_ns for file in (here / "up").iterdir()} == first, "whole files stay"
    files = [str(file) for file in sorted((here / "up").glob("*.pkey"))]
    assert main(["keys", "import", "--store", "store", "--tenant", "alice", "--params", SET, *files]) == 0
    kept = KeyStore(here / "store").list_keys(tenant="alice")
    assert {key.name.key for key in kept} == {row["key"] for row in made}
    assert sum(key.file_bytes for key in kept) < 0.52 * len(kept) * catalogue.get(SET).key_bytes()


def test_values_come_back_from_both_kinds_of_ciphertext(pair, here, capsys):
    values = [0.5, -0.25, 1.0]
    (here / "values.json").write_text(json.dumps(values))
    sizes = {}
    for kind in ([], ["--public"]):
        target = f"ct{len(kind)}.bin"
        assert main(["client", "encrypt", "alice", "values.json", "--params", SET, "-o", target, *kind]) == 0
        sizes[target] = (here / target).stat().st_size
        assert make_context(catalogue.get(SET)).import_ciphertext((here / target).read_bytes()).polynomials == 2
        found = rows(capsys, "client", "decrypt", "alice", target, "--params", SET, "--for", "owner", "--count", "3")
        assert np.allclose([row["value"] for row in found], values, atol=1e-5)
    assert sizes["ct0.bin"] < 0.52 * sizes["ct1.bin"]


def test_a_sealed_pair_opens_with_its_passphrase_only(here, capsys):
    for name, text in (("phrase", "correct horse"), ("other", "battery staple")):
        Path(name).write_text(text)
        Path(name).chmod(0o600)
    assert main(["client", "keygen", "bob", "--params", SET, "--passphrase-file", "phrase"]) == 0
    assert main(["client", "show", "bob", "--params", SET, "--passphrase-file", "phrase"]) == 0
    assert "passphrase" in refused(
        capsys, "client", "keys", "bob", "--params", SET, "--key", "relin", "--tenant", "b", "-o", "up"
    )
    said = refused(
        capsys,
        "client",
        "keys",
        "bob",
        "--params",
        SET,
        "--key",
        "relin",
        "--tenant",
        "b",
        "-o",
        "up",
        "--passphrase-file",
        "other",
    )
    assert "passphrase is wrong" in said
    assert not list(here.glob("up/*.pkey"))


def test_a_pair_of_another_set_is_refused_by_name(pair, capsys):
    (Path.cwd() / "v.json").write_text("[1.0]")
    said = refused(capsys, "client", "encrypt", "alice", "v.json", "--params", "insecure-small", "-o", "ct.bin")
    assert "ring dimension" in said or "digest" in said


def test_a_result_of_another_pair_is_refused(pair, here, capsys):
    (here / "v.json").write_text("[1.0]")
    assert main(["client", "keygen", "eve", "--params", SET, "--quiet"]) == 0
    assert main(["client", "encrypt", "eve", "v.json", "--params", SET, "-o", "ct.bin"]) == 0
    assert "key pair" in refused(capsys, "client", "decrypt", "alice", "ct.bin", "--params", SET, "--for", "owner")


ENCAPSULATED = """
ring_dim = 2048
slots = 32
depth = 4
scale_bits = 50
secret = "uniform-encapsulated"
security = "none"
"""


def test_a_pair_with_an_ephemeral_secret_makes_both_keys_once_and_a_store_takes_them(here, capsys):
    Path("insecure-mine.toml").write_text(ENCAPSULATED)
    made = ("--params", "insecure-mine.toml")
    Path("phrase").write_text("correct horse battery staple\n")
    Path("phrase").chmod(0o600)
    sealed = ("--passphrase-file", "phrase", "--quiet")
    assert main(["client", "keygen", "alice", *made, *sealed]) == 0
    params = catalogue.get("insecure-mine.toml")
    assert (here / "alice" / "secret.pskey").stat().st_size == 124 + params.ring_dim // 2 + 16 + 32
    keys = ["client", "keys", "alice", *made, *sealed, "--tenant", "alice", "-o", "upload"]
    keys += ["--key", "to-sparse", "--key", "to-dense", "--key", "relin"]
    first = {row["key"]: row for row in rows(capsys, *keys)}
    assert [first[key]["made"] for key in ("to-sparse", "to-dense", "relin")] == [True, True, True]
    assert (first["to-sparse"]["limbs"], first["to-sparse"]["form"]) == (1, "seeded")
    assert first["to-sparse"]["bytes"] == 4096 + 3 * 8 * params.ring_dim
    assert not any(row["made"] for row in rows(capsys, *keys))
    cut = [*keys[:-2], "--limbs", "2", "--force"]
    assert [row["form"] for row in rows(capsys, *cut)] == ["seeded", "seeded+truncated"]
    capsys.readouterr()
    assert main(["keys", "import", "--tenant", "alice", *(str(each) for each in sorted(Path("upload").iterdir()))]) == 0
    listed = {row["key"]: row for row in rows(capsys, "keys", "ls", "--tenant", "alice")}
    assert set(listed) == {"relin", "to-dense", "to-sparse"}
    assert (listed["to-sparse"]["key_bytes"], listed["to-sparse"]["limbs"]) == (2 * 3 * 8 * params.ring_dim, 1)
    assert len({row["secret_tag"] for row in listed.values()}) == 1
    assert all(row["ok"] for row in rows(capsys, "keys", "verify"))
    assert [row["bytes"] for row in rows(capsys, "keys", "stat", "--key", "to-sparse")] == [6 * 8 * params.ring_dim]
    assert main(["client", "to-openfhe", "alice", "theirs", *made, *sealed]) == 0
    assert main(["client", "from-openfhe", "theirs", "again", *made, *sealed]) == 0


def test_a_pair_without_an_ephemeral_secret_says_so(pair, capsys):
    text = refused(capsys, "client", "keys", "alice", "--params", SET, "--key", "to-dense", "--tenant", "a", "-o", "x")
    assert "key 'to-dense': this pair has no ephemeral secret" in text
    assert "uniform-encapsulated" in text

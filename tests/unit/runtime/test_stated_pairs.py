"""Ciphertexts of another key pair than the keys are refused, with both pairs named: nobody could decrypt the result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("penstock_client")

import penstock as ps
from penstock.errors import EvaluationRefused, KeyRefused
from penstock.program.package.capture import capture
from penstock.program.package.file import PackageFile
from penstock.runtime.client import KeyPair
from penstock.runtime.keystore import KeyStore
from penstock.runtime.keystore.stated import stated_pair
from penstock.runtime.similarity.server import Server
from penstock.scheme.params import catalogue
from support.openfhe_key import write_openfhe_key
from support.similarity_search import Searched

PARAMS = catalogue.get("insecure-ci")
ENDS = ("a", "b", "c")


@pytest.fixture(scope="module")
def pairs() -> dict[str, KeyPair]:
    return {name: KeyPair.generate(PARAMS, threads=1) for name in ("alice", "mallory", "next")}


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    def program(ev: Any) -> Any:
        a, b, c = (ev.encrypt(np.zeros(8), name=name) for name in ENDS)
        return ev.decrypt(ev.add(ev.rescale(ev.mult(a, b)), ev.rescale(ev.mult(ev.rotate(c, 1), b))))

    path = tmp_path_factory.mktemp("stated") / "p.pkg"
    with PackageFile(path) as file:
        file.finish(capture(program, PARAMS, file, "p"))
    return path


@pytest.fixture
def keys(package: Path, pairs: dict[str, KeyPair], tmp_path: Path) -> Path:
    pairs["alice"].add_keys(KeyStore(tmp_path / "keys"), ps.package_keys(package))
    return tmp_path / "keys"


def encrypted(pair: KeyPair, seeded: bool) -> bytes:
    return pair.encrypt_seeded(np.ones(8)) if seeded else pair.encrypt(np.ones(8))


def works(pair: KeyPair, results: dict[str, bytes]) -> bool:
    return abs(pair.decrypt(results["output[0]"], result_for="owner")[0].real - 2) < 1e-3


@pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "whole"])
def test_a_ciphertext_states_its_pair(pairs: dict[str, KeyPair], seeded: bool) -> None:
    for pair in pairs.values():
        assert stated_pair(encrypted(pair, seeded), "x") == pair.tag
    with pytest.raises(EvaluationRefused, match=r"^input 'x': "):
        stated_pair(encrypted(pairs["alice"], seeded)[:-100], "input 'x'")


@pytest.mark.parametrize("seeded", [True, False], ids=["seeded", "whole"])
def test_a_server_refuses_any_mixture_with_another_pair(
    package: Path, keys: Path, pairs: dict[str, KeyPair], seeded: bool
) -> None:
    alice, mallory = pairs["alice"], pairs["mallory"]
    with ps.package_server(package, keys, threads=1) as server:
        for foreign in range(1, 1 << len(ENDS)):
            owners = [mallory if foreign >> at & 1 else alice for at in range(len(ENDS))]
            inputs = {name: encrypted(owner, seeded) for name, owner in zip(ENDS, owners, strict=True)}
            with pytest.raises(KeyRefused) as refused:
                server.run(inputs)
            assert alice.tag in str(refused.value)
            assert mallory.tag in str(refused.value)
        assert works(alice, server.run(dict.fromkeys(ENDS, encrypted(alice, seeded))))


def test_a_ciphertext_that_states_no_pair_is_refused(package: Path, keys: Path, pairs: dict[str, KeyPair]) -> None:
    content = encrypted(pairs["alice"], False)
    untold = content.replace(pairs["alice"].tag.encode(), b"z" * 32)
    server = ps.package_server(package, keys, threads=1)
    with pytest.raises(KeyRefused, match="input 'b' states no key pair"):
        server.run({"a": content, "b": untold, "c": content})


def test_both_pairs_of_a_tenant_are_served_each_with_its_own_keys(
    package: Path, keys: Path, pairs: dict[str, KeyPair]
) -> None:
    alice, later, store = pairs["alice"], pairs["next"], KeyStore(keys)
    with ps.package_server(package, keys, threads=1) as server:
        assert works(alice, server.run(dict.fromkeys(ENDS, encrypted(alice, True))))
        store.replace_pair("local", PARAMS)
        later.add_keys(store, {"relin": PARAMS.num_q})
        with pytest.raises(KeyRefused, match=f"is of another secret key .{alice.tag}. than the job .{later.tag}."):
            server.run(dict.fromkeys(ENDS, encrypted(later, True)))
        later.add_keys(store, ps.package_keys(package))
        for _ in range(2):
            for pair in (later, alice):
                assert works(pair, server.run(dict.fromkeys(ENDS, encrypted(pair, True))))
        with pytest.raises(KeyRefused, match=f"{alice.tag}.*{later.tag}: one request"):
            server.run({"a": encrypted(alice, True), "b": encrypted(later, True), "c": encrypted(alice, True)})


def test_keys_of_another_pair_that_were_imported_since_are_not_used(
    package: Path, keys: Path, pairs: dict[str, KeyPair]
) -> None:
    alice, mallory = pairs["alice"], pairs["mallory"]
    with ps.package_server(package, keys, threads=1) as server:
        content = dict.fromkeys(ENDS, encrypted(alice, True))
        assert works(alice, server.run(content))
        store = KeyStore(keys)
        store.gc(tenant="local")
        mallory.add_keys(store, ps.package_keys(package))
        with pytest.raises(KeyRefused, match="another secret key"):
            server.run(content)
        assert works(mallory, server.run(dict.fromkeys(ENDS, encrypted(mallory, True))))


def test_keys_that_state_no_pair_take_the_ciphertexts_of_one(
    package: Path, pairs: dict[str, KeyPair], tmp_path: Path
) -> None:
    alice, store = pairs["alice"], KeyStore(tmp_path / "keys")
    for key in ps.package_keys(package):
        write_openfhe_key(alice, key, tmp_path / "one.bin")
        content = (tmp_path / "one.bin").read_bytes().replace(alice.tag.encode(), b"z" * 32)
        store.import_openfhe("local", content, params=PARAMS, key="relin" if key == "relin" else None)
    assert {key.secret_tag for key in store.list_keys()} == {""}
    with ps.package_server(package, tmp_path / "keys", threads=1) as server:
        assert works(alice, server.run(dict.fromkeys(ENDS, encrypted(alice, True))))
        with pytest.raises(KeyRefused, match="one request has the ciphertexts of one pair"):
            server.run({**dict.fromkeys(ENDS, encrypted(alice, True)), "b": encrypted(pairs["mallory"], True)})


def test_a_search_server_refuses_the_database_of_another_owner(tmp_path: Path) -> None:
    mine, other = (Searched(tmp_path / name, 2048, 3) for name in ("mine", "other"))
    tags = f"{other.owner.pair.tag}.*{mine.owner.pair.tag}: take the keys of the database's owner"
    with pytest.raises(KeyRefused, match=f"the database .*other/database is encrypted with key pair {tags}"):
        Server(mine.folder / "keys", other.folder / "database", params=mine.owner.params)
    # Its first ciphertext alone is not enough.
    size, file = mine.server.described.template_bytes, mine.folder / "database" / "payloads.bin"
    foreign = (other.folder / "database" / "payloads.bin").read_bytes()
    file.write_bytes(file.read_bytes()[:size] + foreign[size:])
    with pytest.raises(KeyRefused, match=r"a payload in .* is encrypted with key pair"):
        mine.server.answer(mine.owner.encrypt_query(mine.query))

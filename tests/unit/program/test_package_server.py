"""`ps.package_server`: a package computed on ciphertexts with evaluation keys alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("penstock_client")

import penstock as ps
from penstock.errors import BudgetTooSmall, KeyMissing, PenstockError, UsageError
from penstock.program.package.capture import capture
from penstock.program.package.file import PackageFile
from penstock.runtime.client import KeyPair
from penstock.runtime.keystore import KeyStore

LENGTH = 16


def program(ev: Any) -> Any:
    """Two inputs, a product, a rotation."""
    a = ev.encrypt(np.zeros(LENGTH), name="a")
    b = ev.encrypt(np.zeros(LENGTH), name="b")
    product = ev.rescale(ev.mult(a, b))
    return ev.decrypt(ev.add(product, ev.rotate(product, 3)))


def wanted(a: Any, b: Any, slots: int) -> Any:
    product = np.zeros(slots)
    product[:LENGTH] = a * b
    return product + np.roll(product, -3)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> tuple[Path, Path, KeyPair]:
    """A package, a store with its keys, and their owner."""
    folder = tmp_path_factory.mktemp("server")
    params = ps.parameters("insecure-ci")
    with PackageFile(folder / "p.pkg") as file:
        file.finish(capture(program, params, file, "p"))
    pair = KeyPair.generate(params)
    keys = ps.package_keys(folder / "p.pkg")
    assert sorted(key.split(":")[0] for key in keys) == ["relin", "rot"]
    store = KeyStore(folder / "keys")
    assert pair.add_keys(store, keys) == 2
    assert pair.add_keys(store, keys) == 0
    return folder / "p.pkg", folder / "keys", pair


@pytest.mark.parametrize("budget", [None, "4 MB"])
def test_each_run_gives_the_values_of_its_own_inputs(made, budget):
    package, keys, pair = made
    rng = np.random.default_rng(1)
    with ps.package_server(package, keys, key_budget=budget) as server:
        assert (server.inputs, server.outputs) == (("a", "b"), ("output[0]",))
        for _ in range(3):
            a, b = rng.uniform(-1, 1, (2, LENGTH))
            results = server.run({"a": pair.encrypt_seeded(a), "b": pair.encrypt(b)})
            found = pair.decrypt(results["output[0]"], result_for="owner").real
            np.testing.assert_allclose(found, wanted(a, b, len(found)), atol=1e-4)


def test_keys_that_are_not_there_are_named(made, tmp_path):
    package, _, pair = made
    store = KeyStore(tmp_path / "keys")
    pair.add_keys(store, {"relin": 2})
    with pytest.raises(KeyMissing, match=r"lacks 2 of the keys of .*p.pkg: relin \(it has 2 limbs, and .*rot:"):
        ps.package_server(package, tmp_path / "keys")


def test_a_budget_below_one_key_is_refused(made):
    package, keys, _ = made
    with pytest.raises(BudgetTooSmall, match=r"key_budget 1 kB.*: the largest key of .*p.pkg takes"):
        ps.package_server(package, keys, key_budget="1 kB")


def test_other_inputs_are_named_and_bytes_that_are_no_ciphertext_refused(made):
    package, keys, pair = made
    content = pair.encrypt_seeded(np.ones(LENGTH))
    server = ps.package_server(package, keys)
    with pytest.raises(UsageError, match="has the inputs a, b; given: a, c"):
        server.run({"a": content, "c": content})
    with pytest.raises(PenstockError):
        server.run({"a": content, "b": content[:-100]})
    with pytest.raises(PenstockError):
        server.run({"a": content, "b": b"no ciphertext"})
    result = server.run({"a": content, "b": content})["output[0]"]
    assert pair.decrypt(result, result_for="owner").real[0] == pytest.approx(2.0, abs=1e-4)


@pytest.mark.parametrize("given", ["text", None, bytearray(b"ab"), memoryview(b"ab"), np.zeros(3), 5])
def test_what_is_not_bytes_is_refused_in_words(made, given):
    package, keys, pair = made
    with ps.package_server(package, keys) as server:
        with pytest.raises(UsageError, match=r"input 'b' is of class .* passed as bytes"):
            server.run({"a": pair.encrypt(np.zeros(LENGTH)), "b": given})
        with pytest.raises(UsageError, match="inputs are a dictionary"):
            server.run(given)
        with pytest.raises(UsageError, match="has the inputs a, b; given: 5"):
            server.run({5: b""})

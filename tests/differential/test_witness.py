"""The client's expansion, tables, files, keys and decryptions, against `witness.py`, which shares no line with it."""

from __future__ import annotations

import math
import re
import struct
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import penstock as ps
from penstock.program.package.capture import capture
from penstock.program.package.file import PackageFile
from penstock.runtime.keystore import KeyStore
from penstock.scheme.params import catalogue
from support import witness
from support.openfhe_key import write_openfhe_key

client = pytest.importorskip("penstock.runtime.client")
expand = pytest.importorskip("penstock_client").expand

TABLES = Path(__file__).parents[2] / "crates" / "penstock-client" / "src" / "tables.rs"
SETS = ("insecure-small", "insecure-similarity")
"""Of one secret, and of one with an ephemeral secret."""
DEVIATION = 3.19
PHRASE = b"correct horse"


@dataclass
class Owner:
    """A pair, and its files as the witness reads them."""

    pair: Any
    folder: Path

    def __post_init__(self) -> None:
        self.pair.save(self.folder / "pair")
        self.pair.to_openfhe(self.folder / "openfhe")

    @property
    def params(self) -> Any:
        return self.pair.params

    @cached_property
    def secrets(self) -> list[np.ndarray]:
        return witness.secrets_of((self.folder / "pair" / "secret.pskey").read_bytes())

    def rows(self, name: str) -> list[witness.Row]:
        return witness.rows_of((self.folder / "openfhe" / name).read_bytes(), self.params.ring_dim)

    @cached_property
    def moduli(self) -> list[int]:
        return [modulus for modulus, _ in self.rows("secret.key")]

    def scale(self, limbs: int) -> float:
        """Of a fresh ciphertext: the flexible techniques follow the moduli (Kim, Papadimitriou, Polyakov, 2020)."""
        if not self.params.scaling.startswith("flexible"):
            return float(2.0**self.params.scale_bits)
        scale = float(self.moduli[-1])
        for modulus in self.moduli[: limbs - 1 : -1]:
            scale *= scale / modulus
        return scale

    def key(self, name: str) -> tuple[list[witness.Row], list[witness.Row], list[int]]:
        """The rows of A and of B, digit by digit, and the moduli of Q and P."""
        path = self.folder / "one.key"
        write_openfhe_key(self.pair, name, path)
        rows = witness.rows_of(path.read_bytes(), self.params.ring_dim)
        path.unlink()
        moduli = list(dict.fromkeys(modulus for modulus, _ in rows))
        assert len(rows) == 2 * self.params.dnum * len(moduli)
        return rows[: len(rows) // 2], rows[len(rows) // 2 :], moduli


@pytest.fixture(scope="module", params=SETS)
def owner(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Owner:
    pair = client.KeyPair.generate(catalogue.get(request.param), threads=1)
    return Owner(pair, tmp_path_factory.mktemp("witness"))


def is_error(values: np.ndarray) -> bool:
    """Whether fresh errors are such: the largest of the table is 28, and 10 standard errors hold the spread."""
    of = values.astype(float)
    spread = 10 * DEVIATION / math.sqrt(2 * len(of))
    return bool(np.abs(of).max() <= 28 and abs(of.std() - DEVIATION) < spread and abs(of.mean()) < 2 * spread)


def test_the_witness_knows_the_published_block() -> None:
    """RFC 8439, 2.3.2."""
    block = witness.chacha_block(bytes(range(32)), bytes.fromhex("000000090000004a00000000"), 1, 20)
    assert block.hex() == (
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e"
    )


def test_the_witness_knows_the_published_seals() -> None:
    """RFC 9106, 5.3; draft-irtf-cfrg-xchacha-03, 2.2.1 and A.3.1."""
    key = witness.argon2id(bytes([1] * 32), bytes([2] * 16), (32, 3, 4), secret=bytes([3] * 8), data=bytes([4] * 12))
    assert key.hex() == "0d640df58d78766c08c037a34a8b53c9d01ef0452d75b65eb52520e96b01e659"
    inner = witness.hchacha20(bytes(range(32)), bytes.fromhex("000000090000004a0000000031415927"))
    assert inner.hex() == "82413b4227b27bfed30e42508a877d73a0f9e4d58a74a853c12ec41326d3ecdc"
    text = (
        b"Ladies and Gentlemen of the class of '99: If I could offer you only one tip for the future, sunscreen would "
        b"be it."
    )
    key, nonce, header = bytes(range(0x80, 0xA0)), bytes(range(0x40, 0x58)), bytes.fromhex("50515253c0c1c2c3c4c5c6c7")
    found = witness.aead_seal(key, nonce, header, text)
    assert found.hex() == (
        "bd6d179d3e83d43b9576579493c0e939572a1700252bfaccbed2902c21396cbb731c7f1b0b4aa6440bf3a82f4eda7e39"
        "ae64c6708c54c216cb96b72e1213b4522f8c9ba40db5d945b11b69b982c1bb9e3f3fac2bc369488f76b2383565d3fff9"
        "21f9664c97637da9768812f615c68b13b52ec0875924c1c7987947deafd8780acf49"
    )
    assert witness.aead_open(key, nonce, header, found) == text


@pytest.mark.parametrize(
    ("seed", "digit", "limb", "modulus"),
    [
        (bytes([7] * 32), 2, 5, 1152921504606844417),
        (bytes(range(32)), 0, 0, (1 << 63) + (1 << 61) + 1),  # a quarter of the words is skipped
        (bytes(range(1, 33)), 2**32 - 1, 77, 1125899906842817),
        (bytes(32), 1, 2**32 - 1, 97),
    ],
)
def test_a_seed_expands_to_the_rows_of_the_witness(seed: bytes, digit: int, limb: int, modulus: int) -> None:
    words = np.zeros(600, np.uint64)
    expand(seed, digit, limb, modulus, words)
    assert words.tolist() == witness.expanded(seed, digit, limb, modulus, 600)


def test_the_first_residues_of_a_seed_stay() -> None:
    """Files of version 1 hold seeds: another expansion would make other keys of them."""
    assert witness.expanded(bytes([7] * 32), 2, 5, 1152921504606844417, 3) == [
        0xD31CB4E2F769D1A, 0x3BE8ACCCBBE3CF6, 0xB3CCFD4A64337D8,
    ]  # fmt: skip
    assert witness.expanded(bytes(range(32)), 0, 0, (1 << 63) + (1 << 61) + 1, 3) == [
        0x3B3C0CC33FFBBF37, 0x21D050C81A5EBA71, 0xDFA6A4FC650FB1C,
    ]  # fmt: skip


@pytest.mark.parametrize(("name", "deviation", "bits"), [("ERROR", "3.19", 63), ("BASE", "34", 127)])
def test_tables_are_the_distributions_to_their_last_bit(name: str, deviation: str, bits: int) -> None:
    found = re.search(rf"const {name}: \[\w+; (\d+)\] = \[(.*?)\];", TABLES.read_text(), re.DOTALL)
    assert found is not None
    entries = [int(each, 16) for each in re.findall(r"0x[0-9a-f]+", found[2])]
    assert len(entries) == int(found[1])
    expected = witness.gaussian_table(deviation, bits, len(entries) + 1)
    assert max(abs(a - b) for a, b in zip(entries, expected, strict=False)) <= 1
    # What lies beyond the last entry has less than one part.
    assert 2**bits - expected[-1] <= 1


def test_the_secret_is_ternary_and_openfhes_file_has_the_same(owner: Owner) -> None:
    n = owner.params.ring_dim
    weights = [int(np.abs(each).sum()) for each in owner.secrets]
    if len(owner.secrets) == 2:
        assert weights[1] == 32
    assert abs(weights[0] - 2 * n / 3) < 10 * math.sqrt(n * 2 / 9)
    rows = owner.rows("secret.key")
    assert len(rows) == owner.params.num_q
    for each in (rows[0], rows[-1]):
        assert (witness.coefficients(each) == owner.secrets[0]).all()


def test_the_witness_opens_what_the_client_seals(tmp_path: Path) -> None:
    """At the client's own cost, both secrets of a pair."""
    pair = client.KeyPair.generate(catalogue.get("insecure-similarity"), threads=1)
    pair.save(tmp_path / "open")
    pair.save(tmp_path / "sealed", passphrase=PHRASE)
    content = (tmp_path / "sealed" / "secret.pskey").read_bytes()
    assert struct.unpack("<3I", content[72:84]) == (64 << 10, 3, 4)
    assert witness.opened(content, PHRASE) == (tmp_path / "open" / "secret.pskey").read_bytes()


def test_the_client_opens_what_the_witness_seals(owner: Owner) -> None:
    """At the least cost that it takes, so that changed files and a wrong passphrase can be tried, too."""
    folder = owner.folder / "pair"
    file = folder / "secret.pskey"
    unsealed = file.read_bytes()
    values = np.linspace(-1, 1, owner.params.slots)
    ciphertext = owner.pair.encrypt(values)
    cost, salt, nonce = (8 << 10, 1, 2), bytes(range(16)), bytes(range(16, 40))
    content = witness.sealed(unsealed, PHRASE, cost, salt, nonce)
    try:
        file.write_bytes(content)
        kept = client.KeyPair.load(folder, owner.params, passphrase=PHRASE, threads=1)
        found, expected = (pair.decrypt(ciphertext, result_for="owner") for pair in (kept, owner.pair))
        assert np.array_equal(found, expected)
    finally:
        file.write_bytes(unsealed)
    assert witness.opened(content, PHRASE) == unsealed
    # The header, the coefficients and the tag of the seal.
    for at in (16, 124, len(content) - 33):
        changed = bytearray(content[:-32])
        changed[at] ^= 1
        with pytest.raises(ValueError, match="the tag differs"):
            witness.opened(witness.with_checksum(bytes(changed)), PHRASE)
    with pytest.raises(ValueError, match="the tag differs"):
        witness.opened(content, PHRASE + b" ")


def test_the_public_key_hides_a_fresh_error_under_a_uniform_half(owner: Owner) -> None:
    content = (owner.folder / "pair" / "public.ppkey").read_bytes()
    b, a = witness.public_rows(content, owner.moduli)
    assert [row[1].tolist() for row in b + a] == [row[1].tolist() for row in owner.rows("public.key")]
    assert is_error(witness.phase(b + a, owner.secrets[0]))


@pytest.mark.parametrize("name", ["relin", "rot:5", "conj"])
def test_an_evaluation_key_hides_a_fresh_error_at_each_digit(owner: Owner, name: str) -> None:
    secret, params = owner.secrets[0], owner.params
    a, b, moduli = owner.key(name)
    per_digit = -(-params.num_q // params.dnum)
    special = math.prod(moduli[params.num_q :])
    galois_element = {"rot:5": 5, "conj": 2 * params.ring_dim - 1}.get(name, 1)
    to = witness.turned(secret, pow(galois_element, -1, 2 * params.ring_dim))
    errors = []
    for digit in range(params.dnum):
        found = []
        for limb in (0, params.num_q - 1, len(moduli) - 1):
            at, modulus = digit * len(moduli) + limb, moduli[limb]
            s = witness.evaluations(secret, modulus)
            rest = b[at][1] + a[at][1] * witness.evaluations(to, modulus)
            if limb < params.num_q and limb // per_digit == digit:
                rest -= special * (s * s if name == "relin" else s)
            found.append(witness.coefficients((modulus, rest % modulus)))
        assert all((each == found[0]).all() for each in found)
        assert is_error(found[0])
        errors.append(tuple(found[0]))
    assert len(set(errors)) == params.dnum


def ciphertext_rows(content: bytes, ring_dim: int) -> list[witness.Row]:
    """The rows of OpenFHE's bytes, or of a seeded ciphertext of ours."""
    if not content.startswith(b"PSTKSCT\n"):
        return witness.rows_of(content, ring_dim)
    version, prefix, n, limbs, _, _ = struct.unpack("<6I", content[8:32])
    assert (version, n) == (1, ring_dim)
    seed, moduli = content[40:72], list(struct.unpack(f"<{limbs}Q", content[72 : 72 + 8 * limbs]))
    at = 72 + 8 * limbs + prefix + -prefix % 8
    words = np.frombuffer(content[at : at + 8 * n * limbs], "<u8").reshape(limbs, n).astype(object)
    assert len(content) == at + 8 * n * limbs + 8
    uniform = [np.array(witness.expanded(seed, 0, k, q, n), dtype=object) for k, q in enumerate(moduli)]
    return [*zip(moduli, words, strict=True), *zip(moduli, uniform, strict=True)]


def decrypted(owner: Owner, content: bytes, scale: float) -> np.ndarray:
    rows = ciphertext_rows(content, owner.params.ring_dim)
    return witness.slots_of(witness.phase(rows, owner.secrets[0]), scale, owner.params.slots)


@pytest.mark.parametrize("way", ["encrypt", "encrypt_seeded"])
def test_the_witness_decrypts_what_the_client_encrypts(owner: Owner, way: str) -> None:
    values = np.random.default_rng(5).uniform(-1, 1, owner.params.slots)
    for limbs in (owner.params.num_q, 1):
        content = getattr(owner.pair, way)(values, limbs=limbs)
        found = decrypted(owner, content, owner.scale(limbs))
        bound = 40 * owner.params.ring_dim / owner.scale(limbs)
        assert np.abs(found - values).max() < bound
        if way == "encrypt":
            assert np.abs(found - owner.pair.decrypt(content, result_for="owner")).max() < bound


def test_the_witness_decrypts_what_a_server_computes(tmp_path: Path) -> None:
    """A product, a rotation and a conjugation, with keys from seeds in a store."""
    params = catalogue.get("insecure-small")
    owner = Owner(client.KeyPair.generate(params, threads=1), tmp_path / "owner")
    values = np.random.default_rng(6).uniform(-1, 1, params.slots)

    def program(ev: Any) -> Any:
        x = ev.encrypt(values, name="x")
        return [ev.decrypt(each) for each in (ev.rescale(ev.square(x)), ev.rotate(x, 3), ev.conjugate(x))]

    with PackageFile(tmp_path / "p.pkg") as file:
        file.finish(capture(program, params, file, "p"))
    owner.pair.add_keys(KeyStore(tmp_path / "keys"), ps.package_keys(tmp_path / "p.pkg"))
    with ps.package_server(tmp_path / "p.pkg", tmp_path / "keys") as server:
        results = server.run({"x": owner.pair.encrypt_seeded(values)})
    for content, expected in zip(results.values(), (values**2, np.roll(values, -3), values), strict=True):
        found = owner.pair.decrypt(content, result_for="owner")
        scale = owner.scale(params.num_q)
        if len(ciphertext_rows(content, params.ring_dim)) < 2 * params.num_q:
            scale *= scale / owner.moduli[-1]
        assert np.abs(decrypted(owner, content, scale) - found).max() < 1e-9
        assert np.abs(found - expected).max() < 1e-3

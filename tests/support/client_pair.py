"""Penstock's client beside OpenFHE on one key pair, and the slow twins of both."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.openfhe.evaluator import OpenFheContext, load_openfhe
from penstock.runtime.client import KeyPair
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.primes import openfhe_primes
from support.openfhe_key import write_openfhe_key


class Sides:
    """One pair that OpenFHE made, in both libraries."""

    def __init__(self, params: CkksParameters, threads: int | None = None) -> None:
        self.fhe = load_openfhe()
        self.params = params
        self.q, self.p = openfhe_primes(params)
        self.openfhe = OpenFheContext.create(params, relinearize=False)
        self.cc = self.openfhe.context
        self._folder = tempfile.TemporaryDirectory()
        self.folder = Path(self._folder.name)
        self.secret_bytes = self.bytes(self.openfhe.secret_key)
        self.public_bytes = self.bytes(self.openfhe.public_key)
        (self.folder / "secret.key").write_bytes(self.secret_bytes)
        (self.folder / "public.key").write_bytes(self.public_bytes)
        self.ours = KeyPair.from_openfhe(self.folder, params, threads=threads)
        self.secret_rows = rows_of(self.secret_bytes, params.ring_dim, self.q)[0]

    def release(self) -> None:
        """Free OpenFHE's keys and the files."""
        self.openfhe.release()
        self._folder.cleanup()

    def bytes(self, thing: Any) -> bytes:
        """As OpenFHE serializes it."""
        return bytes(self.fhe.Serialize(thing, self.fhe.BINARY))

    def values(self, rng: np.random.Generator) -> np.ndarray:
        """A random vector."""
        return rng.uniform(-1, 1, self.params.slots)

    def encrypted(self, values: np.ndarray, limbs: int | None = None) -> Any:
        """OpenFHE's ciphertext."""
        level = self.params.num_q - (limbs or self.params.num_q)
        return self.cc.Encrypt(self.openfhe.public_key, self.openfhe.plaintext(values, 1, level))

    def read(self, content: bytes) -> Any:
        """OpenFHE's ciphertext of our bytes."""
        return self.fhe.DeserializeCiphertextString(content, self.fhe.BINARY)

    def decrypted(self, ciphertext: Any) -> np.ndarray:
        """OpenFHE's slots."""
        limbs = self.params.num_q - ciphertext.GetLevel()
        return self.openfhe.slots_of(self.openfhe.decrypt(ciphertext, limbs))

    def our_key(self, key: str) -> Any:
        """A key that ours made, as OpenFHE's object: an EvalKeyMap, or the relinearization key."""
        path = self.folder / "one.key"
        write_openfhe_key(self.ours, key, path)
        if key == "relin":
            made, read = self.fhe.DeserializeEvalKey(str(path), self.fhe.BINARY)
        else:
            made, read = self.fhe.DeserializeEvalKeyMap(str(path), self.fhe.BINARY)
        assert read
        return made


def rows_of(content: bytes, ring_dim: int, moduli: tuple[int, ...]) -> list[np.ndarray]:
    """The polynomials in OpenFHE's bytes, (limbs, N) uint64 each: found by N in front and the modulus behind."""
    size, mark = 8 * ring_dim, ring_dim.to_bytes(8, "little")
    found, at = [], 0
    while (at := content.find(mark, at)) >= 0:
        behind = at + 8 + size
        modulus = moduli[len(found) % len(moduli)]
        if content[behind : behind + 8] == modulus.to_bytes(8, "little"):
            found.append(np.frombuffer(content, "<u8", ring_dim, at + 8))
            at = behind
        else:
            at += 1
    assert found
    assert len(found) % len(moduli) == 0
    return [np.stack(found[k : k + len(moduli)]) for k in range(0, len(found), len(moduli))]


def without_rows(content: bytes, ring_dim: int, moduli: tuple[int, ...]) -> bytes:
    """Everything but the words of the rows."""
    rest, at = b"", 0
    for polynomial in rows_of(content, ring_dim, moduli):
        for row in polynomial:
            place = content.index(row.tobytes(), at)
            rest += content[at:place]
            at = place + 8 * ring_dim
    return rest + content[at:]


def product(a: np.ndarray, b: np.ndarray, moduli: tuple[int, ...]) -> np.ndarray:
    """`a * b` of evaluations, (limbs, N): the slow twin."""
    limbs = zip(a.astype(object), b.astype(object), moduli, strict=False)
    return np.stack([(x * y % q).astype(np.uint64) for x, y, q in limbs])


def total(a: np.ndarray, b: np.ndarray, moduli: tuple[int, ...]) -> np.ndarray:
    """`a + b` of evaluations, (limbs, N)."""
    limbs = zip(a.astype(object), b.astype(object), moduli, strict=False)
    return np.stack([((x + y) % q).astype(np.uint64) for x, y, q in limbs])


def phase_of(content: bytes, secret_rows: np.ndarray, ring_dim: int, moduli: tuple[int, ...]) -> np.ndarray:
    """`c0 + c1 s` of a ciphertext in OpenFHE's bytes, by Python's integers."""
    first, second = rows_of(content, ring_dim, moduli)
    return total(first, product(second, secret_rows[: len(moduli)], moduli), moduli)

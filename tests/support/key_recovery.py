"""The attack of Li and Micciancio (EUROCRYPT 2021, ePrint 2020/1533) on results that an owner hands on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from penstock.program.package.content import Package
from penstock.runtime.native.engine import make_context
from support import witness

if TYPE_CHECKING:
    from penstock.runtime.client import KeyPair

N, SLOTS, SCALE = 2**10, 2**9, 2.0**46
LIMBS = 2


@dataclass
class Attack:
    """An evaluator that sees ciphertexts, and the values that their owner hands on."""

    pair: KeyPair
    package: Package
    values: np.ndarray
    shared: dict[str, Any]
    primes: list[int] = field(init=False)

    def __post_init__(self) -> None:
        rows = witness.rows_of(self.pair.encrypt([0.0]), N)
        self.primes = [modulus for modulus, _ in rows[: len(rows) // 2]]

    def known(self) -> np.ndarray:
        """The secret's row at the first prime, to compare with: (c0 + c1 s - c0) / c1."""
        content = self.pair.encrypt_seeded([0.0])
        full = make_context(self.pair.params, 1).import_ciphertext(content)
        c0, c1 = (np.asarray(full.words(k)[0], dtype=object) for k in (0, 1))
        q = self.primes[0]
        phase = self.pair.phase(content)[0].astype(object)
        return np.array([(p - a) * pow(int(b), -1, q) % q for p, a, b in zip(phase, c0, c1, strict=True)], dtype=object)

    def fresh(self) -> bytes:
        return self.pair.encrypt(self.values, limbs=LIMBS)

    def with_rows(self, content: bytes, change: Callable[[int, int, np.ndarray], np.ndarray]) -> bytes:
        """The ciphertext with other rows: change(polynomial, modulus, row)."""
        changed, at, seen = bytearray(content), 0, 0
        while (at := content.find(N.to_bytes(8, "little"), at)) >= 0:
            end = at + 8 + 8 * N
            modulus = int.from_bytes(content[end : end + 8], "little")
            if modulus in self.primes:
                row = np.frombuffer(content[at + 8 : end], "<u8").astype(object)
                changed[at + 8 : end] = (change(seen // LIMBS, modulus, row) % modulus).astype(np.uint64).tobytes()
                seen, at = seen + 1, end
            else:
                at += 1
        assert seen == 2 * LIMBS
        return bytes(changed)

    def times(self, content: bytes, number: int) -> bytes:
        return self.with_rows(content, lambda _, modulus, row: row * number)

    def recovered(self, results: list[tuple[bytes, float]], repeats: int = 1) -> float:
        """Share of the secret that two results give. results: ciphertexts, each with the scale of its values."""
        equations = []
        for content, scale in results:
            answers = [self.pair.decrypt(content, **self.shared).real for _ in range(repeats)]
            equations.append(self.equation(content, np.mean(answers, axis=0), scale))
        q = self.primes[0]
        (a, a_mirror, x), (b, b_mirror, y) = equations
        determinants = (a * b_mirror - a_mirror * b) % q
        inverses = np.array([pow(int(each), -1, q) if each else 0 for each in determinants], dtype=object)
        found = (x * b_mirror - a_mirror * y) % q * inverses % q
        return float(np.mean(found == self.known()))

    def equation(self, content: bytes, seen: np.ndarray, scale: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """c1 s + c1' s' = x at the roots of unity, s' being the mirror image of the secret."""
        rows = witness.rows_of(content, N)
        c0, c1 = (rows[polynomial * len(rows) // 2][1] for polynomial in (0, 1))
        places = np.array([pow(5, k, 2 * N) for k in range(SLOTS)])
        full = np.zeros(2 * N, dtype=complex)
        full[places] = full[-places % (2 * N)] = seen
        # The real parts are the values of (p + p(1/X)) / 2.
        doubled = np.rint(2 * np.fft.fft(full)[:N].real / N * scale).astype(np.int64).astype(object)
        mirror = self.mirror()
        row = witness.evaluations(doubled, self.primes[0])
        return c1, c1[mirror], (row - c0 - c0[mirror]) % self.primes[0]

    def mirror(self) -> np.ndarray:
        """The place of the inverse of each root of unity."""
        order = np.array([int(f"{k:0{N.bit_length() - 1}b}"[::-1], 2) for k in range(N)])
        place = np.empty(N, dtype=int)
        place[order] = np.arange(N)
        return place[N - 1 - order]

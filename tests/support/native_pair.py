"""One set of parameters in OpenFHE and in the native evaluator, side by side."""

from __future__ import annotations

from dataclasses import dataclass
from types import ModuleType
from typing import Any

import numpy as np

from penstock import _engine
from support.engine_calls import Calls

STEPS = (1, -2, 5)
TECHNIQUES = {
    "fixed-manual": "FIXEDMANUAL",
    "fixed-auto": "FIXEDAUTO",
    "flexible-auto": "FLEXIBLEAUTO",
    "flexible-auto-ext": "FLEXIBLEAUTOEXT",
}


@dataclass(frozen=True)
class Set:
    """Insecure parameters: OpenFHE is told not to check them."""

    log_ring_dim: int
    depth: int
    dnum: int
    scale_bits: int = 50
    scaling: str = "flexible-auto"
    slots: int | None = None
    first_bits: int = 60
    complex_values: bool = False
    path: str | None = None
    threads: int = 1

    def __str__(self) -> str:
        values = "-complex" if self.complex_values else ""
        path = self.path or "fastest"
        size = f"2^{self.log_ring_dim}-depth{self.depth}-dnum{self.dnum}"
        return f"{size}-{self.scale_bits}bit-{self.scaling}{values}-{path}"


class Pair:
    """Contexts, keys and two ciphertexts of both; OpenFHE's objects in capitals."""

    def __init__(self, fhe: ModuleType, given: Set) -> None:
        self.fhe, self.given = fhe, given
        self.ring_dim = 1 << given.log_ring_dim
        self.slots = given.slots or self.ring_dim // 2
        self.num_q = given.depth + 1 + (given.scaling == "flexible-auto-ext")
        self.cc = self._context()
        pair = self.cc.KeyGen()
        self.public_key, self.secret_key = pair.publicKey, pair.secretKey
        self._keys()

        rng = np.random.default_rng(7)
        self.left, self.right = (rng.uniform(-1, 1, self.slots) for _ in range(2))
        if given.complex_values:
            self.left, self.right = self.left + 1j * self.right, self.right - 0.5j * self.left
        self.A, self.B = (self.encrypt(values) for values in (self.left, self.right))
        self.a, self.b = self.read(self.A), self.read(self.B)
        self.writer = _engine.CkksWriter(self.bytes(self.A))

    def _context(self) -> Any:
        wanted = self.fhe.CCParamsCKKSRNS()
        wanted.SetRingDim(self.ring_dim)
        wanted.SetBatchSize(self.slots)
        wanted.SetMultiplicativeDepth(self.given.depth)
        wanted.SetFirstModSize(self.given.first_bits)
        wanted.SetScalingModSize(self.given.scale_bits)
        wanted.SetNumLargeDigits(self.given.dnum)
        wanted.SetScalingTechnique(getattr(self.fhe, TECHNIQUES[self.given.scaling]))
        wanted.SetKeySwitchTechnique(self.fhe.HYBRID)
        wanted.SetSecurityLevel(self.fhe.HEStd_NotSet)
        if self.given.complex_values:
            wanted.SetCKKSDataType(self.fhe.COMPLEX)
        context = self.fhe.GenCryptoContext(wanted)
        for feature in (self.fhe.PKE, self.fhe.KEYSWITCH, self.fhe.LEVELEDSHE, self.fhe.ADVANCEDSHE):
            context.Enable(feature)
        return context

    def _keys(self) -> None:
        tag = self.secret_key.GetKeyTag()
        self.cc.EvalMultKeyGen(self.secret_key)
        self.cc.EvalRotateKeyGen(self.secret_key, list(STEPS))
        self.conjugation = 2 * self.ring_dim - 1
        self.cc.EvalAutomorphismKeyGen(self.secret_key, [self.conjugation])
        self.KEYS = self.cc.GetEvalAutomorphismKeyMap(tag)
        self.key_bytes = self.bytes(self.KEYS)
        self.relin_bytes = self.bytes(self.cc.GetEvalMultKeyVector(tag)[0])
        ring_dim, moduli, digits, named = _engine.ckks_describe_keys(self.key_bytes)
        assert ring_dim == self.ring_dim
        assert {key_tag for _, key_tag in named} == {tag}
        context = _engine.CkksContext(
            ring_dim=ring_dim,
            moduli_q=moduli[: self.num_q],
            moduli_p=moduli[self.num_q :],
            dnum=digits,
            scaling=self.given.scaling,
            scale_bits=self.given.scale_bits,
            threads=self.given.threads,
            path=self.given.path,
        )
        self.native = Calls(context)
        self.keys = self.native.import_automorphism_keys(self.key_bytes)
        self.relin = self.native.import_key(self.relin_bytes)
        self.moduli = moduli

    def release(self) -> None:
        self.fhe.ClearEvalMultKeys()
        self.fhe.CryptoContext.ClearEvalAutomorphismKeys()
        self.fhe.ReleaseAllContexts()

    def bytes(self, thing: Any) -> bytes:
        return bytes(self.fhe.Serialize(thing, self.fhe.BINARY))

    def read(self, ciphertext: Any) -> _engine.CkksCiphertext:
        return self.native.import_ciphertext(self.bytes(ciphertext))

    def encode(self, values: Any, limbs: int, degree: int = 1) -> tuple[Any, _engine.CkksPlaintext]:
        plain = self.cc.MakeCKKSPackedPlaintext(values.tolist(), degree, self.num_q - limbs, None, self.slots)
        return plain, self.native.encode(values.astype(np.complex128), limbs, degree, self.slots)

    def encrypt(self, values: Any) -> Any:
        return self.cc.Encrypt(self.public_key, self.cc.MakeCKKSPackedPlaintext(values.tolist()))

    @property
    def levels(self) -> list[int]:
        """Limbs to compare at: the top, the next, the middle, and the last two."""
        return sorted({self.num_q, self.num_q - 1, max(2, self.num_q // 2), 2, 1}, reverse=True)

    def at(self, limbs: int) -> tuple[Any, Any, _engine.CkksCiphertext, _engine.CkksCiphertext]:
        """Both ciphertexts at so many limbs: `(A, B, a, b)`."""
        if self.given.scaling != "fixed-manual":
            lower = [self.cc.Compress(x, limbs) for x in (self.A, self.B)]
            ours = [self.native.rescale_and_drop(x, limbs) for x in (self.a, self.b)]
        elif limbs == self.num_q:
            return self.A, self.B, self.a, self.b
        else:
            lower = [self.cc.LevelReduce(x, None, self.num_q - limbs) for x in (self.A, self.B)]
            ours = [self.native.mod_drop(x, limbs) for x in (self.a, self.b)]
        return lower[0], lower[1], ours[0], ours[1]

    def assert_same(self, ours: _engine.CkksCiphertext, theirs: Any) -> None:
        """Every word of every limb, and what the header says."""
        expected = self.read(theirs)
        assert (ours.limbs, ours.polynomials) == (expected.limbs, expected.polynomials)
        for k in range(ours.polynomials):
            np.testing.assert_array_equal(ours.words(k), expected.words(k))
        assert (ours.degree, ours.slots) == (expected.degree, expected.slots)
        # OpenFHE loses the scale (0) of a product with a plaintext at the last limb.
        assert expected.scale in (0, ours.scale)

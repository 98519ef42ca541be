"""The client in Rust (crates/penstock-client). The interpreter's lock is released in every call that computes.

Raises: `ClientError` and its subclasses; `penstock.runtime.client` turns them into those of `penstock.errors`.
"""

from typing import final

import numpy as np
import numpy.typing as npt

__all__ = [
    "ClientError",
    "Damaged",
    "EvaluationKey",
    "Other",
    "Passphrase",
    "PublicKey",
    "Ring",
    "SecretKey",
    "__version__",
    "expand",
    "samples",
]

__version__: str

class ClientError(Exception):
    """A refusal; the message says what, where, the rule and the remedy."""

class Damaged(ClientError):
    """A file of a key pair is not whole, or of a later version."""

class Other(ClientError):
    """A key of other parameters, or of another key pair."""

class Passphrase(ClientError):
    """A sealed file without its passphrase, or with another."""

def expand(seed: bytes, digit: int, limb: int, modulus: int, words: npt.NDArray[np.uint64]) -> None:
    """Fill `words` with the residues of a seed at (digit, limb): `penstock_seed::expand`."""

def samples(kind: str, count: int) -> npt.NDArray[np.int64]:
    """New draws, for tests of a distribution: `ternary`, `error`, or `sparse` (`count` coefficients of one secret)."""

@final
class SecretKey:
    """A secret key. It cannot be printed, copied or pickled, and is wiped when it goes."""

    tag: str
    """The name of the key pair: 32 hexadecimal digits."""
    is_locked: bool
    """Whether the system keeps it out of the swap."""

@final
class PublicKey:
    """A public key."""

    tag: str

@final
class Ring:
    """The parameters of a client with their tables. It holds no secret.

    Args:   slots: values of a plaintext. depth: as OpenFHE was asked. secret: `uniform-ternary`, `sparse-ternary` or
            `sparse-encapsulated`. security: 128, 192, 256, or `None`. limbs: of a ciphertext.
    """

    def __new__(
        cls,
        *,
        ring_dim: int,
        moduli_q: list[int],
        moduli_p: list[int],
        dnum: int,
        scaling: str,
        scale_bits: int,
        slots: int,
        depth: int,
        secret: str,
        security: int | None,
        threads: int = 1,
    ) -> Ring: ...
    def generate_secret(self) -> SecretKey: ...
    def generate_public(self, secret: SecretKey) -> PublicKey: ...
    def write_secret(self, secret: SecretKey, path: str, passphrase: bytes | None = None) -> None:
        """A new file of mode 0600."""

    def read_secret(self, path: str, passphrase: bytes | None = None) -> SecretKey: ...
    def write_public(self, public: PublicKey, path: str) -> None: ...
    def read_public(self, path: str) -> PublicKey: ...
    def secret_from_openfhe(self, path: str) -> SecretKey: ...
    def public_from_openfhe(self, content: bytes) -> PublicKey: ...
    def secret_to_openfhe(self, secret: SecretKey, path: str) -> None:
        """A new file of mode 0600."""

    def public_to_openfhe(self, public: PublicKey, path: str) -> None: ...
    def is_pair(self, public: PublicKey, secret: SecretKey) -> bool: ...
    def encrypt(self, public: PublicKey, values: npt.NDArray[np.complex128], limbs: int, degree: int = 1) -> bytes:
        """A ciphertext in OpenFHE's bytes."""

    def encrypt_seeded(
        self, secret: SecretKey, values: npt.NDArray[np.complex128], limbs: int, degree: int = 1
    ) -> bytes:
        """A ciphertext of half the bytes, which penstock's evaluator reads."""

    def check_result(self, secret: SecretKey, ciphertext: bytes, stated: tuple[int, int, float, int]) -> None:
        """Hold a result to its header, without decrypting it."""

    def decrypt(
        self,
        secret: SecretKey,
        ciphertext: bytes,
        *,
        stated: tuple[int, int, float, int] | None = None,
        flooding: float | None = None,
        keep_imaginary: bool = False,
    ) -> npt.NDArray[np.complex128]:
        """The slots. `stated`: limbs, degree, scale and slots of the result's program; without it the header is held
        against the set. `flooding`: the standard deviation of noise on each coefficient. `keep_imaginary`: nothing
        tells how much of imaginary parts is error."""

    def encrypt_polynomials(
        self, secret: SecretKey, coefficients: npt.NDArray[np.int64], out: npt.NDArray[np.uint64]
    ) -> bytes:
        """Encrypt polynomials of signed coefficients below 2^51 at one limb, (rows * N,): `out` gets the halves that
        are not uniform, and the seed of the others is returned, row k at digit k."""

    def phase(self, secret: SecretKey, ciphertext: bytes) -> npt.NDArray[np.uint64]:
        """`c0 + c1 s (+ c2 s^2)`, (limbs, N), in evaluation order. For tests: it tells the error."""

    def generate_key(self, secret: SecretKey, key: str, limbs: int, seeded: bool) -> EvaluationKey:
        """A new evaluation key: `relin`, `conj`, `rot:<galois_element>`."""

    def generate_key_from_small(
        self, secret: SecretKey, small: SecretKey, squared: bool, seeded: bool = True
    ) -> EvaluationKey:
        """The key from the secret of a smaller ring in X^(N/n), or from its square, to this pair's ephemeral secret."""

    def key_to_openfhe(self, key: EvaluationKey, path: str) -> None:
        """As OpenFHE writes it: an EvalKeyMap of one, or the relinearization key. Whole keys only."""

@final
class EvaluationKey:
    """An evaluation key in memory. It is public."""

    def write(self, tenant: str, path: str) -> int:
        """A segment of a key store; its bytes."""

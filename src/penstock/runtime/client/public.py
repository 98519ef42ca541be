"""A public key alone: what its owner gives to those who encrypt for them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from penstock.program.evaluator.protocol import Values
from penstock.runtime.client.engine import client_errors, encodable, make_ring
from penstock.runtime.keystore.pairs import PAIRS
from penstock.scheme.params.ckks import CkksParameters

if TYPE_CHECKING:
    import penstock_client


class PublicKey:
    """The public half of a pair. It encrypts, and cannot decrypt.

    >>> import tempfile
    >>> from penstock.runtime.client import KeyPair
    >>> from penstock.scheme.params import catalogue
    >>> params = catalogue.get("insecure-ci")
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     pair = KeyPair.generate(params)
    ...     made = pair.save(Path(folder) / "alice")
    ...     content = PublicKey.load(Path(folder) / "alice", params).encrypt([0.5])
    >>> round(float(pair.decrypt(content, result_for="owner")[0].real), 4)
    0.5
    """

    def __init__(self, params: CkksParameters, ring: penstock_client.Ring, public: penstock_client.PublicKey) -> None:
        self.params = params
        self._ring, self._public = ring, public

    @classmethod
    def load(cls, place: Path, params: CkksParameters, *, threads: int | None = None) -> PublicKey:
        """The public key of a file, or of a pair's folder; the secret key is not read.

        Raises: KeyPairDamaged, KeyPairRefused: not a whole public key of these parameters. FileError: it cannot be
                read.
        """
        file = place / PAIRS["penstock"].public if place.is_dir() else place
        ring = make_ring(params, threads)
        with client_errors(file):
            return cls(params, ring, ring.read_public(str(file)))

    @property
    def tag(self) -> str:
        """The name of the pair."""
        return self._public.tag

    def encrypt(self, values: Values | list[float], *, limbs: int | None = None, degree: int = 1) -> bytes:
        """As `KeyPair.encrypt`."""
        with client_errors():
            given, limbs = encodable(values, self.params.slots), limbs or self.params.num_q
            return self._ring.encrypt(self._public, given, limbs, degree)

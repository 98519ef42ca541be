"""Penstock's client as the client library of native runs (`penstock.runtime.native.client.LIBRARIES`)."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from penstock.program.evaluator.protocol import Values
from penstock.runtime.client.engine import load_client
from penstock.runtime.client.pair import FILES, OWNER, KeyPair
from penstock.runtime.client.passphrase import passphrase_of
from penstock.runtime.native.client import Decrypted, Encrypted
from penstock.scheme.params.ckks import CkksParameters


def require() -> None:
    """Raises: CapabilityMissing: the client cannot be imported."""
    load_client()


def open_client(params: CkksParameters, folder: Path | None, threads: int | None) -> PenstockClient:
    """As `penstock.runtime.native.client.open_client`."""
    started = time.perf_counter()
    pair = _pair(params, folder, threads)
    return PenstockClient(pair, {"context_s": time.perf_counter() - started})


def _pair(params: CkksParameters, folder: Path | None, threads: int | None) -> KeyPair:
    """The pair in a folder; a new one is sealed, and a sealed one opened, with the environment's passphrase."""
    if folder is None:
        return KeyPair.generate(params, threads=threads)
    passphrase = passphrase_of()
    if not FILES.lie_in(folder):
        made = KeyPair.generate(params, threads=threads)
        if made.save(folder, passphrase=passphrase):
            return made
        # Another process was first.
    return KeyPair.load(folder, params, passphrase=passphrase, threads=threads)


class PenstockClient:
    """Penstock's client in this process: keys are seeded, and as long as their highest use; inputs are seeded.

    It decrypts for the owner of the key alone. It is told of no program: headers are held against the parameter set.
    """

    library = "penstock"

    def __init__(self, pair: KeyPair, setup_s: dict[str, float]) -> None:
        self.pair, self.params, self.setup_s = pair, pair.params, setup_s

    @property
    def key_tag(self) -> str:
        return self.pair.tag

    def make_keys(self, keys: Mapping[str, int], folder: Path, tenant: str, take: Callable[[str, Path], None]) -> None:
        """Segments of a key store."""
        path = folder / "made.pkey"
        for key, limbs in keys.items():
            try:
                self.pair.write_key(key, path, tenant=tenant, limbs=limbs)
                take(key, path)
            finally:
                path.unlink(missing_ok=True)

    def encrypt(self, values: Values) -> Encrypted:
        begun = time.perf_counter()
        content = self.pair.encrypt_seeded(values)
        ended = time.perf_counter()
        # Encoding is a part of the call.
        return Encrypted(content=content, begun_s=begun, encoded_s=begun, ended_s=ended)

    def decrypt(self, content: bytes, *, is_complex: bool = False) -> Decrypted:
        begun = time.perf_counter()
        decrypt = self.pair.decrypt_complex if is_complex else self.pair.decrypt
        values = decrypt(content, result_for=OWNER)
        return Decrypted(values=values, begun_s=begun, ended_s=time.perf_counter())

    def release(self) -> None:
        """The pair goes with this object."""

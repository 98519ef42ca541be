"""Small similarity searches for tests: data as the benchmark makes it, an owner, a database and its server."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.database.similarity.scheme import PAYLOAD, THRESHOLD, large_parameters
from penstock.runtime.keystore import KeyStore
from penstock.runtime.similarity.owner import Owner
from penstock.runtime.similarity.server import Server

DIM = 32


def unit(values: Any) -> Any:
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def data(records: int, seed: int = 0) -> tuple[Any, Any, Any]:
    """Records of which half lie near centres, as the benchmark makes them, payloads, and a query near a centre."""
    rng = np.random.default_rng(seed)
    centres = unit(rng.standard_normal((max(1, records // 32), DIM)))
    noise = unit(rng.standard_normal((records, DIM)))
    near = rng.integers(0, 2, records)[:, None]
    chosen = centres[rng.integers(0, len(centres), records)]
    made = unit(np.where(near, chosen + 0.3 * noise, noise))
    payloads = rng.integers(0, 4095, (records, PAYLOAD)).astype(np.int16)
    return made, payloads, unit(centres[0] + 0.3 * unit(rng.standard_normal(DIM)))


def expected(records: Any, payloads: Any, query: Any) -> Any:
    found = payloads[records @ query > THRESHOLD]
    return found[np.lexsort(found.T[::-1])]


class Searched:
    """A database of `records` records with its owner and its server. `matching`: the query matches all of them."""

    def __init__(
        self, folder: Path, ring_dim: int, records: int, *, payloads: bool = True, matching: bool = False
    ) -> None:
        params = large_parameters(ring_dim, security=0)
        self.folder = folder
        self.records, self.payloads, self.query = data(records)
        if matching:
            self.records = unit(self.query + 0.3 * self.records)
        self.owner = Owner.generate(params, small_dim=ring_dim // 16)
        self.layout = self.owner.layout(records, DIM)
        self.owner.make_keys(self.layout, KeyStore(folder / "keys"))
        self.owner.encrypt_database(self.records, self.payloads if payloads else None, folder / "database")
        self.server = Server(folder / "keys", folder / "database", params=params)

    @property
    def expected(self) -> Any:
        """The payloads of the matches of its query."""
        return expected(self.records, self.payloads, self.query)

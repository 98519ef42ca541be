"""What the steps of the submission share: the folders of the official harness, and its sizes."""

from __future__ import annotations

import argparse
import json
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penstock.program.database.similarity.scheme import PAYLOAD, SIZES, Instance

NAMES = tuple(SIZES)
MEMORY = "SIMILARITY_MEMORY"
"""The environment's variable for the memory of the server's process."""


@dataclass(frozen=True)
class Places:
    """The folders of one size, below the folder in which the harness runs.

    `io/SIZE/secret` is the client's alone: no step of the server opens it, and it may be moved away while one runs.
    """

    size: Instance
    count_only: bool
    memory: str | None
    """Of the server's process, as text with a unit; `None`: no limit."""

    @property
    def data(self) -> Path:
        return Path.cwd() / "datasets" / self.size.name

    @property
    def io(self) -> Path:
        return Path.cwd() / "io" / self.size.name

    @property
    def secret(self) -> Path:
        return Path(os.environ.get("SIMILARITY_SECRET", str(self.io / "secret")))

    @property
    def keys(self) -> Path:
        return self.io / "keys"

    @property
    def database(self) -> Path:
        return self.io / "ciphertexts_upload" / "database"

    @property
    def query(self) -> Path:
        return self.io / "ciphertexts_upload" / "query.bin"

    @property
    def result(self) -> Path:
        return self.io / "ciphertexts_download" / "results.bin"

    @property
    def decrypted(self) -> Path:
        """Between the last two steps."""
        return self.io / "decrypted.json"

    def records(self) -> np.ndarray:
        """(records, dim) float32, mapped."""
        return np.memmap(self.data / "db.bin", dtype=np.float32, mode="r").reshape(-1, self.size.dim)

    def payloads(self) -> np.ndarray:
        """(records, 7) int16."""
        return np.fromfile(self.data / "payloads.bin", dtype=np.int16).reshape(-1, PAYLOAD)


def places() -> Places:
    """The places of the size on the command line, which the harness gives by its number."""
    parser = argparse.ArgumentParser()
    parser.add_argument("size", type=int, choices=range(len(NAMES)), help="0 toy, 1 small, 2 medium, 3 large")
    parser.add_argument("--count_only", action="store_true", help="only the number of matches")
    parser.add_argument("--memory", default=os.environ.get(MEMORY), help="of the server's process, '8 GiB'")
    given, _ = parser.parse_known_args()
    return Places(SIZES[NAMES[given.size]], given.count_only, given.memory or None)


def fresh(path: Path) -> Path:
    """The path, with its folder made."""
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def write_json(path: Path, content: object) -> None:
    """A small file."""
    fresh(path).write_text(json.dumps(content))

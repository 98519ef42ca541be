"""What the steps of the submission share: the folders of the official harness, its sizes, and the package."""

from __future__ import annotations

import argparse
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

SIZES = {"single": 1, "small": 15, "medium": 1000, "large": 10000}
"""Size -> images of a query; the harness names one by its place."""
ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "model" / "mnist.pkg"
"""The program with its weights, which the build makes."""


@dataclass(frozen=True)
class Places:
    """The folders of one size. `secret` is the client's alone: no step of the server opens it."""

    name: str
    images: int

    @property
    def io(self) -> Path:
        return Path.cwd() / "io" / self.name

    @property
    def secret(self) -> Path:
        return Path(os.environ.get("ML_INFERENCE_SECRET", str(self.io / "secret")))

    @property
    def keys(self) -> Path:
        return self.io / "public_keys"

    @property
    def uploaded(self) -> Path:
        return self.io / "ciphertexts_upload"

    @property
    def downloaded(self) -> Path:
        return self.io / "ciphertexts_download"

    @property
    def pixels(self) -> Path:
        """One image a line, 784 numbers from 0 to 1."""
        return Path.cwd() / "datasets" / self.name / "intermediate" / "test_pixels.txt"

    @property
    def scores(self) -> Path:
        """(images, 10) decrypted scores, between the last two steps."""
        return self.io / "scores.npy"

    @property
    def predictions(self) -> Path:
        """One digit a line, as the harness reads them."""
        return self.io / "encrypted_model_predictions.txt"


def places() -> Places:
    """The places of the size on the command line."""
    parser = argparse.ArgumentParser()
    parser.add_argument("size", type=int, choices=range(len(SIZES)), help="0 single, 1 small, 2 medium, 3 large")
    name = list(SIZES)[parser.parse_args().size]
    return Places(name, SIZES[name])


def emptied(folder: Path) -> Path:
    """A folder without what an earlier run left in it."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)
    return folder


def ciphertexts(folder: Path) -> list[Path]:
    """The ciphertexts in a folder, in the order of their images."""
    return sorted(folder.glob("*.ct"))

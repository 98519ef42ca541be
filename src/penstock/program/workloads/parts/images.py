"""Images for the workloads: scikit-learn's bundled handwritten digits, and MNIST's IDX files that a user brings."""

from __future__ import annotations

import gzip
import math
import struct
import zlib
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats
from penstock.base.system import remedy
from penstock.base.system.files import os_errors
from penstock.base.system.outside import content_of, unpacked
from penstock.errors import CapabilityMissing, PenstockError, UsageError

SIDE = 14
"""HELR works on images of 14 x 14 = 196 features."""

MOST_IMAGE_BYTES = 256 * 2**20
"""Of a file of images, unpacked; MNIST's largest has 47 MB, CIFAR-10's 31 MB."""
MOST_DIMENSIONS = 8
_IDX_TYPES = {0x08: np.uint8}


@dataclass(frozen=True, slots=True)
class LabelledImages:
    """Images (n, side, side) in [0, 1] and labels (n,) of +1 and -1."""

    images: Floats
    labels: Floats
    description: str


def upsample(images: Floats, side: int) -> Floats:
    """Square images (n, s, s) as (n, side, side), bilinear with aligned corners.

    >>> upsample(np.array([[[0.0, 1.0], [0.0, 1.0]]]), 3)[0, 0].tolist()
    [0.0, 0.5, 1.0]
    """
    source = images.shape[1]
    at = np.linspace(0, source - 1, side)
    low = np.minimum(at.astype(int), source - 2)
    part = at - low
    rows = images[:, low, :] * (1 - part)[None, :, None] + images[:, low + 1, :] * part[None, :, None]
    return rows[:, :, low] * (1 - part) + rows[:, :, low + 1] * part


def bundled_digits(instead: str) -> tuple[Floats, npt.NDArray[np.int64]]:
    """scikit-learn's 1,797 handwritten digits: images (n, 8, 8) in [0, 1], and which digits they show (n,).

    Read as `sklearn.datasets.load_digits` reads them; importing that library takes 70 MB and most of a second.
    Raises: CapabilityMissing: scikit-learn is not installed; the message names `instead`, the user's own files.
    """
    package = find_spec("sklearn")
    if package is None or package.origin is None:
        raise CapabilityMissing(
            f"the bundled digits come with scikit-learn, which is not installed: {remedy.install('data')}; "
            f"or bring {instead}"
        )
    path = Path(package.origin).parent / "datasets" / "data" / "digits.csv.gz"
    with os_errors(path, "read"), gzip.open(path, "rt", encoding="ascii") as lines:
        table = np.loadtxt(lines, delimiter=",")
    return table[:, :-1].reshape(-1, 8, 8) / 16.0, table[:, -1].astype(np.int64)


def digits_odd_even() -> LabelledImages:
    """The 1,797 bundled 8 x 8 digits, upsampled to 14 x 14; odd digits +1, even ones -1.

    Raises: CapabilityMissing: scikit-learn is not installed.
    """
    images, digits = bundled_digits("MNIST's files with --data FOLDER")
    labels = np.where(digits % 2 == 1, 1.0, -1.0)
    return LabelledImages(upsample(images, SIDE), labels, "scikit-learn's handwritten digits, odd against even")


def read_idx(path: Path) -> npt.NDArray[np.uint8]:
    """An array from an IDX file, gzipped or not.

    Raises: UsageError: not an IDX file of bytes, or its length differs from its header; names the file and the rule.
    """
    if not path.exists():
        raise UsageError(f"{path} does not exist: --data names a folder with MNIST's IDX files")
    raw = content_of(path, MOST_IMAGE_BYTES)
    try:
        if raw[:2] == b"\x1f\x8b":
            raw = unpacked(path, raw, MOST_IMAGE_BYTES)
    except (OSError, EOFError, zlib.error) as error:
        raise PenstockError(f"{path} cannot be read: {error}; copy it again from its source") from error
    if len(raw) < 4 or raw[:2] != b"\0\0":
        raise UsageError(f"{path} is not an IDX file: it starts with {raw[:4].hex() or 'nothing'}, not with 0000")
    kind, rank = raw[2], raw[3]
    if kind not in _IDX_TYPES:
        raise UsageError(f"{path} holds IDX type 0x{kind:02x}; images and labels are unsigned bytes (0x08)")
    if not 0 < rank <= MOST_DIMENSIONS:
        raise UsageError(f"{path} states {rank} dimensions; images have three and labels one: it is corrupt")
    header = 4 + 4 * rank
    if len(raw) < header:
        raise UsageError(f"{path} ends inside its header: {len(raw)} bytes; copy it again from its source")
    shape = struct.unpack(f">{rank}I", raw[4:header])
    expected = header + math.prod(shape)
    if len(raw) != expected:
        raise UsageError(f"{path} has {len(raw)} bytes and its header ({shape}) says {expected}: truncated or corrupt")
    return np.frombuffer(raw, dtype=np.uint8, offset=header).reshape(shape)


def mnist_three_eight(folder: Path) -> LabelledImages:
    """MNIST's threes (+1) and eights (-1), 14 x 14 by averaging 2 x 2 pixels, as HELR uses them.

    Args:   folder: holds `train-images-idx3-ubyte` and `train-labels-idx1-ubyte`, gzipped or not.
    Raises: UsageError: a file is missing or malformed.
    """
    images, labels = (read_idx(_find(folder, stem)) for stem in ("train-images", "train-labels"))
    if images.ndim != 3 or images.shape[1:] != (28, 28):
        raise UsageError(f"{folder}: images have shape {images.shape}; MNIST's are (n, 28, 28)")
    if labels.shape != images.shape[:1]:
        raise UsageError(f"{folder}: {labels.shape} labels for {images.shape[0]} images")
    wanted = np.isin(labels, (3, 8))
    if not wanted.any():
        raise UsageError(f"{folder}: no image is labelled 3 or 8")
    pixels = images[wanted].astype(np.float64) / 255.0
    small = pixels.reshape(-1, SIDE, 2, SIDE, 2).mean(axis=(2, 4))
    return LabelledImages(small, np.where(labels[wanted] == 3, 1.0, -1.0), f"MNIST in {folder.name}, 3 against 8")


def _find(folder: Path, stem: str) -> Path:
    if not folder.is_dir():
        raise UsageError(f"{folder} is not a folder: --data names a folder with MNIST's IDX files")
    files = sorted(p for p in folder.iterdir() if p.name.startswith(stem) and "idx" in p.name)
    if not files:
        raise UsageError(f"{folder} has no '{stem}-idx…-ubyte' file (gzipped or not)")
    return files[0]

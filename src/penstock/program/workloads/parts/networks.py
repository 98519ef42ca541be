"""Neural networks of the workloads in the clear: weights, images, and the plain convolution that circuits are held to.

Images are (n, channels, side, side) float64. Convolutions are 3 x 3 with zeros around the image. Batch normalization
is folded into weights and biases when weights are loaded.
"""

from __future__ import annotations

import importlib
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from penstock.base.arrays import Floats
from penstock.base.system.outside import check_bytes, content_of
from penstock.errors import CapabilityMissing, UsageError
from penstock.program.workloads import Check
from penstock.program.workloads.parts.images import MOST_IMAGE_BYTES, bundled_digits, upsample

CLASSES = 10
COLOURS = 3
CIFAR_SIDE = 32
MOST_WEIGHT_BYTES = 2 * 2**30
"""Of a file of weights, unpacked; VGG-16's has half a gigabyte."""
CIFAR_RECORD = 1 + COLOURS * CIFAR_SIDE * CIFAR_SIDE
TEST_SHARE = 0.2
SPLIT_SEED = 2024
"""Training and test images are split once for all, so that no committed network has seen its test images."""
BATCH_NORM_EPSILON = 1e-5
MARGIN = 1.25
"""Interval of an activation over the largest input seen in training: outside it a Chebyshev series grows fast."""
LOGIT_TOLERANCE = 1e-3
"""Largest difference of a logit, in units of the largest logit."""
WEIGHTS = Path(__file__).parent / "weights"


# Images.
@dataclass(frozen=True, slots=True)
class ColourImages:
    """Images (n, 3, side, side) in [0, 1] and labels (n,) from 0 to 9."""

    images: Floats
    labels: npt.NDArray[np.int64]
    description: str


def digits_in_colour(side: int) -> tuple[ColourImages, ColourImages]:
    """Training and test images: the 1,797 bundled handwritten digits, upsampled to `side`, three equal channels.

    Raises: CapabilityMissing: scikit-learn is not installed.
    """
    grey, labels = bundled_digits("CIFAR-10's binary files with --data")
    grey = grey if side == grey.shape[1] else upsample(grey, side)
    images = np.repeat(grey[:, None], COLOURS, axis=1)
    order = np.random.default_rng(SPLIT_SEED).permutation(len(labels))
    cut = round(len(labels) * (1 - TEST_SHARE))
    return tuple(  # type: ignore[return-value]
        ColourImages(images[part], labels[part], f"scikit-learn's handwritten digits, {side} x {side}, {name}")
        for part, name in ((order[:cut], "training"), (order[cut:], "test"))
    )


def read_cifar10(path: Path, side: int = CIFAR_SIDE) -> ColourImages:
    """Images of one binary file of CIFAR-10 (`data_batch_1.bin`), or of `test_batch.bin` in a folder.

    A record is a label byte and 3 x 1,024 pixel bytes, red plane first, row by row. If `side` is smaller than 32 the
    pixels are averaged.
    Raises: UsageError: no such file, its length is not a whole number of records, or a label above 9; names file and
    rule.
    """
    if path.is_dir():
        files = sorted(path.glob("test_batch.bin")) or sorted(path.glob("data_batch_*.bin"))
        if not files:
            raise UsageError(f"{path} has no test_batch.bin or data_batch_*.bin: --data names CIFAR-10's binary files")
        path = files[0]
    if not path.exists():
        raise UsageError(f"{path} does not exist: --data names a binary file of CIFAR-10, or its folder")
    raw = content_of(path, MOST_IMAGE_BYTES)
    if not raw or len(raw) % CIFAR_RECORD:
        raise UsageError(
            f"{path} has {len(raw)} bytes; a binary file of CIFAR-10 is a whole number of records of {CIFAR_RECORD} "
            "bytes (a label and 3 x 32 x 32 pixels): truncated, or the Python or MATLAB version"
        )
    records = np.frombuffer(raw, dtype=np.uint8).reshape(-1, CIFAR_RECORD)
    labels = records[:, 0].astype(np.int64)
    if labels.max() >= CLASSES:
        at = int(np.argmax(labels >= CLASSES))
        raise UsageError(f"{path}: record {at} has label {labels[at]}; CIFAR-10's are 0 to 9 (is it CIFAR-100?)")
    images = records[:, 1:].reshape(-1, COLOURS, CIFAR_SIDE, CIFAR_SIDE).astype(np.float64) / 255.0
    if side != CIFAR_SIDE:
        by = CIFAR_SIDE // side
        images = images.reshape(-1, COLOURS, side, by, side, by).mean(axis=(3, 5))
    return ColourImages(images, labels, f"CIFAR-10, {path.name}")


# Weights.
def read_weights(path: Path) -> dict[str, Floats]:
    """Arrays by name from `.npz`, or from a PyTorch state dict (`.pt`, `.pth`).

    Raises: UsageError: no such file, or neither kind; CapabilityMissing: a state dict, and PyTorch is not installed.
    """
    if not path.is_file():
        raise UsageError(f"{path} does not exist: weights are an .npz file or a PyTorch state dict (.pt, .pth)")
    if path.suffix == ".npz":
        try:
            # numpy leaves the file open if it is not a zip archive.
            with path.open("rb") as file, zipfile.ZipFile(file) as listed:
                size = sum(member.file_size for member in listed.infolist())
            check_bytes(path, size, MOST_WEIGHT_BYTES, what=", unpacked,")
            with path.open("rb") as file, np.load(file, allow_pickle=False) as stored:
                return {name: np.asarray(stored[name], dtype=np.float64) for name in stored.files}
        except (ValueError, TypeError, OverflowError, MemoryError, OSError, EOFError, zipfile.BadZipFile) as error:
            raise UsageError(f"{path} is not an .npz file of numbers: {error}") from error
    if path.suffix not in (".pt", ".pth"):
        raise UsageError(f"{path}: weights are an .npz file or a PyTorch state dict (.pt, .pth), not '{path.suffix}'")
    try:
        torch = importlib.import_module("torch")
    except ImportError as error:
        raise CapabilityMissing(
            f"{path} is a PyTorch state dict and PyTorch is not installed: pip install torch, or save the weights as "
            ".npz where it is (numpy.savez(path, **{k: v.numpy() for k, v in model.state_dict().items()}))"
        ) from error
    try:
        stored = torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises what its unpickler meets
        raise UsageError(f"{path} is not a PyTorch state dict that loads with weights_only=True: {error}") from error
    stored = stored.get("state_dict", stored) if isinstance(stored, dict) else None
    if not stored:
        raise UsageError(f"{path} holds no state dict: save model.state_dict(), not the model")
    return {
        str(name).removeprefix("module."): value.double().numpy()
        for name, value in stored.items()
        if hasattr(value, "double")
    }


def folded(
    arrays: Mapping[str, Floats], conv: str, norm: str, shape: tuple[int, ...], where: str
) -> tuple[Floats, Floats]:
    """Weight and bias of a convolution with its batch normalization folded in (where it has one).

    Raises: UsageError: an array is missing or of another shape; names `where` they come from.
    """
    weight = array(arrays, f"{conv}.weight", shape, where)
    bias = array(arrays, f"{conv}.bias", shape[:1], where) if f"{conv}.bias" in arrays else np.zeros(shape[0])
    if f"{norm}.running_var" not in arrays:
        return weight, bias
    gain, shift, mean, variance = (
        array(arrays, f"{norm}.{part}", shape[:1], where) for part in ("weight", "bias", "running_mean", "running_var")
    )
    factor = gain / np.sqrt(variance + BATCH_NORM_EPSILON)
    return weight * factor[:, None, None, None], (bias - mean) * factor + shift


def array(arrays: Mapping[str, Floats], name: str, shape: tuple[int, ...], where: str) -> Floats:
    """The array `name`, checked.

    Raises: UsageError: missing, of another shape, or not finite.
    """
    if name not in arrays:
        raise UsageError(f"{where}: the weights have no '{name}' of shape {shape}; they hold {', '.join(arrays)}")
    value = np.asarray(arrays[name], dtype=np.float64)
    if value.shape != shape:
        raise UsageError(f"{where}: '{name}' has shape {value.shape}; this network takes {shape}")
    if not np.isfinite(value).all():
        raise UsageError(f"{where}: '{name}' holds numbers that are not finite")
    return value


# The plain network.
def convolve(x: Floats, weight: Floats, bias: Floats, stride: int = 1) -> Floats:
    """3 x 3 convolution of (n, c, s, s) with zeros around, (o, c, 3, 3) weights: (n, o, s/stride, s/stride)."""
    n, c, side, _ = x.shape
    around = np.pad(x, ((0, 0), (0, 0), (1, 1), (1, 1)))
    out = -(-side // stride)
    shifted = [around[:, :, i : i + side : stride, j : j + side : stride] for i in range(3) for j in range(3)]
    columns = np.stack(shifted, axis=2).transpose(0, 3, 4, 1, 2).reshape(n * out * out, c * 9)
    product = columns @ weight.reshape(len(weight), c * 9).T + bias
    return product.reshape(n, out, out, len(weight)).transpose(0, 3, 1, 2)


def relu(x: Floats) -> Floats:
    """max(x, 0)."""
    return np.maximum(x, 0.0)


def normalized(images: Floats) -> Floats:
    """Pixels of [0, 1] as the networks take them: in [-1, 1]."""
    return 2.0 * images - 1.0


def weights_beside(path: Path) -> Path:
    """The one weights file in the folder of a user's images: the committed weights know digits only.

    Raises: UsageError: none, or several.
    """
    folder = path if path.is_dir() else path.parent
    files = sorted(p for p in folder.iterdir() if p.suffix in (".npz", ".pt", ".pth")) if folder.is_dir() else []
    if len(files) != 1:
        raise UsageError(
            f"{folder} holds {len(files)} weight files (.npz, .pt, .pth); the committed weights know digits only: "
            "put the weights of one network for these images into the same folder"
        )
    return files[0]


def check_logits(clear: Floats, got: Floats, plain: Floats, label: int, numbers: Mapping[str, float]) -> Check:
    """Encrypted logits against the clear reading's, and these against the plain network's (n, 10)."""
    scale = max(1.0, float(np.max(np.abs(clear))))
    error, reference = float(np.max(np.abs(clear - got))), float(np.max(np.abs(clear - plain)))
    outcome = {
        "the class is that of the clear reading": int(np.argmax(got)) == int(np.argmax(clear)),
        f"logits differ by at most {LOGIT_TOLERANCE:g} of the largest": error <= LOGIT_TOLERANCE * scale,
        "the clear reading equals the plain network to 1e-6": reference <= 1e-6,
    }
    numbers = {
        "class_encrypted": float(np.argmax(got)),
        "class_clear": float(np.argmax(clear)),
        "label": float(label),
        "max_abs_error_of_clear_reading": reference,
        **numbers,
    }
    return Check.of(outcome, error, LOGIT_TOLERANCE * scale, numbers)

"""The network of the submission: 784 pixels, a layer of 128 squares, ten scores, on four encrypted images at a time.

Slot `IMAGES * i + k` holds pixel i of image k, and zeros from pixel 784 to 1023: a rotation by a multiple of `IMAGES`
turns all images alike. A layer of m outputs on n inputs takes m diagonals of the matrix repeated over n slots, and then
sums of n / m slots (Halevi and Shoup, CRYPTO 2018; the hybrid of Gazelle, USENIX Security 2018).
"""

import os
from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.evaluator.circuits.linear import bsgs_diagonals, linear_transform
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.protocol import Evaluator

PARAMS = "mnist.toml"
TOLERANCE = 0.001
MODEL = Path(os.environ.get("ML_INFERENCE_MODEL", Path(__file__).parent.parent / "model" / "mnist.npz"))
"""The trained weights, which `train.py` writes."""
IMAGES, PIXELS, SPACE, HIDDEN, CLASSES, SCORES = 4, 784, 1024, 128, 10, 16
"""Images of a ciphertext, pixels, their places, squares, classes, places of scores."""


def data(size: Any, slots: int, seed: int, path: Path | None = None) -> dict[str, np.ndarray]:
    """The model, and four images of noise in the place of an input."""
    with np.load(path or MODEL) as found:
        model = {name: np.asarray(found[name], dtype=np.float64) for name in found.files}
    images = np.random.default_rng(seed).uniform(0, 1, (IMAGES, PIXELS))
    return {"images": packed(images), **model}


def packed(images: np.ndarray) -> np.ndarray:
    """(up to IMAGES, PIXELS) -> (slots,), missing images black."""
    places = np.zeros((SPACE, IMAGES))
    places[:PIXELS, : len(images)] = np.transpose(images)
    return places.ravel()


def scores(values: np.ndarray) -> np.ndarray:
    """Decrypted slots -> (IMAGES, CLASSES)."""
    return np.real(values).reshape(-1, IMAGES)[:CLASSES].T


def logits(model: dict[str, np.ndarray], images: np.ndarray) -> np.ndarray:
    """The same network in the clear: (n, PIXELS) -> (n, CLASSES)."""
    hidden = images @ model["weight1"].T + model["bias1"]
    return np.asarray(hidden**2 @ model["weight2"].T + model["bias2"])


def spread(values: np.ndarray) -> np.ndarray:
    """A vector of the places of one image, repeated over all places of all images."""
    return np.repeat(np.tile(values, SPACE // len(values)), IMAGES)


def layer(ev: Evaluator, a: Any, matrix: np.ndarray, name: str) -> Any:
    """matrix times the vector of each image, whose period is the matrix's width; not rescaled, nor summed."""
    outputs, inputs = matrix.shape
    row = np.arange(inputs)
    diagonals = {k: spread(matrix[row % outputs, (row + k) % inputs]) for k in range(outputs)}
    return linear_transform(ev, a, bsgs_diagonals(ev, diagonals, stride=IMAGES, name=name), stride=IMAGES)


def program(ev: Evaluator, data: dict[str, np.ndarray], size: Any) -> np.ndarray:
    """Ten scores an image, the largest of which is its digit."""
    weights = [np.zeros((HIDDEN, SPACE)), np.zeros((SCORES, HIDDEN))]
    biases = [data["bias1"], np.zeros(SCORES)]
    weights[0][:, :PIXELS], weights[1][:CLASSES], biases[1][:CLASSES] = data["weight1"], data["weight2"], data["bias2"]
    a = ev.encrypt(data["images"], name="images")
    with ev.scope("first"):
        a = ev.rescale(layer(ev, a, weights[0], "first"))
        a = ev.add(fold(ev, a, SPACE // HIDDEN, HIDDEN * IMAGES), ev.encode(spread(biases[0]), name="bias1"))
    with ev.scope("square"):
        a = ev.rescale(ev.square(a))
    with ev.scope("second"):
        a = ev.rescale(layer(ev, a, weights[1], "second"))
        a = ev.add(fold(ev, a, HIDDEN // SCORES, SCORES * IMAGES), ev.encode(spread(biases[1]), name="bias2"))
    return ev.decrypt(a)

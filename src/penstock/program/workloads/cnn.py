"""A small convolutional network on an encrypted image, shallow enough to need no bootstrapping.

Two 3 x 3 convolutions with 16 channels, squares for activations (as in CryptoNets, Gilad-Bachrach et al., ICML 2016),
an average pool of 2 x 2 after each, one linear layer. All channels are in one ciphertext. Pools leave gaps between the
pixels instead of compacting them; the linear layer computes its outputs side by side in the gaps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache, partial
from pathlib import Path

import numpy as np

from penstock.base.arrays import Floats
from penstock.errors import UsageError
from penstock.program.evaluator.circuits import convolution
from penstock.program.evaluator.circuits.convolution import ImageLayout
from penstock.program.evaluator.circuits.sums import fold
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Values
from penstock.program.workloads import Check
from penstock.program.workloads.parts import networks

NAME = "cnn"
DESCRIPTION = "a small convolutional network on an encrypted image, squares for activations"
SOURCE = "activations and pools of CryptoNets, Gilad-Bachrach et al., ICML 2016; packing of ePrint 2024/460"

CHANNELS = 16
POOL = 2
LEVELS = 5
"""Convolution, square, convolution, square, linear layer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Geometry of the image; the graph is the same."""

    params: str
    side: int
    weights: str


SIZES = {
    "ci": Size(params="insecure-ci", side=8, weights="cnn-ci"),
    "full": Size(params="openfhe-cnn", side=32, weights="cnn-full"),
}
DEFAULT_SIZE = "full"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class ConvNet:
    """Weights of the three layers."""

    weights: tuple[Floats, Floats]
    """(16, 3, 3, 3) and (16, 16, 3, 3), outputs first."""
    biases: tuple[Floats, Floats]
    linear: Floats
    """(10, 16, side/4, side/4)"""
    linear_bias: Floats

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats], where: str, images: Floats | None = None) -> ConvNet:
        """The network from arrays named as PyTorch names them (conv1, conv2, linear); `images` are not needed.

        Raises: UsageError: an array is missing or of another shape.
        """
        layers = [
            networks.folded(arrays, f"conv{i}", f"bn{i}", (CHANNELS, inputs, 3, 3), where)
            for i, inputs in ((1, networks.COLOURS), (2, CHANNELS))
        ]
        columns = arrays["linear.weight"].shape[-1] if "linear.weight" in arrays else 0
        side = round((columns / CHANNELS) ** 0.5)
        linear = networks.array(arrays, "linear.weight", (networks.CLASSES, CHANNELS * side * side), where)
        return cls(
            (layers[0][0], layers[1][0]),
            (layers[0][1], layers[1][1]),
            linear.reshape(networks.CLASSES, CHANNELS, side, side),
            networks.array(arrays, "linear.bias", (networks.CLASSES,), where),
        )

    def stored(self) -> dict[str, Values]:
        """What a weights file holds: `from_arrays` reads it back."""
        stored: dict[str, Values] = {}
        for i, (weight, bias) in enumerate(zip(self.weights, self.biases, strict=True)):
            stored[f"conv{i + 1}.weight"], stored[f"conv{i + 1}.bias"] = weight.astype("f4"), bias.astype("f4")
        stored["linear.weight"] = self.linear.reshape(networks.CLASSES, -1).astype("f4")
        stored["linear.bias"] = self.linear_bias.astype("f4")
        return stored

    def logits(self, x: Floats) -> Floats:
        """(n, 10) logits of normalized images."""
        for weight, bias in zip(self.weights, self.biases, strict=True):
            x = networks.convolve(x, weight, bias) ** 2
            n, c, side, _ = x.shape
            x = x.reshape(n, c, side // POOL, POOL, side // POOL, POOL).mean(axis=(3, 5))
        return np.asarray(x.reshape(len(x), -1) @ self.linear.reshape(networks.CLASSES, -1).T + self.linear_bias)

    def readings(self, x: Floats) -> dict[str, Floats]:
        """Logits, by the words that name how they were computed."""
        return {"squares": self.logits(x)}


@dataclass(frozen=True, slots=True)
class Data:
    """An image, the weights, and the image's label."""

    image: Floats
    """(3, side, side) in [0, 1]."""
    label: int
    network: ConvNet
    description: str = ""


@lru_cache(maxsize=4)
def stored_network(name: str) -> ConvNet:
    """The committed weights of this name."""
    path = networks.WEIGHTS / f"{name}.npz"
    return ConvNet.from_arrays(networks.read_weights(path), str(path))


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """One test image, chosen by `seed`, and the network.

    Args:   path: a binary file of CIFAR-10 (or its folder), with weights (.npz, .pt, .pth) in the same folder.
    Raises: UsageError: a file is missing or malformed.
    """
    if path is None:
        images, network = networks.digits_in_colour(size.side)[1], stored_network(size.weights)
    else:
        images = networks.read_cifar10(path, size.side)
        weights = networks.weights_beside(path)
        network = ConvNet.from_arrays(networks.read_weights(weights), str(weights))
        if network.linear.shape[-1] != size.side // POOL**2:
            raise UsageError(
                f"{weights}: 'linear.weight' is for images of {network.linear.shape[-1] * POOL**2} pixels a side; "
                f"this size takes {size.side}"
            )
    index = seed % len(images.labels)
    return Data(images.images[index], int(images.labels[index]), network, f"{images.description}, image {index}")


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    pooled = size.side // POOL**2
    network = ConvNet(
        (np.zeros((CHANNELS, networks.COLOURS, 3, 3)), np.zeros((CHANNELS, CHANNELS, 3, 3))),
        (np.zeros(CHANNELS), np.zeros(CHANNELS)),
        np.zeros((networks.CLASSES, CHANNELS, pooled, pooled)),
        np.zeros(networks.CLASSES),
    )
    return Data(np.zeros((networks.COLOURS, size.side, size.side)), 0, network)


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The logits, (10,)."""
    net = data.network
    layout = ImageLayout(CHANNELS, size.side, ev.params.slots)
    with ev.scope("input"):
        image = np.zeros((CHANNELS, size.side, size.side))
        image[: networks.COLOURS] = networks.normalized(data.image)
        a = ev.encrypt(layout.vector(image), name="image")
        a = ev.mod_drop(a, min(ev.params.num_q, LEVELS + 1))
    first = np.zeros((CHANNELS, CHANNELS, 3, 3))
    first[:, : networks.COLOURS] = net.weights[0]
    # A pool is the sum of four pixels; the next layer takes a quarter of it.
    for weight, bias in ((first, net.biases[0]), (net.weights[1] / POOL**2, net.biases[1])):
        with ev.scope("convolution"):
            shifted = convolution.neighbours(ev, a, layout)
            a = ev.rescale(convolution.convolve(ev, shifted, layout, weight))
            a = ev.add(a, convolution.biases(ev, layout, bias))
        with ev.scope("activation"):
            a = ev.rescale(ev.square(a))
        with ev.scope("pool"):
            a = fold(ev, fold(ev, a, POOL, layout.gap), POOL, layout.gap * layout.grid)
            layout = ImageLayout(CHANNELS, layout.side // POOL, layout.slots, layout.gap * POOL)
    with ev.scope("output"):
        a, at = _linear(ev, a, layout, net.linear / POOL**2)
        bias = np.zeros(layout.slots)
        bias[at] = net.linear_bias
        decrypted: Floats = np.real(ev.decrypt(ev.add(ev.rescale(a), ev.encode(bias))))
        return decrypted[at]


def _linear(ev: Evaluator, a: Ciphertext, layout: ImageLayout, weight: Floats) -> tuple[Ciphertext, list[int]]:
    """A product with the outputs, and the slot of each. Takes one level."""
    at = [o // layout.gap * layout.grid + o % layout.gap for o in range(len(weight))]

    def row(o: int) -> Floats:
        return np.roll(layout.vector(weight[o]), at[o])

    rows = [partial(row, o) for o in range(len(weight))]
    total = ev.weighted_sum(ev.rotate_many(a, [-slot for slot in at]), rows)
    total = fold(ev, total, layout.side, layout.gap)
    total = fold(ev, total, layout.side, layout.gap * layout.grid)
    return fold(ev, total, layout.channels, layout.block), at


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """The class of the clear reading, logits within 1e-3 of the largest; clear reading and plain network are equal."""
    return networks.check_logits(
        clear, got, data.network.logits(networks.normalized(data.image[None]))[0], data.label, {}
    )

"""ResNet-20 on an encrypted image, with one ciphertext for all channels of a layer and few rotation keys.

The low-memory packing of Rovida & Leporati (IEEE TNSM 2024, ePrint 2024/460): channel after channel, row after row, so
that a convolution takes nine hoisted rotations, plaintext products and one rotation a channel, all by the same step.
Where a layer halves the image, masks and rotations compact the rest. ReLU is a Chebyshev series on the interval that
training saw, scaled to [-1, 1] by the weights; ciphertexts are bootstrapped where the levels left do not suffice. The
network follows He et al. (CVPR 2016, section 4.2), with shortcuts that have no weights.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from penstock.base.arrays import Floats, Ints
from penstock.errors import UsageError
from penstock.program.evaluator.circuits import convolution
from penstock.program.evaluator.circuits.convolution import ImageLayout
from penstock.program.evaluator.circuits.multiplexed import Multiplexed
from penstock.program.evaluator.placement import Chain
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Values
from penstock.program.workloads import Check
from penstock.program.workloads.parts import networks
from penstock.program.workloads.parts.activations import Activation, activation

NAME = "resnet20"
DESCRIPTION = "ResNet-20 on an encrypted image, low-memory packing, bootstrapped"
SOURCE = "Rovida & Leporati, IEEE TNSM 2024 (ePrint 2024/460)"

WIDTHS = (16, 32, 64)
"""Channels of the three stages; each has three blocks of two convolutions."""
BLOCKS = 3
ACTIVATIONS = 1 + 2 * BLOCKS * len(WIDTHS)
DEGREE = 59
"""Of the Chebyshev series of ReLU: the largest that takes six levels."""
RELU = f"chebyshev-{DEGREE}"
ACTIVATION_LEVELS = 6
CONVOLUTION_LEVELS = 1
LINEAR_LEVELS = 1
RESERVE = 1
"""Levels that bootstrapping wants of its input."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """Geometry of the image; the network is the same."""

    params: str
    side: int
    weights: str
    key_budget_bytes: int | None = None
    """Rotation keys are paged, and so many bytes of them kept in memory; `None`: all are in memory."""


SIZES = {
    "ci": Size(params="insecure-resnet20", side=8, weights="resnet20-ci"),
    "full": Size(params="openfhe-resnet20", side=32, weights="resnet20-full", key_budget_bytes=3 * 2**29),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


@dataclass(frozen=True, slots=True)
class ResNet20:
    """Weights with batch normalization folded in."""

    weights: tuple[Floats, ...]
    """(out, in, 3, 3) of the 19 convolutions, in order of execution."""
    biases: tuple[Floats, ...]
    linear: Floats
    """(10, 64)"""
    linear_bias: Floats
    bounds: Floats
    """(19,) half-width of the interval of each activation."""

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Floats], where: str, images: Floats | None = None) -> ResNet20:
        """The network from arrays named as PyTorch models of it name them (conv1, layer1.0.conv1, …, linear).

        Args:   images: training images (n, 3, side, side) in [0, 1], for `bounds` where the arrays have none.
        Raises: UsageError: an array is missing or of another shape.
        """
        layers = [networks.folded(arrays, "conv1", "bn1", (WIDTHS[0], networks.COLOURS, 3, 3), where)]
        width_in = WIDTHS[0]
        for stage, width in enumerate(WIDTHS):
            for block in range(BLOCKS):
                stem = f"layer{stage + 1}.{block}"
                for i, inputs in ((1, width_in), (2, width)):
                    layers.append(
                        networks.folded(arrays, f"{stem}.conv{i}", f"{stem}.bn{i}", (width, inputs, 3, 3), where)
                    )
                width_in = width
        linear = networks.array(arrays, "linear.weight", (networks.CLASSES, WIDTHS[-1]), where)
        linear_bias = networks.array(arrays, "linear.bias", (networks.CLASSES,), where)
        weights, biases = zip(*layers, strict=True)
        if "bounds" in arrays:
            return cls(weights, biases, linear, linear_bias, networks.array(arrays, "bounds", (ACTIVATIONS,), where))
        if images is None:
            raise UsageError(
                f"{where}: the weights have no 'bounds' (the largest input of each of the {ACTIVATIONS} activations); "
                "give training images, or store it with the weights"
            )
        network = cls(weights, biases, linear, linear_bias, np.ones(ACTIVATIONS))
        largest = np.zeros(ACTIVATIONS)

        def watch(x: Floats, index: int) -> Floats:
            largest[index] = max(largest[index], float(np.abs(x).max()))
            return networks.relu(x)

        for i in range(0, len(images), 128):
            network.logits(networks.normalized(images[i : i + 128]), watch)
        return cls(weights, biases, linear, linear_bias, largest * networks.MARGIN)

    def stored(self) -> dict[str, Values]:
        """What a weights file holds: `from_arrays` reads it back."""
        stages = range(1, len(WIDTHS) + 1)
        names = ["conv1", *(f"layer{s}.{b}.conv{i}" for s in stages for b in range(BLOCKS) for i in (1, 2))]
        stored: dict[str, Values] = {}
        for name, weight, bias in zip(names, self.weights, self.biases, strict=True):
            stored[f"{name}.weight"] = weight.astype(np.float16)
            stored[f"{name}.bias"] = bias.astype(np.float32)
        stored["linear.weight"] = self.linear.astype(np.float16)
        stored["linear.bias"] = self.linear_bias.astype(np.float32)
        stored["bounds"] = self.bounds.astype(np.float32)
        return stored

    def logits(self, x: Floats, activation: Callable[[Floats, int], Floats]) -> Floats:
        """(n, 10) logits of normalized images; `activation(inputs, index)` is called for each of the 19."""
        y = activation(networks.convolve(x, self.weights[0], self.biases[0]), 0)
        layer = 1
        for stage in range(len(WIDTHS)):
            for block in range(BLOCKS):
                stride = 2 if stage > 0 and block == 0 else 1
                inner = networks.convolve(y, self.weights[layer], self.biases[layer], stride)
                inner = activation(inner, layer)
                inner = networks.convolve(inner, self.weights[layer + 1], self.biases[layer + 1])
                y = activation(inner + shortcut(y, stride), layer + 1)
                layer += 2
        return np.asarray(y.mean(axis=(2, 3)) @ self.linear.T + self.linear_bias)

    def readings(self, x: Floats) -> dict[str, Floats]:
        """Logits with ReLU, and with the polynomial that encrypted runs evaluate."""
        batches = [x[i : i + 128] for i in range(0, len(x), 128)]
        return {
            "ReLU": np.concatenate([self.logits(b, lambda v, _: networks.relu(v)) for b in batches]),
            f"Chebyshev degree {DEGREE}": np.concatenate([self.logits(b, self.polynomial) for b in batches]),
        }

    def polynomial(self, x: Floats, index: int) -> Floats:
        """ReLU by its Chebyshev series on the interval of activation `index`."""
        bound = self.bounds[index]
        return np.asarray(bound * activation(RELU).plain(x / bound))


def shortcut(x: Floats, stride: int) -> Floats:
    """x, or every second pixel with as many zero channels before and behind as make twice the channels."""
    if stride == 1:
        return x
    pad = x.shape[1] // 2
    return np.pad(x[:, :, ::stride, ::stride], ((0, 0), (pad, pad), (0, 0), (0, 0)))


@dataclass(frozen=True, slots=True)
class Data:
    """An image, the weights, and the image's label."""

    image: Floats
    """(3, side, side) in [0, 1]."""
    label: int
    network: ResNet20
    description: str = ""


@lru_cache(maxsize=4)
def stored_network(name: str) -> ResNet20:
    """The committed weights of this name."""
    path = networks.WEIGHTS / f"{name}.npz"
    return ResNet20.from_arrays(networks.read_weights(path), str(path))


def data(size: Size, slots: int, seed: int, path: Path | None = None) -> Data:
    """One test image, chosen by `seed`, and the network.

    Args:   path: `test_batch.bin` of CIFAR-10 (or its folder), for images; weights (.npz, .pt, .pth) next to it in
            the folder are used, since the committed ones know digits only.
    Raises: UsageError: a file is missing or malformed.
    """
    if path is None:
        images = networks.digits_in_colour(size.side)[1]
        network = stored_network(size.weights)
    else:
        images = networks.read_cifar10(path, size.side)
        weights = networks.weights_beside(path)
        network = ResNet20.from_arrays(networks.read_weights(weights), str(weights), images.images[:256])
    index = seed % len(images.labels)
    return Data(images.images[index], int(images.labels[index]), network, f"{images.description}, image {index}")


def blank(size: Size, slots: int) -> Data:
    """The same shapes without values."""
    shapes = [(WIDTHS[0], networks.COLOURS)]
    width_in = WIDTHS[0]
    for width in WIDTHS:
        shapes += [(width, width_in)] + [(width, width)] * (2 * BLOCKS - 1)
        width_in = width
    network = ResNet20(
        tuple(np.zeros((*shape, 3, 3)) for shape in shapes),
        tuple(np.zeros(shape[0]) for shape in shapes),
        np.zeros((networks.CLASSES, WIDTHS[-1])),
        np.zeros(networks.CLASSES),
        np.ones(ACTIVATIONS),
    )
    return Data(np.zeros((networks.COLOURS, size.side, size.side)), 0, network)


def blocks() -> list[int]:
    """Levels of the parts between which the network may be bootstrapped: convolutions, activations, the last layer."""
    parts = [CONVOLUTION_LEVELS, ACTIVATION_LEVELS]
    for stage in range(len(WIDTHS)):
        for block in range(BLOCKS):
            compact = convolution.COMPACT_LEVELS if stage > 0 and block == 0 else 0
            parts += [CONVOLUTION_LEVELS + compact, ACTIVATION_LEVELS, CONVOLUTION_LEVELS, ACTIVATION_LEVELS]
    return [*parts, LINEAR_LEVELS]


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The logits, (10,). A ciphertext of layer i holds its values over `bounds[i]`.

    Raises: ParamsError: a part takes more levels than bootstrapping leaves.
    """
    return _LowMemory(ev, data.network, size).logits(data.image)


class Inference(ABC):
    """One inference, in a packing of the channels."""

    layout: ImageLayout | Multiplexed
    """Of the channels, as far as the inference has come."""

    def __init__(self, ev: Evaluator, net: ResNet20, relu: Activation, blocks: list[int], needed: int) -> None:
        """Args: needed: levels before the first bootstrapping: more limbs would only cost time."""
        self.ev, self.net, self.relu, self.needed = ev, net, relu, needed
        self.chain = Chain(ev, blocks)

    def logits(self, picture: Floats) -> Floats:
        ev, net, layout = self.ev, self.net, self.layout
        with ev.scope("input"):
            image = np.zeros((layout.channels, layout.side, layout.side))
            image[: networks.COLOURS] = networks.normalized(picture)
            a = ev.encrypt(layout.vector(image), name="image")
            a = ev.mod_drop(a, min(ev.params.num_q, self.needed + 1))
        with ev.scope("stem"):
            weight = np.zeros((layout.channels, layout.channels, 3, 3))
            weight[:, : networks.COLOURS] = net.weights[0]
            a = self._convolved(self.before(a), weight / net.bounds[0], net.biases[0] / net.bounds[0], 1)
            a = self._activation(a)
        layer = 1
        for stage in range(len(WIDTHS)):
            for block in range(BLOCKS):
                with ev.scope("block"):
                    a = self._block(self.before(a), layer, 2 if stage > 0 and block == 0 else 1)
                    layer += 2
        with ev.scope("output"):
            return self._output(self.before(a))

    def _block(self, a: Ciphertext, layer: int, stride: int) -> Ciphertext:
        """Two convolutions and the shortcut round them."""
        ev, net = self.ev, self.net
        before, inner, after = net.bounds[layer - 1 : layer + 2]
        first, second = net.weights[layer] * (before / inner), net.weights[layer + 1] * (inner / after)
        layout = self.layout
        inside = self._convolved(a, first, net.biases[layer] / inner, stride)
        with ev.scope("shortcut"):
            factor = float(before / after)
            beside = ev.rescale(ev.mult(a, factor) if stride == 1 else self._halved(a, layout, factor))
        inside = self._activation(inside)
        inside = self._convolved(self.before(inside), second, net.biases[layer + 1] / after, 1)
        return self._activation(ev.add(inside, beside))

    def _activation(self, a: Ciphertext) -> Ciphertext:
        """ReLU; bootstrapped before where the levels do not suffice."""
        with self.ev.scope("activation"):
            return self.relu.apply(self.ev, a, self.chain, self.slots())

    def before(self, a: Ciphertext) -> Ciphertext:
        return self.chain.before(a, slots=self.slots())

    def slots(self) -> int | None:
        """The period at which values are bootstrapped; `None`: at all slots."""
        return None

    @abstractmethod
    def _convolved(self, a: Ciphertext, weight: Floats, bias: Floats, stride: int) -> Ciphertext:
        """A convolution; the layout becomes the result's."""

    @abstractmethod
    def _halved(self, a: Ciphertext, layout: Any, factor: float) -> Ciphertext:
        """The shortcut beside a convolution that halves the image, from the layout before it; not rescaled."""

    @abstractmethod
    def _output(self, a: Ciphertext) -> Floats:
        """The last layer."""


class _LowMemory(Inference):
    """`order[i]` is the network's number of channel i of the layout."""

    layout: ImageLayout

    def __init__(self, ev: Evaluator, net: ResNet20, size: Size) -> None:
        # Two convolutions and an activation come before the first bootstrapping.
        needed = 2 * CONVOLUTION_LEVELS + ACTIVATION_LEVELS + RESERVE
        super().__init__(ev, net, activation(RELU), blocks(), needed)
        self.layout = ImageLayout(WIDTHS[0], size.side, ev.params.slots)
        self.order: Ints = np.arange(WIDTHS[0])

    def _convolved(self, a: Ciphertext, weight: Floats, bias: Floats, stride: int) -> Ciphertext:
        ev, layout, order = self.ev, self.layout, self.order
        if stride == 1:
            weights = [weight[order][:, order]]
        else:
            self.layout, self.order = ImageLayout(2 * layout.channels, layout.side // 2, layout.slots), _wider(order)
            weights = [weight[self.order[i::2]][:, order] for i in (0, 1)]
        with ev.scope("convolution"):
            shifted = convolution.neighbours(ev, a, layout)
            products = [ev.rescale(convolution.convolve(ev, shifted, layout, part, stride)) for part in weights]
            del shifted
            if stride == 1:
                return ev.add(products[0], convolution.biases(ev, layout, bias[order]))
        with ev.scope("compaction"):
            product = ev.rescale(convolution.compact(ev, products[0], products[1], layout))
            return ev.add(product, convolution.biases(ev, self.layout, bias[self.order]))

    def _halved(self, a: Ciphertext, layout: ImageLayout, factor: float) -> Ciphertext:
        return convolution.compact(self.ev, a, None, layout, factor)

    def _output(self, a: Ciphertext) -> Floats:
        ev, layout = self.ev, self.layout
        at = slice(0, layout.block * networks.CLASSES, layout.block)
        bias = np.zeros(layout.slots)
        bias[at] = self.net.linear_bias
        weight = self.net.linear[:, self.order] * self.net.bounds[-1]
        logits = ev.rescale(convolution.pooled_linear(ev, a, layout, weight))
        decrypted: Floats = np.real(ev.decrypt(ev.add(logits, ev.encode(bias))))
        return decrypted[at]


def _wider(order: Ints) -> Ints:
    """Channels after halving: the shortcut's in the even places, the new ones in the odd ones."""
    width = 2 * len(order)
    kept = order + len(order) // 2
    wider = np.empty(width, dtype=np.int64)
    wider[0::2] = kept
    wider[1::2] = np.setdiff1d(np.arange(width), kept)
    return wider


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """The class of the clear reading, logits within 1e-3 of the largest; clear reading and plain network are equal."""
    return check_activations(clear, got, data, data.network.polynomial)


def check_activations(clear: Floats, got: Floats, data: Data, relu_of: Callable[[Floats, int], Floats]) -> Check:
    """As `check`, with an activation of the inputs and the index of a layer."""
    x = networks.normalized(data.image[None])
    relu = data.network.logits(x, lambda v, _: networks.relu(v))[0]
    plain = data.network.logits(x, relu_of)[0]
    return networks.check_logits(
        clear,
        got,
        plain,
        data.label,
        {"class_relu": float(np.argmax(relu)), "max_abs_difference_to_relu": float(np.max(np.abs(relu - plain)))},
    )

"""ResNet-20 on an encrypted image with multiplexed parallel convolutions, the packing that accelerator papers run.

Channels share blocks of slots in the gaps that strides leave, copies of the channels compute several outputs at once
(Lee et al., ICML 2022, ePrint 2021/1688). Halving needs no compaction, but a convolution takes two levels and many more
rotation keys than in `resnet20`. Network and weights come from `resnet20`.

The published network has the size `published`: ReLU is the composition of minimax polynomials of degrees 15, 15 and 27
(14 levels), and ciphertexts are bootstrapped at 2^14, 2^13 and 2^12 slots, the period of their values. It bootstraps
once a layer, since 16 levels are left behind its bootstrapping; where fewer are left the placement rule finds more.
The other sizes take one Chebyshev series, which is what OpenFHE carries on a small ring.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from penstock.base.arrays import Floats
from penstock.program.evaluator.circuits import multiplexed
from penstock.program.evaluator.circuits.bootstrap import input_levels
from penstock.program.evaluator.circuits.multiplexed import Multiplexed
from penstock.program.evaluator.placement import Chain
from penstock.program.evaluator.protocol import Ciphertext, Evaluator
from penstock.program.workloads import Check, resnet20
from penstock.program.workloads.parts import networks
from penstock.program.workloads.parts.activations import Activation, activation
from penstock.program.workloads.resnet20 import BLOCKS, WIDTHS, Data, ResNet20, blank, data

__all__ = ["blank", "check", "data", "program"]

NAME = "resnet20-multiplexed"
DESCRIPTION = "ResNet-20 on an encrypted image, multiplexed parallel convolutions, bootstrapped"
SOURCE = "Lee et al., ICML 2022 (ePrint 2021/1688)"


@dataclass(frozen=True, slots=True, kw_only=True)
class Size(resnet20.Size):
    """Geometry of the image and kind of activation; the network is the same."""

    activation: str = "chebyshev-59"
    """See `workloads.activations`."""
    sparse: bool = False
    """Bootstrap at the period of the values, not at all slots: less work, and other keys for each period."""


SIZES = {
    "ci": Size(params="insecure-resnet20-multiplexed", side=8, weights="resnet20-ci"),
    "full": Size(params="openfhe-resnet20-multiplexed", side=32, weights="resnet20-full", key_budget_bytes=3 * 2**29),
    "published": Size(params="sharp", side=32, weights="resnet20-full", activation="minimax-15-15-27", sparse=True),
}
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "published"


def blocks(relu: Activation) -> list[int]:
    """Levels of the parts between which one ciphertext carries everything, in the order in which they run."""
    layer = [multiplexed.LEVELS, *relu.blocks]
    return layer * (1 + 2 * BLOCKS * len(WIDTHS)) + [1]


def program(ev: Evaluator, data: Data, size: Size) -> Floats:
    """The logits, (10,). A ciphertext of layer i holds its values over `bounds[i]`."""
    return _Inference(ev, data.network, size).logits(data.image)


class _Inference:
    """One inference."""

    def __init__(self, ev: Evaluator, net: ResNet20, size: Size) -> None:
        self.ev, self.net, self.size = ev, net, size
        self.relu = activation(size.activation)
        self.chain = Chain(ev, blocks(self.relu))
        self.layout = Multiplexed(WIDTHS[0], size.side, 1, ev.params.slots)

    def logits(self, picture: Floats) -> Floats:
        ev, net, layout = self.ev, self.net, self.layout
        with ev.scope("input"):
            image = np.zeros((layout.channels, self.size.side, self.size.side))
            image[: networks.COLOURS] = networks.normalized(picture)
            a = ev.encrypt(layout.vector(image), name="image")
            # The stem and one convolution run on fresh encryptions; more limbs would only cost time.
            needed = 2 * multiplexed.LEVELS + sum(self.relu.blocks) + input_levels(ev.params)
            a = ev.mod_drop(a, min(ev.params.num_q, needed + 1))
        with ev.scope("stem"):
            weight = np.zeros((layout.channels, layout.channels, 3, 3))
            weight[:, : networks.COLOURS] = net.weights[0]
            a = self._convolution(a, weight / net.bounds[0], net.biases[0] / net.bounds[0])
            a = self._activation(a)
        layer = 1
        for stage in range(len(WIDTHS)):
            for block in range(BLOCKS):
                with ev.scope("block"):
                    a = self._block(a, layer, 2 if stage > 0 and block == 0 else 1)
                    layer += 2
        with ev.scope("output"):
            a = self._before(a)
            made = multiplexed.pooled_linear(ev, a, self.layout, net.linear * net.bounds[-1])
            at = slice(0, None, self.layout.period)
            outputs = np.concatenate([np.real(ev.decrypt(ev.rescale(part)))[at] for part in made])
            return outputs[: networks.CLASSES] + net.linear_bias

    def _block(self, a: Ciphertext, layer: int, stride: int) -> Ciphertext:
        """Two convolutions and the shortcut round them."""
        ev, net = self.ev, self.net
        before, inner, after = net.bounds[layer - 1 : layer + 2]
        first, second = net.weights[layer] * (before / inner), net.weights[layer + 1] * (inner / after)
        a = self._before(a)
        layout = self.layout
        inside = self._convolved(a, first, net.biases[layer] / inner, stride)
        with ev.scope("shortcut"):
            if stride == 1:
                beside = ev.mult(a, float(before / after))
            else:
                beside = multiplexed.downsample(ev, a, layout, float(before / after))
            beside = ev.rescale(beside)
        inside = self._convolution(self._activation(inside), second, net.biases[layer + 1] / after)
        return self._activation(ev.add(inside, beside))

    def _convolution(self, a: Ciphertext, weight: Floats, bias: Floats) -> Ciphertext:
        return self._convolved(self._before(a), weight, bias, 1)

    def _convolved(self, a: Ciphertext, weight: Floats, bias: Floats, stride: int) -> Ciphertext:
        """A convolution; the layout becomes the result's."""
        ev, layout = self.ev, self.layout
        with ev.scope("convolution"):
            product = ev.rescale(multiplexed.convolve(ev, a, layout, weight, stride))
            self.layout = layout.strided(len(weight), stride)
            return ev.add(product, multiplexed.biases(ev, self.layout, bias))

    def _activation(self, a: Ciphertext) -> Ciphertext:
        with self.ev.scope("activation"):
            return self.relu.apply(self.ev, a, self.chain, self._slots())

    def _before(self, a: Ciphertext) -> Ciphertext:
        return self.chain.before(a, slots=self._slots())

    def _slots(self) -> int | None:
        """The period of the values, where the size bootstraps at it."""
        return self.layout.period if self.size.sparse else None


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """The class of the clear reading, logits within 1e-3 of the largest; clear reading and plain network are equal."""
    relu, bounds = activation(size.activation), data.network.bounds
    return resnet20.check_activations(clear, got, data, lambda v, i: bounds[i] * relu.plain(v / bounds[i]))

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
    return _Multiplexed(ev, data.network, size).logits(data.image)


class _Multiplexed(resnet20.Inference):
    """One inference; the layout changes with each convolution."""

    layout: Multiplexed

    def __init__(self, ev: Evaluator, net: ResNet20, size: Size) -> None:
        relu = activation(size.activation)
        # The stem and one convolution run on fresh encryptions.
        needed = 2 * multiplexed.LEVELS + sum(relu.blocks) + input_levels(ev.params)
        super().__init__(ev, net, relu, blocks(relu), needed)
        self.layout = Multiplexed(WIDTHS[0], size.side, 1, ev.params.slots)
        self._is_sparse = size.sparse

    def slots(self) -> int | None:
        return self.layout.period if self._is_sparse else None

    def _convolved(self, a: Ciphertext, weight: Floats, bias: Floats, stride: int) -> Ciphertext:
        ev, layout = self.ev, self.layout
        with ev.scope("convolution"):
            product = ev.rescale(multiplexed.convolve(ev, a, layout, weight, stride))
            self.layout = layout.strided(len(weight), stride)
            return ev.add(product, multiplexed.biases(ev, self.layout, bias))

    def _halved(self, a: Ciphertext, layout: Multiplexed, factor: float) -> Ciphertext:
        return multiplexed.downsample(self.ev, a, layout, factor)

    def _output(self, a: Ciphertext) -> Floats:
        ev, net = self.ev, self.net
        made = multiplexed.pooled_linear(ev, a, self.layout, net.linear * net.bounds[-1])
        at = slice(0, None, self.layout.period)
        outputs = np.concatenate([np.real(ev.decrypt(ev.rescale(part)))[at] for part in made])
        return outputs[: networks.CLASSES] + net.linear_bias


def check(clear: Floats, got: Floats, data: Data, size: Size) -> Check:
    """The class of the clear reading, logits within 1e-3 of the largest; clear reading and plain network are equal."""
    relu, bounds = activation(size.activation), data.network.bounds
    return resnet20.check_activations(clear, got, data, lambda v, i: bounds[i] * relu.plain(v / bounds[i]))

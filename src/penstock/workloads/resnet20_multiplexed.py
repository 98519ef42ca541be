"""ResNet-20 on an encrypted image with multiplexed parallel convolutions, the packing that accelerator papers run.

Channels share blocks of slots in the gaps that strides leave, copies of the channels compute several outputs at once
(Lee et al., ICML 2022, ePrint 2021/1688). Halving needs no compaction, but a convolution takes two levels and many more
rotation keys than in `resnet20`. Network, weights, activation and check are those of `resnet20`; the activation is one
Chebyshev series, not the composition of minimax polynomials of the paper.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from penstock.params.ckks import CkksParameters
from penstock.program.circuits import multiplexed
from penstock.program.circuits.multiplexed import Multiplexed
from penstock.workloads import networks, resnet20
from penstock.workloads.networks import Floats
from penstock.workloads.resnet20 import ACTIVATION_LEVELS, BLOCKS, WIDTHS, Data, Network, Size, blank, check, data

__all__ = ["blank", "check", "data", "program"]

NAME = "resnet20-multiplexed"
DESCRIPTION = "ResNet-20 on an encrypted image, multiplexed parallel convolutions, bootstrapped"
SOURCE = "Lee et al., ICML 2022 (ePrint 2021/1688)"

SIZES = {
    "ci": Size(params="insecure-resnet20-multiplexed", side=8, weights="resnet20-ci"),
    "full": Size(
        params="openfhe-resnet20-multiplexed", side=32, weights="resnet20-full", key_budget_bytes=3 * 2**29
    ),
}  # fmt: skip
DEFAULT_SIZE = "ci"
ACCELERATOR_SIZE = "full"


def reserve(params: CkksParameters) -> int:
    """Levels that bootstrapping wants of its input: OpenFHE multiplies once before it raises the modulus."""
    return 0 if params.library == "accelerator" else 1


def program(ev: Any, data: Data, size: Size) -> Floats:
    """The logits, (10,). A ciphertext of layer i holds its values over `bounds[i]`."""
    net = data.network
    layout = Multiplexed(WIDTHS[0], size.side, 1, ev.params.slots)
    with ev.scope("input"):
        image = np.zeros((layout.channels, size.side, size.side))
        image[: networks.COLOURS] = networks.normalized(data.image)
        a = ev.encrypt(layout.vector(image), name="image")
        needed = 2 * multiplexed.LEVELS + ACTIVATION_LEVELS + reserve(ev.params)
        a = ev.mod_drop(a, min(ev.params.num_q, needed + 1))
    with ev.scope("stem"):
        weight = np.zeros((layout.channels, layout.channels, 3, 3))
        weight[:, : networks.COLOURS] = net.weights[0]
        a = _convolution(ev, a, layout, weight / net.bounds[0], net.biases[0] / net.bounds[0])
        a = _activation(ev, a)
    layer = 1
    for stage in range(len(WIDTHS)):
        for block in range(BLOCKS):
            with ev.scope("block"):
                a, layout = _block(ev, a, layout, net, layer, 2 if stage > 0 and block == 0 else 1)
                layer += 2
    with ev.scope("output"):
        made = multiplexed.pooled_linear(ev, a, layout, net.linear * net.bounds[-1])
        at = slice(0, None, layout.period)
        logits = np.concatenate([np.real(ev.decrypt(ev.rescale(part)))[at] for part in made])
        result: Floats = logits[: networks.CLASSES] + net.linear_bias
        return result


def _block(ev: Any, a: Any, layout: Multiplexed, net: Network, layer: int, stride: int) -> tuple[Any, Multiplexed]:
    before, inner, after = net.bounds[layer - 1 : layer + 2]
    first, second = net.weights[layer] * (before / inner), net.weights[layer + 1] * (inner / after)
    inside = _convolution(ev, a, layout, first, net.biases[layer] / inner, stride)
    with ev.scope("shortcut"):
        if stride == 1:
            beside = ev.mult(a, float(before / after))
        else:
            beside = multiplexed.downsample(ev, a, layout, float(before / after))
        beside = ev.rescale(beside)
    layout = layout.strided(len(first), stride)
    inside = _convolution(ev, _activation(ev, inside), layout, second, net.biases[layer + 1] / after)
    return _activation(ev, ev.add(inside, beside)), layout


def _convolution(ev: Any, a: Any, layout: Multiplexed, weight: Floats, bias: Floats, stride: int = 1) -> Any:
    with ev.scope("convolution"):
        product = ev.rescale(multiplexed.convolve(ev, a, layout, weight, stride))
        return ev.add(product, multiplexed.biases(ev, layout.strided(len(weight), stride), bias))


def _activation(ev: Any, a: Any) -> Any:
    """ReLU; bootstrapped before where the levels do not suffice for it and for the convolution behind it."""
    with ev.scope("activation"):
        if ev.levels(a) < ACTIVATION_LEVELS + multiplexed.LEVELS + reserve(ev.params):
            a = ev.bootstrap(a)
        return ev.chebyshev_series(a, resnet20.relu_series(), -1.0, 1.0)

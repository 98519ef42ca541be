"""The networks with a quarter of the channels and drawn weights: every layer and refresh, on a ring of a quarter.

`make networks` (PENSTOCK_NETWORKS=wide) has them of full width, with their trained weights.
"""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest

from penstock.program.workloads import resnet20, resnet20_multiplexed
from penstock.program.workloads.parts import networks
from penstock.program.workloads.resnet20 import Data, ResNet20
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.spec import CkksSpec, spec_of
from penstock_studies.workloads import low_memory_resnet
from penstock_studies.workloads import resnet20 as cryptoracle_resnet20

NARROWER = 4
WIDE = os.environ.get("PENSTOCK_NETWORKS") == "wide"
NETWORKS = {each.NAME: each for each in (resnet20, resnet20_multiplexed, cryptoracle_resnet20)}

FEW_VALUES = ("bootstrapping", "sorting", "sorting-k-way", "sorting-three-way")
"""Programs that refresh, and whose smallest size has room in a quarter of its set."""


def narrow_network(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[CkksParameters, Any]:
    """Parameters and data of a network of `workloads`, whose module has a quarter of the channels from now on."""
    module: Any = NETWORKS[name]
    size = module.SIZES["ci"]
    wide = catalogue.get(size.params)
    if WIDE:
        return wide, module.data(size, wide.slots, 1)
    params = quarter(wide)
    given = module.data(size, params.slots, 1)
    if isinstance(given, Data):
        widths = tuple(each // NARROWER for each in resnet20.WIDTHS)
        for each in (resnet20, resnet20_multiplexed):
            monkeypatch.setattr(each, "WIDTHS", widths)
        return params, _drawn(given)
    channels = low_memory_resnet.CHANNELS // NARROWER
    for each in (cryptoracle_resnet20, low_memory_resnet):
        monkeypatch.setattr(each, "CHANNELS", channels)
    return params, given


def quarter(params: CkksParameters) -> CkksParameters:
    """The same set with a quarter of the ring and of the slots."""
    smaller = {"ring_dim": params.ring_dim // NARROWER, "slots": params.slots // NARROWER}
    return CkksSpec(**{**spec_of(params).model_dump(), **smaller}).build()


def _drawn(given: Data) -> Data:
    """The image, with drawn weights (He et al., ICCV 2015) of the narrow shapes."""
    random = np.random.default_rng(1)
    shapes = [each.shape for each in resnet20.blank(resnet20.SIZES["ci"], 0).network.weights]
    weights = tuple(random.normal(0, np.sqrt(2 / np.prod(shape[1:])), shape) for shape in shapes)
    biases = tuple(random.normal(0, 0.1, shape[0]) for shape in shapes)
    linear = random.normal(0, 1 / np.sqrt(resnet20.WIDTHS[-1]), (networks.CLASSES, resnet20.WIDTHS[-1]))
    bias = random.normal(0, 0.1, networks.CLASSES)
    free = ResNet20(weights, biases, linear, bias, np.ones(resnet20.ACTIVATIONS))
    largest = np.zeros(resnet20.ACTIVATIONS)

    def watch(x: Any, index: int) -> Any:
        largest[index] = float(np.abs(x).max())
        return networks.relu(x)

    free.logits(networks.normalized(given.image[None]), watch)
    bounds = largest * networks.MARGIN
    return Data(given.image, given.label, ResNet20(weights, biases, linear, bias, bounds), given.description)

"""The size of logistic regression that uses all levels of 128 bit at N = 2^16."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest

from penstock.errors import ParamsError
from penstock.program.running.clear import run_clear
from penstock.program.running.trace import trace_workload
from penstock.program.workloads import logistic_regression
from penstock.scheme.params import catalogue
from penstock.scheme.params.spec import CkksSpec, spec_of


def test_its_set_is_secure_and_one_more_limb_is_not() -> None:
    deep = catalogue.get("openfhe-deep")
    assert (deep.ring_dim, deep.security_bits, deep.security_asked) == (2**16, 128, 128)
    written = spec_of(deep).model_dump(exclude_none=True)
    longer = {**written, "name": "longer", "depth": deep.depth + 1}
    with pytest.raises(ParamsError, match="128"):
        CkksSpec.from_mapping(longer, "longer").build()


def test_its_iterations_take_every_level_and_refresh_nothing() -> None:
    size = logistic_regression.SIZES["deep"]
    deep = catalogue.get(size.params)
    assert sum(logistic_regression.blocks(size, "full")) == deep.depth
    kinds = trace_workload("logistic-regression", size="deep").count_by_kind()
    assert "bootstrap" not in kinds
    assert kinds["decrypt"] == 1


def test_ciphertexts_abreast_share_keys_and_train_the_same_model(monkeypatch: pytest.MonkeyPatch) -> None:
    models, changes = [], []
    for abreast in (1, 2, 3, 8):
        size = replace(logistic_regression.SIZES["ci"], abreast=abreast)
        monkeypatch.setitem(logistic_regression.SIZES, "ci", size)
        models.append(run_clear("logistic-regression", size="ci"))
        keys = [key for key in trace_workload("logistic-regression", size="ci").operations["key"].to_pylist() if key]
        changes.append(sum(a != b for a, b in pairwise(keys)))
    assert all(np.array_equal(models[0], model) for model in models)
    assert changes == sorted(changes, reverse=True)
    assert changes[0] > 2 * changes[-1]

"""The size of logistic regression that uses all levels of 128 bit at N = 2^16."""

from __future__ import annotations

import pytest

from penstock.errors import ParamsError
from penstock.params import catalogue
from penstock.params.spec import CkksSpec
from penstock.program.reading import trace_workload
from penstock.workloads import logistic_regression


def test_its_set_is_secure_and_one_more_limb_is_not() -> None:
    deep = catalogue.get("openfhe-deep")
    assert (deep.ring_dim, deep.security_bits, deep.security_asked) == (2**16, 128, 128)
    written = deep.to_spec().model_dump(exclude_none=True)
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

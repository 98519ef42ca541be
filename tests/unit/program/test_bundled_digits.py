"""The bundled digits without their library: what the library itself reads."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.errors import CapabilityMissing
from penstock.program.workloads.parts import images


def test_they_are_those_that_scikit_learn_loads() -> None:
    datasets = pytest.importorskip("sklearn.datasets")
    expected = datasets.load_digits()
    found, digits = images.bundled_digits("files")
    np.testing.assert_array_equal(found, expected.images / 16.0)
    np.testing.assert_array_equal(digits, expected.target)


def test_without_the_library_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "find_spec", lambda name: None)
    with pytest.raises(CapabilityMissing, match="not installed: 'make setup'; or bring files of yours"):
        images.bundled_digits("files of yours")

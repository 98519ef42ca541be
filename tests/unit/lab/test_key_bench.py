"""The benchmark of keys: bad words are refused before anything is made."""

from __future__ import annotations

import pytest

from penstock.errors import UsageError
from penstock.lab.measure.key_bench import bench_keys
from penstock.scheme.params import catalogue
from penstock.scheme.params.rlwe import KeyForm


@pytest.mark.parametrize(
    ("words", "rule"),
    [
        ({"rounds": 0}, "0 rounds: ask for one at least"),
        ({"num_keys": 1}, "1 keys: ask for"),
        ({"num_keys": 1 << 20}, "there are 16383 rotations"),
        ({"form": KeyForm.TRUNCATED}, "need every row"),
    ],
)
def test_what_cannot_be_measured_is_refused(words: dict, rule: str) -> None:
    with pytest.raises(UsageError, match=rule):
        bench_keys(catalogue.get("openfhe-demo"), 1, **words)

"""A model that is refreshed sparsely, two halves in one ciphertext, encrypted for real."""

from __future__ import annotations

import pytest

from penstock.program.running.clear import run_clear
from penstock.program.running.openfhe import record_openfhe
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.scheme.traces.inspect import differences, problems


@pytest.mark.smoke
@pytest.mark.usefixtures("openfhe")
def test_a_merged_model_is_refreshed_sparsely_and_trains_as_in_the_clear() -> None:
    name, (workload, size_name, params) = "logistic-regression", resolve("logistic-regression", None, "ci-merged")
    size = workload.SIZES[size_name]
    data = workload.data(size, params.slots, 1)
    done = record_openfhe(name, params, size_name, 1, data)
    check = workload.check(run_clear(name, params, size_name, 1, data), done.result, data, size)
    assert check.max_abs_error < 1e-5, check.rules
    assert list(differences(done.trace, trace_workload(name, params, size_name))) == []
    assert list(problems(done.trace)) == []
    assert any("bootstrap-512" in scope for scope in done.trace.operations["scope"].unique().to_pylist())

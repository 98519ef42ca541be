"""The workloads, encrypted for real, at their ci size."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from penstock.program import workloads
from penstock.program.running.clear import run_clear
from penstock.program.running.openfhe import prepared_openfhe, record_openfhe
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.scheme.traces.inspect import differences, problems
from support.narrow_networks import FEW_VALUES, NETWORKS, quarter

PROGRAMS = [name for name in workloads.names() if name not in (*NETWORKS, "fetch-by-similarity")]
"""The networks are in test_networks_openfhe.py; one begins in a smaller ring."""


@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.usefixtures("openfhe")
def test_encrypted_equals_clear_and_its_trace_equals_the_trace_reading(name: str) -> None:
    workload, size_name, params = resolve(name, None, "ci")
    if name in FEW_VALUES:
        params = quarter(params)
    size = workload.SIZES[size_name]
    data = workload.data(size, params.slots, 1)
    clear = run_clear(name, params, size_name, 1, data)
    done = record_openfhe(name, params, size_name, 1, data, threads=1)
    check = workload.check(clear, done.result, data, size)
    assert check.passed, check.rules
    assert list(differences(done.trace, trace_workload(name, params, size_name))) == []
    assert list(problems(done.trace)) == []
    assert done.wall_s > 0


@pytest.mark.usefixtures("openfhe")
def test_a_filter_over_many_rows_is_right_where_its_mask_is_steepest() -> None:
    """Six standard deviations of the errors of fresh ciphertexts come to 7e-6 of a count (docs/guides/databases.md)."""
    name, (workload, size_name, params) = "filter-aggregate", resolve("filter-aggregate", None, "full")
    size = workload.SIZES[size_name]
    drawn = workload.data(size, params.slots, 3)
    expected = trace_workload(name, params, size_name)
    with prepared_openfhe(name, params, size_name, 3, drawn, threads=1) as run:
        for query in (0, 7):
            data = replace(drawn, query=query)
            clear = run_clear(name, params, size_name, 3, data)
            done = run(other=data)
            check = workload.check(clear, done.result, data, size)
            assert check.passed, check.rules
            assert check.max_abs_error <= 7e-6
            assert list(differences(done.trace, expected)) == []


@pytest.mark.usefixtures("openfhe")
def test_two_different_inputs_give_one_trace() -> None:
    name, (workload, size_name, params) = "inner-product", resolve("inner-product", None, "ci")
    size = workload.SIZES[size_name]
    traces = []
    for seed in (1, 2):
        data = workload.data(size, params.slots, seed)
        traces.append(record_openfhe(name, params, size_name, seed, data, threads=1).trace)
    assert list(differences(*traces)) == []


@pytest.mark.usefixtures("openfhe")
def test_a_wrong_result_fails_its_check() -> None:
    workload, size_name, params = resolve("matrix-multiplication", None, "ci")
    size = workload.SIZES[size_name]
    data = workload.data(size, params.slots, 0)
    clear = run_clear("matrix-multiplication", params, size_name, 0, data)
    assert workload.check(clear, clear, data, size).passed
    assert not workload.check(clear, clear + 0.01, data, size).passed
    assert not workload.check(clear, np.zeros_like(clear), data, size).passed


@pytest.mark.usefixtures("openfhe")
def test_an_accelerator_set_cannot_be_run() -> None:
    from penstock.errors import ParamsError

    with pytest.raises(ParamsError, match="for accelerators"):
        record_openfhe("inner-product", "sharp")

"""The programs at accelerator parameters: what they compute, and how often they bootstrap."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from penstock.errors import ParamsError, UsageError
from penstock.program import workloads
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running.clear import run_clear
from penstock.program.running.counting import count_workload
from penstock.program.running.reading import resolve
from penstock.program.running.trace import trace_workload
from penstock.program.workloads import logistic_regression as helr
from penstock.program.workloads import sorting
from penstock.scheme.operations import rotation_key
from penstock.scheme.params import catalogue
from support.toy import toy


def bootstraps(name: str, params: str, size: str | None = None) -> dict[str, int]:
    """How often each kind of bootstrapping is called."""
    rows = trace_workload(name, params, size).view(composites=True).operations.to_pylist()
    scopes = [row["scope"].rpartition("/")[2].partition("[")[0] for row in rows if row["kind"] == "bootstrap"]
    return {scope: scopes.count(scope) for scope in sorted(set(scopes))}


# ResNet-20.
def test_the_published_network_bootstraps_at_the_period_of_each_stage() -> None:
    # Twice a layer but for the stem's, 16 levels in all, where 8 are left behind bootstrapping.
    found = bootstraps("resnet20-multiplexed", "sharp")
    assert found == {"bootstrap-16384": 12, "bootstrap-8192": 12, "bootstrap-4096": 12}


def test_where_sixteen_levels_are_left_the_network_bootstraps_once_a_layer_as_published() -> None:
    assert sum(bootstraps("resnet20-multiplexed", "bts-ins2").values()) == 18


def test_the_published_size_equals_its_plain_network_and_is_near_relu() -> None:
    workload, size, params = resolve("resnet20-multiplexed", None, "published")
    data = workload.data(workload.SIZES[size], params.slots, 1)
    found = workload.check(*[run_clear("resnet20-multiplexed", params, size, 1, data)] * 2, data, workload.SIZES[size])
    assert found.passed
    assert found.numbers["max_abs_difference_to_relu"] < 1e-2


def test_the_low_memory_network_is_refreshed_by_the_placement_rule() -> None:
    # At `fab` six levels are left, as many as an activation takes: convolutions ask for refreshes of their own.
    assert bootstraps("resnet20", "fab") == {"bootstrap": 36}


def test_an_activation_deeper_than_a_refresh_is_refused_with_both_numbers() -> None:
    with pytest.raises(ParamsError, match=r"takes 6 levels and a refreshed ciphertext .* has 5"):
        trace_workload("resnet20", "tensorfhe-resnet20")


# HELR.
@pytest.mark.parametrize(
    ("params", "size", "expected"),
    [
        ("sharp", None, {"bootstrap-256": 31}),
        ("sharp", "helr-merged", {"bootstrap-512": 31}),
        ("sharp", "helr-apart", {"bootstrap-256": 62}),
        # Sixteen parts of 32 columns beside 1024 samples.
        ("sharp", "helr-columns", {"bootstrap-32": 31 * 16}),
        ("fab", "helr-merged", {"bootstrap-256": 62}),
    ],
)
def test_the_model_is_refreshed_once_an_iteration_by_each_program(
    params: str, size: str | None, expected: dict[str, int]
) -> None:
    assert bootstraps("logistic-regression", params, size) == expected


def test_a_library_without_products_with_i_refreshes_side_by_side() -> None:
    assert helr.refresh_of(helr.SIZES["helr"], catalogue.get("openfhe-demo")) == "merged"
    assert helr.refresh_of(helr.SIZES["helr"], catalogue.get("sharp")) == "pair"


def test_whole_batches_that_are_no_power_of_two_are_refused() -> None:
    size = helr.Size(params="sharp", batch=12, num_batches=1, iterations=2, learning_rate=1.0, refresh="columns")
    with pytest.raises(ParamsError, match="power of two"):
        helr.blank(size, 64)


@pytest.mark.parametrize("refresh", ["full", "period", "merged", "pair", "columns"])
def test_each_way_of_refreshing_trains_the_same_model(refresh: str) -> None:
    size = helr.Size(params="insecure-ci", batch=16, num_batches=2, iterations=4, learning_rate=1.0, refresh=refresh)
    params = toy(ring_dim=2048, slots=1024)
    reference = helr.Size(params="insecure-ci", batch=16, num_batches=2, iterations=4, learning_rate=1.0)
    data, rows = helr.data(size, params.slots, 0), helr.data(reference, params.slots, 0)

    class Refreshing(ClearEvaluator):
        """Bootstraps whenever it is asked whether it must: what repeats survives, what does not is averaged away."""

        def levels(self, a: Any) -> int:
            return 0

    plan = catalogue.get("sharp").bootstrap
    accelerator = toy(ring_dim=2048, slots=1024, bootstrap=plan, q_bits=(36,) * 35, library="accelerator")
    often = helr.program(Refreshing(accelerator), data, size)
    assert np.allclose(often, helr.program(ClearEvaluator(params), rows, reference), atol=1e-9)


def test_a_refresh_that_does_not_exist_is_refused() -> None:
    size = helr.Size(params="insecure-ci", batch=16, num_batches=1, iterations=1, learning_rate=1.0, refresh="twice")
    with pytest.raises(UsageError, match="merged"):
        helr.refresh_of(size, toy())


# Sorting.
@pytest.mark.parametrize("count", [2, 8, 64])
def test_the_network_sorts(count: int) -> None:
    size = sorting.Size(params="insecure-ci", values=count, degrees="15-15-27", lower_bits=9)
    for seed in range(3):
        data = sorting.data(size, 256, seed)
        got = sorting.program(ClearEvaluator(toy(slots=256)), data, size)
        assert np.allclose(got, np.sort(data.values), atol=2e-3)


def test_every_copy_of_the_values_is_sorted_alike() -> None:
    """A sparse bootstrapping averages the copies, so that they must agree."""
    size = sorting.Size(params="insecure-ci", values=8, degrees="15-15-27", lower_bits=9)

    class Whole(ClearEvaluator):
        def decrypt(self, a: Any) -> Any:
            assert np.allclose(a.reshape(-1, 8), a[:8])
            return a

    sorting.program(Whole(toy(slots=64)), sorting.data(size, 64, 0), size)


def test_sorting_takes_two_bootstrappings_a_step_at_eight_levels() -> None:
    steps = 14 * 15 // 2
    tally = count_workload("sorting", "sharp")
    assert tally.calls["bootstrap"] == 2 * steps - 1
    # One sum of the two copies in each, which only a bootstrapping of 2^14 of the 2^15 slots takes.
    assert rotation_key(2**14, 2**16) in tally.keys


def test_more_values_than_slots_are_refused() -> None:
    size = sorting.SIZES["published"]
    with pytest.raises(ParamsError, match="more slots"):
        sorting.program(SymbolicEvaluator(toy()), sorting.blank(size, 64), size)


def test_numbers_of_ones_own_are_sorted_and_wrong_ones_are_named(tmp_path: Path) -> None:
    size, path = sorting.SIZES["ci"], tmp_path / "numbers.txt"
    path.write_text("0.5\n0.1\n0.9\n0.3\n")
    assert sorting.data(size, 64, 0, path).values.tolist() == [0.5, 0.1, 0.9, 0.3]
    for content in ("0.5\n", "0.5\n0.1\n0.9\n7\n", "half\n"):
        path.write_text(content)
        with pytest.raises(UsageError, match="numbers"):
            sorting.data(size, 64, 0, path)


# Bootstrapping.
def test_bootstrapping_is_a_workload_of_one_call() -> None:
    assert bootstraps("bootstrapping", "sharp") == {"bootstrap": 1}
    assert bootstraps("bootstrapping", "sharp", "accelerator-2^9") == {"bootstrap-512": 1}
    workload = workloads.get("bootstrapping")
    with pytest.raises(UsageError, match="no data"):
        workload.data(workload.SIZES["ci"], 64, 0, Path("x"))

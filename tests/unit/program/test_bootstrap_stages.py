"""The stages of few keys beside OpenFHE's: the same transforms, with fewer keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from penstock.errors import ParamsError
from penstock.program.evaluator.circuits.bootstrap import input_levels, refreshed_levels, with_few_keys
from penstock.program.evaluator.circuits.openfhe.stages import (
    LibraryStage,
    few_key_stages,
    transform_stages,
    turned_back,
)
from penstock.program.evaluator.noisy import NoisyEvaluator
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running import trace_workload
from penstock.program.running.openfhe import record_openfhe
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.params.spec import CkksSpec, spec_of
from penstock.scheme.traces.inspect import problems
from penstock.scheme.traces.schema import TraceMeta
from support.toy import toy_bootstrap

Vector = npt.NDArray[np.complex128]


def transformed(
    x: Vector, stages: Sequence[LibraryStage], slots: int, *, decode: bool, halves: bool, lead: int = 0
) -> Vector:
    """What the stages leave of a vector that is rotated to the left by `lead`."""
    for index, stage in enumerate(stages):
        lead += stage.offset * stage.scale
        side = halves and index == (0 if decode else len(stages) - 1)
        x = sum(
            np.roll(np.resize(stage.diagonal(k, slots, decode=decode, halves=side), len(x)), -lead)
            * np.roll(x, -k * stage.scale)
            for k in range(stage.diagonals)
            if stage.has(k)
        )
    return x


def lead_of(stages: Sequence[LibraryStage]) -> int:
    return sum(stage.offset * stage.scale for stage in stages)


@pytest.mark.parametrize("halves", [False, True])
@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("baby", [0, 8])
@pytest.mark.parametrize(("slots", "budget"), [(2, 2), (16, 2), (64, 4), (128, 3), (256, 1), (512, 4)])
def test_few_keys_are_the_librarys_transform_turned_by_the_widest_stride(
    slots: int, budget: int, baby: int, decode: bool, halves: bool
) -> None:
    random = np.random.default_rng(slots)
    # Real halves lie in twice the slots; elsewhere values repeat.
    x = random.normal(size=2 * slots) + 1j * random.normal(size=2 * slots)
    x = x if halves and decode else np.tile(x[:slots], 2)
    theirs, ours = (
        transform_stages(slots, budget, 0, decode=decode),
        few_key_stages(slots, budget, baby, decode=decode, halves=halves),
    )
    expected = np.roll(transformed(x, theirs, slots, decode=decode, halves=halves), lead_of(theirs))
    found = np.roll(transformed(x, ours, slots, decode=decode, halves=halves), lead_of(ours))
    if halves and decode:  # only the sum of both halves counts
        expected, found = expected[:slots] + expected[slots:], found[:slots] + found[slots:]
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    assert sum(stage.layers for stage in ours) == max(1, slots.bit_length() - 1)
    assert lead_of(ours) % max(stage.scale for stage in ours) == 0


@pytest.mark.parametrize(("slots", "budget"), [(2**14, (4, 4)), (2**15, (4, 4)), (2**10, (3, 3)), (2**9, (4, 2))])
def test_the_last_stage_takes_back_what_both_directions_turned(slots: int, budget: tuple[int, int]) -> None:
    for halves in (False, True):
        encode = few_key_stages(slots, budget[0], decode=False, halves=halves)
        decode = few_key_stages(slots, budget[1], decode=True, halves=halves)
        whole = turned_back(decode, lead_of(encode))
        assert (lead_of(encode) + lead_of(whole)) % decode[-1].scale == 0
        if encode[0].scale % decode[-1].scale == 0:
            assert lead_of(encode) + lead_of(whole) == 0


def test_a_bootstrapping_of_few_keys_reads_a_third_of_the_keys_and_fewer_bytes_in_all() -> None:
    params = replace(catalogue.get("openfhe-bootstrap"), slots=2**14, ring_dim=2**16)
    library, few = (trace_workload("bootstrapping", each, "full") for each in (params, with_few_keys(params)))
    assert (len(library.key_ids()), len(few.key_ids())) == (67, 21)
    read = [
        sum(
            params.key_bytes(row["limbs_in"], key=row["key"])
            for row in trace.view().operations.to_pylist()
            if row["key"]
        )
        for trace in (library, few)
    ]
    assert read[1] < 0.7 * read[0]
    assert library.view().operations["limbs_out"][-1] == few.view().operations["limbs_out"][-1]


def test_few_keys_are_a_plan_of_openfhes_parameters_that_openfhe_itself_does_not_take() -> None:
    params = with_few_keys(catalogue.get("openfhe-bootstrap"))
    assert spec_of(params).build().bootstrap == params.bootstrap
    assert with_few_keys(catalogue.get("sharp")) == catalogue.get("sharp")
    sharp = spec_of(catalogue.get("sharp"))
    assert sharp.bootstrap is not None
    with pytest.raises(ParamsError, match="few-keys"):
        sharp.model_copy(update={"bootstrap": sharp.bootstrap.model_copy(update={"rotations": "few-keys"})}).build()
    with pytest.raises(ParamsError, match="few-keys"):
        record_openfhe("bootstrapping", params, "full")


@pytest.mark.parametrize("decode", [False, True])
@pytest.mark.parametrize("few", [False, True])
@pytest.mark.parametrize(("slots", "budget"), [(4, 2), (64, 2), (512, 3), (1024, 4)])
def test_diagonals_repeat_with_their_period(slots: int, budget: int, few: bool, decode: bool) -> None:
    made = few_key_stages(slots, budget, decode=decode, halves=False)
    stages = made if few else transform_stages(slots, budget, 0, decode=decode)
    periods = [stage.period(slots) for stage in stages]
    assert max(periods) == slots
    assert min(periods) < slots or slots < 64
    for stage, period in zip(stages, periods, strict=True):
        for k in filter(stage.has, range(stage.diagonals)):
            found = stage.diagonal(k, slots, decode=decode, halves=False)
            np.testing.assert_allclose(found, np.resize(found[:period], slots), rtol=0, atol=1e-12)


@pytest.mark.parametrize("scaling", list(Scaling))
@pytest.mark.parametrize(("slots", "period"), [(1024, None), (256, None), (256, 16), (16, 8)])
def test_slots_to_coeffs_first_is_as_precise_and_takes_the_levels_that_it_gives(
    scaling: Scaling, slots: int, period: int | None
) -> None:
    last = with_few_keys(toy_bootstrap(scaling, slots))
    first = replace(last, bootstrap=replace(last.bootstrap, order="stc-first"))
    stages = last.bootstrap.stc_stages
    assert input_levels(first) == input_levels(last) + stages
    assert refreshed_levels(first) == refreshed_levels(last) + stages
    x = np.random.default_rng(3).uniform(-1, 1, period or slots)
    bits = {}
    for params in (last, first):
        ev = NoisyEvaluator(params, exact_ratio=True)
        low = ev.mod_drop(ev.encrypt(np.tile(x, slots // len(x))), input_levels(params) + 1)
        a = ev.bootstrap(low, period)
        # FLEXIBLEAUTOEXT keeps a limb for fresh ciphertexts.
        assert ev.levels(a) == refreshed_levels(params) - (scaling is Scaling.FLEXIBLE_AUTO_EXT)
        error = ev.decrypt(a).real[: len(x)] - x
        bits[params.bootstrap.order] = -np.log2(np.sqrt(np.mean(error**2)))
    # Few values scatter.
    assert bits["stc-first"] > bits["stc-last"] - (1 if len(x) > 16 else 2)


def test_slots_to_coeffs_first_has_one_sine_for_all_slots_and_its_transform_at_few_limbs() -> None:
    rows = {}
    for order in ("stc-last", "stc-first"):
        params = with_few_keys(toy_bootstrap(Scaling.FLEXIBLE_AUTO, 1024))
        params = replace(params, bootstrap=replace(params.bootstrap, order=order))
        ev = SymbolicEvaluator(params)
        ev.bootstrap(ev.fresh(input_levels(params) + 1))
        meta = TraceMeta(workload="refresh", params=params.to_dict(), reading="trace")
        trace = ev.builder.finish(meta)
        assert list(problems(trace)) == []
        rows[order] = trace.view().operations.to_pylist()
    products = {name: sum(row["kind"] in ("mult", "square") for row in found) for name, found in rows.items()}
    assert products["stc-last"] == 2 * products["stc-first"]
    stages = params.bootstrap.stc_stages
    of_transform = {row["limbs_in"] for row in rows["stc-first"] if "/stc[" in row["scope"]}
    assert max(of_transform) == stages + 2
    # Both orders need the same keys: those of the transforms.
    keys = [{row["key"] for row in found} for found in rows.values()]
    assert keys[0] == keys[1]


def test_slots_to_coeffs_first_needs_levels_of_its_input_and_few_keys() -> None:
    params = with_few_keys(toy_bootstrap(Scaling.FLEXIBLE_AUTO, 64))
    first = replace(params, bootstrap=replace(params.bootstrap, order="stc-first"))
    ev = SymbolicEvaluator(first)
    with pytest.raises(ParamsError, match="takes 4 levels of its input, and the ciphertext has 3 left"):
        ev.bootstrap(ev.fresh(4))
    hoisted = replace(first, bootstrap=replace(first.bootstrap, rotations="hoisted"))
    ev = SymbolicEvaluator(hoisted)
    with pytest.raises(ParamsError, match="ends with SlotsToCoeffs"):
        ev.bootstrap(ev.fresh(8))
    spec = spec_of(params).model_dump()
    spec["bootstrap"] |= {"order": "stc-first", "rotations": "hoisted"}
    with pytest.raises(ParamsError, match="not in OpenFHE"):
        CkksSpec(**spec).build()


def test_more_baby_steps_have_more_keys_and_fewer_decompositions() -> None:
    few = with_few_keys(toy_bootstrap(Scaling.FLEXIBLE_AUTO, 1024))
    keys, decompositions, results = [], [], []
    x = np.random.default_rng(3).uniform(-1, 1, 1024)
    for baby in (0, 8, 16):
        params = replace(few, bootstrap=replace(few.bootstrap, baby_steps=baby))
        ev = NoisyEvaluator(params, exact_ratio=True)
        a = ev.bootstrap(ev.mod_drop(ev.encrypt(x), 2))
        results.append(-np.log2(np.sqrt(np.mean((ev.decrypt(a).real - x) ** 2))))
        trace = ev.builder.finish(TraceMeta(workload="refresh", params=params.to_dict(), reading="trace"))
        keys.append(len(trace.key_ids()))
        decompositions.append(
            sum(k in ("decompose", "decompose_extended") for k in trace.operations["kind"].to_pylist())
        )
    assert keys == sorted(set(keys))
    assert decompositions == sorted(set(decompositions), reverse=True)
    assert np.ptp(results) < 1
    spec = spec_of(few).model_dump()
    for changes in ({"baby_steps": 6}, {"baby_steps": 8, "rotations": "hoisted"}):
        with pytest.raises(ParamsError, match=r"bootstrap.baby_steps \d: a power of two"):
            CkksSpec(**{**spec, "bootstrap": spec["bootstrap"] | changes}).build()

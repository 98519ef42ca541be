from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from penstock.errors import ParamsError, UsageError
from penstock.program.running.counting import count_workload
from penstock.scheme.operations import OpKind
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.params.sizes import (
    key_bytes_by_limbs,
    rotation_keys,
    serialized_ciphertext_bytes,
    serialized_key_bytes,
    size_report,
)
from penstock.scheme.params.spec import CkksSpec
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.schema import Trace, TraceMeta


def chip(**changes: Any) -> CkksParameters:
    written: dict[str, Any] = {
        "name": "chip", "ring_dim": 2**16, "scale_bits": 36, "dnum": 3, "word_bits": 64, "library": "accelerator",
        "q_bits": "24 x 36", "p_bits": "8 x 36",
    }  # fmt: skip
    return CkksSpec(**{**written, **changes}).build()


def traced(params: CkksParameters, *, modelled: bool) -> Trace:
    """Two rotations and a product, the second rotation perhaps in our model of a composite."""
    builder = TraceBuilder(params)
    a = builder.ciphertext(3)
    at: dict[str, Any] = {"limbs_in": 3, "limbs_out": 3}
    builder.add(OpKind.ROTATE, operands=(a,), output=builder.ciphertext(3), key="rot:5", step=1, **at)
    builder.add(OpKind.MULT, operands=(a, a), output=builder.ciphertext(3), key="relin", **at)
    with builder.open_scope("composite", modelled=modelled):
        builder.add(OpKind.ROTATE, operands=(a,), output=builder.ciphertext(3), key="rot:25", step=2, **at)
    return builder.finish(TraceMeta(workload="toy", params={}, reading="trace"))


def test_a_key_is_digits_times_two_polynomials_of_all_limbs() -> None:
    # 3 digits * 2 polynomials * (24 + 8) limbs * 2^16 coefficients * 8 bytes = 96 MiB.
    report = size_report(chip())
    assert report["rotation_key_bytes"] == report["relinearization_key_bytes"] == 100_663_296
    assert report["seeded_key_bytes"] == 50_331_648
    assert report["ciphertext_bytes"] == 2 * 24 * 2**16 * 8
    assert report["plaintext_bytes"] == 24 * 2**16 * 8


def test_the_key_of_sharp_is_the_published_one() -> None:
    report = size_report(catalogue.get("sharp"))
    # 2 * 3 * 47 * 2^16 * 4.5 bytes = 79.3 MiB, which papers print as 79.3 MB.
    assert report["rotation_key_bytes"] == 83_165_184
    assert report["rotation_key_bytes"] / 2**20 == pytest.approx(79.3, abs=0.05)
    assert report["seeded_key_bytes"] * 2 == report["rotation_key_bytes"]


def test_all_keys_are_counted_in_the_form_that_the_set_stores() -> None:
    full, seeded = size_report(chip(), rotations=[1, 2]), size_report(chip(key_form="seeded"), rotations=[1, 2])
    assert full["num_keys"] == seeded["num_keys"] == 3
    assert full["total_key_bytes"] == 3 * full["rotation_key_bytes"]
    assert seeded["total_key_bytes"] == 3 * seeded["seeded_key_bytes"]
    assert seeded["rotation_key_bytes"] == full["rotation_key_bytes"]


def test_a_lower_level_reads_fewer_limbs_and_then_fewer_digits() -> None:
    rows = {row["limbs"]: row for row in key_bytes_by_limbs(chip())}
    assert list(rows) == list(range(24, 0, -1))
    word = 2**16 * 8
    assert [rows[n]["active_digits"] for n in (24, 17, 16, 9, 8, 1)] == [3, 3, 2, 2, 1, 1]
    assert [rows[n]["full_key_bytes"] for n in (17, 16, 8)] == [3 * 2 * 25 * word, 2 * 2 * 24 * word, 1 * 2 * 16 * word]
    assert all(2 * row["seeded_key_bytes"] == row["full_key_bytes"] for row in rows.values())
    assert rows[1]["ciphertext_bytes"] == 2 * rows[1]["plaintext_bytes"] == 2 * word


def test_rotations_that_share_a_galois_element_share_a_key() -> None:
    params = catalogue.get("insecure-ci")
    assert rotation_keys(params, [1, 2049, 1, -2047, 2]) == ["rot:5", "rot:25"]
    assert size_report(params, rotations=[1, 1, 2])["num_keys"] == 3


def test_a_left_and_a_right_rotation_need_two_keys() -> None:
    assert len(rotation_keys(catalogue.get("insecure-ci"), [1, -1])) == 2


@pytest.mark.parametrize("step", [0, 2048, -4096])
def test_a_rotation_that_moves_nothing_is_refused(step: int) -> None:
    with pytest.raises(UsageError, match=f"rotation {step} moves nothing"):
        rotation_keys(catalogue.get("insecure-ci"), [1, step])


def test_without_rotations_only_the_relinearization_key_is_counted() -> None:
    report = size_report(chip())
    assert (report["num_keys"], report["keys"]) == (1, ["relin"])


def test_a_trace_brings_its_own_keys() -> None:
    params = catalogue.get("insecure-small")
    report = size_report(params, trace=traced(params, modelled=False))
    assert report["keys"] == ["rot:5", "relin", "rot:25"]
    assert report["total_key_coefficient_bytes"] == 3 * params.key_bytes()
    assert report["total_key_bytes"] == 2 * report["rotation_key_bytes"] + report["relinearization_key_bytes"]
    with pytest.raises(UsageError, match="not both"):
        size_report(params, rotations=[1], trace=traced(params, modelled=False))


def test_keys_of_a_modelled_composite_make_their_number_an_estimate() -> None:
    params = catalogue.get("insecure-small")
    exact = size_report(params, trace=traced(params, modelled=False))["exactness"]
    estimated = size_report(params, trace=traced(params, modelled=True))["exactness"]
    assert (exact["num_keys"], exact["total_key_bytes"]) == ("exact", "exact")
    assert (estimated["num_keys"], estimated["total_key_bytes"]) == ("estimated", "estimated")
    assert estimated["rotation_key_bytes"] == "exact"


def test_sizes_that_rest_on_an_assumed_value_are_estimates() -> None:
    assert set(size_report(chip())["exactness"].values()) == {"exact"}
    digits = size_report(chip(assumed=["dnum"]))["exactness"]
    assert (digits["rotation_key_bytes"], digits["ciphertext_bytes"]) == ("estimated", "exact")
    words = size_report(chip(assumed=["word_bits"]))["exactness"]
    assert (words["ciphertext_bytes"], words["security_bits"]) == ("estimated", "exact")
    assert size_report(chip(assumed=["secret"]))["exactness"]["security_bits"] == "estimated"


def test_an_assumed_scale_of_an_openfhe_set_makes_its_sizes_estimates() -> None:
    spec = CkksSpec(name="x-insecure", ring_dim=4096, depth=3, scale_bits=50, security="none", assumed=("scale_bits",))
    assert size_report(spec.build())["exactness"]["rotation_key_bytes"] == "estimated"


@pytest.mark.parametrize("name", catalogue.names())
def test_every_number_of_a_report_says_how_sure_it_is(name: str) -> None:
    report = size_report(catalogue.get(name), rotations=[1, 2, 4])
    numbers = {key for key, value in report.items() if key.endswith(("_bytes", "_keys", "_bits"))}
    assert set(report["exactness"]) == numbers
    for key in numbers:
        assert (report["exactness"][key] == "unknown") == (report[key] is None)
        assert report[key] is None or report[key] >= 0


def test_a_report_names_the_documented_fields_in_order() -> None:
    documented = [
        "params", "rotation_key_bytes", "relinearization_key_bytes", "seeded_key_bytes", "ciphertext_bytes",
        "plaintext_bytes", "num_keys", "total_key_bytes", "security_bits",
    ]  # fmt: skip
    assert list(size_report(chip()))[: len(documented)] == documented


def test_headers_are_a_small_part_of_what_openfhe_writes() -> None:
    params = catalogue.get("openfhe-bench")
    assert 1_000 < serialized_key_bytes(params) - params.key_bytes(key_form=KeyForm.FULL) < 10_000
    assert 500 < serialized_ciphertext_bytes(params) - params.ciphertext_bytes(params.num_q) < 3_000


def test_an_accelerator_writes_no_openfhe_files() -> None:
    with pytest.raises(ParamsError, match="states prime sizes, not primes"):
        serialized_key_bytes(chip())
    report = size_report(chip())
    assert report["rotation_key_bytes"] == report["rotation_key_coefficient_bytes"]


def test_openfhe_writes_no_seeded_keys() -> None:
    spec = CkksSpec(name="x-insecure", ring_dim=4096, depth=3, scale_bits=50, security="none", key_form="seeded")
    report = size_report(spec.build())
    assert report["total_key_bytes"] == report["total_key_coefficient_bytes"]


def test_the_keys_of_a_program_are_counted_in_every_form() -> None:
    params = catalogue.get("insecure-small")
    report = size_report(params, trace=traced(params, modelled=False))
    assert report["key_limbs"] == {"rot:5": 3, "relin": 3, "rot:25": 3}
    # 7 limbs in digits of 3, and 3 special ones: all rows are 3 x 10, those up to 3 limbs 1 x 6, of two polynomials.
    assert (params.num_q, params.num_p, params.digit_limbs) == (7, 3, 3)
    row = params.ring_dim * 8
    assert report["key_forms"] == [
        {"key_form": "full", "stored_key_bytes": 3 * 60 * row, "ratio_to_full": 1.0, "exactness": "exact"},
        {"key_form": "seeded", "stored_key_bytes": 3 * 30 * row, "ratio_to_full": 0.5, "exactness": "exact"},
        {"key_form": "truncated", "stored_key_bytes": 3 * 12 * row, "ratio_to_full": 0.2, "exactness": "exact"},
        {"key_form": "seeded+truncated", "stored_key_bytes": 3 * 6 * row, "ratio_to_full": 0.1,
         "exactness": "exact"},
    ]  # fmt: skip


def test_the_total_is_of_the_form_that_is_asked_for_and_openfhe_s_files_are_full() -> None:
    params = catalogue.get("insecure-small")
    trace = traced(params, modelled=False)
    full, cut = size_report(params, trace=trace), size_report(params, trace=trace, key_form=KeyForm.TRUNCATED)
    assert full["total_key_bytes"] > full["total_key_coefficient_bytes"] == 3 * params.key_bytes()
    assert cut["total_key_bytes"] == cut["total_key_coefficient_bytes"] == 3 * params.key_bytes(3)
    assert cut["key_form"] == "truncated"
    assert cut["key_forms"] == full["key_forms"]


def test_a_truncated_total_needs_a_program() -> None:
    with pytest.raises(UsageError, match="key form 'truncated': a program says how far each key is used"):
        size_report(chip(), key_form=KeyForm.TRUNCATED)
    assert (size_report(chip())["key_forms"], size_report(chip())["key_limbs"]) == (None, None)
    # A set may say it; without a program all rows are counted.
    assert size_report(chip(key_form="truncated"))["total_key_bytes"] == chip().key_bytes()


def test_limbs_of_a_modelled_composite_make_truncated_totals_estimates() -> None:
    params = chip()
    builder = TraceBuilder(params)
    a = builder.ciphertext(3)
    for limbs, modelled in ((2, False), (3, True)):
        with builder.open_scope("part", modelled=modelled):
            builder.add(
                OpKind.ROTATE, operands=(a,), output=builder.ciphertext(limbs), key="rot:5", step=1, limbs_in=limbs,
                limbs_out=limbs,
            )  # fmt: skip
    trace = builder.finish(TraceMeta(workload="toy", params={}, reading="trace"))
    words = {row["key_form"]: row["exactness"] for row in size_report(params, trace=trace)["key_forms"]}
    assert words == {form.value: "estimated" if form.is_truncated else "exact" for form in KeyForm}
    asked = size_report(params, trace=trace, key_form=KeyForm.SEEDED_TRUNCATED)["exactness"]
    assert (asked["num_keys"], asked["total_key_bytes"]) == ("exact", "estimated")


@pytest.mark.parametrize(("rotations", "refresh", "network"), [("hoisted", 0.466, 0.333), ("few-keys", 0.463, 0.253)])
def test_seeded_and_truncated_keys_of_a_refresh_and_of_resnet_20_at_full_size(
    rotations: str, refresh: float, network: float
) -> None:
    for name, workload, size, expected in (
        ("openfhe-bootstrap", "bootstrapping", "full", refresh),
        ("openfhe-resnet20", "resnet20", "full", network),
    ):
        params = catalogue.get(name)
        assert params.bootstrap is not None
        params = replace(params, bootstrap=replace(params.bootstrap, rotations=rotations))
        tally = count_workload(workload, params, size)
        both = tally.key_bytes(KeyForm.SEEDED_TRUNCATED) / tally.key_bytes(KeyForm.FULL)
        assert both == pytest.approx(expected, abs=5e-4)
        assert tally.key_bytes(KeyForm.SEEDED) * 2 == tally.key_bytes(KeyForm.FULL)


@pytest.mark.parametrize("limbs", [0, 8, -1])
def test_a_ciphertext_has_between_one_and_all_limbs(limbs: int) -> None:
    with pytest.raises(ParamsError, match="must be 1 to 7"):
        serialized_ciphertext_bytes(catalogue.get("insecure-small"), limbs)

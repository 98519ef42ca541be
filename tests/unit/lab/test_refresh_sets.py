"""Parameter sets for bootstrapping: secure, in order, with the levels and the precision that were asked for."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import UsageError
from penstock.front.cli.main import main
from penstock.lab.prediction.refresh import (
    ORDERS,
    RefreshDemands,
    consumed_levels,
    refresh_bits,
    refresh_trace,
    refreshes,
)
from penstock.scheme.machines import load_machine
from penstock.scheme.params.spec import CkksSpec, spec_of

SHARP = load_machine("sharp")
# Small transforms: what a test looks at does not depend on the number of slots.
FEW = {"slots": 2**6, "digits": (4,), "stages": (2, 3), "scale_bits": (50, 54, 58)}


def test_every_set_is_secure_leaves_the_levels_and_does_not_overflow() -> None:
    found = refreshes(SHARP, RefreshDemands(**FEW, levels=7, precision=20), top=50)
    assert len(found.rows) > 3
    for row, params in zip(found.rows, found.sets, strict=True):
        assert row["security_bits"] >= 128
        assert row["log_qp"] <= (1747 if row["secret"] == "uniform-encapsulated" else 1608)
        assert row["overflow_log2"] <= -64
        tally, levels = refresh_trace(params)
        assert levels == row["levels"] == 7
        assert row["num_keys"] == len(tally.keys)
        assert row["precision_bits"] == refresh_bits(params) >= 20


def test_precision_is_not_given_up_for_speed() -> None:
    loose, strict = (refreshes(SHARP, RefreshDemands(**FEW, precision=bits), top=1) for bits in (12, 26))
    assert loose.rows[0]["scale_bits"] < strict.rows[0]["scale_bits"]
    assert loose.rows[0]["precision_bits"] < strict.rows[0]["precision_bits"]


@pytest.mark.parametrize("by", sorted(ORDERS))
def test_sets_are_in_the_order_that_is_asked_for(by: str) -> None:
    values = [row[ORDERS[by]] for row in refreshes(SHARP, RefreshDemands(**FEW), by=by, top=20).rows]
    assert len(values) > 3
    assert values == sorted(values)


def test_what_no_set_holds_is_refused_with_the_nearest_that_one_does() -> None:
    with pytest.raises(UsageError, match=r"security does not hold \(\d+ of \d+\).*; \d+ levels are the most that hold"):
        refreshes(SHARP, RefreshDemands(**FEW, levels=25))
    with pytest.raises(UsageError, match=r"60 bits of precision: the most that any of them gives are 2\d\.\d bits"):
        refreshes(SHARP, RefreshDemands(**FEW, precision=60))


def test_a_refresh_consumes_what_its_parts_take() -> None:
    for params in refreshes(SHARP, RefreshDemands(**FEW), top=10).sets:
        plan = spec_of(params).bootstrap
        assert plan is not None
        assert params.depth - consumed_levels(plan) == refresh_trace(params)[1]


def test_the_verb_writes_a_set_that_can_be_read_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "mine.toml"
    options = ["--slots", "2^6", "--levels", "6", "--dnum", "4", "--scale-bits", "54", "--top", "1"]
    verb = ["predict", "refresh", "--machine", "sharp", *options, "-o", str(target)]
    assert main([*verb, "-q", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    params = CkksSpec.from_toml(target).build()
    assert (params.num_q, params.security_bits, params.secret) == (row["limbs"], 128, row["secret"])
    assert main([*verb, "-q"]) != 0  # it does not replace a file unasked
    assert main(["predict", "refresh", "-q"]) != 0  # no machine


def test_several_ring_dimensions_of_one_refresh_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for text in ("8..9", "2^15,2^16"):
        assert main(["predict", "refresh", "-q", "--machine", "sharp", "--ring-dim", text]) == 2
        assert f"--ring-dim {text}: give one whole number" in capsys.readouterr().err

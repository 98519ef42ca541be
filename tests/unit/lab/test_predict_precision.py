"""`predict precision`: its rows, its errors, and sets that are suggested for a precision."""

from __future__ import annotations

import json

import pytest

import penstock as ps
from penstock.errors import ParamsError, PenstockError, UnknownName
from penstock.front.cli.main import main
from penstock.lab.prediction.precision import ProgramAtSet, predict_precision
from penstock.program.running.trace import trace_workload
from penstock.scheme.params import catalogue
from penstock.scheme.params.spec import CkksSpec, spec_of
from penstock.scheme.params.variation import varied

OWN = """
import numpy as np
PARAMS = "insecure-small"
TOLERANCE = {tolerance}

def data(size, slots, seed):
    return np.random.default_rng(seed).uniform(-1, 1, slots)

def program(ev, data, size):
    return ev.decrypt(ev.rescale(ev.square(ev.encrypt(data)))).real
"""


def rows_of(capsys, *arguments):
    assert main(["predict", "precision", *arguments, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return found if isinstance(found, list) else [found]


def test_a_row_says_what_is_predicted(capsys):
    (row,) = rows_of(capsys, "inner-product", "--size", "ci", "--draws", "4")
    assert row["provenance"] == "predicted"
    assert row["draws"] == row["checks_passed"] == 4
    assert row["low_bits"] <= row["precision_bits"] <= row["high_bits"]
    assert row["low_rms_error"] <= row["rms_error"] <= row["high_rms_error"] <= row["high_max_error"]
    assert row["largest_value"] == pytest.approx(1.0, abs=0.01)


def test_a_bit_more_of_scale_is_a_bit_more_of_precision(capsys, tmp_path):
    """Where every level has its own scale: else the drift of the primes counts, which may be any."""
    path = tmp_path / "mine.py"
    path.write_text(OWN.format(tolerance=1).replace("insecure-small", "insecure-resnet20"))
    rows = rows_of(capsys, str(path), "--scale-bits", "40,45,57..59")
    assert [row["scale_bits"] for row in rows] == [40, 45, 57, 58, 59]
    assert [row["params"] for row in rows] == [
        *(f"insecure-resnet20-b{bits}" for bits in (40, 45, 57, 58)),
        "insecure-resnet20",
    ]
    found = [row["precision_bits"] for row in rows]
    assert found[1] - found[0] == pytest.approx(5, abs=0.5)
    assert found[4] - found[2] == pytest.approx(2, abs=0.5)


def test_the_same_seed_gives_the_same_numbers(capsys):
    first, again = (rows_of(capsys, "inner-product", "--size", "ci") for _ in range(2))
    assert first == again


def test_a_program_of_ones_own_and_its_tolerance(capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(OWN.format(tolerance=1e-3))
    (row,) = rows_of(capsys, str(path))
    assert row["workload"] == "mine.py" and row["checks_passed"] == 5  # noqa: PT018
    path = tmp_path / "stricter.py"
    path.write_text(OWN.format(tolerance=1e-15))
    (row,) = rows_of(capsys, str(path))
    assert row["checks_passed"] == 0
    assert main(["predict", "precision", str(path)]) == 0
    said = capsys.readouterr().out
    assert "stricter.py (default) encrypted (openfhe), against the clear result" in said
    assert "0 of 5" in said


def test_a_course_that_depends_on_what_is_decrypted_is_refused(capsys, tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(
        OWN.format(tolerance=1) + "\n_program = program\ndef program(ev, data, size):\n"
        "    found = _program(ev, data, size)\n    return found[found != data**2]\n"
    )
    assert main(["predict", "precision", str(path)]) == 1
    assert "may not depend on what it decrypts" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["inner-product", "--params", "sharp"], "'sharp' is an accelerator's"),
        (["inner-product", "--params", "sharp", "--scale-bits", "40"], "another scale is for OpenFHE's sets"),
        (["inner-product", "--scale-bits", "fourty"], "--scale-bits: 'fourty' is not a whole number"),
        (["inner-product", "--scale-bits", "50..40"], "--scale-bits: '50..40' is not a run"),
        (["inner-product", "--scale-bits", "80"], "scale_bits 80"),
        (["mine.parquet"], "mine.parquet is a trace, made at one chain, of operations without values"),
        (["no-such-workload"], "no-such-workload"),
        (["inner-product", "--draws", "0"], "draws"),
    ],
)
def test_what_cannot_be_predicted_is_refused(capsys, arguments, said):
    assert main(["predict", "precision", *arguments]) == 2
    assert said in capsys.readouterr().err


def test_an_unknown_reading_is_named():
    with pytest.raises(UnknownName, match="did you mean 'native'"):
        predict_precision(ProgramAtSet.of("inner-product", size="ci"), reading="natve")


def test_another_scale_keeps_the_room_above_it():
    base = catalogue.get("insecure-ci")
    assert (base.first_mod_bits, base.scale_bits) == (60, 42)
    lower = varied(base, scale_bits=38)
    assert (lower.first_mod_bits, lower.scale_bits, lower.name) == (56, 38, "insecure-ci-b38")
    assert varied(base, scale_bits=58).first_mod_bits == 60
    assert varied(base, scale_bits=42) is base
    with pytest.raises(ParamsError, match="accelerator's primes"):
        varied(catalogue.get("sharp"), scale_bits=40)


def suggested(capsys, *options):
    arguments = ["predict", "suggest", "inner-product", "--machine", "sharp", "--size", "ci", *options]
    code = main([*arguments, "--format", "json"])
    said = capsys.readouterr()
    return code, (json.loads(said.out) if code == 0 else said.err)


def test_sets_take_the_least_scale_that_gives_the_precision(capsys):
    options = ["--security", "none", "--ring-dim", "2^12,2^13", "--dnum", "1,2"]
    code, rows = suggested(capsys, *options, "--precision", "20")
    assert code == 0
    for row in rows:
        assert row["precision_bits"] >= 20
        base = varied(catalogue.get("insecure-ci"), ring_dim=row["ring_dim"], depth=row["depth"], dnum=1, security=0)
        less = varied(base, scale_bits=row["scale_bits"] - 1)
        assert predict_precision(ProgramAtSet.of("inner-product", less, "ci"), draws=3).least_bits < 20
    assert len({row["ring_dim"] for row in rows}) == 2
    _, plain = suggested(capsys, *options, "--params", "insecure-ci")
    assert {row["precision_bits"] for row in plain} == {None}
    assert {row["scale_bits"] for row in plain} == {42}


def test_a_precision_that_no_scale_gives_is_refused(capsys):
    code, said = suggested(capsys, "--security", "none", "--ring-dim", "2^12", "--precision", "55")
    assert code == 2
    assert "no scale of 20 to 59 bits gives 55 bits of precision: the most that any gives are" in said


def test_a_refresh_is_warned_of(capsys):
    (row,) = rows_of(capsys, "bootstrapping", "--size", "ci", "--draws", "1")
    assert "EvalBootstrap is not known step for step" in row["warnings"][0]
    (row,) = rows_of(capsys, "bootstrapping", "--size", "ci", "--draws", "1", "--reading", "native")
    assert row["warnings"] == []
    (row,) = rows_of(capsys, "inner-product", "--size", "ci", "--draws", "1")
    assert row["warnings"] == []


def test_a_refresh_that_openfhe_refuses_is_refused_in_every_reading(capsys):
    """Its correction factor is 11 at this size, and the first prime would be 12 bits wider than the scale."""
    params = varied(catalogue.get("insecure-resnet20"), scale_bits=48)
    wide = CkksSpec(**{**spec_of(params).model_dump(), "first_mod_bits": 60, "name": "wide"}).build()
    for read in (lambda *program: predict_precision(ProgramAtSet.of(*program)), trace_workload):
        with pytest.raises(ParamsError, match="first prime up to 11 bits wider than the scale"):
            read("bootstrapping", wide, "ci-all-slots")


ROTATIONS = """
import numpy as np
PARAMS = "insecure-ci"

def data(size, slots, seed):
    return np.random.default_rng(seed).uniform(-1, 1, slots)

def program(ev, data, size):
    x = ev.encrypt(data)
    for k in range(8):
        x = ev.add(x, ev.rotate(x, 1 << k))
    return ev.decrypt(x).real
"""


def test_a_scale_that_leaves_no_room_above_it_does_not_hide_the_smaller_ones(capsys, tmp_path):
    """At 59 bits the first prime has one bit more than the scale, and sums do not fit."""
    path = tmp_path / "sums.py"
    path.write_text(ROTATIONS)
    options = ["--machine", "sharp", "--ring-dim", "2^12", "--security", "none", "--dnum", "1"]
    assert main(["predict", "suggest", str(path), *options, "--precision", "20", "--format", "json"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert 35 <= row["scale_bits"] <= 45
    base = varied(catalogue.get("insecure-ci"), ring_dim=2**12, depth=row["depth"], dnum=1, security=0)
    (tmp_path / "d0.toml").write_text(spec_of(base).to_toml())
    rows = rows_of(capsys, str(path), "--params", str(tmp_path / "d0.toml"), "--scale-bits", "54,59")
    assert [row["scale_bits"] for row in rows] == [54]
    assert (
        main(["predict", "precision", str(path), "--params", str(tmp_path / "d0.toml"), "--scale-bits", "54,59"]) == 0
    )
    said = " ".join(capsys.readouterr().err.split())
    assert "none at a scale of 59 bits: " in said
    draws: list[tuple[int, int]] = []
    found = ps.precision(
        str(path), params=tmp_path / "d0.toml", scale_bits=[54, 59], draws=2, on_draw=lambda *done: draws.append(done)
    )
    assert [row["scale_bits"] for row in found] == [54]
    assert found.warnings[0].startswith("none at a scale of 59 bits: ")
    assert draws[:2] == [(1, 4), (2, 4)]
    with pytest.raises(PenstockError):
        ps.precision(str(path), params=tmp_path / "d0.toml", scale_bits=59)
    assert "decrypt: values up to" in said


def test_a_suggestion_says_what_is_not_known_of_a_refresh(capsys):
    options = ["--machine", "sharp", "--ring-dim", "2^12", "--security", "none", "--dnum", "3", "--precision", "18"]
    assert main(["predict", "suggest", "bootstrapping", "--size", "ci", *options, "--format", "json"]) == 0
    rows = json.loads(capsys.readouterr().out)
    assert all(any("EvalBootstrap" in warning for warning in row["warnings"]) for row in rows)


def test_what_is_no_result_or_no_number_of_bits_is_refused(capsys, tmp_path):
    path = tmp_path / "text.py"
    path.write_text(OWN.format(tolerance=1).replace("return ev.decrypt", "return 'abc'; return ev.decrypt"))
    assert main(["predict", "precision", str(path)]) == 2
    assert "returns what cannot be compared" in capsys.readouterr().err
    assert main(["predict", "suggest", "inner-product", "--machine", "sharp", "--precision", "nan"]) == 2
    assert "--precision nan: bits are a number" in capsys.readouterr().err


def test_a_scale_without_a_row_is_left_out_in_python_and_by_the_verb(capsys, tmp_path):
    path = tmp_path / "mine.py"
    text = OWN.format(tolerance=1).replace("np.random.default_rng(seed).uniform(-1, 1, slots)", "np.full(slots, 99.0)")
    path.write_text(text.replace("ev.rescale(ev.square(ev.encrypt(data)))", "ev.mod_drop(ev.encrypt(data), 1)"))
    found = ps.precision(path, scale_bits=[40, 59], draws=1)
    assert [row["scale_bits"] for row in found] == [40]
    why = found.warnings[0]
    assert why.startswith("none at a scale of 59 bits: ")
    (row,) = rows_of(capsys, str(path), "--scale-bits", "40,59", "--draws", "1", "-q")
    assert row == found[0]
    assert main(["predict", "precision", str(path), "--scale-bits", "40,59", "--draws", "1", "-q"]) == 0
    assert " ".join(capsys.readouterr().err.split()) == why
    with pytest.raises(ParamsError, match="outgrow"):
        ps.precision(path, scale_bits=59, draws=1)

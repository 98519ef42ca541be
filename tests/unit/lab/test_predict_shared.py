"""`predict precision --shared`: what it costs to hide the key in a result."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

import penstock as ps
from penstock.front.cli.main import main
from penstock.lab.prediction.precision import ProgramAtSet
from penstock.lab.prediction.shared import predict_shared
from penstock.program.evaluator.flooding import flooding_std
from penstock.scheme.params import catalogue

OWN = """
import numpy as np
PARAMS = "insecure-database"
TOLERANCE = {tolerance}

def data(size, slots, seed):
    return np.random.default_rng(seed).uniform(-1, 1, slots)

def program(ev, data, size):
    return ev.decrypt({result}).real
"""


def own(tmp_path, result="ev.rescale(ev.square(ev.encrypt(data)))", tolerance=1.0, name="mine.py"):
    path = tmp_path / name
    path.write_text(OWN.format(result=result, tolerance=tolerance))
    return str(path)


def rows_of(capsys, *arguments):
    assert main(["predict", "precision", *arguments, "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    return found if isinstance(found, list) else [found]


def test_a_row_has_the_noise_and_what_it_costs(capsys):
    (row,) = rows_of(capsys, "inner-product", "--size", "ci", "--scale-bits", "59", "--shared", "--queries", "8")
    (plain,) = rows_of(capsys, "inner-product", "--size", "ci", "--scale-bits", "59")
    assert {name: row[name] for name in plain} == plain
    assert (row["queries"], row["decryptions"], row["statistical_bits"]) == (8, 16, 30)
    assert row["verdict"] == "holds" or row["remedy"]
    assert row["lost_bits"] == pytest.approx(row["precision_bits"] - row["shared_bits"])
    assert row["advantage_bits"] == pytest.approx(17.79, abs=0.01)
    # The bound is of the whole error over the scale: its root mean square over coefficients is that over sqrt(N).
    params = catalogue.get("insecure-ci")
    ring_dim = params.ring_dim
    scale = predict_shared(ProgramAtSet.of("inner-product", size="ci"), draws=1).worst.scale * 2.0 ** (
        59 - params.scale_bits
    )
    expected = flooding_std(row["error_bound"] * scale / math.sqrt(ring_dim), ring_dim, 16, 30)
    assert row["flooding_std"] == pytest.approx(expected, rel=0.01)


def test_the_precision_is_that_of_the_noise(capsys, tmp_path):
    """A result of all slots: a value's real part has the noise of half of the coefficients."""
    shared = predict_shared(ProgramAtSet.of(own(tmp_path, "ev.encrypt(data)")))
    flood = shared.worst
    slots = shared.kept.params.slots
    expected = -math.log2(flood.std * math.sqrt(slots) / flood.scale)
    assert shared.to_row()["shared_bits"] == pytest.approx(expected, abs=0.1)
    assert flood.error_bound > shared.kept.draws[0].rms_error


def test_four_times_the_runs_or_two_more_bits_cost_a_bit(capsys, tmp_path):
    path = own(tmp_path)
    (one,) = rows_of(capsys, path, "--shared")
    (four,) = rows_of(capsys, path, "--shared", "--queries", "4")
    (safer,) = rows_of(capsys, path, "--shared", "--statistical-bits", "32")
    for other in (four, safer):
        assert one["shared_bits"] - other["shared_bits"] == pytest.approx(1, abs=0.1)
        assert math.log2(other["flooding_std"] / one["flooding_std"]) == pytest.approx(1)


def test_every_verdict_and_its_remedy(capsys, tmp_path):
    cases = {
        "holds": (own(tmp_path, name="holds.py"), "59"),
        "fails": (own(tmp_path, tolerance=1e-9, name="fails.py"), "59"),
        "drowns": (own(tmp_path, name="drowns.py"), "40"),
    }
    for verdict, (path, scale) in cases.items():
        (row,) = rows_of(capsys, path, "--scale-bits", scale, "--shared")
        assert row["verdict"] == verdict
        assert (row["remedy"] == "") == (verdict == "holds")
    (row,) = rows_of(capsys, "cnn", "--size", "ci", "--shared", "--draws", "1")
    assert row["verdict"] == "outgrows"
    assert row["shared_bits"] is None and row["lost_bits"] is None  # noqa: PT018
    assert row["needed_bits"] > row["held_bits"]
    assert "more limbs left" in row["remedy"]


def test_the_table_says_what_others_get(capsys, tmp_path):
    assert main(["predict", "precision", own(tmp_path), "--scale-bits", "40,59", "--shared", "--queries", "3"]) == 0
    said = capsys.readouterr().out
    assert "shared: 3 decryptions that others learn, 30 statistical bits (advantage at most 2^-17.8); predicted" in said
    assert "drowns: take a larger scale, make a new key pair" in said
    assert "bits shared" in said


def test_the_same_function_in_python(tmp_path):
    table = ps.precision("inner-product", size="ci", scale_bits=[50, 59], shared=True, queries=2, draws=2)
    frame = table.to_pandas()
    assert list(frame["scale_bits"]) == [50, 59]
    assert frame["shared_bits"][1] - frame["shared_bits"][0] == pytest.approx(9, abs=0.5)
    assert list(frame["decryptions"]) == [4, 4]
    assert "shared_bits" not in ps.precision("inner-product", size="ci", draws=1).to_pandas()


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["bootstrapping", "--size", "ci", "--shared", "--draws", "1"], 2, "no worst-case bound of a refresh is known"),
        (["inner-product", "--queries", "3"], 2, "--queries is for results that others learn: add --shared"),
        (["inner-product", "--statistical-bits", "40"], 2, "--statistical-bits is for results that others learn"),
        (["inner-product", "--shared", "--queries", "0"], 2, "queries"),
        (["inner-product", "--shared", "--statistical-bits", "200"], 2, "statistical-bits"),
    ],
)
def test_what_has_no_answer_is_refused(capsys, arguments, code, said):
    assert main(["predict", "precision", *arguments]) == code
    assert said in capsys.readouterr().err


def test_a_program_that_decrypts_nothing_shares_nothing(capsys, tmp_path):
    path = tmp_path / "none.py"
    path.write_text(OWN.format(result="0", tolerance=1).replace("return ev.decrypt(0).real", "return np.zeros(1)"))
    assert main(["predict", "precision", str(path), "--shared"]) == 1
    assert "decrypts 0 ciphertexts, and 0 in the clear" in capsys.readouterr().err


def test_a_client_that_divides_by_noise_gets_no_number(capsys):
    (row,) = rows_of(capsys, "chi-square", "--size", "ci", "--shared", "--draws", "2")
    assert row["verdict"] == "drowns"
    assert np.isfinite(row["flooding_std"])

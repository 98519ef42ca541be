"""Without --params a program takes the set that its machine was built for, in every front that picks a set."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from penstock.errors import UnknownName
from penstock.front.cli.main import main
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import State
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.spec import parse_sweep
from penstock.program.running.native_set import set_for
from penstock.scheme.machines import load_machine, load_machines

SHARP = [load_machine("sharp")]


def test_a_machine_s_own_set_is_taken_where_the_program_fits() -> None:
    found = set_for("inner-product", None, None, SHARP)
    assert (found.params, found.native) == ("sharp", True)
    assert "machine 'sharp' was built for 'sharp'" in str(found.note)


def test_machines_of_one_set_take_it_and_others_leave_the_program_its_own() -> None:
    assert set_for("inner-product", None, None, load_machines(["sharp", "trinity"])).params == "sharp"
    found = set_for("inner-product", None, None, load_machines(["sharp", "ark"]))
    assert found.params is None
    assert "machine 'sharp' was built for 'sharp' and machine 'ark' was built for 'ark'" in str(found.note)


@pytest.mark.parametrize(
    ("program", "machine", "why"),
    [("string-match", "sharp", "14.0 bits exactly"), ("sorting", "heap", "4096"),
     ("logistic-function", "heap", "1 limb left")],
)  # fmt: skip
def test_a_program_that_does_not_run_on_it_takes_its_own_with_the_reason(program: str, machine: str, why: str) -> None:
    found = set_for(program, None, None, [load_machine(machine)])
    assert found.params is None
    assert why in str(found.note)
    assert "is the program's own" in str(found.note)


def test_a_program_beside_it_must_run_on_it_too() -> None:
    found = set_for("inner-product", None, None, SHARP, beside=["string-match"])
    assert found.params is None


def test_what_is_asked_for_is_taken_without_a_note() -> None:
    found = set_for("inner-product", "ark", None, SHARP)
    assert (found.params, found.note) == ("ark", None)


def test_a_slip_is_an_error_and_no_reason_for_another_set() -> None:
    with pytest.raises(UnknownName):
        set_for("inner-prodct", None, None, SHARP)
    with pytest.raises(UnknownName):
        set_for("inner-product", None, "no-size", SHARP)


def out_of(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[str, str]:
    assert main(list(words)) == 0
    found = capsys.readouterr()
    return found.out, " ".join(found.err.split())


@pytest.mark.parametrize(
    "words",
    [("simulate", "inner-product", "--tier", "hbm"), ("predict", "run", "inner-product"),
     ("ssd", "near-data", "inner-product")],
)  # fmt: skip
def test_verbs_take_it_and_say_so(capsys: pytest.CaptureFixture[str], words: tuple[str, ...]) -> None:
    out, messages = out_of(capsys, *words, "--machine", "sharp", "--format", "json")
    rows = json.loads(out)
    assert (rows[0] if isinstance(rows, list) else rows)["params"] == "sharp"
    assert "note: parameter set 'sharp'" in messages
    named = json.loads(out_of(capsys, *words, "--machine", "sharp", "--params", "sharp", "--format", "json")[0])
    assert named == rows


def test_suggestions_are_sets_of_the_machine_s_words_and_rings(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("predict", "suggest", "inner-product", "--machine", "sharp")
    out, messages = out_of(capsys, *words)
    assert "sets like sharp (36-bit words" in out
    assert "machine 'sharp' was built for 'sharp'" in messages
    assert "does not fit" not in out
    assert "none at ring dimension 131072: the transform units of machine 'sharp' take 65536 points" in out
    rows = json.loads(out_of(capsys, *words, "--format", "json", "--top", "1000")[0])
    assert {row["ring_dim"] for row in rows} <= {1 << k for k in range(10, 17)}
    assert all(row["params"].startswith("sharp") for row in rows)


def test_another_family_is_suggested_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("predict", "suggest", "inner-product", "--machine", "sharp", "--ring-dim", "2^14,2^15")
    out, messages = out_of(capsys, *words, "--params", "openfhe-demo")
    assert "sets like openfhe-demo (64-bit words" in out
    assert "warning: machine 'sharp' was built for the 36-bit words of 'sharp'" in messages


def test_a_precision_is_asked_of_sets_with_another_scale(capsys: pytest.CaptureFixture[str]) -> None:
    words = ("predict", "suggest", "inner-product", "--size", "ci", "--machine", "sharp", "--precision", "10")
    out, messages = out_of(capsys, *words, "--ring-dim", "2^14")
    assert "sets like sharp" not in out
    assert "the primes of an accelerator's set are those of its words" in messages


def test_a_sweep_takes_it_too() -> None:
    text = 'name = "a"\nworkload = {}\nmachine = "sharp"\ntier = "hbm"\n'
    planned = plan(parse_sweep(text.format('["inner-product", "string-match"]'), "test"))
    first, second = (program.params.name for program in planned.programs if program.params)
    assert first == "sharp"
    assert second != "sharp"
    assert any("parameter set 'sharp'" in note for note in planned.notes)


def test_the_explorer_takes_it_and_shows_the_command_that_agrees(tmp_path: Path) -> None:
    engine = Engine(Library(runs=tmp_path))
    assert engine.settled(State(workload="inner-product", params="", machine="ark")).params == "ark"
    assert engine.settled(State(workload="inner-product", params="sharp", machine="ark")).params == "sharp"
    assert engine.settled(State(workload="string-match", params="", machine="sharp")).params == ""

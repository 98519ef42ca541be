"""One way to name a program: a workload, a Python file, a package or a trace, in the explorer and in the verbs."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from pathlib import Path

import pytest

import penstock
from penstock.errors import UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.front.explorer.app import choices
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import State
from penstock.front.explorer.views import show
from penstock.program.workloads import ProgramKind, kind_of, valued

PROGRAM = """
import numpy as np
PARAMS = "openfhe-demo"

def data(size, slots, seed):
    return np.random.default_rng(seed).uniform(-1, 1, 16)

def program(ev, data, size):
    x = ev.encrypt(data)
    for step in (1, 2, 4, 1, 2, 4, 1, 2, 4):
        x = ev.add(x, ev.rotate(x, step))
    return np.real(ev.decrypt(ev.rescale(ev.square(x))))[:8]
"""
VIEWS_OF_ALL = ("whatif", "slowdown", "roofline", "residency", "predict", "suggest", "tenants", "levels")


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[ProgramKind, Path]:
    folder = tmp_path_factory.mktemp("programs")
    mine = folder / "mine.py"
    mine.write_text(PROGRAM)
    assert main(["trace", str(mine), "-o", str(folder / "mine.parquet"), "--quiet"]) == 0
    assert main(["package", str(mine), "-o", str(folder / "mine.pkg"), "--quiet"]) == 0
    return {
        ProgramKind.PROGRAM: mine,
        ProgramKind.PACKAGE: folder / "mine.pkg",
        ProgramKind.TRACE: folder / "mine.parquet",
    }


KINDS = pytest.mark.parametrize("kind", [ProgramKind.PROGRAM, ProgramKind.PACKAGE, ProgramKind.TRACE], ids=str)


@KINDS
def test_every_kind_is_told_by_its_name(files, kind):
    assert kind_of(str(files[kind])) is kind
    if kind is not ProgramKind.TRACE:
        assert valued(str(files[kind])) == str(files[kind])


def test_what_needs_values_says_so_of_a_trace_everywhere(files, capsys):
    trace = str(files[ProgramKind.TRACE])
    for verb in (
        ["run"],
        ["predict", "precision"],
        ["analyze"],
        ["profile"],
        ["package"],
        ["keys", "study"],
        ["workloads"],
    ):
        assert main([*verb, trace]) == 2, verb
        assert "is a trace, made at one chain, of operations without values" in capsys.readouterr().err, verb


@KINDS
def test_predict_run_suggest_and_simulate_take_every_kind(files, kind, capsys):
    program = str(files[kind])
    rows = {}
    for name, words in {
        "run": ["predict", "run", program, "--machine", "sharp"],
        "suggest": ["predict", "suggest", program, "--machine", "sharp", "--top", "1", "--security", "none"],
        "simulate": ["simulate", program, "--machine", "sharp", "--tier", "hbm"],
        "tenants": ["simulate", program, "--machine", "sharp", "--tier", "hbm", "--with", program],
        "levels": ["simulate", program, "--machine", "sharp", "--levels", "on-chip,hbm"],
    }.items():
        assert main([*words, "--format", "json"]) == 0, capsys.readouterr().err
        rows[name] = json.loads(capsys.readouterr().out)
    assert rows["run"]["predicted_s"] > 0
    (best,) = rows["suggest"] if isinstance(rows["suggest"], list) else [rows["suggest"]]
    assert best["num_keys"] == 4
    assert best["depth"] >= 1


def test_a_trace_s_suggestions_are_its_program_s(files):
    of_program = penstock.suggest(files[ProgramKind.PROGRAM], "sharp", params="openfhe-demo", ring_dims=[2**14, 2**15])
    of_trace = penstock.suggest(files[ProgramKind.TRACE], "sharp", params="openfhe-demo", ring_dims=[2**14, 2**15])
    told = ("ring_dim", "depth", "dnum", "num_keys", "key_bytes")
    assert of_trace.rows
    # A trace keeps its slots, so that it fits no smaller ring.
    least = min(row["ring_dim"] for row in of_trace.rows)
    expected = [{name: row[name] for name in told} for row in of_program.rows if row["ring_dim"] >= least]
    assert [{name: row[name] for name in told} for row in of_trace.rows] == expected
    seconds = [row["predicted_s"] for row in of_program.rows if row["ring_dim"] >= least]
    assert [row["predicted_s"] for row in of_trace.rows] == pytest.approx(seconds, rel=1e-12)
    with pytest.raises(UsageError, match="is a trace, which has no values to be precise"):
        penstock.suggest(files[ProgramKind.TRACE], "sharp", precision=10)
    with pytest.raises(UsageError, match="a trace has its size"):
        penstock.suggest(files[ProgramKind.TRACE], "sharp", size="ci")


@KINDS
def test_the_explorer_shows_every_kind_in_every_view(files, kind):
    library = Library.of(Path("no-such-folder"), traces=[files[kind]])
    engine = Engine(library)
    name = "file:mine" if kind is ProgramKind.TRACE else f"file:{files[kind].name}"
    assert name in choices(engine)["workloads"]
    state = State(workload=name, params="")
    for view in VIEWS_OF_ALL:
        found = show(engine, view, state)
        assert found.rows, view
        assert found.command.startswith("penstock "), view
        assert str(files[kind]) in found.command, view
    if kind is ProgramKind.TRACE:
        with pytest.raises(UsageError, match="file:mine is a trace"):
            show(engine, "precision", state)
    else:
        (row,) = show(engine, "precision", state).rows
        assert 10 < row["precision_bits"] < 60


def test_the_commands_of_the_new_views_print_their_rows(files, capsys):
    engine = Engine(Library.of(Path("no-such-folder"), traces=[files[ProgramKind.PROGRAM]]))
    state = State(workload="file:mine.py", params="", hold="cache", mode="overlap")
    for name in ("suggest", "precision"):
        view = show(engine, name, state)
        assert main([*shlex.split(view.command)[1:], "--format", "json"]) == 0
        found = json.loads(capsys.readouterr().out)
        found = found if isinstance(found, list) else [found]
        assert found == json.loads(view.to_json())["rows"], name
    view = show(engine, "levels", state)
    assert main([*shlex.split(view.command)[1:], "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    served = [level["served_bytes"] for row in found for level in row["levels"]]
    assert served == [row["served_bytes"] for row in view.rows]
    view = show(engine, "predict", state)
    assert main([*shlex.split(view.command)[1:], "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert [part["seconds"] for part in found["contributions"]] == [row["predicted_s"] for row in view.rows]


def test_tenants_wait_for_each_other_and_levels_are_a_setting(files):
    engine = Engine(Library.of(Path("no-such-folder"), traces=[files[ProgramKind.PROGRAM]]))
    state = State(workload="file:mine.py", params="")
    rows = show(engine, "tenants", state).rows
    assert [row["programs"] for row in rows] == [1, 2, 4, 8]
    slowdowns = [row["tenant_slowdown"] for row in rows]
    assert slowdowns == sorted(slowdowns)
    assert slowdowns[-1] > 4 * slowdowns[0]
    two = show(engine, "levels", State(workload="file:mine.py", params="", levels="on-chip:1 MB:fifo,7 GB/s"))
    assert two.rows[0]["level"] == "on-chip"
    assert two.rows[0]["policy"] == "fifo"
    for levels, reason in (("/etc/tier.toml", "tier"), ("on-chip:1 MB:/etc/mine.py,hbm", "replacement policy")):
        with pytest.raises(UnknownName, match=reason):
            show(engine, "levels", State(workload="file:mine.py", params="", levels=levels))


def test_the_explorer_offers_own_policies_and_prefetchers(files, tmp_path):
    mine, ahead = tmp_path / "policy.py", tmp_path / "ahead.py"
    mine.write_text("def priority(accesses):\n    return accesses.position\n")
    ahead.write_text("def prefetch(loads):\n    return 1\n")
    library = Library.of(Path("no-such-folder"), traces=[files[ProgramKind.PROGRAM]], policies=[mine, ahead])
    engine = Engine(library)
    assert "file:policy.py" in choices(engine)["policies"]
    assert choices(engine)["prefetchers"] == ["file:ahead.py"]
    engines = State(workload="file:mine.py", params="", hold="cache", cache="100 MB", mode="overlap")
    own = replace(engines, policy="file:policy.py", prefetch="file:ahead.py")
    (one,), (other,) = show(engine, "whatif", own).rows, show(engine, "whatif", engines).rows
    assert one | {"policy": "lru", "prefetch": "next-1"} == other
    assert State.from_query(own.to_query()) == own
    view = show(engine, "residency", own)
    assert view.rows == show(engine, "residency", engines).rows
    assert "--policy" in view.command
    # A changed file is played anew.
    mine.write_text("def priority(accesses):\n    return -accesses.position\n")
    (changed,) = show(engine, "whatif", own).rows
    assert changed["io_bytes"] != one["io_bytes"]
    for wrong in (State(policy="file:none.py", hold="cache"), State(prefetch="file:none.py", mode="overlap")):
        with pytest.raises(UnknownName, match=r"unknown policy 'file:none.py'"):
            show(engine, "whatif", wrong)
    turns = tmp_path / "turns.py"
    turns.write_text("def schedule(jobs): ...\n")
    with pytest.raises(UsageError, match="is a schedule of programs"):
        Library.of(Path("no-such-folder"), policies=[turns])


def test_long_programs_are_bounded_with_the_command_that_is_not(monkeypatch):
    from penstock.front.explorer.bounds import TooMuch
    from penstock.front.explorer.views import predicting

    engine = Engine(Library(runs=Path("no-such-folder")))
    view = show(engine, "suggest", State(workload="bootstrapping"))
    assert {row["ring_dim"] for row in view.rows} == {2**16}
    assert view.command.endswith("--security none --ring-dim 65536")
    assert any("tries all" in note for note in view.notes)
    assert any("presupposes a secret that it does not state" in note for note in view.notes)
    monkeypatch.setattr(predicting, "MOST_WITH_NOISE", 100)
    with pytest.raises(TooMuch, match="'penstock predict precision inner-product' to any"):
        show(engine, "precision", State(workload="inner-product"))


def test_explore_opens_a_program_a_workload_and_a_view(files, capsys, monkeypatch):
    monkeypatch.chdir(files[ProgramKind.PROGRAM].parent)
    for words in (
        ["mine.py", "predict"],
        ["predict", "mine.py", "machine=ark"],
        ["mine.pkg", "predict"],
        ["mine.parquet", "predict"],
    ):
        assert main(["explore", *words, "--print", "--format", "json"]) == 0, words
        assert json.loads(capsys.readouterr().out)[0]["predicted_s"] > 0
    assert main(["explore", "inner-product", "whatif", "--print", "--format", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["workload"] == "inner-product"
    for words, reason in (
        (["mine.py", "workload=inner-product", "whatif"], "is the program of the page"),
        (["none.py", "whatif"], "cannot read none.py"),
        (["whatiff"], "did you mean 'whatif'"),
    ):
        assert main(["explore", *words, "--print"]) == 2, words
        assert reason in capsys.readouterr().err

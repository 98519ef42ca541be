"""What would help most: the commands print the promised figures, and the list says what was tried."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import penstock as ps
from penstock.errors import ParamsError, UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.front.explorer.advice import advice as explored
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import State
from penstock.front.explorer.views import show
from penstock.lab.advice.remedy import LEAST_GAIN, Remedy, best, ranked, steps
from penstock.lab.advice.words import Setting, words_of_points
from penstock.lab.fit.fit import fit_machine
from penstock.lab.simulation.play import play, ready_for
from penstock.lab.simulation.worded import worded_question
from penstock.lab.simulation.words import OPTIONS, Words
from penstock.scheme.machines.written import write_machine
from penstock.scheme.params import catalogue
from penstock.scheme.params.variation import varied
from penstock.scheme.play.price import price_trace
from support.imagined_cpu import sweep

POINT = ["simulate", "inner-product", "--params", "sharp", "--machine", "sharp"]


def answered(capsys: Any, words: Sequence[str]) -> Any:
    """What a command prints as JSON."""
    assert main([*words, "--format", "json"]) == 0
    return json.loads(capsys.readouterr().out)


def shown_by(capsys: Any, command: str) -> dict[str, Any]:
    """The first row of the last of these commands."""
    *before, last = [shlex.split(part) for part in command.split(" && ")]
    for words in before:
        assert words[0] == "penstock"
        assert main(words[1:]) == 0
    capsys.readouterr()
    found = answered(capsys, last[1:])
    return dict(found[0] if isinstance(found, list) else found)


@pytest.mark.parametrize(
    ("options", "kinds"),
    [
        (["--tier", "pcie5"], {"tier", "cache", "prefetch", "key-form"}),
        (["--tier", "rdma", "--cache", "64 MB", "--mode", "overlap"], {"tier", "cache", "policy", "rewriting"}),
        (
            ["--tier", "hbm", "--cache", "128 MB", "--policy", "fifo"],
            {"tier", "cache", "policy", "prefetch", "software", "rewriting"},
        ),
        (["--levels", "on-chip:64 MB,hbm:256 MB,nvme-gen4", "--policy", "lru"], {"tier", "cache", "policy"}),
        (["--tier", "pcie5", "--with", "inner-product", "--cache", "1 GiB"], {"tier", "tenants"}),
        (["--tier", "pcie5", "--hosts", "4", "--network", "ethernet-400"], {"tier", "key-form"}),
    ],
    ids=lambda words: "-".join(words) if isinstance(words, list) else None,
)
def test_each_command_prints_the_promised_figure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any, options: list[str], kinds: set[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    found = answered(capsys, [*POINT, *options, "--advice"])
    (row,), advice = found["rows"], found["advice"]
    assert advice["provenance"] == "simulated"
    assert advice["before"] == row[advice["figure"]]
    remedies = advice["remedies"]
    assert kinds <= {each["kind"] for each in remedies}
    gains = [each["gain"] for each in remedies if each["figure"] == advice["figure"]]
    assert gains == sorted(gains, reverse=True)
    assert min(each["gain"] for each in remedies) >= LEAST_GAIN
    for each in remedies:
        assert each["gain"] == pytest.approx(each["before"] / each["after"], rel=1e-12)
        assert shown_by(capsys, each["command"])[each["figure"]] == each["after"], each


def test_the_slowest_row_is_advised_and_named(capsys: Any) -> None:
    found = answered(capsys, [*POINT, "--tier", "hbm", "--tier", "rdma", "--advice"])
    slowest = max(found["rows"], key=lambda row: float(row["total_s"]))
    assert slowest["tier"] == "rdma"
    assert "over rdma" in found["advice"]["about"]
    assert found["advice"]["before"] == slowest["total_s"]


def test_tables_have_the_list_and_other_formats_on_request(tmp_path: Path, capsys: Any) -> None:
    words = [*POINT, "--tier", "pcie5"]
    assert main(words) == 0
    table = capsys.readouterr().out
    assert "what would help most, simulated: inner-product" in table
    assert "penstock simulate inner-product --params sharp --machine sharp --tier" in table
    assert main([*words, "--no-advice"]) == 0
    assert "help most" not in capsys.readouterr().out
    assert isinstance(answered(capsys, words), list)
    assert main([*words, "--format", "csv"]) == 0
    assert "advice" not in capsys.readouterr().out
    assert main([*words, "--format", "csv", "--advice"]) == 2
    assert "take --format json" in capsys.readouterr().err
    assert main([*words, "--compare-policies", "--advice"]) == 2
    assert "leave --advice out" in capsys.readouterr().err
    assert main([*words, "--advice", "-o", str(tmp_path / "rows.json")]) == 0
    assert set(json.loads((tmp_path / "rows.json").read_text())) == {"rows", "advice"}


def test_what_cannot_be_tried_is_said(capsys: Any) -> None:
    words = ["--tier", "hbm", "--inside", "schedule", "--advice"]
    found = answered(capsys, [*POINT, *words])["advice"]
    assert any(text.startswith("key-form: the kernels") for text in found["not_tried"])
    found = answered(capsys, [*POINT, "--tier", "pcie5", "--with", "inner-product", "--advice"])["advice"]
    assert any(text.startswith("parameters: ") for text in found["not_tried"])
    assert any(text.startswith("rewriting: ") for text in found["not_tried"])
    everything = answered(capsys, [*POINT, "--tier", "hbm3", "--hit-ratio", "1", "--advice"])["advice"]
    assert {each["kind"] for each in everything["remedies"] if each["figure"] == "total_s"} <= {
        "parameters",
        "rewriting",
    }


def test_the_words_of_each_point_ask_for_that_point_alone() -> None:
    said: dict[str, Any] = {
        "machine": ("sharp",), "tier": ("hbm", "pcie5"), "mode": ("serial", "overlap"), "cache": ("64 MB", "on-chip"),
        "policy": ("lru", "belady"), "prefetch": ("next-1", "perfect"), "prefetch_buffer": "64 MB",
        "classes": "keys,ciphertexts", "key_form": "seeded",
    }  # fmt: skip
    asked = worded_question(Words(**said), set(said), OPTIONS)
    machine = asked.question.machines[0]
    trace = ps.trace("inner-product", "sharp").trace
    ready = ready_for(asked.question, trace, machine, asked.question.key_forms[0])
    rows, _ = play(ready, asked.question.points_on(machine))
    words = words_of_points(asked, asked.question)
    assert len(words) == len(rows) == 2 * 2 * 2 * 3
    for each, row in zip(words, rows, strict=True):
        alone = Setting(program="inner-product", words={"machine": ("sharp",), **each}).asked().question
        assert play(ready, alone.points_on(machine))[0] == [row]


def test_a_point_with_a_prefetcher_of_a_file_keeps_the_file(tmp_path: Path) -> None:
    path = tmp_path / "ahead.py"
    path.write_text("def prefetch(loads):\n    return 2\n")
    said: dict[str, Any] = {"machine": ("sharp",), "tier": ("hbm",), "mode": ("overlap",), "prefetch": (str(path),)}
    asked = worded_question(Words(**said), set(said), OPTIONS)
    assert words_of_points(asked, asked.question) == [{name: said[name] for name in ("tier", "mode", "prefetch")}]


def test_the_working_set_counts_each_object_once() -> None:
    trace = ps.trace("inner-product", "sharp").trace
    priced = price_trace(trace, ps.machine("sharp"))
    largest: dict[int, int] = {}
    for found, size in zip(priced.access_object.tolist(), priced.access_bytes.tolist(), strict=True):
        largest[found] = max(size, largest.get(found, 0))
    assert priced.distinct_bytes == sum(largest.values()) > 0


def remedy(after: float, **more: Any) -> Remedy:
    return Remedy(
        kind="tier", says=f"{after}", figure="total_s", before=10.0, after=after, command=None, provenance="simulated",
        **more,
    )  # fmt: skip


def test_of_steps_the_first_that_helps_and_the_first_that_is_enough_are_kept() -> None:
    candidates = [remedy(after) for after in (9.95, 8.0, 5.0, 2.04, 2.0, 2.1)]
    assert [each.after for each in steps(candidates)] == [8.0, 2.04]
    assert [each.after for each in best(candidates)] == [2.0]
    assert steps([remedy(9.95)]) == best([]) == []
    found = ranked("a", "total_s", 10.0, "simulated", candidates, ["tier", "cache"])
    assert [each.after for each in found.remedies] == [2.0, 2.04, 2.1, 5.0, 8.0]
    assert found.without_gain == ("cache",)


@pytest.mark.parametrize("base", ["sharp", "openfhe-demo", "tensorfhe-helr"])
def test_a_set_near_a_named_one_has_a_name(base: str) -> None:
    near = varied(catalogue.get(base), dnum=4)
    assert catalogue.get(near.name) == near
    assert near.name not in catalogue.names()
    with pytest.raises(UnknownName):
        catalogue.get("no-such-set-k4")
    with pytest.raises(ParamsError):
        catalogue.get(f"{base}-n4")


def test_predictions_are_advised_with_their_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    words = ["predict", "run", "inner-product", "--params", "sharp", "--machine", "a100-tensorfhe"]
    found = answered(capsys, [*words, "--advice"])
    advice = found["advice"]
    assert advice["before"] == found["predicted_s"]
    assert advice["remedies"]
    for each in advice["remedies"]:
        assert each["provenance"] == "predicted"
        assert shown_by(capsys, each["command"])[each["figure"]] == pytest.approx(each["after"], rel=1e-12)
    assert main(words) == 0
    assert "what would help most, predicted: inner-product" in capsys.readouterr().out
    assert "advice" not in answered(capsys, words)
    assert main([*words, "--what-if", "dnum=2", "--advice"]) == 2


def test_results_in_python_have_the_same_list() -> None:
    found = ps.simulate("inner-product", "sharp", tiers=["hbm", "pcie5"], params="sharp")
    advised = found.advice()
    assert advised.provenance == "simulated"
    assert advised[0]["before"] == found[1]["total_s"]
    assert found.advice(0)[0]["before"] == found[0]["total_s"]
    with pytest.raises(UsageError, match="rows 0 to 1"):
        found.advice(2)
    shown = repr(advised)
    assert "What would help most" in shown
    in_memory = ps.simulate(ps.trace("inner-product", "sharp"), "sharp", tiers="pcie5").advice()
    assert {row["command"] for row in in_memory} == {None}
    with_keys = ps.predict("inner-product", "sharp", params="sharp").advice()
    assert with_keys.provenance == "predicted"
    with pytest.raises(UsageError, match="encrypts nothing"):
        ps.run("inner-product", reading="clear", size="ci").advice()


def test_the_explorer_has_the_list_of_the_command(capsys: Any) -> None:
    engine = Engine(Library(runs=Path("no-such-folder")))
    state = State(workload="inner-product", tier="pcie5", hold="cache", cache="32 MB")
    view = explored(engine, state)
    command = show(engine, "whatif", state).command
    told = answered(capsys, [*shlex.split(command)[1:], "--advice"])["advice"]["remedies"]
    assert view.rows[0]["figure"] == "total_s"
    assert [(row["change"], row["after"]) for row in view.rows] == [(each["change"], each["after"]) for each in told]
    opened = [row for row in view.rows if row["opens"]]
    assert len(opened) > 3
    for row in opened:
        other = replace(state, **row["opens"])
        assert show(engine, "whatif", other).rows[0][row["figure"]] == row["after"]
    assert explored(engine, state).to_json() == view.to_json()


def test_a_fitted_machine_is_asked_for_more_threads(tmp_path: Path, capsys: Any) -> None:
    machine = tmp_path / "mine.toml"
    write_machine(fit_machine(sweep(rings=(11, 12, 13), depths=(6, 9), threads=(1, 2)), name="mine"), machine)
    words = ["predict", "run", "inner-product", "--size", "ci", "--machine", str(machine), "--threads", "1"]
    remedies = answered(capsys, [*words, "--advice"])["advice"]["remedies"]
    (more,) = [each for each in remedies if each["kind"] == "threads"]
    assert more["change"] == "2 threads instead of 1"
    assert more["gain"] > 1.2
    for each in (more, *[each for each in remedies if each["kind"] == "key-form"]):
        assert shown_by(capsys, each["command"])[each["figure"]] == pytest.approx(each["after"], rel=1e-12)


def test_the_way_of_a_trace_to_other_parameters_is_two_commands_that_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    ps.trace("inner-product", params="insecure-ci", size="ci").save("my program.parquet")
    asked = ["simulate", "my program.parquet", "--machine", "sharp", "--tier", "hbm", "--advice"]
    said = next(each for each in answered(capsys, asked)["advice"]["not_tried"] if each.startswith("parameters"))
    suggest, trace = [
        shlex.split(part)[1:] for part in re.findall(r"(penstock (?:'[^']*'|[^'])*?(?:set\.toml))'", said)
    ]
    assert main([*suggest, "--security", "none", "-q"]) == 0
    assert main([*trace, "-o", "there.parquet", "-q"]) == 0
    assert Path("there.parquet").exists()

"""What would help a run most: played and priced from its own times, with commands that run."""

from __future__ import annotations

import json
import shlex
from dataclasses import replace
from typing import Any

import pytest

from penstock.front.cli.main import main
from penstock.front.hall.running import run
from penstock.lab.advice.measured import Measured, advise
from penstock.runtime.native.budgets import computing
from penstock.scheme.params import catalogue

RUN = ["run", "inner-product", "--size", "ci", "--threads", "1", "--client", "inside"]


def answered(capsys: Any, words: list[str]) -> dict[str, Any]:
    assert main([*words, "--quiet", "--format", "json"]) == 0
    return dict(json.loads(capsys.readouterr().out))


def test_a_run_under_a_budget_is_told_what_more_memory_and_other_digits_give(capsys: Any) -> None:
    row = answered(capsys, [*RUN, "--key-budget", "8 MiB", "--advice"])
    advice = row["advice"]
    assert advice["provenance"] == "predicted"
    assert advice["before"] == row["wall_s"]
    assert "cache" in {each["kind"] for each in advice["remedies"]} | set(advice["without_gain"])
    assert any(text.startswith("parameters: other digits change the keys") for text in advice["not_tried"])
    for each in advice["remedies"]:
        assert each["provenance"] == "predicted"
        words = shlex.split(each["command"])
        assert words[:3] == ["penstock", "run", "inner-product"]
        again = answered(capsys, words[1:])
        assert again["passed"]
        assert again[each["figure"]] == pytest.approx(each["after"], rel=4.0)  # a run of milliseconds on a busy machine


def test_all_keys_in_memory_take_the_time_of_computing_alone() -> None:
    asked = run("inner-product", size="ci", threads=1, client="inside", key_budget="8 MiB").asked
    assert asked is not None
    # A disk a hundred times as slow: then keys are what the run waits for.
    traffic = replace(asked.done.traffic, read_s=100 * max(asked.done.traffic.read_s, 1e-3))  # type: ignore[attr-defined]
    slow = Measured(
        program="inner-product", size=asked.size, params=asked.params,
        done=replace(asked.done, traffic=traffic), words=asked.words,  # type: ignore[call-arg]
    )  # fmt: skip
    found = [each for each in advise(slow).remedies if each.kind == "cache"]
    assert found
    whole = found[0]
    assert whole.says == "all keys in memory"
    assert whole.after == pytest.approx(float(computing(asked.done).sum()))  # type: ignore[arg-type]
    assert whole.command is not None
    assert "--key-budget" not in whole.command
    assert whole.gain > 2


def test_the_table_has_the_list_and_json_does_not(capsys: Any) -> None:
    assert main([*RUN, "--quiet"]) == 0
    assert "what would help most, predicted: inner-product (ci)" in capsys.readouterr().out
    assert "advice" not in answered(capsys, RUN)
    assert main(["run", "inner-product", "--size", "ci", "--reading", "clear"]) == 0
    assert "help most" not in capsys.readouterr().out
    assert main(["run", "inner-product", "--size", "ci", "--reading", "clear", "--advice"]) == 2


def test_other_digits_are_priced_on_a_processor_fitted_to_the_run() -> None:
    ran = run("inner-product", size="ci", threads=1, client="inside")
    advice = ran.advice().advice
    told = [each for each in advice.remedies if each.kind == "parameters"]
    assert told or "parameters" in advice.without_gain
    assert all(each.figure == "server_s" and each.command is not None for each in told)
    assert all(catalogue.get(each.changes["params"]).security_bits >= ran.params.security_bits for each in told)

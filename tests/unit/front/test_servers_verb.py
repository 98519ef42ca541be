"""`penstock servers`: its rows, its table and what it refuses; and the options that the page names."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.errors import PenstockError, UnitError, UnknownName, UsageError
from penstock.front.cli.verbs.servers import command
from penstock.lab.simulation.servers.stream import MOST_RUNS, Application, poisson
from penstock.program.running.trace import trace_workload
from penstock.scheme.machines import load_tier
from penstock.scheme.params import catalogue
from penstock.scheme.params.rlwe import KeyForm

PROGRAM = ("inner-product", "--params", "sharp", "--size", "ci")
KEY = catalogue.get("sharp").key_bytes(key_form=KeyForm.FULL)


def rows(*words: str) -> list[dict[str, Any]]:
    found = CliRunner().invoke(command, [*PROGRAM, *words, "--format", "json"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    parsed: list[dict[str, Any]] = json.loads(found.stdout)
    return parsed


def test_a_row_for_each_rate_tier_arrangement_number_and_loading() -> None:
    words = (
        "--users",
        "6",
        "--rate",
        "100/s",
        "--rate",
        "6000/min",
        "--rate",
        "2000/s",
        "--tier",
        "pcie5",
        "--tier",
        "7 GB/s",
    )
    found = rows(*words, "--servers", "1", "--servers", "3", "--runs", "200")
    # Dedicated once, pooled and local with two numbers and two loadings; at two rates on two tiers: the third is equal.
    assert len(found) == 2 * 2 * (1 + 2 * 2 * 2)
    assert {row["provenance"] for row in found} == {"simulated"}
    assert {row["servers"] for row in found if row["arrangement"] == "dedicated"} == {6}
    for row in found:
        assert row["utilisation"] + row["stalled_share"] + row["idle_share"] == pytest.approx(1)
        if row["arrangement"] == "dedicated":
            assert row["loaded_bytes"] == row["switches"] == 0
    one = {(row["rate_per_s"], row["tier"], row["arrangement"], row["loading"], row["servers"]): row for row in found}
    slow, fast = (one[100.0, tier, "pooled", "wait", 1]["latency_mean_s"] for tier in ("7 GB/s", "pcie5"))
    assert slow >= fast


def test_the_page_names_every_column() -> None:
    page = (Path(__file__).parents[3] / "docs" / "reference" / "output.md").read_text()
    section = page.split("## `penstock servers", 1)[1].split("\n## ", 1)[0]
    named = {name for cell in re.findall(r"^\| (`[^|]*) \|", section, re.M) for name in re.findall(r"`(\w+)`", cell)}
    assert named == set(rows("--runs", "50")[0])


def test_keys_in_memory_are_read_from_its_tier_at_each_use() -> None:
    trace = trace_workload("inner-product", "sharp", "ci")
    at_hand, slow = (rows("--memory-tier", tier, "--runs", "50")[0] for tier in ("none", "1 GB/s"))
    ideal = at_hand["offered_load"] * at_hand["servers"] / at_hand["rate_per_s"]
    read = slow["offered_load"] * slow["servers"] / slow["rate_per_s"] - ideal
    from penstock.scheme.machines import load_machine
    from penstock.scheme.play.price import price_trace

    priced = price_trace(trace, load_machine("sharp"))
    assert ideal == pytest.approx(priced.ideal_s)
    assert read == pytest.approx(priced.accessed_bytes / load_tier("1 GB/s").bandwidth_bytes_per_s)


def test_users_take_the_programs_in_turn() -> None:
    found = rows("--with", "matrix-multiplication", "--users", "3", "--runs", "60", "--arrangement", "dedicated")
    assert found[0]["applications"] == "inner-product+matrix-multiplication"


def test_seeded_keys_are_half_as_many_bytes_to_load() -> None:
    words = ("--runs", "300", "--memory", f"{20 * KEY} B", "--arrangement", "pooled", "--loading", "wait")
    full, seeded = (
        rows(*words, "--key-form", form, "--users", "64", "--servers", "1", "--rate", "50/s")[0]
        for form in ("full", "seeded")
    )
    assert full["installed_bytes"] > 0
    assert seeded["loads_share"] <= full["loads_share"]
    assert seeded["loaded_bytes"] <= full["loaded_bytes"] / 2 * 1.01


def test_the_table_says_where_a_queue_grows() -> None:
    words = ("--runs", "50", "--rate", "100000/s", "--servers", "1")
    found = CliRunner().invoke(command, [*PROGRAM, *words], catch_exceptions=False)
    assert "1, 16 servers: more computing is asked for than there is" in found.stdout
    assert "a run of" in found.stdout
    assert "runs that load" in found.stdout
    assert "sharp, calibrated: utilisation" in found.stdout


@pytest.mark.parametrize(
    ("words", "error", "message"),
    [
        ("--rate 3", UnitError, "no unit"),
        ("--rate 0/s", UsageError, "the rate is positive"),
        ("--memory 1kB", UsageError, "does not hold the keys of two users"),
        ("--memory 1kB --loading wait", UsageError, "does not hold the keys of one user of 'inner-product'"),
        ("--tier hbn", UnknownName, "did you mean 'hbm'"),
        ("--machine shap", UnknownName, "did you mean 'sharp'"),
        ("--runs 2000000", UsageError, "at most 1,000,000 runs"),
        ("--arrangement pooled --max-overtaken 3", UsageError, "--max-overtaken is of --arrangement local"),
        ("--prices none", UnknownName, "price list"),
    ],
)
def test_what_cannot_be_is_refused(words: str, error: type[PenstockError], message: str) -> None:
    with pytest.raises(error, match=re.escape(message)):
        CliRunner().invoke(command, [*PROGRAM, *words.split()], catch_exceptions=False)


def test_the_least_memory_that_is_named_works() -> None:
    with pytest.raises(UsageError) as caught:
        CliRunner().invoke(command, [*PROGRAM, "--memory", "1 kB", "--runs", "20"], catch_exceptions=False)
    least = re.search(r"\((\d+) B\)", str(caught.value))
    assert least
    assert rows("--memory", f"{least[1]} B", "--runs", "20")
    with pytest.raises(UsageError):
        rows("--memory", f"{int(least[1]) - 1} B", "--runs", "20")


def test_streams_without_anything_are_refused() -> None:
    one = Application(name="one", run_s=1.0, key_bytes=1)
    for programs, users, runs in (([], 1, 1), ([one], 0, 1), ([one], 1, 0), ([one], 1, MOST_RUNS + 1)):
        with pytest.raises(UsageError):
            poisson(programs, users=users, rate_per_s=1.0, runs=runs)
    with pytest.raises(UsageError, match="a run takes time"):
        Application(name="none", run_s=0.0, key_bytes=1)

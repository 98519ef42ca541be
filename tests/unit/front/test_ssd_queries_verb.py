"""`penstock ssd pir|ssc|match|near-data` and `penstock reproduce fheins`: rows, options, refusals."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from penstock.errors import ParamsError, PenstockError, UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.front.cli.verbs.ssd import near_data, queries
from penstock.front.cli.verbs.ssd.queries import similarity, top_k
from penstock.lab.instorage.drive import drive_rates


def rows(command: click.Command, *words: str) -> list[dict[str, Any]]:
    found = CliRunner().invoke(command, [*words, "--format", "json"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    parsed: list[dict[str, Any]] = json.loads(found.stdout)
    return parsed


def refused(command: click.Command, *words: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        CliRunner().invoke(command, [*words], catch_exceptions=False)
    return caught.value


def test_a_row_for_each_drive_batch_architecture_and_policy() -> None:
    found = rows(
        queries.pir,
        "--batch",
        "1",
        "--batch",
        "16",
        "--policy",
        "restream-overlap",
        "--policy",
        "batch-serial",
        "--architecture",
        "fheins",
        "--architecture",
        "inspire",
        "--architecture",
        "host",
    )
    assert len(found) == 2 * 2 * 4
    assert {row["drive"] for row in found} == {"ssd-s", "ssd-l"}
    one = {(row["drive"], row["batch"], row["architecture"], row["policy"]): row for row in found}
    inside = one["ssd-l", 16, "fheins", "dram-free"]
    assert inside["bottleneck"] == "compute"
    assert one["ssd-l", 1, "fheins", "dram-free"]["bottleneck"] == "channel"
    host = one["ssd-l", 16, "host:sharp", "restream-overlap"]
    assert host["query_s"] / inside["query_s"] == pytest.approx(27.1, rel=0.02)
    assert inside["energy_j_per_query"] < host["energy_j_per_query"]
    assert one["ssd-s", 1, "inspire", "published-rate"]["energy_j_per_query"] is None
    assert {row["provenance"] for row in found} == {"simulated"}


def test_vectors_in_a_ciphertext_are_the_batch_of_scores() -> None:
    found = rows(queries.ssc, "--batch", "64", "--batch", "512", "--drive", "ssd-s", "--architecture", "fheins")
    assert [row["batch"] for row in found] == [64, 512]
    assert found[0]["query_s"] > found[1]["query_s"]


def test_switches_change_what_is_read() -> None:
    words = ("--drive", "ssd-s", "--architecture", "fheins", "--batch", "512")
    free = rows(queries.ssc, *words)[0]
    base = rows(queries.ssc, *words, "--no-twiddles", "--flash-keys", "--whole-keys")[0]
    every = rows(queries.ssc, *words, "--flash-keys", "--whole-keys", "--keys-read", "all")[0]
    assert free["bottleneck"] == "compute"
    assert base["bottleneck"] == every["bottleneck"] == "channel"
    assert free["channel_s"] < base["channel_s"] < every["channel_s"]
    held = rows(queries.ssc, *words, "--contention", "dram")[0]
    assert held["bottleneck"] == "dram"
    permuted = rows(queries.ssc, *words, "--automorphism", "permutation")[0]
    assert permuted["compute_s"] < free["compute_s"]
    results = rows(queries.ssc, *words, "--hoisting", "results")[0]
    assert results["compute_s"] < free["compute_s"]


def test_the_engine_plays_what_the_formula_says() -> None:
    words = ("--batch", "16", "--drive", "ssd-s", "--architecture", "fheins", "--architecture", "host")
    formula, played = rows(queries.pir, *words), rows(queries.pir, *words, "--engine", "jump")
    assert [row["engine"] for row in played] == ["jump", "jump"]
    for one, other in zip(formula, played, strict=True):
        assert other["simulated_s"] == pytest.approx(one["simulated_s"], rel=1e-3)


def test_ciphermatch_matches_and_refuses_products() -> None:
    found = rows(queries.match, "--architecture", "ciphermatch", "--drive", "ssd-l")
    assert found[0]["architecture"] == "ciphermatch"
    assert "only adds" in str(refused(queries.pir, "--architecture", "ciphermatch"))


def test_keys_stay_at_the_drive_or_come_through_the_link() -> None:
    words = ("--drive", "sata", "--keys-in", "flash", "--partition", "all")
    slow, fast = rows(near_data.command, "resnet20", *words, "--link", "5 GB/s", "--link", "6 GB/s")
    assert slow["speedup"] > 1 > fast["speedup"]
    assert slow["link_bytes_per_s"] < slow["crossover_bytes_per_s"] < fast["link_bytes_per_s"]


def test_a_pull_is_no_faster_than_the_drive_reads_keys() -> None:
    words = ("--partition", "all", "--link", "64 GB/s", "--link", "1 TB/s")
    for found in rows(near_data.command, "logistic-regression", *words):
        assert found["key_bytes_per_s"] == 51.2e9
        assert found["pull_s"] == pytest.approx(found["host_compute_s"] + found["key_bytes"] / 51.2e9)
        assert found["speedup"] > 1
        assert found["crossover_bytes_per_s"] is None


def test_keys_that_the_drives_dram_does_not_hold_are_refused() -> None:
    words = ("resnet20", "--drive", "sata", "--key-form")
    assert "(1 GB (953.7 MiB)) does not hold the keys" in str(refused(near_data.command, *words, "full"))
    assert "take --keys-in flash" in str(refused(near_data.command, *words, "seeded"))
    assert rows(near_data.command, *words, "full", "--keys-in", "flash")


def test_a_trace_file_is_as_good_as_a_workload(tmp_path: Path) -> None:
    path = tmp_path / "small.parquet"
    assert main(["trace", "inner-product", "--params", "sharp", "-o", str(path)]) == 0
    words = ("--link", "pcie5", "--partition", "keyed")
    by_name = rows(near_data.command, "inner-product", *words)[0]
    by_file = rows(near_data.command, str(path), *words)[0]
    assert by_file["pull_s"] == by_name["pull_s"]
    assert by_name["params"] == "sharp"
    assert "leave --params" in str(refused(near_data.command, str(path), "--params", "sharp"))


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (("--database", "40 TiB"), UsageError, "larger than drive"),
        (("--database", "288"), UsageError, "no unit"),
        (("--stages", "3"), ParamsError, "carries 2"),
        (("--scratchpad", "10 kB", "--contention", "spill"), UsageError, "no room for one polynomial"),
        (("--policy", "restrem-overlap"), UnknownName, "did you mean 'restream-overlap'"),
        (("--architecture", "fhein"), UnknownName, "did you mean 'fheins'"),
        (("--drive", "ssd-x"), UnknownName, "did you mean"),
        (("--slot-bits", "12"), UsageError, "whole bytes"),
        (("--keys-read", "some"), UsageError, "or 'all'"),
    ],
)
def test_bad_input_is_refused(words: tuple[str, ...], kind: type[PenstockError], message: str) -> None:
    found = refused(queries.pir, *words)
    assert isinstance(found, kind)
    assert message in str(found)


SCORES, PATTERNS, ROWS = queries.ssc, queries.match, queries.pir


@pytest.mark.parametrize(
    ("verb", "words", "message"),
    [
        (SCORES, "--keys-read all", "--flash-keys"),
        (SCORES, "--key-stationary 8", "--contention dram or spill"),
        (SCORES, "--no-broadcast", "--contention dram or spill"),
        (SCORES, "--no-broadcast --flash-keys", "--contention dram or spill"),
        (SCORES, "--whole-keys", "--contention dram or spill"),
        (SCORES, "--scratchpad '8 MB' --contention dram", "--contention spill"),
        (SCORES, "--encode batch", "raw records"),
        (PATTERNS, "--encode batch", "raw records"),
        (ROWS, "--cache '64 GB' --policy batch-overlap", "re-streams"),
        (ROWS, "--cache '64 GB' --architecture fheins", "--architecture host"),
        (ROWS, "--policy batch-overlap --architecture fheins", "--architecture host"),
        (ROWS, "--machine openfhe --architecture fheins", "--architecture host"),
        (ROWS, "--no-twiddles", "operations with a key for each object"),
        (PATTERNS, "--flash-keys", "keys in use"),
        (PATTERNS, "--flash-keys --contention dram", "keys in use"),
        (ROWS, "--architecture inspire --lane word", "--architecture fheins"),
        (ROWS, "--architecture host --contention spill", "--architecture fheins"),
        (ROWS, "--architecture inspire --power per-drive", "--architecture fheins"),
    ],
)
def test_an_option_that_changes_nothing_is_refused(verb: click.Command, words: str, message: str) -> None:
    given = shlex.split(words)
    found = str(refused(verb, *given))
    assert "changes nothing here" in found
    assert message in found


@pytest.mark.parametrize(
    ("verb", "words"),
    [
        (SCORES, "--flash-keys --keys-read all --key-stationary 8 --whole-keys"),
        (SCORES, "--contention dram --no-broadcast --key-stationary 8"),
        (SCORES, "--contention spill --scratchpad '20 MB'"),
        (ROWS, "--contention dram --flash-keys"),
        (ROWS, "--batch 4 --cache '64 GB' --policy batch-overlap --policy restream-overlap --encode batch"),
    ],
)
def test_policies_are_named_after_what_they_do(verb: click.Command, words: str) -> None:
    found = rows(verb, *shlex.split(words))
    names = {row["policy"] for row in found}
    assert not any("None" in name for name in names)
    assert not any(name.startswith("batch") and "cached" in name for name in names)
    if "--keys-read all" in words:
        assert any("keys-read=all" in name for name in names)


def test_tables_name_the_bottleneck(capsys: pytest.CaptureFixture[str]) -> None:
    found = CliRunner().invoke(queries.pir, ["--batch", "64"], catch_exceptions=False)
    assert "compute" in found.output
    assert "pcie" in found.output
    near = CliRunner().invoke(near_data.command, ["inner-product"], catch_exceptions=False)
    assert "pull above" in near.output


def test_reproduce_prints_claims_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "fheins", "--figures", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {
        "fheins-figure3.svg",
        "fheins-figure4.svg",
        "fheins-figure5.svg",
        "fheins-table2.svg",
    }
    printed = capsys.readouterr().out
    assert "Which claims survive" in printed
    assert "pir.ssd-l.max.speedup" in printed
    assert main(["reproduce", "fheins", "--format", "json"]) == 0
    parsed = json.loads(capsys.readouterr().out)
    assert parsed["study"] == "fheins"
    assert {"claim", "needs", "value", "survives"} == set(parsed["claims"][0])
    assert {"id", "policy", "published", "calibrated", "first_principles", "note"} <= set(parsed["rows"][0])


FILTER, JOIN, HDC = queries.filter_rows, queries.join, queries.hdc
RANKED = ("--scores", "8", "--top", "3", "--lower-bits", "5", "--degrees", "15-15", "--rank-degrees", "15-15")


@pytest.mark.parametrize("verb", [ROWS, SCORES, PATTERNS, FILTER, JOIN, HDC])
@pytest.mark.parametrize("modes", ["shared", "alternate"])
def test_ordinary_reads_slow_every_query(verb: click.Command, modes: str) -> None:
    """In turns at least as much as at once; a host's own reads are conventional I/O, so that it never alternates."""
    alone = rows(verb, "--drive", "ssd-s")
    under = rows(verb, "--drive", "ssd-s", "--ordinary-reads", "3 GB/s", "--modes", modes)
    for one, other in zip(alone, under, strict=True):
        assert other["ordinary_bytes_per_s"] == 3e9
        assert one["ordinary_bytes_per_s"] == 0
        assert other["query_s"] >= one["query_s"]
        on_host = one["architecture"] == "host:sharp"
        assert other["policy"] == f"{one['policy']} reads-3GB/s-{'shared' if on_host else modes}"
    if modes == "alternate":
        assert under[0]["query_s"] == pytest.approx(alone[0]["query_s"] / (1 - 3e9 / 7.2018e9), rel=1e-4)
        assert under[0]["energy_j_per_query"] == alone[0]["energy_j_per_query"], "standing still takes no power"


def test_the_engine_plays_ordinary_reads_and_says_how_long_each_takes() -> None:
    words = ("--database", "4 GB", "--drive", "ssd-s", "--ordinary-reads", "2 GB/s")
    formula, played = rows(FILTER, *words), rows(FILTER, *words, "--engine", "jump")
    for one, other in zip(formula, played, strict=True):
        assert other["policy"] == one["policy"]
        assert other["query_s"] == pytest.approx(one["query_s"], rel=0.03)
        assert one["ordinary_latency_s"] is None
        assert 0 < other["ordinary_latency_s"] < 0.1
    found = CliRunner().invoke(FILTER, [*words, "--engine", "jump"], catch_exceptions=False)
    assert "ordinary reads next to fheins in ssd-s" in found.stdout
    assert "1.999 GB/s served of 2 GB/s asked for" in found.stdout


@pytest.mark.parametrize("verb", [ROWS, SCORES, PATTERNS, FILTER, JOIN, HDC])
@pytest.mark.parametrize("reads", ["3 GB/s", "7.1 GB/s"])
def test_the_link_carries_the_reads_that_the_engine_reports(verb: click.Command, reads: str) -> None:
    """A host reads the database over the link, and a match inside sends as much back."""
    link = drive_rates("ssd-s").pcie_bytes_per_s
    words = ("--database", "1 GB", "--drive", "ssd-s", "--ordinary-reads", reads)
    for one in rows(verb, *words, "--engine", "jump"):
        served = one["ordinary_served_bytes_per_s"]
        through = one["database_bytes"] if one["architecture"].startswith("host") or verb is PATTERNS else 0
        assert 0 < served <= one["ordinary_bytes_per_s"] * (1 + 1e-6)
        assert through + served * one["simulated_s"] <= link * one["simulated_s"]
        assert served / link < one["pcie_s"] / one["simulated_s"] <= 1 + 1e-12
    for one in rows(verb, *words):
        assert one["ordinary_served_bytes_per_s"] == one["ordinary_bytes_per_s"], "the formula serves reads first"


def test_filters_joins_and_hypervectors_are_answered_on_both_sides() -> None:
    words = ("--drive", "ssd-l", "--contention", "dram")
    few, many = rows(JOIN, *words, "--rows", "1")[0], rows(JOIN, *words)[0]
    assert few["workload"] == many["workload"] == "equi-join"
    assert few["query_s"] < many["query_s"]
    assert rows(FILTER, *words, "--limbs", "8")[0]["query_s"] < rows(FILTER, *words)[0]["query_s"]
    assert rows(HDC, *words, "--dimensions", "1024")[0]["query_s"] < rows(HDC, *words)[0]["query_s"]


def test_rankings_are_answered_on_both_sides_and_cost_the_dram_no_query() -> None:
    one, ten = (rows(top_k, "--drive", "ssd-l", "--top", count) for count in ("1", "10"))
    assert {row["workload"] for row in one} == {"argmax"}
    assert {row["workload"] for row in ten} == {"top-k"}
    assert [row["architecture"] for row in one] == ["fheins", "host:sharp"]
    for few, many in zip(one, ten, strict=True):
        assert few["query_s"] <= many["query_s"]
        assert few["compute_s"] < many["compute_s"]
    held = rows(top_k, "--drive", "ssd-l", "--contention", "dram", "--batch", "64")[0]
    assert held["query_s"] >= ten[0]["query_s"]
    assert "18 multiplications" in str(refused(top_k, *RANKED, "--params", "fheins-pir"))
    assert "take higher degrees" in str(refused(top_k, "--degrees", "7"))


def test_a_search_without_ciphertexts_of_a_query_is_answered_with_keys_over_the_dram() -> None:
    free, held = (
        rows(similarity, "--size", "toy", "--drive", "ssd-s", *words) for words in ((), ("--contention", "dram"))
    )
    assert held[0]["query_s"] >= free[0]["query_s"] > 0


@pytest.mark.parametrize(
    ("verb", "words", "message"),
    [
        (FILTER, "--modes alternate", "--modes changes nothing here: it goes with --ordinary-reads"),
        (FILTER, "--ordinary-reads 2GB/s --modes alternate --engine jump", "--modes alternate is the closed form's"),
        (ROWS, "--ordinary-reads 7.2GB/s", "ask for at most 7.13 GB/s"),
        (ROWS, "--ordinary-reads 7.2GB/s --engine jump", "ask for at most 7.13 GB/s"),
        (ROWS, "--ordinary-reads 2", "no unit"),
        (FILTER, "--encode batch", "--encode changes nothing here"),
        (JOIN, "--rows 9", "from 1 to the 8 categories"),
        (HDC, "--summation bsgs --contention dram", "does not hold the keys"),
        (FILTER, "--architecture ciphermatch", "only adds"),
    ],
)
def test_other_queries_refuse_what_they_cannot_do(verb: click.Command, words: str, message: str) -> None:
    assert message in str(refused(verb, *shlex.split(words)))

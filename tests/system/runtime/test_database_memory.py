"""`penstock database query --memory`: keys, constants, entries and ciphertexts in one budget, and the same answers."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.errors import BudgetTooSmall, UsageError
from penstock.front.cli.verbs.database import command
from penstock.program.database.description import MATCH, PIR, SSC
from penstock.runtime.native.engine import make_context
from penstock.runtime.scanning.memory import MOST_OBJECTS, plan_scan
from penstock.runtime.scanning.store import Database

pytestmark = pytest.mark.usefixtures("encrypting")
SET = "insecure-database"
ROOM = "16 GiB"
"""More than a query takes, also beside what other tests left in this process."""


def penstock(*arguments: object) -> dict[str, Any]:
    """The JSON that `penstock database …` prints; its errors are raised."""
    texts = [*map(str, arguments), "--format", "json", "--quiet"]
    result = CliRunner().invoke(command, texts, catch_exceptions=False, standalone_mode=False)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def least(*arguments: object) -> int:
    """The least budget of a query, as the refusal of a smaller one says it."""
    with pytest.raises(BudgetTooSmall, match=r"the class 'process' needs .* at least, and 1 MB") as refused:
        penstock("query", *arguments, "--memory", "1 MB")
    wanted = re.search(r"raise --memory to (\d+) B or more", str(refused.value))
    assert wanted is not None
    return int(wanted[1])


def test_scores_are_the_same_at_the_least_budget_and_keys_are_read_once_where_it_is_larger(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    penstock("make", folder, "--kind", SSC, "--params", SET, "--records", 2048, "--features", 64)
    whole = Database.open(folder).layout.total_bytes
    small = least(folder)
    found = penstock("query", folder, "--check", "--memory", f"{small + (16 << 20)} B")
    assert found["checked"] is True
    assert found["predicted_peak_bytes"] <= found["memory_bytes"] == small + (16 << 20)
    assert found["read_bytes"] == whole
    roomy = penstock("query", folder, "--check", "--memory", ROOM)
    assert roomy["checked"] is True
    assert roomy["prefetch"] == 4
    # 64 ciphertexts use each key 64 times. The scan of all entries takes none of them away.
    assert roomy["key_read_bytes"] + roomy["key_expanded_bytes"] == roomy["key_budget_bytes"]
    assert roomy["key_peak_resident_bytes"] <= roomy["key_budget_bytes"]
    assert roomy["read_bytes"] == whole


def test_records_and_patterns_are_the_same_under_a_budget(tmp_path: Path) -> None:
    people = tmp_path / "people"
    penstock("make", people, "--kind", PIR, "--params", SET, "--records", 3 * 2048, "--segment", "1 MiB")
    question = (people, "--index", 5, "--index", 6000, "--folds", 2)
    found = penstock("query", *question, "--check", "--memory", f"{least(*question) + (16 << 20)} B")
    assert found["checked"] is True
    notes = tmp_path / "notes.txt"
    notes.write_text("\n".join(f"line {i:05d} of this" for i in range(300)))
    penstock("make", tmp_path / "text", "--kind", MATCH, "--params", SET, "--data", notes, "--record-bytes", 32)
    found = penstock("query", tmp_path / "text", "--pattern", " 00123 o", "--memory", ROOM)
    assert found["matches"] == [{"record": 123, "byte": 4}]
    assert found["key_budget_bytes"] == 0


def test_a_long_scan_is_planned_from_its_first_objects(tmp_path: Path) -> None:
    """Its values are those of a short one, and the answers that stay; its keys repeat themselves."""
    folder = tmp_path / "db"
    penstock("make", folder, "--kind", SSC, "--params", SET, "--records", 64, "--features", 64)
    database = Database.open(folder)
    context = make_context(database.description.params)
    of = database.description

    def planned(objects: int) -> Any:
        plan = replace(of.plan(), vectors=objects * of.plan().per_object)
        return plan_scan(database, plan, 1, 1 << 32, context)

    short, long = planned(MOST_OBJECTS), planned(4 * MOST_OBJECTS)
    answers = 3 * MOST_OBJECTS // of.features * of.params.ciphertext_bytes(of.params.num_q - 2)
    assert long.memory.given("values") == short.memory.given("values") + answers
    assert len(long.key_uses) == 4 * len(short.key_uses)
    assert long.memory.given("keys") == short.memory.given("keys")


def test_options_that_contradict_a_budget_are_refused(tmp_path: Path) -> None:
    folder = tmp_path / "db"
    penstock("make", folder, "--kind", SSC, "--params", SET, "--records", 64, "--features", 64)
    with pytest.raises(UsageError, match="--memory decides --prefetch"):
        penstock("query", folder, "--memory", ROOM, "--prefetch", 2)
    with pytest.raises(UsageError, match="leave --reading openfhe out"):
        penstock("query", folder, "--memory", ROOM, "--reading", "openfhe")


def test_a_load_takes_the_segments_that_fit_its_budget(tmp_path: Path) -> None:
    of = ("database", "make", tmp_path / "db", "--kind", SSC, "--params", SET, "--records", 2048, "--features", 64)
    with pytest.raises(BudgetTooSmall, match=r"the class 'process' needs .* at least"):
        penstock(*of[1:], "--memory", "1 MB", "--dry-run")
    with pytest.raises(UsageError, match="--memory decides --segment"):
        penstock(*of[1:], "--memory", "1 GB", "--segment", "1 MiB")
    # A process of its own: this one has had more memory before.
    made = "import sys; from penstock.front.cli.main import main; sys.exit(main())"
    small = subprocess.run(
        [sys.executable, "-c", made, *map(str, of), "--memory", "68 MB", "--format", "json", "--quiet"],
        capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    found = json.loads(small.stdout)
    assert found["segments"] > 1
    assert found["predicted_peak_bytes"] <= found["memory_bytes"]
    assert found["peak_bytes"] <= found["memory_bytes"]
    assert abs(found["predicted_peak_bytes"] / found["peak_bytes"] - 1) < 0.15
    assert penstock("query", tmp_path / "db", "--check")["checked"] is True

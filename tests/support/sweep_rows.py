"""Sweeps played in this process, and the rows of `simulate` beside them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest

from penstock.front.cli.main import main
from penstock.lab.sweeps.plan import plan
from penstock.lab.sweeps.play import Played, play_chunk, price_program
from penstock.lab.sweeps.points import Chunk, Plan
from penstock.lab.sweeps.spec import parse_sweep


def planned(text: str) -> Plan:
    return plan(parse_sweep(text, "test"))


def played_here(found: Plan, chunks: Sequence[Chunk] | None = None) -> list[Played]:
    priced = [price_program(program) for program in found.programs]
    return [play_chunk(found.programs[c.program], priced[c.program], c) for c in chunks or found.chunks]


def rows_of(found: Plan) -> list[dict[str, Any]]:
    return [row for played in played_here(found) for row in played.table.to_pylist()]


def simulated(capsys: pytest.CaptureFixture[str], *options: str) -> list[dict[str, Any]]:
    command = ["simulate", "inner-product", "--params", "sharp", "--machine", "sharp", "--format", "json", *options]
    assert main(command) == 0
    rows: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    for row in rows:
        del row["assumptions"]  # a sweep has them once, in run.json
    return rows

"""The operations that each operation reads, and how long a chain it waits for, against the plain loops."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.scheme.play.price import depths
from penstock.scheme.play.schedule import ProgramShapes, sources_of


@pytest.mark.parametrize("seed", range(40))
def test_sources_and_depths_are_those_of_the_plain_loops(seed: int) -> None:
    random = np.random.default_rng(seed)
    rows = int(random.integers(0, 30))
    operands = int(random.integers(0, 60)) if rows else 0
    row = np.sort(random.integers(0, max(rows, 1), operands))
    read = random.integers(0, rows + 3, operands)
    made = np.arange(rows)
    start, source = sources_of((made, made + 3), (row, read), rows, rows + 3)
    wanted = [sorted({int(o) - 3 for r, o in zip(row, read, strict=True) if r == i and 3 <= o < i + 3}) for i in made]
    assert [source[start[i] : start[i + 1]].tolist() for i in made] == wanted
    chains: list[int] = []
    for each in wanted:
        chains.append(1 + max((chains[other] for other in each), default=-1))
    assert depths(ProgramShapes([], np.zeros(rows, dtype=np.int64), (start, source))).tolist() == chains

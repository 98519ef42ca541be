"""Which test files most likely see a change of one source."""

from __future__ import annotations

import re
from collections import defaultdict, deque
from functools import cache
from pathlib import Path

from support.tiers import in_core, recorded, total

ROOT = Path(__file__).parents[2]
NEAREST_S = 40.0
"""Seconds of tests that are tried before all of them."""


@cache
def importers() -> dict[str, set[str]]:
    """Module, by its last two names -> files of sources and tests that import it."""
    found: dict[str, set[str]] = defaultdict(set)
    for path in (path for folder in ("src/penstock", "studies", "tests") for path in (ROOT / folder).rglob("*.py")):
        for module, names in re.findall(
            r"^\s*(?:from ([\w.]+) )?import ([^#\n]*(?<!\()$|\([^)]*\))", path.read_text(), re.M
        ):
            for name in re.findall(r"[\w.]+", names):
                full = f"{module}.{name}" if module else name
                found[full].add(str(path.relative_to(ROOT)))
                found[module].add(str(path.relative_to(ROOT)))
    return found


def module_names(file: str) -> list[str]:
    """How a file is imported: of `src` and `studies` by its dotted name, of `tests` also without the folder."""
    dotted = file.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    return [
        dotted.removeprefix("src.").removeprefix("studies."),
        *([dotted.removeprefix("tests.")] if file.startswith("tests/") else []),
    ]


def nearest(file: str, room: str) -> list[str]:
    """Test files of a module, up to `NEAREST_S` of tests: those that import it, those named like its room, and then
    those that import what imports it."""
    seconds = recorded()
    chosen, filled, seen, waiting = [file] if file.endswith(".py") else [], 0.0, {file}, deque([file])
    while waiting:
        users = sorted({user for name in module_names(waiting.popleft()) for user in importers()[name]} - seen)
        if len(seen) == 1:
            named = {str(each.relative_to(ROOT)) for each in (ROOT / "tests").rglob(f"test_*{room[:4]}*.py")}
            users += sorted(named - {*users})
        seen.update(users)
        waiting += users
        for test in users:
            if Path(test).name.startswith("test_"):
                nodes = [f"{test}::{name}" for name in seconds.get(test, {})]
                filled += sum(total(seconds, node) for node in in_core(nodes, seconds))
                if filled > NEAREST_S and len(chosen) > 1:
                    return chosen
                chosen.append(test)
    return chosen

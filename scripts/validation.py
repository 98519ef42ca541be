"""Writes docs/studies/validation.md from what `penstock reproduce` prints: every published number beside ours, nothing
typed.

python scripts/validation.py [--check] [--study NAME]…
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain, pairwise, product
from pathlib import Path
from statistics import fmean, median
from string import ascii_lowercase
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "studies" / "validation.md"
STUDIES = {
    "io-study": ("The storage-I/O study", "io-study.md"),
    "fheins": ("FHEIns: queries inside an SSD", "fheins.md"),
    "cryptoracle": ("CryptOracle: operation counts of OpenFHE workloads", "cryptoracle.md"),
}
COLUMNS = (("calibrated", "error_calibrated"), ("first principles", "error_first_principles"))
CLI = "import sys; from penstock.front.cli.main import main; sys.exit(main())"
Row = Mapping[str, Any]

HEAD = """# Validation

<!-- Written by `make validation`. Do not edit: change scripts/validation.py, or the studies, and run it again. -->

Every number that a study publishes next to the one that penstock computes (`penstock reproduce`).

{verdicts}
- **Calibrated** uses the values that the study states or implies. **First principles** uses the kernel algebra and the
  machine files alone.
- An error is relative and signed: +10 % is too large.
- Rows without a published number (values drawn in a figure, sensitivity rows) are in
  `penstock reproduce NAME --format json`. The study's own page explains its numbers and their contradictions.

Other checks: [predictions of run times](prediction-validation.md) on the machine that measured them, key sizes against
OpenFHE's files to the byte ([parameters](../guides/parameters.md)), counts against SimFHE
([machines](../guides/machines.md)), clusters against SimGrid ([clusters](../guides/cluster.md)), drives against closed
forms ([SSD](../guides/ssd.md)).
"""
BANDS = ((0.05, "within 5 %"), (0.20, "within 20 %"), (float("inf"), "further off"))


def reproduced(study: str) -> list[Row]:
    """The rows of a study, as the command line prints them."""
    command = [sys.executable, "-c", CLI, "reproduce", study, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(f"penstock reproduce {study} ended with {done.returncode}: {done.stderr}")
    rows: list[Row] = json.loads(done.stdout)["rows"]
    return rows


def section(study: str, rows: Sequence[Row]) -> str:
    """A heading, the errors, a table for each group, and the notes, each printed once."""
    title, page = STUDIES[study]
    shown = [row for row in rows if row["published"] is not None]
    parts = [f"## {title}", "", f"`penstock reproduce {study}`; explained in [{page.removesuffix('.md')}]({page}).", ""]
    parts += _table(("ours", "rows", "mean error", "median", "largest", "bias"), _errors(shown))
    notes = fragments([str(row["note"] or "") for row in shown])
    letters = dict(zip(dict.fromkeys(chain.from_iterable(notes)), _letters(), strict=False))
    heads = ("row", "quantity", "published", "calibrated", "error", "first principles", "error", "notes")
    for group in dict.fromkeys(str(row["group"]) for row in shown):
        parts += [f"### {study}: {group}", ""]
        of_group = [pair for pair in zip(shown, notes, strict=True) if pair[0]["group"] == group]
        parts += _table(heads, [(*_line(row), ", ".join(letters[text] for text in said)) for row, said in of_group])
    if letters:
        parts += [f"### {study}: notes", "", *(f"- **{letter}**: {text}" for text, letter in letters.items()), ""]
    return "\n".join(parts)


def fragments(notes: Sequence[str]) -> list[list[str]]:
    """Each note split at its semicolons, but for those between fragments that never occur apart.

    >>> fragments(["a; b; c", "c", "a; b", ""])
    [['a; b', 'c'], ['c'], ['a; b'], []]
    """
    split = [[part for part in note.split("; ") if part] for note in notes]
    while True:
        counts = Counter(part for parts in split for part in parts)
        pairs = Counter(pair for parts in split for pair in pairwise(parts))
        joined = next((p for p, n in pairs.items() if p[0] != p[1] and n == counts[p[0]] == counts[p[1]]), None)
        if joined is None:
            return split
        for parts in split:
            if joined[0] in parts:
                at = parts.index(joined[0])
                parts[at : at + 2] = ["; ".join(joined)]


def _letters() -> Iterable[str]:
    """a, b, …, z, aa, ab, …"""
    for length in (1, 2):
        yield from ("".join(letters) for letters in product(ascii_lowercase, repeat=length))


def verdicts(rows: Mapping[str, Sequence[Row]]) -> str:
    """A table: of each study the published numbers, and how many of ours are how near."""
    lines = []
    for study, found in rows.items():
        for name, column in COLUMNS:
            errors = [abs(row[column]) for row in found if row["published"] is not None and row[column] is not None]
            bands = [sum(low < each <= high for each in errors) for low, high in _bands()]
            if errors:
                lines.append((f"[{STUDIES[study][0]}]({STUDIES[study][1]})", name, *map(str, (len(errors), *bands))))
    return "\n".join(_table(("study", "ours", "numbers", *(name for _, name in BANDS)), lines))


def _bands() -> Iterable[tuple[float, float]]:
    edges = [-1.0, *(edge for edge, _ in BANDS)]
    return pairwise(edges)


def _errors(rows: Sequence[Row]) -> Iterable[Sequence[str]]:
    for name, column in COLUMNS:
        errors = [row[column] for row in rows if row[column] is not None]
        if errors:
            sizes = [abs(each) for each in errors]
            cells = (fmean(sizes), median(sizes), max(sizes))
            yield name, str(len(errors)), *(f"{each:.1%}" for each in cells), f"{fmean(errors):+.1%}"


def _line(row: Row) -> Sequence[str]:
    unit = "" if row["unit"] in ("1", None) else f" {row['unit']}"
    return (
        f"`{row['id']}`",
        str(row["quantity"]).replace("_", " "),
        _number(row["published"]) + unit,
        _number(row["calibrated"]),
        _error(row["error_calibrated"]),
        _number(row["first_principles"]),
        _error(row["error_first_principles"]),
    )


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.4g}"


def _error(value: float | None) -> str:
    return "-" if value is None else f"{value:+.1%}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [[cell.replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(row)} |" for row in cells), ""]


def main() -> None:
    """Write the page, or with --check say whether it is what it would be."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="compare with the page, and write nothing")
    parser.add_argument("--study", action="append", choices=list(STUDIES), help="with --check: only this one")
    asked = parser.parse_args()
    studies = asked.study if asked.check and asked.study else list(STUDIES)
    rows = {study: reproduced(study) for study in studies}
    made = {study: section(study, found) for study, found in rows.items()}
    if asked.check:
        page = PAGE.read_text()
        stale = [study for study, text in made.items() if text not in page]
        if stale:
            raise SystemExit(f"docs/studies/validation.md is not what 'make validation' writes: {', '.join(stale)}")
        return
    PAGE.write_text("\n".join([HEAD.format(verdicts=verdicts(rows)), *made.values()]))
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()

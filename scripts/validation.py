"""Writes docs/validation.md from what `penstock reproduce` prints: every published number beside ours, nothing typed.

python scripts/validation.py [--check] [--study NAME]…
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from statistics import fmean, median
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "validation.md"
STUDIES = {
    "io-study": ("The storage-I/O study", "io-study.md"),
    "fheins": ("FHEIns: queries inside an SSD", "fheins.md"),
    "cryptoracle": ("CryptOracle: operation counts of OpenFHE workloads", "cryptoracle.md"),
}
CLI = "import sys; from penstock.cli.main import main; sys.exit(main())"
Row = Mapping[str, Any]

HEAD = """# Validation

<!-- Written by `make validation`. Do not edit: change scripts/validation.py, or the studies, and run it again. -->

Every number that a study publishes and penstock computes, from `penstock reproduce`. **Calibrated**: with the values
that the study itself states or implies. **First principles**: from the kernel algebra and the machine files alone. An
error is relative and signed: +10 % is too large. Rows without a published number (values only drawn in a figure, our
own sensitivity rows) are not here; `penstock reproduce NAME --format json` has them all. What a study's numbers mean,
and where they contradict each other, is on its own page.

Predictions of measured run times on a CPU are held out and judged on [their own page](prediction-validation.md): they
depend on the machine that measured. What is checked otherwise: key sizes against OpenFHE's files
to the byte ([parameters](parameters.md)), counts against SimFHE ([machines](machines.md)), clusters against SimGrid
([clusters](cluster.md)), drives against closed forms ([SSD](ssd.md)).
"""


def reproduced(study: str) -> list[Row]:
    """The rows of a study, as the command line prints them."""
    command = [sys.executable, "-c", CLI, "reproduce", study, "--format", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode != 0:
        raise SystemExit(f"penstock reproduce {study} ended with {done.returncode}: {done.stderr}")
    rows: list[Row] = json.loads(done.stdout)["rows"]
    return rows


def section(study: str, rows: Sequence[Row]) -> str:
    """A heading, how far ours is from what is published, and a table for each group."""
    title, page = STUDIES[study]
    shown = [row for row in rows if row["published"] is not None]
    parts = [f"## {title}", "", f"`penstock reproduce {study}`; explained in [{page.removesuffix('.md')}]({page}).", ""]
    parts += _table(("ours", "rows", "mean error", "median", "largest", "bias"), _errors(shown))
    for group in dict.fromkeys(str(row["group"]) for row in shown):
        parts += [f"### {study}: {group}", ""]
        parts += _table(
            ("row", "quantity", "published", "calibrated", "error", "first principles", "error"),
            [_line(row) for row in shown if row["group"] == group],
        )
        notes = [f"- `{row['id']}`: {row['note']}" for row in shown if row["group"] == group and row["note"]]
        parts += [*notes, ""] if notes else []
    return "\n".join(parts)


def _errors(rows: Sequence[Row]) -> Iterable[Sequence[str]]:
    for name, column in (("calibrated", "error_calibrated"), ("first principles", "error_first_principles")):
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
    made = {study: section(study, reproduced(study)) for study in studies}
    if asked.check:
        page = PAGE.read_text()
        stale = [study for study, text in made.items() if text not in page]
        if stale:
            raise SystemExit(f"docs/validation.md is not what 'make validation' writes: {', '.join(stale)}")
        return
    PAGE.write_text("\n".join([HEAD, *made.values()]))
    print(PAGE.relative_to(ROOT))


if __name__ == "__main__":
    main()

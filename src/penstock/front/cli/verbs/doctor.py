"""`penstock doctor`: the abilities of this machine, the missing ones, their effect, and how to get them."""

from __future__ import annotations

import textwrap

import click
from rich.console import Console
from rich.text import Text

from penstock.base.system import doctor
from penstock.base.system.doctor import Finding, Status
from penstock.base.system.host import Host
from penstock.front.cli.output import emit, format_option
from penstock.front.cli.streams import unsteered

_INDENT = 19
_STYLES = {Status.OK: "green", Status.LIMITED: "yellow", Status.MISSING: "red"}


@click.command("doctor")
@click.option(
    "--require",
    "required",
    multiple=True,
    metavar="CHECK",
    help="Exit with 3 unless this check is ok (may be given more than once).",
)
@format_option
def command(required: tuple[str, ...], output_format: str) -> int:
    """List the abilities of this machine, the missing ones, their effect, and how to get them.

    Exit code 0 where the core works (python, packages, engine), 3 where it does not or a required check is not ok.

    \b
    Examples:
      penstock doctor
      penstock doctor --require openfhe --format json
    """
    doctor.unmet([], required)  # an unknown name is refused before the checks take their time
    findings = doctor.examine(Host())
    in_the_way = doctor.unmet(findings, required)

    rows = [finding.to_row() for finding in findings]
    emit(rows, output_format, table=lambda console: _draw(console, findings, in_the_way))
    for finding in in_the_way:
        click.echo(f"penstock: {finding.check} is {finding.status.value}: {finding.remedy}", err=True)
    return 3 if in_the_way else 0


def _draw(console: Console, findings: list[Finding], in_the_way: list[Finding]) -> None:
    for finding in findings:
        status = f"{finding.status.value:<8}", _STYLES[finding.status]
        rows = [("costs: ", finding.costs), ("remedy: ", finding.remedy)]
        _line(console, Text.assemble(f"{finding.check:<9} ", status, " "), finding.detail)
        for label, text in rows:
            if text:
                head = Text.assemble(" " * _INDENT, (label, "dim"))
                _line(console, head, text, indent=_INDENT + len(label))
    counts = ", ".join(f"{sum(f.status is status for f in findings)} {status.value}" for status in Status)
    core = "something required does not work" if in_the_way else "the core works"
    console.print(f"{core}: {counts}")


def _line(console: Console, head: Text, text: str, indent: int = _INDENT) -> None:
    """One entry; on a terminal, its further lines stand under the first, elsewhere it stays one line."""
    lines = textwrap.wrap(text, max(30, console.width - indent)) if console.is_terminal else [text]
    for number, line in enumerate(lines):
        before = head if number == 0 else Text(" " * indent)
        console.print(before + Text(unsteered(line)), highlight=False, soft_wrap=True)

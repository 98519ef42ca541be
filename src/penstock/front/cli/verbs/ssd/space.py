"""`penstock ssd space`: the design space of accelerators in a drive."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from penstock.base.types import Row
from penstock.errors import UsageError
from penstock.front.cli.options import PATH, Decorator, Values, all_of, choice_option
from penstock.front.cli.output import Own, draw_rows, emit, output_options, say, shown, write_rows

if TYPE_CHECKING:
    from penstock.lab.instorage.design_space import Own as OwnDesign
    from penstock.lab.instorage.front import Budget
    from penstock.lab.instorage.space import DesignSpace

WORKLOADS = ("pir", "ssc", "hdc-classify", "filter-aggregate", "equi-join", "argmax", "top-k", "string-match")
ENDINGS = (".csv", ".json")
SHOWN = 3
"""Reasons for points that cannot be built."""
_SHARED = ("params", "database", "architecture", "batch", "contention", "power", "machine", "policy")
"""Options that are the same for every design, and belong to its command."""
_AXES: tuple[Decorator, ...] = (
    click.option("--drive", "drives", multiple=True, default=("ssd-s", "ssd-l"), help="May be repeated, as all axes."),
    click.option(
        "--channels-per-accelerator", "groups", type=click.IntRange(min=1), multiple=True, help="1 to 16 by default."
    ),
    click.option("--lanes", type=click.IntRange(min=1), multiple=True, help="Of each engine; 16 to 512 by default."),
    click.option("--scratchpad", "scratchpads", multiple=True, help="Of each accelerator; '3.5 MB' to '84 MB'."),
    click.option("--dram-rate", "dram_rates", multiple=True, help="Of the drive's DRAM; '25.6 GB/s' to '204.8 GB/s'."),
    click.option("--dram-size", "dram_sizes", multiple=True, help="Of the drive's DRAM; '4 GB' and '8 GB'."),
    click.option("--pcie", "links", multiple=True, help="Payload of the host's link; PCIe 4.0, 5.0 and 6.0 x4."),
)
_BUDGETS: tuple[Decorator, ...] = (
    click.option("--max-power", help="Budget of the accelerators' logic. Default: the architecture's, 55 W."),
    click.option("--max-area", help="Budget of the logic's area ('30 mm2')."),
    click.option("--max-dram-rate", help="Budget of the DRAM's rate ('51.2 GB/s')."),
    click.option("--max-dram-size", help="Budget of the DRAM's size ('4 GB')."),
)


@click.command("space")
@click.argument("workload")
@all_of(*_AXES, *_BUDGETS)
@click.option("--params", help="Parameter set. Default: the workload's in FHEIns, or its like.")
@click.option("--database", help="Bytes on the drive ('128 GB'). Default: the workload's in FHEIns.")
@click.option("--architecture", default="fheins", help="Of functional units: a name, or a TOML file.")
@click.option("--batch", type=click.IntRange(min=1), default=1, help="Queries together.")
@choice_option(
    "--contention",
    ("free", "dram", "spill"),
    "What the drive's DRAM carries: nothing; queries and keys; also what scratchpads do not hold.",
    default="spill",
)
@choice_option("--power", ("per-engine", "per-accelerator"), "Number of instances of a row of the table of powers.")
@click.option("--machine", default="sharp", help="The accelerator behind PCIe.")
@click.option("--policy", default="batch-overlap", help="What the host does, as in 'penstock ssd pir'.")
@click.option("--play", is_flag=True, help="Play the designs of the front on the event engine, page by page.")
@click.option("-o", "--output", type=PATH, help="Write every point: a .csv or .json file.")
@click.option("--figure", type=PATH, help="Draw all points and the front: an .svg file.")
@click.option("--page", type=PATH, help="Write a page that explores the points: an .html file.")
@click.option("--force", is_flag=True, help="Replace existing files.")
@output_options
def command(workload: str, **options: Any) -> None:
    """Time, area and power of thousands of designs of accelerators in a drive, and the Pareto front within budgets.

    WORKLOAD is pir, ssc, hdc-classify, filter-aggregate, equi-join, argmax, top-k or string-match. Printed are the
    designs that no other one beats in both seconds a query and watts; -o has all. Area and power are 'published' at the
    design of FHEIns' Table II and 'scaled' from it elsewhere; times are simulated. 'docs/studies/fheins.md' has the
    laws.

    \b
    Examples:
      penstock ssd space ssc
      penstock ssd space pir --batch 64 --max-power "20 W" --figure front.svg
      penstock ssd space filter-aggregate --max-dram-rate "51.2 GB/s" -o designs.csv --format json
      penstock ssd space ssc --page designs.html
      penstock ssd space hdc-classify --max-power "30 W" --play
      penstock ssd space ssc --drive ssd-s --lanes 128 --scratchpad "7 MB" --scratchpad "42 MB" --contention dram
    """
    from penstock.base.system.progress import Progress
    from penstock.front.hall.designs import designs, played
    from penstock.lab.instorage.design_space import own_designs
    from penstock.lab.instorage.front import pareto, within

    _check_files(options)
    progress, quiet = Progress(quiet=options["quiet"]), options["quiet"]
    accelerator, drives, budgets, space = designs(workload, options, progress)
    for why, count in space.left_out.most_common(SHOWN):
        say(f"left out: {count:,} designs: {why}", quiet=quiet)
    chosen = within(space, budgets)
    front = pareto(space, chosen)
    own = own_designs(space, drives, accelerator, chosen)
    rows = [{**row, "pareto": True, "within_budgets": True} for row in space.rows(front)]
    if options["play"]:
        with progress.stage("playing the front", len(rows)) as stage:
            for row in rows:
                row["played_query_s"] = played(space, row, accelerator, options)
                stage.advance()
    if options["output"] is not None or options["page"] is not None:
        on_front = set(front.tolist())
        every = [
            {**row, "pareto": i in on_front, "within_budgets": bool(chosen[i])} for i, row in enumerate(space.rows())
        ]
        _keep(every, workload, options)
    if options["figure"] is not None:
        from penstock.lab.instorage.design_figure import draw_space

        draw_space(space, chosen, front, own, budgets[0].most, options["figure"])
    for name, what in (("output", "points"), ("figure", "picture"), ("page", "page")):
        if options[name] is not None:
            say(f"{what} written to {options[name]}", quiet=quiet)

    def table(console: Console) -> None:
        _draw(console, space, rows, int(chosen.sum()), budgets)
        _draw_own(console, space, own)
        console.print(f"Area and power: {accelerator.scaling_source}.", highlight=False)

    emit(rows, options["output_format"], table=table)


def _keep(every: Sequence[Row], workload: str, options: Values) -> None:
    """Write what -o and --page ask for."""
    from penstock.base.system.files import write_atomic
    from penstock.lab.reports.build import page_bytes
    from penstock.lab.reports.designs import designs_page

    if options["output"] is not None:
        write_rows(options["output"], every, force=options["force"])
    if options["page"] is not None:
        text = designs_page(every, _command(workload, options))
        write_atomic(options["page"], page_bytes(text), force=options["force"])


def _command(workload: str, options: Values) -> str:
    """The words that every design shares, besides its axes."""
    import shlex

    words = ["penstock", "ssd", "space", workload]
    for parameter in command.params:
        name = str(parameter.name)
        value = options.get(name)
        if name in _SHARED and value is not None and value != parameter.default:
            words += [parameter.opts[0], str(value)]
    return shlex.join(words)


def _check_files(options: Values) -> None:
    from penstock.base.system.files import check_target

    output, figure, page = options["output"], options["figure"], options["page"]
    if output is not None and output.suffix not in ENDINGS:
        raise UsageError(f"-o {output}: the points are written as CSV or JSON: end the name in {' or '.join(ENDINGS)}")
    if figure is not None and figure.suffix != ".svg":
        raise UsageError(f"--figure {figure}: the picture is an SVG: end the name in .svg")
    if page is not None and page.suffix != ".html":
        raise UsageError(f"--page {page}: the page is HTML: end the name in .html")
    if options["force"] and output is None and figure is None and page is None:
        raise UsageError("--force replaces a file of -o, --figure or --page: name one, or leave it out")
    for path in (output, figure, page):
        if path is not None:
            check_target(path, force=options["force"])


def _draw(
    console: Console, space: DesignSpace, rows: Sequence[Row], num_within: int, budgets: Sequence[Budget]
) -> None:
    columns = "drive | >accelerators | >lanes | >scratchpad=scratchpad_bytes | >DRAM=dram | >PCIe=pcie_bytes_per_s "
    columns += "| >area=area_mm2:{:.4g} mm2 | >power=watts:{:.4g} W | >a query=query_s | >speedup=speedup:{:.3g}x "
    columns += "| bottleneck | area, power=area_and_power"
    columns += " | >played=played_query_s" * bool(rows and "played_query_s" in rows[0])
    names = ("dram_bytes_per_s", "dram_capacity_bytes")
    dram: Own = {"dram": lambda row: ", ".join(shown(name, row[name]) for name in names)}
    title = f"{space.query.workload}: the Pareto front of {num_within:,} designs within budgets (simulated)"
    draw_rows(console, rows, columns, dram, title=title, no_wrap=True, header_style="bold")
    asked = ", ".join(f"{budget.option} {budget.text(budget.most)}" for budget in budgets)
    console.print(f"{len(space):,} designs, of which {num_within:,} meet {asked}.", highlight=False)


def _draw_own(console: Console, space: DesignSpace, own: Sequence[OwnDesign]) -> None:
    """The published designs, each with a faster one at its power."""

    def text(number: int) -> str:
        (row,) = space.rows([number])
        return (
            f"{row['accelerators']} accelerators of {row['lanes']} lanes and "
            f"{shown('scratchpad_bytes', row['scratchpad_bytes'])}: {shown('query_s', row['query_s'])} a query, "
            f"{row['watts']:.4g} W"
        )

    for design in own:
        budget = "within the budgets" if design.is_within else "over a budget"
        console.print(f"As published, {design.drive}: {text(design.number)}, {budget}.", highlight=False)
        if design.better is not None:
            console.print(f"  Faster with no more of anything: {text(design.better)}.", highlight=False)

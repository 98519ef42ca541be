"""`penstock simulate`: play a trace on a machine whose keys do not fit in fast memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

import click
from rich.console import Console

from penstock.base.types import Row, Rows
from penstock.errors import UsageError
from penstock.front.cli import simulated_tables as tables
from penstock.front.cli.advice import advice_option, draw_advice, wants_advice
from penstock.front.cli.assumed import draw_assumed, with_assumptions
from penstock.front.cli.options import PATH, Values, params_on_machine_option, seed_option, size_option
from penstock.front.cli.output import emit, format_option, rows_target, say, say_choice, write_rows
from penstock.front.cli.question_options import QUESTION_GROUPS, QuestionCommand, question_options
from penstock.front.cli.timeline_play import AskedTimeline, draw_point, timeline_options
from penstock.front.hall.programs import Home, homes
from penstock.front.hall.simulating import asks_of, rests_on, tiers_of
from penstock.lab.advice.remedy import Advice
from penstock.lab.advice.simulated import Asks, advise
from penstock.lab.simulation.cluster.simgrid import SimGrid, find_python
from penstock.lab.simulation.memory.locality import locality_table
from penstock.lab.simulation.memory.serial_law import required_hit_ratio
from penstock.lab.simulation.play import OnMachine, Ready, ready_for
from penstock.lab.simulation.question import Levels, Question
from penstock.lab.simulation.worded import RuntimeComparison, WordedQuestion
from penstock.lab.simulation.words import OPTIONS
from penstock.scheme.machines import Machine, Tier
from penstock.scheme.play.schedule import Schedule

Scheduled = tuple[Schedule, float | None, Mapping[str, int]]
"""A schedule, and the seconds in which the machine's own memory moves the data that it takes to be on chip."""


@click.command(
    "simulate",
    cls=QuestionCommand,
    groups={
        "Program": ("params", "size", "seed"),
        **QUESTION_GROUPS,
        "Output": ("output_format", "output", "force", "advice", "timeline_path", "timeline_events"),
    },
)
@click.argument("target", metavar="TRACE|WORKLOAD")
@params_on_machine_option
@size_option
@seed_option
@question_options
@click.option("-o", "--output", type=PATH, help="Write the rows to this .json or .csv file.")
@timeline_options
@advice_option
@click.option("--force", is_flag=True, help="Replace an existing file.")
@format_option
def command(
    target: str,
    asked: WordedQuestion,
    output: Path | None,
    timeline: AskedTimeline | None,
    force: bool,
    advice: bool | None,
    output_format: str,
    **program: Any,
) -> None:
    """Play a trace, or a workload's, on a machine and over tiers: one row for each machine, cache, tier and mode.

    Without --hit-ratio and --cache every access comes from the tier. Times are simulated; the assumed values of a
    machine are listed below the table. Last comes what would help the slowest row most: each change is simulated, too.

    \b
    Examples (more in 'docs/guides/memory.md' and 'docs/guides/cluster.md'):
      penstock simulate logistic-regression --params sharp --machine sharp
      penstock simulate run.parquet --machine a100-tensorfhe --tier pcie5 --tier "3.5 GB/s" --hit-ratio 0.9
      penstock simulate logistic-regression --params sharp --machine sharp --cache on-chip --cache "1 GiB" \\
          --policy lru --policy belady --mode overlap --format csv
      penstock simulate logistic-regression --params tensorfhe-helr --machine a100-tensorfhe \\
          --levels "on-chip,hbm2:40 GB,nvme-gen4" --reserve hbm2=opt-13b:4
      penstock simulate inner-product --params sharp --machine sharp --mode overlap \\
          --levels "on-chip,hbm:2 GB,nvme-gen5" --tenants 1..8 --limit 5
      penstock simulate resnet20-multiplexed --params sharp --machine sharp --hosts 1,2,4,8 --network ethernet-400
      penstock simulate logistic-regression --params sharp --machine sharp --inside schedule
    """
    if output is not None:
        rows_target(output, force=force)
    advised = wants_advice(advice, output_format if output is None else output.suffix[1:])
    question, comparison = asked.question, asked.comparison
    if timeline is not None:
        alone = not (asked.beside or asked.crowd or comparison or question.write_back)
        timeline.check(asked.several, alone=alone, force=force)
    for machine in question.machines:  # before anything is traced
        (question.points_on if comparison is None else comparison.memory_bytes)(machine)
    if comparison is not None:
        rows = [row for home in _homes(asked, target, program) for row in _compared(comparison, question, home)]
        if advice:
            raise UsageError("--compare-policies ranks what a runtime saves already: leave --advice out")
        _show(asked, rows, partial(tables.draw_locality, rows=rows), question.tiers, output, output_format, force=force)
        return
    asks = list[Asks]()
    simgrid = SimGrid(python=find_python()) if asked.simgrid else None
    for home in _homes(asked, target, program):
        for ask in asks_of(asked, target, home, program["size"], program["seed"], simgrid):
            played = ask.answer
            if timeline is not None:
                draw_point(timeline, home.trace, played, question.key_forms[0], force=force)
            _warn(played.warnings)
            asks.append(ask)
    answers = [ask.answer for ask in asks]
    rows = [row for answer in answers for row in answer.rows]
    tiers = list(dict.fromkeys(tier for answer in answers for tier in tiers_of(answer.points)))
    remedies = advise(asks) if advised and asks else None
    draw = _drawing(asked, answers, rows)
    _show(asked, rows, draw, tiers, output, output_format, _schedules(answers), advice=remedies, force=force)


def _homes(asked: WordedQuestion, target: str, program: Values) -> Iterator[Home]:
    """The program on each machine; a note that several have is printed once."""
    notes = set[str]()
    for home in homes(target, **program, machines=asked.question.machines, beside=asked.beside, spelled=OPTIONS):
        if home.note is not None and home.note not in notes:
            notes.add(home.note)
            say_choice(home.note)
        yield home


def _schedules(answers: Sequence[OnMachine]) -> dict[str, Scheduled]:
    """Machine -> the schedule of the program, where its operations are scheduled on units."""
    prices = {answer.machine.name: answer.ready.priced for answer in answers}
    return {
        name: (priced.schedule, priced.off_chip_s, priced.unpriced)
        for name, priced in prices.items()
        if priced.schedule is not None
    }


def _drawing(asked: WordedQuestion, answers: Sequence[OnMachine], rows: Sequence[Row]) -> Callable[[Console], None]:
    """The table of the question's kind."""
    if asked.crowd is not None:
        return partial(tables.draw_crowd, rows=rows, crowd=asked.crowd)
    if asked.question.on_clusters:
        return partial(tables.draw_hosts, rows=rows)
    if isinstance(asked.question.holds, Levels):
        return partial(tables.draw_levels, rows=rows)
    uncalibrated = {answer.machine.name for answer in answers if answer.machine.is_uncalibrated}
    needed = [ratio for answer in answers for ratio in _needed(asked.question, answer.machine, answer.ready)]
    return partial(tables.draw_points, rows=rows, needed=needed, uncalibrated=uncalibrated)


def _compared(comparison: RuntimeComparison, question: Question, home: Home) -> Rows:
    """What runtimes save, on a machine in each memory."""
    rows, machine = Rows(), home.machine
    priced = ready_for(question, home.trace, machine, question.key_forms[0], home.beside).priced
    texts = list(priced.warnings)
    for memory_bytes in comparison.memory_bytes(machine):
        rows += locality_table(
            priced,
            machine,
            question.tiers,
            memory_bytes=memory_bytes,
            prefetch_buffer_bytes=comparison.buffer_bytes,
            decode_bytes_per_s=question.decode_bytes_per_s,
            warnings=texts,
        )
    _warn(texts)
    return rows


def _needed(question: Question, machine: Machine, ready: Ready) -> list[tuple[str, str, float]]:
    """The hit ratio that each tier asks for, where compute, transfers and decoding follow each other on one host."""
    if ready.priced.unpriced or question.on_clusters or question.write_back or isinstance(question.holds, Levels):
        return []
    ratios, rate = [], question.decode_bytes_per_s
    for tier in question.tiers:
        # A byte takes its transfer and its decoding, a read the latency of the tier.
        per_byte = 1 / tier.bandwidth_bytes_per_s + (0.0 if rate is None else 1 / rate)
        share = required_hit_ratio(
            ready.priced.demand_bytes_per_s,
            1 / per_byte,
            reads_per_ideal_s=ready.priced.demand_reads_per_s,
            latency_s=tier.latency_s,
        )
        ratios.append((machine.name, tier.name, share))
    return ratios


def _warn(warnings: Iterable[str]) -> None:
    for warning in warnings:
        say(f"warning: {warning}")


def _show(
    asked: WordedQuestion,
    rows: Sequence[Row],
    draw: Callable[[Console], None],
    tiers: Sequence[Tier],
    output: Path | None,
    output_format: str,
    schedules: Mapping[str, Scheduled] = MappingProxyType({}),
    *,
    advice: Advice | None = None,
    force: bool,
) -> None:
    """Write the rows to a file, or print them. JSON rows name the assumed values and the bounds of a schedule.

    Args:   advice: below the table; of JSON it makes an object with `rows` and `advice`.
    """
    result: Mapping[str, object] | Sequence[Row]
    if (output_format if output is None else output.suffix[1:]) == "json":
        facts = {machine: {"schedule": tables.schedule_facts(*schedule)} for machine, schedule in schedules.items()}
        rows = [{**row, **facts.get(str(row.get("machine")), {})} for row in rows]
        rows = with_assumptions(rows, rests_on(asked.question, tiers, asked.networks))
    result = rows if advice is None else {"rows": list(rows), "advice": advice.to_dict()}
    if output is not None:
        write_rows(output, result, force=force)
        say(f"{len(rows)} rows written to {output}")
        return

    def drawn(console: Console) -> None:
        draw(console)
        for name, scheduled in schedules.items():
            tables.draw_schedule(console, name, *scheduled)
        draw_assumed(console, asked.question.machines, tiers, asked.networks)
        if advice is not None:
            draw_advice(console, advice)

    emit(result, output_format, table=drawn)

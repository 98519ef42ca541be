"""The report of a study of key budgets: measured against simulated, and the simulator's inputs."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.base.runs.folder import RunFolder
from penstock.base.system.drawing import Axis, Panel, Series
from penstock.base.types import Row, Rows, RowView
from penstock.lab.reports import plots
from penstock.lab.reports.data import ReportData
from penstock.lab.reports.facts import host, parameters, reproduce
from penstock.lab.reports.markup import Content, Markup, columns_of, tag
from penstock.lab.reports.numbers import UNKNOWN, percent, seconds, short_size, significant
from penstock.lab.reports.page import Plots, Section
from penstock.lab.reports.sections import warnings

KIND = "budgets"
"""What `kind` says in the configuration of such a run folder."""
STORE, BELADY = "future", "belady"
"""`policy` of rows: by the store's own rules, and by Belady's rule as `penstock simulate` plays it."""
SHOWN = (("measured", STORE), ("simulated", STORE), ("simulated", BELADY))
"""`provenance` and `policy` of the columns of a budget, in this order."""
BOUND = 0.15
"""The required distance of simulated from measured."""


def is_budgets(run: RunFolder) -> bool:
    """Whether a run folder holds a study of key budgets."""
    return run.config.get("kind") == KIND


def rows_of(budgets: Sequence[RowView]) -> Rows:
    """The rows of a results table: one quantity each, measured or simulated, from `keys study`'s rows."""
    return [row for budget in budgets for row in _quantities(budget)]


def _quantities(budget_row: RowView) -> Rows:
    """One budget."""
    place = {"cache_bytes": budget_row["budget_bytes"], "mode": "overlap", "machine": budget_row["machine"]}

    def made(quantity: str, name: str, unit: str, provenance: str, policy: str = STORE) -> Row:
        facts = {
            "quantity": quantity,
            "value": budget_row[name],
            "unit": unit,
            "provenance": provenance,
            "policy": policy,
        }
        return {**place, **facts}

    total, wait, read = ("total_s", "s", "s"), ("wait_s", "wait_s", "s"), ("io_bytes", "read_bytes", "B")
    rows = [
        made(quantity, f"{how}_{name}", unit, how)
        for quantity, name, unit in (total, wait, read)
        for how in ("measured", "simulated")
    ]
    rows += [made(quantity, f"belady_{name}", unit, "simulated", BELADY) for quantity, name, unit in (total, read)]
    units = {
        "key_bytes": "B", "read_bytes_per_s": "B/s", "computing_share": "1", "reading_share": "1",
        "read_cpu_s_per_byte": "s/B", "peak_resident_bytes": "B",
    }  # fmt: skip
    rows += [made(name, name, unit, "measured") for name, unit in units.items()]
    return rows


def budget_sections(data: ReportData, page: Plots) -> list[Section]:
    """All sections, in the order of the page."""
    return [
        warnings(data, page), _times(data, page), _reads(data), _told(data), parameters(data, page), host(data, page),
        reproduce(data, page),
    ]  # fmt: skip


def headline(data: ReportData) -> Markup:
    """The distance of simulated from measured."""
    budgets = _budgets(data)
    errors = [e for e in (_error(data, budget) for budget in budgets) if e is not None]
    if not errors:
        return tag("p", "No budget was measured yet.", class_="headline")
    worst = max(errors, key=abs)
    met = "within" if abs(worst) <= BOUND else "beyond"
    sentence = (
        f"{len(errors)} key budgets, each measured and simulated: simulated time is off by {worst:+.1%} at the worst, "
        f"{met} the {BOUND:.0%} that it is to keep."
    )
    return tag("p", sentence, class_="headline")


def _budgets(data: ReportData) -> list[int]:
    """The largest first."""
    return sorted({row["cache_bytes"] for row in data.of("total_s") if row["cache_bytes"] is not None}, reverse=True)


def _value(data: ReportData, quantity: str, budget: int, provenance: str, policy: str = STORE) -> float | None:
    def is_it(row: Row) -> bool:
        return (row["cache_bytes"], row["provenance"], row["policy"]) == (budget, provenance, policy)

    values: list[float] = [row["value"] for row in data.of(quantity) if is_it(row)]
    return values[-1] if values else None


def _error(data: ReportData, budget: int, policy: str = STORE) -> float | None:
    measured = _value(data, "total_s", budget, "measured")
    simulated = _value(data, "total_s", budget, "simulated", policy)
    return None if not measured or simulated is None else simulated / measured - 1


def _named(data: ReportData, budget: int) -> str:
    """`25 % (163 MB)`."""
    keys = _value(data, "key_bytes", budget, "measured")
    return f"{percent(budget / keys, 0)} ({short_size(budget)})" if keys else short_size(budget)


def _off(error: float | None) -> str:
    return UNKNOWN if error is None else f"{100 * error:+.1f} %"


def _times(data: ReportData, page: Plots) -> Section:
    section = Section("budgets", "Budgets, measured and simulated")
    budgets = _budgets(data)
    if not budgets:
        return section.leave_out("no budget was measured yet")
    both = ["measured", "simulated"]
    section.add(page.add("budgets", "Time under each key budget", _figure(data, budgets), both))
    lines: list[list[Content]] = []
    for budget in budgets:
        times = [_value(data, "total_s", budget, *which) for which in SHOWN]
        waits = [_value(data, "wait_s", budget, which) for which in both]
        lines.append(
            [
                _named(data, budget),
                seconds(times[0]),
                seconds(times[1]),
                _off(_error(data, budget)),
                seconds(times[2]),
                _off(_error(data, budget, BELADY)),
                *(seconds(wait) for wait in waits),
            ]
        )
    columns = columns_of(
        "Budget | >Measured | >Simulated | >Error | >Belady's rule | >Error | >Waits, measured | >Waits, simulated"
    )
    note = (
        "Simulated: the store's own rules of reading ahead and giving up. Belady's rule: as 'penstock simulate' plays "
        "the trace, with as much room for reads ahead as the budget leaves beside the rows in use."
    )
    return section.table("Time under each key budget", columns, lines, provenance=both, note=note)


def _reads(data: ReportData) -> Section:
    section = Section("reads", "Bytes read")
    budgets = _budgets(data)
    if not budgets:
        return section.leave_out("no budget was measured yet")
    lines = [
        [
            _named(data, budget),
            *(short_size(_value(data, "io_bytes", budget, *which)) for which in SHOWN),
        ]
        for budget in budgets
    ]
    columns = columns_of("Budget | >Measured | >Simulated | >Belady's rule")
    return section.table("Key bytes read from the store", columns, lines, provenance=["measured", "simulated"])


def _told(data: ReportData) -> Section:
    """What the simulator got, all of it measured apart from the runs above."""
    section = Section("told", "Inputs of the simulator")
    budgets = _budgets(data)
    if not budgets:
        return section.leave_out("no budget was measured yet")
    machine = data.config.get("machine")
    computing = (
        f"Operations are priced by the machine {machine}; what the program does between them was measured."
        if machine
        else "Computing is the mean of two runs, before and after the budgets, with their waits taken out."
    )
    reading = (
        " Reading was measured before and after each budget, while nothing computed; both at once, the program beside "
        "a thread that reads, before and after all of them."
    )
    section.say(computing, reading)
    lines = []
    for budget in budgets:
        rate = _value(data, "read_bytes_per_s", budget, "measured")
        used = _value(data, "read_cpu_s_per_byte", budget, "measured")
        shares = [_value(data, name, budget, "measured") for name in ("reading_share", "computing_share")]
        lines.append(
            [
                _named(data, budget),
                UNKNOWN if rate is None else f"{short_size(rate)}/s",
                UNKNOWN if used is None else f"{significant(used * 1e9, 3)} s/GB",
                *(percent(share, 0) for share in shares),
            ]
        )
    columns = columns_of(
        "Budget | >Reading and checking | >Processor time of it | >Reading beside computing | >Computing beside reading"
    )
    return section.table("The disk around each budget", columns, lines, provenance=["measured"])


def _figure(data: ReportData, budgets: Sequence[int]) -> Panel:
    """Lines over the budgets, the largest on the left."""
    lines = []
    for i, (name, which) in enumerate(zip(("measured", "simulated", "Belady's rule"), SHOWN, strict=True)):
        values = [_value(data, "total_s", budget, *which) for budget in budgets]
        dash = "dot" if i else "solid"
        lines.append(Series(range(len(values)), values, name, plots.colour(i), plots.symbol(i), dash, size=9))
    x = Axis("Key budget", names=[_named(data, budget) for budget in budgets])
    return Panel(lines, x, Axis("Time (s)", "s"))

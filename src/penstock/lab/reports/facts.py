"""The last sections of the report: assumptions, parameters, host, reproduction, and omissions of the model."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Sequence

from penstock.base.types import RowView
from penstock.lab.reports.data import ReportData
from penstock.lab.reports.markup import columns_of, tag
from penstock.lab.reports.numbers import UNKNOWN, free, size, words
from penstock.lab.reports.page import Plots, Section

ASSUMED = columns_of("Machine | ~Value of | Value | Kind | ~Source")
"""Columns of a table of assumptions."""


def assumptions(data: ReportData, page: Plots) -> Section:
    """Every value of a machine that no datasheet gives."""
    return assumption_section(data.entries("assumptions"))


def assumption_section(entries: Sequence[RowView]) -> Section:
    """The section of the assumptions that a run folder stores."""
    section = Section("assumptions", "Assumed and calibrated values")
    if not entries:
        return section.leave_out("this run names no assumed or calibrated value")
    section.say(
        "Values of the simulated machines that no datasheet gives: assumed by us, calibrated to a published or "
        "measured result, or missing in the machine's file and taken as shown. Results that rest on them are as "
        "good as they are.",
    )
    return section.table(
        "Assumed and calibrated values",
        ASSUMED,
        [assumed(a) for a in entries],
    )


def assumed(entry: RowView) -> tuple[str, ...]:
    """The cells of one assumption."""
    values = (entry.get(name) for name in ("machine", "field", "value", "kind", "source"))
    return tuple(free("", value) if value is not None else UNKNOWN for value in values)


def parameters(data: ReportData, page: Plots) -> Section:
    """The checked parameter set, field by field."""
    section = Section("parameters", "CKKS parameters")
    params = data.section("params")
    if not params:
        return section.leave_out("this run recorded no parameters")
    rows = []
    for name, value in params.items():
        if isinstance(value, dict):
            value = ", ".join(f"{words(k)} {free(k, v)}" for k, v in value.items())
        if value not in (None, ""):
            shown = "insecure" if name == "security_bits" and value == 0 else free(name, value)
            rows.append((words(name), shown))
    return section.table("Parameters", columns_of("Parameter | ~Value"), rows)


def host(data: ReportData, page: Plots) -> Section:
    """The place and tools of the measurements."""
    section = Section("host", "Host and versions")
    facts = host_facts(data, lambda value: size(value) if value else None)
    resumed = ", ".join(map(str, data.record.get("resumed") or []))
    lines = [(name, "unknown" if value is None else str(value)) for name, value in facts.items()]
    lines += [("resumed", resumed)] if resumed else []
    return section.table("Host and versions", columns_of("What | ~Value"), lines, provenance=["measured"])


def host_facts(data: ReportData, memory: Callable[[float | None], str | None]) -> dict[str, object]:
    """Where and with what a run was made; `None` where it does not say. Args: memory: writes a number of bytes."""
    record, facts = data.record, data.section("host")
    return {
        "processor": facts.get("cpu_model"), "cores": facts.get("cores"), "memory": memory(facts.get("memory_bytes")),
        "kernel": facts.get("kernel"), "architecture": facts.get("architecture"),
        "frequency governor": facts.get("governor"), "threads": record.get("threads"), "seed": record.get("seed"),
        "penstock": record.get("penstock_version"), "commit": record.get("commit"),
        "OpenFHE": record.get("openfhe_version"), "Python": record.get("python_version"),
        "started (UTC)": record.get("started"),
    }  # fmt: skip


def command_of(data: ReportData) -> str:
    """The command line of a run; empty where it was not recorded."""
    command = data.config.get("command")
    return shlex.join(map(str, command)) if isinstance(command, list | tuple) else str(command or "")


def reproduce(data: ReportData, page: Plots) -> Section:
    """The command line, and what must be the same."""
    section = Section("reproduce", "How to reproduce")
    command = command_of(data)
    if command:
        section.add(tag("pre", tag("code", command), tabindex="0"))
    else:
        section.say("The command line of this run was not recorded.")
    section.say(
        "The same command with the same seed gives the same trace and the same simulated numbers; measured times "
        "depend on the host. All rows are in results.csv and results.parquet beside this file, the trace in "
        "trace.parquet, the whole configuration in run.json.",
    )
    config = {k: v for k, v in data.config.items() if k != "command"}
    if config:
        section.table(
            "Configuration",
            columns_of("Setting | ~Value"),
            [(words(k), free(k, v) if not isinstance(v, dict) else str(v)) for k, v in sorted(config.items())],
        )
    return section


NOT_MODELLED = (
    "Contention: other programs on the same memory, drive or network; several tenants at once.",
    "Inside a tier: DRAM banks, drive channels, queues, network switches. A tier is a bandwidth and a latency.",
    "Pipelining between operations inside an accelerator: each operation is priced by itself.",
    "Ciphertexts and plaintexts that do not fit on the chip: only evaluation keys move, unless the run says otherwise.",
    "The client: encryption, decryption and the way to and from the server are not priced.",
    "Noise: the simulation plays operations, not values. Precision is what the encrypted run here shows.",
    "Heat and clock changes: rates are constant. Measured times hold whatever the host did meanwhile.",
    "Operations that the library does inside one call and that the trace does not expand.",
)


def not_modelled(data: ReportData, page: Plots) -> Section:
    """What a reader must not conclude from the numbers."""
    section = Section("not-modelled", "What penstock does not model")
    more = data.record.get("not_modelled")
    lines = [*NOT_MODELLED, *(str(line) for line in more)] if isinstance(more, list) else list(NOT_MODELLED)
    return section.add(tag("ul", [tag("li", line) for line in lines]))

"""One run on the command line: a line for each thing that a reader asks, with its unit."""

from __future__ import annotations

from collections.abc import Callable

from rich.console import Console

from penstock.base.types import RowView
from penstock.base.units import format_bytes, format_named, format_seconds
from penstock.front.cli.output import short_bytes

_TOLD = frozenset({
    "workload", "size", "params", "security_bits", "reading", "provenance", "clear_s", "wall_s", "server_s",
    "setup_s", "encode_s", "key_load_s", "num_key_loads", "peak_rss_bytes", "num_operations", "passed",
    "max_abs_error", "tolerance", "kernels", "transfer_s", "key_budget_bytes", "key_bytes", "key_read_bytes",
    "key_requested_bytes", "key_hits", "key_late_hits", "key_misses", "key_evictions", "key_peak_resident_bytes",
    "key_read_s", "num_keys_made", "refresh_plan", "input_bytes", "input_read_bytes", "input_peak_resident_bytes",
    "client_library", "client_peak_rss_bytes", "standing_rss_bytes", "memory_plan", "predicted_peak_bytes",
    "evaluator_peak_bytes", "operations_abreast", "abreast_why", "run_folder", "report",
})  # fmt: skip
"""Numbers shown in separate lines; all others belong to the program."""


def draw_run(console: Console, row: RowView) -> None:
    """Show the measured time of a run, whether its result is right, and where its keys were."""

    def line(text: str, provenance: str = "measured") -> None:
        console.print(f"  {provenance:<10} {text}", highlight=False, markup=False, soft_wrap=True)

    console.print(f"{headed(row)}, {row['reading']}", highlight=False)
    if "wall_s" not in row:
        line(f"{format_seconds(row['clear_s'])} in the clear, nothing encrypted")
        if "passed" in row:
            line(checked(row), "predicted")
    else:
        line(timed(row, "wall_s"))
        line(
            f"of that {format_seconds(row['server_s'])} in the server's operations, "
            f"{format_seconds(row['encode_s'])} encoding; {format_seconds(row['clear_s'])} in the clear"
        )
        line(checked(row))
    if row.get("num_key_loads"):
        line(f"keys loaded {row['num_key_loads']:,} times, {format_seconds(row['key_load_s'])} waiting for them")
    if "key_bytes" in row:
        _keys(row, line)
    own = [f"{name.replace('_', ' ')} {format_named(name, value)}" for name, value in row.items() if name not in _TOLD]
    for first in range(0, len(own), 4):
        line(", ".join(own[first : first + 4]))
    if "report" in row:
        console.print(f"report: {row['report']}", highlight=False, markup=False, soft_wrap=True)


def headed(row: RowView) -> str:
    """The program of a run, its set and its security."""
    security = f"{row['security_bits']} bit" if row["security_bits"] else "insecure"
    return f"{row['workload']} ({row['size']}) on {row['params']}, {security}"


def timed(row: RowView, total: str) -> str:
    """Time and memory of an encrypted run; `total`: the column of its seconds."""
    return (
        f"{format_seconds(row[total])} encrypted ({format_seconds(row['setup_s'])} set-up), "
        f"{row['num_operations']:,} operations, peak memory {format_bytes(row['peak_rss_bytes'])}"
    )


def checked(row: RowView) -> str:
    """The outcome of a run's check."""
    outcome = "passed" if row["passed"] else "FAILED"
    return f"check {outcome}: largest error {row['max_abs_error']:.2g}, bound {row['tolerance']:g}"


def _keys(row: RowView, line: Callable[..., None]) -> None:
    """The native reading's keys, inputs and processes."""
    size = {name: short_bytes(value) for name, value in row.items() if name.endswith("_bytes")}
    is_cached = row["key_budget_bytes"] is not None
    where = "all in memory"
    if is_cached:
        where = f"at most {size['key_budget_bytes']} in memory, {size['key_read_bytes']} read"
    if "link_sent_bytes" in size:
        traffic = f"{size['link_sent_bytes']} sent to it, {size['link_received_bytes']} received"
        line(f"keys stay at their node: {traffic}; kernels {row['kernels']}")
    else:
        line(f"keys of {size['key_bytes']}, {where}; {row['num_keys_made']} made now, kernels {row['kernels']}")
    if row.get("refresh_plan"):
        line(row["refresh_plan"], "predicted")
    if row.get("memory_plan"):
        line(row["memory_plan"], "predicted")
        line(f"peak memory while the program ran: {size['evaluator_peak_bytes']}")
    if row.get("abreast_why"):
        line(row["abreast_why"], "predicted")
    if is_cached:
        line(
            f"keys asked for {row['key_hits'] + row['key_misses']:,} times: {row['key_hits']:,} were there "
            f"({row['key_late_hits']:,} just in time), {row['key_evictions']:,} let go; most at once "
            f"{size['key_peak_resident_bytes']}"
        )
    if row["input_read_bytes"]:
        line(f"inputs of {size['input_bytes']}, {size['input_read_bytes']} of them read again from disk")
    if row["client_peak_rss_bytes"] is not None:
        peak = format_bytes(row["client_peak_rss_bytes"])
        line(f"client's process ({row['client_library']}), with the secret key: peak memory {peak}")

"""Figure 1: a decade of accelerators, as the text claims it, and as each machine's file prices one refresh.

Speedups over a CPU in the study's figure are the accelerators' own claims, of other programs on other CPUs. Ours is one
measure for all: seconds of a bootstrapping over its slots and the levels that it leaves, against a bootstrapping of
OpenFHE that was measured. Machines without a published bootstrapping stand at another one's utilisation (`assumed`).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from penstock.base.types import Row
from penstock.errors import ParamsError
from penstock.scheme.machines import Machine, load_machine
from penstock.scheme.machines.figure import Evidence
from penstock.scheme.play.price import price_trace
from penstock_studies.io_study import data
from penstock_studies.io_study.reads import refresh_trace
from penstock_studies.io_study.rows import row

GROUP = "history"
BARS = {
    "f1plus": "f1-plus", "bts": "bts", "craterlake": "craterlake", "ark": "ark", "sharp": "sharp",
    "tensorfhe": "a100-tensorfhe", "trinity": "trinity", "heap": "heap",
}  # fmt: skip
"""Bars of figure 1 whose machines have files, by the names of the rows."""
SETS = {"tensorfhe": "tensorfhe-resnet20"}
"""The set of a published bootstrapping, where it differs from the machine's."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRefresh:
    """A bootstrapping that was measured on a CPU."""

    seconds: float
    slots: int
    levels: int
    """That it leaves."""
    says: str

    @property
    def slot_level_s(self) -> float:
        """Seconds for each slot and level."""
        return self.seconds / self.slots / self.levels


CPU = MeasuredRefresh(
    seconds=15.05,
    slots=2**14,
    levels=9,
    says="measured: OpenFHE 1.6.1 at set openfhe-bootstrap-50, two threads of a shared virtual machine with AVX-512, "
    "keys in memory (docs/guides/bootstrapping.md)",
)
NATIVE = MeasuredRefresh(
    seconds=3.89,
    slots=2**14,
    levels=9,
    says="measured: the native reading on the same machine, set and threads, a later refresh of a run",
)


def history_rows() -> Iterator[Row]:
    """What the text says of figure 1, and our own value for each machine and for a measured CPU."""
    claim = "a claim that the study cites"
    note = "from the digest"
    yield row("history.cpu.slowdown_against_clear", GROUP, "slowdown", None, note, published=data.CPU_AGAINST_CLEAR)
    note = f"from the digest ('only 3x'), {claim}"
    yield row("history.sharp.slowdown_against_clear", GROUP, "slowdown", None, note, published=data.SHARP_GAP)
    for name, cpu in (("cpu", CPU), ("cpu-native", NATIVE)):
        yield _slot_level(name, cpu.slot_level_s, f"{cpu.seconds} s; {cpu.says}")
    ratio = CPU.slot_level_s / NATIVE.slot_level_s
    yield row("history.cpu-native.speedup_over_cpu", GROUP, "speedup", ratio, NATIVE.says, policy="own-refresh")
    for name, machine in BARS.items():
        yield from _bar(name, load_machine(machine), claim)


def _bar(name: str, machine: Machine, claim: str) -> Iterator[Row]:
    published = {"tensorfhe": data.TENSORFHE_SPEEDUP}.get(name)
    calibrated = data.CPU_AGAINST_CLEAR / data.SHARP_GAP.value if name == "sharp" else None
    theirs = claim if published else "drawn, without values"
    if calibrated is not None:
        theirs = "no value in the text; calibrated: the digest's 10^5 over its 3"
    try:
        seconds, slots, levels = refresh(machine, SETS.get(name))
    except ParamsError:
        note = f"{theirs}; no value of ours: its parameter set '{machine.native_params}' has no bootstrapping of CKKS"
        yield row(f"history.{name}.speedup_over_cpu", GROUP, "speedup", None, note, published=published)
        return
    says = f"a refresh of {slots} slots in {seconds:.3g} s leaves {levels} levels; {standing(machine)}"
    slot_level_s = seconds / slots / levels
    yield _slot_level(name, slot_level_s, says)
    note = f"{theirs}; ours: {says}; the CPU: {CPU.says}"
    ratio = CPU.slot_level_s / slot_level_s
    yield row(
        f"history.{name}.speedup_over_cpu",
        GROUP,
        "speedup",
        ratio,
        note,
        published=published,
        calibrated=calibrated,
        policy="own-refresh",
    )


def refresh(machine: Machine, set_name: str | None = None) -> tuple[float, int, int]:
    """(seconds, slots, levels left) of a bootstrapping on the machine, at its own parameter set if no other is given.

    Raises: ParamsError: the set has no bootstrapping.
    """
    chosen = set_name or machine.native_params
    assert chosen is not None, f"machine '{machine.name}' names its parameter set"
    trace = refresh_trace(chosen)
    operations = trace.view(composites=False).operations
    kinds, limbs = operations["kind"].to_pylist(), operations["limbs_in"].to_pylist()
    left = next(n for kind, n in zip(kinds, limbs, strict=True) if kind == "decrypt") - 1
    return price_trace(trace, machine).ideal_s, trace.parameters().slots, left


def standing(machine: Machine) -> str:
    """What the machine's times rest on."""
    share = machine.utilisation
    if share is None:
        return "all units at their stated rates"
    if share.kind is Evidence.CALIBRATED:
        return f"its utilisation of {share.text} is calibrated on its published bootstrapping"
    return f"its utilisation of {share.text} is {share.kind}"


def _slot_level(name: str, seconds: float, note: str) -> Row:
    return row(f"history.{name}.slot_level_time", GROUP, "time", seconds, note, unit="s", policy="own-refresh")

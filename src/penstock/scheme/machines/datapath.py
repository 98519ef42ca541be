"""The inside of an accelerator: ports and latencies of its units, on-chip memory and network, for schedules of kernels.

Every field is optional. Nothing waits for a missing one (`GAPS`), and `penstock machines check` says so. Rates of units
stay where they are (`penstock.scheme.machines.schema`); `efficiency` is the share of them that a schedule reaches
besides the waiting that it sees.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from penstock.base.units import SECOND_UNITS
from penstock.errors import MachineError
from penstock.scheme.machines import files
from penstock.scheme.machines.figure import Figure, Stated
from penstock.scheme.machines.records import DatapathSpec

GAPS = {
    "ports": "a limb takes the whole of each unit",
    "latency": "results are there when a unit has read its operands",
    "chaining": "a kernel waits for complete limbs",
    "scratchpad": "any number of operations fit on chip at once",
    "scratchpad_bandwidth": "kernels never wait for on-chip memory",
    "register_bandwidth": "kernels never wait for registers",
    "network": "clusters exchange limbs at no cost",
}
"""Field -> the meaning of its absence."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Datapath(Stated):
    """What a schedule of kernels needs to know besides rates."""

    ports: Mapping[str, Figure] = field(default_factory=dict)
    """Unit -> limbs that it works on at once; its rate is of all ports together. They may be ports of another unit."""
    latency: Mapping[str, Figure] = field(default_factory=dict)
    """Unit -> seconds from the last word that it reads to the last word of the result."""
    chaining: Figure | None = None
    """Points of a limb after which the next kernel may begin to read it."""
    scratchpad: Figure | None = None
    """Bytes for operations under way; those of a register file come on top."""
    scratchpad_bandwidth: Figure | None = None
    """Bytes a second that kernels read and write on chip; past a register file only."""
    register_file: Figure | None = None
    """Bytes for the limbs that kernels of an operation hand to each other, where these pass no scratchpad."""
    register_bandwidth: Figure | None = None
    """Bytes a second that units read and write in the register file."""
    network: Figure | None = None
    """Bytes a second between clusters. Base conversions pass it where a limb lies in one cluster."""
    efficiency: Figure | None = None
    """Share of the rates of all units that is left besides the waiting in the schedule."""

    @property
    def is_empty(self) -> bool:
        return not any(True for _ in self.figures())

    def ports_of(self, unit: str) -> int:
        """Limbs that a unit works on at once."""
        return int(self.ports[unit].value) if unit in self.ports else 1

    def runs_on(self, unit: str) -> str:
        """The unit whose ports the work of a unit takes: itself, or another whose hardware it shares."""
        return _host(self.ports[unit].text) or unit if unit in self.ports else unit

    def latency_of(self, unit: str) -> float:
        """Seconds from the last word read to the last word of a result."""
        return self.latency[unit].value if unit in self.latency else 0.0

    def gaps(self) -> Iterator[tuple[str, str]]:
        """Field and meaning of every value that the file does not state."""
        for name, meaning in GAPS.items():
            # A machine without a register file has registers of no bandwidth.
            if not getattr(self, name) and (name != "register_bandwidth" or self.register_file):
                yield f"datapath.{name}", meaning

    @property
    def room_bytes(self) -> float | None:
        """Bytes on chip for operations: scratchpad and register file. `None`: not stated."""
        if self.scratchpad is None:
            return None
        return self.scratchpad.value + (0.0 if self.register_file is None else self.register_file.value)


def _host(text: str) -> str | None:
    """The other unit that a number of ports names."""
    _, shares, unit = text.partition(" ports of ")
    return unit.strip() if shares else None


def datapath_from_spec(spec: DatapathSpec, units: Mapping[str, object], clock: Figure | None, where: str) -> Datapath:
    """The checked inside of a machine.

    Args:   units: the machine's.
    Raises: MachineError: a unit that the machine does not have; no whole number of ports; ports of another unit that
            does not state as many; cycles without a clock; a share above 100 %; as `figure` does.
    """
    seconds = dict(SECOND_UNITS)
    if clock is not None:
        seconds |= dict.fromkeys(("cycle", "cycles"), 1.0 / clock.value)
    figures: dict[str, dict[str, Figure]] = {"ports": {}, "latency": {}}
    ports = {"port": 1.0, "ports": 1.0} | {f"ports of {unit}": 1.0 for unit in units}
    for name, accepted in (("ports", ports), ("latency", seconds)):
        for unit, written in getattr(spec, name).items():
            path = f"datapath.{name}.{unit}"
            if unit not in units:
                raise MachineError(f"{where}: {path}: the machine has no such unit; its units: {', '.join(units)}")
            if name == "latency" and clock is None and written.value.strip().endswith(("cycle", "cycles")):
                raise MachineError(f"{where}: {path} '{written.value}' is in cycles: add a [clock] table")
            figures[name][unit] = files.figure(written, where, path, accepted)
            value = figures[name][unit].value
            if name == "ports" and (value < 1 or value != int(value)):
                raise MachineError(f"{where}: {path} '{written.value}' is not a whole number of ports, 1 or more")
    for unit, taken in figures["ports"].items():
        host = _host(taken.text)
        there = figures["ports"].get(host or unit)
        if host is not None and (there is None or _host(there.text) is not None or there.value != taken.value):
            raise MachineError(
                f"{where}: datapath.ports.{unit} '{taken.text}': state as many datapath.ports.{host}, of its own"
            )
    single = files.figures(spec, where, "datapath.")
    for name, one in single.items():
        if one.value == 0:
            raise MachineError(f"{where}: datapath.{name} '{one.text}' is zero; leave it out if it is not known")
    if "register_bandwidth" in single and "register_file" not in single:
        raise MachineError(f"{where}: datapath.register_bandwidth is of a register file: state datapath.register_file")
    share = single.get("efficiency")
    if share is not None and share.value > 1:
        raise MachineError(f"{where}: datapath.efficiency {share.text} is over 100 %; it is a share of the peak rates")
    return Datapath(ports=figures["ports"], latency=figures["latency"], **single)

"""Networks between hosts: the rate and latency of one link, by name, path or quantity.

One TOML file under `data/networks/` is one network, written as a tier is: `name`, `title`, and a table with value,
source and kind for `bandwidth`, `latency` and, where it is known, `energy`. The topology joins hosts by links
(`penstock.lab.simulation.cluster.topology`).
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from penstock.base.types import RowView
from penstock.base.units import JOULE_PER_BYTE_UNITS, RATE_UNITS, SECOND_UNITS, parse_rate
from penstock.errors import UnknownName
from penstock.scheme.machines.figure import Evidence, Figure, Stated
from penstock.scheme.machines.files import Shelf, check_name, figures, parse_spec, told_apart
from penstock.scheme.machines.records import FigureSpec, RecordSpec, Units

STUDY_NETWORKS = ("ethernet-400", "fastfabric-300")
"""The networks of the storage-I/O study, in the reading that its results fit."""

_STARTS_WITH_A_NUMBER = re.compile(r"^\s*[+-]?\.?\d")
_ENDS_WITH_A_RATE = re.compile(r"\s?[kKMGTP]?i?[bB]/s\s*$")


class NetworkSpec(RecordSpec):
    """A network as a TOML file has it."""

    bandwidth: Annotated[FigureSpec, Units(RATE_UNITS, positive=True)]
    latency: Annotated[FigureSpec | None, Units(SECOND_UNITS)] = None
    energy: Annotated[FigureSpec | None, Units(JOULE_PER_BYTE_UNITS)] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Network(Stated):
    """One link between a host and a switch, or between two hosts; the same in each direction, both at once."""

    name: str
    title: str
    bandwidth: Figure
    """Bytes a second in each direction."""
    latency: Figure | None = None
    """Seconds of one link; nothing where it is not given."""
    energy: Figure | None = None
    """Joules a byte and link; `None` where it is not known: missing is not zero."""

    @property
    def bandwidth_bytes_per_s(self) -> float:
        return self.bandwidth.value

    @property
    def latency_s(self) -> float:
        return self.latency.value if self.latency else 0.0

    @property
    def energy_j_per_byte(self) -> float | None:
        return self.energy.value if self.energy else None


def network_names() -> list[str]:
    """Names of the networks that come with penstock."""
    return sorted(_networks())


def load_network(text: str | Path) -> Network:
    """The network of that name, in that TOML file, or with that bandwidth: `"100 Gb/s"` is one of your own.

    Raises: UnknownName: no such network, with the nearest name; UnitError: a bandwidth without a unit, or zero;
            MachineError: the file breaks a rule; FileError: the file cannot be read.
    >>> load_network("ethernet-400").bandwidth_bytes_per_s
    50000000000.0
    """
    name = str(text)
    number = _STARTS_WITH_A_NUMBER.match(name) is not None
    rate = number or _ENDS_WITH_A_RATE.search(name) is not None
    if isinstance(text, Path) or name.endswith(".toml") or ("/" in name and not rate):
        return read_network(Path(text))
    known = _networks()
    if name in known:
        return known[name]
    if not rate:
        raise UnknownName("network", name, known)
    written = " ".join(name.split())
    return Network(
        name=written,
        title=f"a network of {written} links",
        bandwidth=Figure(
            value=parse_rate(name, "network bandwidth"), text=written, source="given by the user", kind=Evidence.ASSUMED
        ),
    )


def load_networks(names: Iterable[str]) -> list[Network]:
    """Several networks; the same words twice count once.

    Raises: as `load_network`; UsageError: two different files name their network alike, which no row could tell apart.
    """
    return told_apart({text: load_network(text) for text in names}, "network")


def read_network(path: Path) -> Network:
    """The network in a TOML file."""
    return _checked(path, str(path))


def _checked(written: RowView | Path, where: str) -> Network:
    """The checked network; `where` names the file in messages.

    Raises: MachineError: an empty name or source, a value without a unit, negative, in two units, or a bandwidth of
            zero; an unknown kind.
    """
    spec = parse_spec(NetworkSpec, written, where, "a network file")
    check_name(spec.name, where, "network")
    return Network(name=spec.name, title=spec.title, **figures(spec, where))


_networks = Shelf("networks", "network", _checked)

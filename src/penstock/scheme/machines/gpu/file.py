"""The `[gpu]` table of a machine file, checked."""

from __future__ import annotations

from penstock.base.units import RATE_UNITS, SECOND_UNITS
from penstock.errors import MachineError, UnknownName
from penstock.scheme.machines.figure import Figure
from penstock.scheme.machines.files import figure
from penstock.scheme.machines.gpu.launches import FUSIONS, KERNELS
from penstock.scheme.machines.gpu.model import Gpu, KernelRate, Roofline
from penstock.scheme.machines.records import FigureSpec, GpuSpec, RooflineSpec

PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_COUNTS = {
    "multiprocessors": ("multiprocessors", "multiprocessor"),
    "butterfly": ("instructions", "instruction"),
    "product": ("instructions", "instruction"),
    "multiply_add": ("instructions", "instruction"),
    "sum": ("instructions", "instruction"),
    "passes": ("passes", "pass"),
    "threads": ("threads", "thread"),
    "points": ("points", "point"),
}
"""Field of a roofline -> names of its unit."""
_WHOLE = ("multiprocessors", "passes")


def gpu_from_spec(spec: GpuSpec, clock: Figure | None, where: str) -> Gpu:
    """The checked table.

    Raises: MachineError: neither a roofline nor measured kernels; an unknown kernel or fusion; a fusion without a
            source; no whole number of ciphertexts, passes or multiprocessors; cycles without a clock; as `figure` does.
    """
    if spec.roofline is None and not spec.kernels:
        raise MachineError(
            f"{where}: gpu has neither a roofline nor measured kernels: add [gpu.roofline], or make the file with "
            "'penstock machines import-kernels'"
        )
    for name in spec.fused:
        if name not in FUSIONS:
            raise MachineError(f"{where}: gpu.fused: {UnknownName('fusion', name, FUSIONS)}")
    if spec.fused and not spec.fused_source.strip():
        raise MachineError(f"{where}: gpu.fused_source is empty; say where the library's fusions are stated")
    counts = {
        name: None
        if written is None
        else _whole(figure(written, where, f"gpu.{name}", dict.fromkeys(units, 1.0), positive=True), where, name)
        for name, written, units in (
            ("batch", spec.batch, ("ciphertexts", "ciphertext")),
            ("inputs", spec.inputs, ("inputs", "input")),
        )
    }
    kernels = {}
    for name, rate in spec.kernels.items():
        if name not in KERNELS:
            raise MachineError(f"{where}: gpu.kernels: {UnknownName('kernel', name, KERNELS)}")
        path = f"gpu.kernels.{name}"
        units = {f"{prefix}{KERNELS[name]}/s": factor for prefix, factor in PREFIXES.items()}
        kernels[name] = KernelRate(
            rate=figure(rate.rate, where, f"{path}.rate", units, positive=True),
            start=None
            if rate.start is None
            else figure(rate.start, where, f"{path}.start", SECOND_UNITS, positive=True),
        )
    return Gpu(
        **counts,
        fused=tuple(spec.fused),
        fused_source=spec.fused_source,
        joined=spec.joined,
        roofline=None if spec.roofline is None else _roofline(spec.roofline, clock, where),
        kernels=kernels,
    )


def _roofline(spec: RooflineSpec, clock: Figure | None, where: str) -> Roofline:
    hertz = 1.0 if clock is None else clock.value
    units: dict[str, dict[str, float]] = {
        "integers": {"instructions/cycle": hertz},
        "tensor": {"products/cycle": hertz},
        "memory": dict(RATE_UNITS),
        "latency": dict(SECOND_UNITS) | dict.fromkeys(("cycles", "cycle"), 1.0 / hertz),
        "launch": dict(SECOND_UNITS),
    }
    units |= {name: dict.fromkeys(words, 1.0) for name, words in _COUNTS.items()}
    figures: dict[str, Figure] = {}
    for name, accepted in units.items():
        written: FigureSpec | None = getattr(spec, name)
        if written is None:
            continue
        path = f"gpu.roofline.{name}"
        if clock is None and written.value.rstrip().endswith(("cycle", "cycles")):
            raise MachineError(f"{where}: {path} '{written.value}' is in cycles: add a [clock] table")
        figures[name] = figure(written, where, path, accepted, positive=True)
        if name in _WHOLE:
            _whole(figures[name], where, f"roofline.{name}")
    return Roofline(**figures)


def _whole(count: Figure, where: str, name: str) -> Figure:
    if count.value != int(count.value):
        raise MachineError(f"{where}: gpu.{name} '{count.text}' is not a whole number")
    return count

"""The `[gpu]` table of a machine file, checked."""

from __future__ import annotations

from penstock.errors import MachineError, UnknownName
from penstock.scheme.machines.figure import Figure
from penstock.scheme.machines.files import figure, figures
from penstock.scheme.machines.gpu.launches import FUSIONS, KERNELS
from penstock.scheme.machines.gpu.model import Gpu, KernelRate, Roofline
from penstock.scheme.machines.records import GpuSpec, RooflineSpec

PREFIXES = {"": 1.0, "k": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
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
    counts = figures(spec, where, "gpu.")
    for name, count in counts.items():
        _check_whole(count, where, name)
    kernels = {}
    for name, rate in spec.kernels.items():
        if name not in KERNELS:
            raise MachineError(f"{where}: gpu.kernels: {UnknownName('kernel', name, KERNELS)}")
        path = f"gpu.kernels.{name}"
        units = {f"{prefix}{KERNELS[name]}/s": factor for prefix, factor in PREFIXES.items()}
        kernels[name] = KernelRate(
            rate=figure(rate.rate, where, f"{path}.rate", units, positive=True),
            **figures(rate, where, f"{path}."),
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
    if clock is None:
        for name, written in spec:
            if written is not None and written.value.rstrip().endswith(("cycle", "cycles")):
                path = f"gpu.roofline.{name}"
                raise MachineError(f"{where}: {path} '{written.value}' is in cycles: add a [clock] table")
    by_clock = {
        "integers": {"instructions/cycle": hertz},
        "tensor": {"products/cycle": hertz},
        "latency": dict.fromkeys(("cycles", "cycle"), 1.0 / hertz),
    }
    stated = figures(spec, where, "gpu.roofline.", by_clock)
    for name in _WHOLE:
        _check_whole(stated[name], where, f"roofline.{name}")
    return Roofline(**stated)


def _check_whole(count: Figure, where: str, name: str) -> None:
    if count.value != int(count.value):
        raise MachineError(f"{where}: gpu.{name} '{count.text}' is not a whole number")

"""How GPU compute decreases with hosts: the law of occupancy on the storage-I/O study's programs.

A launch takes launch + max(latency, bytes / memory, instructions / (integers * filled)) seconds, and h hosts leave it
ceil(w/h) of its w limbs. Its time shrinks in proportion until its points fill the GPU no more, and then stays. Messages
and loads shrink on, so compute becomes a larger share: "the computing overhead decreases slowly".
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from penstock.base.types import Row
from penstock.scheme.machines.figure import Evidence, Figure
from penstock.scheme.machines.gpu.launches import FUSIONS
from penstock.scheme.machines.gpu.model import Gpu
from penstock.scheme.machines.schema import Machine
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import GPU_COMPUTE_DIVISOR
from penstock_studies.io_study.model import Study, StudyProgram
from penstock_studies.io_study.rows import row

GROUP = "occupancy"
FULL_BATCH = 128
"""Inputs at once that fill every launch."""


def _one_ciphertext(gpu: Gpu) -> Gpu:
    return replace(gpu, batch=None)


def _full_batch(gpu: Gpu) -> Gpu:
    text = f"{FULL_BATCH} inputs"
    return replace(gpu, inputs=Figure(value=FULL_BATCH, text=text, source="of a variant", kind=Evidence.ASSUMED))


def _joined(gpu: Gpu) -> Gpu:
    return replace(gpu, joined=True)


def _fused(gpu: Gpu) -> Gpu:
    return replace(gpu, fused=tuple(FUSIONS))


def _times_launch(factor: float) -> Callable[[Gpu], Gpu]:
    def changed(gpu: Gpu) -> Gpu:
        assert gpu.roofline is not None, "the study's GPU has a roofline"
        launch = gpu.roofline.launch
        return replace(gpu, roofline=replace(gpu.roofline, launch=replace(launch, value=launch.value * factor)))

    return changed


CHANGES: Mapping[str, tuple[str, Callable[[Gpu], Gpu]]] = {
    "one-ciphertext": ("every operation has launches of its own", _one_ciphertext),
    "full-batch": (f"{FULL_BATCH} inputs run at once and share launches and keys", _full_batch),
    "joined-launches": ("loops over equally many limbs share a launch, such as those of all digits", _joined),
    "fused": ("everything that Cheddar fuses is fused", _fused),
    "launches-free": ("starting a kernel takes no time", _times_launch(0.0)),
    "launches-5-times": ("starting a kernel takes five times as long, 4.5 us", _times_launch(5.0)),
}
"""Assumption about launches -> its meaning, and the GPU under it. The utilisation stays."""


def changed(machine: Machine, name: str) -> Machine:
    """The machine under one of `CHANGES`."""
    assert machine.gpu is not None, f"machine '{machine.name}' is a GPU"
    return replace(machine, gpu=CHANGES[name][1](machine.gpu))


def divisor(program: StudyProgram, hosts: int) -> float:
    """By how much so many hosts divide the compute of one."""
    one, many = (program.result(data.TIERS[0], data.NETWORKS[0], count).compute_s for count in (1, hosts))
    return one / many


def occupancy_rows(study: Study) -> Iterator[Row]:
    """Compute of one host over that of several: of both accelerators, and of the GPU under each assumption."""
    for accelerator in ("sharp", "tensorfhe"):
        for program in study.both(accelerator):
            name = f"{GROUP}.{accelerator}.{program.application}"
            for hosts in data.HOST_COUNTS[1:]:
                implied = GPU_COMPUTE_DIVISOR[program.application]
                given = accelerator == "tensorfhe" and hosts == data.MOST_HOSTS
                yield row(
                    f"{name}.hosts{hosts}.compute_divisor",
                    GROUP,
                    "divisor",
                    divisor(program, hosts),
                    f"compute of one host over that of {hosts}",
                    calibrated=implied if given else None,
                )
            if accelerator == "tensorfhe":
                yield from _changed_rows(program, name)


def _changed_rows(program: StudyProgram, name: str) -> Iterator[Row]:
    for change, (says, _) in CHANGES.items():
        machine = changed(program.machine, change)
        quotient = program.compute_s(machine) / program.compute_s(machine, data.MOST_HOSTS)
        row_id = f"{name}.hosts{data.MOST_HOSTS}.compute_divisor.{change}"
        yield row(row_id, GROUP, "divisor", quotient, says, policy=change)

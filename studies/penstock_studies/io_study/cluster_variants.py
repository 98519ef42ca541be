"""How the storage-I/O study's cluster rows move with each assumption: rows of group `sensitivity`.

On several hosts a time is a sum of compute, loads and messages (mode `serial`), so an assumption about one of them
scales that part. If an assumption changes the program, it is traced and played again.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import fmean

from penstock.base.types import Row
from penstock.scheme.machines.networks import load_network
from penstock.scheme.params import catalogue
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import ACCELERATORS, SHARP, mean_gpu_speedup
from penstock_studies.io_study.model import (
    ALL_HOSTS,
    OPPOSED,
    PARAMS,
    PARTITION,
    Study,
    StudyProgram,
    mean_of,
)
from penstock_studies.io_study.occupancy import CHANGES, changed
from penstock_studies.io_study.rows import row
from penstock_studies.io_study.variants import changed_trace, digits_of_3_limbs

ETHERNET, FABRIC = data.NETWORKS
FABRIC_AS_PRINTED = "fastfabric-300-gib"


@dataclass(frozen=True)
class Change:
    """One assumption of a cluster's time."""

    name: str
    says: str
    loads: Mapping[str, float] = field(default_factory=dict)
    """Application -> times the loads, on one host and on several; 1 where it is not named."""
    messages: float = 1.0
    """Times the messages."""
    exchanged: str = PARTITION
    """Partition by which hosts exchange."""
    dealt: str = PARTITION
    """Partition by which hosts compute and load."""
    whole_compute: bool = False
    """Whether compute takes as long on several hosts as on one."""
    compute_s: Mapping[tuple[str, int], float] = field(default_factory=dict)
    """(application, hosts) -> seconds of compute, where they are others."""


BASE = Change("base", "as computed")
EVERYONE = Change("all-hosts", "every host takes part in every exchange", exchanged=ALL_HOSTS)
FROM_BOTH_ENDS = Change(
    "special-limbs-opposed", "limbs of P are dealt from the last host down, messages stay", dealt=OPPOSED
)
ONE_HOSTS_COMPUTE = Change(
    "compute-of-one-host", "compute takes as long on 32 hosts as on one: batches fill no GPU", whole_compute=True
)


def parts(program: StudyProgram, tier: str, network: str, hosts: int, change: Change) -> tuple[float, float, float]:
    """Seconds of compute, loads and messages."""
    one = program.result(tier, network, 1)
    dealt, exchanged = (
        one if hosts == 1 else program.result(tier, network, hosts, partition)
        for partition in (change.dealt, change.exchanged)
    )
    compute_s = one.compute_s if change.whole_compute else dealt.compute_s
    compute_s = change.compute_s.get((program.application, hosts), compute_s)
    loads = change.loads.get(program.application, 1.0)
    return compute_s, dealt.io_s * loads, exchanged.communication_s * change.messages


def speedup(program: StudyProgram, tier: str, network: str, change: Change) -> float:
    """Of 32 hosts."""
    one, many = (sum(parts(program, tier, network, hosts, change)) for hosts in (1, data.MOST_HOSTS))
    return one / many


def study_demands(study: Study) -> Change:
    """Both of SHARP's programs load as much in a second of ideal time as the study's."""
    ratio = {program.application: SHARP.demand[program.application] / program.demand for program in study.both("sharp")}
    return Change("demands-of-the-study", "both programs load as much a second as the study's", loads=ratio)


def sharp_speedup(study: Study, tier: str, network: str, change: Change) -> float:
    """Mean over both applications."""
    speedups = [speedup(program, tier, network, change) for program in study.both("sharp")]
    return mean_of("sharp", tier, network, speedups)


def cluster_sensitivity_rows(study: Study) -> Iterator[Row]:
    """Of SHARP's eight mean speedups, of TensorFHE's two, and of the shares of both."""
    yield from _sharp_rows(study)
    yield from _gpu_rows(study)


def _sharp_rows(study: Study) -> Iterator[Row]:
    fabric, printed = (load_network(name).bandwidth_bytes_per_s for name in (FABRIC, FABRIC_AS_PRINTED))
    in_gib = Change("fabric-in-gib", "FastFabric has the 300 GiB/s that are printed", messages=fabric / printed)
    for network in data.NETWORKS:
        changes = [BASE, EVERYONE, FROM_BOTH_ENDS, study_demands(study), *([in_gib] if network == FABRIC else [])]
        for tier in data.TIERS:
            theirs = data.SHARP_SPEEDUP[network][tier].value
            for change in changes:
                ours = sharp_speedup(study, tier, network, change)
                row_id = f"sensitivity.sharp.mean.{tier}.{network}.speedup.{change.name}"
                note = f"{change.says}: of what is published {ours / theirs - 1:+.1%}"
                calibrated = SHARP.mean_speedup(tier, network)
                yield row(row_id, "sensitivity", "speedup", ours, note, calibrated=calibrated, policy=change.name)
    resnet20 = study.program("sharp", "resnet20")
    yield from _share_rows("sharp", [(change, resnet20) for change in (BASE, EVERYONE, FROM_BOTH_ENDS)])


def _gpu_rows(study: Study) -> Iterator[Row]:
    both = study.both("tensorfhe")
    longer = [_with_longer_digits(program) for program in both]
    digits = Change("digits-of-3-limbs", "digits of 3 limbs and 3 special limbs instead of 1 and 1")
    launches = [(_launches(name, says, both), both) for name, (says, _) in CHANGES.items()]
    cases = [(BASE, both), (EVERYONE, both), (ONE_HOSTS_COMPUTE, both), (digits, longer), *launches]
    for network in data.NETWORKS:
        theirs = data.GPU_SPEEDUP[network].value
        for change, programs in cases:
            ours = fmean(speedup(program, tier, network, change) for program in programs for tier in data.TIERS)
            row_id = f"sensitivity.tensorfhe.mean.{network}.speedup.{change.name}"
            note = f"{change.says}: of what is published {ours / theirs - 1:+.1%}"
            calibrated = mean_gpu_speedup(network)
            yield row(row_id, "sensitivity", "speedup", ours, note, calibrated=calibrated, policy=change.name)
    resnet20 = [(change, programs[0]) for change, programs in cases]
    yield from _share_rows("tensorfhe", resnet20)


def _launches(name: str, says: str, programs: Sequence[StudyProgram]) -> Change:
    """The GPU with other launches: on one host, too."""
    seconds = {
        (program.application, hosts): program.compute_s(changed(program.machine, name), hosts)
        for program in programs
        for hosts in (1, data.MOST_HOSTS)
    }
    return Change(name, says, compute_s=seconds)


def _share_rows(accelerator: str, cases: Sequence[tuple[Change, StudyProgram]]) -> Iterator[Row]:
    """Of the time of ResNet-20 on 32 hosts: figure 7."""
    printed = data.BREAKDOWN[accelerator][data.MOST_HOSTS]
    theirs = ACCELERATORS[accelerator].shares("resnet20", data.SHOWN_TIER, ETHERNET, data.MOST_HOSTS)
    for change, program in cases:
        seconds = parts(program, data.SHOWN_TIER, ETHERNET, data.MOST_HOSTS, change)
        for part, value in zip(data.PARTS, seconds, strict=True):
            ours = value / sum(seconds)
            row_id = (
                f"sensitivity.{accelerator}.resnet20.{data.SHOWN_TIER}.{ETHERNET}.hosts{data.MOST_HOSTS}."
                f"{part}_share.{change.name}"
            )
            note = f"{change.says}: of what is published {ours / printed[part].value - 1:+.1%}"
            yield row(row_id, "sensitivity", f"{part}_share", ours, note, calibrated=theirs[part], policy=change.name)


def _with_longer_digits(program: StudyProgram) -> StudyProgram:
    spec = catalogue.spec(PARAMS[program.accelerator, program.application])
    trace = changed_trace(program.application, spec.model_copy(update=digits_of_3_limbs(spec)).build())
    return StudyProgram(program.accelerator, program.application, program.machine, trace)

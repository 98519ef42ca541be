"""How the main quantities of the storage-I/O study move with each assumption: the rows of a tornado chart.

One assumption is changed at a time; `penstock_studies.io_study.variants` has those about reads, program and machine. If
one changes the time of bootstrapping, a row `….recalibrated` has the time with the utilisation calibrated again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from statistics import fmean

from penstock.base.types import Row
from penstock.lab.simulation.memory.serial_law import required_hit_ratio
from penstock.scheme.machines import load_tiers
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import SHARP
from penstock_studies.io_study.cluster_variants import cluster_sensitivity_rows
from penstock_studies.io_study.messages import communication_rows
from penstock_studies.io_study.model import Study, StudyProgram
from penstock_studies.io_study.reads import peak_demand, reads_of
from penstock_studies.io_study.rows import row
from penstock_studies.io_study.variants import Variant, variants

KEYS_READ = ("keys-whole", "digits-whole", "keys-seeded", "two-keys-kept", "keys-whole-one-kept")
"""Variants that change the bytes read and no time of computing."""


def sensitivity_rows(study: Study) -> Iterator[Row]:
    """The whole tornado."""
    every: dict[tuple[str, str], dict[str, Variant]] = {}
    for accelerator in ("sharp", "tensorfhe"):
        for application in data.APPLICATIONS:
            program = study.program(accelerator, application)
            of_program = list(variants(program, study))
            every[accelerator, application] = {variant.name: variant for variant in of_program}
            yield from _program_rows(program, of_program)
            yield from _slowdown_rows(program, of_program)
            yield from _steepest_rows(program)
            yield from _mode_rows(program)
            yield from communication_rows(program)
    yield from _mean_rows(every)
    yield from _io_ratio_rows(study, every)
    yield from cluster_sensitivity_rows(study)


def _mean_rows(every: Mapping[tuple[str, str], Mapping[str, Variant]]) -> Iterator[Row]:
    """Means over both applications where other bytes are read: SHARP's hit ratios, TensorFHE's slowdowns."""
    for tier in load_tiers(data.TIERS):
        rate = tier.bandwidth_bytes_per_s
        for name in ("keys-seeded", "keys-whole"):
            of_variant = [every["sharp", application][name] for application in data.APPLICATIONS]
            ours = fmean(required_hit_ratio(v.key_bytes / v.ideal_s, rate, data.IDEAL_SHARE) for v in of_variant)
            row_id = f"sensitivity.sharp.mean.{tier.name}.hit_ratio_80.{name}"
            yield row(row_id, "sensitivity", "hit_ratio", ours, of_variant[0].says, policy=name)
        for name in ("keys-seeded", "keys-whole", "digits-of-3-limbs"):
            of_variant = [every["tensorfhe", application][name] for application in data.APPLICATIONS]
            ours = fmean(1 + v.key_bytes / v.ideal_s / rate for v in of_variant)
            row_id = f"sensitivity.tensorfhe.mean.{tier.name}.slowdown.{name}"
            yield row(row_id, "sensitivity", "slowdown", ours, of_variant[0].says, policy=name)


def _io_ratio_rows(study: Study, every: Mapping[tuple[str, str], Mapping[str, Variant]]) -> Iterator[Row]:
    """Bytes that TensorFHE reads over those of SHARP."""
    for application in data.APPLICATIONS:
        of_sharp, of_gpu = (every[accelerator, application] for accelerator in ("sharp", "tensorfhe"))
        runs = [study.program(accelerator, application).runs for accelerator in ("sharp", "tensorfhe")]
        for name, gpu, sharp, says in (
            ("digits-of-3-limbs", "digits-of-3-limbs", "base", of_gpu["digits-of-3-limbs"].says),
            ("keys-whole", "keys-whole", "keys-whole", f"{of_gpu['keys-whole'].says}, on both"),
            ("keys-seeded-on-sharp", "base", "keys-seeded", f"on SHARP {of_sharp['keys-seeded'].says}"),
        ):
            ours = (of_gpu[gpu].key_bytes / runs[1]) / (of_sharp[sharp].key_bytes / runs[0])
            row_id = f"sensitivity.tensorfhe_to_sharp.{application}.io_ratio.{name}"
            yield row(row_id, "sensitivity", "ratio", ours, says, policy=name)


def _program_rows(program: StudyProgram, of_program: list[Variant]) -> Iterator[Row]:
    """Demand, bytes and time of each variant."""
    base, sharp = of_program[0], program.accelerator == "sharp"
    name = f"{program.accelerator}.{program.application}"
    demand = (SHARP.demand if sharp else data.GPU_DEMAND)[program.application]
    quantities: list[tuple[str, str, float | None, Callable[[Variant], float]]] = [
        ("demand", "B/s", demand, lambda v: v.key_bytes / v.ideal_s),
        ("key_bytes", "B", None, lambda v: v.key_bytes / program.runs),
        ("ideal_time", "s", data.IDEAL_S[program.application] if sharp else None, lambda v: v.ideal_s / program.runs),
    ]
    for quantity, unit, theirs, value in quantities:
        for variant in of_program:
            if variant is not base and value(variant) == value(base):
                continue  # an assumption that this quantity does not know
            row_id = f"sensitivity.{name}.{quantity}.{variant.name}"
            note = f"{variant.says}: {value(variant) / value(base) - 1:+.1%}"
            ours = value(variant)
            yield row(row_id, "sensitivity", quantity, ours, note, unit=unit, calibrated=theirs, policy=variant.name)

    for variant in of_program:
        if variant.recalibrated_s is None:
            continue
        again = Variant(variant.name, variant.says, variant.key_bytes, variant.recalibrated_s)
        for quantity, unit, theirs, value in (quantities[0], quantities[2]):
            yield row(
                f"sensitivity.{name}.{quantity}.{variant.name}.recalibrated",
                "sensitivity",
                quantity,
                value(again),
                (
                    f"{variant.says}, and the utilisation meets the published bootstrapping: "
                    f"{value(again) / value(base) - 1:+.1%}"
                ),
                unit=unit,
                calibrated=theirs,
                policy=f"{variant.name}-recalibrated",
            )


def _slowdown_rows(program: StudyProgram, of_program: list[Variant]) -> Iterator[Row]:
    """Slowdowns over each tier where other bytes of a key are read: 1 + D / bandwidth."""
    for variant in of_program:
        if variant.name not in KEYS_READ:
            continue
        for tier in load_tiers(data.TIERS):
            ours = 1 + variant.key_bytes / variant.ideal_s / tier.bandwidth_bytes_per_s
            row_id = f"sensitivity.{program.accelerator}.{program.application}.{tier.name}.slowdown.{variant.name}"
            note = f"{variant.says}: {ours / program.slowdown(tier.name) - 1:+.1%}"
            yield row(row_id, "sensitivity", "slowdown", ours, note, policy=variant.name)


def _steepest_rows(program: StudyProgram) -> Iterator[Row]:
    """The most that a key switch of the program asks for in a second: no program of such key switches asks for more.

    On SHARP also the request rate if its transform units never wait, for any program: that needs no calibration.
    """
    reads, name = reads_of(program), f"{program.accelerator}.{program.application}"
    theirs = (SHARP.demand if program.accelerator == "sharp" else data.GPU_DEMAND)[program.application]
    for part, refreshing in (("bootstrapping", True), ("outside-bootstrapping", False)):
        yield row(
            f"sensitivity.{name}.key_switch_demand.{part}",
            "sensitivity",
            "demand",
            reads.steepest(refreshing),
            f"of single key switches {part.replace('-', ' ')}, the one that asks for most",
            unit="B/s",
            calibrated=theirs,
            policy=part,
        )
    if program.accelerator == "sharp":
        peaks = {
            f"peak-{digits}-digits": (f"a key switch of {digits} active digits", peak_demand(program, digits))
            for digits in range(1, program.params.dnum + 1)
        }
        peaks["peak-of-all"] = ("all key switches of the program", reads.peak())
        for policy, (says, ours) in peaks.items():
            row_id = f"sensitivity.{name}.key_switch_demand.{policy}"
            note = (
                f"{says} at the datasheet's rate of transforms, without any other work: the study's demand takes "
                f"{theirs / ours:.0%} of that"
            )
            yield row(row_id, "sensitivity", "demand", ours, note, unit="B/s", calibrated=theirs, policy=policy)


def _mode_rows(program: StudyProgram) -> Iterator[Row]:
    """Slowdown over PCIe in each time mode: loads before compute, one operation ahead, or fully hidden."""
    from penstock.lab.simulation.play import simulate

    rows = simulate(program.priced, load_tiers([data.SHOWN_TIER]), modes=("serial", "overlap", "bound"))
    base = rows[0]["slowdown"]
    for played in rows:
        row_id = f"sensitivity.{program.accelerator}.{program.application}.{data.SHOWN_TIER}.slowdown.{played['mode']}"
        note = f"loads and compute in mode {played['mode']}: {played['slowdown'] / base - 1:+.1%}"
        yield row(row_id, "sensitivity", "slowdown", played["slowdown"], note, policy=played["mode"])

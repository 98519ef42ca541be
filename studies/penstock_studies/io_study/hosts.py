"""Rows of one host: ideal times, demands, slowdowns, hit ratios (sections 4.1 and 4.3, figures 4 and 5)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from penstock.base.types import Row
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import SHARP, TENSORFHE, Accelerator
from penstock_studies.io_study.model import Study
from penstock_studies.io_study.reads import all_slots_bytes, peak_demand, reads_of
from penstock_studies.io_study.rows import row

GPU_DEMAND = (
    "assumption 'dnum = L+1 with one special limb', which nobody publishes, and a utilisation from a 250 ms "
    "bootstrapping that is quoted at second hand: keys and time both depend on them (sensitivity.tensorfhe.*)"
)
TEXT_5130 = (
    "the study's four slowdowns of HELR follow from D = 4452 GB/s, not from the 5130 bytes per cycle of its text"
)


def keys_cut(study: Study) -> str:
    """Why HELR's demand differs, with what other rules of counting would give of both applications."""
    times: dict[str, tuple[float, float, float]] = {}
    for program in study.both("sharp"):
        reads, theirs = reads_of(program), SHARP.demand[program.application]
        counts = reads.whole(), reads.all_digits(), reads.whole_in_runs()
        whole, digits, runs = (count / program.priced.ideal_s / theirs for count in counts)
        times[program.application] = whole, digits, runs
    (whole, digits, runs), (other_whole, other_digits, other_runs) = times["helr"], times["resnet20"]
    helr, demand = study.program("sharp", "helr"), SHARP.demand["helr"]
    most, peak = reads_of(helr).steepest(False) / demand, peak_demand(helr, 1) / demand
    plain = all_slots_bytes(study.program("sharp", "helr", "helr-apart")) / data.IDEAL_S["helr"] / demand
    return (
        "assumption 'keys are read at the limbs in use': HELR's gradient runs at few of the 35 limbs, where no single "
        f"key switch asks for more than {most:.2f} times the study's demand ({peak:.2f} times if SHARP's units never "
        "waited, sensitivity.sharp.helr.key_switch_demand). With every key read whole D would be "
        f"{whole:.2f} times the study's and ResNet-20's {other_whole:.2f} times, with inactive digits read too "
        f"{digits:.2f} and {other_digits:.2f} times, with whole keys read once where one is used several times in a "
        f"row {runs:.2f} and {other_runs:.2f} times (sensitivity.sharp.*.demand). The reads of a program that "
        "refreshes weights and momentum apart, in all slots, over the time that SHARP publishes for its own are "
        f"{plain:.2f} times (reading.sharp.helr.program.*)"
    )


def ideal_rows(study: Study) -> Iterator[Row]:
    """Times with every byte resident: the study takes SHARP's, and does not print TensorFHE's."""
    for application in data.APPLICATIONS:
        program = study.program("sharp", application)
        yield row(
            f"sharp.{application}.ideal_time",
            "ideal",
            "time",
            program.ideal_s,
            "an input of the study, from SHARP (ISCA 2023)" + (", one iteration" if program.runs > 1 else ""),
            unit="s",
            published=data.IDEAL_S[application],
            calibrated=data.IDEAL_S[application],
            fitted=True,
            because="utilisation is one number for all units, from bootstrapping alone",
        )
    for application in data.APPLICATIONS:
        ours = study.program("tensorfhe", application).ideal_s
        yield row(f"tensorfhe.{application}.ideal_time", "ideal", "time", ours, "the study does not print it", unit="s")


def demand_rows(study: Study) -> Iterator[Row]:
    """Bytes of keys per cycle; SHARP runs at 1 GHz, so these are GB/s too."""
    because = keys_cut(study)
    ours = {program.application: program.demand / program.clock_hz for program in study.both("sharp")}
    theirs = {a: SHARP.demand[a] / 1e9 for a in data.APPLICATIONS}
    for application in data.APPLICATIONS:
        yield row(
            f"sharp.{application}.bytes_per_cycle",
            "demand",
            "key_bytes_per_cycle",
            ours[application],
            "" if application == "resnet20" else "4452 is the input of the calibrated reading",
            unit="B/cycle",
            published=data.BYTES_PER_CYCLE[application],
            calibrated=theirs[application],
            fitted=application == "resnet20",
            because=because,
            contradicts=TEXT_5130 if application == "helr" else "",
        )
    yield row(
        "sharp.mean.bytes_per_cycle",
        "demand",
        "key_bytes_per_cycle",
        fmean(ours.values()),
        unit="B/cycle",
        published=data.MEAN_BYTES_PER_CYCLE,
        calibrated=fmean(theirs.values()),
        because=because,
        contradicts=TEXT_5130,
    )
    yield row(
        "sharp.helr_to_resnet20.bytes_ratio",
        "demand",
        "ratio",
        ours["helr"] / ours["resnet20"],
        published=data.BYTES_RATIO,
        calibrated=theirs["helr"] / theirs["resnet20"],
        because=because,
        contradicts=TEXT_5130,
    )
    yield from _gpu_demand_rows(study)


def _gpu_demand_rows(study: Study) -> Iterator[Row]:
    for application in data.APPLICATIONS:
        row_id = f"tensorfhe.{application}.bytes_per_cycle"
        computed = study.program("tensorfhe", application).demand / data.A100_CLOCK_HZ
        note = "at the A100's 1.41 GHz"
        calibrated = TENSORFHE.demand[application] / data.A100_CLOCK_HZ
        yield row(row_id, "demand", "key_bytes_per_cycle", computed, note, unit="B/cycle", calibrated=calibrated)
    mean = fmean(TENSORFHE.demand.values())
    yield row(
        "tensorfhe.mean.bytes_per_cycle",
        "demand",
        "key_bytes_per_cycle",
        fmean(p.demand for p in study.both("tensorfhe")) / data.A100_CLOCK_HZ,
        unit="B/cycle",
        published=data.GPU_BYTES_PER_CYCLE,
        calibrated=mean / data.A100_CLOCK_HZ,
        because=GPU_DEMAND,
        contradicts=(
            f"the slowdowns of 15.2 and 22 say {mean / 1e9:.1f} GB/s, which is 101 bytes per cycle only at "
            f"{mean / data.GPU_BYTES_PER_CYCLE.value / 1e9:.2f} GHz; an A100 runs at 1.41 GHz at most"
        ),
    )


def slowdown_rows(study: Study) -> Iterator[Row]:
    """Figure 4."""
    because = keys_cut(study)
    for application in data.APPLICATIONS:
        for tier in data.TIERS:
            yield _slowdown(study, SHARP, application, tier, "single-host", because)
    for tier in data.TIERS:
        printed = data.SHARP_MEAN_SLOWDOWN.get(tier)
        stated = fmean(data.SHARP_SLOWDOWN[a][tier].value for a in data.APPLICATIONS)
        yield row(
            f"sharp.mean.{tier}.slowdown",
            "single-host",
            "slowdown",
            study.mean_slowdown("sharp", tier),
            "" if printed else "the study prints the mean for HBM and RDMA only: this is the mean of its two slowdowns",
            published=printed or stated,
            calibrated=SHARP.mean_slowdown(tier),
            because=because,
        )
    for tier in data.TIERS:
        row_id = f"tensorfhe.mean.{tier}.slowdown"
        ours = study.mean_slowdown("tensorfhe", tier)
        published = data.GPU_MEAN_SLOWDOWN[tier]
        calibrated = TENSORFHE.mean_slowdown(tier)
        yield row(
            row_id,
            "gpu",
            "slowdown",
            ours,
            published=published,
            calibrated=calibrated,
            because=GPU_DEMAND,
            fitted=tier == "rdma",
        )
    yield row(
        "tensorfhe.max.rdma.slowdown",
        "gpu",
        "slowdown",
        max(p.slowdown("rdma") for p in study.both("tensorfhe")),
        "the largest of both applications",
        published=data.GPU_MOST_SLOWDOWN,
        calibrated=max(TENSORFHE.slowdown(a, "rdma") for a in data.APPLICATIONS),
        because=GPU_DEMAND,
        fitted=True,
    )
    for application in data.APPLICATIONS:
        for tier in data.TIERS:
            yield _slowdown(study, TENSORFHE, application, tier, "gpu", GPU_DEMAND)


def _slowdown(study: Study, by: Accelerator, application: str, tier: str, group: str, because: str) -> Row:
    printed = data.SHARP_SLOWDOWN[application][tier] if by is SHARP else None
    row_id = f"{by.name}.{application}.{tier}.slowdown"
    note = "" if printed else "only drawn in figure 4; the text prints means"
    ours = study.program(by.name, application).slowdown(tier)
    calibrated = by.slowdown(application, tier)
    # HELR's D is what its slowdown over RDMA says: (357.2 - 1) x 12.5 GB/s.
    fitted = by is SHARP and (application, tier) == ("helr", "rdma")
    return row(
        row_id,
        group,
        "slowdown",
        ours,
        note,
        published=printed,
        calibrated=calibrated,
        because=because,
        fitted=fitted,
    )


def hit_ratio_rows(study: Study) -> Iterator[Row]:
    """What 80 % of the ideal speed asks for, and the whole of figure 5."""
    for tier in data.TIERS:
        row_id = f"sharp.mean.{tier}.hit_ratio_80"
        note = "mean over both applications (the digest says ResNet-20 alone, whose own are lower)"
        ours = study.mean_hit_ratio("sharp", tier)
        calibrated = SHARP.mean_hit_ratio(tier)
        yield row(row_id, "hit-ratio", "hit_ratio", ours, note, published=data.HIT_RATIO[tier], calibrated=calibrated)
    for application in data.APPLICATIONS:
        program = study.program("sharp", application)
        for tier in data.TIERS:
            row_id = f"sharp.{application}.{tier}.hit_ratio_80"
            note = "the study prints the mean"
            ours = program.hit_ratio(tier)
            yield row(row_id, "hit-ratio", "hit_ratio", ours, note, calibrated=_needed(application, tier))
    for application in data.APPLICATIONS:
        program = study.program("sharp", application)
        for tier in data.TIERS:
            for step in range(11):
                ratio = step / 10
                row_id = f"sharp.{application}.{tier}.speed_at_hit_ratio_{10 * step}"
                note = "figure 5: drawn, without values"
                ours = 1 / program.slowdown(tier, ratio)
                calibrated = 1 / SHARP.slowdown(application, tier, ratio)
                yield row(row_id, "hit-ratio-curve", "share_of_ideal_speed", ours, note, calibrated=calibrated)


def _needed(application: str, tier: str) -> float:
    from penstock.lab.simulation.memory.serial_law import required_hit_ratio
    from penstock_studies.io_study.calibrated import BANDWIDTH

    return required_hit_ratio(SHARP.demand[application], BANDWIDTH[tier], data.IDEAL_SHARE)

"""The storage-I/O study's main quantities after a change of one assumption: about reads, program, machine.

Reads are counted again from the same trace where that is exact; where an assumption changes the program, it is traced
again. The machine stays calibrated. If an assumption changes the time of bootstrapping, a second time has the
utilisation calibrated again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from penstock.program.running import trace_workload
from penstock.scheme.machines.schema import Machine, Overlap
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.spec import CkksSpec
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.schema import Trace
from penstock_studies.io_study.model import FULL, PARAMS, WORKLOADS, Study, StudyProgram
from penstock_studies.io_study.reads import reads_of, refresh_trace

UTILISATION_STEP = 0.1
"""Share by which the utilisation is moved either way."""
CALIBRATED_ON = {"sharp": "sharp", "tensorfhe": "tensorfhe-resnet20"}
"""Accelerator -> the set whose bootstrapping its utilisation is calibrated on, as the machine's file says."""
DIGIT = 3
"""Limbs of a digit of TensorFHE, in place of one."""
HELR_PROGRAMS = {
    "helr-merged": "weights and momentum refreshed side by side in 512 slots, six levels an iteration",
    "helr-apart": "weights and momentum refreshed apart, each at 256 slots",
    "helr-columns": "packed as in HELR's own code: the whole batch with 32 columns, 16 refreshes of 32 slots",
}
"""Sizes of the logistic regression -> how they differ from Cheddar's program, the one that is used."""


@dataclass(frozen=True, slots=True)
class Variant:
    """Bytes of keys and seconds of a whole program under another assumption."""

    name: str
    says: str
    key_bytes: float
    ideal_s: float
    recalibrated_s: float | None = None
    """With the utilisation that meets the published bootstrapping under this assumption; `None`: it is the same."""


def variants(program: StudyProgram, study: Study) -> Iterator[Variant]:
    """Assumptions about reads, the program and the machine, the one that is made first."""
    priced, reads = program.priced, reads_of(program)
    base_bytes, base_s = float(priced.accessed_bytes), priced.ideal_s
    yield Variant("base", "as computed", base_bytes, base_s)
    yield Variant("keys-whole", "every key is read whole, not cut to the limbs in use", reads.whole(), base_s)
    yield Variant("digits-whole", "limbs are cut, digits that are not active are read too", reads.all_digits(), base_s)
    yield Variant("keys-seeded", "half of each key is made from a seed and not read", base_bytes / 2, base_s)
    yield Variant("two-keys-kept", "the two keys used last stay on chip", reads.kept(2), base_s)
    yield Variant(
        "keys-whole-one-kept",
        "keys are read whole, and once where one is used several times in a row",
        reads.whole_in_runs(),
        base_s,
    )
    yield Variant("with-plaintexts", "plaintexts are read too", base_bytes + priced.bytes_by_class["plaintext"], base_s)
    for sign, word in ((1, "more"), (-1, "less")):
        share = 1 + sign * UTILISATION_STEP
        yield Variant(
            f"utilisation-10-percent-{word}", f"the units reach {share:.1f} times as much", base_bytes, base_s / share
        )
    other = Overlap.PIPELINED if program.machine.overlap is Overlap.IN_TURN else Overlap.IN_TURN
    yield Variant(
        f"units-{other}",
        f"functional units work {other} instead of {program.machine.overlap}",
        base_bytes,
        *_both_s(program, program.trace, replace(program.machine, overlap=other)),
    )
    yield Variant(
        "refresh-all-slots", "every bootstrapping is of all slots, not by the period of the values", *reads.all_slots
    )
    yield from _traced_variants(program)
    if program.accelerator == "sharp" and program.application == "helr":
        for size, says in HELR_PROGRAMS.items():
            run = study.program("sharp", "helr", size).priced
            yield Variant(f"program-{size.removeprefix('helr-')}", says, float(run.accessed_bytes), run.ideal_s)


def _both_s(
    program: StudyProgram, trace: Trace, machine: Machine, params: CkksParameters | None = None
) -> tuple[float, float]:
    """Seconds as the machine is calibrated, and as it would be if it were under this assumption.

    Every unit's rate is proportional to the utilisation, so the second is the first, by what bootstrapping changes.
    """
    seconds = price_trace(trace, machine, key_form=FULL).ideal_s
    published_s = refresh_s(program.machine, program.accelerator)
    return seconds, seconds * published_s / refresh_s(machine, program.accelerator, params)


def refresh_s(machine: Machine, accelerator: str, params: CkksParameters | None = None) -> float:
    """Seconds of the bootstrapping that an accelerator is calibrated on."""
    return price_trace(refresh_trace(params or CALIBRATED_ON[accelerator]), machine, key_form=FULL).ideal_s


def _traced_variants(program: StudyProgram) -> Iterator[Variant]:
    """Assumptions that change the program: traced and priced again."""
    spec = catalogue.spec(PARAMS[program.accelerator, program.application])
    assert spec.bootstrap is not None, "accelerator sets state their bootstrapping"
    hoisted = spec.bootstrap.rotations == "hoisted"
    other = "min-ks" if hoisted else "hoisted"
    changes: list[tuple[str, str, dict[str, object]]] = [
        (
            other,
            f"rotations of bootstrapping by {other} instead of {spec.bootstrap.rotations}",
            {"bootstrap": spec.bootstrap.model_copy(update={"rotations": other})},
        )
    ]
    if program.accelerator == "tensorfhe":
        changes.append(
            ("digits-of-3-limbs", "digits of 3 limbs and 3 special limbs instead of 1 and 1", digits_of_3_limbs(spec))
        )
    calibrating = catalogue.spec(CALIBRATED_ON[program.accelerator])
    for name, says, update in changes:
        trace = changed_trace(program.application, spec.model_copy(update=update).build())
        key_bytes = float(price_trace(trace, program.machine, key_form=FULL).accessed_bytes)
        own = digits_of_3_limbs(calibrating) if "dnum" in update else update
        times = _both_s(program, trace, program.machine, calibrating.model_copy(update=own).build())
        yield Variant(name, says, key_bytes, *times)


@lru_cache(maxsize=4)
def changed_trace(application: str, params: CkksParameters) -> Trace:
    """An application at a changed set. The last ones are kept: those of longer digits are played on hosts too."""
    workload, size = WORKLOADS[application]
    return trace_workload(workload, params, size, 0)


def digits_of_3_limbs(spec: CkksSpec) -> dict[str, object]:
    """What changes in a set of TensorFHE: digits of 3 limbs, and as many special limbs, instead of 1 and 1."""
    return {"dnum": spec.build().num_q // DIGIT, "p_bits": (28,) * DIGIT}

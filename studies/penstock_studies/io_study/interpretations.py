"""What "bytes of evaluation keys per cycle" could mean: each reading of the study's text, counted from our traces.

The text leaves open which limbs of a key are read, how wide a limb is, whether SHARP's seeds halve a key, and by which
time the bytes are divided. Every combination is counted for both applications, and none is chosen: the headline follows
the text (each key switch reads its key, at the limbs in use), and was made before any comparison.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

from penstock.base.types import Row
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import SHARP
from penstock_studies.io_study.model import Study, StudyProgram
from penstock_studies.io_study.reads import all_slots_bytes, reads_of
from penstock_studies.io_study.rows import row
from penstock_studies.io_study.variants import HELR_PROGRAMS

RULES = {
    "limbs-in-use": "every key switch reads its key at the limbs in use",
    "all-digits": "at the limbs in use, digits that are not active too",
    "whole": "every key switch reads its key whole",
    "whole-in-runs": "keys whole, one that is used several times in a row once",
}
CONTAINER_BITS = 64
WIDTHS = {
    "36-bit": "limbs of 36-bit words",
    "64-bit": "limbs of 36 bits in words of 64",
    "1555-bit": "coefficients of the 1555 bits that the study states for all limbs, those of P too",
}
FORMS = {"full": "both halves of a key", "seeded": "the half that is not made from a seed on chip"}
TIMES = {"ours": "over our ideal time", "published": "over the published ideal time"}


@dataclass(frozen=True, slots=True)
class Interpretation:
    """One combination, and its results."""

    name: str
    says: str
    bytes_per_cycle: float


def interpretations(program: StudyProgram) -> Iterator[Interpretation]:
    """Every reading of one of SHARP's applications, the headline's first."""
    reads, params = reads_of(program), program.params
    counted = {
        "limbs-in-use": float(program.priced.accessed_bytes),
        "all-digits": reads.all_digits(),
        "whole": reads.whole(),
        "whole-in-runs": reads.whole_in_runs(),
    }
    width = {
        "36-bit": 1.0,
        "64-bit": CONTAINER_BITS / params.word_bits,
        "1555-bit": data.COEFFICIENT_BITS["sharp"] / params.log_qp,
    }
    form = {"full": 1.0, "seeded": 0.5}
    seconds = {"ours": program.ideal_s, "published": data.IDEAL_S[program.application]}
    for rule, wide, half, time in product(RULES, WIDTHS, FORMS, TIMES):
        bytes_read = counted[rule] / program.runs * width[wide] * form[half]
        yield Interpretation(
            f"{rule}.{wide}.{half}.{time}",
            f"{RULES[rule]}; {WIDTHS[wide]}; {FORMS[half]}; {TIMES[time]}",
            bytes_read / seconds[time] / program.clock_hz,
        )


def interpretation_rows(study: Study) -> Iterator[Row]:
    """A row for each reading, with the value implied by the study's slowdowns; then further tests between readings."""
    for program in study.both("sharp"):
        application = program.application
        theirs, printed = SHARP.demand[application] / 1e9, data.BYTES_PER_CYCLE[application]
        for reading in interpretations(program):
            of_text = (
                f", of the text's {reading.bytes_per_cycle / printed.value - 1:+.0%}" if application == "helr" else ""
            )
            yield row(
                f"reading.sharp.{application}.bytes_per_cycle.{reading.name}",
                "reading",
                "key_bytes_per_cycle",
                reading.bytes_per_cycle,
                f"{reading.says}: of what the slowdowns say {reading.bytes_per_cycle / theirs - 1:+.0%}{of_text}",
                unit="B/cycle",
                calibrated=theirs,
                policy=f"reading.{reading.name}",
            )
        yield from _object_rows(program)
        yield from _divisor_rows(program)
    yield from program_rows(study)


def _object_rows(program: StudyProgram) -> Iterator[Row]:
    """Bytes per cycle of the published time that each class of objects takes, read and written by every operation."""
    application, by_class = program.application, program.priced.bytes_by_class
    theirs = SHARP.demand[application] / 1e9
    cycles = data.IDEAL_S[application] * program.clock_hz * program.runs
    for what, classes in (
        ("keys", ("key",)),
        ("plaintexts", ("plaintext",)),
        ("ciphertexts", ("ciphertext",)),
        ("everything", tuple(by_class)),
    ):
        ours = sum(by_class[name] for name in classes) / cycles
        yield row(
            f"reading.sharp.{application}.objects.{what}",
            "reading",
            "bytes_per_cycle",
            ours,
            f"{what} at the limbs in use, over the published time: of what the slowdowns say {ours / theirs:.2f} times",
            unit="B/cycle",
            calibrated=theirs,
            policy=f"reading.objects.{what}",
        )


def _divisor_rows(program: StudyProgram) -> Iterator[Row]:
    """The divisor of key reads on 32 hosts: another figure of the study that depends on the limbs read."""
    reads, theirs = reads_of(program), SHARP.io_divisor[program.application]
    for rule, cut, active_only in (("limbs-in-use", True, True), ("all-digits", True, False), ("whole", False, False)):
        ours = reads.divisor(cut=cut, active_only=active_only)
        row_id = f"reading.sharp.{program.application}.io_divisor.{rule}"
        note = f"{RULES[rule]}: of what the cluster figures imply {ours / theirs - 1:+.0%}"
        yield row(row_id, "reading", "io_divisor", ours, note, calibrated=theirs, policy=f"reading.io-divisor.{rule}")


def program_rows(study: Study) -> Iterator[Row]:
    """Reads of other programs of HELR over the time that SHARP publishes for its own.

    The study takes its baseline's times from SHARP's paper, and does not say of which program it counts the reads.
    """
    theirs, cycles = SHARP.demand["helr"] / 1e9, data.IDEAL_S["helr"] * study.program("sharp", "helr").clock_hz
    for size, says in {"helr": "Cheddar's program", **HELR_PROGRAMS}.items():
        program, on_gpu = (study.program(accelerator, "helr", size) for accelerator in ("sharp", "tensorfhe"))
        both_bytes: dict[str, tuple[float, float]] = {
            "by-period": (program.key_bytes, on_gpu.key_bytes),
            "all-slots": (all_slots_bytes(program), all_slots_bytes(on_gpu)),
        }
        for slots, (sharp_bytes, gpu_bytes) in both_bytes.items():
            name = f"{size.removeprefix('helr-')}.{slots}"
            refreshes = f"{says}; bootstrapping {slots.replace('-', ' ')}"
            yield row(
                f"reading.sharp.helr.program.{name}",
                "reading",
                "key_bytes_per_cycle",
                sharp_bytes / cycles,
                (
                    f"{refreshes}, over the published time: of what the slowdowns say "
                    f"{sharp_bytes / cycles / theirs - 1:+.0%}"
                ),
                unit="B/cycle",
                calibrated=theirs,
                policy=f"reading.program.{name}",
            )
            ratio, printed = gpu_bytes / sharp_bytes, data.IO_RATIO["helr"].value
            row_id = f"reading.tensorfhe_to_sharp.helr.io_ratio.program.{name}"
            note = f"{refreshes}: of what is published {ratio / printed - 1:+.0%}"
            yield row(row_id, "reading", "ratio", ratio, note, calibrated=printed, policy=f"reading.program.{name}")

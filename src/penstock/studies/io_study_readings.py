"""What "bytes of evaluation keys per cycle" could mean: each reading of the study's text, counted from our traces.

The text leaves open which limbs of a key are read, how wide a limb is, whether SHARP's seeds halve a key, and by which
time the bytes are divided. Every combination is counted for both applications, none is chosen: the headline is what
the text says (each key switch reads its key, at the limbs in use), made before anything was compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

from penstock.studies import io_study_data as data
from penstock.studies.io_study_calibrated import SHARP
from penstock.studies.io_study_model import Program, Study
from penstock.studies.io_study_reads import Reads
from penstock.studies.io_study_rows import row

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
class Reading:
    """One combination, and what it gives."""

    name: str
    says: str
    bytes_per_cycle: float


def readings(program: Program) -> Iterator[Reading]:
    """Every reading of one of SHARP's applications, the headline's first."""
    reads, params = Reads(program), program.params
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
    clock = program.machine.clock
    assert clock is not None, "SHARP states its clock"
    for rule, wide, half, time in product(RULES, WIDTHS, FORMS, TIMES):
        bytes_read = counted[rule] / program.runs * width[wide] * form[half]
        yield Reading(
            f"{rule}.{wide}.{half}.{time}",
            f"{RULES[rule]}; {WIDTHS[wide]}; {FORMS[half]}; {TIMES[time]}",
            bytes_read / seconds[time] / clock.value,
        )


def reading_rows(study: Study) -> Iterator[dict[str, Any]]:
    """A row for each reading, with what the study's slowdowns say beside it."""
    for program in study.both("sharp"):
        application = program.application
        theirs, printed = SHARP.demand[application] / 1e9, data.BYTES_PER_CYCLE[application]
        for each in readings(program):
            of_text = (
                f", of the text's {each.bytes_per_cycle / printed.value - 1:+.0%}" if application == "helr" else ""
            )
            yield row(
                f"reading.sharp.{application}.bytes_per_cycle.{each.name}", "reading", "key_bytes_per_cycle", "B/cycle",
                None, theirs, each.bytes_per_cycle,
                f"{each.says}: of what the slowdowns say {each.bytes_per_cycle / theirs - 1:+.0%}{of_text}",
                policy=f"reading.{each.name}",
            )  # fmt: skip

"""Rows about sizes and the digest's own numbers (sections 2 and 4.3)."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import fmean

from penstock.base.types import Row
from penstock.base.units import BYTE_UNITS
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import SHARP
from penstock_studies.io_study.model import FULL, Study, StudyProgram
from penstock_studies.io_study.rows import row

BITS = (
    "assumption 'limbs x word': SHARP's 35 limbs of 36 bits are 1260 bits of Q (1692 with the special limbs). The "
    "study says 1555: more than Q has, so it is of Q and P, of primes shorter than their words, and is set against 840 "
    "and 1092 bits, which are TensorFHE's Q alone (sensitivity.sizes.polynomial_ratio.*)"
)
CHAIN = (
    "assumption 'limbs x word': the study counts a plaintext as 8 MiB and a ciphertext as twice that; 35 limbs of 36 "
    "bits at N = 2^16 are 9.8 MiB, which is 'exceeding 8 MiB' too (sensitivity.sizes.ciphertext.*)"
)
NO_TIME = "calibrated: the study prints no run time of TensorFHE; with its demand the ratio would say {:.3g} s {}"
TYPICAL_BITS = 1024
"""Section 2 of the study: the modulus has "typically" more than 1000 bits; 2^16 coefficients of 1024 are its 8 MiB."""
KIB, MIB, GIB = BYTE_UNITS["KiB"], BYTE_UNITS["MiB"], BYTE_UNITS["GiB"]
GPU_BYTES = (
    "assumption 'dnum = L+1 with one special limb': TensorFHE's keys grow with the square of the limbs, and nobody "
    "publishes its digits (sensitivity.tensorfhe.*.key_bytes)"
)


def size_rows(study: Study) -> Iterator[Row]:
    """Ratios of polynomials, keys and total I/O between TensorFHE and SHARP."""
    sharp_bits = data.COEFFICIENT_BITS["sharp"]
    for application in data.APPLICATIONS:
        sharp, gpu = study.program("sharp", application), study.program("tensorfhe", application)
        stated = data.COEFFICIENT_BITS[f"tensorfhe.{application}"] / sharp_bits
        ours = gpu.params.log_q / sharp.params.log_q
        row_id = f"tensorfhe_to_sharp.{application}.polynomial_ratio"
        published = data.POLYNOMIAL_RATIO[application]
        yield row(row_id, "size", "ratio", ours, published=published, calibrated=stated, because=BITS)
        row_id = f"sharp_to_tensorfhe.{application}.polynomial_ratio"
        note = "from the digest"
        published = data.DIGEST_POLYNOMIAL_RATIO[application]
        yield row(row_id, "size", "ratio", 1 / ours, note, published=published, calibrated=1 / stated, because=BITS)
    by_level = {
        a: level_mean_key_bytes(study.program("tensorfhe", a)) / level_mean_key_bytes(study.program("sharp", a))
        for a in data.APPLICATIONS
    }
    by_read = {
        a: _mean_read(study.program("tensorfhe", a)) / _mean_read(study.program("sharp", a)) for a in data.APPLICATIONS
    }
    row_id = "tensorfhe_to_sharp.mean.key_ratio"
    note = (
        "keys in full form, mean over all levels, then over both applications "
        f"({', '.join(f'{a} {value:.2f}' for a, value in by_level.items())}); calibrated: the study states no digits"
    )
    yield row(row_id, "size", "ratio", fmean(by_level.values()), note, published=data.KEY_RATIO, because=GPU_BYTES)
    row_id = "tensorfhe_to_sharp.mean.key_read_ratio"
    note = "the same over the reads of our programs instead of over levels"
    yield row(row_id, "size", "ratio", fmean(by_read.values()), note, published=data.KEY_RATIO, policy="by-read")
    for application in data.APPLICATIONS:
        sharp, gpu = study.program("sharp", application), study.program("tensorfhe", application)
        printed = data.IO_RATIO[application]
        implied = printed.value * SHARP.demand[application] * data.IDEAL_S[application] / data.GPU_DEMAND[application]
        row_id = f"tensorfhe_to_sharp.{application}.io_ratio"
        note = NO_TIME.format(implied, "an iteration" if gpu.runs > 1 else "an inference")
        yield row(row_id, "size", "ratio", gpu.key_bytes / sharp.key_bytes, note, published=printed, because=GPU_BYTES)


def level_mean_key_bytes(program: StudyProgram) -> float:
    """Bytes that a key switch reads of a key, mean over all numbers of limbs."""
    params = program.params
    return fmean(params.key_bytes(limbs, FULL) for limbs in range(1, params.num_q + 1))


def _mean_read(program: StudyProgram) -> float:
    return program.priced.accessed_bytes / program.key_accesses()


def expansion_rows(study: Study) -> Iterator[Row]:
    """An image of 3 KiB becomes 8 MiB, then 16 MiB, and asks for more than 5 GiB of more than 100 keys."""
    program = study.program("sharp", "resnet20")
    params = program.params
    image = 32 * 32 * 3
    stated = params.ring_dim * data.COEFFICIENT_BITS["sharp"] / 8
    row_id = "expansion.image"
    note = "32 x 32 x 3 bytes"
    published = data.IMAGE_KIB
    yield row(row_id, "expansion", "size", image / KIB, note, unit="KiB", published=published, calibrated=image / KIB)
    note = "calibrated: 2^16 coefficients of the 1555 bits that it states"
    ours = params.plaintext_bytes(params.num_q) / MIB
    published = data.PLAINTEXT_MIB
    yield row(
        "expansion.plaintext", "expansion", "size", ours, note, unit="MiB", published=published, calibrated=stated / MIB
    )
    yield row(
        "expansion.ciphertext",
        "expansion",
        "size",
        params.ciphertext_bytes(params.num_q) / MIB,
        "calibrated: two polynomials of the 8 MiB that it states",
        unit="MiB",
        published=data.CIPHERTEXT_MIB,
        calibrated=2 * data.PLAINTEXT_MIB.value,
        because=CHAIN,
    )
    num_keys, key_bytes = program.num_keys(), params.key_bytes(key_form=FULL)
    note = (
        f"full keys of {key_bytes / MIB:.1f} MiB; calibrated: the 100 keys that it states. With more than 100 keys, "
        "5 GiB are at most 51 MiB a key"
    )
    ours = num_keys * key_bytes / GIB
    published = data.KEYS_GIB
    calibrated = data.NUM_KEYS.value * key_bytes / GIB
    yield row("expansion.keys", "expansion", "size", ours, note, unit="GiB", published=published, calibrated=calibrated)
    note = "different evaluation keys of the program, bootstrapping with Min-KS included"
    yield row("expansion.num_keys", "expansion", "count", float(num_keys), note, published=data.NUM_KEYS)


def size_sensitivity_rows(study: Study) -> Iterator[Row]:
    """Results of other readings of "the bits of a coefficient": with the moduli of P, and with the bits that the study
    states or calls typical."""
    sharp = study.program("sharp", "resnet20").params
    for application in data.APPLICATIONS:
        gpu = study.program("tensorfhe", application).params
        stated = data.COEFFICIENT_BITS[f"tensorfhe.{application}"] / data.COEFFICIENT_BITS["sharp"]
        for name, says, ours in (
            ("base", "limbs of Q alone", gpu.log_q / sharp.log_q),
            ("with-special", "limbs of P too", gpu.log_qp / sharp.log_qp),
            (
                "with-special-as-stated",
                "limbs of P too, SHARP's of the 1555 bits that the study states",
                gpu.log_qp / data.COEFFICIENT_BITS["sharp"],
            ),
        ):
            row_id = f"sensitivity.sizes.polynomial_ratio.{application}.{name}"
            note = f"{says}: of the value that the study states {ours / stated - 1:+.1%}"
            yield row(row_id, "sensitivity", "ratio", ours, note, calibrated=stated, policy=name)
    theirs = 2 * data.PLAINTEXT_MIB.value
    for name, bits, says in (
        ("base", sharp.log_q, "limbs of Q alone"),
        ("stated-bits", data.COEFFICIENT_BITS["sharp"], "the 1555 bits that the study states"),
        ("typical-bits", TYPICAL_BITS, "1024 bits: 'typically exceeding 1000', in whole words of 64"),
    ):
        ours = 2 * sharp.ring_dim * bits / 8 / MIB
        row_id = f"sensitivity.sizes.ciphertext.{name}"
        note = f"{says}: of the value that the study prints {ours / theirs - 1:+.1%}"
        yield row(row_id, "sensitivity", "size", ours, note, unit="MiB", calibrated=theirs, policy=name)


def digest_rows(study: Study) -> Iterator[Row]:
    """The digest's "3.8 seconds on one machine, 2.2 seconds on 32": 3.8 is the percentage of figure 7."""
    program, network = study.program("sharp", "resnet20"), data.NETWORKS[0]
    one, many = data.DIGEST_ONE_HOST_S, data.DIGEST_MANY_HOSTS_S
    ideal, slowdown = data.IDEAL_S["resnet20"], data.SHARP_SLOWDOWN["resnet20"]["pcie5"].value
    speedup = data.SHARP_SPEEDUP[network]["pcie5"]
    alone = ideal * SHARP.times("resnet20", "pcie5", network, 1).total_s
    together = ideal * SHARP.times("resnet20", "pcie5", network, data.MOST_HOSTS).total_s
    row_id = "digest.sharp.resnet20.pcie5.hosts1.time"
    ours = program.result("pcie5", network, 1).total_s
    contradicts = (
        f"an artefact: {slowdown} x {1e3 * ideal:.0f} ms = {slowdown * ideal:.2f} s; 3.8 is the percentage "
        "of figure 7 that is compute, read as seconds"
    )
    yield row(row_id, "digest", "time", ours, unit="s", published=one, calibrated=alone, contradicts=contradicts)
    row_id = "digest.sharp.resnet20.pcie5.ethernet-400.hosts32.time"
    ours = program.result("pcie5", network, data.MOST_HOSTS).total_s
    contradicts = (
        f"an artefact: {one.text} s / {speedup.text} (the mean speedup of both applications) = "
        f"{one.value / speedup.value:.2f} s"
    )
    yield row(row_id, "digest", "time", ours, unit="s", published=many, calibrated=together, contradicts=contradicts)

"""The kernel algebra against counts that SimFHE gave, operation by operation and over two whole bootstrappings.

`tests/data/simfhe` says how the counts were made. SimFHE has alpha + 1 special limbs, so the sets here have them too.
Where it counts otherwise, `DIFFERENCES` says by how much, in closed form; nothing else may differ, in any column.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.scheme.machines.schema import TRANSFORM_MEASURES
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.work.kernel_work import KernelWork
from penstock.scheme.work.kernels import Hoisting, kernel_work
from penstock.scheme.work.stages import digit_sizes, key_product, mod_down, mod_up, rescale_work
from support.toy import toy

DATA = Path(__file__).parents[1] / "data" / "simfhe"
N, WORD_BITS = 2**16, 36
LIMB_BYTES = N * WORD_BITS // 8
COLUMNS = ("transforms", "conversions", "mults", "adds", "moved", "key_limbs")
"""Limb transforms; multiply-adds of base conversions; other multiplications; other additions; coefficients that
automorphisms move; limbs of keys. All but the first and the last in coefficients / N."""


def set_of(limbs: int, special: int, dnum: int, key_form: KeyForm = KeyForm.FULL) -> CkksParameters:
    return toy(
        ring_dim=N,
        slots=N // 2,
        q_bits=(WORD_BITS,) * limbs,
        p_bits=(WORD_BITS,) * max(special, 1),
        dnum=dnum,
        word_bits=WORD_BITS,
        key_form=key_form,
    )


def primitive(kind: OpKind) -> Callable[[CkksParameters], KernelWork]:
    return lambda params: kernel_work(kind, params, params.num_q)


def with_rescale(kind: OpKind) -> Callable[[CkksParameters], KernelWork]:
    return lambda params: kernel_work(kind, params, params.num_q) + kernel_work(OpKind.RESCALE, params, params.num_q)


OURS: dict[str, Callable[[CkksParameters], KernelWork]] = {
    "mod_up": lambda params: mod_up(params, params.num_q),
    "key_product": lambda params: key_product(params, params.num_q),
    "turned_key_product": lambda params: key_product(params, params.num_q) + moved_digits(params),
    "mod_down": lambda params: mod_down(params, params.num_q, polynomials=1),
    # SimFHE's key switch adds the result to the other polynomial, as our rotation does.
    "key_switch": lambda params: primitive(OpKind.ROTATE)(params) + not_moved(params),
    "rotate": primitive(OpKind.ROTATE),
    # SimFHE permutes the digits; our default permutes the results.
    "rotate_hoisted": lambda params: kernel_work(OpKind.ROTATE_HOISTED, params, params.num_q, hoisting=Hoisting.DIGITS),
    "rescale_polynomial": lambda params: rescale_work(params, params.num_q, polynomials=1),
    "mult_rescaled": with_rescale(OpKind.MULT),
    "square_rescaled": with_rescale(OpKind.SQUARE),
    "add": primitive(OpKind.ADD),
    "add_plain": primitive(OpKind.ADD_PLAIN),
    "mult_plain": primitive(OpKind.MULT_PLAIN),
    # Steps of circuits, on one polynomial.
    "polynomial_add": lambda params: KernelWork(ring_dim=N, elementwise_adds=params.num_q * N),
    "polynomial_mult": lambda params: KernelWork(ring_dim=N, elementwise_mults=params.num_q * N),
    "polynomial_automorphism": lambda params: KernelWork(ring_dim=N, automorphism_coefficients=params.num_q * N),
}


def moved_digits(params: CkksParameters) -> KernelWork:
    """The automorphism of a hoisted rotation: each of d digits, over Q and P."""
    limbs = params.active_digits(params.num_q) * (params.num_q + params.num_p)
    return KernelWork(ring_dim=N, automorphism_coefficients=limbs * N)


def not_moved(params: CkksParameters) -> KernelWork:
    return KernelWork(ring_dim=N, automorphism_coefficients=-2 * params.num_q * N)


def digits_are_full(params: CkksParameters) -> Counter[str]:
    """It rounds every digit up to alpha limbs, multiplies two times in decomposing where once is enough, and once more
    before converting: 3 d alpha multiplications for our n, and d alpha (n + k - alpha) multiply-adds for our sum over
    digits. Transforms are the same in number: d alpha + d (n + k - alpha) = n + d (n + k) - n."""
    n, k, alpha, d = params.num_q, params.num_p, params.digit_limbs, params.dnum
    padded = d * alpha * (n + k - alpha) - sum(a * (n + k - a) for a in digit_sizes(params, n))
    return Counter(mults=3 * d * alpha - n, conversions=padded)


def sums_are_additions(params: CkksParameters) -> Counter[str]:
    """It counts the additions that sum up d products with a key; ours are multiply-adds."""
    return Counter(adds=2 * (params.num_q + params.num_p) * (params.dnum - 1))


def tensor_sum_is_an_addition(params: CkksParameters) -> Counter[str]:
    """a0 b1 + a1 b0: one addition a coefficient, for us the second product's multiply-add."""
    return Counter(adds=params.num_q)


def one_prime_is_copied(params: CkksParameters) -> Counter[str]:
    """A rescale brings the last limb to n - 1 primes: one reduction a coefficient for us, nothing for it."""
    return Counter(conversions=-(params.num_q - 1))


SWITCH = (digits_are_full, sums_are_additions)
DIFFERENCES: dict[str, tuple[Callable[[CkksParameters], Counter[str]], ...]] = {
    "mod_up": (digits_are_full,),
    "key_product": (sums_are_additions,),
    "turned_key_product": (sums_are_additions,),
    "key_switch": SWITCH,
    "rotate": SWITCH,
    "rotate_hoisted": (sums_are_additions,),
    "rescale_polynomial": (one_prime_is_copied,),
    "mult_rescaled": (*SWITCH, tensor_sum_is_an_addition, one_prime_is_copied, one_prime_is_copied),
    "square_rescaled": (*SWITCH, one_prime_is_copied, one_prime_is_copied),
}


def counted(operation: str, params: CkksParameters) -> Counter[str]:
    """What we count, by column."""
    work = OURS[operation](params)
    return Counter(
        transforms=work.limb_transforms,
        conversions=work.bconv_macs // N,
        mults=work.elementwise_mults // N,
        adds=work.elementwise_adds // N,
        moved=work.automorphism_coefficients // N,
        key_limbs=work.key_bytes // LIMB_BYTES,
    )


def expected(operation: str, params: CkksParameters) -> dict[str, int]:
    """What SimFHE has to count if our algebra and the differences above are right."""
    total = counted(operation, params)
    for difference in DIFFERENCES.get(operation, ()):
        for column, more in difference(params).items():
            total[column] += more
    return {column: total[column] for column in COLUMNS}


def theirs(row: dict[str, float]) -> dict[str, float]:
    """A recorded row by our columns: the multiplication before a conversion is one of the others."""
    return {
        "transforms": row["transforms"],
        "conversions": row["bconv_adds"],
        "mults": row["mults"] + row["bconv_mults"] - row["bconv_adds"],
        **{column: row[column] for column in ("adds", "moved", "key_limbs")},
    }


def recorded() -> list[dict[str, str]]:
    with (DATA / "operations.csv").open(newline="") as file:
        return list(csv.DictReader(file))


ROWS = recorded()
CIRCUITS = json.loads((DATA / "circuits.json").read_text())["circuits"]


@pytest.mark.parametrize("dnum", [1, 2, 3, 4])
@pytest.mark.parametrize("operation", sorted({row["operation"] for row in ROWS}))
def test_each_operation_is_counted_as_simfhe_counts_it(operation: str, dnum: int) -> None:
    rows = [row for row in ROWS if row["operation"] == operation and int(row["dnum"]) == dnum]
    assert len(rows) >= 4
    for row in rows:
        params = set_of(int(row["limbs"]), int(row["special"]), dnum)
        assert params.num_p == params.digit_limbs + 1
        numbers = {name: float(text) for name, text in row.items() if name != "operation"}
        assert theirs(numbers) == expected(operation, params), row


@pytest.mark.parametrize("circuit", CIRCUITS, ids=[c["name"].split(",")[1].strip() for c in CIRCUITS])
def test_a_whole_bootstrapping_adds_up_to_simfhe_s_totals(circuit: dict) -> None:
    total: Counter[str] = Counter()
    for operation, limbs, special, count in circuit["calls"]:
        alpha = -(-limbs // circuit["dnum"])
        params = set_of(limbs, special or alpha + 1, circuit["dnum"], KeyForm(circuit["key_form"]))
        for column, number in expected(operation, params).items():
            total[column] += count * number
    assert dict(total) == theirs(circuit["totals"])
    assert total["transforms"] > 8000
    assert total["key_limbs"] > 20000


def test_the_key_of_an_inner_product_has_the_bytes_that_simfhe_reads() -> None:
    row = next(r for r in ROWS if (r["operation"], r["limbs"], r["dnum"]) == ("key_product", "36", "3"))
    assert int(row["key_limbs"]) * LIMB_BYTES == set_of(36, 13, 3).key_bytes() == 86_704_128


def test_a_transform_is_counted_without_the_roots_that_simfhe_makes_on_the_fly() -> None:
    for row in ROWS:
        limbs = int(row["transforms"])
        roots = 1.5  # N powers of psi and N/2 twiddle factors
        assert float(row["transform_mults"]) == limbs * (TRANSFORM_MEASURES["butterflies"](N) / N + roots)
        assert float(row["transform_adds"]) == limbs * 2 * TRANSFORM_MEASURES["butterflies"](N) / N


@pytest.mark.parametrize("limbs", [24, 12])
def test_below_the_top_simfhe_splits_anew_and_we_keep_the_digits(limbs: int) -> None:
    """At fewer limbs it takes d digits of ceil(n / d) limbs and as many special limbs and one; libraries and
    accelerators keep alpha and P, since a key is made once. So its digits do not grow fewer, and ours do."""
    top = set_of(36, 13, 3)
    row = next(r for r in ROWS if (r["operation"], int(r["limbs"]), r["dnum"]) == ("key_product", limbs, "3"))
    assert int(row["key_limbs"]) == 2 * 3 * (limbs + limbs // 3 + 1)
    assert key_product(top, limbs).key_bytes == 2 * (limbs // 12) * (limbs + 13) * LIMB_BYTES
    assert key_product(top, limbs).key_bytes < int(row["key_limbs"]) * LIMB_BYTES

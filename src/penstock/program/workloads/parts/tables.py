"""What queries over encrypted tables of a code and a value a slot share: the table, its sums, and their check."""

from __future__ import annotations

import numpy as np

from penstock.base.arrays import Floats
from penstock.program.database.filtering import FilterScan, JoinScan, unit_of_codes
from penstock.program.database.matching import MatchPlan
from penstock.program.database.ranking import RankPlan
from penstock.program.database.ssc import SscPlan, SscScan
from penstock.program.evaluator.protocol import Ciphertext, Evaluator, Values
from penstock.program.workloads.parts.check import Check

TOLERANCE = 1e-4
"""Of a sum of values within [0, 1], or of their products, and of a count."""


def encrypted_table(
    ev: Evaluator, column: str, codes: Floats, values: Floats, categories: int
) -> list[tuple[Ciphertext, Ciphertext]]:
    """Pairs of ciphertexts, codes and values; `column` names the codes."""
    slots, unit = ev.params.slots, unit_of_codes(categories)
    parts = range(0, len(codes), slots)
    with ev.scope("load"):
        left = [ev.encrypt(codes[at : at + slots] / unit, name=f"database[{column},{at}]") for at in parts]
        right = [ev.encrypt(values[at : at + slots], name=f"database[value,{at}]") for at in parts]
    return list(zip(left, right, strict=True))


def sum_and_count(
    ev: Evaluator, scan: FilterScan | JoinScan, table: list[tuple[Ciphertext, Ciphertext]], rows: int, *, zero: bool
) -> Floats:
    """The two sums of a scan over a table of so many rows, (2,).

    Args:   zero: whether code 0 is asked for. The rows that fill up the last ciphertext have code 0 and value 0: the
            client knows how many they are.
    """
    for pair in table:
        scan.absorb(pair)
    sums = scan.finish()
    with ev.scope("output"):
        shown = np.array([float(np.real(ev.decrypt(total))[0]) for total in sums])
    return shown - np.array([0.0, len(table) * ev.params.slots - rows if zero else 0.0])


def check_sums(clear: Floats, got: Floats, exact: tuple[float, float], count: str) -> Check:
    """Sum and count near the clear ones, and these near numpy's; `count` names the second number."""
    reference = float(np.max(np.abs(np.array(exact) - clear)))
    others = {"the clear reading equals numpy's to 1e-6": reference <= 1e-6}
    numbers = {"sum": float(got[0]), count: float(got[1])}
    return Check.near("sum and count", clear, got, TOLERANCE, others, numbers)


def scored(ev: Evaluator, plan: SscPlan, stored: list[Ciphertext], query: Floats) -> Floats:
    """The scores of an encrypted query against a stored database."""
    scan = SscScan(ev, plan, query)
    with ev.scope("scan"):
        for ciphertext in stored:
            scan.absorb(ciphertext)
    with ev.scope("output"):
        return plan.scores([ev.decrypt(answer) for answer in scan.finish()])


def stored_objects(ev: Evaluator, plan: SscPlan | MatchPlan | RankPlan, rows: Values) -> list[Ciphertext]:
    """The ciphertexts of a database, each at the limbs of the plan."""
    with ev.scope("load"):
        return [
            ev.mod_drop(ev.encrypt(plan.packed(rows, n), name=f"database[{n}]"), plan.object_limbs)
            for n in range(plan.num_objects)
        ]

from __future__ import annotations

from itertools import pairwise

import pytest

from penstock.scheme.params.security import GUIDELINES_2024, LEVELS, OPENFHE, SecurityTable, security_level


@pytest.mark.parametrize(
    ("ring_dim", "bounds"),
    [(2**12, (106, 73, 56)), (2**15, (868, 597, 462)), (2**16, (1747, 1199, 929)), (2**17, (3523, 2411, 1866))],
)
def test_a_modulus_at_the_bound_keeps_its_level_and_one_bit_more_loses_it(
    ring_dim: int, bounds: tuple[int, ...]
) -> None:
    below = (0, *LEVELS)
    for index, bound in enumerate(bounds):
        assert security_level(ring_dim, bound)[0] == LEVELS[index]
        assert security_level(ring_dim, bound + 1)[0] == below[index]


def test_the_note_names_edition_bound_and_secret() -> None:
    level, note = security_level(2**16, 1692)
    assert level == 128
    for words in ("logQP 1692", "N=65536", "1747", "2024", "ePrint 2024/463", "classical", "uniform-ternary"):
        assert words in note


def test_an_insecure_modulus_is_called_insecure_with_the_bound_that_it_exceeds() -> None:
    assert security_level(2**12, 107) == (0, security_level(2**12, 107)[1])
    assert security_level(2**12, 107)[1].startswith("insecure: logQP 107 at N=4096 exceeds 106")


def test_the_smallest_ring_offers_no_level_above_128() -> None:
    assert security_level(2**10, 1)[0] == 128
    assert GUIDELINES_2024.max_log_qp(2**10, 192) is None


def test_a_ring_outside_the_table_keeps_no_level() -> None:
    assert security_level(2**9, 1)[0] == 0
    assert security_level(2**18, 1)[1].startswith("insecure: logQP 1 at N=262144 is outside")


def test_sparse_secrets_are_not_covered_by_the_ternary_table() -> None:
    level, note = security_level(2**16, 100, "sparse-ternary")
    assert level == 0
    assert "covers uniform-ternary secrets, not sparse-ternary" in note


def test_a_sparse_secret_over_the_bound_of_a_dense_one_is_insecure() -> None:
    assert security_level(2**16, 1747, "sparse-ternary")[1].startswith("no level stated")
    assert security_level(2**16, 1748, "sparse-ternary")[1].startswith("insecure")


@pytest.mark.parametrize("table", [GUIDELINES_2024, OPENFHE], ids=lambda table: table.name)
def test_longer_moduli_need_larger_rings_and_keep_lower_levels(table: SecurityTable) -> None:
    for level in LEVELS:
        bounds = [b for n in sorted(table.bounds) if (b := table.max_log_qp(n, level)) is not None]
        assert all(small < large for small, large in pairwise(bounds))
    for bounds_of in table.bounds.values():
        ordered = [bounds_of[level] for level in LEVELS if level in bounds_of]
        assert ordered == sorted(ordered, reverse=True)


def test_the_guidelines_bound_about_doubles_with_the_ring() -> None:
    # A cell that was copied wrongly would stand out: every step of every column is a factor of 2.00 to 2.12.
    for level in LEVELS:
        bounds = [b for n in sorted(GUIDELINES_2024.bounds) if (b := GUIDELINES_2024.max_log_qp(n, level)) is not None]
        assert all(2.0 <= large / small <= 2.12 for small, large in pairwise(bounds))


def test_openfhe_admits_longer_moduli_up_to_2_to_the_15_and_the_same_above() -> None:
    for ring_dim in GUIDELINES_2024.bounds:
        for level in LEVELS:
            guideline, openfhe = (t.max_log_qp(ring_dim, level) for t in (GUIDELINES_2024, OPENFHE))
            assert openfhe is not None
            if guideline is not None:
                assert openfhe > guideline if ring_dim <= 2**15 else openfhe == guideline


def test_the_two_tables_are_told_apart_by_name() -> None:
    assert {GUIDELINES_2024.name, OPENFHE.name} == {"security guidelines 2024", "OpenFHE 1.6"}
    assert security_level(2**15, 875)[0] == 0
    assert security_level(2**15, 875, table=OPENFHE)[0] == 128

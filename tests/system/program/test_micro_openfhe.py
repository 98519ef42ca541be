"""Logistic function, sign evaluation, chi-square, encrypted: how far from the clear result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from penstock.program.running.clear import run_clear
from penstock.program.running.openfhe import record_openfhe
from penstock.program.running.reading import resolve
from penstock.program.workloads import chi_square


@pytest.mark.parametrize(
    ("name", "bound"), [("logistic-function", 1e-5), ("sign-evaluation", 1e-5), ("chi-square", 1e-4)]
)
@pytest.mark.usefixtures("openfhe")
def test_encrypted_results_are_within_a_stated_bound_of_clear(name: str, bound: float) -> None:
    workload, size_name, params = resolve(name, None, "ci")
    size = workload.SIZES[size_name]
    data = workload.data(size, params.slots, 11)
    clear = run_clear(name, params, size_name, 11, data)
    check = workload.check(clear, record_openfhe(name, params, size_name, 11, data, threads=1).result, data, size)
    assert check.passed, check.rules
    # Ten times below the tolerance that a run must keep.
    assert check.max_abs_error <= bound


@pytest.mark.usefixtures("openfhe")
def test_chi_square_runs_encrypted_on_a_users_file(tmp_path: Path) -> None:
    generator = np.random.default_rng(2)
    genotypes = generator.binomial(2, 0.3, (24, 6))
    lines = ["sample,phenotype," + ",".join(f"rs{i}" for i in range(6))]
    lines += [f"s{i},{i % 2}," + ",".join(map(str, row)) for i, row in enumerate(genotypes)]
    path = tmp_path / "mine.csv"
    path.write_text("\n".join(lines))
    workload, size_name, params = resolve("chi-square", None, "ci")
    size = workload.SIZES[size_name]
    data = chi_square.data(size, params.slots, 0, path)
    clear = run_clear("chi-square", params, size_name, 0, data)
    seen: list[tuple[int, int]] = []
    done = record_openfhe("chi-square", params, size_name, 0, data, threads=1, on_operation=lambda *at: seen.append(at))
    got = done.result
    assert seen[-1] == (len(done.trace), len(done.trace))  # the total is that of the file's people
    assert got.shape == (2, 6)
    assert chi_square.check(clear, got, data, size).passed

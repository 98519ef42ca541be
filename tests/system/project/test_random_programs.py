"""A few random programs in all readings; `make faults` checks many."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from faults.programs import check, draw_program, missed, program_report
from penstock.scheme.params.ckks import Scaling

PROGRAMS = 16
"""Of each scaling rule."""


@pytest.mark.parametrize("scaling", Scaling)
@pytest.mark.usefixtures("openfhe")
def test_random_programs_have_openfhes_words_one_trace_and_the_predicted_precision(scaling: Scaling) -> None:
    for seed in range(PROGRAMS):
        outcome = check(draw_program(seed, scaling))
        assert outcome.ciphertexts
        assert not outcome.faults, program_report(outcome)
        if missed(outcome):
            # Keys are new in each run, and a rare one is noisier than all draws. A wrong model errs with every key.
            outcome = check(draw_program(seed, scaling))
        assert not missed(outcome), program_report(outcome)


@pytest.mark.usefixtures("openfhe")
def test_random_programs_of_degenerate_sizes_have_their_clear_values_or_one_refusal() -> None:
    # A process of its own: each program runs in a fork, and a process that has computed with OpenFHE is not forked.
    bench = [sys.executable, str(Path(__file__).parents[2] / "faults"), "degenerate", "--count", "24", "--jobs", "1"]
    done = subprocess.run(bench, capture_output=True, text=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
    assert done.returncode == 0, done.stdout + done.stderr

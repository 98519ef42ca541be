"""A few random programs in all readings; `make faults` checks many."""

from __future__ import annotations

import pytest

from faults.programs import check, draw_program, missed, program_report
from penstock.params.ckks import Scaling

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

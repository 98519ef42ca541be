"""Rows of the storage-I/O study about assumptions: messages, divisors and peaks, on one bootstrapping."""

from __future__ import annotations

import numpy as np
import pytest

from penstock.lab.simulation.cluster.collectives import AllGather, Broadcast
from penstock.program.running import trace_workload
from penstock.scheme.machines import load_machines
from penstock.scheme.operations import OpKind
from penstock_studies.io_study.cluster_variants import (
    BASE,
    EVERYONE,
    FROM_BOTH_ENDS,
    ONE_HOSTS_COMPUTE,
    Change,
    parts,
    speedup,
)
from penstock_studies.io_study.law import rplp_divisor
from penstock_studies.io_study.messages import (
    communication_rows,
    halved_mod_down,
    messages_s,
    no_broadcast,
)
from penstock_studies.io_study.model import StudyProgram
from penstock_studies.io_study.reads import Reads, peak_demand

PLACE = ("pcie5", "ethernet-400")


@pytest.fixture(scope="module")
def program() -> StudyProgram:
    """A bootstrapping in the place of an application."""
    trace = trace_workload("bootstrapping", "sharp", "accelerator", 0)
    return StudyProgram("sharp", "resnet20", load_machines(["sharp"])[0], trace)


def test_a_peak_is_bytes_over_transforms_at_the_datasheets_rate(program: StudyProgram) -> None:
    """A limb of 2^16 words of 36 bits and 64 cycles: 4608 bytes a cycle, times 2b/(b + 2)."""
    assert [peak_demand(program, digits) for digits in (1, 2, 3)] == pytest.approx([3072e9, 4608e9, 5529.6e9])


def test_no_key_switch_asks_for_more_than_the_peak(program: StudyProgram) -> None:
    assert Reads(program).steepest(True) < peak_demand(program, 3)


def test_the_peak_of_a_program_is_that_of_its_key_switches(program: StudyProgram) -> None:
    reads = Reads(program)
    assert reads.program.priced.demand_bytes_per_s < reads.peak() < peak_demand(program, 3)
    by_digits = np.bincount(-(-reads.limbs // 12), weights=program.priced.access_bytes)[1:]
    seconds = sum(each / peak_demand(program, digits) for digits, each in enumerate(by_digits, 1))
    assert reads.peak() == pytest.approx(by_digits.sum() / seconds)


def test_a_divisor_is_that_of_the_limbs_read(program: StudyProgram) -> None:
    reads = Reads(program)
    assert reads.divisor(cut=False, active_only=False) == pytest.approx(rplp_divisor(35, 12, 32))
    reads.limbs = np.asarray([25, 25])
    assert reads.divisor(cut=True, active_only=True) == pytest.approx(rplp_divisor(25, 12, 32))
    # 2 b (n + k) limbs of each: 2 * 1 * 19 of 7 limbs, 2 * 3 * 47 of 35, over what the busiest host has of them.
    reads.limbs = np.asarray([7, 35])
    assert reads.divisor(cut=True, active_only=True) == pytest.approx((38 + 282) / (2 * 2 + 6 * 3))
    assert reads.divisor(cut=True, active_only=False) == pytest.approx((114 + 282) / (6 * 2 + 6 * 3))


def test_messages_by_shape_are_those_of_the_played_cluster(program: StudyProgram) -> None:
    played = program.result(*PLACE, 32).communication_s
    assert messages_s(program, lambda kind, exchanged: exchanged) == pytest.approx(played, rel=1e-9)
    rows = {each["policy"]: each["first_principles"] for each in communication_rows(program)}
    assert rows["base"] == pytest.approx(played / program.priced.ideal_s)
    assert rows["no-moddown"] < rows["one-moddown-polynomial"] < rows["rescale-free"] < rows["base"] < rows["all-hosts"]
    assert rows["base"] - rows["one-moddown-polynomial"] == pytest.approx(
        rows["one-moddown-polynomial"] - rows["no-moddown"]
    )


def test_changes_take_away_what_they_say() -> None:
    gather, dropped = AllGather((0, 1), (8, 4)), Broadcast((0, 1), 0, 8)
    assert no_broadcast(OpKind.ROTATE, (dropped, gather)) == (gather,)
    assert halved_mod_down(OpKind.ROTATE, (gather, gather)) == (gather, AllGather((0, 1), (4, 2)))
    assert halved_mod_down(OpKind.DECOMPOSE, (gather,)) == (gather,)


def test_parts_of_a_changed_cluster_add_up(program: StudyProgram) -> None:
    assert speedup(program, *PLACE, BASE) == pytest.approx(program.speedup(*PLACE, 32))
    compute_s, io_s, messages = parts(program, *PLACE, 32, BASE)
    whole_s, same_io, same_messages = parts(program, *PLACE, 32, ONE_HOSTS_COMPUTE)
    assert (whole_s, same_io, same_messages) == pytest.approx((program.priced.ideal_s, io_s, messages))
    assert whole_s > 8 * compute_s
    twice = Change("twice", "twice the loads", loads={"resnet20": 2.0, "helr": 5.0}, messages=3.0)
    assert parts(program, *PLACE, 32, twice) == pytest.approx((compute_s, 2 * io_s, 3 * messages))
    everyone = parts(program, *PLACE, 32, EVERYONE)
    assert everyone[:2] == pytest.approx((compute_s, io_s))
    assert everyone[2] > messages
    opposed = parts(program, *PLACE, 32, FROM_BOTH_ENDS)
    assert opposed[1] < io_s
    assert opposed[2] == pytest.approx(messages)

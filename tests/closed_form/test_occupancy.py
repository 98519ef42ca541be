"""How a GPU's time shrinks with hosts: the closed form, and the programs of the storage-I/O study."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from penstock.lab.simulation.cluster.partitions import Together, partition_named
from penstock.lab.simulation.cluster.program import prepare
from penstock.lab.simulation.cluster.shapes import compute_s, parts_of
from penstock.program.running import trace_workload
from penstock.scheme.machines import load_machine
from penstock.scheme.play.price import price_trace
from penstock.scheme.work.kernel_work import KernelWork
from penstock_studies.io_study.occupancy import CHANGES, changed

N = 2**16
HOSTS = (1, 2, 4, 8, 16, 32)


@pytest.mark.parametrize("limbs", [30, 48])
def test_a_transform_dealt_to_hosts_takes_the_closed_form(limbs: int) -> None:
    """p launch + max(p latency, ceil(w/h) bytes / memory, max(ceil(w/h), w*) instructions / integers)."""
    machine = load_machine("a100-cheddar")
    roof, share = machine.gpu.roofline, machine.utilisation.value
    full = 108 * 256 * 8 / N
    for hosts in HOSTS:
        own = -(-limbs // hosts)
        work = KernelWork(ring_dim=N, limb_transforms=own, transform_loops=((own, 1),))
        memory = own * 2 * 2 * N * 4 / (1555e9 * share)
        integers = max(own, full) * 8 * N / 2 * 16 / (108 * 64 * 1.41e9 * share)
        expected = 2 * 0.9e-6 + max(2 * 600 / 1.41e9, memory, integers)
        assert machine.price(work).seconds == pytest.approx(expected)
    assert machine.gpu.least_limbs(N) == pytest.approx(full)
    assert roof.full_points == 108 * 256 * 8


@pytest.fixture(scope="module")
def program():
    trace = trace_workload("bootstrapping", "tensorfhe-resnet20", "accelerator", 0)
    return prepare(trace, load_machine("a100-tensorfhe"), price_trace(trace, load_machine("a100-tensorfhe")))


def test_hosts_divide_gpu_compute_by_less_than_work(program) -> None:
    """Without launches, latency and threads to fill, time follows the busiest host's work; with them it lags."""
    partition = partition_named("rplp-holders")
    assert isinstance(partition, Together)
    parts = [parts_of(program, partition, hosts) for hosts in HOSTS]
    machine = program.machine
    roof = machine.gpu.roofline
    ideal = replace(
        machine,
        gpu=replace(
            machine.gpu,
            roofline=replace(
                roof,
                launch=replace(roof.launch, value=0.0),
                latency=replace(roof.latency, value=0.0),
                threads=replace(roof.threads, value=1e-9),
            ),
        ),
    )

    def divisors(at):
        times = [compute_s(program, each, at) for each in parts]
        return [times[0] / each for each in times]

    found, in_proportion = divisors(machine), divisors(ideal)
    assert found == sorted(found)
    assert all(mine <= theirs * (1 + 1e-9) for mine, theirs in zip(found, in_proportion, strict=True))
    assert found[-1] < 0.95 * in_proportion[-1]
    # Each doubling of hosts gains less than the one before it.
    gains = [b / a for a, b in itertools.pairwise(found)]
    assert gains[-1] < gains[0]


def test_batches_make_up_for_limbs(program) -> None:
    """128 inputs fill launches of one limb, one ciphertext does not."""
    partition = partition_named("rplp-holders")
    assert isinstance(partition, Together)
    one, many = (parts_of(program, partition, hosts) for hosts in (1, 32))
    found = {}
    for name in CHANGES:
        at = changed(program.machine, name)
        found[name] = compute_s(program, one, at) / compute_s(program, many, at)
    assert found["one-ciphertext"] <= found["full-batch"]
    assert found["launches-5-times"] < found["launches-free"]


def test_compute_of_the_same_machine_is_that_of_the_priced_program(program) -> None:
    partition = partition_named("rplp-holders")
    assert isinstance(partition, Together)
    parts = parts_of(program, partition, 1)
    assert compute_s(program, parts, program.machine) == pytest.approx(program.priced.ideal_s, rel=1e-12)

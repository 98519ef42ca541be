"""The storage-I/O study by its own rules: what it prints follows from its demands and divisors."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.lab.simulation.memory.serial_law import serial_slowdown
from penstock_studies.io_study import data
from penstock_studies.io_study.calibrated import (
    BANDWIDTH,
    SHARP,
    TENSORFHE,
    mean_gpu_speedup,
    printed_mean,
)
from penstock_studies.io_study.data import PrintedNumber

CLOSE = 0.01
RESNET20 = ("resnet20", "pcie5", "ethernet-400")


def _single() -> Iterator[tuple[str, PrintedNumber, float]]:
    for application, slowdowns in data.SHARP_SLOWDOWN.items():
        for tier, printed in slowdowns.items():
            yield f"{application}.{tier}", printed, SHARP.slowdown(application, tier)
    for tier, printed in data.SHARP_MEAN_SLOWDOWN.items():
        yield f"mean.{tier}", printed, SHARP.mean_slowdown(tier)
    for tier, printed in data.GPU_MEAN_SLOWDOWN.items():
        yield f"gpu.{tier}", printed, TENSORFHE.mean_slowdown(tier)
    yield "gpu.max", data.GPU_MOST_SLOWDOWN, TENSORFHE.slowdown("helr", "rdma")
    for tier, printed in data.HIT_RATIO.items():
        yield f"hits.{tier}", printed, SHARP.mean_hit_ratio(tier)


def _clusters() -> Iterator[tuple[str, PrintedNumber, float]]:
    for network, speedups in data.SHARP_SPEEDUP.items():
        for tier, printed in speedups.items():
            yield f"sharp.{network}.{tier}", printed, SHARP.mean_speedup(tier, network)
    for network, printed in data.GPU_SPEEDUP.items():
        yield f"gpu.{network}", printed, mean_gpu_speedup(network)
    for name, by in (("sharp", SHARP), ("tensorfhe", TENSORFHE)):
        for hosts, parts in data.BREAKDOWN[name].items():
            for part, printed in parts.items():
                yield f"{name}.{hosts}.{part}", printed, by.shares(*RESNET20, hosts)[part]


ALL = [*_single(), *_clusters()]


@pytest.mark.parametrize(("printed", "got"), [each[1:] for each in ALL], ids=[each[0] for each in ALL])
def test_each_printed_number_follows(printed: PrintedNumber, got: float) -> None:
    error = got / printed.value - 1
    assert abs(error) <= CLOSE or printed.agrees(got), f"{printed.text}: got {got:.5g} ({error:+.2%})"


def test_sharps_cluster_figures_are_met_far_closer_than_asked() -> None:
    errors = {name: got / printed.value - 1 for name, printed, got in _clusters() if name.startswith("sharp.ethernet")}
    errors |= {name: got / printed.value - 1 for name, printed, got in _clusters() if name.startswith("sharp.fast")}
    assert max(abs(error) for error in errors.values()) <= 0.0042, errors


def test_what_the_text_says_of_helr_contradicts_its_slowdowns() -> None:
    for tier, printed in data.SHARP_SLOWDOWN["helr"].items():
        by_text = serial_slowdown(data.BYTES_PER_CYCLE["helr"].value * 1e9, BANDWIDTH[tier])
        assert by_text / printed.value - 1 > 0.10, tier


def test_one_host_neither_divides_nor_talks() -> None:
    times = SHARP.times("helr", "rdma", "ethernet-400", 1)
    assert times.communication_s == 0
    assert times.total_s == pytest.approx(SHARP.slowdown("helr", "rdma"), rel=1e-12)


def test_shares_add_up_and_more_hosts_only_divide_work() -> None:
    before = None
    for hosts in data.HOST_COUNTS:
        times = TENSORFHE.times("resnet20", "pcie5", "ethernet-400", hosts)
        assert sum(TENSORFHE.shares(*RESNET20, hosts).values()) == pytest.approx(1, abs=1e-12)
        if before is not None:
            assert times.compute_s <= before.compute_s
            assert times.io_s < before.io_s
            assert times.communication_s > before.communication_s
        before = times


def test_the_mean_is_of_what_is_printed() -> None:
    assert printed_mean([0.5, 0.25], as_slowdowns=True) == pytest.approx(1 / 3)
    assert printed_mean([0.5, 0.25], as_slowdowns=False) == 0.375


@pytest.mark.parametrize(
    ("printed", "other", "agrees"),
    [
        (PrintedNumber("4.0"), 4.0425, True),
        (PrintedNumber("4.0"), 4.06, False),
        (PrintedNumber("0.3", percent=True), 0.00283, True),
        (PrintedNumber("6.08", inverse=True), 1 / 6.084, True),
        (PrintedNumber("6.08", inverse=True), 1 / 6.01, False),
        (PrintedNumber("22"), 22.4, True),
    ],
)
def test_digits_say_how_exactly_a_number_is_known(printed: PrintedNumber, other: float, agrees: bool) -> None:
    assert printed.agrees(other) is agrees
    assert printed.agrees(printed.value)

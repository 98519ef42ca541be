"""The forecast of a key node against the law that it is made of."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock.lab.instorage.near_data import NearData, Partition

COMPUTED = NearData(
    workload="w",
    params="p",
    host="h",
    architecture="n",
    partition=Partition.KEYED,
    operations=9,
    key_operations=9,
    host_compute_s=1.0,
    near_host_s=0.25,
    near_drive_s=2.0,
    key_bytes=400,
    stored_key_bytes=400,
    crossing_bytes=100,
    crossings=3,
)


@pytest.fixture
def forecast(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """The forecast of the benchmark."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return partial(importlib.import_module("node_forecast").NodeForecast, computed=COMPUTED)


def test_pull_and_near_are_computing_plus_link_plus_handling(forecast: Callable[..., Any]) -> None:
    found = forecast(key_s_per_byte=0.001, ciphertext_s_per_byte=0.002)
    assert found.pull_s(100.0) == pytest.approx(1.0 + 400 / 100 + 0.4)
    assert found.near_s(100.0) == pytest.approx(2.25 + 100 / 100 + 0.2)


def test_both_take_as_long_at_the_crossover(forecast: Callable[..., Any]) -> None:
    found = forecast(key_s_per_byte=0.001, ciphertext_s_per_byte=0.002)
    at = found.crossover_bytes_per_s
    assert at == pytest.approx(300 / (1.25 + 0.2 - 0.4))
    assert at is not None
    assert found.pull_s(at) == pytest.approx(found.near_s(at))
    assert found.pull_s(0.9 * at) > found.near_s(0.9 * at)
    assert found.pull_s(1.1 * at) < found.near_s(1.1 * at)


def test_without_handling_it_is_the_simulators_own(forecast: Callable[..., Any]) -> None:
    found = forecast(key_s_per_byte=0, ciphertext_s_per_byte=0)
    assert found.crossover_bytes_per_s == COMPUTED.crossover_bytes_per_s


def test_sockets_slower_than_the_link_are_the_link(forecast: Callable[..., Any]) -> None:
    found = forecast(key_s_per_byte=0, ciphertext_s_per_byte=0, max_bytes_per_s=200.0)
    assert found.pull_s(1e9) == found.pull_s(200.0)
    # 240 bytes a second would be needed.
    assert found.crossover_bytes_per_s is None


def test_a_node_as_fast_as_the_host_is_never_crossed(forecast: Callable[..., Any]) -> None:
    found = forecast(key_s_per_byte=0.01, ciphertext_s_per_byte=0)
    assert found.crossover_bytes_per_s is None

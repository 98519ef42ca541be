"""Networks between hosts: the catalogue, files of one's own, and what they may not say."""

from __future__ import annotations

import pytest

from penstock.errors import MachineError, UnitError, UnknownName, UsageError
from penstock.scheme.machines import assumed
from penstock.scheme.machines.networks import (
    STUDY_NETWORKS,
    load_network,
    load_networks,
    network_names,
    read_network,
)

GOOD = """
name = "mine"
title = "a network"
[bandwidth]
value = "100 Gb/s"
source = "a datasheet"
kind = "datasheet"
[latency]
value = "1 us"
source = "a guess"
kind = "assumed"
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str):
        path = tmp_path / "mine.toml"
        path.write_text(text)
        return path

    return write


def test_the_two_readings_of_fastfabric_are_two_networks():
    ethernet, decimal, binary = (
        load_network(name).bandwidth_bytes_per_s for name in (*STUDY_NETWORKS, "fastfabric-300-gib")
    )
    assert decimal / ethernet == 6.0
    assert binary / ethernet == pytest.approx(6.442, abs=1e-3)


@pytest.mark.parametrize("name", network_names())
def test_every_network_says_where_each_value_comes_from(name):
    network = load_network(name)
    assert network.name == name
    assert network.bandwidth_bytes_per_s > 0
    assert network.latency_s >= 0
    assert all(len(figure.source) > 20 for _, figure in network.figures())


def test_a_file_of_ones_own_and_a_bandwidth_are_networks(written):
    mine = load_network(written(GOOD))
    assert (mine.bandwidth_bytes_per_s, mine.latency_s, mine.energy_j_per_byte) == (12.5e9, 1e-6, None)
    assert [each["field"] for each in assumed("network", mine.name, mine.figures())] == ["latency"]
    assert load_network("100 Gb/s").bandwidth_bytes_per_s == 12.5e9
    assert load_network("100Gb/s").latency_s == 0


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("100 Gb/s", "100", "has no unit"),
        ("100 Gb/s", "-100 Gb/s", "is negative"),
        ("100 Gb/s", "0 Gb/s", "is zero"),
        ("100 Gb/s", "100 Gbps", "unknown unit"),
        ("100 Gb/s", "300 GB/s (279 GiB/s)", "decimal and binary units"),
        ("1 us", "-1 us", "is negative"),
        ("a guess", " ", "latency has no source"),
        ("assumed", "asumed", "did you mean 'assumed'"),
        ("[latency]", "[latenci]", "did you mean 'latency'"),
        ('name = "mine"', 'name = ""', "name is empty"),
        ('name = "mine"', 'name = "two\\nlines"', "has a line break"),
        ('value = "100 Gb/s"', "value = 100", "a quantity is a string with its unit"),
        ("[bandwidth]", "[bandwidth", "is TOML, and this is not"),
    ],
)
def test_what_a_file_may_not_say_is_named_with_its_field(written, old, new, message):
    with pytest.raises(MachineError, match=message):
        read_network(written(GOOD.replace(old, new, 1)))


def test_unknown_networks_suggest_the_nearest_and_a_bandwidth_needs_a_unit():
    with pytest.raises(UnknownName, match="did you mean 'ethernet-400'"):
        load_network("ethernet400")
    with pytest.raises(UnitError, match="has no unit"):
        load_network("400")


def test_two_networks_of_one_name_cannot_be_told_apart(written):
    with pytest.raises(UsageError, match="two networks are named 'nvlink4'"):
        load_networks(["nvlink4", str(written(GOOD.replace("mine", "nvlink4")))])

"""Levels as a person writes them: what is read, and what is refused by file and field."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import MachineError, PenstockError, SimulationInputError, UnitError, UnknownName, UsageError
from penstock.lab.simulation.memory.levels import Hierarchy, Level, changed
from penstock.lab.simulation.memory.levels_spec import load_hierarchy
from penstock.lab.simulation.memory.residents import Reservation, load_resident, parse_reservation
from penstock.lab.simulation.question import parse_prefetch
from penstock.scheme.machines import load_machine, load_tier
from penstock.scheme.play.caches import Belady, ForcedHitRatio, Lru
from penstock.scheme.play.hierarchy import Prefetch, Rates

SHARP = load_machine("sharp")
FILE = """
[[levels]]
tier = "on-chip"
policy = "belady"
shares = { keys = "40 MB" }

[[levels]]
tier = "hbm2"
name = "memory"
capacity = "40 GB"
reserved = ["opt-13b:4 @ 30 %", "1 GB"]
pinned = ["ciphertexts"]

[[levels]]
tier = "3.5 GB/s"
decode = "0.27 GB/s"
"""


def written(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "levels.toml"
    path.write_text(text)
    return path


def test_a_file_says_every_level(tmp_path):
    got = load_hierarchy(written(tmp_path, FILE), SHARP)
    chip, memory, drive = got.levels
    assert (chip.name, chip.cache, chip.shares) == ("on-chip", Belady(198_000_000), {"key": 40_000_000})
    assert not chip.is_timed
    assert (memory.name, memory.cache, memory.tier) == ("memory", Lru(40_000_000_000), load_tier("hbm2"))
    assert memory.reserved_bytes == load_resident("opt-13b").bytes_for(4) + 10**9
    assert memory.channel.bandwidth_bytes_per_s == pytest.approx(0.7 * 1555e9)
    assert (drive.cache, drive.decode_bytes_per_s, drive.tier.bandwidth_bytes_per_s) == (None, 0.27e9, 3.5e9)
    assert got.pins == {"ciphertext": "memory"}
    assert got.name == "on-chip+memory+3.5 GB/s"


def test_the_example_is_the_papers_case():
    path = Path(__file__).parents[3] / "examples" / "hbm-shared-with-llm.toml"
    hbm = load_hierarchy(path, load_machine("a100-tensorfhe")).levels[1]
    assert hbm.reserved_bytes == pytest.approx((26 + 4 * 1.6) * 2**30, abs=4)
    assert hbm.capacity_bytes is not None
    assert 5e9 < hbm.capacity_bytes - hbm.reserved_bytes < 6e9


def test_a_line_says_names_sizes_and_policies():
    got = load_hierarchy("on-chip:40 MB:belady, hbm2:40 GB, ddr5-5600:hit=0.9, nvme-gen4", SHARP, default_policy="fifo")
    assert [level.name for level in got.levels] == ["on-chip", "hbm2", "ddr5-5600", "nvme-gen4"]
    assert [getattr(level.cache, "policy", None) for level in got.levels] == ["belady", "fifo", None, None]
    assert got.levels[2].cache == ForcedHitRatio(0.9)
    assert load_hierarchy("on-chip,pcie5", SHARP).levels[0].capacity_bytes == SHARP.on_chip_bytes


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('capacity = "40 GB"', "", r"levels.toml: levels\[1\].capacity is missing: only the last level"),
        ('capacity = "40 GB"', 'capacity = "40"', r"levels.toml: levels\[1\].capacity '40' has no unit"),
        ('capacity = "40 GB"', 'capacity = "-40 GB"', r"levels\[1\].capacity '-40 GB' is negative"),
        ('capacity = "40 GB"', 'capacity = "40 GB (37 GiB)"', r"levels\[1\].capacity .* decimal and binary units"),
        ('capacity = "40 GB"', 'capacity = "40 GBit"', "unknown unit 'GBit'"),
        (
            'capacity = "40 GB"',
            "capacity = 40",
            r"'levels\[1\].capacity' is 40: .*a quantity is a string with its unit",
        ),
        ('capacity = "40 GB"', 'capasity = "40 GB"', r"unknown key 'levels\[1\].capasity': did you mean 'capacity'"),
        ('tier = "hbm2"', "", r"'levels\[1\].tier' is missing"),
        ('tier = "hbm2"', 'tier = "hbm22"', "did you mean 'hbm2'"),
        ('policy = "belady"', 'policy = "belaty"', "did you mean 'belady'"),
        ("keys =", "keyz =", r"levels\[0\].shares: class 'keyz': did you mean 'keys'"),
        ('"opt-13b:4 @ 30 %"', '"opt-31b"', "did you mean 'opt-13b'"),
        ('"opt-13b:4 @ 30 %"', '"opt-13b:many"', "'many' is not a number of requests"),
        ('"opt-13b:4 @ 30 %"', '"opt-13b @ 100 %"', "is not a share of the bandwidth"),
        ('["ciphertexts"]', '["ciphertexts", "ciphertexts"]', "live in 'memory' already; pin a class once"),
        ('decode = "0.27 GB/s"', 'decode = "0 GB/s"', r"levels\[2\].decode '0 GB/s' is zero"),
        ('decode = "0.27 GB/s"', 'capacity = "1 TB"', "the last level, '3.5 GB/s', has a size"),
        ('decode = "0.27 GB/s"', 'policy = "lru"', "has no capacity, so nothing is replaced"),
        ('policy = "belady"', "policy = 'lru'\nhit_ratio = 0.5", "leave capacity and policy out"),
        ('policy = "belady"', "hit_ratio = 1.5", "hit ratio 1.5"),
        ("[[levels]]", "[[level]]", "unknown key 'level'|'levels' is missing"),
        ('tier = "on-chip"', "tier = on-chip", "a file of levels is TOML, and this is not"),
    ],
)
def test_a_file_that_breaks_a_rule_is_refused_by_field(tmp_path, old, new, message):
    assert old in FILE
    with pytest.raises(MachineError, match=message) as raised:
        load_hierarchy(written(tmp_path, FILE.replace(old, new)), SHARP)
    assert str(tmp_path) in str(raised.value)
    assert raised.value.exit_code == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "'' is not a level; write NAME:SIZE"),
        ("on-chip,,hbm", "'' is not a level"),
        ("on-chip:1 MB:lru:3,hbm", "is not a level"),
        ("hbm:1 GB", "the last level, 'hbm', has a size"),
        ("hbm,ddr5", "only the last level holds everything; give 'hbm' a size"),
        ("hbm:1 GB,hbm", "two levels are named 'hbm'"),
        ("hbm:hit=much,ddr5", "'hit=much' is not a hit ratio"),
        ("hbm:1 GB:lur,ddr5", "did you mean 'lru'"),
    ],
)
def test_a_line_that_breaks_a_rule_is_refused(text, message):
    with pytest.raises(UsageError, match=message):
        load_hierarchy(text, SHARP)


def test_a_machine_without_on_chip_memory_needs_a_size():
    from dataclasses import replace

    bare = replace(SHARP, on_chip={})
    with pytest.raises(MachineError, match="states no on-chip memory; give a size"):
        load_hierarchy("on-chip,hbm", bare)
    assert load_hierarchy("on-chip:1 MB,hbm", bare).levels[0].capacity_bytes == 10**6


def test_a_missing_file_is_named():
    with pytest.raises(PenstockError, match=r"nowhere.toml"):
        load_hierarchy("nowhere.toml", SHARP)


def test_changes_from_outside_are_added():
    base = load_hierarchy("on-chip,hbm:4 GB,pcie5", SHARP)
    got = changed(
        base,
        pins={"ciphertext": "hbm"},
        shares=[("on-chip", "key", 10)],
        reserves=[("hbm", Reservation(name="x", capacity_bytes=5))],
        decode_bytes_per_s=1e9,
    )
    assert (got.pins, got.levels[0].shares, got.levels[1].reserved_bytes) == ({"ciphertext": "hbm"}, {"key": 10}, 5)
    assert (got.levels[2].decode_bytes_per_s, got.levels[1].decode_bytes_per_s) == (1e9, None)
    with pytest.raises(UnknownName, match="did you mean 'hbm'"):
        changed(base, pins={"key": "hbmm"})
    with pytest.raises(UnknownName, match="unknown level 'ram'"):
        changed(base, reserves=[("ram", Reservation(name="x", capacity_bytes=5))])
    with pytest.raises(SimulationInputError, match="'pcie5' has no capacity to share or reserve"):
        changed(base, shares=[("pcie5", "key", 10)])


def test_levels_that_cannot_be_are_refused():
    tier = Rates(bandwidth_bytes_per_s=1e9)
    with pytest.raises(SimulationInputError, match="name one at least"):
        Hierarchy(())
    with pytest.raises(SimulationInputError, match="leave nothing of its bandwidth"):
        Level(
            name="a",
            cache=Lru(10),
            tier=tier,
            reserved=(
                Reservation(name="x", capacity_bytes=1, bandwidth_share=0.5),
                Reservation(name="y", capacity_bytes=1, bandwidth_share=0.5),
            ),
        )
    with pytest.raises(SimulationInputError, match=r"decode rate 0\.0"):
        Level(name="a", tier=tier, decode_bytes_per_s=0.0)
    with pytest.raises(SimulationInputError, match="the share of 'key' is -1 bytes"):
        Level(name="a", cache=Lru(10), shares={"key": -1})


def test_residents_and_reservations():
    model = load_resident("opt-13b")
    assert model.fixed_bytes == 26 * 2**30
    assert model.bytes_for(4) - model.bytes_for(3) == pytest.approx(1.6 * 2**30, abs=1)
    assert parse_reservation("opt-13b") == parse_reservation("opt-13b:1").__class__(
        name="opt-13b", capacity_bytes=model.bytes_for(1)
    )
    with pytest.raises(UsageError, match="a number of requests is not negative"):
        model.bytes_for(-1)
    with pytest.raises(UnitError, match="has no unit"):
        parse_reservation("10")
    with pytest.raises(UsageError, match="not negative"):
        Reservation(name="x", capacity_bytes=-1)
    with pytest.raises(UsageError, match="less than 1"):
        Reservation(name="x", capacity_bytes=1, bandwidth_share=1.0)


def test_prefetching_as_a_person_says_it():
    assert parse_prefetch("none") == Prefetch(depth=0)
    assert parse_prefetch("next-3", 10) == Prefetch(depth=3, buffer_bytes=10)
    assert str(parse_prefetch("next-3")) == "next-3"
    assert (str(Prefetch(0)), str(Prefetch(None, 2000))) == ("none", "perfect, 2 kB")
    with pytest.raises(UsageError, match="state the buffer's size"):
        parse_prefetch("perfect")
    with pytest.raises(UsageError, match="needs no buffer"):
        parse_prefetch("none", 10)
    with pytest.raises(UnknownName, match="did you mean 'perfect'"):
        parse_prefetch("perfekt", 10)
    with pytest.raises(UsageError, match="prefetch buffer -1"):
        Prefetch(1, -1)

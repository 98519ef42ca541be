"""`penstock ssd space`: area and power that follow the design, budgets, the front, files, and what is refused."""

from __future__ import annotations

import csv
import json
import re
import time
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from penstock.base.system.files import WouldOverwrite
from penstock.errors import MachineError, PenstockError, UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.front.cli.verbs.ssd import space as verb
from penstock.lab.instorage.drive import drive_rates
from penstock.lab.instorage.front import Budget, rounded_up, within
from penstock.lab.instorage.machine import LogicScaling, UnitAccelerator
from penstock.lab.instorage.machine_power import Multiplicity, footprint
from penstock.lab.instorage.machine_scaling import area_and_power, redesigned
from penstock.lab.instorage.machine_spec import from_toml, load_instorage
from penstock.lab.instorage.named import named_query
from penstock.lab.instorage.policies import HOST_POLICIES
from penstock.lab.instorage.queries import Inside
from penstock.lab.instorage.space import Axes, Baseline, explore
from penstock.scheme.machines import load_machine

SMALL = ("--drive", "ssd-s", "--lanes", "64", "--lanes", "128", "--channels-per-accelerator", "4", "--scratchpad",
         "7 MB", "--scratchpad", "42 MB", "--dram-rate", "51.2 GB/s", "--dram-size", "4 GB", "-q")  # fmt: skip


def fheins() -> UnitAccelerator:
    found = load_instorage("fheins")
    assert isinstance(found, UnitAccelerator)
    return found


def written() -> str:
    folder = resources.files("penstock.scheme.machines").joinpath("data").joinpath("instorage")
    return folder.joinpath("fheins.toml").read_text(encoding="utf-8")


def rows(*words: str) -> list[dict[str, Any]]:
    found = CliRunner().invoke(verb.command, [*words, "--format", "json"], catch_exceptions=False)
    assert found.exit_code == 0, found.output
    parsed: list[dict[str, Any]] = json.loads(found.stdout)
    return parsed


def refused(*words: str) -> PenstockError:
    with pytest.raises(PenstockError) as caught:
        CliRunner().invoke(verb.command, [*words], catch_exceptions=False)
    return caught.value


def test_the_published_design_keeps_its_area_and_power() -> None:
    same = redesigned(fheins(), lanes=128, scratchpad_bytes=7_000_000, channels_per_accelerator=4)
    assert same.logic == fheins().logic
    assert area_and_power(fheins(), 128, 7_000_000) == "published"
    assert area_and_power(fheins(), 64, 7_000_000) == area_and_power(fheins(), 128, 7_000_001) == "scaled"


def test_engines_follow_their_lanes_and_scratchpads_both_published_points() -> None:
    """Twice the lanes: twice the engines, twiddles and key generator. 13 MB: Table II's row of the drive."""
    wide = redesigned(fheins(), lanes=256).logic
    for name, row in fheins().logic.items():
        ratio = 2 if row.scales is LogicScaling.LANES else 1
        assert wide[name].watts == pytest.approx(ratio * row.watts)
        assert wide[name].area_mm2 == pytest.approx(ratio * row.area_mm2)
    assert {name for name, row in fheins().logic.items() if row.scales is LogicScaling.LANES} == {
        "ntt", "bconv", "modu", "twiddles", "key_generator",
    }  # fmt: skip
    larger = redesigned(fheins(), scratchpad_bytes=13_000_000).logic["scratchpad_channel"]
    assert (larger.area_mm2, larger.watts) == pytest.approx((2.6, 1.3372))
    half = redesigned(fheins(), scratchpad_bytes=3_500_000).logic["scratchpad_channel"]
    assert half.area_mm2 == pytest.approx(1.46 / 2**0.93221, rel=1e-4)
    assert half.watts == pytest.approx(0.6534 / 2**1.15686, rel=1e-4)
    drive = redesigned(fheins(), scratchpad_bytes=28_000_000).logic["scratchpad_drive"]
    assert drive == fheins().logic["scratchpad_drive"], "the drive-level accelerator keeps its own"


def test_times_fall_with_lanes_and_power_grows_with_accelerators() -> None:
    one, two = (redesigned(fheins(), lanes=lanes) for lanes in (128, 256))
    assert two.machine.units["transforms"].figure.value == 2 * one.machine.units["transforms"].figure.value
    groups = [redesigned(fheins(), channels_per_accelerator=n) for n in (4, 2)]
    few, many = (footprint(each, 16, Multiplicity.ENGINE) for each in groups)
    assert (few.accelerators, many.accelerators) == (4, 8)
    assert many.watts - few.watts == pytest.approx(4 * 8.14638, rel=1e-9)


@pytest.mark.parametrize("part", ["lanes", "scratchpad_bytes", "channels_per_accelerator"])
def test_less_than_one_of_a_part_is_refused(part: str) -> None:
    with pytest.raises(UsageError, match="at least 1"):
        redesigned(fheins(), **{part: 0})
    with pytest.raises(UsageError, match="at most 65536"):
        redesigned(fheins(), lanes=65537)


def test_a_file_says_how_its_rows_scale() -> None:
    with pytest.raises(MachineError, match=r"mine.toml: unknown logic.twiddles.scales 'lane': did you mean 'lanes'"):
        from_toml(written().replace('scales = "lanes"', 'scales = "lane"', 1).encode(), "mine.toml")
    silent = from_toml(re.sub(r'scales = ".*"\n', "", written()).encode(), "mine.toml")
    assert isinstance(silent, UnitAccelerator)
    assert {name for name, row in silent.logic.items() if row.scales is LogicScaling.LANES} == {"ntt", "bconv", "modu"}
    with pytest.raises(UsageError, match='add a row with scales = "scratchpad"'):
        redesigned(silent, scratchpad_bytes=1_000_000)
    alone = from_toml(re.sub(r"\[logic.scratchpad_drive\](.*\n)+", "", written()).encode(), "mine.toml")
    assert isinstance(alone, UnitAccelerator)
    double = redesigned(alone, scratchpad_bytes=14_000_000).logic["scratchpad_channel"]
    assert (double.area_mm2, double.watts) == pytest.approx((2.92, 1.3068)), "one point: in proportion"


def test_ten_thousand_designs_take_seconds() -> None:
    """60 s are asked for."""
    started = time.monotonic()
    found = CliRunner().invoke(verb.command, ["pir", "--batch", "64"], catch_exceptions=False)
    assert time.monotonic() - started < 30
    assert found.exit_code == 0
    assert "11,520 designs, of which" in found.stdout
    assert "meet --max-power 55 W" in found.stdout
    assert "As published, ssd-l: 8 accelerators of 128 lanes and 7 MB" in found.stdout
    assert "74 W, over a budget" in found.stdout
    assert "scaled" in found.stdout


def test_the_front_falls_in_power_as_it_grows_in_time() -> None:
    front = rows("ssc", "-q")
    assert len(front) > 5
    assert [row["query_s"] for row in front] == sorted(row["query_s"] for row in front)
    assert [row["watts"] for row in front] == sorted((row["watts"] for row in front), reverse=True)
    assert all(row["watts"] <= 55 and row["pareto"] and row["within_budgets"] for row in front)
    assert {row["provenance"] for row in front} == {"simulated"}
    # 42 MB hold a key switch: nothing spills, and computing binds at less power than FHEIns' 41.4 W on this drive.
    assert front[0]["scratchpad_bytes"] == 42_000_000
    assert front[0]["bottleneck"] == "compute"
    assert front[0]["watts"] < 41.4


def test_the_front_is_played_page_by_page() -> None:
    """Within 1 %: the formula deals ciphertexts to the accelerators in fractions."""
    for row in rows("ssc", *SMALL, "--play"):
        assert row["played_query_s"] == pytest.approx(row["query_s"], rel=0.01)
    words = ("pir", *SMALL, "--batch", "16", "--pcie", "30 GB/s", "--play")
    assert all(row["played_query_s"] == pytest.approx(row["query_s"], rel=0.01) for row in rows(*words))
    found = CliRunner().invoke(verb.command, ["ssc", *SMALL, "--play"], catch_exceptions=False)
    assert "played" in found.stdout


def test_every_point_is_written_and_an_existing_file_is_kept(tmp_path: Path) -> None:
    path, picture = tmp_path / "points.csv", tmp_path / "front.svg"
    front = rows("ssc", *SMALL, "-o", str(path), "--figure", str(picture))
    with path.open() as file:
        written_rows = list(csv.DictReader(file))
    assert len(written_rows) == 2 * 2 * 3
    assert sum(row["pareto"] == "True" for row in written_rows) == len(front)
    assert {row["area_and_power"] for row in written_rows} == {"published", "scaled"}
    assert picture.read_text().startswith("<?xml")
    before = picture.read_bytes()
    with pytest.raises(WouldOverwrite):
        rows("ssc", *SMALL, "-o", str(path))
    rows("ssc", *SMALL, "--figure", str(picture), "--force")
    assert picture.read_bytes() == before, "the same each time"
    as_json = tmp_path / "points.json"
    rows("ssc", *SMALL, "-o", str(as_json))
    assert len(json.loads(as_json.read_text())) == 12


@pytest.mark.parametrize(
    ("budget", "option"),
    [
        (("--max-power", "1 W"), "--max-power"),
        (("--max-area", "1 mm2"), "--max-area"),
        (("--max-dram-rate", "1 GB/s"), "--max-dram-rate"),
        (("--max-dram-size", "1 GB"), "--max-dram-size"),
    ],
)
def test_a_budget_that_nothing_meets_names_the_nearest_that_works(budget: tuple[str, str], option: str) -> None:
    said = str(refused("ssc", *SMALL, *budget))
    assert said.startswith("none of 12 designs meets")
    found = re.search(rf"the nearest value that works: {option} '(.*)'", said)
    assert found is not None, said
    assert rows("ssc", *SMALL, option, found[1])
    value, unit = found[1].split()
    assert "nearest" in str(refused("ssc", *SMALL, option, f"{float(value) * 0.999} {unit}"))


def test_two_budgets_that_exclude_each_other_name_values_that_work_together() -> None:
    said = str(refused("ssc", *SMALL, "--max-power", "1 W", "--max-area", "1 mm2"))
    power, area = re.findall(r"--max-\w+ '(.*?)'", said)
    assert "together these work" in said
    assert rows("ssc", *SMALL, "--max-power", power, "--max-area", area)


def test_a_value_is_rounded_up_so_that_it_works() -> None:
    for value in (3.5167511, 1e-9, 123456.0, 1.0, 51.2e9, 0.99999):
        assert value <= rounded_up(value) <= value * 1.001
    space = explore(
        named_query("string-match", slot_bits=16),
        Axes(drives=(drive_rates("ssd-s"),)),
        fheins(),
        Baseline(machine=load_machine("sharp"), policy=HOST_POLICIES["batch-overlap"]),
    )
    assert within(space, [Budget(option="x", column="watts", most=41.42, text=str)]).all()


@pytest.mark.parametrize(
    ("words", "kind", "message"),
    [
        (("pri",), UnknownName, "did you mean 'pir'"),
        (("pir", "--architecture", "inspire"), UsageError, "needs functional units: use 'fheins'"),
        (("pir", "--policy", "batch-overlp"), UnknownName, "did you mean 'batch-overlap'"),
        (("pir", "--drive", "ssd-x"), UnknownName, "did you mean"),
        (("pir", "--dram-rate", "51.2"), UsageError, "no unit"),
        (("pir", "-o", "points.txt"), UsageError, ".csv or .json"),
        (("pir", "--figure", "front.png"), UsageError, ".svg"),
        (("pir", "--force"), UsageError, "--force replaces a file"),
        (("pir", "--database", "40 TiB"), UsageError, "larger than drive"),
        (("ssc", "--params", "fheins-pri"), UnknownName, "did you mean 'fheins-pir'"),
        (("ssc", "--channels-per-accelerator", "3"), UsageError, "can be built: 'fheins' has one accelerator for 3"),
        (("ssc", "--scratchpad", "10 kB"), UsageError, "can be built: 'fheins': a scratchpad of 10 kB"),
        (("ssc", "--dram-size", "10 MB"), UsageError, "can be built: the DRAM of drive"),
        (("ssc", *(word for n in range(1, 100) for word in ("--dram-rate", f"{n} GB/s")), 
          *(word for n in range(1, 100) for word in ("--lanes", str(n)))), UsageError, "at most 1,000,000"),
    ],
)  # fmt: skip
def test_bad_input_is_refused(words: tuple[str, ...], kind: type[PenstockError], message: str) -> None:
    found = refused(*words)
    assert isinstance(found, kind)
    assert message in str(found)


def test_a_reading_that_counts_rows_once_is_refused() -> None:
    with pytest.raises(UsageError, match="choose per-engine or per-accelerator"):
        explore(
            named_query("ssc", slot_bits=16),
            Axes(drives=(drive_rates("ssd-s"),)),
            fheins(),
            Baseline(machine=load_machine("sharp"), policy=HOST_POLICIES["batch-overlap"]),
            inside=Inside(multiplicity=Multiplicity.DRIVE),
        )


def test_designs_that_cannot_be_built_are_counted(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["ssd", "space", "ssc", *SMALL[:-1], "--scratchpad", "10 kB"]
    assert main(words) == 0
    said = capsys.readouterr().err
    assert "left out: 6 designs: 'fheins': a scratchpad of 10 kB" in said


def test_the_own_design_is_named_with_a_faster_one(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["ssd", "space", "ssc", *SMALL]) == 0
    said = capsys.readouterr().out
    assert "As published, ssd-s: 4 accelerators of 128 lanes and 7 MB" in said
    assert "Faster with no more of anything: 4 accelerators of 64 lanes and 42 MB" in said

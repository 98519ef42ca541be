"""Users of one program on one machine: `simulate --tenants 1..8 --limit 3`."""

from __future__ import annotations

import json
from typing import Any

import pytest

import penstock as ps
from penstock.errors import UnitError, UsageError
from penstock.front.cli.main import main
from penstock.lab.simulation.crowd import Crowd, counts_in, limited, verdict

POINT = ["simulate", "inner-product", "--size", "ci", "--params", "sharp", "--machine", "sharp", "--mode", "overlap"]
LEVELS = ["--levels", "on-chip,hbm:1 GB,nvme-gen5"]


def rows_of(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    assert main([*words, "--format", "json"]) == 0
    found: list[dict[str, Any]] = json.loads(capsys.readouterr().out)
    return found


def test_each_number_of_tenants_is_the_program_with_so_many_others(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, *POINT, *LEVELS, "--tenants", "1..3")
    assert [row["num_tenants"] for row in rows] == [1, 2, 3]
    (alone,) = rows_of(capsys, *POINT, *LEVELS)
    for row in rows:
        others = ["--with", "inner-product"] * (row["num_tenants"] - 1)
        (expected,) = rows_of(capsys, *POINT, *LEVELS, *others)
        for name in ("total_s", "io_s", "compute_s", "io_bytes", "hit_ratio"):
            assert row[name] == expected[name]
        assert row["tenant_slowdown"] == pytest.approx(expected.get("tenant_slowdown", expected["slowdown"]))
        assert row["times_alone"] == row["total_s"] / alone["total_s"]
        assert len(row["tenants"]) == row["num_tenants"]


def test_a_limit_ends_with_the_first_number_that_waits_longer(capsys: pytest.CaptureFixture[str]) -> None:
    rows = rows_of(capsys, *POINT, *LEVELS, "--tenants", "1..64", "--limit", "5")
    *kept, beyond = [row["times_alone"] for row in rows]
    assert max(kept) <= 5 < beyond
    assert main([*POINT, *LEVELS, "--tenants", "1..64", "--limit", "5"]) == 0
    said = capsys.readouterr().out
    assert (
        f"{len(kept)} tenants wait at most 5 times as long as one alone; {len(kept) + 1} wait {beyond:.3g} times"
        in said
    )
    assert f"--tenants {len(kept)}" in said  # what would help: one fewer
    # Several points: until none keeps to the limit.
    tiers = ["--tier", "hbm", "--tier", "pcie5", "--cache", "1 GB"]
    rows = rows_of(capsys, *POINT, *tiers, "--tenants", "2..64", "--limit", "2.5")
    assert {row["num_tenants"] for row in rows} == set(range(2, max(row["num_tenants"] for row in rows) + 1))
    last = [row["times_alone"] for row in rows[-2:]]
    assert min(last) > 2.5 >= min(row["times_alone"] for row in rows[-4:-2])


def test_python_asks_the_same(capsys: pytest.CaptureFixture[str]) -> None:
    words: dict[str, Any] = {"params": "sharp", "size": "ci", "mode": "overlap", "levels": LEVELS[1]}
    found = ps.simulate("inner-product", "sharp", tenants="1..8", limit=3, **words)
    assert [dict(row) for row in found] == rows_of_plain(capsys, "--tenants", "1..8", "--limit", "3")
    assert [row["num_tenants"] for row in ps.simulate("inner-product", "sharp", tenants=[4, 2], **words)] == [2, 4]
    assert ps.simulate("inner-product", "sharp", tenants=2, **words)[0]["num_tenants"] == 2
    assert found.to_arrow()["num_tenants"].to_pylist() == [1, 2, 3, 4]
    assert "times_alone" in str(found)
    assert found.advice(0).rows is not None


def rows_of_plain(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, Any]]:
    rows = rows_of(capsys, *POINT, *LEVELS, *words)
    return [{name: value for name, value in row.items() if name != "assumptions"} for row in rows]


def test_the_verdict_is_about_the_last_that_keeps_to_it() -> None:
    rows = [{"num_tenants": n, "times_alone": x} for n, x in ((2, 1.5), (4, 2.9), (8, 40.0))]
    assert (
        verdict(rows, Crowd((2, 4, 8), limit=3))
        == "4 tenants wait at most 3 times as long as one alone; 8 wait 40 times"
    )
    assert (
        verdict(rows, Crowd((2, 4, 8), limit=1.2)) == "none keeps to 1.2 times as long as one alone: 2 wait 1.5 times"
    )
    assert verdict(rows, Crowd((2, 4, 8), limit=50)).endswith(
        "8 tenants wait at most 50 times as long as one alone, the most that were asked about"
    )


def test_a_limit_may_be_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    words = [*POINT, *LEVELS, "--tenants", "1..64"]
    ends = [row["total_s"] for row in rows_of(capsys, *words[:-1], "1..4")]
    rows = rows_of(capsys, *words, "--limit", f"{ends[2] * 1e3 + 1e-6} ms")
    assert [row["total_s"] for row in rows] == ends
    # One alone waits longer already, and was not asked about.
    (row,) = rows_of(capsys, *words[:-1], "3..8", "--limit", "1 us")
    assert row["num_tenants"] == 3
    crowd = limited((1, 2), "450 ms")
    assert (crowd.limit, crowd.limit_s) == (None, 0.45)
    told = verdict([{"num_tenants": n, "total_s": 0.3 * n, "times_alone": n} for n in (1, 2)], crowd)
    assert told == "1 tenant waits at most 450 ms; 2 wait 600 ms"
    with pytest.raises(UnitError, match="--limit"):
        limited((1,), "450 bananas")


def test_numbers_for_which_there_is_no_room_are_left_out_with_the_reason(capsys: pytest.CaptureFixture[str]) -> None:
    pinned = ["--levels", "on-chip,hbm:1 GB,nvme-gen5", "--pin", "keys=hbm", "--tenants", "1..64"]
    assert main([*POINT, *pinned, "--format", "json"]) == 0
    said = capsys.readouterr()
    fit = len(json.loads(said.out))
    assert 1 < fit < 64
    assert f"{fit + 1} tenants and more are left out: level 'hbm' holds 1 GB" in " ".join(said.err.split())
    assert main([*POINT, *pinned[:-1], "64"]) == 2
    assert "too little for" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "0", "1..", "8..2", "x", "1..9999", "-1", "2,,3", "1.5"])
def test_numbers_that_are_none_are_refused(text: str) -> None:
    with pytest.raises(UsageError, match=r"write '4', '1,2,4' or '1\.\.8'"):
        counts_in(text)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["--limit", "3"], "--limit bounds the wait of tenants: say how many to try, --tenants 1..64"),
        (["--tenants", "2", "--limit", "0.5"], "limit 0.5: give a multiple of the time of a tenant alone"),
        (["--tenants", "2", "--with", "inner-product"], "--tenants are users of one program: leave --with"),
        (["--tenants", "2", "--compare-policies"], "leave --compare-policies or --tenants out"),
        (["--tenants", "2", "--hosts", "2", "--network", "ethernet-400"], "--tenants plays one host"),
        (["--tenants", "2", "--timeline", "x.json"], "--timeline draws one program at one point"),
    ],
)
def test_words_that_do_not_go_with_tenants_are_refused(
    words: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*POINT[:-2], *words]) == 2
    assert says in capsys.readouterr().err

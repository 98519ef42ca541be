"""The explorer's answers: the same numbers as the command line's, states that survive their address, honest stays."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shlex
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.base.runs.folder import RunFolder
from penstock.errors import MachineError, PenstockError, UnitError, UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.front.explorer import drives
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.memo import Memo
from penstock.front.explorer.state import State
from penstock.front.explorer.view import View, ViewColumn
from penstock.front.explorer.views import VIEWS, printing, show
from penstock.front.explorer.views.residency import shown, stays_of
from penstock.lab.fit.measurements import primitive_shape
from penstock.lab.measure.bench.catalogue import PRIMITIVES
from penstock.lab.prediction.importers import load_all
from penstock.lab.prediction.models import fit_penstock, predictable
from penstock.lab.reports.budgets import rows_of as budget_rows
from penstock.lab.reports.space import SCRIPTS
from penstock.scheme.machines import load_machine
from penstock.scheme.machines.written import write_machine
from penstock.scheme.operations import TRAITS
from penstock.scheme.play.accesses import Accesses
from penstock.scheme.play.caches import POLICIES, SizedCache
from penstock.scheme.play.hierarchy import replay
from support.bench_rows import SWEEP, folder_of, points_of, rows_of
from support.explore_site import predictions
from support.fake_run import write_fake_run
from support.imagined_cpu import true_seconds

SMALL = State(workload="bootstrapping", params="sharp", machine="sharp")
POINTS = [
    SMALL,
    replace(SMALL, tier="rdma", hit_ratio=0.9),
    replace(SMALL, tier="3.5 GB/s", mode="overlap", prefetch="perfect", buffer="256 MB"),
    replace(SMALL, hold="cache", cache="256 MB", policy="belady", mode="bound"),
    replace(SMALL, hold="cache", policy="optimal", mode="overlap", prefetch="next-4", classes="keys,ciphertexts"),
    replace(SMALL, hosts=8, network="fastfabric-300"),
    replace(SMALL, hosts=2, partition="by-digit", hold="cache", cache="1 GB"),
    replace(SMALL, machine="ark", params="", workload="inner-product"),
    replace(SMALL, mode="overlap", prefetch="next-2", more=(("decode", "2 GB/s"),)),
    replace(SMALL, tier="hbm", more=(("inside", "schedule"),)),
    replace(SMALL, hold="cache", cache="64 MB", classes="keys,ciphertexts", more=(("write_back", "yes"),)),
    replace(SMALL, hosts=8, more=(("all_gather", "ring"), ("broadcast", "flat"), ("topology", "ring"))),
    replace(SMALL, hosts=4, more=(("sharing", "by-latency"), ("topology", "fat-tree:k=4"))),
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine(Library(runs=Path("no-such-folder")))


def printed(capsys, command: str) -> list[dict[str, object]]:
    """The rows that a command prints."""
    words = shlex.split(command)
    assert words[0] == "penstock"
    assert main([*words[1:], "--format", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    rows = found if isinstance(found, list) else [found]
    return [{name: value for name, value in row.items() if name not in ("assumptions", "schedule")} for row in rows]


@pytest.mark.parametrize("state", POINTS, ids=lambda state: "-".join(state.to_query().values()))
def test_the_command_that_is_shown_prints_the_same_rows(engine, capsys, state):
    view = show(engine, "whatif", state)
    assert printed(capsys, view.command) == json.loads(view.to_json())["rows"]


def test_words_without_a_control_change_the_rows_of_a_page(engine):
    plain = {**show(engine, "whatif", SMALL).rows[0]}
    for more in (("decode", "2 GB/s"), ("inside", "schedule")):
        assert show(engine, "whatif", replace(SMALL, more=(more,))).rows[0]["total_s"] > plain["total_s"]
    eight = replace(SMALL, hosts=8)
    rings = replace(eight, more=(("topology", "ring"),))
    assert show(engine, "whatif", rings).rows[0]["total_s"] != show(engine, "whatif", eight).rows[0]["total_s"]
    with pytest.raises(UsageError, match="schedules the operations of one host"):
        show(engine, "hosts", replace(SMALL, more=(("inside", "schedule"),)))
    with pytest.raises(UsageError, match=r"what is read again: .* give cache=1 GiB"):
        show(engine, "slowdown", replace(SMALL, classes="ciphertexts", more=(("write_back", "yes"),)))


def test_the_levels_view_takes_what_changes_levels(engine):
    more = (
        ("pin", "ciphertexts=hbm"),
        ("reserve", "hbm=1 GB @ 10 %"),
        ("share", "keys=on-chip:40 MB;plaintexts=hbm:1 GB"),
    )
    state = replace(SMALL, levels="on-chip:64 MB,hbm:4 GB,pcie5", more=more)
    view = show(engine, "levels", state)
    found = ps.simulate(
        "bootstrapping", "sharp", params="sharp", levels="on-chip:64 MB,hbm:4 GB,pcie5", pin="ciphertexts=hbm",
        reserve="hbm=1 GB @ 10 %", share=["keys=on-chip:40 MB", "plaintexts=hbm:1 GB"],
    )  # fmt: skip
    (row,) = found.rows
    assert [each["served_bytes"] for each in view.rows] == [each["served_bytes"] for each in row["levels"]]
    assert {each["total_s"] for each in view.rows} == {row["total_s"]}
    assert "--share plaintexts=hbm:1 GB" in view.command.replace("'", "")
    usual = show(engine, "levels", replace(state, levels="", more=more[:1]))
    assert {each["levels"] for each in usual.rows} == {"on-chip+hbm+pcie5"}
    with pytest.raises(UnknownName, match="did you mean 'exclusive'"):
        State.from_query({"inclusion": "exclusiv"})


@pytest.mark.parametrize("name", ["slowdown", "roofline", "hosts", "machines"])
def test_views_of_many_points_print_their_rows_too(engine, capsys, name):
    view = show(engine, name, replace(SMALL, mode="overlap", prefetch="next-2"))
    assert printed(capsys, view.command) == json.loads(view.to_json())["rows"]


@pytest.mark.parametrize(("mode", "order"), [("serial", "round-robin"), ("overlap", "time"), ("bound", "time")])
def test_tenants_are_those_of_the_command_that_is_shown(engine, capsys, mode, order):
    query = {"mode": mode, "hold": "cache", "cache": "256 MB", "interleave": order}
    view = show(engine, "tenants", State.from_query({**SMALL.to_query(), **query}))
    found = printed(capsys, view.command)
    names = ("io_bytes", "total_s", "times_alone", "hit_ratio")
    assert [[row[name] for name in names] for row in view.rows] == [[row[name] for name in names] for row in found]
    assert [row["programs"] for row in view.rows] == [row["num_tenants"] for row in found]
    ends = [row["slowdown"] if mode == "bound" and i == 0 else row["tenant_slowdown"] for i, row in enumerate(found)]
    assert [row["tenant_slowdown"] for row in view.rows] == [
        None if end is None else pytest.approx(end) for end in ends
    ]


def test_a_view_without_a_command_of_its_own_is_printed_by_explore(engine, capsys):
    state = replace(SMALL, cache="128 MB", policy="fifo", first=100, last=500)
    view = show(engine, "residency", state)
    command = printing(Library(), "residency", state)
    assert view.command.replace(" --runs no-such-folder", "") == command
    assert printed(capsys, command) == json.loads(view.to_json())["rows"]


def test_a_drive_answers_as_ssd_scan_does(engine, capsys):
    state = replace(SMALL, drive=drives.names()[0], queue_depth=16)
    view = show(engine, "drive", state)
    row = next(row for row in view.rows if row["queue_depth"] == 16)
    found = printed(capsys, view.command)[0]
    for name in ("bytes_per_s", "mean_latency_s", "p99_latency_s", "bus_busy", "array_busy", "pcie_up_busy"):
        assert row[name] == found[name]
    channels = [row[name] for name in row if name.startswith("channel_")]
    assert channels == found["channel_busy"]
    assert sum(channels) / len(channels) == pytest.approx(row["bus_busy"], rel=1e-12)
    answer = show(engine, "whatif", state)
    assert printed(capsys, answer.command) == json.loads(answer.to_json())["rows"]
    assert float(answer.rows[0]["tier"].removesuffix(" GB/s")) == pytest.approx(row["bytes_per_s"] / 1e9, rel=1e-3)


def test_every_result_names_its_provenance_and_source(engine):
    for name in ("whatif", "slowdown", "hosts", "residency"):
        view = show(engine, name, SMALL)
        numbers = [column for column in view.columns if column.provenance is not None]
        assert numbers
        assert all(column.provenance == "simulated" and "penstock" in column.source for column in numbers)
    compute = next(column for column in show(engine, "whatif", SMALL).columns if column.name == "compute_s")
    assert "SHARP" in compute.source
    assert "calibrated" in compute.source


@given(
    st.builds(
        State,
        tier=st.sampled_from(["hbm", "7 GB/s"]),
        hit_ratio=st.floats(0, 1),
        hosts=st.integers(1, 128),
        policy=st.sampled_from(sorted(POLICIES)),
        hold=st.sampled_from(["ratio", "cache"]),
        first=st.integers(0, 2**53),
        workload=st.text(st.characters(min_codepoint=32), max_size=40),
    )
)
def test_an_address_restores_its_state(state):
    assert State.from_query(state.to_query()) == state


@pytest.mark.parametrize(
    ("query", "reason"),
    [
        ({"tierr": "hbm"}, "did you mean 'tier'"),
        ({"hit_ratio": "nan"}, "between 0 and 1"),
        ({"hit_ratio": "inf"}, "between 0 and 1"),
        ({"hit_ratio": "half"}, "not a number"),
        ({"hosts": "0"}, "between 1 and 128"),
        ({"hosts": "1e9"}, "not a whole number"),
        ({"hosts": "9" * 150}, "the explorer plays 1 to 128"),
        ({"hosts": "9" * 5000}, "at most 200"),
        ({"cache": "12"}, "no unit"),
        ({"policy": "lruu"}, "did you mean 'lru'"),
        ({"classes": ","}, "at least one"),
        ({"mode": "overlap", "prefetch": "next-x"}, "known"),
        ({"prefetch": "perfect", "buffer": ""}, "not a number"),
        ({"first": "-1"}, "not negative"),
        ({"workload": "a\nb"}, "control characters"),
    ],
)
def test_a_wrong_setting_is_refused_with_the_rule(query, reason):
    with pytest.raises(UsageError, match=reason):
        State.from_query(query)


@pytest.mark.parametrize(
    "state",
    [
        replace(SMALL, workload="/etc/passwd"), replace(SMALL, workload="run:../../etc"),
        replace(SMALL, machine="../mine.toml"), replace(SMALL, machine="file:nobody"), replace(SMALL, tier="/dev/zero"),
        replace(SMALL, tier="./tier.toml"), replace(SMALL, hosts=2, network="/dev/zero"),
    ],
)  # fmt: skip
def test_no_address_opens_a_file(engine, state):
    with pytest.raises(UnknownName):
        show(engine, "whatif", state)


def test_a_machine_file_is_offered_beside_the_catalogue(tmp_path, capsys):
    path = tmp_path / "mine.toml"
    write_machine(replace(load_machine("sharp"), name="mine", on_chip={}), path)
    engine = Engine(Library.of(tmp_path / "runs", [path]))
    view = show(engine, "whatif", replace(SMALL, machine="file:mine"))
    assert printed(capsys, view.command) == json.loads(view.to_json())["rows"]
    assert "file:mine" in engine.library.machines()
    with pytest.raises(MachineError, match="give the cache a size"):
        show(engine, "whatif", replace(SMALL, machine="file:mine", hold="cache"))
    other = tmp_path / "other.toml"
    other.write_text(path.read_text())
    with pytest.raises(UsageError, match="both named 'mine'"):
        Library.of(tmp_path / "runs", [path, other])


def test_predictions_are_shown_as_they_were_written(tmp_path, capsys):
    path = predictions(tmp_path / "validated.json")
    engine = Engine(Library.of(tmp_path / "runs", predictions=[path]))
    view = show(engine, "validation", SMALL)
    assert list(view.rows) == json.loads(path.read_text())
    assert printed(capsys, view.command) == list(view.rows)
    for text in ("[" * 100_000, "{}", "[1]", '[{"model": 1}]', "NaN", "\0"):
        path.write_text(text)
        with pytest.raises(UsageError, match="predict validate"):
            show(engine, "validation", SMALL)
    with pytest.raises(UnknownName):
        show(engine, "validation", replace(SMALL, predictions="../x"))


def test_a_bench_run_is_shown_beside_the_machine_that_fits_it(tmp_path, capsys):
    def seconds(point, _):
        kind = PRIMITIVES[point.item].kind
        if kind is None or TRAITS[kind].client:
            return 1e-3
        return true_seconds(primitive_shape(kind, point.params, point.limbs), point.params, point.threads)

    folder = folder_of(tmp_path / "bench", rows_of(points_of(SWEEP.replace(', "chebyshev_series"', "")), seconds))
    engine = Engine(Library(runs=tmp_path))
    view = show(engine, "measured", SMALL)
    assert printed(capsys, view.command) == json.loads(view.to_json())["rows"]
    assert {row["kind"] for row in view.rows} >= {"add", "rescale", "rotate", "relinearize", "mult"}
    assert {(row["limbs"], row["threads"]) for row in view.rows if row["kind"] == "rotate"} > {(2, 1), (2, 2)}
    assert all(row["held_out"] == "no" and row["provenance"] == "predicted" for row in view.rows)
    measurements = [each for each in load_all([folder]) if predictable(each)]
    model = fit_penstock(measurements)
    expected = sorted((each.item, each.seconds, model.predict(each).seconds) for each in measurements)
    assert sorted((row["kind"], row["measured_s"], row["predicted_s"]) for row in view.rows) == expected
    assert engine.timed("bench") is engine.timed("bench")


def test_a_study_of_key_budgets_is_shown_budget_by_budget(tmp_path):
    found = [
        {
            "budget_bytes": size,
            "machine": None,
            "measured_s": 8.0,
            "simulated_s": 6.0,
            "belady_s": 5.0,
            "measured_wait_s": 2.0,
            "simulated_wait_s": 1.0,
            "measured_read_bytes": 9,
            "simulated_read_bytes": 8,
            "belady_read_bytes": 7,
            "key_bytes": 99,
            "read_bytes_per_s": 1e9,
            "read_cpu_s_per_byte": 0.0,
            "computing_share": 1.0,
            "reading_share": 1.0,
            "peak_resident_bytes": 3,
        }
        for size in (10**8, 10**9)
    ]
    with RunFolder.create(tmp_path / "study", {"workload": "w", "params": "p"}) as run:
        run.append_rows("budgets", budget_rows(found))
        run.finish()
    view = show(Engine(Library(runs=tmp_path)), "measured", SMALL)
    assert [(row["kind"], row["measured_s"], row["predicted_s"]) for row in view.rows] == [
        ("total", 8.0, 6.0),
        ("total", 8.0, 6.0),
        ("wait", 2.0, 1.0),
        ("wait", 2.0, 1.0),
    ]
    assert {row["cache_bytes"] for row in view.rows} == {10**8, 10**9}


def test_times_beside_their_simulation_are_found_by_name_and_by_provenance(tmp_path):
    rows = [
        {"quantity": f"{side}_s", "value": value, "unit": "s", "provenance": side, "cache_bytes": size}
        for size, measured_s, simulated_s in ((10**9, 2.0, 1.5), (10**8, 8.0, 9.0))
        for side, value in (("measured", measured_s), ("simulated", simulated_s))
    ]
    rows += [{"quantity": "wait_s", "value": 3.0, "unit": "s", "provenance": p} for p in ("measured", "simulated")]
    rows += [{"quantity": "wall_s", "value": 4.0, "unit": "s", "provenance": "measured"}]  # nothing is said of it
    rows += [{"quantity": "read_bytes", "value": 5.0, "unit": "B", "provenance": p} for p in ("measured", "simulated")]
    with RunFolder.create(tmp_path / "study", {"workload": "w", "params": "p"}) as run:
        run.append_rows("budgets", rows)
        run.finish()
    view = show(Engine(Library(runs=tmp_path)), "measured", SMALL)
    found = [
        (row["kind"], row["cache_bytes"], row["measured_s"], row["predicted_s"], row["error"]) for row in view.rows
    ]
    assert found == [("time", 10**8, 8.0, 9.0, 0.125), ("wait", None, 3.0, 3.0, 0.0), ("time", 10**9, 2.0, 1.5, -0.25)]
    assert {row["provenance"] for row in view.rows} == {"simulated"}
    with RunFolder.create(tmp_path / "plain", {"workload": "w"}) as run:
        run.append_rows("measured", rows[-1:])
    with pytest.raises(UsageError, match="no time with a model's value"):
        show(Engine(Library(runs=tmp_path)), "measured", replace(SMALL, run="plain"))


def test_what_analyze_timed_stands_beside_the_machine_that_was_fitted_to_it(tmp_path):
    write_fake_run(tmp_path / "plain").close()
    view = show(Engine(Library(runs=tmp_path)), "measured", SMALL)
    assert len(view.rows) > 20
    assert all(row["predicted_s"] and abs(row["error"]) < 1 and row["provenance"] == "predicted" for row in view.rows)


def test_a_time_is_compared_with_the_machine_it_was_taken_on_or_with_all(tmp_path):
    def row(side, value, machine, kind):
        return {"quantity": f"{side}_s", "value": value, "unit": "s", "provenance": side, "machine": machine,
                "kind": kind}  # fmt: skip

    rows = [row("measured", 4.0, None, "add"), row("measured", 2.0, "a", "mult")]
    rows += [row("predicted", 3.0, machine, kind) for machine in "ab" for kind in ("add", "mult")]
    with RunFolder.create(tmp_path / "study", {"workload": "w", "params": "p"}) as run:
        run.append_rows("budgets", rows)
    view = show(Engine(Library(runs=tmp_path)), "measured", SMALL)
    assert [(row["kind"], row["machine"], row["error"]) for row in view.rows] == [
        ("add", "a", -0.25),
        ("add", "b", -0.25),
        ("mult", "a", 0.5),
    ]


def compared(tmp_path, left, right):
    """The view of two runs of these rows."""
    for name, rows in (("first", left), ("second", right)):
        with RunFolder.create(tmp_path / name, {"workload": "w", "params": "p"}) as run:
            run.append_rows("stage", [{"unit": "s", **row} for row in rows])
    return show(Engine(Library(runs=tmp_path)), "compare", replace(SMALL, run="first", other_run="second"))


def test_two_runs_are_compared_provenance_by_provenance_and_note_by_note(tmp_path):
    times = [{"quantity": "total_s", "value": v, "provenance": p} for v, p in ((4.0, "measured"), (3.0, "simulated"))]
    fits = [
        {"quantity": "fit_error", "value": v, "provenance": "predicted", "note": n} for n, v in (("a", 2.0), ("b", 1.0))
    ]
    view = compared(tmp_path, [*times, *fits], [*fits[::-1], *times])
    assert [(row["quantity"], row["provenance"], row["note"], row["left"], row["ratio"]) for row in view.rows] == [
        ("total_s", "measured", None, 4.0, 1.0),
        ("total_s", "simulated", None, 3.0, 1.0),
        ("fit_error", "predicted", "a", 2.0, 1.0),
        ("fit_error", "predicted", "b", 1.0, 1.0),
    ]
    assert {"provenance", "note"} <= {column.name for column in view.columns}
    assert view.notes[0].startswith("4 quantities are in both, 0 only in first, 0 only in second")


def test_a_run_that_cannot_be_read_is_passed_over_where_none_is_named(tmp_path):
    row = {"quantity": "wall_s", "unit": "s", "provenance": "measured", "value": 1.0}
    compared(tmp_path, [row], [row])
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "run.json").write_text('{"a":')
    engine = Engine(Library(runs=tmp_path))
    assert engine.library.run_names()[0] == "damaged"
    assert set(show(engine, "compare", SMALL).drawing["runs"]) == {"first", "second"}
    assert show(engine, "compare", replace(SMALL, run="second")).drawing["runs"] == ["second", "first"]
    with pytest.raises(PenstockError, match="damaged"):
        show(engine, "compare", replace(SMALL, run="damaged"))


@pytest.mark.parametrize("gone", [False, True])
@pytest.mark.parametrize("view", ["runs", "run", "compare", "measured"])
def test_a_damaged_stage_is_named_where_its_rows_are_missing(tmp_path, capsys, view, gone):
    timed = {"quantity": "total_s", "unit": "s", "value": 1.0}
    rows = [timed | {"provenance": "measured"}, timed | {"provenance": "simulated"}]
    compared(tmp_path, rows, rows)
    with RunFolder.create(tmp_path / "third", {"workload": "w", "params": "p"}) as run:
        for stage in ("measured", "stage"):
            run.append_rows(stage, rows)
        run.finish()
    command = ["explore", view, *(["run=third"] * (view != "runs")), "--print", "--runs", str(tmp_path)]
    command += ["other_run=first"] * (view == "compare") + ["--format", "json"]
    assert main(command) == 0
    whole = capsys.readouterr()
    assert whole.err == ""
    part = tmp_path / "third" / "stages" / "measured.parquet"
    part.unlink() if gone else part.write_bytes(part.read_bytes()[:-9])
    assert main(command) == 1
    said = capsys.readouterr()
    assert f"penstock: {part} is {'gone' if gone else 'damaged'}" in said.err
    assert "--force" in said.err
    assert json.loads(said.out)  # the rows that are there
    assert main([*command[:-1], "table"]) == 1
    assert view != "runs" or "not all of it can be read" in capsys.readouterr().out


def test_repeats_are_compared_one_by_one_and_a_hit_ratio_that_a_cache_reached_is_no_dimension(tmp_path):
    def row(value, **where):
        return {"quantity": "total_s", "value": value, "provenance": "simulated", **where}

    def side(factor):
        return [
            row(2.0 * factor, cache_bytes=8, policy="lru", hit_ratio=0.5 * factor),
            row(3.0 * factor, policy="forced", hit_ratio=0.25),
            row(4.0 * factor, policy="forced", hit_ratio=0.5),
            *(row(v * factor, note=f"{v * factor} calls") for v in (5.0, 6.0)),
        ]

    view = compared(tmp_path, side(1), side(2))
    assert [(row["left"], row["ratio"], row["hit_ratio"]) for row in view.rows] == [
        (2.0, 2.0, None),
        (3.0, 2.0, 0.25),
        (4.0, 2.0, 0.5),
        (5.0, 2.0, None),
        (6.0, 2.0, None),
    ]
    with pytest.raises(UsageError, match="'first' on both sides"):
        show(Engine(Library(runs=tmp_path)), "compare", replace(SMALL, run="first", other_run="first"))


def test_the_newest_run_is_the_one_that_was_written_last(tmp_path):
    for at, name in enumerate(("z", "20260101T000000-w", "a")):
        write_fake_run(tmp_path / name).close()
        os.utime(tmp_path / name / "run.json", (at, at))
    engine = Engine(Library(runs=tmp_path))
    assert engine.library.run_names() == ["a", "20260101T000000-w", "z"]
    assert show(engine, "run", SMALL).drawing["run"] == "a"


def test_what_cannot_be_is_said_with_its_remedy(engine):
    with pytest.raises(UnitError):
        show(engine, "whatif", replace(SMALL, tier="3.5"))
    with pytest.raises(UsageError, match="both sides"):
        show(engine, "machines", replace(SMALL, other="sharp"))
    with pytest.raises(UnknownName, match="did you mean 'roofline'"):
        show(engine, "rofline", SMALL)
    for name in ("compare", "measured", "run", "validation", "sweep", "bench"):
        with pytest.raises(PenstockError, match=r"penstock (analyze|predict|sweep|bench)"):
            show(engine, name, SMALL)


def test_the_roofs_bound_every_point(engine):
    drawing = show(engine, "roofline", replace(SMALL, hit_ratio=0.5)).drawing
    assert [point["mode"] for point in drawing["points"]] == ["serial", "overlap", "bound"]
    for point in [*drawing["points"], *drawing["kinds"]]:
        assert point["share"] <= 1 + 1e-12
        assert point["share"] <= drawing["bytes_per_s"] * point["s_per_byte"] * (1 + 1e-9)
    bound = drawing["points"][2]
    assert bound["share"] == pytest.approx(min(1, drawing["bytes_per_s"] * bound["s_per_byte"]))
    assert {kind["kind"] for kind in drawing["kinds"]} <= {"mult", "square", "rotate", "rotate_hoisted", "conjugate"}


@given(
    st.lists(st.lists(st.tuples(st.integers(0, 5), st.integers(1, 9)), max_size=3), min_size=1, max_size=40),
    st.sampled_from(sorted(POLICIES)),
    st.integers(0, 30),
)
def test_stays_fit_the_cache_and_count_every_access(rows, policy, capacity):
    accesses = Accesses.of(rows)
    loaded = replay(accesses, SizedCache(policy, capacity), detail=True)
    stays = stays_of(accesses, np.ones(len(accesses), dtype=bool), loaded.access_miss_bytes)
    assert stays.uses.sum() == len(accesses)
    assert stays.loaded_bytes.sum() == loaded.miss_bytes
    assert (stays.first <= stays.last).all()
    # Nothing stays over an access that loads all of it.
    for key in np.unique(stays.key):
        own = stays.key == key
        assert (stays.first[own][1:] >= stays.last[own][:-1]).all()


@given(st.lists(st.lists(st.integers(0, 5), max_size=2), min_size=1, max_size=60), st.integers(0, 4))
def test_keys_that_stay_between_operations_never_exceed_the_cache(rows, room):
    accesses = Accesses.of([[(key, 10) for key in row] for row in rows])
    loaded = replay(accesses, SizedCache("lru", 10 * room), detail=True)
    stays = stays_of(accesses, np.ones(len(accesses), dtype=bool), loaded.access_miss_bytes)
    for at in range(len(rows)):
        assert ((stays.first <= at) & (stays.last > at)).sum() <= room


def test_joined_stays_keep_their_sums_and_fit_the_drawing():
    starts = np.arange(0, 1_000_000, 10, dtype=np.int64)
    accesses = Accesses.one_each(np.zeros(1_000_000, dtype=np.int64), np.full(1_000_000, 7))
    missed = np.zeros(1_000_000, dtype=np.int64)
    missed[starts] = 7
    stays = stays_of(accesses, np.ones(1_000_000, dtype=bool), missed)
    assert len(stays) == len(starts)
    drawn = shown(stays, 0, 999_999)
    assert len(drawn) <= 800
    assert drawn.uses.sum() == 1_000_000
    assert drawn.loads.sum() == len(starts)
    assert drawn.loaded_bytes.sum() == missed.sum()
    near = shown(stays, 500, 599)
    assert len(near) == 10
    assert (near.loads == 1).all()


def test_a_result_is_made_once_and_an_error_is_not_kept():
    memo, made = Memo[int](2, most_bytes=10**6), []

    def make(value: int) -> int:
        made.append(value)
        if value < 0:
            raise UsageError("negative")
        return value

    assert [memo.get(key, lambda key=key: make(key)) for key in (1, 2, 1, 3, 2)] == [1, 2, 1, 3, 2]
    assert made == [1, 2, 3, 2]  # 2 made room for 3
    for _ in range(2):
        with pytest.raises(UsageError):
            memo.get(-1, lambda: make(-1))
    assert made[-2:] == [-1, -1]


def test_tables_are_plain_csv_that_no_spreadsheet_runs():
    view = View(
        name="x",
        title="x",
        columns=[ViewColumn(name="a", label="a"), ViewColumn(name="b", label="b")],
        rows=[{"a": "=cmd()", "b": float("nan")}, {"a": 'say "hi", <b>', "b": np.float64(1.5)}],
    )
    rows = list(csv.reader(io.StringIO(view.to_csv().decode())))
    assert rows == [["a", "b"], ["'=cmd()", ""], ['say "hi", <b>', "1.5"]]
    assert json.loads(view.to_json())["rows"][0]["b"] is None


def test_asked_twice_a_row_is_the_same_object(engine):
    asked = Asked.of(SMALL)
    assert engine.play(asked)[0] is engine.play(asked)[0]


def test_the_page_names_all_its_modules_so_that_they_load_together():
    static = Path(__file__).parents[3] / "src/penstock/front/explorer/static"
    pages = {"main.js", "service.js"}
    for page_name, used in (
        ("index.html", {path.name for path in static.glob("*.js")} - pages | set(SCRIPTS)),
        ("service.html", set(re.findall(r'from "./(\w+\.js)"', (static / "service.js").read_text()))),
    ):
        page = (static / page_name).read_text()
        assert all(f'<link rel="modulepreload" href="/static/{name}">' in page for name in used)
        assert page.count("modulepreload") == len(used) > 4


def test_every_view_is_in_the_menu_of_the_page():
    page = (Path(__file__).parents[3] / "src/penstock/front/explorer/static/main.js").read_text()
    assert all(f"{name}:" in page for name in VIEWS)

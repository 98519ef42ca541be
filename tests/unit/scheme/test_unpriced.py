"""Totals of which a part has no price: `None` with a lower bound, and never a zero or a value."""

from __future__ import annotations

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import penstock as ps
from penstock.errors import TraceError, UsageError
from penstock.front.cli.main import main
from penstock.front.explorer.engine import Engine
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import State
from penstock.front.explorer.views import show
from penstock.lab.instorage.machine_spec import load_instorage
from penstock.lab.instorage.near_data import near_data
from penstock.lab.prediction.prediction import predict
from penstock.lab.rewriting.compare import Version, compare
from penstock.lab.simulation.crowd import Crowd, verdict
from penstock.lab.simulation.memory.locality import locality_table
from penstock.lab.simulation.play import answers, answers_among
from penstock.lab.simulation.servers.rows import application_of
from penstock.lab.simulation.worded import clusters_of, question_in
from penstock.lab.simulation.words import KEYS, Words
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.package.content import ConstantsInMemory
from penstock.program.package.heracles import package_of_heracles
from penstock.scheme.machines import load_machine, load_tier
from penstock.scheme.machines.datapath import Datapath
from penstock.scheme.machines.missing import missing
from penstock.scheme.machines.networks import load_network
from penstock.scheme.machines.written import write_machine
from penstock.scheme.operations import TRAITS, OpKind
from penstock.scheme.play.price import price_trace
from penstock.scheme.traces.export import export, timeline
from penstock.scheme.traces.fhe_benchmarking import result_of
from penstock.scheme.traces.heracles import HeraclesCall, Operand, decode, encode, from_heracles, to_heracles
from penstock.scheme.traces.inspect import summary
from penstock.scheme.traces.io import write_trace
from penstock.scheme.traces.schema import ORIGIN_COMPOSITE, Trace, TraceMeta
from penstock.scheme.unpriced import bounded
from support.examples import at_most
from support.toy import toy

PARAMS = toy(ring_dim=4096, slots=2048)
SHARP = load_machine("sharp")
WHOLE = [kind for kind, traits in TRAITS.items() if traits.composite]
TIMES = {"predicted_s", "predicted_j", "server_s"}


def program(steps: str = "mrapr") -> Trace:
    """Products, rotations, sums, and products with a vector, on two ciphertexts."""
    ev = SymbolicEvaluator(PARAMS)
    a, b = ev.encrypt(np.zeros(4)), ev.encrypt(np.zeros(4))
    for at, step in enumerate(steps):
        if step == "m" and a.state.limbs > 3:
            a = b = ev.rescale(ev.mult(a, b))
        elif step == "r":
            a = ev.rotate(a, 1 + at % 3)
        elif step == "p" and a.state.limbs > 3:
            a = b = ev.rescale(ev.mult(a, ev.encode(np.zeros(4))))
        else:
            a = ev.add(a, a)
    ev.decrypt(a)
    return ev.builder.finish(TraceMeta(workload="hidden", params=PARAMS.to_dict(), reading="trace"))


def hidden(trace: Trace, rows: list[int], kind: OpKind = OpKind.COMPOSITE) -> Trace:
    """The trace with operations of the server, by their place among them, as composites whose inside nobody knows."""
    table = trace.operations.to_pylist()
    server = [i for i, row in enumerate(table) if row["kind"] not in ("encrypt", "decrypt")]
    for at in rows:
        gone = {"kind": kind.value, "origin": ORIGIN_COMPOSITE, "scope": f"Eval[{at}]", "key": None, "plaintext": None}
        table[server[at]] |= gone | {"step": None, "implied_rescales": 0, "implied_scalar_mults": 0}
    return replace(trace, operations=pa.Table.from_pylist(table, schema=trace.operations.schema))


def everything(trace: Trace) -> list[int]:
    return list(range(trace.server_operations().num_rows))


QUESTIONS = {
    "no cache": {},
    "half of the bytes on chip": {"hit_ratio": [0.5]},
    "overlap": {"mode": ["overlap", "bound"]},
    "a cache": {"cache": ["20 MB"], "policy": ["lru", "belady"]},
    "decoding": {"decode": "1 GB/s"},
    "levels": {"levels": ["hbm:20 MB,nvme-gen5"]},
    "all classes": {"classes": ["keys", "plaintexts", "ciphertexts"]},
    "two hosts": {"hosts": "1,2", "network": ["nvlink3"], "partition": ["rplp", "by-tenant"]},
}


def rows_of(trace: Trace, words: dict, beside: tuple[Trace, ...] = ()) -> list[dict]:
    asked = Words(machine=[SHARP], tier=["hbm", "pcie5"], **words)
    clusters = clusters_of(asked, [1, 2], [load_network("nvlink3")]) if "hosts" in words else ()
    question = question_in(asked, clusters, KEYS)
    (found,) = answers(question, SHARP, trace, beside)
    return found.rows


@pytest.mark.parametrize("kind", WHOLE)
def test_the_prediction_of_an_operation_that_nobody_knows_is_null(kind):
    trace = program()
    found = predict(hidden(trace, everything(trace), kind), SHARP)
    assert found.unpriced == {kind.value: len(everything(trace))}
    for name in (*TIMES, "low_s", "high_s", "key_bytes", "key_bytes_touched", "num_keys", "num_operations"):
        assert getattr(found, name) is None, name
    assert found.peak_bytes is found.energy.joules is found.energy.idle_j is None
    assert {found.at_least[name] for name in TIMES} == {None}
    with pytest.raises(UsageError, match=rf"operations '{kind.value}' have no price"):
        _ = found.known_s


def test_what_is_known_of_a_prediction_is_a_lower_bound_of_it():
    trace = program()
    whole, part = predict(trace, SHARP), predict(hidden(trace, [0]), SHARP)
    assert part.predicted_s is part.predicted_j is part.key_bytes is None
    for name in (*TIMES, "key_bytes", "key_bytes_touched", "num_keys", "num_operations"):
        assert 0 < part.at_least[name] < getattr(whole, name), name
    # The rest is priced as without it, and no part is a share of an unknown whole.
    assert part.at_least["predicted_s"] == pytest.approx(sum(each.seconds for each in part.contributions))
    assert {each.share for each in part.contributions} == {None}
    assert whole.unpriced is whole.at_least is None


def test_an_empty_program_takes_no_time():
    found = predict(program(""), SHARP)
    assert (found.predicted_s, found.predicted_j, found.num_operations, found.unpriced) == (0.0, 0.0, 0, None)


@pytest.mark.parametrize("words", QUESTIONS.values(), ids=QUESTIONS)
def test_a_simulation_of_an_operation_that_nobody_knows_is_null(words):
    trace = program()
    for row in rows_of(hidden(trace, everything(trace)), words):
        for name in (
            "compute_s",
            "total_s",
            "io_s",
            "energy_j",
            "slowdown",
            "key_bytes",
            "stored_key_bytes",
            "io_bytes",
        ):
            assert row[name] is None, name
            # Its ciphertexts are known, where they are loaded.
            assert row["at_least"].get(name) is None or "classes" in words, name
        assert row["unpriced"] == {"composite": len(everything(trace))}


@at_most(40)
@given(steps=st.text("mrap", min_size=1, max_size=8), data=st.data(), case=st.sampled_from(sorted(QUESTIONS)))
def test_a_bound_is_never_above_what_the_hidden_operations_come_to(steps, data, case):
    trace = program(steps)
    rows = data.draw(st.lists(st.sampled_from(everything(trace)), min_size=1, unique=True))
    beside = (program("rm"),) if data.draw(st.booleans()) and case != "two hosts" else ()
    known = rows_of(trace, QUESTIONS[case], beside)
    for true, row in zip(known, rows_of(hidden(trace, rows), QUESTIONS[case], beside), strict=True):
        assert row["unpriced"] == {"composite": len(rows)}
        for name, bound in row["at_least"].items():
            assert row.get(name) is None
            if name in true and bound is not None:
                assert bound <= true[name] * (1 + 1e-12), (case, name)
        for name, value in row.items():  # what is stated is true
            if isinstance(value, int | float):
                assert value == true[name], (case, name)
        for tenant, of_true in zip(row.get("tenants") or (), true.get("tenants") or (), strict=True):
            for name in ("compute_s", "finish_s", "slowdown"):
                assert tenant[name] is None or tenant[name] == of_true[name]


def test_tenants_with_an_unknown_part_keep_to_no_limit_and_exceed_none():
    trace = hidden(program(), [0])
    question = question_in(Words(machine=[SHARP], tier=["pcie5"]), (), KEYS)
    for crowd in (Crowd((1, 2, 4), limit=1.5), Crowd((1, 2, 4), limit_s=1e-9)):
        found = answers_among(question, SHARP, trace, crowd)
        assert [count for count, _ in found] == [1, 2, 4]
        rows = [row for _, each in found for row in each.rows]
        assert {row["times_alone"] for row in rows} == {None}
        assert not any(crowd.exceeded(row) for row in rows)
        assert "is unknown: 1 operation 'composite' has no price" in verdict(rows, crowd)


def test_what_rests_on_the_whole_time_is_refused():
    trace = hidden(program(), [0])
    priced = price_trace(trace, SHARP)
    tier = load_tier("pcie5")
    for ask in (
        lambda: application_of(priced, None),
        lambda: locality_table(priced, SHARP, [tier]),
        lambda: compare([Version(passes=(), trace=trace)], SHARP, [tier]),
        lambda: near_data(trace, SHARP, load_instorage("fheins"), key_bytes_per_s=1e9),
    ):
        with pytest.raises(UsageError, match="1 operation 'composite' has no price, so that its time is not known"):
            ask()


def test_advice_ranks_nothing_against_an_unknown_time():
    trace = hidden(program(), [0])
    for found in (ps.predict(trace, SHARP).advice(), ps.simulate(trace, SHARP).advice()):
        assert found.rows == ()
        assert "what it gains is unknown" in " ".join(found.warnings)


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("gone", [False, True], ids=["recorded", "left out"])
def test_no_set_is_suggested_for_a_call_whose_depth_nobody_knows(tmp_path, capsys, kind, gone):
    trace = program("mr") if gone else hidden(program("mr"), [0], kind)
    reading, left_out = ("heracles", {kind.value: 1}) if gone else ("record", {})
    trace = replace(trace, meta=replace(trace.meta, reading=reading, left_out=left_out))
    with pytest.raises(UsageError, match=f"nobody knows the levels of 1 operation '{kind.value}'"):
        ps.suggest(trace, SHARP, ring_dims=[65536], digits=[2])
    file = tmp_path / "t.parquet"
    write_trace(trace, file)
    for form in ("table", "json", "csv"):
        assert main(["predict", "suggest", str(file), "--machine", "sharp", "--format", form]) == 2
        out, said = capsys.readouterr()
        assert not out
        assert "penstock predict run --what-if" in " ".join(said.split())
    state = State(workload="file:t", machine="sharp")
    with pytest.raises(UsageError, match="nobody knows the levels"):
        show(Engine(Library.of(tmp_path, [], [file])), "suggest", state)


def test_sets_on_a_machine_without_a_rate_have_bounds_and_no_best_one(tmp_path):
    bare = replace(SHARP, units={"transforms": SHARP.units["transforms"]})
    found = ps.suggest(program("mr"), bare, ring_dims=[65536], digits=[2, 3])
    assert {row["predicted_s"] for row in found.rows} == {row["s_per_slot"] for row in found.rows} == {None}
    assert all(row["at_least"]["predicted_s"] > 0 for row in found.rows)
    assert {row["depth"] for row in found.rows} == {row["depth"] for row in ps.suggest(program("mr"), SHARP).rows}
    with pytest.raises(UsageError, match=r"are in no order: .* have no price"):
        found.save(tmp_path / "set.toml")


def test_a_machine_without_a_rate_has_no_price_for_what_needs_it():
    trace, bare = program("rr"), replace(SHARP, units={"transforms": SHARP.units["transforms"]})
    found = predict(trace, bare)
    assert found.predicted_s is None
    assert found.unpriced == {"rotate": 2}
    assert 0 < found.at_least["predicted_s"] <= predict(trace, SHARP).predicted_s
    assert found.key_bytes == predict(trace, SHARP).key_bytes  # the inside is known
    (row, *_) = rows_of_machine(trace, bare)
    assert row["total_s"] is row["compute_s"] is row["slowdown"] is None
    assert row["io_s"] > 0
    added = predict(program("aa"), bare)
    assert added.predicted_s is added.at_least["predicted_s"] is None


def rows_of_machine(trace: Trace, machine) -> list[dict]:
    (found,) = answers(question_in(Words(machine=[machine], tier=["pcie5"]), (), KEYS), machine, trace)
    return found.rows


def test_machines_of_which_one_lacks_a_rate_have_the_same_columns():
    bare = replace(SHARP, name="bare", units={"transforms": SHARP.units["transforms"]})
    found = ps.simulate(program(), [SHARP, bare], "pcie5")
    assert [row["total_s"] is None for row in found.rows] == [False, True]
    assert [row.get("unpriced") and row["unpriced"]["rotate"] for row in found.rows] == [None, 2]
    assert found.to_pandas()["total_s"].isna().tolist() == [False, True]


def test_a_summary_does_not_count_the_keys_that_nobody_knows():
    trace = program()
    found = summary(hidden(trace, everything(trace)))
    assert (
        found["num_keys"] is found["key_bytes_unique"] is found["key_bytes_touched"] is found["num_operations"] is None
    )
    assert {each["stored_key_bytes"] for each in found["key_forms"]} == {None}
    part = summary(hidden(trace, [0]))
    assert 0 < part["at_least"]["key_bytes_unique"] < summary(trace)["key_bytes_unique"]
    sizes = ps.sizes(PARAMS, program=hidden(trace, [0]))
    assert sizes.total_key_bytes is None
    assert sizes.report["exactness"]["total_key_bytes"] == "unknown"


VERBS = {
    "predict": ["predict", "run", "--machine", "sharp"],
    "what if": ["predict", "run", "--machine", "sharp", "--what-if", "dnum=1,2"],
    "simulate": ["simulate", "--machine", "sharp"],
    "cache": ["simulate", "--machine", "sharp", "--cache", "20 MB"],
    "levels": ["simulate", "--machine", "sharp", "--levels", "hbm:20 MB,nvme-gen5"],
    "hosts": ["simulate", "--machine", "sharp", "--hosts", "1,2", "--network", "nvlink3"],
    "tenants": ["simulate", "--machine", "sharp", "--tenants", "1,2"],
    "info": ["trace", "info"],
}


@pytest.mark.parametrize("verb", VERBS)
def test_every_format_of_a_verb_says_unknown(tmp_path, capsys, verb):
    trace = program()
    file = tmp_path / "t.parquet"
    write_trace(hidden(trace, everything(trace)), file)
    words = VERBS[verb]
    place = 1 if words[0] == "simulate" else 2
    said = {}
    for form in ("table", "json", "csv"):
        assert main([*words[:place], str(file), *words[place:], "--format", form]) in (0, None)
        said[form] = capsys.readouterr().out
    assert "unknown" in said["table"]
    assert " 0 s" not in said["table"].replace("overhead 0 s", "").replace("  0 s  unknown", "")
    loaded = json.loads(said["json"])
    records = loaded if isinstance(loaded, list) else [loaded]
    cells = list(csv.DictReader(io.StringIO(said["csv"])))
    for record, line in zip(records, cells, strict=True):
        count = len(everything(trace)) * (record.get("num_tenants") or 1)
        assert record["unpriced"] == {"composite": count} == json.loads(line["unpriced"])
        for name in ("predicted_s", "total_s", "compute_s", "key_bytes", "num_keys", "energy_j", "predicted_j"):
            assert record.get(name) is None
            assert line.get(name) in (None, "")


def test_a_row_of_known_parts_stays_as_it_is():
    assert bounded({"total_s": 0.0}, {}, ["total_s"]) == {"total_s": 0.0, "unpriced": None, "at_least": None}


def test_a_trace_taken_to_other_parameters_keeps_what_nobody_knows(tmp_path):
    whole = ps.trace(program(), params="sharp")
    part = ps.trace(hidden(program(), [1]), params="sharp")
    assert part.trace.meta.left_out == {"composite": 1}
    file = tmp_path / "there.parquet"
    part.save(file)
    found = ps.predict(file, SHARP)
    assert (found.seconds, found.unpriced) == (None, {"composite": 1})
    assert 0 < found.at_least["predicted_s"] < ps.predict(whole, SHARP).seconds
    assert {row["total_s"] for row in ps.simulate(file, SHARP)} == {None}
    assert ps.trace(file).num_keys is None
    again = ps.trace(file, params="ark")
    assert again.trace.meta.left_out == {"composite": 1}


def test_a_latency_that_nobody_states_is_named():
    stated = {each["tier"]: each["kind"] for each in ps.simulate(program(), SHARP, ["hbm", "3.5 GB/s"]).assumed
              if each["field"] == "latency"}  # fmt: skip
    assert stated == {"hbm": "assumed", "3.5 GB/s": "missing"}


def test_nothing_helps_a_program_that_takes_no_time():
    for found in (ps.predict(program(""), SHARP).advice(), ps.simulate(program(""), SHARP).advice()):
        assert found.rows == ()
        assert found.advice.now == "0 s"


@pytest.mark.parametrize("kind", WHOLE)
@pytest.mark.parametrize("retraced", [False, True], ids=["as recorded", "at other parameters"])
def test_what_nobody_knows_comes_through_every_format_that_is_read_back(tmp_path, kind, retraced):
    trace = hidden(program(), [1, 3], kind)
    if retraced:
        trace = replace(trace, meta=replace(trace.meta, left_out={kind.value: 3}))
    count = 5 if retraced else 2
    for form, ending in (("heracles", "bin"), ("jsonl", "jsonl")):
        (file, *_), notes = export(trace, tmp_path / f"t.{ending}", form)
        assert form != "heracles" or f"{count} {kind.value}" in notes[0]
        again = tmp_path / f"{form}.parquet"
        command = ["trace", "import", str(file), "--from", form, "-o", str(again)]
        assert main(command) in (0, None)
        found = ps.predict(again, SHARP)
        assert (found.seconds, found.unpriced) == (None, {kind.value: count}), form
        assert 0 < found.at_least["predicted_s"] < ps.predict(program(), SHARP).seconds
        assert ps.trace(again).num_keys is None


@at_most(20)
@given(names=st.lists(st.sampled_from(["Bootstrap", "polyeval", "bk_extend", "bk_rotate", "bk_free", "Encrypt"])))
def test_instructions_that_are_not_read_are_unknown_unless_they_are_bookkeeping(names):
    data, _ = to_heracles(program("mr"))
    made, ciphertext = decode(data), Operand("c", 3, 2)
    made.instructions += [HeraclesCall(name, [ciphertext], [ciphertext] * (name[0] != "b")) for name in names]
    found = predict(from_heracles(encode(made), PARAMS), SHARP)
    # A rotation that is written as bookkeeping has no reading either.
    known = sum(name in ("bk_free", "Encrypt") for name in names)
    assert sum((found.unpriced or {}).values()) == len(names) - known
    assert (found.predicted_s is None) == (len(names) > known)


def test_a_package_is_not_made_of_a_program_with_an_unknown_part(tmp_path):
    trace = program("mr")
    data, _ = to_heracles(replace(trace, meta=replace(trace.meta, left_out={"composite": 1})))
    with pytest.raises(TraceError, match=r"bk_composite.*no call of a package|bk_composite.*a call has some"):
        package_of_heracles(data, b"", ConstantsInMemory(), PARAMS)


def timed(trace: Trace, without: list[int] = ()) -> Trace:
    """The trace with a second for each row, but those."""
    table = trace.operations.to_pylist()
    for at, row in enumerate(table):
        if at not in without:
            row |= {"start_s": float(at), "end_s": at + 1.0}
    return replace(trace, operations=pa.Table.from_pylist(table, schema=trace.operations.schema))


@at_most(30)
@given(data=st.data(), left_out=st.sampled_from([{}, {"composite": 2}]), hides=st.booleans())
def test_a_measured_result_states_no_time_and_no_size_that_misses_a_part(data, left_out, hides):
    trace = hidden(program(), [0]) if hides else program()
    rows = trace.operations["kind"].to_pylist()
    gone = data.draw(st.lists(st.integers(0, len(rows) - 1), unique=True, max_size=len(rows) - 1))
    trace = timed(replace(trace, meta=replace(trace.meta, left_out=left_out)), gone)
    content, notes = result_of(trace)
    result = json.loads(content)
    client = {"encrypt", "decrypt"}
    whole = {
        "Query encryption": "encrypt" not in {rows[at] for at in gone},
        "Encrypted computation": not left_out and {rows[at] for at in gone} <= client,
        "Result decryption and postprocessing": "decrypt" not in {rows[at] for at in gone},
    }
    for name, complete in whole.items():
        assert (name in result["Timing"]) == complete
    assert ("Total" in result["Timing"]) == all(whole.values())
    assert ("Public and evaluation keys" in result["Bandwidth"]) == (not left_out and not hides)
    assert len(notes) == (not all(whole.values())) + (bool(left_out) or hides)
    shown = timeline(trace)["otherData"]
    assert shown["operations"] == len(rows) - len(gone)
    assert shown["operations_left_out"] == len(gone) + sum(left_out.values())


def test_an_export_says_which_operations_it_has_no_time_for(tmp_path):
    trace = timed(program("rr"), [2])
    trace = replace(trace, meta=replace(trace.meta, left_out={"composite": 2}))
    said = {form: export(trace, tmp_path / f"{form}.json", form)[1] for form in ("chrome", "fhe-benchmarking", "csv")}
    assert "1 operation 'rotate' and 2 operations 'composite' have no time" in said["chrome"][0]
    assert "the result has no 'Encrypted computation', 'Total'" in said["fhe-benchmarking"][0]
    assert "2 operations 'composite'" in said["csv"][0]


@pytest.mark.parametrize("limit", [None, 1.0])
def test_a_schedule_with_an_unknown_part_is_a_bound_in_every_format(tmp_path, capsys, limit):
    """Of a whole program nobody knows anything; of a part of it the rest."""
    trace = ps.trace(program(), params="sharp").trace
    file = tmp_path / "t.parquet"
    write_trace(hidden(trace, everything(trace) if limit is None else [0]), file)
    words = ["simulate", str(file), "--machine", "sharp", "--tier", "pcie5", "--inside", "schedule", "--no-advice"]
    assert main([*words, "--format", "json"]) in (0, None)
    (row,) = json.loads(capsys.readouterr().out)
    facts = row["schedule"]
    assert facts["total_s"] is facts["off_chip_s"] is facts["bounds_s"] is facts["busy"] is None
    assert (facts["at_least"]["total_s"] is None) == (limit is None)
    assert main(words) in (0, None)
    lines = [line for line in capsys.readouterr().out.splitlines() if line.startswith("sharp, ")]
    said = "unknown" if limit is None else "at least "
    assert any(f"every byte on chip: {said}" in line and "no price" in line for line in lines)
    assert "sharp, share of the time in which units work: unknown" in lines
    assert any(f"are read in {said}" in line for line in lines)


@pytest.mark.parametrize("view", ["whatif", "slowdown", "roofline", "residency", "hosts", "machines", "predict",
                                  "tenants", "levels"])  # fmt: skip
@pytest.mark.parametrize("hosts", [1, 4])
def test_every_page_of_the_explorer_shows_what_is_unknown(tmp_path, view, hosts):
    write_trace(hidden(program("mrap"), [1]), tmp_path / "part.parquet")
    bare = replace(SHARP, name="bare", units={"transforms": SHARP.units["transforms"]}, datapath=Datapath())
    write_machine(bare, tmp_path / "bare.toml")
    library = Library.of(tmp_path, [tmp_path / "bare.toml"], [tmp_path / "part.parquet"])
    engine = Engine(library)
    for state in (
        State(workload="inner-product", params="sharp", machine="file:bare", other="ark", hosts=hosts),
        State(workload="file:part", machine="sharp", other="ark", hosts=hosts),
        State(workload="file:part", machine="file:bare", other="ark", hosts=hosts),
    ):
        found = show(engine, view, state)
        assert "no price" in " ".join(found.warnings)
        known = [row for row in found.rows if row.get("total_s") is not None]
        assert all(row["machine"] == "ark" for row in known)
        assert not known or state.workload == "inner-product"


def test_a_picture_names_the_machines_that_it_does_not_draw():
    pytest.importorskip("matplotlib").use("agg")
    bare = replace(SHARP, name="bare", units={"transforms": SHARP.units["transforms"]})
    axes = ps.simulate(program(), [SHARP, bare], "pcie5").plot("total_s")
    assert "not drawn, as no total is known: " in axes.get_xlabel()
    assert "bare" in axes.get_xlabel()
    assert "not drawn" not in ps.simulate(program(), SHARP, "pcie5").plot("total_s").get_xlabel()


def test_a_unit_without_a_rate_is_never_said_to_take_no_time():
    for unit in set(SHARP.units) - {"transforms"}:  # no machine is without them
        bare = replace(SHARP, units={name: rate for name, rate in SHARP.units.items() if name != unit})
        (said,) = (each.taken for each in missing(bare) if each.field == f"units.{unit}")
        assert said == "operations that need it have no price"
        assert predict(program(), bare).unpriced


def test_the_energy_on_a_machine_without_a_power_is_unknown_in_every_verb(tmp_path, capsys):
    silent = replace(SHARP, name="silent", power=None)
    found = ps.predict(program(), silent)
    assert found.joules is None
    assert {row["energy_j"] for row in ps.simulate(program(), silent, "pcie5")} == {None}
    write_trace(program(), tmp_path / "t.parquet")
    write_machine(silent, tmp_path / "silent.toml")
    assert main(["predict", "run", str(tmp_path / "t.parquet"), "--machine", str(tmp_path / "silent.toml")]) in (
        0,
        None,
    )
    out = " ".join(capsys.readouterr().out.split())
    assert "energy unknown" in out
    assert "power no energy is known" in out

"""Trace files: what is written is read again; what is broken is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.base.system.files import WouldOverwrite
from penstock.errors import TraceError, UsageError
from penstock.front.cli.main import main
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.scheme.operations import OpKind
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.params.rlwe import KeyForm
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.export import export
from penstock.scheme.traces.inspect import differences, problems, summary
from penstock.scheme.traces.io import _lines, read_trace, write_trace
from penstock.scheme.traces.schema import Trace, TraceMeta
from support.toy import toy, toy_bootstrap
from support.trace_samples import signed, small_trace


def bootstrapped_trace() -> Trace:
    ev = SymbolicEvaluator(toy_bootstrap(Scaling.FLEXIBLE_AUTO))
    ev.decrypt(ev.add(ev.bootstrap(ev.encrypt(np.zeros(256))), 1.0))
    return ev.builder.finish(TraceMeta(workload="b", params=ev.params.to_dict(), reading="trace"))


@given(
    st.lists(
        st.lists(st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=4), max_size=6), max_size=4
    )
)
def test_the_lines_that_a_digest_is_of_are_those_of_the_names(chunks: list[list[str | None]]) -> None:
    kind = pa.dictionary(pa.int16(), pa.string())
    column = pa.chunked_array([pa.array(chunk, kind) for chunk in chunks], kind)
    for part in (column, column.slice(1)):
        assert bytes(_lines(part)) == "\n".join(name or "" for name in part.to_pylist()).encode()


def test_a_written_trace_is_read_again(tmp_path: Path) -> None:
    trace = small_trace(seed=7, notes=("a note",))
    write_trace(trace, tmp_path / "t.parquet")
    again = read_trace(tmp_path / "t.parquet")
    assert again.meta == trace.meta
    assert again.operations.equals(trace.operations)
    assert again.objects.equals(trace.objects)
    assert again.parameters() == toy()


def test_the_same_program_writes_the_same_bytes(tmp_path: Path) -> None:
    for name in ("one", "two"):
        write_trace(small_trace(), tmp_path / name)
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()


def test_operations_are_readable_by_any_parquet_reader(tmp_path: Path) -> None:
    write_trace(small_trace(), tmp_path / "t.parquet")
    assert pq.read_table(tmp_path / "t.parquet")["kind"].to_pylist()[2] == "mult"


def test_an_existing_file_is_not_overwritten_without_force(tmp_path: Path) -> None:
    target = tmp_path / "t.parquet"
    target.write_text("mine")
    with pytest.raises(WouldOverwrite):
        write_trace(small_trace(), target)
    assert target.read_text() == "mine"
    write_trace(small_trace(), target, force=True)
    assert len(read_trace(target)) == 11


def test_a_truncated_file_is_named_at_every_length(tmp_path: Path) -> None:
    write_trace(small_trace(), tmp_path / "t.parquet")
    whole = (tmp_path / "t.parquet").read_bytes()
    cut = tmp_path / "cut.parquet"
    for length in [*range(0, 16), *range(16, len(whole), 97), len(whole) - 1]:
        cut.write_bytes(whole[:length])
        with pytest.raises(TraceError, match=r"cut\.parquet"):
            read_trace(cut)


def test_a_flipped_bit_is_found_or_changes_nothing(tmp_path: Path) -> None:
    trace = small_trace()
    write_trace(trace, tmp_path / "t.parquet")
    whole = bytearray((tmp_path / "t.parquet").read_bytes())
    broken, found = tmp_path / "broken.parquet", 0
    for at in range(0, len(whole), 53):
        whole[at] ^= 0x10
        broken.write_bytes(whole)
        whole[at] ^= 0x10
        try:
            read_trace(broken)
        except TraceError:
            found += 1
    # Bytes that no reader looks at (statistics, padding) may go unnoticed; the bulk may not.
    assert found > len(range(0, len(whole), 53)) // 3


def test_operations_that_were_cut_off_are_noticed(tmp_path: Path) -> None:
    write_trace(small_trace(), tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    for name, changed in (("cut", table.slice(0, 5)), ("twice", pa.concat_tables([table, table]))):
        pq.write_table(changed, tmp_path / name)
        with pytest.raises(TraceError, match="does not match its checksum"):
            read_trace(tmp_path / name)


def test_a_newer_format_is_refused_with_the_remedy(tmp_path: Path) -> None:
    write_trace(small_trace(), tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    footer = dict(table.schema.metadata)
    footer[b"penstock.schema_version"] = b"2"  # its digest no longer fits: the version is looked at first
    pq.write_table(table.replace_schema_metadata(footer), tmp_path / "newer.parquet")
    with pytest.raises(TraceError, match=r"newer\.parquet has trace format 2.*upgrade"):
        read_trace(tmp_path / "newer.parquet")


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"schema_version": 0}, "trace format 0.*no such version"),
        ({"schema_version": 2}, "trace format 2.*newer version"),
        ({"schema_version": inf}, "corrupt"),
        ({"seed": "x"}, "corrupt"),
        ({"params": {"bootstrap": 5}}, "malformed"),
        ({"params": {"bootstrap": {"cts_stages": "x"}}}, "malformed"),
        ({"params": {"ring_dim": "x"}}, "ring_dim is 'x'"),
        ({"params": {"ring_dim": 1000}}, "power of 2"),
        ({"params": {"ring_dim": -1024}}, "ring_dim is '-1024'"),
        ({"params": {"q_bits": []}}, "q_bits"),
        ({"params": {"p_bits": [1, "x"]}}, "p_bits"),
        ({"params": {"dnum": 0}}, "dnum is 0"),
    ],
)
def test_damaged_metadata_is_named(tmp_path: Path, change: dict[str, Any], reason: str) -> None:
    source = tmp_path / "t.parquet"
    write_trace(small_trace(), source)
    meta = json.loads(pq.read_schema(source).metadata[b"penstock.meta"])
    if "params" in change:
        change = {"params": meta["params"] | change["params"]}
    assert read_trace(signed(source, tmp_path / "same.parquet")).meta.workload == "small"
    path = signed(source, tmp_path / "damaged.parquet", meta=json.dumps(meta | change).encode())
    with pytest.raises(TraceError, match=rf"damaged\.parquet.*{reason}"):
        read_trace(path)


def test_versions_and_metadata_that_cannot_be_are_refused(tmp_path: Path) -> None:
    source = tmp_path / "t.parquet"
    write_trace(small_trace(), source)
    for footer in ({"schema_version": b"0"}, {"schema_version": b"-1"}, {"meta": b"[" * 100_000}):
        with pytest.raises(TraceError, match=r"damaged\.parquet"):
            read_trace(signed(source, tmp_path / "damaged.parquet", **footer))
    table = pq.read_table(source)
    nulls = table.set_column(table.schema.get_field_index("limbs_in"), "limbs_in", pa.array([None] * 11, pa.int32()))
    with pytest.raises(TraceError, match=r"damaged\.parquet.*limbs_in"):
        read_trace(signed(source, tmp_path / "damaged.parquet", nulls))


def test_what_breaks_a_rule_is_exported_only_to_be_looked_at(tmp_path: Path) -> None:
    for exporter in ("chrome", "fhe-benchmarking", "heracles"):
        with pytest.raises(TraceError, match=r"operation 0 \(encrypt\): times nan"):
            export(timed(small_trace(), nan, nan), tmp_path / "t.json", exporter)
    for exporter in ("jsonl", "csv"):
        export(timed(small_trace(), nan, nan), tmp_path / f"t.{exporter}", exporter)


def test_other_files_are_no_traces(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    pq.write_table(pa.table({"x": [1]}), tmp_path / "other.parquet")
    for name, reason in (("text", "not a trace"), ("other.parquet", "no trace"), ("absent", "absent")):
        with pytest.raises(Exception, match=reason):
            read_trace(tmp_path / name)
    with pytest.raises(TraceError, match="folder"):
        read_trace(tmp_path)


def test_a_file_without_a_column_is_refused(tmp_path: Path) -> None:
    write_trace(small_trace(), tmp_path / "t.parquet")
    table = pq.read_table(tmp_path / "t.parquet")
    pq.write_table(table.drop_columns(["limbs_in"]), tmp_path / "less.parquet")
    with pytest.raises(TraceError, match="limbs_in"):
        read_trace(tmp_path / "less.parquet")


def test_valid_traces_have_no_problems() -> None:
    assert list(problems(small_trace())) == []
    assert list(problems(bootstrapped_trace())) == []


@pytest.mark.parametrize(
    ("column", "row", "value", "reason"),
    [
        ("kind", 2, "multiply", "unknown kind"),
        ("limbs_in", 2, 11, "1 to 10"),
        ("limbs_in", 7, 10, "computes at 10 limbs, operand"),
        ("limbs_out", 3, 0, "1 to 10"),
        ("key", 2, None, "names no key"),
        ("key", 0, "relin", "reads none"),
        ("key", 5, "rot:13", "does not rotate by 1"),
        ("key", 5, "rot:25", "does not rotate by 1; rot:5 does"),
        ("key", 5, "rot:3", "a power of 5 modulo 2048"),
        ("key", 5, "rot:8", "a power of 5"),
        ("key", 5, "rot:2053", "a power of 5"),
        ("key", 5, "rot:" + "9" * 30, "a power of 5"),
        ("key", 5, "relin", "a rotation reads"),
        ("key", 2, "rot:5", "this kind reads 'relin'"),
        ("operands", 2, [0], "1 operands; this kind takes 2"),
        ("operands", 7, [], "0 operands; this kind takes 2"),
        ("operands", 7, [4, 5, 4, 5], "4 operands; this kind takes 2"),
        ("operands", 5, [], "0 operands; this kind takes 2 (ciphertext, digits)"),
        ("operands", 5, [4, 4], "operand 4 is of class ciphertext; this kind takes ciphertext, digits"),
        ("operands", 10, [], "0 operands"),
        ("operands", 4, [0, 1], "2 operands; this kind takes 1"),
        ("output", 10, 3, "decrypt makes none"),
        ("output", 4, 3, "this kind makes digits"),
        ("origin", 7, "composite", "only calls of bootstrap, chebyshev, composite"),
        ("kind", 9, "bootstrap", "a call of a composite is 'composite'"),
        ("limbs_out", 7, 10, "only mod_raise and composites add limbs"),
        ("plaintext", 7, 8, "this kind takes none"),
        ("plaintext", 8, None, "no plaintext; this kind takes one"),
        ("step", 7, 4, "only rotations have one"),
        ("step", 5, 1 + 512, "512 slots"),
        ("step", 5, -513, "512 slots"),
        ("step", 5, 512, "does not rotate by 512; rot:1 does"),
        ("implied_rescales", 7, -3, "implied_rescales is -3; it is not negative"),
        ("implied_scalar_mults", 7, -1, "it is not negative"),
        ("operands", 2, [0, 99], "not an object"),
        ("operands", 2, [0, 4], "before it was made"),
        ("output", 3, 2, "made by operation 2 already"),
        ("output", 3, None, "no output"),
        ("id", 4, 9, "ids are 0, 1, 2"),
        ("origin", 4, "guessed", "unknown origin"),
        ("plaintext", 8, 0, "not a plaintext object"),
        ("start_s", 4, 1.0, "times"),
    ],
)
def test_each_broken_rule_is_named(column: str, row: int, value: Any, reason: str) -> None:
    trace = small_trace()
    values = trace.operations[column].to_pylist()
    values[row] = value
    index = trace.operations.schema.get_field_index(column)
    kind = trace.operations.schema.field(column).type
    plain = kind.value_type if pa.types.is_dictionary(kind) else kind
    broken = trace.operations.set_column(index, column, pa.array(values, plain))
    found = list(problems(Trace(trace.meta, broken, trace.objects)))
    assert any(reason in problem for problem in found), found


@pytest.mark.parametrize(
    ("start", "end"),
    [(nan, nan), (0.0, inf), (-5.0, -4.0), (2.0, 1.0), (nan, 1.0), (0.0, nan), (None, 1.0), (-inf, 0.0)],
)
def test_times_that_none_can_take_are_named(start: float | None, end: float | None) -> None:
    trace = timed(small_trace(), 0.0, 1.0)
    assert list(problems(trace)) == []
    (said,) = problems(timed(trace, start, end, row=3))
    assert said.startswith("operation 3 (rescale): times ")
    assert "both or neither" in said


def timed(trace: Trace, start: float | None, end: float | None, row: int | None = None) -> Trace:
    """The trace with these times, in one row or in all."""
    table = trace.operations
    for name, value in (("start_s", start), ("end_s", end)):
        values = [value if row in (None, at) else old for at, old in enumerate(table[name].to_pylist())]
        table = table.set_column(table.schema.get_field_index(name), name, pa.array(values, pa.float64()))
    return Trace(trace.meta, table, trace.objects)


def with_objects(trace: Trace, edit: Callable[[dict[str, Any]], None]) -> Trace:
    rows = trace.objects.to_pylist()
    for row in rows:
        edit(row)
    return Trace(trace.meta, trace.operations, pa.Table.from_pylist(rows, schema=trace.objects.schema))


@pytest.mark.parametrize(
    ("cls", "column", "value", "reason"),
    [
        ("key", "bytes", 0, "0 bytes; key at 10 limbs has"),
        ("key", "name", "zzz", "keys are relin, conj, to-sparse, to-dense, from-small, from-small-squared and rot:"),
        ("key", "name", "relin", "a key is one object"),
        ("key", "name", "conj", "is not an object of class key"),
        ("key", "limbs", 9, "a key is stored at all 10"),
        ("plaintext", "limbs", 0, "0 limbs; the set has 1 to 10"),
        ("plaintext", "limbs", 4, "limbs, plaintext"),
        ("key", "limbs", 10**6, "1000000 limbs; the set has 1 to 10"),
        ("ciphertext", "bytes", 1, "1 bytes; ciphertext at 10 limbs has"),
        ("plaintext", "bytes", 1, "1 bytes; plaintext at"),
        ("digits", "bytes", 1, "1 bytes; digits at"),
        ("plaintext", "class", "plain", "class 'plain' is unknown"),
        ("plaintext", "class", "ciphertext", "not a plaintext object"),
        ("digits", "id", 0, "ids are 0, 1, 2"),
    ],
)
def test_each_broken_rule_of_objects_is_named(cls: str, column: str, value: Any, reason: str) -> None:
    def edit(row: dict[str, Any]) -> None:
        if row["class"] == cls:
            row[column] = value

    found = list(problems(with_objects(small_trace(), edit)))
    assert any(reason in problem for problem in found), found


def test_a_composite_makes_what_its_expansion_makes() -> None:
    trace = bootstrapped_trace()
    kinds, outputs = trace.operations["kind"].to_pylist(), trace.operations["output"].to_pylist()
    outputs[kinds.index("bootstrap")] = outputs[kinds.index("mod_raise")]
    index = trace.operations.schema.get_field_index("output")
    broken = Trace(
        trace.meta, trace.operations.set_column(index, "output", pa.array(outputs, pa.int64())), trace.objects
    )
    assert any("its expansion ends with operation" in each for each in problems(broken))


def test_an_empty_trace_is_valid() -> None:
    trace = small_trace()
    assert list(problems(Trace(trace.meta, trace.operations.slice(0, 0), trace.objects))) == []
    assert list(problems(Trace(trace.meta, trace.operations.slice(0, 0), trace.objects.slice(0, 0)))) == []


def test_a_broken_file_is_named_with_its_rows_and_the_remedy(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "t.parquet"
    write_trace(timed(small_trace(), nan, nan), path)
    assert main(["trace", "validate", str(path)]) == 1
    said = capsys.readouterr().err
    for part in (str(path), "make the trace again", "operation 0 (encrypt): times nan to nan"):
        assert part in said


def test_differences_name_row_and_column() -> None:
    trace = small_trace()
    limbs = trace.operations["limbs_in"].to_pylist()
    limbs[4] -= 1
    index = trace.operations.schema.get_field_index("limbs_in")
    other = Trace(
        trace.meta, trace.operations.set_column(index, "limbs_in", pa.array(limbs, pa.int32())), trace.objects
    )
    assert [str(d) for d in differences(trace, other)] == ["operation 4, limbs_in: 9 against 8"]
    assert list(differences(trace, trace)) == []


def test_the_summary_counts_by_hand() -> None:
    found = summary(small_trace())
    params = toy()
    assert found["by_kind"] == {"add": 1, "mult": 1, "mult_plain": 1, "decompose": 1, "rotate_hoisted": 2, "rescale": 2}
    assert found["num_operations"] == 8
    assert found["client_operations"] == {"encrypt": 2, "decrypt": 1}
    assert found["num_keys"] == 3
    assert found["key_bytes_unique"] == 3 * params.key_bytes()
    # The product reads its key at 10 limbs, the rotations at 9.
    assert found["key_bytes_touched"] == params.key_bytes(10) + 2 * params.key_bytes(9)


def test_a_key_ends_at_the_most_limbs_of_its_uses() -> None:
    ev = SymbolicEvaluator(toy())
    a = ev.encrypt(np.zeros(64))
    low = ev.mod_drop(a, 4)
    ev.rotate(low, 1)
    ev.rotate(ev.mod_drop(a, 7), 1)
    ev.rotate(low, 2)
    ev.mult(a, a)
    trace = ev.builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="trace"))
    assert list(trace.key_limbs().items()) == [("rot:5", 7), ("rot:25", 4), ("relin", 10)]
    # Digits of 4 limbs and 4 special limbs: 7 limbs take 2 digits of 11 rows, 4 take 1 of 8, 10 take 3 of 14.
    row = 1024 * 8
    by_form = {each["key_form"]: each["stored_key_bytes"] for each in summary(trace)["key_forms"]}
    assert by_form == {
        "full": 3 * 2 * 42 * row,
        "seeded": 3 * 42 * row,
        "truncated": 2 * (22 + 8 + 42) * row,
        "seeded+truncated": (22 + 8 + 42) * row,
    }
    assert Trace(trace.meta, trace.operations.slice(0, 0), trace.objects).key_limbs() == {}


def test_keys_inside_a_composite_count_where_it_is_expanded() -> None:
    trace = bootstrapped_trace()
    uses: dict[str, int] = {}
    for row in trace.view().operations.to_pylist():
        if row["key"] is not None:
            uses[row["key"]] = max(uses.get(row["key"], 0), row["limbs_in"])
    assert trace.view().key_limbs() == trace.key_limbs() == uses
    assert trace.view(composites=True).key_limbs() == {}
    assert trace.has_modelled_key_limbs()
    assert not small_trace().has_modelled_key_limbs()


def test_a_truncated_key_has_the_rows_of_all_its_uses() -> None:
    params = toy(key_form=KeyForm.TRUNCATED)
    ev = SymbolicEvaluator(params)
    a = ev.encrypt(np.zeros(64))
    ev.rotate(ev.mod_drop(a, 7), 1)
    trace = ev.builder.finish(TraceMeta(workload="w", params=params.to_dict(), reading="trace"))
    assert list(problems(trace)) == []
    assert [(row["limbs"], row["bytes"]) for row in trace.objects.to_pylist() if row["class"] == "key"] == [
        (7, params.key_bytes(7))
    ]

    def with_limbs(limbs: int) -> list[str]:
        def edit(row: dict[str, Any]) -> None:
            if row["class"] == "key":
                row["limbs"], row["bytes"] = limbs, params.key_bytes(limbs)

        return list(problems(with_objects(trace, edit)))

    assert with_limbs(8) == []
    (found,) = with_limbs(6)
    assert "key truncated to 6 limbs; an operation uses it at 7" in found


def test_composites_are_expanded_or_whole() -> None:
    trace = bootstrapped_trace()
    whole, expanded = trace.view(composites=True), trace.view()
    assert whole.count_by_kind() == {"encrypt": 1, "decrypt": 1, "add_scalar": 1, "bootstrap": 1}
    assert "bootstrap" not in expanded.count_by_kind()
    assert expanded.count_by_kind()["mod_raise"] == 1
    assert summary(trace)["num_operations"] > 100
    assert summary(trace, composites=True)["num_operations"] == 2


def test_a_composite_without_expansion_is_kept_in_both_views() -> None:
    builder = TraceBuilder(toy())
    a, b = builder.ciphertext(10), builder.ciphertext(10)
    with builder.open_scope("EvalSum"):
        builder.add(OpKind.COMPOSITE, limbs_in=10, limbs_out=10, operands=(a,), output=b, origin="composite")
    trace = builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="record"))
    assert len(trace.view()) == len(trace.view(composites=True)) == 1


def test_scopes_are_numbered() -> None:
    ev = SymbolicEvaluator(toy())
    for _ in range(2):
        with ev.scope("outer"):
            for _ in range(2):
                with ev.scope("inner"):
                    ev.encrypt(np.zeros(64))
    trace = ev.builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="trace"))
    assert trace.operations["scope"].to_pylist() == [
        "outer[0]/inner[0]",
        "outer[0]/inner[1]",
        "outer[1]/inner[0]",
        "outer[1]/inner[1]",
    ]


def test_json_lines_hold_every_row(tmp_path: Path) -> None:
    trace = small_trace()
    export(trace, tmp_path / "t.jsonl", "jsonl")
    records = [json.loads(line) for line in (tmp_path / "t.jsonl").read_text().splitlines()]
    assert records[0]["workload"] == "small"
    assert [r["kind"] for r in records if r["record"] == "operation"] == trace.operations["kind"].to_pylist()
    assert sum(r["record"] == "object" for r in records) == trace.objects.num_rows


def test_csv_has_one_line_an_operation_and_a_file_of_objects(tmp_path: Path) -> None:
    files, _ = export(small_trace(), tmp_path / "t.csv", "csv")
    assert [f.name for f in files] == ["t.csv", "t.objects.csv"]
    lines = (tmp_path / "t.csv").read_text().splitlines()
    assert len(lines) == 12
    assert lines[3].startswith("2,mult,called,10,10,0 1,")


def test_a_timeline_needs_times(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no times"):
        export(small_trace(), tmp_path / "t.json", "chrome")
    assert not (tmp_path / "t.json").exists()


def test_a_timeline_has_an_event_an_operation(tmp_path: Path) -> None:
    builder = TraceBuilder(toy())
    a, b = builder.ciphertext(10), builder.ciphertext(10)
    builder.add(OpKind.ENCRYPT, limbs_in=10, limbs_out=10, output=a, start_s=0.0, end_s=0.5)
    builder.add(OpKind.NEGATE, limbs_in=10, limbs_out=10, operands=(a,), output=b, start_s=0.5, end_s=0.75)
    export(
        builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="openfhe")),
        tmp_path / "t.json",
        "chrome",
    )
    events = [e for e in json.loads((tmp_path / "t.json").read_text())["traceEvents"] if e["ph"] == "X"]
    assert [(e["name"], e["ts"], e["dur"], e["tid"]) for e in events] == [
        ("encrypt", 0.0, 500000.0, 0),
        ("negate", 500000.0, 250000.0, 1),
    ]


def test_a_trace_of_too_many_operations_is_refused_before_it_is_decoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "long.parquet"
    write_trace(small_trace(), path)
    monkeypatch.setenv("PENSTOCK_MOST_OPERATIONS", "1")
    monkeypatch.setattr(pq, "read_table", lambda *_, **__: pytest.fail("a row was decoded"))
    with pytest.raises(TraceError, match=r"operations; at most 1 are read.*PENSTOCK_MOST_OPERATIONS="):
        read_trace(path)

"""Traces of other tools: what is written is read again, foreign files are understood, broken ones are named."""

from __future__ import annotations

import json
from contextlib import suppress
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.errors import TraceError, UsageError
from penstock.front.cli.main import main
from penstock.lab.measure.bench.results import load_results
from penstock.program.evaluator.symbolic import SymbolicEvaluator
from penstock.program.running import trace_workload
from penstock.scheme.operations import OpKind, rotation_key
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import Scaling
from penstock.scheme.traces import wire
from penstock.scheme.traces.builder import TraceBuilder
from penstock.scheme.traces.expand import expanded
from penstock.scheme.traces.export import export
from penstock.scheme.traces.fhe_benchmarking import format_size, parse_size, result_of, rows_of
from penstock.scheme.traces.heracles import (
    HeraclesCall,
    HeraclesTrace,
    Operand,
    decode,
    encode,
    from_heracles,
    to_heracles,
)
from penstock.scheme.traces.inspect import differences, problems
from penstock.scheme.traces.io import read_trace, write_trace
from penstock.scheme.traces.jsonl import read_jsonl
from penstock.scheme.traces.schema import Trace, TraceMeta
from support.toy import toy, toy_bootstrap


def program() -> Trace:
    """Every kind of ciphertext operation that both formats have."""
    ev = SymbolicEvaluator(toy())
    a, b = ev.encrypt(np.zeros(64), name="a"), ev.encrypt(np.zeros(64), name="b")
    mask = ev.encode(np.ones(64), name="mask")
    c = ev.rescale(ev.mult(a, b))
    c = ev.add(ev.conjugate(c), ev.rotate(c, 3))
    c = ev.rescale(ev.mult(ev.sub(c, mask), mask))
    c = ev.rescale(ev.mult(ev.rescale(ev.square(c)), 0.5))
    ev.decrypt(c)
    return ev.builder.finish(TraceMeta(workload="all", params=ev.params.to_dict(), reading="trace"))


# The wire format.


@given(st.integers(0, 2**64 - 1), st.text(max_size=40), st.integers(1, 200))
def test_fields_are_read_as_they_were_written(number: int, text: str, field: int) -> None:
    message = wire.varint(field << 3) + wire.varint(number) + wire.bytes_field(field + 1, text.encode())
    first, second = wire.fields(message)
    assert first == (field, number)
    assert second[0] == field + 1
    assert wire.text(second[1]) == text


@given(st.binary(max_size=200))
def test_any_bytes_are_a_message_or_an_error_with_a_reason(data: bytes) -> None:
    with suppress(TraceError):
        assert decode(data).instructions is not None


def test_a_message_is_what_protocol_buffers_say() -> None:
    # By hand, from the schema: instruction (field 1) "add", t (4 limbs, 2 polynomials) from a; scheme 3; N 1024.
    operands = bytes.fromhex("0a070a017410041802" + "12070a016110041802")
    instruction = b"\x0a\x03add" + b"\x1a" + bytes([len(operands)]) + operands
    message = b"\x0a" + bytes([len(instruction)]) + instruction + b"\x10\x03" + b"\x18\x80\x08"
    made = HeraclesTrace([HeraclesCall("add", [Operand("t", 4, 2)], [Operand("a", 4, 2)])], scheme=3, ring_dim=1024)
    assert encode(made) == message
    assert decode(message) == made


def test_fields_of_a_newer_schema_are_passed_over() -> None:
    made = HeraclesTrace([HeraclesCall("add")], ring_dim=1024)
    assert decode(encode(made) + wire.number_field(99, 7) + wire.text_field(98, "new")) == made


# HERACLES.


def test_a_heracles_trace_of_a_program_is_that_program_again() -> None:
    trace = program()
    data, passed_over = to_heracles(trace)
    assert passed_over == {}
    again = from_heracles(data, toy(), name="all")
    assert not list(problems(again))
    columns = ["kind", "limbs_in", "limbs_out", "key"]
    assert again.operations.select(columns).to_pylist() == trace.server_operations().select(columns).to_pylist()
    assert [len(o) for o in again.operations["operands"].to_pylist()] == [
        len(o) for o in trace.server_operations()["operands"].to_pylist()
    ]
    header = decode(data)
    assert (header.ring_dim, header.q_size, header.key_rns_num, header.dnum, header.alpha) == (1024, 10, 14, 3, 4)


def test_a_workload_keeps_its_price_through_heracles(tmp_path: Path) -> None:
    trace = trace_workload("inner-product", "sharp")
    again = from_heracles(to_heracles(trace)[0], trace.parameters())
    from penstock.scheme.machines import load_machines
    from penstock.scheme.play.price import price_trace

    (machine,) = load_machines(["sharp"])
    before, after = price_trace(trace, machine), price_trace(again, machine)
    assert after.bytes_by_class["key"] == before.bytes_by_class["key"]
    assert after.ideal_s == pytest.approx(before.ideal_s, rel=0.05)  # hoisting is not in the format


@pytest.mark.parametrize("scaling", [Scaling.FLEXIBLE_AUTO, Scaling.FLEXIBLE_AUTO_EXT, Scaling.FIXED_AUTO])
def test_what_automatic_scaling_does_first_is_not_priced_a_limb_higher(scaling: Scaling) -> None:
    params = toy(scaling=scaling)
    ev = SymbolicEvaluator(params)
    a, b = ev.encrypt(np.ones(4)), ev.encrypt(np.ones(4))
    c = ev.mult(ev.square(ev.mult(a, b)), ev.square(a))
    c = ev.add(ev.mult(c, 0.5), ev.mult(ev.mod_drop(c, c.state.limbs - 1), ev.encode(np.ones(4))))
    ev.sub(ev.rotate(c, 1), a)
    trace = ev.builder.finish(TraceMeta(workload="w", params=params.to_dict(), reading="trace", size="s"))
    again = from_heracles(to_heracles(trace)[0], params)
    assert not list(problems(again))
    columns = ["kind", "limbs_in", "limbs_out", "implied_rescales", "implied_scalar_mults"]
    expected = trace.server_operations().select(columns).to_pylist()
    assert again.operations.select(columns).to_pylist() == expected
    assert any(row["implied_rescales"] for row in expected)


@pytest.mark.parametrize("name", [name for name in catalogue.names() if name.startswith(("openfhe", "insecure"))])
def test_primes_are_assumed_for_every_header_that_is_written(name: str) -> None:
    params = catalogue.get(name)
    ev = SymbolicEvaluator(params)
    ev.rotate(ev.encrypt(np.ones(4)), 1)
    trace = ev.builder.finish(TraceMeta(workload="w", params=params.to_dict(), reading="trace", size="s"))
    assumed = from_heracles(to_heracles(trace)[0]).parameters()
    assert (assumed.num_q, assumed.num_p, assumed.dnum) == (params.num_q, params.num_p, params.dnum)


def test_a_header_that_no_set_can_have_names_the_remedy() -> None:
    made = HeraclesTrace([HeraclesCall("add")], scheme=4, ring_dim=1024, q_size=40, key_rns_num=41, dnum=1, alpha=40)
    with pytest.raises(TraceError, match=r"dnum 1\): .*; name the set with --params"):
        from_heracles(encode(made))


def test_a_foreign_program_trace_is_read_and_its_primes_are_marked_assumed() -> None:
    """As OpenFHE's tracer writes it: no plaintext index, products and relinearizations apart, names of its own."""
    ct = [Operand(f"ciphertext_{i}", 4, 2) for i in range(4)]
    made = HeraclesTrace(
        [
            HeraclesCall("Encrypt", [ct[0]], [Operand("plaintext_1", 4, 1)]),
            HeraclesCall("mul", [Operand("ciphertext_9", 4, 3)], [ct[0], ct[1]]),
            HeraclesCall("relin", [ct[2]], [Operand("ciphertext_9", 4, 3)]),
            HeraclesCall("rotate", [ct[3]], [ct[2]], {"galois_elt": "5"}),
            HeraclesCall("mod_switch", [Operand("ciphertext_4", 3, 2)], [ct[3]]),
            HeraclesCall("ADD", [Operand("out", 3, 2)], [Operand("ciphertext_4", 3, 2), Operand("plain", 3, 1)]),
        ],
        scheme=4,
        ring_dim=4096,
        q_size=4,
        key_rns_num=6,
        dnum=2,
        alpha=2,
    )
    trace = from_heracles(encode(made))
    assert not list(problems(trace))
    assert trace.operations["kind"].to_pylist() == ["mult", "rotate", "rescale", "add_plain"]
    assert trace.operations["key"].to_pylist() == ["relin", rotation_key(1, 4096), None, None]
    params = trace.parameters()
    assert (params.ring_dim, params.num_q, params.num_p, params.dnum) == (4096, 4, 2, 2)
    assert "q_bits" in params.assumed
    assert "passed over: 1 Encrypt" in trace.meta.notes


def test_kinds_without_an_instruction_are_counted() -> None:
    ev = SymbolicEvaluator(toy())
    a = ev.encrypt(np.zeros(64))
    ev.decrypt(ev.add(ev.negate(a), 1.0))
    trace = ev.builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="trace"))
    data, passed_over = to_heracles(trace)
    assert passed_over == {"negate": 1, "add_scalar": 1}
    assert [each.op for each in decode(data).instructions] == ["bk_negate", "bk_add_scalar"]
    assert from_heracles(data, toy()).operations["kind"].to_pylist() == ["negate", "add_scalar"]


@pytest.mark.parametrize(
    ("changes", "instruction", "reason"),
    [
        ({"scheme": 1}, None, "scheme 'bgv'"),
        ({"ring_dim": 2048}, None, "N 2048, the set 1024"),
        ({"q_size": 9}, None, "primes of Q 9, the set 10"),
        ({}, HeraclesCall("ntt", [Operand("t", 4, 2)], [Operand("a", 4, 2)]), "trace of polynomials"),
        ({}, HeraclesCall("rotate", [Operand("t", 4, 2)], [Operand("a", 4, 2)]), "no odd 'galois_elt'"),
        ({}, HeraclesCall("add", [Operand("t", 4, 2)], [Operand("a", 4, 2)]), "it has 2 and 1"),
        ({}, HeraclesCall("rescale", [Operand("t", 4, 2)], [Operand("a", 40, 2)]), "'a' has 40 limbs"),
    ],
)  # fmt: skip
def test_what_cannot_be_a_program_of_ours_says_why(
    changes: dict[str, int], instruction: HeraclesCall | None, reason: str
) -> None:
    made = HeraclesTrace(
        [instruction or HeraclesCall("relin", [Operand("t", 4, 2)], [Operand("a", 4, 3)])], ring_dim=1024
    )
    for name, value in changes.items():
        setattr(made, name, value)
    with pytest.raises(TraceError, match=reason):
        from_heracles(encode(made), toy())


def test_a_header_without_special_primes_asks_for_the_set() -> None:
    made = HeraclesTrace([HeraclesCall("add")], ring_dim=1024, q_size=4, key_rns_num=4)
    with pytest.raises(TraceError, match="--params"):
        from_heracles(encode(made))


# JSON lines, and the command line.


@pytest.mark.parametrize("make", [program, lambda: trace_workload("inner-product", "openfhe-demo")])
def test_json_lines_are_the_same_trace_again(tmp_path: Path, make: object) -> None:
    trace = make()  # type: ignore[operator]
    export(trace, tmp_path / "t.jsonl", "jsonl")
    again = read_jsonl((tmp_path / "t.jsonl").read_text().splitlines())
    assert again.meta == trace.meta
    assert again.operations.equals(trace.operations)
    assert again.objects.equals(trace.objects)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("{", "line 2"),
        ('{"record": "other"}', "line 2"),
        ("[1]", "line 2"),
        ('{"record": "operation", "id": "x"}', "JSON lines"),
        ('{"record": "operation", "id": 0}', "lacks 'kind'"),
        (f'{{"record": "operation", "id": {2**70}}}', "JSON lines: .*too large"),
        ("[" * 100_000, "line 2"),
    ],
)
def test_a_broken_line_is_named(line: str, reason: str) -> None:
    meta = json.dumps({"record": "meta", **program().meta.to_dict()})
    with pytest.raises(TraceError, match=reason):
        read_jsonl([meta, line])
    with pytest.raises(TraceError, match="no line with"):
        read_jsonl([])


def test_import_checks_what_it_reads_before_it_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source, target = tmp_path / "t.jsonl", tmp_path / "t.parquet"
    export(program(), source, "jsonl")
    assert main(["trace", "import", str(source), "--from", "jsonl", "-o", str(target)]) == 0
    assert not list(differences(read_trace(target), program()))
    text = source.read_text().replace('"relin"', '"rot:5"', 2)
    (tmp_path / "bad.jsonl").write_text(text)
    assert (
        main(["trace", "import", str(tmp_path / "bad.jsonl"), "--from", "jsonl", "-o", str(tmp_path / "b.parquet")])
        == 1
    )
    assert "this kind reads 'relin'" in capsys.readouterr().err
    assert not (tmp_path / "b.parquet").exists()
    (tmp_path / "h.bin").write_bytes(to_heracles(program())[0])
    command = ["trace", "import", str(tmp_path / "h.bin"), "--from", "heracles", "-o", str(tmp_path / "h.parquet")]
    assert main(command) == 0
    assert "are assumed" in capsys.readouterr().err.replace("\n", " ")
    assert main(["simulate", str(tmp_path / "h.parquet"), "--machine", "sharp", "--tier", "hbm"]) == 0


# Composites.


def test_an_expanded_trace_has_only_primitives_and_is_valid(tmp_path: Path) -> None:
    ev = SymbolicEvaluator(toy_bootstrap(Scaling.FLEXIBLE_AUTO))
    ev.decrypt(ev.add(ev.bootstrap(ev.encrypt(np.zeros(256))), 1.0))
    trace = ev.builder.finish(TraceMeta(workload="b", params=ev.params.to_dict(), reading="trace"))
    write_trace(trace, tmp_path / "whole.parquet")
    assert main(["trace", "expand", str(tmp_path / "whole.parquet"), "-o", str(tmp_path / "parts.parquet")]) == 0
    parts = read_trace(tmp_path / "parts.parquet")
    assert not list(problems(parts))
    assert "bootstrap" in trace.count_by_kind()
    assert "bootstrap" not in parts.count_by_kind()
    assert len(parts) == len(trace.view())
    again, kept = expanded(parts)
    assert kept == {}
    assert not list(differences(again, parts))


def test_a_composite_without_an_expansion_stays_and_is_named() -> None:
    builder = TraceBuilder(toy())
    a, b = builder.ciphertext(10), builder.ciphertext(10)
    with builder.open_scope("EvalPowers"):
        builder.add(OpKind.COMPOSITE, limbs_in=10, limbs_out=10, operands=(a,), output=b, origin="composite")
    whole, kept = expanded(builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="record")))
    assert kept == {"EvalPowers": 1}
    assert whole.operations["kind"].to_pylist() == ["composite"]


# The fhe-benchmarking suite.

RESULT = {
    "Timing": {"Key Generation": "3.5s", "Encrypted computation": "76.1026s", "Total": "79.6026s"},
    "Bandwidth": {"Public and evaluation keys": "2.4G", "Encrypted query": "24.0M"},
    "Server Reported": {"Encrypted computation": "74s"},
}


def test_both_forms_of_a_result_are_read() -> None:
    rows = rows_of(RESULT)
    assert {(r["where"], r["name"]): r["value"] for r in rows if r["quantity"] == "time"} == {
        ("harness", "Key Generation"): 3.5,
        ("harness", "Encrypted computation"): 76.1026,
        ("harness", "Total"): 79.6026,
        ("server", "Encrypted computation"): 74.0,
    }
    assert [r["value"] for r in rows if r["quantity"] == "size"] == [round(2.4 * 2**30), 24 * 2**20]
    other = {"total_latency_ms": 4.0, "per_stage": {"Key Generation": "4.0s"}, "bandwidth": {"Keys": "512.0B"}}
    assert [(r["name"], r["value"]) for r in rows_of(other)] == [("Key Generation", 4.0), ("Keys", 512.0)]


@pytest.mark.parametrize(
    "result", [{}, {"Timing": {"a": "3.5"}}, {"Timing": {"a": 3}}, {"per_stage": {}, "bandwidth": {"k": "2X"}}]
)
def test_what_is_no_result_is_refused(result: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="fhe-benchmarking"):
        rows_of(result)


@given(st.integers(0, 2**50))
def test_sizes_keep_the_digits_that_the_suite_prints(size: int) -> None:
    again = parse_size(format_size(size))
    assert abs(again - size) <= max(0.05 * 1024 ** (size.bit_length() // 10), 0.5)


def test_a_result_is_compared_like_any_benchmark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "small"
    folder.mkdir()
    (folder / "results-2.json").write_text(json.dumps(RESULT))
    table = load_results(folder / "results-2.json").to_pylist()
    assert [(r["point"], r["seconds_per_call"], r["run"], r["size"]) for r in table][1] == (
        "harness: Encrypted computation",
        76.1026,
        2,
        "small",
    )
    slower = {**RESULT, "Timing": {**RESULT["Timing"], "Encrypted computation": "152.2052s"}}
    (folder / "results-3.json").write_text(json.dumps(slower))
    files = [str(folder / f"results-{i}.json") for i in (2, 3)]
    assert main(["bench", "compare", *files, "--format", "json"]) == 0
    ratios = {row["item"]: row["ratio"] for row in json.loads(capsys.readouterr().out)}
    assert ratios["Encrypted computation"] == pytest.approx(2.0)
    assert ratios["Key Generation"] == pytest.approx(1.0)


def test_a_measured_trace_is_a_result_of_the_suite() -> None:
    builder = TraceBuilder(toy())
    a, b = builder.ciphertext(10), builder.ciphertext(10)
    builder.add(OpKind.ENCRYPT, limbs_in=10, limbs_out=10, output=a, start_s=0.0, end_s=0.5)
    builder.add(OpKind.ROTATE, limbs_in=10, limbs_out=10, operands=(a,), output=b, key="rot:5", start_s=0.5, end_s=2.5)
    builder.add(OpKind.DECRYPT, limbs_in=10, limbs_out=10, operands=(b,), output=None, start_s=3.0, end_s=3.25)
    trace = builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="openfhe"))
    result = json.loads(result_of(trace)[0])
    assert result["Timing"] == {
        "Query encryption": "0.5s",
        "Encrypted computation": "2.0s",
        "Result decryption and postprocessing": "0.25s",
        "Total": "2.75s",
    }
    sizes = {row["name"]: row["value"] for row in rows_of(result) if row["quantity"] == "size"}
    assert sizes["Public and evaluation keys"] == pytest.approx(toy().key_bytes(), rel=0.05)
    assert sizes["Encrypted query"] == toy().ciphertext_bytes(10)
    with pytest.raises(UsageError, match="no times"):
        result_of(program())


def test_time_in_which_two_calls_run_side_by_side_counts_once() -> None:
    builder = TraceBuilder(toy())
    a, *made = (builder.ciphertext(10) for _ in range(4))
    builder.add(OpKind.ENCRYPT, limbs_in=10, limbs_out=10, output=a, start_s=0.0, end_s=0.5)
    for output, start_s, end_s in zip(made, (0.25, 0.75, 1.0), (1.0, 2.0, 1.5), strict=True):
        times = {"start_s": start_s, "end_s": end_s}
        builder.add(OpKind.ROTATE, limbs_in=10, limbs_out=10, operands=(a,), output=output, key="rot:5", **times)
    trace = builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="openfhe"))
    shown = json.loads(result_of(trace)[0])["Timing"]
    assert shown == {"Query encryption": "0.5s", "Encrypted computation": "1.75s", "Total": "2.0s"}


def test_a_step_that_a_trace_does_not_have_is_not_in_its_result(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    builder = TraceBuilder(toy())
    a, b = builder.ciphertext(10), builder.ciphertext(10)
    builder.add(OpKind.ENCRYPT, limbs_in=10, limbs_out=10, output=a, start_s=0.0, end_s=3e-5)
    builder.add(OpKind.ROTATE, limbs_in=10, limbs_out=10, operands=(a,), output=b, key="rot:5", start_s=0.5, end_s=2.5)
    content, _ = result_of(builder.finish(TraceMeta(workload="w", params=toy().to_dict(), reading="openfhe")))
    assert json.loads(content)["Timing"] == {
        "Query encryption": "3e-05s",
        "Encrypted computation": "2.0s",
        "Total": "2.0s",
    }
    file = tmp_path / "results-20261122093000.json"
    file.write_bytes(content)
    assert main(["bench", "compare", str(file), str(file), "--format", "json"]) == 0
    assert len(json.loads(capsys.readouterr().out)) == 3


def test_steps_that_the_suite_printed_as_no_time_are_not_compared(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    file.write_text(json.dumps({"Timing": {"Preprocessing": "0.0s", "Total": "3.0s"}}))
    assert load_results(file)["item"].to_pylist() == ["Total"]


def test_a_section_that_is_no_object_is_refused_with_the_files_name(tmp_path: Path) -> None:
    file = tmp_path / "r.json"
    for damaged in ({**RESULT, "Server Reported": [1]}, {**RESULT, "Timing": {"a": "3 hours"}}):
        file.write_text(json.dumps(damaged))
        with pytest.raises(UsageError, match=r"r\.json: .*fhe-benchmarking"):
            load_results(file)

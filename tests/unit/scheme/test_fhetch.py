"""FHETCH's polynomial instructions become the operations that they came from, or an error that names a line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.errors import TraceError
from penstock.front.cli.main import main
from penstock.scheme.operations import rotation_key
from penstock.scheme.params import catalogue
from penstock.scheme.traces.fhetch import read_fhetch
from penstock.scheme.traces.fhetch_switches import find
from penstock.scheme.traces.fhetch_text import ONE, SCALAR, TWO, parse
from penstock.scheme.traces.inspect import problems
from support.examples import at_most
from support.fhetch_recorded import Recorded
from support.fhetch_writer import Poly, Writer
from support.toy import toy

Cipher = list[Poly]


def program(writer: Writer) -> None:
    """One of each operation, over four levels."""
    a, b = writer.cipher(), writer.cipher()
    c = writer.rescale(writer.mult(a, b))
    c = writer.add(writer.rotate(c, 5), c)
    d = writer.rescale(writer.mult_plain(c, writer.plain(9)))
    d = writer.add_plain(writer.negate(d), writer.plain(8))
    e = writer.rescale(writer.square(d))
    digits = writer.raised(e[1])
    f = writer.add(writer.rotate(e, 5, digits), writer.rotate(e, 25, digits), "sr_subp")
    f = writer.add_scalar(writer.rescale(writer.mult_scalar(f)))
    writer.add(f, writer.rotate(f, 2047))


EXPECTED = [
    ("mult_no_relin", 10, 10, None), ("relinearize", 10, 10, "relin"), ("rescale", 10, 9, None),
    ("rotate", 9, 9, "rot:5"), ("add", 9, 9, None),
    ("mult_plain", 9, 9, None), ("rescale", 9, 8, None), ("negate", 8, 8, None), ("add_plain", 8, 8, None),
    ("mult_no_relin", 8, 8, None), ("relinearize", 8, 8, "relin"), ("rescale", 8, 7, None),
    ("decompose", 7, 7, None), ("rotate_hoisted", 7, 7, "rot:5"), ("rotate_hoisted", 7, 7, "rot:25"),
    ("sub", 7, 7, None),
    ("mult_scalar", 7, 7, None), ("rescale", 7, 6, None), ("add_scalar", 6, 6, None),
    ("conjugate", 6, 6, "conj"), ("add", 6, 6, None),
]  # fmt: skip


@pytest.mark.parametrize(("in_place", "zeros"), [(False, False), (True, False), (False, True), (True, True)])
@pytest.mark.parametrize("dnum", [1, 3, 5])
def test_a_program_is_put_together_again(dnum: int, in_place: bool, zeros: bool) -> None:
    params = toy(dnum=dnum, p_bits=(60,) * (-(-10 // dnum)))
    writer = Writer(params, in_place=in_place, zeros=zeros)
    program(writer)
    trace = read_fhetch(writer.text().splitlines(), params)
    assert not list(problems(trace))
    rows = trace.operations.to_pylist()
    assert [(r["kind"], r["limbs_in"], r["limbs_out"], r["key"]) for r in rows] == EXPECTED
    assert rotation_key(1, 1024) == "rot:5"


@pytest.mark.parametrize("dnum", [1, 3, 5])
def test_a_program_in_the_order_of_a_recording_is_put_together_again(dnum: int) -> None:
    params = toy(dnum=dnum, p_bits=(60,) * (-(-10 // dnum)))
    writer = Recorded(params)
    program(writer)
    trace = read_fhetch(writer.text().splitlines(), params)
    assert not list(problems(trace))
    rows = trace.operations.to_pylist()
    assert [(r["kind"], r["limbs_in"], r["limbs_out"], r["key"]) for r in rows] == EXPECTED


def test_the_recording_of_two_sums_of_one_limb_is_one_sum() -> None:
    """The shape of the one recording that is public: two sums of inputs at one prime, and which results are wanted."""
    lines = ["# Modulus Count: 2", "modulus_count 2", "m[0] 0xFFFFFFFFFFFFFFFF", "m[1] 0x40000000000001",
             "# Instructions", "sr_addp %3, %1, %2, m=1", "sr_addp %5, %0, %4, m=1", "# output b %5", "# output a %3",
             "halt"]  # fmt: skip
    rows = read_fhetch(lines, toy()).operations.to_pylist()
    assert [(row["kind"], row["limbs_in"]) for row in rows] == [("add", 1)]


def test_each_operation_reads_what_the_one_before_it_made() -> None:
    params = toy()
    writer = Writer(params)
    program(writer)
    trace = read_fhetch(writer.text().splitlines(), params)
    rows = trace.operations.to_pylist()
    made = {row["output"]: i for i, row in enumerate(rows)}
    reads = [[made.get(each, "input") for each in row["operands"]] for row in rows]
    assert reads == [
        ["input", "input"],
        [0],
        [1],
        [2],
        [3, 2],
        [4],
        [5],
        [6],
        [7],
        [8, 8],
        [9],
        [10],
        [11],
        [11, 12],
        [11, 12],
        [13, 14],
        [15],
        [16],
        [17],
        [18],
        [18, 19],
    ]
    assert sum(row["class"] == "plaintext" for row in trace.objects.to_pylist()) == 2


STEPS: dict[str, tuple[list[str], Callable[[Writer, Cipher, Cipher], Cipher]]] = {
    "add": (["add"], lambda w, a, b: w.add(a, b)),
    "sub": (["sub"], lambda w, a, b: w.add(a, b, "sr_subp")),
    "add_plain": (["add_plain"], lambda w, a, b: w.add_plain(a, w.plain(len(a[0])))),
    "add_scalar": (["add_scalar"], lambda w, a, b: w.add_scalar(a)),
    "negate": (["negate"], lambda w, a, b: w.negate(a)),
    "mult_plain": (["mult_plain"], lambda w, a, b: w.mult_plain(a, w.plain(len(a[0])))),
    "mult_scalar": (["mult_scalar"], lambda w, a, b: w.mult_scalar(a)),
    "mult": (["mult_no_relin", "relinearize"], lambda w, a, b: w.mult(a, b)),
    "square": (["mult_no_relin", "relinearize"], lambda w, a, b: w.square(a)),
    "rotate": (["rotate"], lambda w, a, b: w.rotate(a, 5)),
    "conjugate": (["conjugate"], lambda w, a, b: w.rotate(a, 2047)),
    "rescale": (["rescale"], lambda w, a, b: w.rescale(a)),
}


@at_most(30)
@given(
    st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=12),
    st.sampled_from(["plain", "in place", "recorded"]),
)
@example(["mult_plain", "add_plain", "mult"], "plain")  # three products and a sum that are not a product of ciphertexts
def test_any_chain_of_operations_is_found_again(chain: list[str], how: str) -> None:
    params = toy(q_bits=(60,) + (50,) * 5, p_bits=(60,) * 2, dnum=3)
    writer = Recorded(params) if how == "recorded" else Writer(params, in_place=how == "in place")
    first, other = writer.cipher(), writer.cipher()
    a = writer.rotate(writer.add(first, other), 25)  # a key switch shows which primes are special
    expected = ["add", "rotate"]
    for name in chain:
        if name == "rescale" and len(a[0]) == 1:
            continue
        kinds, write = STEPS[name]
        before = a
        a = write(writer, a, other)
        assert len(a[0]) == len(before[0]) - (name == "rescale")
        expected += kinds
    trace = read_fhetch(writer.text().splitlines(), params)
    assert trace.operations["kind"].to_pylist() == expected
    assert not list(problems(trace))


@pytest.mark.parametrize("num_p", [1, 2, 4])
def test_special_primes_are_found_by_who_uses_them(num_p: int) -> None:
    params = toy(dnum=10 if num_p == 1 else 5 if num_p == 2 else 3, p_bits=(60,) * num_p)
    writer = Writer(params)
    program(writer)
    assert find(parse(writer.text().splitlines())).special == set(writer.p)


def lines_of(make: Callable[[Writer], object]) -> list[str]:
    writer = Writer(toy())
    make(writer)
    return writer.text().splitlines()


def test_two_programs_in_one_text_keep_their_order() -> None:
    def twice(writer: Writer) -> None:
        a, b = writer.cipher(), writer.cipher()
        writer.rotate(writer.add(a, b), 25)
        writer.add(writer.add(a, b), b)

    trace = read_fhetch(lines_of(twice), toy())
    assert trace.operations["kind"].to_pylist() == ["add", "rotate", "add", "add"]


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("sr_addp %1, %0, m=1", "has not the operands"),
        ("sr_addp %1, %0, %2, m=99", "modulus of no table"),
        ("sr_ft %1, %0", "not an instruction on integer polynomials"),
        ("rm -rf /", "not an instruction on integer polynomials"),
        ("sr_mulps %1, %0, x, m=1", "has not the operands"),
        ("sr_addp %1 %0 %2 m=0x", "has not the operands"),
        ("sr_addp %1, %0, %2, m=\u00b2", "has not the operands"),
        ("sr_mulps %1, %0, " + "9" * 5000 + ", m=1", "has not the operands"),
        ("sr_ntt %900001, %900000, m=1", "from outside"),
        ("sr_automorph_eval %900001, %900000, m=1, k=5", "part of no operation"),
        ("sr_mulp %900001, %900000, %900002, m=1", "products of polynomials"),
    ],
)
def test_what_fits_no_operation_is_named_by_its_line(line: str, reason: str) -> None:
    good = lines_of(lambda writer: writer.add(writer.cipher(), writer.cipher()))
    with pytest.raises(TraceError, match=reason) as refused:
        read_fhetch([*good[:-1], line, "halt"], toy())
    assert f"line {len(good)}" in str(refused.value)


SMALL = toy(q_bits=(60,) + (50,) * 3, p_bits=(60,) * 2, dnum=2)


@pytest.mark.parametrize(
    ("build", "op", "nth", "change", "reason"),
    [
        (lambda w, a: w.add_scalar(a), "sr_addps", 1, None, "on 3 of 4 limbs"),
        (lambda w, a: w.add_plain(a, w.plain(4)), "sr_addp", -1, None, "on 3 of 4 limbs"),
        (lambda w, a: w.add_plain(a, w.plain(4)), "sr_addp", -2, ("m=3", "m=4"), "modulo one prime"),
        (lambda w, a: w.add_plain(w.add_plain(a, w.plain(4)), w.plain(4)), "sr_addp", -1, ("%35", "%27"), "of another"),
        (lambda w, a: w.add(w.cipher(), w.cipher()), "sr_addp", 8, ("%24", "%28"), "in two polynomials"),
        (lambda w, a: w.rotate(a, 5), "sr_automorph_eval", 1, None, "nor a rotation"),
        (lambda w, a: w.rotate(a, 5), "sr_mulp", 0, ("sr_mulp", "sr_addp"), "division by P"),
        (lambda w, a: w.rotate(a, 5), "sr_mulp", 2, ("m=2", "m=5"), "modulo one prime"),
        (lambda w, a: w.rotate(a, 5), "sr_subp", 0, ("sr_subp %", "sr_subp %0, %"), "has not the operands"),
        (lambda w, a: w.rotate(a, 5), "sr_mulps", 3, ("m=3", "m=2"), "a third prime"),
        (lambda w, a: w.rotate(a, 5), "sr_addp", 8, ("sr_addp", "sr_mulp"), "inside a base conversion"),
    ],
)
def test_one_changed_line_is_refused(
    build: Callable[[Writer, Cipher], Cipher], op: str, nth: int, change: tuple[str, str] | None, reason: str
) -> None:
    writer = Writer(SMALL)
    build(writer, writer.add(writer.cipher(), writer.cipher()))
    lines = writer.text().splitlines()
    read_fhetch(lines, SMALL)
    at = [i for i, line in enumerate(lines) if line.split(" ")[0] == op][nth]
    new = [] if change is None else [lines[at].replace(*change)]
    assert new != [lines[at]]
    with pytest.raises(TraceError, match=reason):
        read_fhetch([*lines[:at], *new, *lines[at + 1 :]], SMALL)


@pytest.mark.parametrize("how", [Writer, Recorded])
def test_no_line_but_the_scaling_inside_a_conversion_may_lack(how: type[Writer]) -> None:
    writer = how(SMALL)
    a = writer.rescale(writer.mult(writer.cipher(), writer.cipher()))
    writer.negate(writer.mult_plain(writer.add_plain(writer.rotate(a, 5), writer.plain(3)), writer.plain(3)))
    lines = writer.text().splitlines()
    read_fhetch(lines, SMALL)
    wanted = [i for i, line in enumerate(lines) if line.startswith("sr_") and line.split(" ")[0] not in SCALAR]
    for i in wanted:
        with pytest.raises(TraceError):
            read_fhetch([*lines[:i], *lines[i + 1 :]], SMALL)


def test_what_other_writers_of_the_text_may_write_is_the_same_program() -> None:
    lines = lines_of(lambda writer: writer.rotate(writer.rescale(writer.mult_scalar(writer.cipher())), 5))
    expected = read_fhetch(lines, toy()).operations
    primes = {line.split()[0][2:-1]: line.split()[1] for line in lines if line.startswith("m[")}

    def named(line: str, pattern: str, how: Callable[[str], str]) -> str:
        return re.sub(pattern, lambda found: how(found[1]), line)

    for change in (
        lambda line: line.replace(",", ""),
        lambda line: named(line, r"k=(\d+)", lambda k: f"k={int(k):#x}"),
        # A prime in the place of its number, in one of two ways, with and without the table.
        lambda line: named(line, r"m=([1-9]\d*)", lambda m: f"m={int(primes[m], 16)}"),
        lambda line: named(line, r"m=([1-9]\d*)", lambda m: f"q={primes[m]}"),
        lambda line: line.replace("sr_intt", "SR_INTT"),
    ):
        changed = [line if line.startswith(("m[", "#")) else change(line) for line in lines]
        assert read_fhetch(changed, toy()).operations.equals(expected)
    changed = [named(line, r"m=([1-9]\d*)", lambda m: f"q={primes[m]}") for line in lines if not line.startswith("m")]
    assert read_fhetch(changed, toy()).operations.equals(expected)


@pytest.mark.parametrize(
    ("line", "reason"),
    [("# Ring Dimension: 65536", "65536"), ("sr_automorph_eval %1, %1, m=1, mask=2047, logn=11, k=5", "2048"),
     ("m[99] 0x11", "not the next of the table")],
)  # fmt: skip
def test_another_ring_and_a_table_with_a_gap_are_noticed(line: str, reason: str) -> None:
    good = lines_of(lambda writer: writer.add(writer.cipher(), writer.cipher()))
    with pytest.raises(TraceError, match=reason):
        read_fhetch([line, *good] if line.startswith("#") else [*good[:-1], line, "halt"], toy())


def test_the_binary_form_is_refused_by_its_first_bytes() -> None:
    with pytest.raises(TraceError, match="is a binary file"):
        read_fhetch(["NBFH\x01\x00", "..."], toy())


LINES = st.builds(
    lambda op, a, b, c, m, k: f"{op} %{a}, %{b}, {c}, m={m}, k={k}",
    st.sampled_from([*TWO, *ONE, *SCALAR]),
    st.integers(0, 9),
    st.integers(0, 9),
    st.one_of(st.integers(0, 9).map("%{}".format), st.integers(0, 3).map(str), st.just("omega=3")),
    st.integers(0, 3),
    st.sampled_from([5, 2047]),
)


@at_most(80)
@given(st.lists(LINES, max_size=30))
def test_any_text_is_a_trace_or_an_error_with_a_reason(lines: list[str]) -> None:
    head = [f"m[{i}] 0x{(1 << 40) + i:X}" for i in range(4)]
    try:
        trace = read_fhetch([*head, *lines], toy())
    except TraceError:
        return
    assert not list(problems(trace))


def test_the_wrong_parameter_set_is_noticed() -> None:
    writer = Writer(toy())
    program(writer)
    with pytest.raises(TraceError, match="4 special primes and parameter set 'insecure-test' 2"):
        read_fhetch(writer.text().splitlines(), toy(p_bits=(60,) * 2, dnum=5))
    with pytest.raises(TraceError, match="10 primes of Q"):
        read_fhetch(writer.text().splitlines(), toy(q_bits=(60,) + (50,) * 7, p_bits=(60,) * 4, dnum=2))


def test_a_cut_off_key_switch_is_no_operation() -> None:
    lines = lines_of(lambda writer: writer.rotate(writer.cipher(), 5))
    start = next(i for i, line in enumerate(lines) if line.startswith("sr_automorph"))
    with pytest.raises(TraceError):
        read_fhetch(lines[: start - 3], toy())


def test_the_command_line_imports_and_simulates_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    writer = Writer(catalogue.get("insecure-ci"))
    a = writer.cipher()
    writer.rotate(writer.rotate(a, 5), 25)
    (tmp_path / "p.fhetch").write_text(writer.text())
    command = ["trace", "import", str(tmp_path / "p.fhetch"), "--from", "fhetch", "-o", str(tmp_path / "p.parquet")]
    assert main(command) == 2
    assert "--params" in capsys.readouterr().err
    assert main([*command, "--params", "insecure-ci"]) == 0
    assert main(["simulate", str(tmp_path / "p.parquet"), "--machine", "sharp", "--tier", "hbm"]) == 0


@pytest.mark.parametrize(
    ("lines", "reason"),
    [
        (["sr_intt %0, %0, omega=3, m=0, k=5"] * 2, "divide nothing"),
        (["sr_mulp %0, %0, %2, m=0, k=5", "sr_mulp %0, %2, %2, m=0, k=5"], "times itself"),
    ],
)
def test_nonsense_is_refused_with_its_reason(lines: list[str], reason: str) -> None:
    table = [f"m[{i}] 0x{(1 << 40) + i:X}" for i in range(4)]
    with pytest.raises(TraceError, match=reason):
        read_fhetch([*table, *lines], toy())

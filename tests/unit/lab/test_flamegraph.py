"""Stacks and what is drawn from them: trimmed, folded, ranked, SVG, speedscope."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.lab.measure.flamegraph import MIN_SHARE, WIDTH, flame_graph
from penstock.lab.measure.perf_script import Frame, Sample, parse_script
from penstock.lab.measure.stacks import (
    ENCODE,
    OUTSIDE,
    PYTHON,
    Span,
    by_operation,
    first_frames,
    folded,
    folded_text,
    hotspots,
    short_name,
    speedscope,
    trim,
    trimmed,
)

DATA = Path(__file__).parents[2] / "data" / "perf"
SVG = "{http://www.w3.org/2000/svg}"
PKE, CORE = "/opt/lib/libOPENFHEpke.so.1", "/opt/lib/libOPENFHEcore.so.1"
BINDING = "/opt/openfhe/openfhe.cpython-310-x86_64-linux-gnu.so"
INTERPRETER = Frame("_PyEval_EvalFrameDefault", "/usr/lib/libpython3.10.so.1.0")
ROTATE, NTT = Frame("lbcrypto::EvalAtIndex", PKE), Frame("intnat::Forward", CORE)


def sample(*stack: Frame, at: float = 1.0, weight: float = 0.01, thread: int = 1) -> Sample:
    return Sample(thread=thread, command="python", time_s=at, weight_s=weight, stack=stack)


def recorded() -> list[Sample]:
    return list(parse_script((DATA / "script-openfhe-dwarf.txt").read_text().splitlines()))


def boxes(svg: str) -> list[tuple[str, dict[str, str], str]]:
    """Title, attributes of the rectangle, and label of each box."""
    root = ET.fromstring(svg)
    found = []
    for g in root.iter(f"{SVG}g"):
        title, rect, text = g.find(f"{SVG}title"), g.find(f"{SVG}rect"), g.find(f"{SVG}text")
        assert title is not None
        assert rect is not None
        found.append((title.text or "", dict(rect.attrib), (text.text or "") if text is not None else ""))
    return found


# Stacks.


def test_the_interpreter_below_the_library_becomes_one_frame() -> None:
    stack = (Frame("_start", "/usr/bin/python3.10"), INTERPRETER, INTERPRETER, Frame("[unknown]", BINDING), ROTATE, NTT)
    assert trim(stack) == (PYTHON, ROTATE, NTT)


def test_a_stack_whose_bottom_was_not_reached_gets_the_same_root() -> None:
    assert trim((INTERPRETER, ROTATE, NTT)) == trim((Frame("_start", "python3"), INTERPRETER, ROTATE, NTT))


def test_a_worker_thread_s_stack_starts_with_the_library() -> None:
    gomp = Frame("[unknown]", "/usr/lib/libgomp.so.1.0.0")
    assert trim((Frame("clone3", "libc.so.6"), Frame("start_thread", "libc.so.6"), gomp, NTT)) == (NTT,)


def test_time_in_the_interpreter_alone_is_python_and_kernel_frames_stay() -> None:
    kernel = Frame("do_syscall_64", "[kernel.kallsyms]")
    assert trim((INTERPRETER, INTERPRETER)) == (PYTHON,)
    assert trim((INTERPRETER, kernel)) == (PYTHON, kernel)


def test_unnamed_frames_in_a_row_become_one() -> None:
    unnamed = Frame("[unknown]", BINDING)
    assert trim((ROTATE, unnamed, unnamed, NTT, unnamed)) == (ROTATE, unnamed, NTT, unnamed)


def test_samples_start_with_the_operation_that_ran_at_their_time() -> None:
    spans = [Span("mult", 5, 2.0, 3.0), Span("rotate", 5, 1.0, 2.0)]
    encode = Frame("lbcrypto::CryptoContextImpl<X>::MakeCKKSPackedPlaintextInternal", PKE)
    samples = [sample(NTT, at=t) for t in (0.5, 1.0, 1.999, 2.5, 3.5)] + [sample(encode, at=4.0)]
    roots = [s.stack[0].name for s in by_operation(samples, spans)]
    assert roots == [OUTSIDE.name, "rotate", "rotate", "mult", OUTSIDE.name, ENCODE.name]


def test_folded_stacks_add_up_to_the_samples_and_hold_no_separator_in_names() -> None:
    samples = [sample(ROTATE, NTT), sample(ROTATE, NTT), sample(Frame("a;b\n c", ""), weight=0.5), sample()]
    text = folded_text(folded(samples))
    assert text.splitlines() == [
        "a:b c 500000",
        "lbcrypto::EvalAtIndex;intnat::Forward 20000",
        "[no stack] 10000",
    ]


def test_hotspots_count_recursion_once_and_the_leaf_as_its_own() -> None:
    spots = {h.function: h for h in hotspots([sample(ROTATE, NTT, ROTATE), sample(ROTATE)])}
    assert spots["EvalAtIndex"].self_s == pytest.approx(0.02)
    assert spots["EvalAtIndex"].total_s == pytest.approx(0.02), "twice on one stack is once in the total"
    assert "Forward" not in spots, "it was never on top"


def test_seconds_are_added_by_first_frame_heaviest_first() -> None:
    found = first_frames([sample(NTT), sample(ROTATE, NTT), sample(ROTATE, weight=0.5)])
    assert list(found.items()) == [("lbcrypto::EvalAtIndex", pytest.approx(0.51)), ("intnat::Forward", 0.01)]


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("lbcrypto::KeySwitchHYBRID::EvalKeySwitchPrecomputeCore", "KeySwitchHYBRID::EvalKeySwitchPrecomputeCore"),
        ("lbcrypto::DCRTPolyImpl<a<b<c> > >::operator*=", "DCRTPoly::operator*="),
        ("std::vector<int, std::allocator<int> >::operator[]", "vector::operator[]"),
        ("operator< <int>", "operator<"),
        ("Foo<int>::operator->", "Foo::operator->"),
        ("Foo<int>::operator<=>", "Foo::operator<=>"),
        ("lbcrypto::f [clone ._omp_fn.0]", "f (parallel)"),
        ("a < b", "a"),  # no C++ name: what opens and never closes is cut
        ("", ""),
    ],
)
def test_names_are_shortened_to_what_people_say(name: str, short: str) -> None:
    assert short_name(name) == short


# The SVG.


def test_a_box_is_as_wide_as_its_share_and_children_stand_on_their_parent() -> None:
    svg = flame_graph({(ROTATE, NTT): 3.0, (ROTATE,): 1.0, (NTT,): 4.0}, title="t")
    found = {(title.splitlines()[0], rect["y"]): (rect, title) for title, rect, _ in boxes(svg)}
    everything = next(rect for (name, _), (rect, _) in found.items() if name == "all")
    rotate, title = next(v for (name, _), v in found.items() if name == "EvalAtIndex")
    assert float(rotate["width"]) == pytest.approx(float(everything["width"]) / 2, abs=0.02)
    assert "50.0% of the samples; 12.5% in itself" in title
    upper = [rect for (name, _), (rect, _) in found.items() if name == "Forward" and rect["y"] < rotate["y"]]
    assert len(upper) == 1
    assert float(rotate["y"]) - float(upper[0]["y"]) == 18
    assert float(upper[0]["x"]) >= float(rotate["x"])
    assert float(upper[0]["width"]) == pytest.approx(float(rotate["width"]) * 0.75, abs=0.02)


def test_the_svg_is_self_contained() -> None:
    svg = flame_graph(folded(recorded()), title="recorded")
    assert "<script" not in svg
    assert "href" not in svg
    assert "@import" not in svg
    assert re.findall(r"https?://[^\s\"<]+", svg) == ["http://www.w3.org/2000/svg"]


def test_the_flame_graph_of_an_encrypted_run_names_the_library_s_functions() -> None:
    svg = flame_graph(folded(trimmed(recorded())), title="recorded")
    titles = " ".join(title for title, _, _ in boxes(svg))
    assert "KeySwitchHYBRID::EvalKeySwitchPrecomputeCore" in titles
    assert "LeveledSHEBase::EvalAtIndex" in titles
    assert "NumberTheoreticTransform::" in titles
    assert "_PyEval_EvalFrameDefault" not in titles


@given(
    st.dictionaries(
        st.lists(st.builds(Frame, st.text(max_size=12), st.text(max_size=6)), min_size=1, max_size=4).map(tuple),
        st.floats(1e-6, 10),
        min_size=1,
        max_size=6,
    ),
    st.text(max_size=20),
)
def test_any_name_gives_well_formed_xml_inside_the_picture(stacks: dict[tuple[Frame, ...], float], title: str) -> None:
    svg = flame_graph(stacks, title=title, subtitle=title)
    total = sum(stacks.values())
    drawn = boxes(svg)
    for _, rect, _ in drawn:
        assert float(rect["x"]) >= 0
        assert float(rect["x"]) + float(rect["width"]) <= WIDTH
        assert float(rect["y"]) >= 50
    assert len(drawn) >= 1 + any(s / total >= MIN_SHARE for s in stacks.values())


def test_no_samples_give_a_picture_that_says_so() -> None:
    svg = flame_graph({}, title="nothing <&> \x00")
    assert boxes(svg) == []
    assert "no samples" in svg
    assert "nothing &lt;&amp;&gt; \ufffd" in svg


def test_boxes_narrower_than_a_pixel_are_left_out_and_counted() -> None:
    svg = flame_graph({(ROTATE,): 10.0, (NTT,): 1e-4}, title="t")
    assert len(boxes(svg)) == 2
    assert "1 boxes below" in svg


# Speedscope.


def test_the_speedscope_file_has_every_field_of_its_schema_in_range() -> None:
    samples = [*recorded(), sample(NTT, at=9999.0, thread=recorded()[0].thread)]
    made = json.loads(json.dumps(speedscope(samples, "a name")))
    assert made["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert made["name"] == "a name"
    frames = made["shared"]["frames"]
    assert all(isinstance(f["name"], str) and set(f) <= {"name", "file", "line", "col"} for f in frames)
    assert 0 <= made["activeProfileIndex"] < len(made["profiles"])
    assert len(made["profiles"]) == len({s.thread for s in samples})
    for profile in made["profiles"]:
        assert set(profile) == {"type", "name", "unit", "startValue", "endValue", "samples", "weights"}
        assert profile["type"] == "sampled"
        assert profile["unit"] in ("none", "nanoseconds", "microseconds", "milliseconds", "seconds", "bytes")
        assert len(profile["samples"]) == len(profile["weights"]) > 0
        assert all(0 <= i < len(frames) for stack in profile["samples"] for i in stack)
        assert profile["endValue"] - profile["startValue"] == pytest.approx(sum(profile["weights"]))
        assert all(w > 0 for w in profile["weights"])
    leaf = frames[made["profiles"][0]["samples"][-1][-1]]
    assert leaf == {"name": "Forward", "file": "libOPENFHEcore.so.1"}, "samples are in the order of time, root first"

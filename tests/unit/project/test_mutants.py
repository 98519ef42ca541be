"""The mutation trial (`make mutants`): what it draws, and that it leaves no trace in the source."""

from __future__ import annotations

import itertools
import json
from dataclasses import replace
from pathlib import Path

import pytest

from support.mutant_places import changed, equivalent_by_text, line_of, masked, places
from support.mutants import ROOMS, Mutant, applied, drawn, files, read, restore, summary
from support.nearest_tests import nearest

PYTHON = b'''"""One == two, and 3."""
import logging
log = logging.getLogger(1 + 1)
LIMIT: dict[str, int] = {"a == b": 7}  # 4 < 5


def small(x: int, y: "int" = 2) -> bool:
    """Whether x < y and 8."""
    if x < y and not y:
        log.info("%d", 9)
        raise ValueError(f"{x + 10} is too small: {11}")
    return x is not None
'''
RUST = b"""//! 1 == 2
#[derive(Debug)]
#[repr(align(64))]
/* a < b */
pub(crate) fn small<'a>(x: &'a [u64], y: u64) -> Result<bool, Error> {
    let text = "3 == 4 \\" && true";
    let raw = r#"5 < 6 " 7"#;
    let sign = ('<', '8', b'9', '"');
    if y >= 10 && x.len() < 11 {
        panic!("12 == {}", 13);
    }
    check(x)?;
    Ok(y == 14)
}

#[cfg(feature = "s3")]
fn absent() -> u64 {
    15 + 16
}

#[cfg(test)]
mod tests {
    fn seventeen() { assert!(17 == 18); }
}

fn last() -> u64 {
    19
}
"""


def made(source: bytes, suffix: str) -> set[tuple[str, str]]:
    """What stands at each place and instead of it."""
    return {(source[place.start : place.end].decode(), place.after) for place in places(source, suffix)}


def test_places_of_python_are_in_code_and_not_in_words_types_or_logging():
    assert made(PYTHON, ".py") == {
        ("1", "2"), ("1", "0"), ("+", "-"), ("7", "8"), ("7", "6"), ("2", "3"), ("2", "1"), ("<", "<="), ("and", "or"),
        ("x < y and not y", "(not (x < y and not y))"), ("is not", "is"), ("x is not None", "None"),
        ('raise ValueError(f"{x + 10} is too small: {11}")', "pass"),
    }  # fmt: skip


def test_places_of_rust_are_in_code_and_not_in_words_tests_or_what_is_not_compiled():
    assert made(RUST, ".rs") == {
        (">=", ">"), ("10", "11"), ("10", "9"), ("&&", "||"), ("<", "<="), ("11", "12"), ("11", "10"),
        ("y >= 10 && x.len() < 11", "!(y >= 10 && x.len() < 11)"), ("check(x)?;", ""), ("==", "!="),
        ("14", "15"), ("14", "13"), ("19", "20"), ("19", "18"),
    }  # fmt: skip


def test_what_is_masked_keeps_every_other_byte_in_its_place():
    blank = masked(RUST)
    assert len(blank) == len(RUST)
    assert all(there in (b" "[0], here) for here, there in zip(RUST, blank, strict=True))
    assert b"'a [u64]" in blank


def test_a_hint_is_told_by_its_line():
    source = b"fn f() {\n    let mut rows = Vec::with_capacity(4);\n    rows.push(4);\n}\n"
    hints = {line_of(source, place): equivalent_by_text(source, place) for place in places(source, ".rs")}
    assert hints == {2: True, 3: False}


@pytest.mark.parametrize("room", ROOMS)
def test_a_seed_draws_the_same_mutants_again_and_none_in_tests(room: str):
    first = [mutant for mutant, _ in itertools.islice(drawn(room, 7), 12)]
    assert first == [mutant for mutant, _ in itertools.islice(drawn(room, 7), 12)]
    assert len({mutant.key for mutant in first}) == 12
    assert not [path for path in files(room) if "tests" in path.parts]


def test_another_seed_draws_others():
    assert next(drawn("recorder", 7))[1] != next(drawn("recorder", 8))[1]


def test_every_python_place_of_a_file_gives_a_module_that_compiles():
    path = next(path for path in files("client") if path.name == "results.py")
    source = path.read_bytes()
    for place in places(source, ".py"):
        compile(changed(source, place), path.name, "exec")


def test_the_source_comes_back_after_a_failure_and_after_a_kill(tmp_path: Path):
    path, kept = tmp_path / "small.py", tmp_path / "small.kept"
    path.write_bytes(PYTHON)
    place = places(PYTHON, ".py")[0]
    left: list[str] = []

    def interrupted() -> None:
        with applied(path, place, kept):
            left.extend((kept.read_text(), path.read_text()))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert json.loads(left[0])["source"] == PYTHON.decode()
    assert left[1].encode() == changed(PYTHON, place)
    assert path.read_bytes() == PYTHON
    assert not kept.exists()
    path.write_bytes(changed(PYTHON, place))
    kept.write_text(left[0])
    restore(kept)
    assert path.read_bytes() == PYTHON
    assert not kept.exists()


def test_the_nearest_tests_of_a_module_are_those_that_import_it():
    assert "tests/unit/runtime/test_client_pair.py" in nearest("src/penstock/runtime/client/pair.py", "client")


def test_the_last_verdict_of_a_mutant_counts(tmp_path: Path):
    near = Mutant(43, "client", "src/a.py", 3, "<", "<=", "operator", 20, "near")
    lines = [near, replace(near, verdict="survived"), replace(near, start=9, verdict="found")]
    record = tmp_path / "record.jsonl"
    record.write_text("".join(json.dumps(vars(line)) + "\n" for line in lines))
    assert [each.verdict for each in read(record)] == ["survived", "found"]
    told = summary(read(record))
    assert "client    found 1 of 2, drawn again 0\n  survived src/a.py:3: '<' -> '<='" in told
    assert told.endswith("together  found 1 of 2 (50%)")

"""Files from outside cost no more than honest ones: sizes, nesting, numbers and encodings are checked first."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.base.system import outside, toml
from penstock.base.system.outside import TooLarge
from penstock.errors import MachineError, UsageError

DEEP = 3000


def file(folder: Path, content: bytes | str, name: str = "x.toml") -> Path:
    path = folder / name
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


def test_a_file_is_refused_by_its_size_before_it_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "large.json"
    with path.open("wb") as sparse:
        sparse.truncate(outside.MOST_BYTES + 1)
    with pytest.raises(TooLarge, match=r"large\.json has 67,108,865 bytes; at most 67,108,864 .*PENSTOCK_MOST_BYTES"):
        outside.content_of(path)
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "3")
    with pytest.raises(TooLarge, match="set PENSTOCK_MOST_BYTES=4"):
        outside.content_of(file(tmp_path, "abcd"))
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "4")
    assert outside.content_of(file(tmp_path, "abcd")) == b"abcd"


def test_a_device_without_an_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", "1000")
    with pytest.raises(TooLarge, match="/dev/zero has 1,001 bytes"):
        outside.content_of(Path("/dev/zero"))


@pytest.mark.parametrize("stated", ["", "many", "-5", "²", "9" * 50])
def test_a_limit_that_is_no_number_is_not_used(stated: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_MOST_BYTES", stated)
    assert outside.limit("PENSTOCK_MOST_BYTES", 7) == 7


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("a = 1".encode("utf-16"), "the byte order mark of UTF-16; save it as UTF-8"),
        ("a = 1".encode("utf-32"), "the byte order mark of UTF-32; save it as UTF-8"),
        (b"a = 1\nb = '\xff'\n", r"byte 11 \(row 2\), 0xff, is not UTF-8; save it as UTF-8"),
        (b"\xef\xbb\xbfa = '\xff'\n", "byte 8, 0xff, is not UTF-8; save it as UTF-8"),
    ],
)
def test_another_encoding_is_named(content: bytes, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        outside.decoded(content)
    with pytest.raises(UsageError, match=r"x\.toml: .*" + problem):
        toml.table(content, "x.toml", "a file")


def test_the_mark_before_utf_8_is_passed_over() -> None:
    assert toml.table(b"\xef\xbb\xbfa = 1", "x.toml", "a file") == {"a": 1}
    assert outside.json_of(b'\xef\xbb\xbf{"a": 1}') == {"a": 1} == outside.json_of('\ufeff{"a": 1}')


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("[" * DEEP + "]" * DEEP, "nested deeper than 64 levels"),
        ('{"a":' * 65 + "1" + "}" * 65, "nested deeper than 64 levels"),
        ("9" * 41, "it holds a whole number of more than 40 digits"),
        ("[" + "9" * 10_000 + "]", "it holds a whole number of more than 40 digits"),
    ],
)
def test_json_that_nobody_writes_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        outside.json_of(text)


def test_json_as_it_is_written_is_read() -> None:
    assert outside.json_of("[" * 64 + "1e3" + "]" * 64)
    assert outside.json_of(b'{"a": [18446744073709551615, -1, {"b": null}]}') == {"a": [2**64 - 1, -1, {"b": None}]}
    assert outside.json_of('{"a": 1}', pairs=list) == [("a", 1)]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("a = " + "[" * DEEP + "]" * DEEP, "nested deeper than 64 levels"),
        ("a = " + "[" * 65 + "]" * 65, "nested deeper than 64 levels"),
        ("a = " + "{b = " * DEEP + "1" + "}" * DEEP, "nested deeper than 64 levels"),
        (".".join("a" * DEEP) + " = 1", "nested deeper than 64 levels"),
        ("[" + " . ".join(["'a'", '"b"'] * 100) + "]", "nested deeper than 64 levels"),
        ("a = { " + ".".join("b" * DEEP) + " = 1 }", "nested deeper than 64 levels"),
        ("a = inf", "'a' is inf; write a finite number"),
        ("[b]\na = [1, { c = -nan }]", r"'b\.a\[1\]\.c' is nan; write a finite number"),
        ("a = 1e999", "'a' is inf; write a finite number"),
        ("a = 9223372036854775808", r"'a' is 9223372036854775808; a whole number is from -2\^63 to 2\^63 - 1"),
        ("a = 0x" + "f" * 5000, r"'a' is a whole number of more than 40 digits; .* from -2\^63 to 2\^63 - 1"),
        ("a = " + "9" * 10_000, "more than 40 digits"),
    ],
)
def test_toml_that_nobody_writes_is_refused(text: str, problem: str) -> None:
    with pytest.raises(MachineError, match=r"^x\.toml: .*" + problem) as caught:
        toml.table(text, "x.toml", "a machine file", MachineError)
    assert len(str(caught.value)) < 400


def test_toml_of_a_file_is_bounded(tmp_path: Path) -> None:
    path = file(tmp_path, b"#" * (outside.MOST_SETTINGS_BYTES + 1))
    with pytest.raises(TooLarge, match=r"x\.toml has 4,194,305 bytes"):
        toml.table(path, str(path), "a file")


def test_a_long_line_is_refused_before_it_is_whole_in_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outside, "LONGEST_LINE", 8)
    path = file(tmp_path, b"\xef\xbb\xbfone\ntwo two two\n", "x.jsonl")
    lines = outside.lines_of(path, UsageError)
    assert next(lines) == "one\n"
    with pytest.raises(UsageError, match=r"x\.jsonl, line 2: longer than 8 bytes"):
        next(lines)
    with pytest.raises(UsageError, match=r"x\.jsonl, line 1: byte 1, 0xff, is not UTF-8"):
        list(outside.lines_of(file(tmp_path, b"a\xff\n", "x.jsonl"), UsageError))

"""Every command and snippet of the documentation does what its page says: run, or checked with a stated reason.

`make test` runs what is quick, in part at smaller sizes; `make docs-check` (PENSTOCK_DOCS=all) runs the rest too.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
from pathlib import Path

import pytest

from penstock.base.system import toml
from penstock.scheme.machines import load_machine
from support.docs_blocks import MARKS, ROOT, Block, blocks, words
from support.docs_commands import carried_out, differences, parsed
from support.docs_reader import THINGS, Reader

BLOCKS = blocks()
ALL = os.environ.get("PENSTOCK_DOCS") == "all"
MOST_CHECKED_ONLY = 9
"""Blocks that nothing runs. Raise it only with a reason beside the block that says why it cannot be run anywhere."""
MOST_LONG = 12
"""Blocks that only `make docs-check` runs."""
RUN = [block for block in BLOCKS if block.does_something and block.reason is None and (ALL or block.long is None)]
RUN_PAGES = list(dict.fromkeys(block.page for block in RUN))
NEEDS_OPENFHE = re.compile(
    r"^(python |penstock (record|profile|bench run|keys bench|explore|reproduce)\b)|--reading openfhe", re.M
)
BRINGS_OPENFHE = {"context", "key files", "stored keys", "node", "runs/before"}
ENCRYPTS = re.compile(r"^penstock (run|analyze|database|keys study)\b", re.M)
BRINGS_CIPHERTEXTS = {"people", "two runs"}


def test_few_blocks_are_not_run_and_each_says_why() -> None:
    checked = [block for block in BLOCKS if block.reason is not None]
    long = [block for block in BLOCKS if block.long is not None]
    assert len(checked) <= MOST_CHECKED_ONLY, "\n".join(f"{block}: {block.reason}" for block in checked)
    assert len(long) <= MOST_LONG, "\n".join(f"{block}: {block.long}" for block in long)
    assert all(len(block.reason or block.long or "") > 5 for block in checked + long)
    tutorials = [b for b in checked + long if b.page.startswith(("docs/tutorials", "docs/start", "docs/reports"))]
    assert len(tutorials) <= 2, "tutorials are run whole, but for a policy that is compiled in"


def test_a_command_over_several_lines_is_read_whole() -> None:
    text = "penstock simulate a \\\n    --hosts 1,2 \\\n    --tier 'b c'   what it does\npenstock doctor\n"
    block = Block(page="p.md", line=1, language="", text=text)
    assert [words(command) for command in block.commands] == [
        ["penstock", "simulate", "a", "--hosts", "1,2", "--tier", "b c"],
        ["penstock", "doctor"],
    ]
    options = {str(each): re.findall(r"\\\n\s*(--[a-z-]+)", each.text) for each in blocks()}
    assert sum(map(len, options.values())) > 10
    for each in blocks():
        lost = set(options[str(each)]) - {word for command in each.commands for word in words(command)}
        assert not lost, f"{each}: {lost}"


def test_marks_stand_only_where_there_is_a_block_and_say_what_is_there() -> None:
    for page in {block.page for block in BLOCKS}:
        marks = re.findall(rf"^<!-- (?:{'|'.join(MARKS)}): ", (ROOT / page).read_text(), re.M)
        of_page = [block for block in BLOCKS if block.page == page]
        kinds = [[b.reason, b.long, b.in_tests or None, b.has or None] for b in of_page]
        assert len(marks) == sum(each is not None for kind in kinds for each in kind), page
    for block in BLOCKS:
        assert block.reason is None or block.long is None, block
        assert set(block.has) <= set(THINGS), block
        assert all(old in block.text for old, _ in block.in_tests), block


def test_every_rust_block_is_an_example_that_cargo_compiles() -> None:
    crates = "".join(path.read_text() for path in (ROOT / "crates").glob("*/src/lib.rs"))
    # Tests of the crates compile the examples.
    examples = {path.read_text() for path in (ROOT / "examples").glob("*.rs")}
    of_rust = {block.page for block in BLOCKS if block.language == "rust" and block.text not in examples}
    assert of_rust
    for page in of_rust:
        assert f'include_str!("../../../{page}")' in crates, page
        # What says no language is Rust to cargo.
        assert all(block.language for block in BLOCKS if block.page == page), page


@pytest.mark.parametrize("block", [b for b in BLOCKS if b.reason is not None or b.commands], ids=str)
def test_every_command_has_the_options_that_the_page_shows(block: Block) -> None:
    for command in block.commands:
        for part in re.split(r"&&|\|(?=\s*(?:penstock|python)\b)", command):
            line = words(re.sub(r"\[[^]]*\]|\s>\s.*$", "", part))
            if line and line[0].endswith("penstock"):
                parsed(line[1:])
    if block.language == "python":
        compile(block.text, str(block), "exec")
    if block.language == "toml":
        toml.loads(block.text)


@pytest.mark.parametrize("page", RUN_PAGES)
def test_what_a_page_shows_works_from_top_to_bottom(
    page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    """One reader, one folder: files that a block saves are there for the next."""
    steps = [block for block in RUN if block.page == page]
    if any(NEEDS_OPENFHE.search("\n".join(b.commands)) or BRINGS_OPENFHE & set(b.has) for b in steps):
        request.getfixturevalue("openfhe")
    if any(ENCRYPTS.search("\n".join(b.commands)) or BRINGS_CIPHERTEXTS & set(b.has) for b in steps):
        request.getfixturevalue("encrypting")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / ".cache"))
    (tmp_path / "examples").symlink_to(ROOT / "examples")
    reader = Reader(tmp_path, thorough=ALL)
    with reader.ending:
        for block in steps:
            followed(block, reader)


def followed(block: Block, reader: Reader) -> None:
    """Save what is to be saved, run what is to be run, and compare what is printed with what the page shows."""
    reader.has(*block.has)
    if block.file is not None:
        (reader.folder / block.file).write_text(block.text)
        if "[units]" in block.text:
            assert load_machine(block.file).units
    elif block.language == "python":
        with contextlib.redirect_stdout(io.StringIO()):
            exec(compile(block.text, str(block), "exec"), reader.names)
    elif block.language == "toml":
        raise AssertionError(f"{block}: say under which name it is saved: its first line is '# name.toml'")
    for command, shown in block.shown:
        typed = command
        if not ALL:
            for old, new in block.in_tests:
                typed = typed.replace(old, new)
        for part in typed.split(" && "):
            expected = int(found[1]) if (found := re.search(r"# exit code (\d)", part)) else 0
            code, out, messages = carried_out(words(part), timeout_s=900 if ALL else 120)
            assert code == expected, f"{block}: {part}\n{out}{messages}"
        if typed == command:
            assert not differences(shown, messages + out), f"{block}: {command}\nprints\n{messages}{out}"

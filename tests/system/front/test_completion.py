"""Completion as a shell asks for it: the real command with the words on the line, and the real bash."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from support.docs_blocks import ROOT

CODE = "import sys; from penstock.front.cli.main import main; sys.exit(main())"


def asked(line: str, *, shell: str = "bash", cwd: Path = ROOT, code: str = CODE) -> subprocess.CompletedProcess[str]:
    words = line.split(" ")
    fish = {"COMP_WORDS": line, "COMP_CWORD": words[-1]}
    position = fish if shell == "fish" else {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **position, "_PENSTOCK_COMPLETE": f"{shell}_complete"},
        capture_output=True,
        text=True,
        check=True,
        cwd=cwd,
        timeout=60,
    )


def completed(line: str, **options: object) -> list[str]:
    """What bash would offer; `file` and `dir` where it shall look for files itself."""
    answers = [row.partition(",") for row in asked(line, **options).stdout.splitlines() if row]  # type: ignore[arg-type]
    return [value if kind == "plain" else kind for kind, _, value in answers]


@pytest.mark.parametrize(
    ("line", "some"),
    [
        ("penstock sim", ["simulate"]),
        ("penstock trace ex", ["expand", "export"]),
        ("penstock simulate inner-p", ["inner-product"]),
        ("penstock simulate inner-product --machine a", ["a100-cheddar", "a100-tensorfhe", "ark"]),
        ("penstock simulate inner-product --tier pc", ["pcie5"]),
        ("penstock simulate inner-product --network eth", ["ethernet-400"]),
        ("penstock simulate inner-product --policy be", ["belady"]),
        ("penstock simulate inner-product --classes keys,pl", ["keys,plaintexts"]),
        ("penstock simulate inner-product --time", ["--timeline", "--timeline-events"]),
        ("penstock params show openfhe-de", ["openfhe-deep", "openfhe-demo"]),
        ("penstock run cnn --size ", ["ci", "full"]),
        ("penstock run --reading n", ["noisy", "native"]),
        ("penstock ssd scan --drive ssd", ["ssd-l", "ssd-s"]),
        ("penstock trace info ", ["file"]),
        ("penstock record ", ["file"]),
        ("penstock simulate ./", ["file"]),
        ("penstock completion z", ["zsh"]),
        ("penstock simulate inner-product --machine no-such", []),
    ],
)
def test_bash_is_offered_the_words_that_may_follow(line: str, some: list[str]) -> None:
    assert completed(line) == some


def test_sizes_of_no_workload_and_of_one_differ() -> None:
    assert set(completed("penstock run cnn --size ")) < set(completed("penstock run --size "))


def test_own_files_stand_beside_the_shipped_names(tmp_path: Path) -> None:
    for name in ("sharper.toml", "score.py", "score.parquet", "score.txt", "s[1].toml"):
        (tmp_path / name).touch()
    assert completed("penstock simulate x --machine sh", cwd=tmp_path) == ["sharp", "sharper.toml"]
    assert completed("penstock simulate x --machine s[", cwd=tmp_path) == ["s[1].toml"]
    assert completed("penstock simulate sc", cwd=tmp_path) == ["score.parquet", "score.py"]
    assert completed("penstock run sc", cwd=tmp_path) == ["score.py"]


def test_zsh_and_fish_are_told_what_a_verb_is_for() -> None:
    zsh = asked("penstock dat", shell="zsh").stdout.splitlines()
    assert zsh[:2] == ["plain", "database"]
    assert zsh[2].startswith("Encrypted databases")
    assert asked("penstock dat", shell="fish").stdout.startswith("plain,database\tEncrypted databases")


def test_completing_imports_neither_numpy_nor_a_verb() -> None:
    code = "import atexit, sys; atexit.register(lambda: print(sorted(sys.modules), file=sys.stderr)); " + CODE
    said = asked("penstock simulate inner-product --machine a", code=code).stderr
    for name in (
        "'numpy'",
        "'pyarrow'",
        "'pydantic'",
        "'rich'",
        "'penstock.front.cli.verbs",
        "'penstock.scheme.machines'",
    ):
        assert name not in said
    assert "'click'" in said


def test_the_index_is_what_the_commands_say() -> None:
    script = ROOT / "scripts" / "completion_index.py"
    spec = importlib.util.spec_from_file_location("completion_index", script)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    written = module.INDEX.read_text()
    assert written == module.text(), "a command has changed: python scripts/completion_index.py"
    simulate = json.loads(written)["commands"]["simulate"]
    assert {"names": ["--tier"], "takes": "tier", "multiple": True} in simulate["options"]


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_script_of_each_shell_is_printed_and_says_how_to_install_it(shell: str) -> None:
    command = [sys.executable, "-c", CODE, "completion", shell]
    script = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    assert f"_PENSTOCK_COMPLETE={shell}_complete" in script
    assert script.splitlines()[-1].startswith(f"# To install: penstock completion {shell} > ")
    if shutil.which(shell):
        subprocess.run([shell, "-n"], input=script, text=True, check=True, timeout=60)


def test_bash_completes_with_the_printed_script(tmp_path: Path) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("bash is not installed")
    command = tmp_path / "penstock"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -c "{CODE}" "$@"\n')
    command.chmod(0o755)
    code = (
        'eval "$(penstock completion bash)"; COMP_WORDS=(penstock simulate x --tier pc); COMP_CWORD=4; '
        'COMP_LINE="${COMP_WORDS[*]}"; _penstock_completion penstock; echo "${COMPREPLY[@]}"'
    )
    environ = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([bash, "-c", code], env=environ, capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.strip() == "pcie5"

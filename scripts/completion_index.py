"""Writes `src/penstock/front/cli/commands.json`, from which shells complete words: what each command takes.

With `--check` it writes nothing, and exits with 1 where the file is not what the commands say.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Any

import click

from penstock.front.cli.completion import INDEX
from penstock.front.cli.lazy import LazyGroup
from penstock.front.cli.main import cli
from penstock.lab.simulation.words import OPTIONS, QuestionWord
from penstock.program import workloads

KINDS = {
    "--params": "params", "--drive": "drive", "--architecture": "architecture", "--size": "size",
    "--workload": "workload",
    "--cpu": "machine", "--link": "tier", "--memory-tier": "tier", "explore --policy": "file",
}  # fmt: skip
"""Options whose values have names, in every command."""
ARGUMENTS = {
    "workload": "workload", "target": "program", "named": "workload", "drives": "drive", "script": "file",
    "machines show": "machine", "params show": "params", "params size": "params",
}  # fmt: skip
"""Arguments likewise, by name, or by the words of the command where the name says little."""


def choices() -> dict[str, Any]:
    """Options without a type that names their values: these, or with ',' first several with commas; '*.py': files
    too."""
    from penstock.base.system.doctor import CHECKS
    from penstock.front.explorer.views import VIEWS
    from penstock.lab.instorage.policies import HOST_POLICIES
    from penstock.lab.rewriting import PASSES

    return {
        **{OPTIONS(word.name): completed(word) for word in OPTIONS.taken() if word.registry or word.completes},
        "--require": list(CHECKS), "--pass": [",", *PASSES],
        "words": [*VIEWS, "*.py", "*.pkg", "*.parquet"], "ssd --policy": list(HOST_POLICIES),
        "--suite": ["quick", "fit", "full"],
    }  # fmt: skip


def completed(word: QuestionWord) -> Any:
    """The completion of an option of a question: a kind, or choices."""
    if len(word.completes) == 1 and not word.registry:
        return word.completes[0]
    return [*([","] if word.takes == "list" else []), *word.known(), *word.completes]


def walk(command: click.Command, words: str = "", help: str = "") -> Iterator[tuple[str, str, click.Command]]:
    """Every command with its words and its one line, groups before what they hold."""
    yield words, help, command
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            found = command.get_command(context, name)
            if found is not None and not found.hidden:
                said = command.verbs.get(name) if isinstance(command, LazyGroup) else found.get_short_help_str(200)
                yield from walk(found, f"{words} {name}".strip(), said or "")


def takes(parameter: click.Parameter, words: str, known: dict[str, Any]) -> Any:
    """What a parameter takes: `flag`, `file`, `dir`, a kind of `front/cli/completion.py`, choices, or any text."""
    name = parameter.opts[0]
    if isinstance(parameter, click.Option) and (parameter.is_flag or parameter.count):
        return "flag"
    if isinstance(parameter.type, click.Choice):
        return list(parameter.type.choices)
    kinds = KINDS if isinstance(parameter, click.Option) else ARGUMENTS
    for key in (f"{words.partition(' ')[0]} {name}", words if kinds is ARGUMENTS else name, name):
        if key in known or key in kinds:
            return known.get(key) or kinds[key]
    if isinstance(parameter.type, click.Path):
        return "file" if parameter.type.file_okay else "dir"
    return ""


def text() -> str:
    """The index as JSON."""
    known = choices()
    told = {}
    for words, help, command in walk(cli):
        options = [
            {"names": [*p.opts, *p.secondary_opts], "takes": takes(p, words, known), "multiple": p.multiple}
            for p in command.params
            if isinstance(p, click.Option) and not p.hidden
        ]
        arguments = [
            {"name": p.name, "takes": takes(p, words, known), "nargs": p.nargs}
            for p in command.params
            if isinstance(p, click.Argument)
        ]
        told[words] = {
            "help": help, "group": isinstance(command, click.Group), "options": options, "arguments": arguments
        }  # fmt: skip
    sizes = {name: list(workloads.get(name).SIZES) for name in workloads.names()}
    return _written({"commands": told, "sizes": sizes})


def _written(index: dict[str, dict[str, Any]]) -> str:
    """JSON with a line for each command and each workload: a small change is a small difference."""
    parts = []
    for name, rows in index.items():
        lines = [f"{json.dumps(key)}: {json.dumps(row, ensure_ascii=False)}" for key, row in rows.items()]
        parts.append(f'"{name}": {{\n  ' + ",\n  ".join(lines) + "\n}")
    return "{" + ",\n".join(parts) + "}\n"


def main() -> int:
    """Write the file, or check it."""
    made = text()
    if "--check" in sys.argv[1:]:
        if not INDEX.exists() or INDEX.read_text(encoding="utf-8") != made:
            print(f"{INDEX.name} is old: python scripts/completion_index.py", file=sys.stderr)
            return 1
        return 0
    INDEX.write_text(made, encoding="utf-8")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())

"""Completion for bash, zsh and fish: click's own, on a copy of the commands that needs no module of a verb.

`commands.json` in this folder lists the options and arguments of each command: `scripts/completion_index.py` makes it
from the commands. Names of machines, tiers and parameter sets come from the shipped files.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from pathlib import Path

import click
from click.shell_completion import CompletionItem, get_completion_class, shell_complete, split_arg_string

from penstock.base.types import Row, RowView

PACKAGE = Path(__file__).parents[2]
INDEX = Path(__file__).with_name("commands.json")
VARIABLE = "_PENSTOCK_COMPLETE"
"""Set by the shell's script: `bash_complete`, `zsh_complete`, `fish_complete`."""
SHELLS = {
    "bash": "penstock completion bash > ~/.local/share/bash-completion/completions/penstock",
    "zsh": "penstock completion zsh > ~/.zfunc/_penstock, with 'fpath+=~/.zfunc' before 'compinit' in ~/.zshrc",
    "fish": "penstock completion fish > ~/.config/fish/completions/penstock.fish",
}
"""Shell -> how its script is installed."""

FOLDERS = {
    "params": "scheme/params/data",
    "machine": "scheme/machines/data/machines",
    "tier": "scheme/machines/data/tiers",
    "network": "scheme/machines/data/networks",
    "drive": "scheme/machines/data/drives",
    "architecture": "scheme/machines/data/instorage",
}
"""Kind of a value -> the folder whose TOML files have the names."""
SUFFIXES = {"program": (".py", ".pkg", ".parquet"), "workload": (".py", ".pkg")}
"""Kind of a value -> files that stand for one; TOML files elsewhere."""


@lru_cache(maxsize=1)
def index() -> Row:
    """What `commands.json` says: `commands` by their words, `sizes` of the workloads."""
    content: Row = json.loads(INDEX.read_text(encoding="utf-8"))
    return content


def names(kind: str, line: Sequence[str] = ()) -> Iterable[str]:
    """The known values of a kind. `line`: the words of the command line, of which one may be a workload with sizes."""
    if kind in FOLDERS:
        return sorted(path.stem for path in (PACKAGE / FOLDERS[kind]).glob("*.toml"))
    sizes: dict[str, list[str]] = index()["sizes"]
    if kind != "size":
        return sizes
    workload = next((word for word in line if word in sizes), None)
    return sizes[workload] if workload else sorted({size for known in sizes.values() for size in known})


def values(takes: str | list[str], incomplete: str, line: Sequence[str] = ()) -> list[CompletionItem]:
    """Return the words that can complete `incomplete`. `takes`: choices, or a kind; `,` before it: a list with
    commas; `*.py` among choices: files too."""
    if takes in ("file", "dir"):
        return [CompletionItem(incomplete, type=str(takes))]
    head = ""
    if takes and takes[0] == ",":
        takes = takes[1:]
        done, comma, incomplete = incomplete.rpartition(",")
        head = done + comma
    suffixes: tuple[str, ...] = ()
    if isinstance(takes, list):
        known: Iterable[str] = [choice for choice in takes if not choice.startswith("*.")]
        suffixes = tuple(choice[1:] for choice in takes if choice.startswith("*."))
    else:
        known = names(takes, line) if takes else []
        suffixes = SUFFIXES.get(takes, (".toml",)) if takes not in ("", "size") else ()
    words = [head + name for name in known if name.startswith(incomplete)]
    if suffixes and incomplete:
        if "/" in incomplete:
            return [CompletionItem(incomplete, type="file")]
        words += sorted(path.name for path in Path().glob(f"{_plain(incomplete)}*") if path.suffix in suffixes)
    return [CompletionItem(word) for word in words]


def _plain(text: str) -> str:
    """Text without the signs that a pattern of file names gives a meaning."""
    return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in text)


def commands() -> click.Group:
    """The commands as the index describes them."""
    root = click.Group("penstock", context_settings={"help_option_names": ["-h", "--help"]})
    groups = {"": root}
    for words, entry in index()["commands"].items():
        above, _, name = words.rpartition(" ")
        parameters: list[click.Parameter] = [_option(option) for option in entry["options"]]
        parameters += [_argument(argument) for argument in entry["arguments"]]
        if not words:
            root.params = parameters
            continue
        made: click.Command
        if entry["group"]:
            made = groups[words] = click.Group(name, params=parameters, short_help=entry["help"])
        else:
            made = click.Command(name, params=parameters, short_help=entry["help"])
        groups[above].add_command(made)
    return root


def _option(entry: RowView) -> click.Option:
    taken = {"is_flag": True} if entry["takes"] == "flag" else {"shell_complete": _completer(entry["takes"])}
    return click.Option(entry["names"], multiple=entry["multiple"], **taken)


def _argument(entry: RowView) -> click.Argument:
    return click.Argument(
        [entry["name"]], nargs=entry["nargs"], required=False, shell_complete=_completer(entry["takes"])
    )


def _completer(takes: str | list[str]) -> Callable[..., list[CompletionItem]]:
    def complete(ctx: click.Context, param: click.Parameter, incomplete: str) -> list[CompletionItem]:
        # An option that waits for its value ends click's parsing: the arguments before it are on the line only.
        return values(takes, incomplete, split_arg_string(os.environ.get("COMP_WORDS", "")))

    return complete


def script(shell: str) -> str:
    """The script that a shell loads, with how to install it at its end."""
    completer = get_completion_class(shell)
    assert completer is not None, "click has all three"
    text = completer(commands(), {}, "penstock", VARIABLE)
    return f"{(text.source_template % text.source_vars()).strip()}\n\n# To install: {SHELLS[shell]}\n"


def complete(instruction: str) -> int:
    """Answer a shell's script: the exit code."""
    code = shell_complete(commands(), {}, "penstock", VARIABLE, instruction)
    sys.stdout.flush()
    return code

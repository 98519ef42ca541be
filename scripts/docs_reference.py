"""Reference pages that are made from the code while the documentation is built: nothing in them is typed by hand.

A hook of mkdocs (`hooks:` in mkdocs.yml) adds them as files that exist only in the site: the command line from click,
the Python interface from its docstrings, the catalogue from the registries and the data files.
"""

from __future__ import annotations

import dataclasses
import html
import importlib
import inspect
import io
import pkgutil
import re
import typing
from collections.abc import Iterable, Iterator, Sequence
from contextlib import redirect_stdout
from types import ModuleType
from typing import Any

import click

INTERNAL = "source"
STUDIES = "studies"
"""Folder of the pages of the rooms."""


def pages() -> dict[str, str]:
    """Path below docs/ -> Markdown."""
    return {
        "reference/command-line.md": command_line(),
        "reference/python.md": python_interface(),
        "reference/catalogue.md": catalogue(),
        f"{INTERNAL}/index.md": internals(),
        **{f"{INTERNAL}/{name}.md": room(name) for name in rooms()},
    }


# The command line.


def commands() -> Iterator[tuple[tuple[str, ...], click.Command, click.Context]]:
    """Every command with its words, groups before what they hold."""
    from penstock.front.cli.main import cli

    def walk(words: tuple[str, ...], command: click.Command, above: click.Context | None) -> Iterator[Any]:
        context = click.Context(command, info_name=words[-1], parent=above)
        yield words, command, context
        if isinstance(command, click.Group):
            for name in command.list_commands(context):
                found = command.get_command(context, name)
                if found is not None and not found.hidden:
                    yield from walk((*words, name), found, context)

    yield from walk(("penstock",), cli, None)


def command_line() -> str:
    """A section for each command: its usage, its words, its options with defaults."""
    parts = ["# Command line", "", "Made from the commands themselves; `penstock VERB --help` says the same.", ""]
    for words, command, context in commands():
        parts += [f"{'#' * min(4, len(words) + 1)} `{' '.join(words)}`", ""]
        usage = " ".join(command.collect_usage_pieces(context))
        parts += ["```text", f"{' '.join(words)} {usage}", "```", ""]
        parts += [_prose(command.help or ""), ""]
        options = [p for p in command.params if isinstance(p, click.Option) and not p.hidden]
        if options:
            rows = [(_code(", ".join(p.opts)), _takes(p, context), p.help or "", _default(p)) for p in options]
            parts += _table(("option", "takes", "meaning", "default"), rows)
    return "\n".join(parts)


def _takes(option: click.Option, context: click.Context) -> str:
    if option.is_flag:
        return ""
    shown = option.make_metavar(context) if "ctx" in inspect.signature(option.make_metavar).parameters else ""
    return _code(shown or option.metavar or option.type.name) + (", repeatable" if option.multiple else "")


def _default(option: click.Option) -> str:
    value = option.default
    if value is None or callable(value) or option.is_flag or value == () or type(value).__name__ == "Sentinel":
        return ""
    return _code(", ".join(map(str, value)) if isinstance(value, tuple | list) else str(value))


def _prose(text: str) -> str:
    """Help text as Markdown: examples, which click keeps as they are after a backspace, become a block."""
    parts = []
    for block in inspect.cleandoc(text).split("\n\n"):
        if block.startswith("\b"):
            lines = block.splitlines()[1:]
            heads = [line for line in lines[:1] if line.strip().endswith(":")]
            parts += [*heads, "", "```text", *(line.removeprefix("  ") for line in lines[len(heads) :]), "```"]
        else:
            parts += [_escaped(block)]
        parts.append("")
    return "\n".join(parts)


# The Python interface.


def python_interface() -> str:
    """What is public, by module: the functions of `import penstock`, what they return, and the errors."""
    import penstock
    from penstock import errors

    values = {name: getattr(penstock, name) for name in penstock.__all__}
    functions = [(name, value) for name, value in values.items() if inspect.isfunction(value)]
    returned = {member for _, function in functions for member in _returned(function)}
    about = (
        "Made from the docstrings. [The Python interface](../guides/api.md) shows how to use it. This page stays as "
        "[releases](releases.md) says; all else is internal, one page a room."
    )
    results = [(each.__name__, each) for each in sorted(returned, key=lambda each: each.__name__)]
    raised = list(_members(errors))
    parts = ["# Python interface", "", about, ""]
    for title, members in (("`penstock`", functions), ("Results", results), ("`penstock.errors`", raised)):
        rows = [(f"[`{name}`](#{name.lower()})", _first_line(member)) for name, member in members]
        parts += [f"**{title}**", "", *_table(("name", "what it is"), rows)]
    parts += ["## Module `penstock`", "", *_described(functions)]
    parts += ["## Results that they return", "", *_described(results)]
    parts += ["## Module `penstock.errors`", "", _escaped(inspect.getdoc(errors) or ""), "", *_described(raised)]
    return "\n".join(parts)


def _first_line(member: Any) -> str:
    return (inspect.getdoc(member) or "").partition("\n")[0]


def internals() -> str:
    """Every room with what it is for, apart from what is public."""
    about = (
        "The rooms of the package, one page each. Nothing here is public: it may change with any version. "
        "[The Python interface](../reference/python.md) is what stays; [the house](../house.md) says what goes where."
    )
    modules = {name: importlib.import_module(package_of(name)) for name in rooms()}
    rows = [(f"[`{package_of(name)}`]({name}.md)", _first_line(module)) for name, module in modules.items()]
    return "\n".join(["# Internals", "", about, "", *_table(("room", "what it is for"), rows)])


def _returned(function: Any) -> set[type]:
    """The class that a function returns, where it is a result, with the results that it is made of."""
    from penstock.front.hall.result import Result

    found = typing.get_type_hints(function).get("return")
    return {each for each in inspect.getmro(found) if issubclass(each, Result)} if isinstance(found, type) else set()


def _described(members: Iterable[tuple[str, Any]], level: int = 3) -> list[str]:
    """The signature and the docstring of each."""
    parts = []
    for name, member in members:
        parts += [f"{'#' * level} `{name}`", "", "```python", _signature(name, member), "```", ""]
        parts += ["```text", inspect.getdoc(member) or "", "```", ""]
        if inspect.isclass(member):
            public = [(n, m) for n, m in vars(member).items() if not n.startswith("_")]
            methods = [(f"{name}.{n}", m) for n, m in public if inspect.isfunction(m) and m.__doc__]
            values = [(n, m) for n, m in public if isinstance(m, property) and m.__doc__]
            if level == 3:  # of the public page
                parts += _described(methods, 4)
                rows = [(_code(n), inspect.getdoc(m) or "") for n, m in values]
                parts += _table(("property", "what it is"), rows) if rows else []
    return parts


def rooms() -> list[str]:
    """The wings of docs/house.md and the studies, then their rooms."""
    import penstock

    wings = [wing.name for wing in pkgutil.iter_modules(penstock.__path__) if wing.ispkg] + [STUDIES]
    return wings + [
        f"{wing}.{found.name}"
        for wing in wings
        for found in pkgutil.iter_modules(importlib.import_module(package_of(wing)).__path__)
        if found.ispkg
    ]


def package_of(name: str) -> str:
    """The package of a wing or a room; the studies are a distribution of their own.

    >>> package_of("lab.fit"), package_of("studies.fheins")
    ('penstock.lab.fit', 'penstock_studies.fheins')
    """
    return f"penstock_{name}" if name.partition(".")[0] == STUDIES else f"penstock.{name}"


def room(name: str) -> str:
    """Each public module of a room: its docstring, and the signatures and docstrings of what it defines."""
    package = package_of(name)
    parts = [f"# `{package}`", "", "Internal: it may change with any version. Made from the docstrings.", ""]
    for module in _modules(package):
        members = list(_members(module))
        if members or module.__name__ == package:
            parts += [f"## `{module.__name__}`", "", _escaped(inspect.getdoc(module) or ""), ""]
            parts += _described(members, 4)
    return "\n".join(parts)


def _modules(package: str) -> Iterator[ModuleType]:
    root = importlib.import_module(package)
    yield root
    is_wing = package.count(".") < 2
    below = pkgutil.iter_modules if is_wing else pkgutil.walk_packages
    for found in sorted(below(root.__path__, f"{package}."), key=lambda each: each.name):
        if is_wing and found.ispkg:
            continue  # a room with a page of its own
        # A worker runs as it is imported.
        if not any(word.startswith("_") or word == "client_worker" for word in found.name.split(".")):
            try:
                yield importlib.import_module(found.name)
            except ImportError:  # an extra that is not installed: its module is left out
                continue


def _members(module: ModuleType) -> Iterator[tuple[str, Any]]:
    for name, member in vars(module).items():
        public = not name.startswith("_") and getattr(member, "__module__", None) == module.__name__
        if public and (inspect.isfunction(member) or inspect.isclass(member)) and member.__doc__:
            yield name, member


def _signature(name: str, member: Any) -> str:
    if inspect.isclass(member) and dataclasses.is_dataclass(member):
        fields = [f"    {f.name}: {f.type}" for f in dataclasses.fields(member)]
        return "\n".join([f"class {name}:", *(fields or ["    ..."])])
    try:
        signature = str(inspect.signature(member))
    except (ValueError, TypeError):
        signature = "(...)"
    word = "class" if inspect.isclass(member) else "def"
    return re.sub(r" at 0x[0-9a-f]+", "", f"{word} {name}{signature}")


# The catalogue.


def catalogue() -> str:
    """Machines, parameter sets, tiers, networks, workloads, policies: from the registries."""
    parts = ["# Catalogue", "", "Made from the registries and the data files of this version.", ""]
    for title, words in (
        ("Machines", ("machines", "list")),
        ("Parameter sets", ("params", "list")),
        ("Workloads", ("workloads",)),
    ):
        parts += [f"## {title}", "", f"`penstock {' '.join(words)}`", "", *_rows(_printed(*words))]
    from penstock.scheme.play.engine import _engine

    parts += ["## Replacement policies", "", "`--policy NAME`", ""]
    parts += _table(("name", "what it does"), [(_code(each.name), each.summary) for each in _engine.policies()])
    from penstock.lab.simulation.words import FRONTS, WORDS, Spelling

    parts += ["## Words of a question", "", "A dash: refused there, with the reason in the error.", ""]
    rows = [
        (*(_code(Spelling(front)(word.name)) if front in word.fronts() else "-" for front in FRONTS), word.text())
        for word in WORDS.values()
    ]
    parts += _table((*FRONTS.values(), "meaning"), rows)
    from penstock.scheme.operations import TRAITS

    parts += ["## Kinds of operations", ""]
    rows = [(_code(kind.value), traits.description, _code(traits.key or "")) for kind, traits in TRAITS.items()]
    parts += _table(("kind", "what it is", "key"), rows)
    return "\n".join(parts)


def _printed(*words: str) -> list[dict[str, Any]]:
    """The rows that a command prints as JSON."""
    import json

    from penstock.front.cli.main import main

    out = io.StringIO()
    with redirect_stdout(out):
        if main([*words, "--format", "json"]) != 0:
            raise RuntimeError(f"penstock {' '.join(words)} failed while the reference was made")
    rows: list[dict[str, Any]] = json.loads(out.getvalue())
    return rows


def _rows(rows: Sequence[dict[str, Any]], most: int = 12) -> list[str]:
    """A table of the first columns that hold one value each."""
    names = [name for name in rows[0] if not any(isinstance(row.get(name), dict | list) for row in rows)][:most]
    return _table(names, [["" if row[n] is None else str(row[n]) for n in names] for row in rows])


# Markdown.


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    cells = [[_no_tags(cell).replace("|", "\\|").replace("\n", " ") for cell in row] for row in rows]
    return [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads), *(f"| {' | '.join(row)} |" for row in cells), ""]


def _code(text: str) -> str:
    if "|" in text:  # inside backticks a table would split it
        return f"<code>{html.escape(text).replace('|', '&#124;')}</code>"
    return f"`{text}`" if text else ""


def _no_tags(text: str) -> str:
    """`<script>` in a help text is a word and no tag; code stays as it is."""
    return re.sub(r"`[^`]*`|<(?!/?code>)", lambda found: "&lt;" if found[0] == "<" else found[0], text)


def _escaped(text: str) -> str:
    return text.replace("<", "&lt;").replace("[", "\\[").replace("*", "\\*")


# The hook.


def on_config(config: Any) -> Any:
    """List the pages of the rooms in the last section."""
    (section,) = config["nav"][-1].values()
    section += [f"{INTERNAL}/{name}.md" for name in rooms()]
    return config


def on_files(files: Any, config: Any) -> Any:
    """Add the pages to the site."""
    from mkdocs.structure.files import File

    for path, text in pages().items():
        files.append(File.generated(config, path, content=text))
    return files

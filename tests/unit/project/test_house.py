"""The house: rooms in import order, no cycle of files, no file or function too long. docs/house.md explains them."""

from __future__ import annotations

import ast
import importlib.util
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[3]
SOURCE = ROOT / "src"

WINGS = {
    "errors": "",
    "base": "units version moved types arrays plugins system runs",
    "scheme": "operations unpriced params traces work machines play",
    "program": "evaluator package openfhe database workloads running",
    "runtime": "keystore native client scanning similarity",
    "lab": "fit measure simulation instorage analysis prediction rewriting advice sweeps reports",
    "service": "near work tenants owners state http load",
    "front": "hall explorer cli",
}
"""Wing -> its rooms. A room imports only rooms before it, lazily or not. `penstock/__init__.py` imports any, at use."""
ROOMS = tuple(f"{wing}.{room}".rstrip(".") for wing, rooms in WINGS.items() for room in rooms.split(" "))
_spec = importlib.util.spec_from_file_location("weight", ROOT / "scripts" / "weight.py")
assert _spec is not None
assert _spec.loader is not None
weight = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(weight)
ENGINE = "penstock._engine"
"""The compiled module, which imports none of ours."""
PROGRAMS = ("src", "studies")
MAX_FILES, MAX_LOOSE = 25, 8
MAX_LINES = {"src": (500, 60), "studies": (500, 60)}
"""Folder -> the most lines of a file and of a function."""
USUAL_MAX_LINES = (600, 80)
MOST_VAGUE, MOST_ANY = 560, 600
"""The most names that say nothing (`scripts/weight.py`), and of `Any`."""
NO_ANY = (
    "service", "runtime/keystore", "runtime/native/engine.py", "runtime/native/compiled.py", "runtime/native/work.py",
    "runtime/native/evaluator.py",
)  # fmt: skip
"""Where every type is stated: the service, the facade of the store, the executor."""
SHARED_CLASSES = ("Size", "Data")
"""The contract of a workload names them."""

Graph = Mapping[str, set[str]]


class Facts(NamedTuple):
    """What the rules ask of a file."""

    imports: tuple[ast.Import | ast.ImportFrom, ...]
    functions: tuple[tuple[str, int], ...]
    """Name and lines of each."""


@cache  # a file is parsed once for all rules
def facts(path: Path) -> Facts:
    each = list(statements(ast.parse(path.read_text(encoding="utf-8")).body))
    functions = [node for node in each if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)]
    return Facts(
        tuple(node for node in each if isinstance(node, ast.Import | ast.ImportFrom)),
        tuple((node.name, (node.end_lineno or 0) - node.lineno + 1) for node in functions),
    )


def statements(body: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """These and those inside of them, however deep. Imports and functions are statements."""
    for node in body:
        yield node
        for part in ("body", "orelse", "finalbody", "handlers", "cases"):
            inside = getattr(node, part, None)
            if isinstance(inside, list):  # that of a lambda or of a conditional expression is no list
                yield from statements(inside)


def modules(source: Path) -> dict[str, Path]:
    """Dotted name -> file of every module below `source`."""
    found = {}
    for path in sorted(source.rglob("*.py")):
        name = ".".join(path.relative_to(source).with_suffix("").parts)
        found[name.removesuffix(".__init__")] = path
    return found


@lru_cache(maxsize=4)
def imports(source: Path) -> dict[str, set[str]]:
    """Module -> modules that it imports, at the top, inside a function, or for types only.

    `from package import name` is an import of the module `package.name` where there is one, else of the package.
    """
    files = modules(source)
    graph: dict[str, set[str]] = {}
    for module, path in files.items():
        names = set()
        for node in facts(path).imports:
            if isinstance(node, ast.Import):
                names |= {alias.name for alias in node.names}
            else:
                assert not node.level, f"{path}:{node.lineno}: imports here are absolute"
                whole = {f"{node.module}.{alias.name}" for alias in node.names} - {ENGINE}
                names |= {name if name in files else str(node.module) for name in whole}
        graph[module] = {name for name in names if name in files and name != module}
    return graph


def room(module: str) -> str:
    """`wing.room` of a module; a wing by itself, which imports nothing, and the package are an empty name."""
    parts = module.split(".")[1:3]
    return "" if parts and len(parts) == 1 and parts[0] in WINGS and WINGS[parts[0]] else ".".join(parts)


def against_the_order(graph: Graph, rooms: tuple[str, ...]) -> list[str]:
    """Imports of a room that does not come before the importing one, and modules outside of every room."""
    place = {name: i for i, name in enumerate(rooms)}
    found = [f"{module} is in no room" for module in graph if room(module) and room(module) not in place]
    for module, targets in graph.items():
        for target in sorted(targets):
            here, there = place.get(room(module)), place.get(room(target))
            if here is not None and (there is None or there > here):
                found.append(f"{module} imports {target}")
    return found


def cycles(graph: Graph) -> Iterator[list[str]]:
    """Strongly connected parts of two modules or more (Tarjan)."""
    index: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        index[module] = low[module] = len(index)
        stack.append(module)
        for target in graph.get(module, ()):
            if target not in index:
                yield from visit(target)
                low[module] = min(low[module], low[target])
            elif target in stack:
                low[module] = min(low[module], index[target])
        if low[module] == index[module]:
            start = stack.index(module)
            part = stack[start:]
            del stack[start:]
            if len(part) > 1:
                yield sorted(part)

    for module in graph:
        if module not in index:
            yield from visit(module)


def test_no_room_imports_one_below_it():
    assert against_the_order(imports(SOURCE), ROOMS) == []


def test_the_page_names_files_that_are_there():
    rows = re.findall(r"^\| ((?:`[\w/-]+`,? ?)+)\|(.*)\|$", (ROOT / "docs" / "house.md").read_text(), re.MULTILINE)
    assert len(rows) > 30
    for rooms, text in rows:
        folders = [SOURCE / "penstock" / room for room in re.findall(r"`([^`]+)`", rooms)]
        folders += [ROOT / "crates" / folder.name / "src" for folder in folders]
        for name in re.findall(r"`([\w/-]+(?:\.(?:py|rs)|/))`", text):
            places = [SOURCE / "penstock" / name, ROOT / name, *(folder / name for folder in folders)]
            places += [below / name for folder in folders for below in folder.glob("*")]
            assert any(place.exists() for place in places), f"{rooms}: {name}"


def test_no_cycle_of_files():
    assert list(cycles(imports(SOURCE))) == []


def written(folder: Path, files: Mapping[str, str]) -> Path:
    """Source files of a house of one's own."""
    for name, text in files.items():
        path = folder / "penstock" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


@pytest.mark.parametrize(
    "text",
    [
        "from penstock.front.cli import main",
        "def late():\n    import penstock.front.cli.main",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from penstock.front.cli.main import run",
    ],
)
def test_an_import_of_a_lower_room_is_found_wherever_it_stands(tmp_path, text):
    source = written(
        tmp_path,
        {"__init__.py": "", "front/cli/__init__.py": "", "front/cli/main.py": "", "scheme/params/ckks.py": text},
    )
    assert against_the_order(imports(source), ROOMS) == ["penstock.scheme.params.ckks imports penstock.front.cli.main"]


def test_a_module_outside_of_every_room_is_found(tmp_path):
    source = written(tmp_path, {"__init__.py": "", "helpers.py": ""})
    assert against_the_order(imports(source), ROOMS) == ["penstock.helpers is in no room"]


def test_a_cycle_of_three_files_is_found(tmp_path):
    chain = {"a": "b", "b": "c", "c": "a", "d": "a"}
    files = {
        f"scheme/params/{one}.py": f"def f():\n    from penstock.scheme.params import {other}\n"
        for one, other in chain.items()
    }
    found = list(cycles(imports(written(tmp_path, {"__init__.py": "", "scheme/params/__init__.py": "", **files}))))
    assert found == [["penstock.scheme.params.a", "penstock.scheme.params.b", "penstock.scheme.params.c"]]


def test_imports_and_functions_are_found_however_deep_they_stand(tmp_path):
    path = tmp_path / "deep.py"
    path.write_text(
        "class A:\n    def f(self):\n        try:\n            pass\n        except ValueError:\n"
        "            for _ in ():\n                pass\n            else:\n                import a\n"
        "        finally:\n            with open(''):\n                async def g():\n                    import b\n"
        "        match self:\n            case 1:\n                from c import d\n"
    )
    found = facts(path)
    assert sorted(ast.unparse(node) for node in found.imports) == ["from c import d", "import a", "import b"]
    assert found.functions == (("f", 15), ("g", 2))


COMPUTING = ("numpy", "pyarrow", "scipy", ENGINE)
"""Modules that a verb has no use for: it takes options, calls a function of the hall or of a room, and prints."""


def computing(source: Path) -> list[str]:
    """Modules of `cli/` that import what computes, at the top or inside a function."""
    found = []
    for module, path in modules(source).items():
        if room(module) != "front.cli":
            continue
        for node in facts(path).imports:
            names = {alias.name for alias in node.names}
            if isinstance(node, ast.ImportFrom):
                names = {f"{node.module}.{name}" for name in names}
            found += [f"{module} imports {name}" for name in sorted(names) if f"{name}.".startswith(_COMPUTING)]
    return found


_COMPUTING = tuple(f"{name}." for name in COMPUTING)


def test_no_verb_computes():
    assert computing(SOURCE) == []


@pytest.mark.parametrize(
    "text", ["import numpy as np", "def late():\n    import pyarrow.compute as pc", "from penstock import _engine"]
)
def test_a_verb_that_computes_is_found_wherever_it_does(tmp_path, text):
    source = written(tmp_path, {"__init__.py": "", "front/cli/verbs/params.py": text, "front/hall/running.py": text})
    (found,) = computing(source)
    assert found.startswith("penstock.front.cli.verbs.params imports ")


def test_no_folder_is_crowded():
    for folder in PROGRAMS:
        counts = Counter(path.parent for path in (ROOT / folder).rglob("*.py"))
        assert {str(path.relative_to(ROOT)): count for path, count in counts.items() if count > MAX_FILES} == {}
    assert len(list((SOURCE / "penstock").glob("*.py"))) - 1 <= MAX_LOOSE


def test_no_file_is_too_long():
    long = {}
    for folder in ("src", "studies", "crates", "tests", "benchmarks", "scripts"):
        most, _ = MAX_LINES.get(folder, USUAL_MAX_LINES)
        files = (path for ending in ("py", "rs", "js") for path in (ROOT / folder).rglob(f"*.{ending}"))
        long.update({str(path.relative_to(ROOT)): lines for path in files if (lines := _lines(path)) > most})
    assert long == {}


def test_no_function_is_too_long():
    long = {}
    for folder in ("src", "studies", "tests", "benchmarks", "scripts"):
        _, most = MAX_LINES.get(folder, USUAL_MAX_LINES)
        for path in (ROOT / folder).rglob("*.py"):
            for name, lines in facts(path).functions:
                if lines > most:
                    long[f"{path.relative_to(ROOT)}: {name}"] = lines
    assert long == {}


def classes(folder: Path) -> dict[str, set[str]]:
    """Name of a class -> the rooms that have one, protocols left out."""
    rooms: dict[str, set[str]] = {}
    for path in folder.rglob("*.py"):
        here = "/".join(path.relative_to(folder).with_suffix("").parts[:2])
        for node in statements(ast.parse(path.read_text(encoding="utf-8")).body):
            if isinstance(node, ast.ClassDef) and "Protocol" not in {ast.unparse(base) for base in node.bases}:
                rooms.setdefault(node.name, set()).add(here)
    return rooms


def test_a_name_stands_for_one_class():
    """grep for a name finds one thing."""
    rooms = classes(SOURCE / "penstock")
    for name, others in classes(ROOT / "studies" / "penstock_studies").items():
        rooms.setdefault(name, set()).update(f"studies/{room}" for room in others)
    assert {name: sorted(at) for name, at in rooms.items() if len(at) > 1 and name not in SHARED_CLASSES} == {}


def test_names_say_what_a_value_is():
    names = weight.vague_names(SOURCE)
    assert names.pop("Any") <= MOST_ANY
    assert names.total() <= MOST_VAGUE
    assert {part for part in NO_ANY if weight.vague_names(SOURCE / "penstock" / part)["Any"]} == set()


def test_a_vague_name_is_counted_as_a_name_alone(tmp_path):
    (tmp_path / "a.py").write_text('each = 1  # found\n"""said"""\nx.found, told_of = Any, "told"\n')
    assert weight.vague_names(tmp_path) == {"each": 1, "found": 1, "Any": 1}


def test_lines_of_code_are_counted_without_comments_and_docstrings(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(
        '"""A module."""\n\n# a comment\ndef f(\n    a,\n):\n    """A function."""\n    return """one\ntwo"""\n'
    )
    assert weight.python_lines(path) == 5
    path.with_suffix(".rs").write_text(
        "//! A crate.\n\nfn f() {} // said\n#[cfg(test)]\nmod tests {\n    fn g() {}\n}\n"
    )
    assert weight.rust_lines(path.with_suffix(".rs")) == 1


def _lines(path: Path) -> int:
    return path.read_text(encoding="utf-8").count("\n")

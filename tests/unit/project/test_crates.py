"""The modules of a Rust crate need each other one way only.

The rule, for each crate of `crates/`. A module is a file of its `src`; a module inside a file belongs to that file, and
what stands under `#[cfg(test)]` is left out. A module needs another where it has a path to it, in a `use` or anywhere
else in its text: one that begins with `crate`, `super` or `self`, with the name of a child, or with a name that a `use`
of the file brings in. A path leads to the module that defines what it names, past those that only re-export it. A
parent that declares its children (`mod x;`) or re-exports what is theirs (`pub use x::Y`, `#[pymodule_export] use`)
does not need them by that; one that includes what `build.rs` writes needs all its children. Then no module needs
itself, by however many others. Calls of methods name no module and are not seen, nor is what a macro makes.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

CRATES = sorted(each.parent for each in (Path(__file__).parents[3] / "crates").glob("*/Cargo.toml"))
Name = tuple[str, ...]
"""Of a module: its path from the root of the crate, which is empty."""

NO_CODE = re.compile(
    r"""//[^\n]*|/\*.*?\*/|b?r(?P<hashes>\#*)".*?"(?P=hashes)|b?"(?:\\.|[^"\\])*"|b?'(?:\\[^']+|[^'\\])'""", re.S | re.X
)
TEST = re.compile(r"#\[cfg\((?:all\()?test\b[^\]]*\]")
INLINE = re.compile(r"\bmod\s+(\w+)\s*\{")
USE = re.compile(r"(#\[pymodule_export\]\s*)?\b(pub(?:\s*\([^)]*\))?\s+)?use\s+([^;]+);")
PATH = re.compile(r"(?<![\w:])\w+(?:\s*::\s*\w+)+")


@dataclass
class Module:
    """A file, or a module inside one."""

    name: Name
    file: Name
    text: str
    uses: dict[str, Name] = field(default_factory=dict)
    """Names that a `use` brings in, and the paths that they stand for, as written."""
    needs: list[Name] = field(default_factory=list)
    """Paths, as written."""
    reexports: list[Name] = field(default_factory=list)


def end_of_item(text: str, start: int) -> int:
    """The end of the item that begins at `start`: its semicolon, or the brace that closes its body."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] in "{[(") - (text[at] in "}])")
        if depth == 0 and text[at] in ";}":
            return at + 1
    return len(text)


def leaves(tree: str) -> Iterator[tuple[Name, str]]:
    """The paths of a `use`, each with the name that it brings in: `a::{b, c as d}` has a::b as b and a::c as d."""
    tree = tree.strip()
    head, brace, rest = tree.partition("{")
    if not brace:
        path, _, alias = (each.strip() for each in re.sub(r"\s+as\s+", " as ", tree).partition(" as "))
        name = tuple(each.strip() for each in path.split("::") if each.strip())
        name = name[:-1] if name[-1:] == ("self",) and len(name) > 1 else name
        yield name, alias or (name[-1] if name else "")
        return
    depth, part, parts = 0, "", []
    for letter in rest[: rest.rindex("}")]:
        depth += (letter == "{") - (letter == "}")
        if letter == "," and depth == 0:
            parts, part = [*parts, part], ""
        else:
            part += letter
    for each in filter(str.strip, [*parts, part]):
        yield from leaves(head + each.strip())


def parsed(name: Name, file: Name, text: str, into: dict[Name, Module]) -> None:
    """Adds a module and those inside it."""
    while found := INLINE.search(text):
        end = end_of_item(text, found.start())
        parsed((*name, found[1]), file, text[found.end() : end - 1], into)
        text = text[: found.start()] + text[end:]
    module = into[name] = Module(name, file, text)
    for exported, public, tree in USE.findall(text):
        for path, alias in leaves(tree):
            module.uses[alias] = path
            (module.reexports if exported or public else module.needs).append(path)
    module.needs += [tuple(re.split(r"\s*::\s*", path)) for path in PATH.findall(USE.sub("", text))]


def modules_of(source: Path) -> dict[Name, Module]:
    """The modules of the crate whose `src` this is, without those of tests."""
    texts, tests = {}, set()
    for path in sorted(source.rglob("*.rs")):
        parts = path.relative_to(source).with_suffix("").parts
        name = parts[:-1] if parts[-1] in ("mod", "lib", "main") else parts
        text = NO_CODE.sub('""', path.read_text())
        while found := TEST.search(text):
            end = end_of_item(text, found.end())
            if declared := re.search(r"\bmod\s+(\w+)\s*;", text[found.end() : end]):
                tests.add((*name, declared[1]))
            text = text[: found.start()] + text[end:]
        texts[name] = text
    modules: dict[Name, Module] = {}
    for name, text in texts.items():
        if not any(name[: len(test)] == test for test in tests):
            parsed(name, name, text, modules)
    return modules


def defining(modules: dict[Name, Module], at: Name, path: Name, depth: int = 0) -> Name | None:
    """The module that defines what a path names, as seen from the module `at`; `None`: another crate."""
    if path[0] not in ("crate", "super", "self") and (*at, path[0]) not in modules and path[0] not in modules[at].uses:
        return None
    for index, word in enumerate(path):
        if word == "crate":
            at = ()
        elif word == "super":
            at = at[:-1]
        elif (*at, word) in modules:
            at = (*at, word)
        elif word in modules[at].uses and modules[at].uses[word] != path[: index + 1] and depth < 20:
            return defining(modules, at, modules[at].uses[word] + path[index + 1 :], depth + 1)
        elif word not in ("self", "*"):
            return at
    return at


def needs_of(source: Path) -> dict[str, set[str]]:
    """Which modules each module of a crate needs, as text."""
    modules = modules_of(source)
    needs: dict[str, set[str]] = {}
    for module in modules.values():
        found = {defining(modules, module.name, path) for path in module.needs if path}
        below = {defining(modules, module.name, path) for path in module.reexports}
        found |= {each for each in below if each is not None and each[: len(module.file)] != module.file}
        if "include!" in module.text:
            found |= {each for each in modules if each[:-1] == module.name}
        files = {modules[each].file for each in found if each is not None} - {module.file}
        needs.setdefault(text_of(module.file), set()).update(map(text_of, files))
    return needs


def text_of(name: Name) -> str:
    return "::".join(("crate", *name))


def circle(source: Path) -> list[str] | None:
    """Modules that need each other in a circle, the first at both ends; `None`: there is none."""
    try:
        TopologicalSorter(needs_of(source)).prepare()
    except CycleError as error:
        return list(error.args[1])
    return None


@pytest.mark.parametrize("crate", CRATES, ids=lambda crate: crate.name)
def test_no_module_of_a_crate_needs_itself_by_others(crate: Path) -> None:
    found = circle(crate / "src")
    assert found is None, " is needed by ".join(found or ())


def written(folder: Path, **files: str) -> Path:
    for name, text in files.items():
        path = folder / f"{name.replace('__', '/')}.rs"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


LIB = "mod a;\nmod b;\nmod c;\npub use a::A;\npub use b::{B, make as made};\n"
ONE_WAY = {"lib": LIB, "a": "use crate::b::B;\npub struct A(B);", "b": "pub struct B;", "c": "use super::{A, B};"}


@pytest.mark.parametrize(
    "changed",
    [
        {"b": "use super::a::A;"},
        {"b": "use crate::c;", "c": "use crate::A;"},
        {"b": "fn f() { crate::a::g() }"},
        {"b": "use crate::{c as d};\nfn f() { d::g() }", "c": "fn f() -> super::A {}"},
        {"b": "mod deep { use super::super::made; use super::super::a::{self}; }"},
        # By a parent that has code of its own.
        {"lib": LIB + "fn f() { a::g() }", "b": "use crate::f;"},
        {"lib": LIB + "use c::C;\nstruct D(C);", "c": "use crate::D;"},
        {"lib": LIB + 'include!(concat!(env!("OUT_DIR"), "/x.rs"));\nstruct D;', "c": "use crate::D;"},
        # By a folder that only re-exports.
        {"lib": LIB + "mod d;", "d__mod": "mod e;\npub use e::E;", "d__e": "use crate::a::A;", "b": "use crate::d::E;"},
    ],
)
def test_a_planted_circle_is_found(tmp_path: Path, changed: dict[str, str]) -> None:
    assert circle(written(tmp_path / "before", **ONE_WAY)) is None
    found = circle(written(tmp_path / "after", **ONE_WAY | changed))
    assert found is not None
    assert found[0] == found[-1]


@pytest.mark.parametrize(
    "changed",
    [
        {"b": '// use super::a::A;\n/* crate::a::g() */\npub const B: &str = "crate::a::A"; const C: char = \'"\';'},
        {"b": "#[cfg(test)]\nmod tests {\n    use crate::a::A;\n    fn f() { {} }\n}\npub struct B;"},
        {"b": "#[cfg(test)]\nmod tests;\npub struct B;", "b__tests": "use crate::a::A; use super::B;"},
        {"lib": LIB + "struct D;\n", "c": "use crate::D;"},
        {"lib": LIB + "mod m { #[pymodule_export] use super::a::A; }\nfn f() {}", "a": "use crate::f;"},
        {"b": "use std::a::A;\nuse other::{a, c};\nfn f() { a::g() }"},
    ],
)
def test_what_is_no_circle_is_none(tmp_path: Path, changed: dict[str, str]) -> None:
    assert circle(written(tmp_path, **ONE_WAY | changed)) is None


def test_a_circle_is_told_by_its_modules(tmp_path: Path) -> None:
    found = circle(written(tmp_path, **ONE_WAY | {"b": "use crate::c::C;", "c": "use super::A;"}))
    assert set(found or ()) == {"crate::a", "crate::b", "crate::c"}

"""Python files of the user's own: programs, policies, prefetchers. They are read, run, and blamed for their faults.

An error inside names the file and its line. The output of a file goes to stderr, and it may import modules from its
folder.
"""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import os
import sys
import threading
import tokenize
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib import util
from pathlib import Path
from types import ModuleType
from typing import TextIO, TypeVar, cast

from penstock.base.system.files import FileError, file_sha256
from penstock.base.system.turns import Mark, await_turn, this_thread
from penstock.errors import CapabilityMissing, PenstockError, UsageError

Made = TypeVar("Made")
SUFFIX = ".py"
_PREFIX = "penstock_own_"
"""Of the names under which the files' modules are known here."""
_BESIDE: dict[Path, dict[str, ModuleType]] = {}
"""Folder -> modules that files there have imported from it."""
_READ: dict[str, str | None] = {}
"""File of such a module -> its SHA-256 when it was read."""


class _Files:
    """Who runs the code of a user's file, and how often it has entered."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.owner: Mark | None = None
        self.depth = 0


_FILES = _Files()
# A thread that its parent had and a child of a fork has not gives nothing back.
os.register_at_fork(after_in_child=_FILES.__init__)  # type: ignore[misc]


@contextmanager
def one_at_a_time() -> Iterator[None]:
    """One thread of this process at a time runs the code of a user's file.

    It prints to stderr and imports from its folder, which are the whole process's. Who needs OpenFHE, too, takes
    this turn first.
    Raises: PenstockError: as `await_turn`.
    """
    here = this_thread()
    with _FILES.changed:
        await_turn(_FILES.changed, lambda: _FILES.owner, "the code of a file of programs")
        _FILES.depth = _FILES.depth + 1 if _FILES.owner is here else 1
        _FILES.owner = here
    try:
        yield
    finally:
        with _FILES.changed:
            if _FILES.owner is here:  # in a child of a fork it is not
                _FILES.depth -= 1
                if not _FILES.depth:
                    _FILES.owner = None
                    _FILES.changed.notify_all()


def digest_of(path: Path) -> str | None:
    """The SHA-256 of a file's content; `None` where it cannot be read."""
    try:
        return file_sha256(path)
    except FileError:
        return None


def beside(path: Path) -> dict[Path, str | None]:
    """The files that files in this one's folder have imported from it, with their SHA-256 as they were read.

    If one has changed since, all are forgotten first: who imports one next reads it anew.
    """
    kept = _BESIDE.get(path.parent, {})
    read = {Path(module.__file__ or ""): _READ[module.__file__ or ""] for module in kept.values()}
    if all(digest_of(file) == digest for file, digest in read.items()):
        return read
    for name, module in kept.items():
        if sys.modules.get(name) is module:  # a file of the folder runs
            del sys.modules[name]
    kept.clear()
    return {}


def is_own(name: str) -> bool:
    """Whether a name is a Python file of the user's."""
    return name.endswith(SUFFIX)


def text_of(path: Path, name: str, missing: str) -> str:
    """The text of a file, by its own coding, and without a byte order mark.

    Args:   missing: the remedy where there is no such file.
    Raises: UsageError: no such file, or no text.
    """
    try:
        with tokenize.open(path) as file:
            return file.read()
    except FileNotFoundError:
        raise UsageError(f"{name}: no such file; {missing}") from None
    except (OSError, UnicodeDecodeError, SyntaxError) as error:
        raise UsageError(f"{name}: cannot be read as text: {error}") from error


def tree_of(path: Path, name: str, missing: str) -> ast.Module:
    """A file's syntax. Raises: UsageError: as `text_of`; no Python, with the line."""
    return parsed(text_of(path, name, missing), path, name)


def parsed(text: str, path: Path, name: str) -> ast.Module:
    """The syntax of a file's text. Raises: UsageError: no Python, with the line."""
    try:
        return ast.parse(text, filename=str(path))
    except (SyntaxError, ValueError) as error:
        at = f", line {error.lineno}" if isinstance(error, SyntaxError) and error.lineno else ""
        raise UsageError(f"{name}{at}: no Python: {getattr(error, 'msg', error)}") from error


def bound_names(tree: ast.Module) -> set[str]:
    """The names that a file binds at its top, before anything of it is run."""
    return set(_bound(tree.body))


def executed(path: Path, name: str, text: str | None = None) -> ModuleType:
    """A file's module, run for this.

    Args:   path: absolute; text: the file's own, where the file may be gone.
    Raises: UsageError: a fault of the file, with its line.
    """
    digest = hashlib.sha256(os.fsencode(path) + (text or "").encode()).hexdigest()[:12]
    spec = util.spec_from_file_location(f"{_PREFIX}{digest}", path)
    assert spec is not None
    assert spec.loader is not None
    module = util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look their module up
    try:
        with blamed(path, name, "while it is read"):
            if text is None:
                spec.loader.exec_module(module)
            else:
                exec(compile(text, str(path), "exec"), vars(module))
    except BaseException:
        sys.modules.pop(spec.name, None)
        raise
    return module


def takes(function: Callable[..., object], count: int) -> bool:
    """Whether a function can be called with so many arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


def watched(function: Callable[..., Made], path: Path, name: str, what: str) -> Callable[..., Made]:
    """The function, whose own faults are errors of the file with their line."""

    @functools.wraps(function)
    def with_blame(*args: object) -> Made:
        with blamed(path, name, f"in {what}"):
            return function(*args)

    return with_blame


def _bound(body: list[ast.stmt]) -> Iterator[str]:
    """Names that statements bind at the top of a file."""
    for node in body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.Import | ast.ImportFrom):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (name.id for target in targets for name in ast.walk(target) if isinstance(name, ast.Name))
        elif isinstance(node, ast.If | ast.Try):
            yield from _bound([*node.body, *node.orelse])


@contextmanager
def blamed(path: Path, name: str, where: str) -> Iterator[None]:
    """Faults inside belong to the file: the message names its line. Its output goes to stderr."""
    try:
        with one_at_a_time(), _printed_to_stderr(), _modules_beside(path):
            yield
    except PenstockError as error:
        if not isinstance(error, CapabilityMissing) and not hasattr(error, "line_of"):
            error.args = (f"{line_of(error, path, name)}, {where}: {error}",)
            vars(error)["line_of"] = name
        raise
    except (Exception, SystemExit) as error:
        at = line_of(error, path, name)
        raise UsageError(f"{at}, {where}: {type(error).__name__}: {error}; --debug shows the traceback") from error


class _Stderr:
    """What `sys.stdout` is while a file's code runs: stderr; after that what it was, for who still refers to it."""

    def __init__(self) -> None:
        self.before, self.is_over = sys.stdout, False

    def __getattr__(self, name: str) -> object:
        return getattr(self.before if self.is_over else sys.stderr, name)


@contextmanager
def _printed_to_stderr() -> Iterator[None]:
    """Put `sys.stdout` back at the end, unless another thread or the file has replaced it meanwhile."""
    ours = _Stderr()
    sys.stdout = put = cast("TextIO", ours)
    try:
        yield
    finally:
        ours.is_over = True
        if sys.stdout is put:
            sys.stdout = ours.before


@contextmanager
def _modules_beside(path: Path) -> Iterator[None]:
    """Modules in the file's folder can be imported, here and by nothing else: other programs may have theirs.

    They come last: a `types.py` in the same folder does not replace Python's.
    """
    folder = path.parent
    kept = _BESIDE.setdefault(folder, {})
    hidden = {module: sys.modules[module] for module in kept if module in sys.modules}
    sys.modules.update(kept)
    entry = "".join(list(str(folder)))  # a separate object: the same folder may be there already, or be added
    sys.path.append(entry)
    known = set(sys.modules)
    writes, sys.dont_write_bytecode = sys.dont_write_bytecode, True  # a folder of the user's stays as it is
    try:
        yield
    finally:
        sys.dont_write_bytecode = writes
        sys.path[:] = [place for place in sys.path if place is not entry]
        new = {module for module in set(sys.modules) - known if module.partition(".")[0] not in known}
        imported = {module: sys.modules[module] for module in new if _lies_in(sys.modules[module], folder)}
        _READ.update({file: digest_of(Path(file)) for module in imported.values() if (file := module.__file__)})
        kept |= imported
        for module in kept:
            sys.modules.pop(module, None)
        sys.modules.update(hidden)


def _lies_in(module: ModuleType, folder: Path) -> bool:
    """Whether a module, or the package that it is of, is a file of the folder itself: a `.venv` in it is another."""
    file, top = getattr(module, "__file__", None), module.__name__.partition(".")[0]
    return file is not None and (Path(file) == folder / f"{top}.py" or Path(file).is_relative_to(folder / top))


def line_of(error: BaseException, path: Path, name: str) -> str:
    """The file, and the line of it that the error passed last."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if Path(frame.filename) == path]
    return f"{name}, line {lines[-1]}" if lines else name


def fault(function: Callable[..., object], name: str, what: str) -> UsageError:
    """The error of a function of a file that returned something wrong, with the line at which it begins."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    at = name if code is None else f"{name}, line {code.co_firstlineno}"
    error = UsageError(f"{at}, in {getattr(function, '__name__', 'it')}: {what}")
    vars(error)["line_of"] = name
    return error

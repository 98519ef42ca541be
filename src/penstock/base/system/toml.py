"""TOML as a person writes it: read, bounded, and checked against a model.

The parser is the standard library's where it has one (3.11 on), and `tomli` on 3.10.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar, get_args, get_origin

from pydantic import BaseModel, ConfigDict, ValidationError

from penstock.base.system import outside
from penstock.base.system.files import readable
from penstock.errors import MachineError, UnknownName, UsageError

if TYPE_CHECKING:
    from penstock.base.types import Row, RowView

if sys.version_info >= (3, 11):
    from tomllib import TOMLDecodeError, loads
else:
    from tomli import TOMLDecodeError, loads

__all__ = ["Strict", "checked", "explained", "key", "line", "loads", "packaged", "table"]

Model = TypeVar("Model", bound=BaseModel)

LONGEST_VALUE = 200
"""Characters of a value that an error repeats."""
_DOTTED = re.compile(r"""(?:(?:(?<![\w-])[\w-]+|"[^"\n]*"|'[^'\n]*')[ \t]*\.[ \t]*)+""", re.ASCII)
"""The parts of a key before its last, `a.b.`; parsers take the square of their number."""


class Strict(BaseModel):
    """A model that refuses keys it has not, and values of another type."""

    model_config = ConfigDict(extra="forbid", strict=True)


def table(
    written: Path | bytes | str, where: str, what: str, error: type[UsageError] = UsageError, *, missing: str = ""
) -> Row:
    """The table in a TOML file, or in its content.

    Args:   where: the file in messages; what: its kind, "a machine file"; missing: the remedy for a missing file.
    Raises: `error`: no such file (where `missing` says what to do), it is not TOML, it is nested deeper than 64 levels,
            or a number is not finite or has no 64 bits. FileError: it cannot be read. TooLarge: it is.
    """
    if isinstance(written, Path):
        if missing and not written.exists():
            raise error(f"{where}: no such file; {missing}")
        written = outside.content_of(written, outside.MOST_SETTINGS_BYTES)
    no_toml = f"{where}: {what} is TOML, and this is not"
    try:
        text = written if isinstance(written, str) else outside.decoded(written)
    except ValueError as cause:
        raise error(f"{no_toml}: {cause}") from cause
    try:
        if any(key[0].count(".") >= outside.DEEPEST for key in _DOTTED.finditer(text)):
            raise RecursionError
        read = loads(text)
        outside.check_depth(read)
    except TOMLDecodeError as cause:
        raise error(f"{no_toml}: {cause}") from cause
    except RecursionError as cause:
        raise error(f"{where}: {outside.TOO_DEEP}") from cause
    except ValueError as cause:
        rule = outside.TOO_LONG if "integer string conversion" in str(cause) else cause
        raise error(f"{where}: {rule}") from cause
    for path, number in _numbers(read):
        if isinstance(number, float):
            raise error(f"{where}: '{path}' is {number}; write a finite number")
        shown = str(number) if abs(number) < 10**outside.LONGEST_NUMBER else outside.TOO_LONG
        raise error(f"{where}: '{path}' is {shown}; a whole number is from -2^63 to 2^63 - 1")
    return read


def packaged(package: str, name: str) -> Row:
    """The table in a file that comes with penstock, in the folder of a package."""
    return loads(resources.files(package).joinpath(name).read_text(encoding="utf-8"))


def key(name: str) -> str:
    """A key as a TOML file has it."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else literal(name)


def line(name: str, value: object) -> str:
    """A key with its value."""
    return f"{key(name)} = {literal(value)}"


def literal(value: object) -> str:
    """A value as a TOML file has it, a table inline."""
    if isinstance(value, Mapping):
        return "{ " + ", ".join(line(name, inner) for name, inner in value.items()) + " }"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    if isinstance(value, str | bool):
        return json.dumps(readable(value) if isinstance(value, str) else value, ensure_ascii=False)
    return repr(value)


def _numbers(value: object, path: str = "") -> Iterator[tuple[str, int | float]]:
    """The numbers that nothing takes, each with its place, `levels[1].capacity`."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _numbers(inner, f"{path}.{key}" if path else key)
    elif isinstance(value, list):
        for at, inner in enumerate(value):
            yield from _numbers(inner, f"{path}[{at}]")
    elif (isinstance(value, float) and not math.isfinite(value)) or (
        isinstance(value, int) and not -(1 << 63) <= value < 1 << 63
    ):
        yield path, value


def checked(
    model: type[Model],
    written: RowView | Path,
    where: str,
    what: str = "this file",
    error: type[UsageError] = UsageError,
    *,
    also: Iterable[str] = (),
) -> Model:
    """A table, or the one in a TOML file, as a model; the first problem is an error that names its field.

    Args:   where, what: as of `table`; also: keys of the outermost table that the reader takes out itself.
    Raises: UnknownName: a key that the model has not, with the nearest (a `MachineError` where `error` is that class).
            `error`: a value is missing, of another type, or breaks a rule. FileError: the file cannot be read.
    """
    record = table(written, where, what, error) if isinstance(written, Path) else written
    try:
        return model.model_validate(record)
    except ValidationError as cause:
        raise explained(cause, model, record, where, error, also=also) from cause


def explained(
    cause: ValidationError,
    model: type[BaseModel],
    record: object,
    where: str,
    error: type[UsageError],
    *,
    also: Iterable[str] = (),
) -> UsageError:
    """The first problem of `record` in words: what, where, the rule and the remedy.

    An unknown key comes first, because it often is the missing one, misspelt.
    """
    first = min(cause.errors(include_url=False), key=lambda problem: problem["type"] != "extra_forbidden")
    kind, given, message = first["type"], first["input"], first["msg"]
    inside, last, models = _place(model, record, first["loc"])
    path = f"{inside}{last}"
    fields = {field.alias or name: field for owner in models for name, field in owner.model_fields.items()}
    if kind == "extra_forbidden":
        known = [*fields, *(also if not inside else ())]
        unknown = UnknownName("key", last, known, where=where, inside=inside)
        return MachineError(str(unknown)) if error is MachineError else unknown
    annotation = fields[last].annotation if last in fields else None
    if kind == "missing":
        remedy = _remedy(last, annotation)
        return error(f"{where}: '{path}' is missing{'; ' if remedy else ''}{remedy}")
    if kind == "value_error":
        return error(f"{where}: {path}{': ' if path else ''}{message.removeprefix('Value error, ')}")
    rule = message[:1].lower() + message[1:]
    shown = repr(given) if len(repr(given)) <= LONGEST_VALUE else f"{repr(given)[:LONGEST_VALUE]}…"
    subject = f"{where}: {repr(path) if path else 'it'} is {shown}"
    if kind == "model_type":
        return error(f"{subject}; {_remedy(last, annotation) or 'write a table'}")
    if kind == "string_type" and isinstance(given, int | float) and not isinstance(given, bool):
        rule += "; a quantity is a string with its unit"
    return error(f"{subject}: {rule}")


def _place(
    model: type[BaseModel], record: object, location: Iterable[int | str]
) -> tuple[str, str, list[type[BaseModel]]]:
    """The place of a problem, `levels[1].` and `capacity`; and the possible models of the innermost table."""
    inside, last, models, inner = "", "", [model], [model]
    steps = tuple(location)
    for i, step in enumerate(steps):
        if isinstance(step, int) and isinstance(record, list | tuple):
            last += f"[{step}]"
            record = record[step]
        elif isinstance(record, Mapping) and (step in record or i == len(steps) - 1):
            inside, last, models = f"{inside}{last}{'.' if last else ''}", str(step), inner
            record = record.get(step)
            fields = [owner.model_fields[str(step)] for owner in models if step in owner.model_fields]
            inner = [inner_model for field in fields for inner_model in _models(field.annotation)] or inner
        # Else it is the name of one of the types that a value may have.
    return inside, last, models


def _models(annotation: object) -> Iterator[type[BaseModel]]:
    """The models inside the type of a field."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from _models(part)


def _remedy(name: str, annotation: object) -> str:
    """What to write for a field of this type, if that can be said."""
    model = next(_models(annotation), None)
    if model is None:
        return f'write a text: {name} = "…"' if annotation is str else ""
    if get_origin(annotation) in (list, tuple):
        return f"write tables, each under a line [[{name}]]"
    needed = [(key, field.examples) for key, field in model.model_fields.items() if field.is_required()]
    values = ", ".join(f"{key} = {examples[0] if examples else '…'}" for key, examples in needed)
    return f"write a table: {{ {values} }}" if values else f"write a table under a line [{name}]"

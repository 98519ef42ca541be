"""A parameter set as a person writes it, in Python or TOML: the types of its fields, and its file."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

from penstock.base.system import toml
from penstock.base.types import RowView
from penstock.errors import ParamsError, UnknownName
from penstock.scheme.params import security

Spec = TypeVar("Spec", bound="Written")
_POWER = re.compile(r"^\s*2\s*(?:\^|\*\*)\s*(\d{1,2})\s*$")
_RUN = re.compile(r"^\s*(\d{1,4})\s*x\s*(\d{1,3})\s*$")


def _whole(value: object) -> int:
    """An integer, which may be written `"2^16"`."""
    if isinstance(value, str) and (power := _POWER.match(value)):
        return 1 << int(power.group(1))
    if isinstance(value, bool) or not isinstance(value, int):
        raise ValueError(f"{value!r} is not a whole number")
    return value


def _bit_sizes(value: object) -> object:
    """Prime sizes: a list of bits, or runs of equal ones, `"1 x 60, 10 x 50"`."""
    if not isinstance(value, str):
        return value
    sizes: list[int] = []
    for part in value.split(","):
        run = _RUN.match(part)
        if run is None:
            raise ValueError(f"{value!r} is not a list of prime sizes; write for example '1 x 60, 10 x 50'")
        sizes += [int(run.group(2))] * int(run.group(1))
    return sizes


def _level(value: object) -> object:
    """A security level: `none`, or 128, 192, 256."""
    if value == "none" or (value in security.LEVELS and not isinstance(value, bool)):
        return value
    raise ValueError(f"{value!r} is not a security level; known: none, {', '.join(map(str, security.LEVELS))}")


Whole = Annotated[int, BeforeValidator(_whole)]
BitSizes = Annotated[tuple[Whole, ...], BeforeValidator(_bit_sizes)]
Secret = Literal["uniform-ternary", "sparse-ternary", "sparse-encapsulated", "uniform-encapsulated"]
Level = Annotated[Literal["none", 128, 192, 256], BeforeValidator(_level)]
Library = Literal["openfhe", "accelerator"]


class Written(BaseModel):
    """Typed data from a person: unknown keys are errors, and every error is a `UsageError` that names the field."""

    model_config = ConfigDict(extra="forbid", frozen=True)
    _what: ClassVar[str]

    def __init__(self, **data: object) -> None:
        try:
            super().__init__(**data)
        except ValidationError as error:
            who = f"parameter set '{data['name']}'" if isinstance(data.get("name"), str) else self._what
            raise toml.explained(error, type(self), data, who, ParamsError) from error

    @classmethod
    def from_mapping(cls: type[Spec], data: RowView, where: str = "parameter set") -> Spec:
        """A spec from parsed TOML or JSON; errors name `where` it comes from."""
        try:
            return cls(**data)
        except (ParamsError, UnknownName) as error:
            error.args = (f"{where}: {error}",)
            raise

    @classmethod
    def from_toml(cls: type[Spec], path: str | Path) -> Spec:
        """A spec from a TOML file; the name is the file's unless it states one.

        Raises: ParamsError: no such file, not TOML, a value that does not fit; UnknownName: an unknown key;
                FileError: the file cannot be read.
        """
        path = Path(path)
        missing = "`penstock params list` shows the named sets"
        data = toml.table(path, str(path), "a parameter set", ParamsError, missing=missing)
        return cls.from_mapping({"name": path.stem, **data}, str(path))

    def to_toml(self) -> str:
        """The spec as a TOML file that `from_toml` reads back."""
        plain = self.model_dump(mode="json", exclude_none=True)
        tables = {key: plain.pop(key) for key in list(plain) if isinstance(plain[key], dict)}
        lines = [toml.line(key, value) for key, value in plain.items() if value not in ("", [])]
        for name, table in tables.items():
            lines += ["", f"[{name}]", *(toml.line(key, value) for key, value in table.items())]
        return "\n".join(lines) + "\n"

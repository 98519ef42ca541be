"""The tenants of a load: their tokens, and inputs that were encrypted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penstock.errors import UsageError
from penstock.system import toml
from penstock.system.files import os_errors
from penstock.system.web import Token, read_token


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant of a load."""

    name: str
    token: Token
    program: str
    inputs: Mapping[str, Path]
    """Name -> file with a ciphertext, as 'penstock client submit --prepare' writes it."""


def read_tenants(path: Path) -> list[Tenant]:
    """Tenants of a TOML file: `[[tenant]]` with `name`, `token_file`, `program` and a table `inputs`.

    Paths are relative to the file. Raises: UsageError: another content. FileError.
    """
    with os_errors(path, "read"):
        try:
            content = toml.loads(path.read_text(encoding="utf-8"))
        except (ValueError, UnicodeDecodeError) as error:
            raise UsageError(f"{path}: it is not TOML ({error})") from error
    rows = content.get("tenant")
    if not isinstance(rows, list) or not rows or set(content) != {"tenant"}:
        raise UsageError(f"{path}: it has a [[tenant]] for each tenant, and nothing else")
    found = [_tenant(path, number, row) for number, row in enumerate(rows, 1)]
    names = [each.name for each in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise UsageError(f"{path}: tenant '{twice[0]}' is there twice; name each once")
    return found


def _tenant(path: Path, number: int, row: Any) -> Tenant:
    where = f"{path}, tenant {number}"
    fields = {"name": str, "token_file": str, "program": str, "inputs": dict}
    if not isinstance(row, dict) or row.keys() != fields.keys():
        raise UsageError(f"{where}: it has {', '.join(fields)}, and nothing else")
    for name, kind in fields.items():
        if not isinstance(row[name], kind):
            raise UsageError(f"{where}: {name} is {'a text' if kind is str else 'a table of files'}")
    if not row["inputs"] or not all(isinstance(file, str) for file in row["inputs"].values()):
        raise UsageError(f"{where}: inputs is a table of files, one for each input of the program")
    return Tenant(
        name=row["name"],
        token=read_token(path.parent / row["token_file"]),
        program=row["program"],
        inputs={name: path.parent / file for name, file in row["inputs"].items()},
    )

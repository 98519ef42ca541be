"""The tenants of a load: their tokens, and inputs that were encrypted once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import Field

from penstock.base.system.toml import Strict, checked
from penstock.base.system.web import Token, read_token
from penstock.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class Tenant:
    """One tenant of a load."""

    name: str
    token: Token
    program: str
    inputs: Mapping[str, Path]
    """Name -> file with a ciphertext, as 'penstock client submit --prepare' writes it."""


class _TenantSpec(Strict):
    """As the file has it."""

    name: str
    token_file: str
    program: str
    inputs: dict[str, str] = Field(min_length=1)


class _Tenants(Strict):
    tenant: list[_TenantSpec] = Field(min_length=1)


def read_tenants(path: Path) -> list[Tenant]:
    """Tenants of a TOML file: `[[tenant]]` with `name`, `token_file`, `program` and a table `inputs`.

    Paths are relative to the file. Raises: UsageError: another content. UnknownName: another key. FileError.
    """
    tenants: dict[str, Tenant] = {}
    for tenant in checked(_Tenants, path, str(path), "a file of tenants").tenant:
        if tenant.name in tenants:
            raise UsageError(f"{path}: tenant '{tenant.name}' is there twice; name each once")
        tenants[tenant.name] = Tenant(
            name=tenant.name,
            token=read_token(path.parent / tenant.token_file),
            program=tenant.program,
            inputs={name: path.parent / file for name, file in tenant.inputs.items()},
        )
    return list(tenants.values())

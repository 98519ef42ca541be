"""The bodies of requests, as OpenAPI describes them. Unknown members are refused."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$"
SHA256 = r"^[0-9a-f]{64}$"
Name = Annotated[str, StringConstraints(pattern=NAME)]
Sha256 = Annotated[str, StringConstraints(pattern=SHA256)]
Word = Annotated[str, StringConstraints(min_length=1, max_length=200)]


class Form(BaseModel):
    """A body."""

    model_config = ConfigDict(extra="forbid", strict=True)


class UploadForm(Form):
    """What will be sent."""

    kind: Literal["package", "key", "input", "ciphertext"] = Field(
        description="A program package, evaluation keys, an input of a job (expires), or a ciphertext that stays."
    )
    bytes: int = Field(ge=1, le=1 << 50)
    sha256: Sha256 = Field(description="Of the whole content.")
    name: Annotated[str, StringConstraints(pattern=r"^[a-z0-9:._-]{1,100}$")] | None = Field(
        default=None, description="The key of a file with a single one: relin, conj, rot:GALOIS_ELEMENT."
    )
    params: Name | None = Field(
        default=None, description="Of keys: the name of the deployed program that they are for."
    )


class ProgramForm(Form):
    """A package to deploy."""

    name: Name
    package: Sha256


class JobForm(Form):
    """A job. The same identity with the same content is the same job."""

    job: Name = Field(description="The client's own identity of this job.")
    program: Name
    package: Sha256 | None = Field(
        default=None, description="Of the package that the client takes the program for; another one is refused."
    )
    inputs: dict[Word, Sha256] = Field(max_length=10_000)
    priority: int = Field(default=0, ge=0, le=9)
    deadline_s: float | None = Field(default=None, gt=0, le=1e8, allow_inf_nan=False, description="From submission.")


class WorkForm(Form):
    """Whether jobs may begin."""

    paused: bool


class TenantForm(Form):
    """A new tenant."""

    tenant: Annotated[str, StringConstraints(min_length=1, max_length=64)]


class TokenForm(Form):
    """A new token."""

    scopes: list[Literal["deploy", "keys", "run", "read"]] = Field(min_length=1, max_length=4)
    lasts_s: float | None = Field(
        default=None, gt=0, le=1e10, allow_inf_nan=False, description="Omitted: until it is ended."
    )


class RotationForm(Form):
    """How long the old token still works."""

    overlap_s: float = Field(default=0.0, ge=0, le=1e8, allow_inf_nan=False)

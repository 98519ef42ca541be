"""The verdict on a package, checked: the package may have taken over the process that examined it."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, JsonValue, TypeAdapter, ValidationError

from penstock.base.types import Row
from penstock.errors import PenstockError
from penstock.scheme.operations import SINGLE_KEYS, SMALL_ROTATION
from penstock.scheme.params.ckks import CkksParameters

WRONG = "the process that examined it said what it may not"
_MOST = 1 << 53
Count = Annotated[int, Field(ge=0, le=_MOST)]
_KEY = f"^({'|'.join(SINGLE_KEYS)}|(rot|{SMALL_ROTATION}):[0-9]{{1,10}})$"
Text = Annotated[str, Field(max_length=1 << 20)]


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class _Vector(_Strict):
    name: Text
    length: Count
    limbs: Count
    complex: bool


class _Result(_Strict):
    name: Text
    length: Count
    complex: bool


class _Key(_Strict):
    key: Annotated[str, Field(pattern=_KEY)]
    limbs: Count
    bytes: Count


class _Predicted(_Strict):
    seconds: Annotated[float, Field(ge=0, allow_inf_nan=False)]
    basis: Text
    memory_bytes: Count
    key_bytes: Count
    key_bytes_read: Count
    operations: Count


class _Description(_Strict):
    program: Text
    description: Text
    inputs: list[_Vector]
    outputs: list[_Result]
    output_bytes: Count
    params: dict[str, JsonValue]
    keys: list[_Key]
    planned_key_bytes: Count
    predicted: _Predicted


class _FoundSaid(_Strict):
    found: _Description


class _RefusedSaid(_Strict):
    refused: Text


class _BrokeSaid(_Strict):
    broke: Annotated[str, Field(pattern="^[A-Za-z_]{1,60}$")]


_VERDICT: TypeAdapter[_FoundSaid | _RefusedSaid | _BrokeSaid] = TypeAdapter(_FoundSaid | _RefusedSaid | _BrokeSaid)


def checked_verdict(content: str, key_bytes: int) -> Row:
    """`found`, `refused` or `broke`, of one that was killed nothing, and of one that lies a refusal.

    Args:   key_bytes: as of `penstock.service.http.examine.describe`.
    """
    try:
        said = _VERDICT.validate_json(content)
        if isinstance(said, _FoundSaid):
            _check(said.found, key_bytes)
    except ValidationError as error:
        return {} if error.errors(include_input=False)[0]["type"] == "json_invalid" else {"refused": WRONG}
    except (PenstockError, ValueError, ArithmeticError, TypeError, KeyError):
        return {"refused": WRONG}
    return said.model_dump()


def _check(found: _Description, key_bytes: int) -> None:
    """Keys are as large as the set makes them. Raises: ValueError; the errors of a set."""
    params = CkksParameters.from_dict(found.params)
    sizes = [(key.bytes, params.key_bytes(key.limbs, key=key.key)) for key in found.keys]
    limbs = [*(key.limbs for key in found.keys), *(vector.limbs for vector in found.inputs)]
    if (
        params.to_dict() != found.params
        or any(said != true for said, true in sizes)
        or not all(1 <= each <= params.num_q for each in limbs)
        or found.predicted.key_bytes != sum(size for size, _ in sizes)
        or found.planned_key_bytes != key_bytes
    ):
        raise ValueError("what it says of keys is not so")

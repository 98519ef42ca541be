"""Programs and keys as a service describes them, checked: nothing there is trusted that the client can find out."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penstock.base.system.web import ServiceError
from penstock.base.types import RowView
from penstock.errors import ParamsError, UsageError, cut
from penstock.program.evaluator.protocol import Values
from penstock.program.package.content import Input, Output, Package
from penstock.program.package.replay import checked_inputs
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.spec import spec_of

_KEY = re.compile(r"relin|conj|rot:[1-9][0-9]{0,9}|to-sparse|to-dense", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeployedProgram(Package):
    """A deployed program, as far as a client needs to know it: without its instructions."""

    @property
    def security_bits(self) -> int:
        """The level of the parameter set, computed here; 0: none is stated."""
        return security_bits(self.params)

    def checked(self, inputs: Mapping[str, Values]) -> dict[str, Values]:
        """Inputs by name, each of its length. Raises: UsageError."""
        return checked_inputs(self, inputs)


@dataclass(frozen=True, slots=True, kw_only=True)
class NeededKeys:
    """The evaluation keys of a program, and the lacking ones."""

    needed: Mapping[str, int]
    """Key -> limbs of its highest use."""
    lacking: tuple[str, ...]
    pair: str | None
    """Tag of the key pair whose keys the service has."""
    tenant: str | None
    """Whose keys they are at the service; segments are bound to this name."""


def program_of(description: RowView) -> DeployedProgram:
    """The program in a service's answer.

    Raises: ServiceError: the answer is malformed. ParamsError: its parameter set breaks a rule.
    """
    try:
        params = checked_set(CkksParameters.from_dict(description["params"]))
        inputs = tuple(
            Input(str(row["name"]), int(row["length"]), int(row.get("limbs") or 0), bool(row.get("complex")))
            for row in description["inputs"]
        )
        outputs = tuple(
            Output(str(row["name"]), int(row["length"]), bool(row.get("complex"))) for row in description["outputs"]
        )
        keys = _limbs(description["keys"])
        name = str(description["name"])
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _malformed("a program", error) from error
    lengths = {vector.name: vector.length for vector in inputs} | {vector.name: vector.length for vector in outputs}
    for vector, length in lengths.items():
        if not 1 <= length <= params.slots:
            raise _malformed("a program", f"'{vector}' has {length} values, and the set {params.slots} slots")
    return DeployedProgram(name=name, params=params, inputs=inputs, outputs=outputs, instructions=(), keys=keys)


def needed_of(answer: RowView) -> NeededKeys:
    """The keys in a service's answer. Raises: ServiceError: the answer is malformed."""
    try:
        needed = _limbs(answer["needed"])
        lacking = tuple(str(entry if isinstance(entry, str) else entry["key"]) for entry in answer["lacking"])
        pair, tenant = answer.get("pair"), answer.get("tenant")
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise _malformed("the keys of a program", error) from error
    if strange := [key for key in lacking if key not in needed]:
        raise _malformed("the keys of a program", f"it lacks '{strange[0]}', which the program does not need")
    return NeededKeys(
        needed=needed,
        lacking=lacking,
        pair=None if pair is None else str(pair),
        tenant=None if tenant is None else str(tenant),
    )


def checked_set(params: CkksParameters) -> CkksParameters:
    """The parameter set of somebody else, held against the rules of sets.

    Raises: ParamsError: it breaks one, or states other sizes than it has.
    """
    try:
        built = _built(params)
    except UsageError:
        raise
    except Exception as error:
        raise ParamsError(f"the service's parameter set is malformed ({error}): ask its operator") from error
    for what in ("ring_dim", "slots", "q_bits", "p_bits", "dnum", "scaling", "secret"):
        if getattr(built, what) != getattr(params, what):
            raise ParamsError(
                f"the service's parameter set '{params.name}' states {what} {getattr(params, what)}, and it has "
                f"{getattr(built, what)}: ask its operator"
            )
    return params


def _built(params: CkksParameters) -> CkksParameters:
    """The set as our own rules and tables make it."""
    return spec_of(params).model_copy(update={"security": "none"}).build()


def security_bits(params: CkksParameters) -> int:
    """The level of a set by our tables, whatever the set says of itself; 0: none is stated."""
    return _built(params).security_bits


def _limbs(rows: Sequence[RowView]) -> dict[str, int]:
    limbs_of = {str(row["key"]): int(row["limbs"]) for row in rows}
    for key, limbs in limbs_of.items():
        if _KEY.fullmatch(key) is None:  # it becomes the name of a file
            raise ValueError(f"'{cut(key)}' is no key")
        if not 1 <= limbs <= 255:
            raise ValueError(f"'{key}' at {limbs} limbs")
    return limbs_of


def _malformed(what: str, why: object) -> ServiceError:
    return ServiceError(
        f"the service describes {what} in another way than this client reads ({why}): install the same version"
    )

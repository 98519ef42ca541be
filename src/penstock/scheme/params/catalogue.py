"""The parameter sets that have a name: one TOML file each under `data/`; a TOML path goes wherever a name does.

A new set is one file. Sets of a paper say where values come from (`source`) and which ones nobody states (`assumed`).
A set near a named one has a name, too: `sharp-k4` is `sharp` with four digits of key switching.
"""

from __future__ import annotations

import hashlib
import re
from functools import cache
from importlib import resources

from penstock.base.system import toml
from penstock.base.types import Row
from penstock.errors import ParamsError, UnknownName
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.sizes import size_report
from penstock.scheme.params.spec import CkksSpec, modulus_bits, spec_of
from penstock.scheme.params.variation import varied

_NEAR = re.compile(r"(?P<base>.+?)(?P<changes>(?:-(?:n[1-9]\d?|d\d{1,3}|k[1-9]\d{0,2}|s\d{1,3}|b[1-9]\d?))+)")
_CHANGED = {"n": "ring_dim", "d": "depth", "k": "dnum", "s": "security", "b": "scale_bits"}
"""Letter in the name of a set near another one -> what it changes; `n` is followed by log2 of the ring dimension."""

_registered: dict[str, CkksSpec] = {}
_adopted: dict[str, CkksParameters] = {}
"""Sets that came with files, by the names that `adopt` gave them."""


@cache
def _shipped() -> dict[str, CkksSpec]:
    """The sets under `data/`; a file is named after its set."""
    specs: dict[str, CkksSpec] = {}
    for file in sorted(resources.files("penstock.scheme.params").joinpath("data").iterdir(), key=lambda f: f.name):
        if file.name.endswith(".toml"):
            name = file.name.removesuffix(".toml")
            written = {"name": name, **toml.table(file.read_bytes(), file.name, "a parameter set", ParamsError)}
            _add(specs, CkksSpec.from_mapping(written, file.name))
    return specs


def _add(specs: dict[str, CkksSpec], spec: CkksSpec) -> None:
    if spec.name in specs:
        raise ParamsError(f"parameter set '{spec.name}' exists already: choose another name")
    specs[spec.name] = spec


def names() -> list[str]:
    """Every name that `get` knows, sorted.

    >>> "sharp" in names()
    True
    """
    return sorted({**_shipped(), **_registered})


def register(spec: CkksSpec) -> None:
    """Give a set a name for the rest of the process; it is checked first.

    Raises: ParamsError: the name exists already, or the set breaks a rule.
    """
    spec.build()
    _add(dict(_shipped()), spec)
    _add(_registered, spec)


def spec(name: str) -> CkksSpec:
    """A set in its written form, by name or by the path of a TOML file.

    Raises: UnknownName: no such name; the message suggests the nearest. ParamsError: a set near a named one that breaks
            a rule.
    """
    if name.endswith(".toml"):
        return CkksSpec.from_toml(name)
    written = _shipped().get(name) or _registered.get(name) or _near(name)
    if written is None:
        raise UnknownName("parameter set", name, names())
    return written


def _near(name: str) -> CkksSpec | None:
    """The set that differs from a named one in what the end of its name says; `None`: it is not such a name."""
    match = _NEAR.fullmatch(name)
    if match is None or match["base"] not in names():
        return None
    changes = {_CHANGED[part[0]]: int(part[1:]) for part in match["changes"].split("-")[1:]}
    if "ring_dim" in changes:
        changes["ring_dim"] = 1 << changes["ring_dim"]
    return spec_of(varied(_built(spec(match["base"])), **changes))


def get(name: str) -> CkksParameters:
    """A checked set, by name or by the path of a TOML file.

    >>> get("sharp").num_p, get("sharp-k4").dnum
    (12, 4)
    """
    return _adopted[name] if name in _adopted else _built(spec(name))


def adopt(params: CkksParameters) -> str:
    """A name by which `get` gives a set that came with a file: its own, if no other set has it.

    >>> adopt(get("sharp"))
    'sharp'
    """
    if params.name in names() and get(params.name) == params:
        return params.name
    digest = hashlib.sha256(repr(params).encode()).hexdigest()[:8]
    name = f"{params.name}@{digest}"
    _adopted[name] = params
    return name


@cache
def _built(written: CkksSpec) -> CkksParameters:
    return written.build()


def set_row(params: CkksParameters) -> Row:
    """A parameter set as a row of a list: its shape, its security in bits, and the bytes of one key and ciphertext."""
    sizes = size_report(params)
    names = ("library", "ring_dim", "slots", "depth", "num_q", "num_p", "dnum", "scale_bits")
    return {
        "name": params.name,
        **{name: getattr(params, name) for name in names},
        "scaling": params.scaling.value,
        "log_qp": modulus_bits(params)[1],
        "security_bits": params.security_bits,
        **{name: sizes[name] for name in ("rotation_key_bytes", "ciphertext_bytes")},
    }

"""Where a client computes: seconds of encryption and decryption, its power, and its line to the server.

One TOML file under `data/clients/` is one place. It holds the rounded cost of whole tasks; a fitted machine's own model
of its client is `penstock.scheme.machines.client`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from penstock.base.types import RowView
from penstock.base.units import JOULE_PER_BYTE_UNITS, RATE_UNITS, SECOND_UNITS, WATT_UNITS
from penstock.scheme.machines.figure import Figure, Stated
from penstock.scheme.machines.files import Shelf, check_name, figures, parse_spec
from penstock.scheme.machines.records import FigureSpec, RecordSpec, Units
from penstock.scheme.params.ckks import CkksParameters

RING_DIM = 1 << 16
"""Of the stated costs a limb; others in proportion."""
LIMB_UNITS = {"us/limb": 1e-6, "ms/limb": 1e-3}
DEFAULT = "laptop"


class ClientPlaceSpec(RecordSpec):
    """A client's place as a TOML file has it."""

    encrypt: Annotated[FigureSpec, Units(LIMB_UNITS, positive=True)]
    decrypt: Annotated[FigureSpec, Units(LIMB_UNITS, positive=True)]
    power: Annotated[FigureSpec, Units(WATT_UNITS)]
    line: Annotated[FigureSpec, Units(RATE_UNITS, positive=True)]
    latency: Annotated[FigureSpec, Units(SECOND_UNITS)]
    line_energy: Annotated[FigureSpec, Units(JOULE_PER_BYTE_UNITS)]


@dataclass(frozen=True, slots=True, kw_only=True)
class ClientSite(Stated):
    """A checked place."""

    name: str
    title: str
    encrypt: Figure
    """Seconds a limb to encode and encrypt, at N = 2^16."""
    decrypt: Figure
    """Seconds a limb to decrypt and decode, at N = 2^16."""
    power: Figure
    """Watts while it computes."""
    line: Figure
    """Bytes a second, in each direction."""
    latency: Figure
    """Seconds one way."""
    line_energy: Figure
    """Joules a byte."""

    def encrypt_s(self, params: CkksParameters, limbs: int) -> float:
        """Seconds to encode and encrypt `limbs` limbs, of one ciphertext or of several."""
        return self.encrypt.value * limbs * params.ring_dim / RING_DIM

    def decrypt_s(self, params: CkksParameters, limbs: int) -> float:
        """Seconds to decrypt and decode so many limbs."""
        return self.decrypt.value * limbs * params.ring_dim / RING_DIM

    def transfer_s(self, num_bytes: float) -> float:
        """Seconds of one transfer over the line; nothing takes no time."""
        return self.latency.value + num_bytes / self.line.value if num_bytes else 0.0


def load_client_place(name_or_path: str | Path = DEFAULT) -> ClientSite:
    """The place of that name, or in that TOML file.

    Raises: UnknownName: no such place; MachineError: the file breaks a rule; FileError: the file cannot be read.
    """
    return client_places.load(name_or_path)


def _checked(written: RowView | Path, where: str) -> ClientSite:
    """The checked place; `where` names the file in messages.

    Raises: MachineError: an empty name, a value without a unit or a source, negative or zero, an unknown kind.
    """
    spec = parse_spec(ClientPlaceSpec, written, where, "a client file")
    check_name(spec.name, where, "client")
    return ClientSite(name=spec.name, title=spec.title, **figures(spec, where))


client_places = Shelf("clients", "client", _checked, "penstock_studies")
"""The places that come with the studies."""

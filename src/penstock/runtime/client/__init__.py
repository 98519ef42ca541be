"""The key owner's side, without OpenFHE: key pairs, evaluation keys, encryption and decryption.

It needs the distribution `penstock-client`, which a machine that only evaluates or serves does without. Nothing that
evaluates or serves imports this room. Each name is imported when it is first used: a run starts the client's process
several times, and it needs the key pair alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.base.system.lazy import at_first_use

if TYPE_CHECKING:
    from penstock.runtime.client.pair import KeyPair as KeyPair
    from penstock.runtime.client.public import PublicKey as PublicKey
    from penstock.runtime.client.service import Service as Service

_PLACES = {
    "penstock.runtime.client.pair": "KeyPair",
    "penstock.runtime.client.public": "PublicKey",
    "penstock.runtime.client.service": "Service",
}
"""Module -> the class that it has."""
__all__ = ["KeyPair", "PublicKey", "Service"]

if not TYPE_CHECKING:  # for a type checker the names above are all that there is
    __getattr__, __dir__ = at_first_use(__name__, _PLACES)

"""The key owner's side, without OpenFHE: key pairs, evaluation keys, encryption and decryption.

It needs the distribution `penstock-client`, which a machine that only evaluates or serves does without. Nothing that
evaluates or serves imports this room. Each name is imported when it is first used: a run starts the client's process
several times, and it needs the key pair alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.client.pair import KeyPair as KeyPair
    from penstock.client.public import PublicKey as PublicKey
    from penstock.client.service import Service as Service

_PLACES = {
    "KeyPair": "penstock.client.pair",
    "PublicKey": "penstock.client.public",
    "Service": "penstock.client.service",
}
"""Class -> the module that has it."""
__all__ = ["KeyPair", "PublicKey", "Service"]

if not TYPE_CHECKING:  # for a type checker the names above are all that there is

    def __getattr__(name):
        if name not in _PLACES:
            raise AttributeError(f"module 'penstock.client' has no attribute '{name}'")
        from importlib import import_module

        found = getattr(import_module(_PLACES[name]), name)
        globals()[name] = found
        return found

    def __dir__():
        return sorted(__all__)

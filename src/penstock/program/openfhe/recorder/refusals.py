"""Why a call cannot be in a package, and where the script made it."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from penstock.errors import PenstockError
from penstock.program.openfhe.recorder.observed import Observation


class NotPackaged(PenstockError):
    """A script, or one context of it, that does not become a package: a call, its line, the reason and the remedy."""


class Refused(Exception):
    """The reason for which a call cannot be in a package, and the remedy."""


@dataclass(frozen=True, slots=True)
class CallSite:
    """The line of the script that made a call, and the call's name."""

    file: str
    line: int
    call: str

    def __str__(self) -> str:
        return f"{Path(self.file).name}, line {self.line}: {self.call}"


def place_of(call: str, frame: FrameType) -> CallSite:
    """Where a call was made."""
    return CallSite(frame.f_code.co_filename, frame.f_lineno, call)


OUTSIDE = (
    "a ciphertext came from outside: it was loaded from a file that this script did not write, made before recording "
    "began, or edited by hand; encrypt it in the script"
)
DECRYPTED = (
    "an operand is a number that was decrypted: a package has no step of the key's owner in between; compute it on "
    "ciphertexts, or make a script of each part"
)


def chosen(look: Observation) -> str:
    """Why no call may follow a look at decrypted values."""
    return (
        f"{look} before this call. A package would repeat this run's choices for all inputs, so its calls and "
        "constants may not depend on decrypted values. Choose before encryption, compute it on ciphertexts, or keep "
        "this part in a client's program. If nothing depends on it, move that line after the last call"
    )

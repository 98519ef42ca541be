"""The error tree: a subclass tells the caller what to do, and carries the exit code of the command line.

The engine raises these classes itself: `crates/penstock-py/src/errors.rs` says which.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

LONGEST_NAME = 200
"""Characters of a name of others that a message repeats."""


def cut(name: str) -> str:
    """A name as a message repeats it: whole, or its beginning and how long it is.

    >>> cut("mult"), cut("x" * 70_000)[198:]
    ('mult', 'xx… (70000 characters)')
    """
    return name if len(name) <= LONGEST_NAME else f"{name[:LONGEST_NAME]}… ({len(name)} characters)"


class PenstockError(Exception):
    """Something a user can act on. The message says what, where, the rule and the remedy."""

    exit_code = 1


class UsageError(PenstockError):
    """The request itself is wrong: an unknown name, a quantity without a unit, a value out of range."""

    exit_code = 2


class UnknownName(UsageError):
    """A name that no registry holds. `nearest` is the closest known one, or `None`.

    In the message, `where` comes first (a file, say), and `inside` just before the name (the table of a key).
    """

    def __init__(self, what: str, name: str, known: Iterable[str], *, where: str = "", inside: str = "") -> None:
        import difflib  # at use: each command loads this file

        self.what, self.name, self.known = what, name, sorted(known)
        # The search for names close to a very long one takes time quadratic in its length.
        close = difflib.get_close_matches(name, self.known, n=1, cutoff=0.5) if cut(name) == name else []
        name = cut(name)
        self.nearest = close[0] if close else None
        hint = f"did you mean '{self.nearest}'? " if self.nearest else ""
        known_names = ", ".join(map(cut, self.known)) or "none"
        super().__init__(f"{where}{': ' if where else ''}unknown {what} '{inside}{name}': {hint}known: {known_names}")


def check_known(what: str, name: str, known: Collection[str]) -> None:
    """Raises: UnknownName: a name that is none of the known ones."""
    if name not in known:
        raise UnknownName(what, name, known)


class UnitError(UsageError):
    """A quantity that cannot be read: no unit, an unknown unit, not a number."""


class ParamsError(UsageError):
    """A parameter set that breaks a rule; the message names the rule."""


class MachineError(UsageError):
    """A machine, tier or network file that breaks a rule; the message names file, field and rule."""


class TraceError(PenstockError):
    """A trace file that cannot be read, or whose content breaks a rule of the format."""


class CheckFailed(PenstockError):
    """A result that differs from its reference by more than its stated bound."""


class CapabilityMissing(PenstockError):
    """Something this machine lacks (OpenFHE, SimGrid, counters); the message says how to get it."""

    exit_code = 3


class ThresholdMissed(PenstockError):
    """A measured value did not meet the threshold that the user set."""

    exit_code = 4


class EvaluationRefused(PenstockError):
    """What an evaluator cannot do: numbers, operands or bytes that do not fit, a program deeper than the parameters."""


class KeyMissing(PenstockError):
    """The tenant has no such key; the message has the command that imports it."""


class KeyDamaged(CheckFailed):
    """A segment differs from the imported one: truncated, flipped, swapped. Import the key again."""


class KeyRefused(UsageError):
    """The request is wrong: other parameters, another tenant's key, bytes that are not a key."""


class KeyPairDamaged(PenstockError):
    """A file of a key pair has changed, or the two files do not form a pair: nothing is made from it."""


class KeyPairRefused(UsageError):
    """A key pair of other parameters, or a sealed one without its passphrase."""


class BudgetTooSmall(UsageError):
    """The data needed in memory at once exceeds the budget."""


class StoreUnusable(PenstockError):
    """The file system, the index or the object store refused."""


class SimulationInputError(UsageError):
    """Accesses, costs, a cache or a tier that break a rule; the message names it."""


class ClockOverflow(PenstockError):
    """The simulated time passes the end of the clock, 2^63 picoseconds or about 106 days."""


class ConservationError(PenstockError):
    """The accounts of a simulation do not add up: a defect of penstock."""

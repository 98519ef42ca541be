"""Files of a client's key pair in a folder, by the library that wrote them. They lie next to a store, never inside."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from penstock.errors import UsageError


@dataclass(frozen=True, slots=True, kw_only=True)
class PairFiles:
    """The names of a library's files."""

    library: str
    secret: str
    public: str
    others: tuple[str, ...] = ()
    """Further files of the pair."""

    @property
    def names(self) -> tuple[str, ...]:
        """Every file that a folder of such a pair may hold."""
        return (self.secret, self.public, *self.others)

    def lie_in(self, folder: Path) -> bool:
        """Whether a pair of this library lies in a folder, whole or not."""
        return any((folder / name).exists() for name in (self.secret, self.public))


PAIRS = {
    kind.library: kind
    for kind in (
        PairFiles(library="penstock", secret="secret.pskey", public="public.ppkey"),
        PairFiles(library="openfhe", secret="secret.key", public="public.key", others=("pair.sha256",)),
    )
}
"""Client library -> files of its key pairs."""


def pair_in(folder: Path | None) -> PairFiles | None:
    """The kind of key pair that lies in a folder; `None`: there is none.

    Raises: UsageError: pairs of two libraries lie there.
    """
    kinds = [] if folder is None else [kind for kind in PAIRS.values() if kind.lie_in(folder)]
    if len(kinds) > 1:
        names = " and ".join(kind.secret for kind in kinds)
        raise UsageError(
            f"{folder} holds two key pairs ({names}), and one secret key decrypts: move the files of the other away"
        )
    return kinds[0] if kinds else None

"""How a front end writes the words of a question, and which words go together.

>>> OPTIONS("hit_ratio"), OPTIONS.give("mode", "overlap"), KEYS.give("mode", "overlap")
('--hit-ratio', '--mode overlap', 'mode = "overlap"')
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from penstock.errors import UsageError


@dataclass(frozen=True, slots=True)
class Spelling:
    """The words as options of a command, as keys of a file, or as arguments of a function."""

    option: bool
    other: tuple[tuple[str, str], ...] = ()
    """Words that are written otherwise."""

    def __call__(self, word: str) -> str:
        """A word in its written form."""
        written = dict(self.other).get(word, word)
        return f"--{written.replace('_', '-')}" if self.option else written

    def give(self, word: str, *values: str) -> str:
        """A word with its value, as an example to copy."""
        if self.option:
            return f"{self(word)} {','.join(values)}" if " " not in values[0] else f"{self(word)} '{values[0]}'"
        written = ", ".join(f'"{value}"' for value in values)
        return f"{word} = {written}" if len(values) == 1 else f"{word} = [{written}]"


OPTIONS, KEYS = Spelling(True, (("beside", "with"),)), Spelling(False, (("beside", "with"),))
ARGUMENTS = Spelling(False, (("tier", "tiers"),))
"""Of `penstock.simulate`."""
OF_ONE_HOST = ("levels", "beside", "tenants", "write_back", "compare_policies")
"""Words that play one host."""
OF_HOSTS = ("topology", "partition", "all_gather", "broadcast")
"""Words that say something of several hosts only."""


def check_used(
    given: Collection[str], spelling: Spelling, *, modes: Collection[str], prefetches: Collection[str], beside: bool
) -> None:
    """A word that changes no point is a slip.

    Args:   given: the user's words; beside: whether several programs run together.
    Raises: UsageError.
    """
    if "interleave" in given and not beside:
        raise UsageError(
            f"{spelling('interleave')} says how programs take turns: name another program, "
            f"{spelling.give('beside', 'WORKLOAD')}"
        )
    for word in ("prefetch", "prefetch_depth", "prefetch_buffer"):
        if word in given and "overlap" not in modes:
            raise UsageError(
                f"{spelling(word)} is of mode overlap, the only one that loads ahead of compute: add "
                f"{spelling.give('mode', 'overlap')}"
            )
    if "prefetch_buffer" in given and set(prefetches) == {"none"}:
        raise UsageError(f"{spelling('prefetch')} none needs no buffer: leave {spelling('prefetch_buffer')} out")


def check_together(given: Collection[str], spelling: Spelling, *, hit_ratio: bool, ciphertexts: bool) -> None:
    """What does not go together.

    Args:   given: the words whose values are not the usual ones; hit_ratio: whether one above 0 is stated;
            ciphertexts: whether they are among the classes.
    Raises: UsageError.
    """
    words, found = spelling, set(given)
    if "levels" in found and found & {"tier", "cache", "hit_ratio"}:
        raise UsageError(
            f"{words('levels')} names caches and tiers itself: leave {words('tier')}, {words('cache')} and "
            f"{words('hit_ratio')} out"
        )
    for word in ("inclusion", "pin", "share", "reserve"):
        if word in found and "levels" not in found:
            example = words.give("levels", "on-chip,hbm:40 GB,nvme-gen5")
            raise UsageError(f"{words(word)} is of levels: name them with {example}")
    if "policy" in found and not found & {"cache", "levels"}:
        raise UsageError(
            f"{words('policy')} is the replacement of a cache: give its size with {words.give('cache', '1 GiB')}"
        )
    if "write_back" in found:
        if hit_ratio:
            raise UsageError(
                f"{words('write_back')}: a stated hit ratio does not say what is read again: leave "
                f"{words('hit_ratio')} out and give {words.give('cache', '1 GiB')}"
            )
        if not ciphertexts and "levels" not in found:
            raise UsageError(
                f"{words('write_back')} is of ciphertexts, which are resident unless named: add "
                f"{words.give('classes', 'keys', 'ciphertexts')}"
            )
    for word in (each for each in OF_ONE_HOST if each in found):
        if found & {"hosts", "network"}:
            raise UsageError(f"{words(word)} plays one host: leave {words('hosts')} and {words('network')} out")
        if "engine" in found:
            raise UsageError(f"{words(word)} plays one host, which sends no messages: leave {words('engine')} out")
        for other in (each for each in OF_HOSTS if each in found):
            raise UsageError(f"{words(word)} plays one host: leave {words(other)} out")

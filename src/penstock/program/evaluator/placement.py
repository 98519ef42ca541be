"""Where a program bootstraps: derived from what its parts take, not typed in.

A program is a chain of blocks: parts that run whole, between places where one ciphertext carries what goes on. The
rule: bootstrap before a block that the levels left do not cover, and never sooner. On a chain this takes the fewest
bootstrappings, since a refresh never leaves more levels for being made earlier; tests hold it against every placement
on short chains. Bootstrapping may take levels of its input (`reserve`): a block is covered when so many are left behind
it, or as many as all the blocks after it take.
"""

from __future__ import annotations

from collections.abc import Sequence

from penstock.errors import ParamsError, UsageError
from penstock.program.evaluator.circuits.bootstrap import input_levels, refreshed_levels
from penstock.program.evaluator.protocol import Ciphertext, Evaluator
from penstock.scheme.params.ckks import CkksParameters


def is_covered(levels: int, blocks: Sequence[int], reserve: int) -> bool:
    """Whether `levels` cover the first of the blocks ahead, and what must be left behind it.

    >>> is_covered(8, [6, 6], 1), is_covered(6, [6, 6], 1), is_covered(6, [6], 1)
    (True, False, True)
    """
    return levels >= blocks[0] + min(reserve, sum(blocks[1:]))


def start_levels(params: CkksParameters, blocks: Sequence[int]) -> int:
    """Initial levels of an input: the chain's, or those after a refresh if the chain has more.

    More limbs would not save a bootstrapping for long, and make every operation until then more expensive.
    """
    fresh, wanted = params.depth, sum(blocks)
    if wanted <= fresh and (params.bootstrap is None or wanted <= refreshed_levels(params)):
        return wanted
    return fresh if params.bootstrap is None else min(fresh, refreshed_levels(params))


class Chain:
    """The rule while a program runs: asked once before each block, in their order.

    It goes by the levels that ciphertexts have, so that it holds under automatic scaling too. In the clear reading
    levels are unlimited and nothing is bootstrapped.
    """

    def __init__(self, ev: Evaluator, blocks: Sequence[int]) -> None:
        self._ev = ev
        self._ahead = list(blocks)
        self._reserve = input_levels(ev.params)

    def is_due(self, a: Ciphertext) -> bool:
        """Whether to bootstrap `a` before the next block, which then comes later.

        Raises: UsageError: the program has more blocks than it announced; ParamsError: no refresh covers the block.
        """
        if not self._ahead:
            raise UsageError("the program runs more blocks than it announced to the placement rule")
        due = not is_covered(self._ev.levels(a), self._ahead, self._reserve)
        if due and not is_covered(refreshed_levels(self._ev.params), self._ahead, self._reserve):
            raise ParamsError(
                f"a part of the program takes {self._ahead[0]} levels and a refreshed ciphertext of set "
                f"'{self._ev.params.name}' has {refreshed_levels(self._ev.params)}: take a set with more levels after "
                "bootstrapping"
            )
        del self._ahead[0]
        return due

    def before(self, a: Ciphertext, *, slots: int | None = None) -> Ciphertext:
        """`a` as the next block takes it: refreshed where its levels do not cover the block.

        Args:   slots: the period of the values, where they repeat.
        Raises: as `is_due`.
        """
        return self._ev.bootstrap(a, slots) if self.is_due(a) else a

"""One thread at a time uses OpenFHE: its evaluation keys, contexts and number of threads are the whole process's."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType

from penstock.base.system.turns import Mark, await_turn, this_thread
from penstock.errors import PenstockError


class Others:
    """The contents of OpenFHE's registries before penstock uses it: a program may have contexts and keys already."""

    def __init__(self, fhe: ModuleType) -> None:
        context = fhe.CryptoContext
        self.has_contexts = bool(fhe.GetAllContexts())
        self._rotations, self._products = context.GetAllEvalAutomorphismKeys(), context.GetAllEvalMultKeys()

    def put_back(self, fhe: ModuleType) -> None:
        """Register their keys again, after all keys were cleared."""
        for tag, keys in self._rotations.items():
            fhe.CryptoContext.InsertEvalAutomorphismKey(keys, tag)
        for tag, keys in self._products.items():
            fhe.CryptoContext.InsertEvalMultKey(keys, tag)


class Held:
    """A thread's part of the turn, until it is given back or nobody refers to it any more."""

    def __init__(self, turn: Turn, owner: Mark) -> None:
        self._turn, self._owner, self._is_given = turn, owner, False

    def give(self) -> None:
        """Give it back. A second time nothing happens."""
        if not self._is_given:
            self._is_given = True
            self._turn.returned(self._owner)

    def __del__(self) -> None:
        self.give()


class Turn:
    """Who may use OpenFHE. The thread that has it may take it again; the others wait until all of it is back.

    A fork copies OpenFHE's random generator: parent and child would encrypt with the same numbers. So a child is
    refused if OpenFHE was loaded before the fork.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: Mark | None = None
        self._parts = self._blocks = 0
        self._is_inherited = False
        self._others: Others | None = None
        os.register_at_fork(after_in_child=self._forked)

    def _forked(self) -> None:
        self._changed, self._owner, self._parts = threading.Condition(), None, 0
        self._blocks = 0
        self._is_inherited = self._is_inherited or "openfhe" in sys.modules

    def check_process(self) -> None:
        """Raises: PenstockError: this process is a child that was forked with OpenFHE loaded."""
        if self._is_inherited:
            raise PenstockError(
                "this process was forked from one that had loaded OpenFHE: its random numbers would be the parent's "
                "again, and its threads are missing. Start the process anew (multiprocessing's 'spawn'), or fork "
                "before OpenFHE is used"
            )

    def take(self) -> Held:
        """Wait until no other thread has it. Raises: as `check_process` and `await_turn`."""
        self.check_process()
        here = this_thread()
        with self._changed:
            await_turn(self._changed, lambda: self._owner, "OpenFHE")
            if self._owner is not here:
                self._owner, self._parts, self._blocks = here, 0, 0
            self._parts += 1
        if self._contexts == 1:
            fhe = sys.modules.get("openfhe")
            self._others = None if fhe is None else Others(fhe)
        return Held(self, here)

    def returned(self, owner: Mark) -> None:
        """A part of `owner` is back."""
        with self._changed:
            if self._owner is not owner:
                return  # it ended, and another thread has the turn
            self._parts -= 1
            if not self._parts:
                self._owner = None
                self._changed.notify_all()

    @property
    def _contexts(self) -> int:
        return self._parts - self._blocks

    def forget_keys(self, fhe: ModuleType) -> None:
        """Clear OpenFHE's registries, except for contents from before the first of this thread's contexts.

        While another context of this thread has its part, they stay for it.
        """
        if self._contexts > 1:
            return
        fhe.CryptoContext.ClearEvalAutomorphismKeys()
        fhe.ClearEvalMultKeys()
        others, self._others = self._others, None
        if others is None or not others.has_contexts:
            fhe.ReleaseAllContexts()
        else:
            others.put_back(fhe)

    @contextmanager
    def kept(self) -> Iterator[Held]:
        """As `take`; given back if the block fails."""
        held = self.take()
        try:
            yield held
        except BaseException:
            held.give()
            raise

    @contextmanager
    def taken(self) -> Iterator[None]:
        """As `take`, for a block that makes its contexts inside."""
        with self.kept() as held:
            self._blocks += 1
            try:
                yield
            finally:
                self._blocks -= 1
        held.give()


TURN = Turn()

"""The run folder of `penstock run -o`."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from penstock.cli.options import FOLDER
from penstock.cli.output import progress_console
from penstock.errors import UsageError
from penstock.hall.keeping import config_of, keep, kept_numbers
from penstock.hall.running import Ran
from penstock.runs.folder import RunFolder

folder_option = click.option(
    "-o", "--folder", type=FOLDER, help="Keep the run in this folder: its numbers, trace, timeline and report."
)


class Keeper:
    """The folder of one run, checked before the run; nothing is written until it has run.

    Args:   words: the program, its set, size and reading; options: what else tells this run from others.
    Raises: DifferentRun: the folder holds another run, and not `force`; as `config_of`.
    """

    def __init__(
        self, path: Path, words: tuple[str, object, str | None, str], options: Mapping[str, Any], *, force: bool
    ) -> None:
        self._path, self._force = path, force
        self._config = config_of(*words, shlex.join(["penstock", *sys.argv[1:]]), options)
        self._opened: RunFolder | None = None
        if path.exists():
            self._opened = RunFolder.open_or_resume(path, self._config, force=force)

    def done_before(self, wanted: Mapping[str, Any], *, quiet: bool) -> dict[str, Any] | None:
        """The numbers of this run where its folder is complete; `None`: it has to run.

        Args:   wanted: option -> its file, which a run would write.
        Raises: UsageError: such a file is asked for; DamagedRun: the folder's numbers are gone.
        """
        if self._opened is None or not self._opened.complete:
            return None
        asked = [option for option, value in wanted.items() if value]
        if asked:
            raise UsageError(
                f"{self._path} holds this run already, complete, and {asked[0]} asks for what only a run writes: add "
                "--force to run again, or name another folder"
            )
        if not quiet:
            progress_console.print(
                f"{self._path} is complete, and its numbers are shown; --force runs it again", soft_wrap=True
            )
        return kept_numbers(self._opened)

    def keep(self, found: Ran) -> dict[str, Any]:
        """Store a run. Returns: the numbers to print."""
        folder = self._opened or RunFolder.open_or_resume(self._path, self._config, force=self._force)
        with folder:
            return keep(folder, found)

    def close(self) -> None:
        """Give the folder free, where nothing was kept."""
        if self._opened is not None:
            self._opened.close()


def in_folder(keeper: Keeper | None, found: Ran) -> dict[str, Any]:
    """The numbers to print of a run, which is kept where somebody asked for it."""
    return dict(found.numbers) if keeper is None else keeper.keep(found)


def keeper_of(
    path: Path | None, words: tuple[str, object, str | None, str], options: Mapping[str, Any], *, force: bool
) -> Keeper | None:
    """The folder that is asked for, if any."""
    return None if path is None else Keeper(path, words, options, force=force)

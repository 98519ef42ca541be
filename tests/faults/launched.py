"""`penstock` as its console script starts it; it may send itself a signal ahead of a change to the file system.

`FAULTS_WATCH` holds lines: the folder whose changes count, a file for their number, a file that says that the command
has begun, the change to be hit (0: none), the signal, and whether the whole process group gets it.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

CHANGES = frozenset(
    {"open", "os.rename", "os.link", "os.symlink", "os.remove", "os.mkdir", "os.rmdir", "os.truncate", "os.chmod"}
)
WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC
counted = 0


def _is_change(folder: str, event: str, args: tuple[Any, ...]) -> bool:
    path = args[0]
    if event == "open":
        flags = args[2] if len(args) > 2 and isinstance(args[2], int) else 0
        if not flags & WRITES:
            return False
    if isinstance(path, int):
        return False
    name = os.fsdecode(path)
    # A name of a folder that is open, as where a tree is removed, is taken as one of ours.
    relative_to_open = event != "open" and isinstance(args[-1], int) and args[-1] != -1
    return relative_to_open or str(Path(name).absolute()).startswith(folder)


def watch(folder: str, at: int, number: int, group: bool) -> None:
    """Count changes to `folder` by this process, and send the signal ahead of number `at`."""
    own = os.getpid()

    def hook(event: str, args: tuple[Any, ...]) -> None:
        global counted
        if event not in CHANGES or os.getpid() != own or not _is_change(folder, event, args):
            return
        counted += 1
        if counted == at:
            if group:
                os.killpg(own, number)
            else:
                os.kill(own, number)

    sys.addaudithook(hook)


def started() -> int:
    """The command, watched where that is asked for."""
    folder, tally, begun, at, number, group = os.environ.pop("FAULTS_WATCH").split("\n")
    from penstock.front.cli.main import main

    Path(begun).touch()
    watch(folder, int(at), int(number), group == "True")
    code = main()
    changes = counted
    Path(tally).write_text(str(changes))
    return code


if __name__ == "__main__":
    del sys.path[0]
    sys.exit(started())

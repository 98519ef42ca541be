"""A function in a child that a fork makes."""

from __future__ import annotations

import os
import pickle
import select
import signal
import warnings
from collections.abc import Callable
from typing import Any

LONGEST_S = 60.0


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returns in a child of this process; its error is raised here. A child that hangs is a failure."""
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of Python 3.12, where this process has threads
        child = os.fork()
    if not child:
        try:
            found = True, work()
        except BaseException as error:
            found = False, error
        try:
            os.write(write, pickle.dumps(found))
        finally:
            os._exit(0)
    os.close(write)
    try:
        if not select.select([read], [], [], LONGEST_S)[0]:
            raise AssertionError(f"the child did not answer within {LONGEST_S:g} s")
        with os.fdopen(read, "rb", closefd=False) as pipe:
            done, result = pickle.loads(pipe.read())
    finally:
        os.close(read)
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    if done:
        return result
    raise result

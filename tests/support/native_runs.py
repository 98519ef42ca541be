"""One recorded run of a workload on the native evaluator."""

from __future__ import annotations

from typing import Any

from penstock.runtime.native.prepared import ClientPlace, NativeRun
from penstock.runtime.native.reading import prepared_native


def record_native(
    name: str, params: Any = None, size: str | None = None, seed: int = 0, data: object = None, **how: Any
) -> NativeRun:
    """`how`: the other arguments of `prepared_native`; the client has a process of its own unless stated."""
    with prepared_native(name, params, size, seed, data, **{"client": ClientPlace.PROCESS, **how}) as run:
        return run()

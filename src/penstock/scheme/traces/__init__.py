"""The trace format: a program, operation by operation."""

from pathlib import Path


def is_trace_file(text: str) -> bool:
    """Whether a user who names a workload or a trace means a file of a trace; Python files and packages are
    workloads.

    >>> [is_trace_file(text) for text in ("resnet20", "mine.parquet", "runs/mine", "mine/program.py", "mine/model.pkg")]
    [False, True, True, False, False]
    """
    path = Path(text)
    return path.suffix not in (".py", ".pkg") and (path.suffix == ".parquet" or "/" in text or path.is_file())

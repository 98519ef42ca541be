"""The command line in a process of its own."""

from __future__ import annotations

import sys

_WITHOUT_PANDAS = """
import sys
from importlib.abc import MetaPathFinder
class Without(MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == "pandas":
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Without())
"""
COMMAND = [
    sys.executable,
    "-c",
    f"{_WITHOUT_PANDAS}from penstock.cli.main import main; sys.exit(main())",
]
"""As where pandas is not installed. Only `to_pandas()` uses it, and pyarrow imports it with its first array."""

"""The command line in a process of its own."""

from __future__ import annotations

import sys

COMMAND = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())"]

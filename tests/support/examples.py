"""How many random examples a property gets: the profile of the tier says it (`conftest.py`)."""

from __future__ import annotations

import os
from typing import Any

from hypothesis import settings

CORE, WHOLE = 25, 200
ASKED = os.environ.get("PENSTOCK_EXAMPLES")
"""What `make fuzz` asks for, of every property."""


def at_most(count: int, **options: Any) -> settings:
    """Settings of a property whose examples take long."""
    return settings(max_examples=int(ASKED) if ASKED else min(count, settings.default.max_examples), **options)

"""penstock: run, record, price and play fully homomorphic encryption where its keys do not fit in fast memory."""

from __future__ import annotations

__version__ = "0.1.0"

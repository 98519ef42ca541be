"""The extra cost of an operation in a program over a loop: its data and code are not in the caches at the call.

A machine is fitted to primitives that are called again and again: operands, keys, and the library's code and tables are
where the last call left them. In a program other operations ran meanwhile. The difference is fitted to primitives that
were timed both ways, warm and cold:

    cold - warm = call + bytes of operands, plaintexts and keys / operands

Before each cold call the caches are flushed and the same operation runs on other operands: a call of a program follows
another call of the library. Right after the flush a call takes longer, but so it does after any pause of that length.
Errors are relative to the whole call, so that short operations without transforms decide.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.scheme.machines.figure import Figure
from penstock.scheme.work.kernel_work import KernelWork


@dataclass(frozen=True, slots=True, kw_only=True)
class ColdModel:
    """What cold caches cost."""

    call: Figure | None = None
    """Seconds a call of the library, whatever it reads."""
    operands: Figure | None = None
    """Bytes a second at which operands come in."""
    log_sd: float = 0.0
    """Standard deviation of the logarithm of the joint extra cost of a program's operations."""

    def seconds(self, calls: float, num_bytes: float) -> float:
        """Of so many calls of the library, whose operations read so many bytes of operands."""
        of_calls = calls * self.call.value if self.call is not None else 0.0
        return of_calls + (num_bytes / self.operands.value if self.operands is not None else 0.0)


def operand_bytes(work: KernelWork) -> int:
    """Bytes that an operation reads before it makes any itself."""
    return work.ciphertext_read_bytes + work.plaintext_bytes + work.key_bytes

"""The program protocol, the readings that need no library, circuits, placement and noise."""

from penstock.base.system.lazy import at_first_use

__getattr__, __dir__ = at_first_use(__name__, {"penstock.program.evaluator.protocol": "Evaluator"})

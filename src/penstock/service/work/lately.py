"""Who has used much of something of late, while others were here."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field

_MOST_NAMES = 1000


@dataclass(slots=True, kw_only=True)
class Lately:
    """Seconds that each name has used, which count half after `half_s`. Not thread safe.

    >>> lately = Lately(half_s=2.0, here_s=1.0, lead_s=0.1)
    >>> lately.used("a", 1.0, now=0.0), lately.used("b", 0.1, now=0.0)
    (None, None)
    >>> lately.is_ahead("a", now=0.5), lately.is_ahead("b", now=0.5), lately.is_ahead("a", now=5.0)
    (True, False, False)
    """

    half_s: float
    here_s: float
    """A name is here for so long after its last use."""
    lead_s: float
    """More than twice another's seconds and this is ahead."""
    _had: OrderedDict[str, tuple[float, float]] = field(default_factory=OrderedDict)
    """Name -> seconds, and when they were counted. The longest unused first."""

    def used(self, name: str, seconds: float, now: float) -> None:
        """It has used so much more, or is here."""
        self._had[name] = self._of(name, now) + seconds, now
        self._had.move_to_end(name)
        if len(self._had) > _MOST_NAMES:
            self._had.popitem(last=False)

    def _of(self, name: str, now: float) -> float:
        seconds, at_s = self._had.get(name, (0.0, now))
        return float(seconds * 0.5 ** ((now - at_s) / self.half_s))

    def is_ahead(self, name: str, now: float) -> bool:
        """Whether it has used much more than another one that is here."""
        least = None
        for other in reversed(self._had):
            if now - self._had[other][1] > self.here_s:
                break
            if other != name:
                least = min(self._of(other, now), self._of(other, now) if least is None else least)
        return least is not None and self._of(name, now) > 2 * least + self.lead_s

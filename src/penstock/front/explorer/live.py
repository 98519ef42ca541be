"""A running service, as its operator sees it. The token stays in this process: a browser gets figures only."""

from __future__ import annotations

import threading
import time
from pathlib import Path

from penstock.base.system.web import ServiceError, Token, Web
from penstock.base.types import Row

REFRESH_S = 0.8
"""An answer of the service serves every question of that long: many windows ask it once."""
MOST_WAITING = 50
"""Waiting jobs that are shown."""
_TIMEOUT_S = 5.0


class Live:
    """Thread safe.

    Args:   url: of the administration's listener. token: an operator's. ca: as of `Web`.
    Raises: UsageError: not a URL of a service. FileError: no such file of certificates.
    """

    def __init__(self, url: str, token: Token, *, ca: Path | None = None) -> None:
        self.url = url.rstrip("/")
        self._web = Web(url, token, ca=ca, timeout_s=_TIMEOUT_S, patience_s=0.0)
        self._lock = threading.Lock()
        self._known: Row = {}
        self._at_s = float("-inf")

    def look(self) -> Row:
        """`service`, and either `work` (as GET /v1/work) or `gone`, the reason why there is none."""
        with self._lock:
            if time.monotonic() - self._at_s >= REFRESH_S:
                self._known, self._at_s = self._asked(), time.monotonic()
            return self._known

    def _asked(self) -> Row:
        try:
            work = self._web.once("GET", f"/v1/work?most={MOST_WAITING}").content
        except ServiceError as error:
            return {"service": self.url, "gone": str(error)}
        return {"service": self.url, "work": work}

    def close(self) -> None:
        """End the connection."""
        with self._lock:
            self._web.close()

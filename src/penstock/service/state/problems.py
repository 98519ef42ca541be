"""Refusals of the service: each has a status, the rule and the remedy (RFC 9457, `application/problem+json`)."""

from __future__ import annotations

import errno
import re

from penstock.base.system.files import FileError
from penstock.base.types import Row, RowView
from penstock.errors import (
    BudgetTooSmall,
    KeyDamaged,
    KeyMissing,
    KeyRefused,
    PenstockError,
    StoreUnusable,
    UsageError,
)

MEDIA_TYPE = "application/problem+json"
_TITLES = {
    400: "The request is wrong",
    401: "No valid token",
    403: "The token does not allow this",
    404: "There is no such thing",
    405: "Not a method of this address",
    408: "The request arrived too slowly",
    409: "It contradicts what is there",
    411: "The length is missing",
    413: "The body is too large",
    414: "The address is too long",
    422: "The content breaks a rule",
    424: "Keys are lacking",
    429: "Too much at once",
    431: "The headers are too large",
    500: "The server failed",
    503: "The server cannot do this now",
    507: "The quota or the disk is full",
}


_ROUTES = r"(?!v1\b|openapi\.json|metrics\b)"
_OF_SERVER = re.compile(
    rf"""(?P<quote>['"`])/{_ROUTES}[^'"`]*(?P=quote)"""  # a path in quotes
    r"""|\b[a-z][a-z0-9+.-]*://[^\s'"]+"""  # an address of a database, a store
    rf"""|(?<![\w.…/])/{_ROUTES}[^\s'"`,;:()\[\]{{}}<>]+(?: [^\s'"`,;:()/]+/[^\s'"`,;:()]*)*"""  # a path, with spaces
    r"|\b\d{1,3}(?:\.\d{1,3}){3}(?::\d+)?\b|\[[0-9a-fA-F:]*:[0-9a-fA-F:]*\](?::\d+)?"  # an IP address
    r"|\b(?:localhost|[A-Za-z0-9-]+(?:\.[A-Za-z0-9-]+)+):\d{2,5}\b"  # a host and its port
    r"|(?<=\bpid[ =])\d+|(?<=\bpid )\d+|(?<=\bprocess )\d+|\b0x[0-9a-f]{6,}\b",  # of a process
    re.IGNORECASE,
)
_HIDDEN: dict[str, re.Pattern[str]] = {}


def hide(*words: str) -> None:
    """Let no tenant read these words of the server: its folder, its name."""
    for word in filter(None, words):
        _HIDDEN[word] = re.compile(rf"(?<![\w-]){re.escape(word)}(?![\w-])")


def told(text: str) -> str:
    """A text as a tenant reads it: without paths, addresses, names and process numbers of the server.

    >>> told("cannot read /srv/p/tenants/a/blobs/12: it does not exist; GET /v1/keys lists keys")
    'cannot read …: it does not exist; GET /v1/keys lists keys'
    """
    for word in sorted(_HIDDEN, key=len, reverse=True):
        text = _HIDDEN[word].sub("/…" if word.startswith("/") else "…", text)
    return _OF_SERVER.sub("…", text)


class Problem(PenstockError):
    """A refusal. `more`: further members of the answer. `retry_after_s`: when to come again.

    Its text is the operator's; `body` is what a tenant reads.
    """

    def __init__(
        self,
        status: int,
        detail: str,
        *,
        remedy: str,
        rule: str = "",
        kind: str = "",
        retry_after_s: float | None = None,
        more: RowView | None = None,
    ) -> None:
        self.status, self.detail, self.remedy, self.rule = status, detail, remedy, rule
        self.kind, self.retry_after_s, self.more = kind, retry_after_s, dict(more or {})
        super().__init__(f"{detail}; {remedy}")

    @property
    def reason(self) -> str:
        """One word of a closed set: the last part of its type."""
        return self.kind or str(self.status)

    def body(self) -> Row:
        """The members of the answer."""
        fields = {
            "type": f"urn:penstock:{self.reason}",
            "title": _TITLES.get(self.status, "The request is refused"),
            "status": self.status,
            "detail": self.detail,
            "rule": self.rule,
            "remedy": self.remedy,
        }
        texts = {name: told(value) if isinstance(value, str) else value for name, value in fields.items()}
        return {**self.more, **{name: value for name, value in texts.items() if value != ""}}

    def headers(self) -> dict[str, str]:
        """The headers that the status asks for."""
        added = {}
        if self.retry_after_s is not None:
            added["retry-after"] = str(max(1, round(self.retry_after_s)))
        if self.status == 401:
            added["www-authenticate"] = 'Bearer realm="penstock"'
        return added


def no_such(what: str, name: str, remedy: str) -> Problem:
    """404 for something that this tenant does not have. It tells nothing of other tenants."""
    return Problem(404, f"this tenant has no {what} '{name[:100]}'", remedy=remedy, kind=f"no-{what.split()[0]}")


def being_removed(tenant: str) -> Problem:
    """409 until nothing of a tenant is left."""
    return Problem(
        409, f"tenant '{tenant}' is being removed", remedy="come again when that has ended, or take another name",
        kind="removing", retry_after_s=5,
    )  # fmt: skip


def too_many(what: str, most: int, remedy: str) -> Problem:
    """507 for rows, which cost as bytes do."""
    detail = f"this tenant has {most} {what}, the most that one may have"
    return Problem(507, detail, remedy=f"{remedy}, or ask the operator for more", kind="quota")


def problem_of(error: Exception) -> Problem:
    """The refusal for an error of penstock. Messages that may hold paths of the server are not repeated."""
    if isinstance(error, Problem):
        return error
    if isinstance(error, KeyRefused | KeyDamaged | KeyMissing | BudgetTooSmall):
        return Problem(422, str(error), remedy="send keys of this tenant's pair and set", kind="key-refused")
    if isinstance(error, FileError | StoreUnusable | OSError):
        number = getattr(error, "errno", None)
        if number in (errno.ENOSPC, errno.EDQUOT) or "disk is full" in str(error) or "No space left" in str(error):
            return Problem(
                507, "the server's disk is full", remedy="wait until the operator freed some space, then send it again",
                kind="disk-full", retry_after_s=30,
            )  # fmt: skip
        return Problem(503, "the server's storage refused", remedy="come again later", kind="storage", retry_after_s=5)
    if isinstance(error, UsageError):
        return Problem(422, str(error), remedy="correct the content")
    return Problem(500, "the request failed in the server", remedy="report it with its request identity", kind="failed")

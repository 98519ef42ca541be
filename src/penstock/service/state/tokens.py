"""Tokens: 256 random bits that name a tenant and scopes; the state keeps their digests only."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from dataclasses import dataclass

SCOPES = ("deploy", "keys", "run", "read")
"""Of tenants. `admin` is the only scope of operators, and the only listener that takes it is the administration's."""
ADMIN = "admin"
_FORM = re.compile(r"pst_([0-9a-f]{16})_([0-9a-f]{64})", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who sends a request."""

    tenant: str
    """Empty: an operator."""
    token: str
    """The identity of the token. It need not be secret."""
    scopes: frozenset[str]
    era: int = 0
    """How often the tenant had been removed when the request came."""


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token when it is made: `text` is shown once, and `digest` is kept."""

    identity: str
    text: str
    digest: str


def new_token() -> NewToken:
    """A fresh token."""
    identity, secret = secrets.token_hex(8), secrets.token_hex(32)
    return NewToken(identity, f"pst_{identity}_{secret}", digest_of(secret))


def digest_of(secret: str) -> str:
    """SHA-256 of the secret part. It has 256 random bits, so no slow hash is needed."""
    return hashlib.sha256(secret.encode()).hexdigest()


def parse_token(text: str) -> tuple[str, str] | None:
    """Identity and secret of a token; `None`: it does not have the form of one."""
    match = _FORM.fullmatch(text)
    return None if match is None else (match[1], match[2])


def is_right(secret: str, digest: str) -> bool:
    """Whether a secret has this digest; compared in constant time."""
    return hmac.compare_digest(digest_of(secret), digest)

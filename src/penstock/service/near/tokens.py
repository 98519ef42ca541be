"""Tokens of a key node: each admits one tenant with one key pair, and is made of a secret that only the node keeps."""

from __future__ import annotations

import hashlib
import hmac
import os
from pathlib import Path

from penstock.base.system.files import os_errors
from penstock.errors import UsageError

MIN_SECRET_BYTES = 16
SECRET_VARIABLE = "PENSTOCK_NODE_SECRET"


def token_of(secret: str, tenant: str, digest: str, key_tag: str) -> str:
    """HMAC-SHA256 of tenant, digest of the parameters and tag of the key pair, as 64 hexadecimal digits.

    Each part follows its length, so no two key pairs share a token.
    """
    parts = [part.encode(errors="surrogatepass") for part in (tenant, digest, key_tag)]
    message = b"".join(len(part).to_bytes(8, "little") + part for part in parts)
    return hmac.new(secret.encode(), message, hashlib.sha256).hexdigest()


def admits(secret: str, token: str, *, tenant: str, digest: str, key_tag: str) -> bool:
    """Whether `token` belongs to this tenant and key pair; compared in constant time."""
    expected = token_of(secret, tenant, digest, key_tag)
    return hmac.compare_digest(token.encode(errors="surrogatepass"), expected.encode())


def checked_secret(secret: str) -> str:
    """The secret.

    Raises: UsageError: it is short enough to guess, or not a text.
    """
    try:
        length = len(secret.encode())
    except UnicodeEncodeError as error:
        raise UsageError(f"the node's secret is not a text; {_MAKE_ONE}") from error
    if length < MIN_SECRET_BYTES:
        raise UsageError(f"a node secret of {length} bytes: it has at least {MIN_SECRET_BYTES}; {_MAKE_ONE}")
    return secret


def read_secret(path: Path | None) -> str:
    """The node's secret, from a file that only its owner can read, or from the environment.

    Raises: UsageError: there is none, it is short or no text, or the file is open to others. FileError: it cannot be
            read.
    """
    if path is None:
        secret = os.environ.get(SECRET_VARIABLE, "")
        if not secret:
            raise UsageError(f"the node has no secret: name a file with --secret-file, or set {SECRET_VARIABLE}")
        return checked_secret(secret)
    with os_errors(path, "read"):
        if path.stat().st_mode & 0o077:
            raise UsageError(f"{path}: others may read this secret; take that away with 'chmod 600 {path}'")
        try:
            return checked_secret(path.read_text(encoding="utf-8").strip())
        except UnicodeDecodeError as error:
            raise UsageError(f"{path}: a secret is text; {_MAKE_ONE}") from error


_MAKE_ONE = "make one with 'openssl rand -hex 16'"

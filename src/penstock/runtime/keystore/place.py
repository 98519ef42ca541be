"""The place of a store: a folder of this machine, or a bucket of an object store with an index on this machine."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from penstock import _engine
from penstock.base.system import remedy
from penstock.errors import CapabilityMissing, UsageError

S3 = "s3://"
ENDPOINTS = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
"""The variables that name a server other than Amazon's, the first that is set counts."""


class StorePlace(NamedTuple):
    """A folder, and the URL of the segments where they are not in it."""

    folder: Path
    objects: str | None

    @classmethod
    def named(cls, name: str, environ: Mapping[str, str] = os.environ) -> StorePlace:
        """The store that a user calls `name`: a folder, or `s3://bucket/prefix`.

        The index of a bucket copies the segments' headers and is made again if it is missing. It lies in the user's
        cache (`XDG_CACHE_HOME`), one for each bucket, prefix and endpoint.

        Raises: UsageError: another URL, or one without a bucket.
        """
        if "://" not in name:
            return cls(Path(name), None)
        bucket, _, prefix = name.removeprefix(S3).partition("/")
        if not name.startswith(S3) or not bucket or "?" in name or "#" in name:
            raise UsageError(f"'{name}' is not a key store: a folder, or {S3}BUCKET/PREFIX")
        url = f"{S3}{bucket}/{prefix.strip('/')}".rstrip("/")
        cache = Path(environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
        whole = f"{endpoint(environ) or ''} {url}"
        return cls(cache / "penstock" / "keys" / hashlib.sha256(whole.encode()).hexdigest()[:32], url)


def local_folder(name: str, where: str) -> Path:
    """The folder of a store with client keys next to it.

    Raises: UsageError, which begins with `where`: an object store, or no name.
    """
    if "://" in name or not name:
        raise UsageError(f"{where} '{name}': name a folder of this machine: the client's keys lie next to it")
    return Path(name)


def endpoint(environ: Mapping[str, str] = os.environ) -> str | None:
    """The server of the object store, where it is named."""
    return next((environ[name] for name in ENDPOINTS if environ.get(name)), None)


def object_settings(environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """The settings of the Rust store: the `AWS_*` variables in lower case, and one endpoint.

    Raises: CapabilityMissing: this build has no object stores.
    """
    if not _engine.KeyStore.OBJECT_STORES:
        raise CapabilityMissing(
            "this build has no object stores (TLS and HTTP take minutes to compile); "
            f"build them in: {remedy.object_stores()}"
        )
    settings = {
        name.lower(): value for name, value in environ.items() if name.startswith("AWS_") and name not in ENDPOINTS
    }
    server = endpoint(environ)
    return settings if server is None else {**settings, "aws_endpoint_url": server}

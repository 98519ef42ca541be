"""The secret keys of the client's steps, sealed where `PENSTOCK_PASSPHRASE_FILE` names a passphrase.

No step of the server imports it.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from penstock.errors import PenstockError
from penstock.runtime.client.passphrase import passphrase_of
from penstock.runtime.similarity.owner import Owner


def made_owner(folder: Path, *args: Any, **options: Any) -> Owner:
    """New secret keys, in a new folder. `args`, `options`: of `Owner.generate`."""
    try:
        passphrase = passphrase_of()
        owner = Owner.generate(*args, **options)
        owner.save(folder, passphrase=passphrase)
    except PenstockError as error:
        sys.exit(f"penstock: {error}")
    return owner


def opened_owner(folder: Path, *args: Any, **options: Any) -> Owner:
    """The secret keys in a folder. `args`, `options`: of `Owner.load`."""
    try:
        return Owner.load(folder, *args, **options, passphrase=passphrase_of())
    except PenstockError as error:
        sys.exit(f"penstock: {error}")

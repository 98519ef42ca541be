"""A key pair for a verb: the client's library, the pair's options, and how it is opened."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.front.cli.options import FILE
from penstock.front.cli.output import say
from penstock.runtime.keystore.pairs import pair_in
from penstock.runtime.native.client import LIBRARIES
from penstock.scheme.params.ckks import CkksParameters

if TYPE_CHECKING:
    from penstock.runtime.client import KeyPair

client_library_option = click.option(
    "--client-library",
    type=click.Choice(list(LIBRARIES)),
    help="Who makes keys, encrypts and decrypts. Default: the library of the kept keys, else the first installed.",
)
passphrase_option = click.option(
    "--passphrase-file",
    type=FILE,
    envvar="PENSTOCK_PASSPHRASE_FILE",
    show_envvar=True,
    help="File whose only line is the passphrase that seals the secret key. A passphrase is never an argument.",
)


def passphrase_from(file: Path | None) -> bytes | None:
    """The passphrase in a file that is its owner's alone."""
    from penstock.runtime.client.passphrase import passphrase_in

    return None if file is None else passphrase_in(file)


def open_pair(folder: Path, params: CkksParameters, passphrase_file: Path | None, threads: int | None) -> KeyPair:
    """The pair in a folder, of penstock's client or of OpenFHE."""
    from penstock.runtime.client import KeyPair

    kept = pair_in(folder)
    if kept is not None and kept.library == "openfhe":
        return KeyPair.from_openfhe(folder, params, threads=threads)
    return KeyPair.load(folder, params, passphrase=passphrase_from(passphrase_file), threads=threads)


def warn(message: str) -> None:
    """A line on stderr."""
    say(f"warning: {message}")

"""The option that names the library with which a client makes keys, encrypts and decrypts."""

from __future__ import annotations

import click

from penstock.runtime.native.client import LIBRARIES

client_library_option = click.option(
    "--client-library",
    type=click.Choice(list(LIBRARIES)),
    help="Who makes keys, encrypts and decrypts. Default: the library of the kept keys, else the first installed.",
)

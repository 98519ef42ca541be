"""`penstock client uploaded|remove`: a tenant's keys and data at a service, listed and removed."""

from __future__ import annotations

import click

from penstock.base.units import format_bytes
from penstock.errors import UsageError
from penstock.front.cli.options import Values
from penstock.front.cli.output import emit, output_options
from penstock.front.cli.service_options import access_options
from penstock.front.cli.verbs.client.service import opened

KEYS, EVERYTHING = "keys", "everything"


@click.command()
@access_options
@output_options
def uploaded(access: Values, quiet: bool, output_format: str) -> None:
    """List the evaluation keys that a service has of you. The token needs the scope `read`.

    \b
    Example:
      penstock client uploaded --service https://fhe.example.org --token-file token
    """
    with opened(**access) as service:
        emit(service.keys(), output_format)


@click.command()
@click.argument("what", type=click.Choice([KEYS, EVERYTHING]))
@click.option("--yes", is_flag=True, help="Remove it. Without this, nothing is removed.")
@access_options
@output_options
def remove(what: str, yes: bool, access: Values, quiet: bool, output_format: str) -> None:
    """Remove your evaluation keys, or everything, from a service. The token needs the scope `keys`.

    `everything` is keys, programs, ciphertexts, results and jobs; jobs that wait or run are cancelled. The answer says
    what a backup of the service may still hold. Files on this machine stay, and so do your tokens.

    It never asks: without --yes it says what it would remove, removes nothing, and ends with code 2.

    \b
    Examples:
      penstock client remove keys --yes --service https://fhe.example.org --token-file token
      penstock client remove everything --yes --service https://fhe.example.org --token-file token
    """
    with opened(**access) as service:
        if not yes:
            keys = service.keys()
            held = f"{len(keys)} keys of {format_bytes(sum(int(key['bytes']) for key in keys))}"
            also = "" if what == KEYS else ", and your programs, ciphertexts, results and jobs"
            raise UsageError(f"this would remove {held} from {access['service']}{also}; add --yes to remove them")
        if what == KEYS:
            emit({"removed": {"keys": service.remove_keys()}}, output_format)
        else:
            emit(service.remove_everything(), output_format)

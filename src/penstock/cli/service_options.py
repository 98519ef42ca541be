"""Options of verbs that ask a service: its URL, the token, certificates."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])


def service_option(*, required: bool = True) -> Callable[[F], F]:
    """The URL of the service."""
    return click.option(
        "--service",
        metavar="URL",
        envvar="PENSTOCK_SERVICE",
        show_envvar=True,
        required=required,
        help="Service to ask: https://host:port; http:// for this machine only.",
    )


token_option = click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the tenant's token, readable by its owner only. [default: $PENSTOCK_TOKEN]",
)
ca_option = click.option(
    "--ca",
    type=click.Path(path_type=Path, dir_okay=False),
    envvar="PENSTOCK_CA",
    show_envvar=True,
    help="Certificates to trust instead of the system's (PEM).",
)
patience_option = click.option(
    "--patience",
    metavar="TIME",
    default="5 min",
    help="Longest wait for a service that is down, or refuses for now.",
)
insecure_option = click.option(
    "--allow-insecure", is_flag=True, help="Take a program whose parameters state no level of security: test data only."
)


def access_options(command: F) -> F:
    """The way to a service: URL, token, certificates, patience."""
    for option in (patience_option, ca_option, token_option, service_option()):
        command = option(command)
    return command

"""Options of verbs that ask a service: its URL, the token, certificates."""

from __future__ import annotations

import click

from penstock.front.cli.options import FILE, Decorator, together


def service_option(*, required: bool = True) -> Decorator:
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
    type=FILE,
    help="File with the tenant's token, readable by its owner only. [default: $PENSTOCK_TOKEN]",
)
ca_option = click.option(
    "--ca",
    type=FILE,
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


ACCESS = (service_option(), token_option, ca_option, patience_option)
access_options = together("access", *ACCESS)
"""The way to a service: URL, token, certificates, patience. The command gets `access`."""

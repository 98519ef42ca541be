"""`penstock keys serve`: a storage node that owns keys and executes the operations that read them."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

import click

from penstock.cli.options import quiet_option
from penstock.cli.output import emit, format_option, progress_console
from penstock.params import catalogue
from penstock.units import parse_bytes, parse_rate


@click.command("serve")
@click.option(
    "--store",
    "folder",
    type=click.Path(path_type=Path, file_okay=False),
    default=Path("keys"),
    envvar="PENSTOCK_KEYS",
    show_envvar=True,
    help="Folder of the store.",
)
@click.option("--params", metavar="SET", required=True, help="Parameter set that is served ('penstock params list').")
@click.option("--listen", "address", metavar="ADDRESS", required=True, help="unix:PATH, or 127.0.0.1:PORT (0: any).")
@click.option(
    "--token-file",
    type=click.Path(path_type=Path, dir_okay=False),
    help="File with the token that clients must show, readable by its owner only. [default: $PENSTOCK_NODE_TOKEN]",
)
@click.option("--budget", metavar="SIZE", default="1 GiB", help="Bytes of keys in memory.")
@click.option("--threads", type=click.IntRange(min=1), help="Threads of one operation. Default: all cores.")
@click.option("--max-clients", type=click.IntRange(min=1), default=8, help="Connections at once.")
@click.option("--link", metavar="RATE", help="Send no faster than this ('10 Gb/s'): a slower network, for measuring.")
@quiet_option
@format_option
def serve(
    folder: Path,
    params: str,
    address: str,
    token_file: Path | None,
    budget: str,
    threads: int | None,
    max_clients: int,
    link: str | None,
    quiet: bool,
    output_format: str,
) -> None:
    """Serve the keys of a store: clients send ciphertexts, rotations and relinearizations run here.

    Frames are not encrypted, so the node listens on this machine only. Ctrl-C ends it and prints what it did.

    \b
    Examples:
      PENSTOCK_NODE_TOKEN=$(openssl rand -hex 16) penstock keys serve --params openfhe-bench --listen unix:node.sock
      penstock keys serve --params openfhe-bench --listen 127.0.0.1:7000 --token-file token --link "10 Gb/s"
    """
    from penstock.keystore import KeyStore, require_store
    from penstock.service.near.node import KeyNode, NodeOptions, read_token

    require_store(folder)
    options = NodeOptions(
        budget_bytes=parse_bytes(budget, "--budget"),
        threads=threads or len(os.sched_getaffinity(0)),
        max_clients=max_clients,
        bytes_per_s=None if link is None else parse_rate(link, "--link"),
    )
    with KeyNode(catalogue.get(params), KeyStore(folder), read_token(token_file), address, options) as node:
        if not quiet:
            progress_console.print(f"serving '{params}' from {folder} at {node.address}", highlight=False)
        with suppress(KeyboardInterrupt):
            node.serve()
        done = node.served
    emit(
        {
            "address": node.address,
            "clients": done.clients,
            "refused": done.refused,
            "operations": done.operations,
            "pulls": done.pulls,
            "failures": done.failures,
        },
        output_format,
    )

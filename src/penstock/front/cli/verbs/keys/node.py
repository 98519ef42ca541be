"""`penstock keys node`: a storage node that owns keys and executes the operations that read them.

`penstock keys token` prints the token that one tenant shows to the node.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import click

from penstock.base.system.host import available_cores
from penstock.base.units import parse_bytes, parse_rate
from penstock.front.cli.options import FILE, FOLDER, THREADS
from penstock.front.cli.output import emit, format_option, output_options, say
from penstock.front.cli.verbs.keys.store import keys_of_pair
from penstock.scheme.params import catalogue

store_option = click.option(
    "--store",
    "folder",
    type=FOLDER,
    default=Path("keys"),
    envvar="PENSTOCK_KEYS",
    show_envvar=True,
    help="Folder of the store.",
)


secret_option = click.option(
    "--secret-file",
    type=FILE,
    help="File with the node's secret, readable by its owner only. [default: $PENSTOCK_NODE_SECRET]",
)
"""The secret itself is never an argument, since others see arguments in the list of processes."""


@click.command("node")
@store_option
@click.option("--params", metavar="SET", required=True, help="Parameter set that is served ('penstock params list').")
@click.option("--listen", "address", metavar="ADDRESS", required=True, help="unix:PATH, or 127.0.0.1:PORT (0: any).")
@secret_option
@click.option("--budget", metavar="SIZE", default="1 GiB", help="Bytes of keys in memory.")
@click.option("--threads", type=THREADS, help="Threads of one operation. Default: all cores.")
@click.option("--max-clients", type=click.IntRange(min=1), default=8, help="Clients at once.")
@click.option(
    "--max-per-tenant", type=click.IntRange(min=1), help="Clients of one tenant at once. Default: half of all."
)
@click.option("--link", metavar="RATE", help="Send no faster than this ('10 Gb/s'): a slower network, for measuring.")
@output_options
def node(folder: Path, params: str, address: str, quiet: bool, output_format: str, **asked: Any) -> None:
    """Serve the keys of a store: clients send ciphertexts, rotations and relinearizations run here.

    Frames are not encrypted, so the node listens on this machine only. Ctrl-C ends it and prints a summary.

    A client shows the token of its tenant and key pair ('penstock keys token').

    \b
    Examples:
      PENSTOCK_NODE_SECRET=$(cat secret) penstock keys node --params openfhe-bench --listen unix:node.sock
      penstock keys node --params openfhe-bench --listen 127.0.0.1:7000 --secret-file secret --link "10 Gb/s"
    """
    from penstock.runtime.keystore import KeyStore, require_store
    from penstock.service.near.node import KeyNode, NodeOptions
    from penstock.service.near.tokens import read_secret

    require_store(folder)
    options = NodeOptions(
        budget_bytes=parse_bytes(asked["budget"], "--budget"),
        threads=asked["threads"] or available_cores(),
        bytes_per_s=None if asked["link"] is None else parse_rate(asked["link"], "--link"),
        **{name: asked[name] for name in ("max_clients", "max_per_tenant")},
    )
    with KeyNode(catalogue.get(params), KeyStore(folder), read_secret(asked["secret_file"]), address, options) as there:
        say(f"serving '{params}' from {folder} at {there.address}", quiet=quiet)
        with suppress(KeyboardInterrupt):
            there.serve()
        done = there.served
    counts = ("clients", "refused", "operations", "pulls", "failures")
    emit({"address": there.address, **{name: getattr(done, name) for name in counts}}, output_format)


@click.command("token")
@store_option
@click.option("--tenant", metavar="NAME", required=True, help="Whose token it is.")
@click.option("--params", metavar="SET", required=True, help="Parameter set of the keys ('penstock params list').")
@click.option("--key-tag", metavar="TAG", help="The key pair, where the tenant has keys of several.")
@secret_option
@format_option
def token(
    folder: Path, tenant: str, params: str, key_tag: str | None, secret_file: Path | None, output_format: str
) -> None:
    """Print the token that one tenant shows a node, for one key pair of the store.

    It is made of the node's secret, the tenant, the parameters and the key pair: it admits nobody else, and to no other
    keys. Another secret of the node ends all tokens.

    \b
    Example:
      penstock keys token --tenant alice --params openfhe-bench --secret-file secret
    """
    from penstock.runtime.keystore import KeyStore, parameter_digest, require_store
    from penstock.service.near.tokens import read_secret, token_of

    require_store(folder)
    secret, chosen = read_secret(secret_file), catalogue.get(params)
    keys, digest = keys_of_pair(KeyStore(folder), tenant, chosen, key_tag), parameter_digest(chosen)
    tag = next(iter(keys.values())).secret_tag
    row = {"tenant": tenant, "digest": digest, "key_tag": tag, "token": token_of(secret, tenant, digest, tag)}
    emit(row, output_format, table=lambda console: console.print(row["token"], highlight=False, soft_wrap=True))

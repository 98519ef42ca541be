"""`penstock serve`: encrypted programs as a service for many tenants."""

from __future__ import annotations

import os
from contextlib import nullcontext
from pathlib import Path

import click

from penstock.errors import CapabilityMissing, UsageError
from penstock.front.cli.options import FILE, FOLDER, is_given


@click.command("serve")
@click.option("--config", "config_path", type=FILE, help="A serve.toml (docs/guides/serve.md).")
@click.option(
    "--folder",
    type=FOLDER,
    default=Path("penstock-serve"),
    help="Without --config: where keys, ciphertexts and the state lie.",
)
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8700, help="Without --config: of tenants; 0: a free one."
)
@click.option(
    "--admin-port", type=click.IntRange(0, 65535), default=8701, help="Without --config: of operators; 0: a free one."
)
@click.option("--log", "log_path", type=FILE, help="Append the JSON log here, not to stderr.")
def command(config_path: Path | None, folder: Path, port: int, admin_port: int, log_path: Path | None) -> None:
    """Serve encrypted programs over HTTP: packages, keys and jobs of many tenants.

    Without --config it listens on this machine only, keeps its state in SQLite, and prints the token of the operator
    and of the tenant 'default' once. Any other address needs TLS. SIGTERM and Ctrl-C drain it; accepted jobs survive
    its end, and even 'kill -9'. GET /openapi.json describes every request.

    \b
    Examples:
      penstock serve
      penstock serve --folder /srv/penstock --port 0 --admin-port 0
      penstock serve --config serve.toml --log serve.log
      curl -H "Authorization: Bearer $TOKEN" http://127.0.0.1:8700/v1/programs
    """
    try:
        from penstock.service.http.config import embedded, read_config
        from penstock.service.http.logs import Log, opened
        from penstock.service.http.serve import serve
    except ImportError as error:
        raise CapabilityMissing(f"the server is not installed ({error}): pip install 'penstock[serve]'") from error
    if config_path is not None:
        given = [f"--{name.replace('_', '-')}" for name in ("folder", "port", "admin_port") if is_given(name)]
        if given:
            raise UsageError(f"{given[0]} stands in the file of --config: leave one of them out")
    config = read_config(config_path) if config_path is not None else embedded(folder, port, admin_port)
    os.umask(0o077)
    with nullcontext() if log_path is None else opened(log_path, click.echo) as stream:
        serve(config, say=click.echo, log=Log(stream))

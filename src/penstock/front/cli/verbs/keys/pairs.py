"""`penstock keys replace`, `retire` and `export`: keys of one key pair, and the next one."""

from __future__ import annotations

from typing import Any

import click

from penstock.errors import UnknownName
from penstock.front.cli.options import FOLDER, Values, choice_option
from penstock.front.cli.output import emit, format_option
from penstock.front.cli.verbs.keys.store import keys_of_pair, open_store, removed_row, store_options
from penstock.runtime.keystore import parameter_digest
from penstock.runtime.keystore.export import LAYOUTS, export_openfhe
from penstock.scheme.params import catalogue


@click.command()
@click.option("--tenant", metavar="NAME", required=True, help="Who makes new keys.")
@click.option("--params", metavar="SET", required=True, help="Parameter set of the keys ('penstock params list').")
@store_options
@format_option
def replace(tenant: str, params: str, place: Values, output_format: str) -> None:
    """Begin a new key pair of a tenant: the next import of another secret key is its first key.

    The old keys stay. Jobs whose inputs were encrypted with the old pair use the old keys, others the new ones. When
    the old jobs have ended, 'penstock keys retire' removes the old keys.

    \b
    Examples:
      penstock keys replace --tenant alice --params openfhe-bench
      penstock keys import --tenant alice --params openfhe-bench new-rotations.bin
      penstock keys retire --tenant alice --params openfhe-bench
    """
    chosen = catalogue.get(params)
    pair = open_store(**place).replace_pair(tenant, chosen)
    row = {"tenant": tenant, "digest": parameter_digest(chosen), "pair": pair}
    emit(row, output_format)


@click.command()
@click.option("--tenant", metavar="NAME", required=True, help="Whose old keys go.")
@click.option("--params", metavar="SET", required=True, help="Parameter set of the keys ('penstock params list').")
@store_options
@format_option
def retire(tenant: str, params: str, place: Values, output_format: str) -> None:
    """Remove the keys of a tenant's replaced key pairs, and keep those of the newest.

    A pair that a session uses, in any process of this machine, stays (`removed` is `false`): retire it again later.

    \b
    Example:
      penstock keys retire --tenant alice --params openfhe-bench
    """
    removals = open_store(**place).retire_pairs(tenant, catalogue.get(params))
    emit([removed_row(removal) for removal in removals], output_format)


@click.command()
@click.option("--tenant", metavar="NAME", required=True, help="Whose keys.")
@click.option("--params", metavar="SET", required=True, help="Parameter set of the keys ('penstock params list').")
@click.option("--key", "keys", metavar="KEY", multiple=True, help="This key only; may be given again.")
@click.option(
    "--key-tag", metavar="TAG", help="Tag of the key pair, where the tenant has several ('penstock keys ls')."
)
@click.option("-o", "--output", "folder", required=True, type=FOLDER, help="Folder of the files.")
@choice_option("--layout", tuple(LAYOUTS), "Which calls of OpenFHE read the files.", default="registry")
@click.option("--force", is_flag=True, help="Replace files that are there.")
@store_options
@format_option
def export(
    tenant: str,
    params: str,
    keys: tuple[str, ...],
    key_tag: str | None,
    place: Values,
    output_format: str,
    **asked: Any,
) -> None:
    """Write stored keys as OpenFHE does (binary format): rotations.bin, the automorphism keys, and relin.bin.

    Layout 'registry' is written like SerializeEvalAutomorphismKey and SerializeEvalMultKey, and is read by
    DeserializeEvalAutomorphismKey and DeserializeEvalMultKey. DeserializeEvalKeyMap and DeserializeEvalKey read layout
    'objects'. 'keys import' reads both.

    Seeded keys are expanded. OpenFHE's key switch indexes the whole chain, so truncated keys are refused.

    \b
    Example:
      penstock keys export --tenant alice --params openfhe-bench -o exported
    """
    chosen = catalogue.get(params)
    store = open_store(**place)
    of_pair = keys_of_pair(store, tenant, chosen, key_tag)
    for key in keys:
        if key not in of_pair:
            raise UnknownName("key", key, of_pair)
    names = [of_pair[key].name for key in (keys or of_pair)]
    written = export_openfhe(store, names, chosen, **asked)
    rows = [
        {**name._asdict(), "path": str(path), "form": of_pair[name.key].form}
        for path, exported in written.items()
        for name in exported
    ]
    emit(rows, output_format)

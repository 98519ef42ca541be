"""`penstock keys`: evaluation keys on disk, of many tenants."""

from __future__ import annotations

from collections.abc import Mapping, Set
from pathlib import Path

import click
from rich.console import Console

from penstock.base.system.progress import Progress
from penstock.base.types import Row, Rows, RowView
from penstock.base.units import format_bytes
from penstock.errors import PenstockError, UnknownName, UsageError
from penstock.front.cli.lazy import NamedVerbs
from penstock.front.cli.options import PATH, Values
from penstock.front.cli.output import Own, draw_rows, emit, format_option, say
from penstock.front.cli.verbs.keys import bench, node, pairs
from penstock.front.cli.verbs.keys.store import open_store, removed_row, store_options
from penstock.runtime.keystore import KeyDamaged, KeyName, KeyStore, StoredKey, is_segment, parameter_digest
from penstock.runtime.keystore.store import GONE
from penstock.scheme.params import catalogue

tenant_option = click.option("--tenant", metavar="NAME", help="Keys of this tenant only.")
params_option = click.option(
    "--params", metavar="SET", help="Keys for this parameter set only ('penstock params list')."
)


@click.group(cls=NamedVerbs)
def command() -> None:
    """Evaluation keys out of core: import what OpenFHE serialized, and look after it.

    A key belongs to a tenant and to parameters; no tenant is ever handed another's. KEY is `relin`, `conj`,
    `rot:<galois_element>`, `to-sparse` or `to-dense`, as traces have it.

    \b
    Examples:
      penstock keys import --tenant alice --params openfhe-bench rotations.bin
      penstock keys import --tenant alice --params openfhe-bench --key relin relin.bin
      penstock keys ls
      penstock keys verify
      penstock keys bench --threads 2
    """


for _verb in (bench.command, bench.study, node.node, node.token, pairs.replace, pairs.retire, pairs.export):
    command.add_command(_verb)


@command.command("import")
@click.argument("files", metavar="FILE...", nargs=-1, required=True, type=PATH)
@click.option("--tenant", metavar="NAME", required=True, help="Whose keys these are.")
@click.option("--params", metavar="SET", help="Parameter set of the keys; others are refused ('penstock params list').")
@click.option("--limbs", type=click.IntRange(1, 255), help="Limbs of Q, for parameters that no set of penstock's has.")
@click.option("--key", metavar="KEY", help="Purpose of a single key; files of several keys state it themselves.")
@store_options
@format_option
def import_(
    files: tuple[Path, ...],
    tenant: str,
    params: str | None,
    limbs: int | None,
    key: str | None,
    place: Values,
    output_format: str,
) -> None:
    """Import keys that OpenFHE serialized (binary format), or segments that a client made (.pkey).

    A FILE is what SerializeEvalAutomorphismKey or SerializeEvalMultKey wrote, an EvalKeyMap of one or many, or one
    EvalKey with --key. It is read row by row, however long it is. A segment names its key and its parameters itself.

    With --params, a key that was made at a level (fewer limbs of Q, then P's) is imported as a truncated one.

    Every word is checked against its modulus. An existing key is replaced. After a failure or a kill the store holds
    whole keys only, and all keys imported before.

    \b
    Examples:
      penstock keys import --tenant alice --params openfhe-bench rotations.bin
      penstock keys import --tenant alice --limbs 11 --key rot:5 one.bin
      penstock keys import --tenant alice seeded.pkey
      penstock keys import --tenant alice --params openfhe-bench --store s3://bucket/keys rotations.bin
    """
    segments = [file for file in files if is_segment(file)]
    named = params is not None or limbs is not None
    if (params is not None and limbs is not None) or (not named and len(segments) < len(files)):
        raise UsageError("name the keys' parameters: --params SET, or --limbs with the number of limbs of Q")
    if segments and (key is not None or limbs is not None):
        raise UsageError(f"{segments[0]} is a segment, which names its key and its limbs: leave --key and --limbs out")
    if key is not None and len(files) > 1:
        raise UsageError(f"--key {key} names one key, and {len(files)} files were given: import them one by one")
    chosen = None if params is None else catalogue.get(params)
    store = open_store(**place, make=True)
    rows = []
    try:
        with Progress(quiet=place["quiet"]).stage("import", total=len(files)) as stage:
            for file in files:
                if file in segments:
                    made = [store.import_segment(file, tenant=tenant, params=chosen)]
                else:
                    made = store.import_openfhe(tenant, file, params=chosen, num_q=limbs, key=key)
                for imported in made:
                    rows.append(
                        {**imported.name._asdict(), "bytes": imported.file_bytes, "replaced": imported.replaced}
                    )
                stage.advance()
    except PenstockError:
        if rows:
            emit(rows, output_format)  # they are in the store
        raise
    emit(rows, output_format)


@command.command()
@tenant_option
@params_option
@store_options
@format_option
def ls(tenant: str | None, params: str | None, place: Values, output_format: str) -> None:
    """Every whole key, one a row.

    \b
    Example:
      penstock keys ls --tenant alice --format json
    """
    names = _set_names()
    rows = [_row(key, names) for key in _keys(open_store(**place), tenant, params)]
    emit(rows, output_format, table=lambda console: _draw_keys(console, rows))


@command.command()
@tenant_option
@params_option
@click.option("--key", metavar="KEY", help="What a key switch reads of this key at each number of limbs.")
@store_options
@format_option
def stat(tenant: str | None, params: str | None, key: str | None, place: Values, output_format: str) -> None:
    """Keys and bytes of each tenant and parameter set; with --key, the bytes of one key at each number of limbs.

    `bytes` are those in memory, `stored_bytes` those that are read: half of them where a seed stands for part A.

    \b
    Examples:
      penstock keys stat
      penstock keys stat --tenant alice --key rot:5
    """
    keys = _keys(open_store(**place), tenant, params)
    if key is None:
        emit(_totals(keys), output_format)
        return
    matching = [stored for stored in keys if stored.name.key == key]
    if not matching:
        raise UnknownName("key", key, {stored.name.key for stored in keys})
    rows = [
        {
            **stored.name._asdict(),
            "form": stored.form,
            "limbs": limbs,
            "active_digits": -(-limbs // stored.digit_limbs),
            "bytes": stored.bytes_needed[limbs - 1],
            "stored_bytes": stored.stored_bytes[limbs - 1],
        }
        for stored in matching
        for limbs in range(stored.limbs, 0, -1)
    ]
    emit(rows, output_format)


@command.command()
@tenant_option
@params_option
@store_options
@format_option
def verify(tenant: str | None, params: str | None, place: Values, output_format: str) -> None:
    """Read every row of every key and hold it against its checksum. Exit code 1 where one is damaged or gone.

    \b
    Example:
      penstock keys verify --tenant alice
    """
    store = open_store(**place)
    unlisted = _unlisted(store)
    keys = _keys(store, tenant, params, also={row["tenant"] for row in unlisted})
    rows: Rows = []
    with Progress(quiet=place["quiet"]).stage("verify", total=len(keys)) as stage:
        for key in keys:
            state = store.verify(key.name)
            row = {"bytes": state.file_bytes, "ok": state.fault is None, "damaged_rows": state.damaged_rows}
            rows.append({**state.name._asdict(), **row, "fault": state.fault})
            stage.advance()
    rows += [row for row in unlisted if _chosen(row, tenant, params)]
    emit(rows, output_format)
    bad = [row for row in rows if not row["ok"]]
    if bad:
        raise KeyDamaged(f"{len(bad)} of {len(rows)} keys are damaged or gone: {bad[0]['fault']}")


def _unlisted(store: KeyStore) -> Rows:
    """Rows of damaged keys on the disk, and of keys that are gone."""
    rest = {"bytes": None, "ok": False, "damaged_rows": None}
    rows: Rows = []
    for path, why in store.opening.damaged:
        tenant, digest, *pair, file = path.split("/")
        key = file.removesuffix(".pkey").replace("-", ":", 1)
        number = int(pair[0].removeprefix("pair-")) if pair else 1
        rows.append({**KeyName(tenant, digest, key, number)._asdict(), **rest, "fault": why})
    for name in store.opening.lost:
        rows.append({**name._asdict(), **rest, "fault": f"{name.key} of tenant '{name.tenant}' {GONE}"})
    return rows


@command.command()
@click.option("--tenant", metavar="NAME", help="Remove all keys of this tenant, too.")
@click.option("--dry-run", is_flag=True, help="Only say what would be removed.")
@store_options
@format_option
def gc(tenant: str | None, dry_run: bool, place: Values, output_format: str) -> None:
    """Remove unfinished files and those with a damaged header or length. With --tenant, remove all keys of a tenant.

    A whole key stays: where the index says something else of it, its index row is put anew; at the path of another key
    it is only named, for you to move it back or to delete it. Keys whose files are gone are forgotten.

    Rows are not read: what 'penstock keys verify' finds damaged in them stays; import that key again.

    \b
    Examples:
      penstock keys gc --dry-run
      penstock keys gc --tenant alice
    """
    removals = open_store(**place).gc(tenant=tenant, dry_run=dry_run)
    if not removals:
        say("nothing to remove", quiet=place["quiet"])
    emit([removed_row(removal, dry_run) for removal in removals], output_format)


def _keys(store: KeyStore, tenant: str | None, params: str | None, also: Set[str] = frozenset()) -> list[StoredKey]:
    """Keys of a tenant and a set; `also`: tenants to include even without listed keys."""
    keys = store.list_keys()
    tenants = {key.name.tenant for key in keys} | also
    if tenant is not None and tenant not in tenants:
        raise UnknownName("tenant", tenant, tenants)
    return [key for key in keys if _chosen(key.name._asdict(), tenant, params)]


def _chosen(name: RowView, tenant: str | None, params: str | None) -> bool:
    digest = None if params is None else parameter_digest(catalogue.get(params))
    return tenant in (None, name["tenant"]) and digest in (None, name["digest"])


def _row(key: StoredKey, names: Mapping[str, str]) -> Row:
    return {
        **key.name._asdict(),
        "params": names.get(key.name.digest),
        **{name: getattr(key, name) for name in ("form", "limbs", "ring_dim")},
        "num_q": len(key.moduli_q),
        "num_p": len(key.moduli_p),
        "dnum": key.dnum,
        "key_bytes": key.bytes_needed[-1],
        "file_bytes": key.file_bytes,
        "secret_tag": key.secret_tag,
    }


def _totals(keys: list[StoredKey]) -> Rows:
    groups: dict[tuple[str, str], list[StoredKey]] = {}
    for key in keys:
        groups.setdefault((key.name.tenant, key.name.digest), []).append(key)
    forms = ("full", "seeded", "truncated", "seeded+truncated")
    return [
        {
            "tenant": tenant,
            "digest": digest,
            "params": _set_names().get(digest),
            "num_keys": len(group),
            "num_pairs": len({key.name.pair for key in group}),
            "forms": ", ".join(
                f"{count} {form}" for form in forms if (count := sum(key.form == form for key in group))
            ),
            "key_bytes": sum(key.bytes_needed[-1] for key in group),
            "file_bytes": sum(key.file_bytes for key in group),
        }
        for (tenant, digest), group in sorted(groups.items())
    ]


def _set_names() -> dict[str, str]:
    """Digest -> names of the catalogue's sets that have it: keys of one are keys of all."""
    names: dict[str, list[str]] = {}
    for params in map(catalogue.get, catalogue.names()):
        if params.library == "openfhe":
            names.setdefault(parameter_digest(params), []).append(params.name)
    return {digest: ", ".join(sharing) for digest, sharing in names.items()}


def _draw_keys(console: Console, rows: Rows) -> None:
    own: Own = {
        "parameters": lambda row: row["params"] or row["digest"][:12],
        "limbs of": lambda row: f"{row['num_q']}+{row['num_p']}",
    }
    columns = (
        "tenant | parameters | key | pair | form | limbs | N=ring_dim | Q+P=limbs of | dnum | >in memory=key_bytes "
    )
    draw_rows(console, rows, columns + "| >file=file_bytes", own, no_wrap=True)
    console.print(f"\n{len(rows)} keys, {format_bytes(sum(row['file_bytes'] for row in rows))}", highlight=False)

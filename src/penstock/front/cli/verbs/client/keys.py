"""`penstock client keys`: evaluation keys as segments, for whoever computes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.base.system.files import os_errors, remove_dead, unfinished_folder
from penstock.base.system.progress import Progress
from penstock.base.types import Row
from penstock.errors import KeyDamaged, KeyRefused, UsageError
from penstock.front.cli.key_pair import open_pair, passphrase_option
from penstock.front.cli.options import PATH, size_option, threads_option
from penstock.front.cli.output import emit, output_options, say
from penstock.runtime.keystore import KeyStore, StoredKey, check_tenant, parameter_digest
from penstock.scheme.operations import TO_SPARSE_KEY
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.scheme.params.rlwe import KeyForm

if TYPE_CHECKING:
    from penstock.runtime.client import KeyPair

EVERYTHING = "seeded+truncated"


@click.command("keys")
@click.argument("folder", type=PATH)
@click.option("--params", "name", metavar="SET", help="Parameter set of the pair. Default: the workload's own.")
@click.option("--workload", metavar="WORKLOAD|FILE", help="Every key that this program, package or trace uses.")
@size_option
@click.option(
    "--key",
    "named",
    metavar="KEY",
    multiple=True,
    help="A key: `relin`, `conj`, `rot:<galois_element>`, `to-sparse` or `to-dense`. Repeat it.",
)
@click.option("--limbs", type=click.IntRange(min=1), help="With --key and a truncated form: limbs of the highest use.")
@click.option("--tenant", metavar="NAME", required=True, help="Owner of the keys; they are bound to this name.")
@click.option("-o", "--output", type=PATH, required=True, help="Folder of the .pkey files.")
@click.option(
    "--form", "form_name", metavar="FORM", help="full, seeded, truncated or seeded+truncated. Default: the smallest."
)
@click.option("--force", is_flag=True, help="Make whole keys that are there again, too.")
@passphrase_option
@threads_option
@output_options
def keys(
    folder: Path, tenant: str, output: Path, limbs: int | None, quiet: bool, output_format: str, **asked: Any
) -> None:
    """Make evaluation keys, one .pkey file each, which 'penstock keys import' takes.

    Whole files of the same pair, tenant, form and limbs stay: the same command goes on after an interrupt. Damaged ones
    are made again. A truncated key ends at the most limbs at which the workload uses it.

    \b
    Examples:
      penstock client keys alice --workload inner-product --size ci --tenant alice -o upload
      penstock client keys alice --params openfhe-bench --key relin --key rot:5 --tenant alice -o upload
      penstock client keys alice --params openfhe-bench --key conj --form full --tenant alice -o upload
    """
    check_tenant(tenant, "--tenant")
    workload, form_name = asked["workload"], asked["form_name"]
    params, used = _wanted(asked["name"], workload, asked["size"], asked["named"], limbs)
    truncated = workload is not None or limbs is not None
    form = KeyForm.named(form_name or (EVERYTHING if truncated else "seeded"))
    if form.is_truncated and not truncated:
        raise UsageError(f"--form {form.value}: a truncated key ends at its highest use; add --limbs, or --workload")
    if limbs is not None and not form.is_truncated:
        raise UsageError(f"--limbs {limbs}: keys of form {form.value} have every limb; leave --limbs out")
    wanted = used if form.is_truncated else dict.fromkeys(used, params.num_q)
    pair = open_pair(folder, params, asked["passphrase_file"], asked["threads"])
    with os_errors(output):
        output.mkdir(parents=True, exist_ok=True)
        remove_dead(output)
    work = _Output(pair, params, tenant, output, form, quiet)
    rows = []
    with unfinished_folder(output) as making, Progress(quiet=quiet).stage("keys", total=len(wanted)) as stage:
        for key, most in wanted.items():
            rows.append(work.row(key, most, making, force=asked["force"]))
            stage.advance()
    emit(rows, output_format)


def _wanted(
    name: str | None, workload: str | None, size: str | None, named: tuple[str, ...], limbs: int | None
) -> tuple[CkksParameters, Mapping[str, int]]:
    """The parameter set, and key -> limbs of its highest use."""
    if (workload is None) == (not named):
        raise UsageError("name the keys in one way: --workload WORKLOAD, or --key KEY, once for each")
    if workload is None:
        if size is not None:
            raise UsageError("--size names the size of a workload: add --workload")
        if name is None:
            raise UsageError("--key needs the parameter set of the pair: add --params SET")
        params = catalogue.get(name)
        if limbs is not None and limbs > params.num_q:
            raise UsageError(f"--limbs {limbs}: set '{params.name}' has {params.num_q}; name at most these")
        return params, dict.fromkeys(named, limbs or params.num_q)
    if limbs is not None:
        raise UsageError("--limbs is for --key; a workload says how far it uses each key")
    from penstock.program.running import trace_workload
    from penstock.program.running.reading import resolve
    from penstock.program.workloads import ProgramKind, kind_of

    if kind_of(workload) is ProgramKind.TRACE:
        from penstock.front.hall.programs import trace_of
        from penstock.lab.simulation.words import OPTIONS

        recorded = trace_of(workload, name, size, spelled=OPTIONS)
        return recorded.parameters(), recorded.view().key_limbs()
    trace = trace_workload(workload, name, size)
    return resolve(workload, name, size)[2], trace.view().key_limbs()


class _Output:
    """The folder of the keys of one pair, tenant and form."""

    def __init__(
        self, pair: KeyPair, params: CkksParameters, tenant: str, folder: Path, form: KeyForm, quiet: bool
    ) -> None:
        self.pair, self.params, self.tenant, self.folder, self.form = pair, params, tenant, folder, form
        self._quiet = quiet

    def row(self, key: str, limbs: int, making: Path, *, force: bool) -> Row:
        """Make a key if it is not there, and say which it is."""
        path = self.folder / f"{key.replace(':', '-')}.pkey"
        whole = 1 if key == TO_SPARSE_KEY else self.params.num_q
        limbs = min(limbs, whole)
        made = force or not self._is_there(path, key, limbs, making)
        if made:
            fresh = making / path.name
            self.pair.write_key(key, fresh, tenant=self.tenant, limbs=limbs, seeded=self.form.is_seeded)
            with os_errors(path):
                fresh.replace(path)
        # A key that is used on its whole chain is not cut.
        form = KeyForm.of(seeded=self.form.is_seeded, truncated=limbs < whole)
        size = path.stat().st_size
        return {"key": key, "limbs": limbs, "form": form.value, "bytes": size, "made": made, "path": str(path)}

    def _is_there(self, path: Path, key: str, limbs: int, making: Path) -> bool:
        """Whether a file holds this whole key, with rows for as many limbs.

        Raises: UsageError: it holds a whole key of another tenant, pair or set.
        """
        if not path.exists():
            return False
        try:
            stored = _whole_key(path, making / "checked")
        except (KeyDamaged, KeyRefused) as error:
            say(f"note: made again: {error}", quiet=self._quiet)
            return False
        expected = (self.tenant, parameter_digest(self.params), key, self.pair.tag)
        if (stored.name.tenant, stored.name.digest, stored.name.key, stored.secret_tag) != expected:
            raise UsageError(
                f"{path} is a key of another tenant, key pair or parameter set (tenant '{stored.name.tenant}', key "
                f"pair {stored.secret_tag}): name another folder, or replace it with --force"
            )
        return stored.limbs == limbs and KeyForm(stored.form).is_seeded == self.form.is_seeded


def _whole_key(path: Path, place: Path) -> StoredKey:
    """The header of a segment, every row of which is held against its checksum.

    Raises: KeyDamaged, KeyRefused: it is not a whole segment.
    """
    store = KeyStore(place)
    try:
        return store.key(store.import_segment(path).name)
    finally:
        for stored in store.list_keys():
            store.gc(tenant=stored.name.tenant)

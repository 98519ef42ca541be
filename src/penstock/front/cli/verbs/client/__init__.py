"""`penstock client`: the key's owner, with penstock's own client."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING

import click

from penstock.base.system.files import WouldOverwrite, check_target, os_errors, write_atomic
from penstock.base.system.vectors import read_real
from penstock.base.system.workers import no_core_files
from penstock.base.types import Row
from penstock.errors import KeyPairDamaged, UsageError
from penstock.front.cli.key_pair import open_pair, passphrase_from, passphrase_option, warn
from penstock.front.cli.lazy import NamedVerbs
from penstock.front.cli.options import FILE, PATH, Values, all_of, quiet_option, threads_option, together
from penstock.front.cli.output import emit, format_option, output_options, slot_rows
from penstock.front.cli.service_options import insecure_option, service_option
from penstock.front.cli.verbs.client.keys import keys
from penstock.front.cli.verbs.client.results import asked_of, results_options, tell_shared
from penstock.front.cli.verbs.client.service import (
    KEYED_ACCESS,
    deploy,
    made_for_program,
    remove,
    result,
    submit,
    tenant_option,
    upload,
    uploaded,
    wait,
)
from penstock.runtime.keystore import parameter_digest
from penstock.runtime.keystore.pairs import PAIRS, pair_in
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters

if TYPE_CHECKING:
    from penstock.runtime.client import KeyPair, PublicKey

folder_argument = click.argument("folder", type=PATH)
params_option = click.option(
    "--params", "name", metavar="SET", required=True, help="Parameter set of the pair ('penstock params list')."
)


pair_options = all_of(
    folder_argument, together("opening", params_option, passphrase_option, threads_option), quiet_option
)
"""The pair, and how it is opened: the command gets `folder`, `opening` and `quiet`."""


@click.group(cls=NamedVerbs)
def command() -> None:
    """The owner of a secret key: a pair in a folder, evaluation keys for others, encryption and decryption.

    Everything has the words of OpenFHE 1.6.1, without OpenFHE. FOLDER holds the pair, readable by its owner only.
    With --service, it is a tenant of 'penstock serve': the secret key stays in FOLDER.

    \b
    Examples:
      penstock client keygen alice --params openfhe-bench --passphrase-file phrase
      penstock client keys alice --params openfhe-bench --workload inner-product --tenant alice -o upload
      penstock client encrypt alice values.npy --params openfhe-bench -o input.ct
      penstock client decrypt alice result.ct --params openfhe-bench --for owner
    """
    no_core_files()


for _verb in (keys, deploy, upload, submit, wait, result, uploaded, remove):
    command.add_command(_verb)


@command.command()
@folder_argument
@click.option("--params", "name", metavar="SET", help="Parameter set of the pair ('penstock params list').")
@click.option("--program", metavar="NAME", help="With --service: the pair and the keys of this program.")
@together("access", tenant_option, insecure_option, service_option(required=False), *KEYED_ACCESS[1:], threads_option)
@output_options
def keygen(
    folder: Path, name: str | None, program: str | None, access: Values, quiet: bool, output_format: str
) -> None:
    """Make a key pair in a new folder, from the random bytes of the operating system. Nothing is ever overwritten.

    Without a passphrase, whoever reads the file of the secret key decrypts everything.

    With --service and --program: a pair with the program's parameters, or the one that is there, and the evaluation
    keys that the program needs, seeded and cut to the limbs of their highest use. Whole keys stay: run it again after
    an interrupt, or for another program with the same parameters. 'penstock client upload' sends them.

    \b
    Examples:
      penstock client keygen alice --params openfhe-bench
      penstock client keygen alice --params openfhe-bench --passphrase-file phrase
      penstock client keygen alice --service https://fhe.example.org --program scores --token-file token
    """
    from penstock.runtime.client import KeyPair

    if (name is None) == (program is None):
        raise UsageError("name the parameters in one way: --params SET, or --service URL with --program NAME")
    if program is not None:
        if access["service"] is None:
            raise UsageError("--program names a program of a service: add --service URL")
        emit(made_for_program(folder, program, access, quiet=quiet), output_format)
        return
    params = catalogue.get(name or "")
    _require_new(folder)
    passphrase = passphrase_from(access["passphrase_file"])
    pair = KeyPair.generate(params, threads=access["threads"])
    _saved(pair.save(folder, passphrase=passphrase), folder)
    emit(_facts(folder, params, pair), output_format)


@command.command()
@pair_options
@format_option
def show(folder: Path, opening: Values, quiet: bool, output_format: str) -> None:
    """What lies in a folder: whose library, the pair's tag, sealed or not, modes of the files. The pair is checked.

    A sealed pair is checked with its passphrase; without one only its public key is (`checked` is `false`).

    \b
    Example:
      penstock client show alice --params openfhe-bench
    """
    from penstock.runtime.client import PublicKey
    from penstock.runtime.client.pair import is_sealed

    params, kept = catalogue.get(opening["name"]), pair_in(folder)
    if kept is None:
        raise UsageError(f"{folder} holds no key pair: name its folder, or make one with 'penstock client keygen'")
    if kept.library == "penstock" and opening["passphrase_file"] is None and is_sealed(folder):
        row = _facts(folder, params, PublicKey.load(folder, params, threads=opening["threads"]))
    else:
        row = _facts(folder, params, _opened(folder, **opening))
    if not quiet:
        for what in ("folder_mode", "secret_mode"):
            if int(row[what], 8) & 0o077:
                warn(f"others may read {folder} ({what} {row[what]}): chmod -R go-rwx {folder}")
    emit(row, output_format)


@command.command()
@pair_options
@click.argument("values", type=FILE)
@click.option("-o", "--output", type=PATH, required=True, help="The ciphertext.")
@click.option(
    "--seeded/--public",
    default=True,
    help="With the secret key, in half the bytes, for penstock's evaluator; or with the public key, for OpenFHE too.",
)
@click.option("--limbs", type=click.IntRange(min=1), help="Limbs of the ciphertext. Default: all.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@format_option
def encrypt(
    folder: Path,
    values: Path,
    opening: Values,
    output: Path,
    seeded: bool,
    limbs: int | None,
    force: bool,
    quiet: bool,
    output_format: str,
) -> None:
    """Encrypt the real numbers in a file: .npy, .json (a list), or .csv (numbers with commas or on lines).

    --public reads the public key alone: FOLDER may be somebody else's public.ppkey.

    \b
    Examples:
      penstock client encrypt alice values.npy --params openfhe-bench -o input.ct
      penstock client encrypt alice values.csv --params openfhe-bench -o input.ct --public
    """
    from penstock.runtime.client import PublicKey

    params = catalogue.get(opening["name"])
    check_target(output, force=force)
    given = read_real(values, params.slots)
    if seeded:
        pair = _opened(folder, **opening)
        tag, content = pair.tag, pair.encrypt_seeded(given, limbs=limbs)
    else:
        public = PublicKey.load(folder, params, threads=opening["threads"])
        tag, content = public.tag, public.encrypt(given, limbs=limbs)
    write_atomic(output, content, force=force)
    row = {
        "path": str(output),
        "form": "seeded" if seeded else "full",
        "values": len(given),
        "limbs": limbs or params.num_q,
        "bytes": len(content),
        "key_tag": tag,
    }
    emit(row, output_format)


@command.command()
@pair_options
@click.argument("ciphertext", type=FILE)
@results_options
@click.option("--result", "output", metavar="NAME", help="With --package: which of its results it is, of several.")
@click.option("--complex", "is_complex", is_flag=True, help="Print imaginary parts, too: of values that are complex.")
@click.option("--count", type=click.IntRange(min=1), help="Print the first values only. Default: every slot.")
@format_option
def decrypt(
    folder: Path,
    ciphertext: Path,
    opening: Values,
    asked: Values,
    output: str | None,
    is_complex: bool,
    count: int | None,
    quiet: bool,
    output_format: str,
) -> None:
    """Decrypt a ciphertext of this pair and print its values.

    Values of CKKS tell of the secret key. With --for owner nobody but the owner of the key may learn them. With --for
    shared they get the noise that hides the key: as much as the package says, which is then required. Shared results
    are counted with the pair.

    The ciphertext must have the header that the package gives the result; without a package, one of the set's.

    \b
    Examples:
      penstock client decrypt alice result.ct --params openfhe-bench --for owner --count 8
      penstock client decrypt alice result.ct --params openfhe-bench --for shared --package score.pkg --format csv
    """
    if output is not None and asked["package"] is None:
        raise UsageError("--result names a result of a package: add --package FILE")
    pair = _opened(folder, **opening)
    with os_errors(ciphertext, "read"):
        content = ciphertext.read_bytes()
    slots = (pair.decrypt_complex if is_complex else pair.decrypt)(content, result=output, **asked_of(**asked))
    tell_shared(pair, asked, quiet=quiet)
    emit(slot_rows(slots[:count], is_complex=is_complex), output_format)


@command.command("from-openfhe")
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target", metavar="OUT", type=PATH)
@params_option
@passphrase_option
@output_options
def from_openfhe(
    source: Path, target: Path, name: str, passphrase_file: Path | None, quiet: bool, output_format: str
) -> None:
    """Take over OpenFHE's pair in IN (secret.key and public.key, BINARY) into a new folder OUT.

    The secret key and its tag stay, so that old ciphertexts and evaluation keys are still of use. The public key is
    new: half of it is a seed, and OpenFHE's has none. So is the ephemeral secret of a set that has one, which OpenFHE
    does not keep: make the keys to-sparse and to-dense anew.

    \b
    Example:
      penstock client from-openfhe theirs ours --params openfhe-bench
    """
    from penstock.runtime.client import KeyPair

    params = catalogue.get(name)
    _require_new(target)
    passphrase = passphrase_from(passphrase_file)
    pair = KeyPair.from_openfhe(source, params).with_new_public()
    _saved(pair.save(target, passphrase=passphrase), target)
    emit(_facts(target, params, pair), output_format)


@command.command("to-openfhe")
@click.argument("source", metavar="IN", type=PATH)
@click.argument("target", metavar="OUT", type=PATH)
@params_option
@passphrase_option
@output_options
def to_openfhe(
    source: Path, target: Path, name: str, passphrase_file: Path | None, quiet: bool, output_format: str
) -> None:
    """Write the pair in IN as OpenFHE does, into a new folder OUT: secret.key and public.key. Nothing there is sealed.

    OpenFHE's file has no place for an ephemeral secret: keep IN, with which keys to-sparse and to-dense are made.

    \b
    Example:
      penstock client to-openfhe ours theirs --params openfhe-bench
    """
    params = catalogue.get(name)
    _require_new(target)
    pair = open_pair(source, params, passphrase_file, None)
    _saved(pair.to_openfhe(target), target)
    emit(_facts(target, params, pair), output_format)


def _opened(folder: Path, name: str, passphrase_file: Path | None, threads: int | None) -> KeyPair:
    """The pair that the options name."""
    return open_pair(folder, catalogue.get(name), passphrase_file, threads)


def _require_new(folder: Path) -> None:
    with os_errors(folder):
        if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
            raise WouldOverwrite(folder, "move away what it holds")


def _saved(done: bool, folder: Path) -> None:
    if not done:  # another process was first
        raise WouldOverwrite(folder, "move away what it holds")


def _facts(folder: Path, params: CkksParameters, pair: KeyPair | PublicKey) -> Row:
    """A row about the pair in a folder. `pair`: opened, or its public key alone."""
    from penstock.runtime.client.pair import is_sealed

    kept = pair_in(folder)
    assert kept is not None
    return {
        "folder": str(folder),
        "library": kept.library,
        "params": params.name,
        "digest": parameter_digest(params),
        "key_tag": pair.tag,
        "sealed": kept.library == PAIRS["penstock"].library and is_sealed(folder),
        "checked": hasattr(pair, "decrypt"),
        "memory_locked": getattr(pair, "is_locked", None),
        "shared_results": _shared(pair),
        "folder_mode": _mode(folder),
        "secret_mode": _mode(folder / kept.secret),
    }


def _shared(pair: KeyPair | PublicKey) -> int | None:
    """The results that others know; `None`: only the public key is open, or the count is lost."""
    try:
        return int(pair.shared.results) if hasattr(pair, "shared") else None
    except KeyPairDamaged:
        return None


def _mode(path: Path) -> str:
    with os_errors(path, "read"):
        return f"{stat.S_IMODE(path.stat().st_mode):04o}"

"""`penstock client deploy|upload|submit|wait|result|uploaded|remove`: a tenant of `penstock serve`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.base.system.files import check_target
from penstock.base.system.progress import Progress
from penstock.base.system.vectors import check_room, write_vectors
from penstock.base.system.web import read_token
from penstock.base.types import Rows
from penstock.base.units import format_bytes, parse_seconds
from penstock.errors import CheckFailed, UsageError
from penstock.front.cli.key_pair import passphrase_from, passphrase_option, warn
from penstock.front.cli.options import FILE, FOLDER, Values, threads_option, together
from penstock.front.cli.output import emit, output_options, slot_rows
from penstock.front.cli.service_options import ACCESS, access_options, insecure_option
from penstock.front.cli.verbs.client.results import asked_of, results_options, tell_shared

if TYPE_CHECKING:
    from penstock.runtime.client import Service

folder_argument = click.argument("folder", type=FOLDER)
program_option = click.option("--program", metavar="NAME", required=True, help="Name of the deployed program.")
KEYED_ACCESS = (*ACCESS, passphrase_option)
"""The way to a service, and the passphrase of the pair."""
KEYS, EVERYTHING = "keys", "everything"
tenant_option = click.option("--tenant", metavar="NAME", help="Your name at the service, where it does not say it.")


def opened(
    service: str, *, token_file: Path | None, patience: str, passphrase_file: Path | None = None, **own: Any
) -> Service:
    """A client of the service that the options name. Args: own: of `Service`, with the same names."""
    from penstock.runtime.client import Service

    token, phrase = read_token(token_file), passphrase_from(passphrase_file)
    return Service(service, token=token, passphrase=phrase, patience_s=parse_seconds(patience, "--patience"), **own)


def made_for_program(folder: Path, program: str, access: Values, *, quiet: bool) -> Rows:
    """The pair and the evaluation keys of `keygen --service`: a row a key."""
    with opened(folder=folder, **access) as service, Progress(quiet=quiet).stage("keys") as stage:
        deployed = service.program(program)
        if deployed.security_bits == 0 and access["allow_insecure"] and not quiet:
            warn(f"the parameters of '{program}' state no level of security: use test data only")
        return service.make_keys(program, on_key=lambda key, done, total: stage.update(done, total=total, name=key))


@click.command()
@click.argument("package", type=FILE)
@click.option("--name", required=True, help="Name of the program at the service.")
@access_options
@output_options
def deploy(package: Path, name: str, access: Values, quiet: bool, output_format: str) -> None:
    """Deploy a program package at a service. The token needs the scope `deploy`.

    \b
    Example:
      penstock client deploy model.pkg --name scores --service https://fhe.example.org --token-file token
    """
    with opened(**access) as service, Progress(quiet=quiet).stage("package") as stage:
        emit(service.deploy(package, name, on_bytes=stage.update), output_format)


@click.command()
@folder_argument
@program_option
@together("access", tenant_option, *KEYED_ACCESS)
@output_options
def upload(folder: Path, program: str, access: Values, quiet: bool, output_format: str) -> None:
    """Upload the evaluation keys that the service lacks for a program.

    Run it again after an interrupt: it goes on where the service is. Keys that are there are not sent again.

    \b
    Example:
      penstock client upload alice --service https://fhe.example.org --program scores --token-file token
    """
    with opened(folder=folder, **access) as service, Progress(quiet=quiet).stage("keys") as stage:
        keys = service.upload_keys(program, on_bytes=stage.update)
    emit({"program": program, "keys": len(keys), "bytes": stage.total or 0}, output_format)


@click.command()
@folder_argument
@program_option
@click.option(
    "--input",
    "inputs",
    metavar="[NAME=]FILE",
    multiple=True,
    required=True,
    help="Inputs (.npy, .npz, .csv, .json), repeated for several.",
)
@click.option(
    "--package",
    type=FILE,
    help="The program as you know it: its results are held to it, and the service must have the same.",
)
@click.option("--job", metavar="NAME", help="Your identity of the job: it is submitted once, however often you say so.")
@click.option("--priority", type=click.IntRange(0, 9), default=0, help="Higher ones go first.")
@click.option("--deadline", metavar="TIME", help="The job expires if it has not begun by then, from now on.")
@click.option(
    "--prepare",
    type=FOLDER,
    help="Only encrypt: write the inputs into this folder, for 'penstock load', and submit nothing.",
)
@together("access", insecure_option, *KEYED_ACCESS, threads_option)
@output_options
def submit(
    folder: Path,
    program: str,
    inputs: tuple[str, ...],
    deadline: str | None,
    prepare: Path | None,
    access: Values,
    quiet: bool,
    output_format: str,
    job: str | None,
    package: Path | None,
    priority: int,
) -> None:
    """Encrypt inputs with the pair in FOLDER, upload them and submit a job. It prints the job's identity.

    A submission that was cut off goes on with the same command: the job is never there twice.

    \b
    Examples:
      penstock client submit alice --service https://fhe.example.org --program scores --input x.npy
      penstock client submit alice --service https://fhe.example.org --program scores --input x=x.npy --job may-7
      penstock client submit alice --service https://fhe.example.org --program scores --input x.npy --package scores.pkg
    """
    from penstock.program.workloads.packaged import read_inputs

    with opened(folder=folder, **access) as service, Progress(quiet=quiet).stage("inputs") as stage:
        values = read_inputs(service.program(program), inputs).inputs
        if prepare is not None:
            files = service.prepare(program, values, prepare)
            emit([{"input": name, "path": str(path)} for name, path in files.items()], output_format)
            return
        deadline_s = None if deadline is None else parse_seconds(deadline, "--deadline")
        job = service.submit(
            program, values, job, on_bytes=stage.update, deadline_s=deadline_s, package=package, priority=priority
        )
    row = {"job": job, "program": program}
    emit(row, output_format, table=lambda console: console.print(job, highlight=False, soft_wrap=True))


@click.command()
@folder_argument
@click.argument("job")
@click.option("--timeout", metavar="TIME", help="Give up after this time. Default: never.")
@access_options
@output_options
def wait(folder: Path, job: str, timeout: str | None, access: Values, quiet: bool, output_format: str) -> None:
    """Wait until a job has ended. Exit code 1 where it has not computed.

    \b
    Example:
      penstock client wait alice may-7 --service https://fhe.example.org --token-file token
    """
    with opened(folder=folder, **access) as service, Progress(quiet=quiet).stage("job"):
        state = service.wait(job, timeout_s=None if timeout is None else parse_seconds(timeout, "--timeout"))
    emit(state, output_format)
    if state["state"] != "done":
        raise CheckFailed(f"job '{job}' {state['state']}: {state.get('reason') or 'no reason is given'}")


@click.command()
@folder_argument
@click.argument("job")
@click.option("-o", "--output", type=FILE, help="File of the values. Default: print them.")
@click.option("--force", is_flag=True, help="Replace an existing file.")
@results_options
@together("access", *KEYED_ACCESS, threads_option)
@output_options
def result(
    folder: Path,
    job: str,
    output: Path | None,
    force: bool,
    asked: Values,
    access: Values,
    quiet: bool,
    output_format: str,
) -> None:
    """Fetch the outputs of a job and decrypt them.

    With --for owner nobody but the owner of the key may learn them. With --for shared they get noise, as of 'penstock
    client decrypt'. The program is the package that 'penstock client submit' was given, or --package; never the
    service's word.

    The service is told nothing of the decryption. A second call decrypts the
    files of the first, and asks the service nothing.

    \b
    Examples:
      penstock client result alice may-7 --for owner --service https://fhe.example.org -o y.npz
      penstock client result alice may-7 --for shared --package scores.pkg --service https://fhe.example.org
    """
    if output is not None:
        check_target(output, force=force)
    with opened(folder=folder, **access) as service, Progress(quiet=quiet).stage("outputs"):
        values = service.result(job, **asked_of(**asked))
        tell_shared(service, asked, quiet=quiet)
    if output is None:
        is_complex = any(vector.dtype.kind == "c" for vector in values.values())
        named = [(name, slot_rows(vector, is_complex=is_complex)) for name, vector in values.items()]
        emit([{"output": name, **row} for name, rows in named for row in rows], output_format)
        return
    check_room(output, list(values))
    write_vectors(values, output, force=force)
    rows = [{"output": name, "values": len(vector), "path": str(output)} for name, vector in values.items()]
    emit(rows, output_format)


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

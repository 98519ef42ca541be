"""The root command, which turns errors into exit codes."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

from penstock.base.system.files import FileError
from penstock.base.system.frames import pandas_left_out
from penstock.base.system.interrupts import end_at_interrupts, no_interrupt_lost, sigterm_as_interrupt
from penstock.base.system.limits import keep_within_limit, shortage
from penstock.base.version import __version__
from penstock.errors import PenstockError, UsageError
from penstock.front.cli.lazy import LazyGroup
from penstock.front.cli.streams import escape_what_is_lacking, unsteered

VERBS: dict[str, str] = {
    "doctor": "What works on this machine, what does not, and how to get it.",
    "params": "Parameter sets: list, show, and how big keys and ciphertexts are.",
    "machines": "Accelerators and GPUs: list and show them, with the source of every value.",
    "workloads": "The programs that penstock studies, with their sizes.",
    "run": "Run a workload: in the clear, with OpenFHE, or on penstock's own evaluator.",
    "trace": "Trace a workload without cryptography; inspect, compare and export traces.",
    "record": "Record any OpenFHE Python script as a trace.",
    "package": "A program as one file that runs wherever penstock does: calls and constants, no code.",
    "analyze": "The main job: run encrypted, check, record, fit, simulate, report.",
    "bench": "The benchmark suite: run it, compare two runs, export results.",
    "predict": "Fit a machine to measurements, predict programs on it, and validate that.",
    "profile": "Count events, energy and call stacks of an encrypted run, and draw a flame graph.",
    "client": "Your key pair: make it and evaluation keys, encrypt and decrypt, without OpenFHE.",
    "keys": "Evaluation keys on disk: import from OpenFHE, list, verify, remove.",
    "load": "Send jobs to a service at their own times, and report latencies and goodput.",
    "simulate": "Play a trace on a machine whose keys do not fit in fast memory.",
    "servers": "Dedicated or shared servers under a stream of applications: latency, loaded keys, cost.",
    "sweep": "Many simulated points from one file, on all cores or on a cluster.",
    "ssd": "A solid-state drive: scans of a database, by the host or inside the drive.",
    "database": "Encrypted databases on disk: make, check and query them, measured and simulated.",
    "reproduce": "Published results next to our own.",
    "report": "Write a run's report again, compare runs, draw figures for a paper.",
    "serve": "Encrypted programs as a service: packages, keys and jobs of many tenants over HTTP.",
    "explore": "Runs and what-if questions in a browser on this machine.",
    "completion": "The script with which bash, zsh or fish completes words of penstock.",
}
"""Verb -> one-line help. Each verb is the click command `command` of `penstock.front.cli.verbs.<verb>`."""

_PRINTERS = ("click", "rich", "csv", "json", "codecs", "penstock.front.cli")
"""Modules whose calls of the system without a path are writes to the standard output."""


@click.group(
    cls=LazyGroup,
    verbs=VERBS,
    package="penstock.front.cli.verbs",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
)
@click.version_option(__version__, prog_name="penstock")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """An open laboratory for fully homomorphic encryption whose data does not fit in fast memory.

    \b
    Examples:
      penstock analyze logistic-regression        run it encrypted, then see what its keys cost on each tier
      penstock params size openfhe-bench          how big will my keys be?
      penstock simulate logistic-regression --params sharp --machine sharp --tier pcie5 --hit-ratio 0.5
    """


def main(argv: list[str] | None = None) -> int:
    """Run the command line and return the exit code. No traceback reaches a user unless `--debug`."""
    if argv is not None:
        return _heard(argv)
    try:
        with pandas_left_out():
            return _heard(sys.argv[1:])
    finally:
        end_at_interrupts()


def _heard(argv: list[str]) -> int:
    """Interrupts ahead of the command, or behind it, too."""
    try:
        return _guarded(argv)
    except KeyboardInterrupt:
        return _fail("interrupted", 130, argv)


def _guarded(argv: list[str]) -> int:
    escape_what_is_lacking()
    asked = os.environ.get("_PENSTOCK_COMPLETE")
    if asked:  # a shell asks what the words on its line may become
        from penstock.front.cli.completion import complete

        return complete(asked)
    keep_within_limit()
    try:
        return _ended(argv)
    except MemoryError:  # there was none left to say more with
        os.write(2, b"penstock: out of memory\n")
        return 1


def _ended(argv: list[str]) -> int:
    try:
        with sigterm_as_interrupt(), no_interrupt_lost():
            result = cli.main(args=argv, prog_name="penstock", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except PenstockError as error:
        return _fail(str(error), error.exit_code, argv)
    except click.exceptions.Exit as error:
        return error.exit_code
    except click.ClickException as error:
        return _fail(_worded(error), UsageError.exit_code, argv)
    except (click.Abort, KeyboardInterrupt):
        return _fail("interrupted", 130, argv)
    except BrokenPipeError:
        sys.stderr.close()
        return 0
    except OSError as error:
        return _fail(shortage(error) or _refusal(error), 1, argv)
    except BaseException as error:
        # A panic of the engine is not an `Exception`.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        internal = f"internal error: {type(error).__name__}: {error}; run again with --debug and report it"
        return _fail(shortage(error) or internal, 1, argv)


def _refusal(error: OSError) -> str:
    """Name the part of the system that refused: a file, the standard output, semaphores, or a module's request."""
    if error.filename:
        return str(FileError(Path(os.fsdecode(error.filename)), "use", error))
    at = ""
    trace = error.__traceback__
    while trace is not None:
        at, trace = str(trace.tb_frame.f_globals.get("__name__", "")), trace.tb_next
    if at.startswith(_PRINTERS):
        return str(FileError(Path("standard output"), "use", error))
    why = error.strerror or str(error)
    if at.startswith("multiprocessing"):
        return f"processes cannot share semaphores ({why}): /dev/shm must be there, have room, and be yours to write to"
    return f"the system refused what {at or 'a library'} asked for: {why}; run again with --debug and report it"


def _worded(error: click.ClickException) -> str:
    """Put click's message into our form: the fault, and where the rule is described."""
    context = getattr(error, "ctx", None)
    path = "penstock" if context is None else context.command_path
    message = " ".join(error.format_message().split()).rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; see '{path} --help'"


def _fail(message: str, code: int, argv: list[str]) -> int:
    if "--debug" in argv:
        import traceback

        traceback.print_exc()
    click.echo(f"penstock: {unsteered(message)}", err=True)
    return code

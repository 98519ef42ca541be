"""`penstock explore`: runs and simulations in a browser on this machine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import click

from penstock.base.runs.record import DamagedRun
from penstock.base.system.files import readable
from penstock.base.system.limits import shortage
from penstock.base.system.web import read_token
from penstock.errors import CapabilityMissing, PenstockError, UnknownName, UsageError
from penstock.front.cli.options import FILE, FOLDER, several_option
from penstock.front.cli.output import emit, format_option, say_choice
from penstock.front.cli.service_options import ca_option

if TYPE_CHECKING:
    from penstock.front.explorer.library import Library
    from penstock.front.explorer.state import State


@click.command("explore")
@click.argument("words", nargs=-1, metavar="[PROGRAM] [VIEW] [SETTING=VALUE]...")
@click.option("--runs", type=FOLDER, default=Path("runs"), help="The folder of the runs.")
@several_option("--machine", "machines", "A machine file to offer next to the catalogue", type=FILE)
@several_option(
    "--trace", "traces", "A program (.py), a package (.pkg) or a trace to offer next to the workloads", type=FILE
)
@several_option(
    "--policy", "policies", "A policy or prefetcher of your own (.py) to offer next to the engine's", type=FILE
)
@several_option("--predictions", "predictions", "Rows of 'predict validate --format json' to show", type=FILE)
@click.option(
    "--service",
    metavar="URL",
    help="Show a running service: the address of its operators, such as http://127.0.0.1:8701.",
)
@click.option(
    "--token-file",
    type=FILE,
    help="With --service: file with an operator's token, readable by its owner only. [default: $PENSTOCK_TOKEN]",
)
@ca_option
@click.option("--port", type=click.IntRange(0, 65535), default=8765, help="0 takes a free one.")
@click.option("--no-browser", is_flag=True, help="Only print the address.")
@click.option("--print", "printing", is_flag=True, help="Print the rows of VIEW and serve nothing.")
@format_option
def command(
    words: tuple[str, ...],
    service: str | None,
    token_file: Path | None,
    ca: Path | None,
    output_format: str,
    **asked: Any,
) -> None:
    """Open the explorer: the runs, and what-if questions answered while a slider moves.

    PROGRAM opens it on a workload, a program of your own (a .py file), a package (.pkg) or a recorded trace: its
    predicted run, parameter sets, precision, tenants and levels of memory are views like the others.

    The server answers to this machine only, and nothing that it shows comes from elsewhere. Every page has an address
    that restores it and the command that gives its numbers; 'docs/guides/explore.md' has the views and the settings. It
    ends with Ctrl-C.

    With --service it also shows a running 'penstock serve', once a second: queue, jobs, keys and latencies. The token
    stays in this process.

    \b
    Examples:
      penstock explore
      penstock explore slowdown machine=ark workload=bootstrapping
      penstock explore score.py suggest machine=sharp
      penstock explore score.py --policy mine.py hold=cache policy=file:mine.py
      penstock explore --runs /data/runs --machine mine.toml --port 0 --no-browser
      penstock explore --service http://127.0.0.1:8701 --token-file operator.token
      penstock explore residency workload=bootstrapping cache="256 MB" --print --format csv
    """
    from penstock.front.explorer.library import Library
    from penstock.front.explorer.live import Live

    program, view, settings = _read(words)
    traces = (*asked["traces"], *([program] if program is not None else []))
    library = Library.of(asked["runs"], asked["machines"], traces, asked["predictions"], asked["policies"])
    state = _state(settings, library, program)
    if service is None and token_file is not None:
        raise UsageError("--token-file is for --service: name the service, or leave it out")
    if asked["printing"]:
        if service is not None:
            raise UsageError("--print prints a view without a server: leave --service out, or ask GET /v1/work")
        _print(library, view, state, output_format)
        return
    try:
        from penstock.front.explorer.serve import bound, serve
    except ImportError as error:
        if (lacking := shortage(error)) is not None:
            raise PenstockError(lacking) from error
        raise CapabilityMissing(
            f"the explorer's server is not installed ({error}): pip install 'penstock[explore]'; "
            "'penstock explore VIEW --print' works without it"
        ) from error
    opened = view or ("whatif" if program is not None else "runs")
    query = urlencode({"view": opened, **state.to_query()}) if words else ""
    live = None if service is None else Live(service, read_token(token_file), ca=ca)
    path = f"/?{query}" if query else "/" if live is None else "/service"
    listening, browser = bound(asked["port"]), not asked["no_browser"]
    serve(library, listening, state, path=path, browser=browser, say=click.echo, live=live)


def _print(library: Library, view: str | None, state: State, output_format: str) -> None:
    """The rows of a view. Raises: UsageError: none is named; DamagedRun: files that its rows should be in."""
    from penstock.front.explorer.engine import Engine
    from penstock.front.explorer.views import VIEWS, show

    if view is None:
        raise UsageError(f"--print prints the rows of a view: name one of {', '.join(VIEWS)}")
    shown = show(Engine(library), view, state)
    emit(list(shown.rows), output_format)
    for warning in shown.warnings:
        if warning not in shown.damage:
            say_choice(f"warning: {warning}")
    if shown.damage:
        raise DamagedRun("\npenstock: ".join(shown.damage))


def _read(words: Sequence[str]) -> tuple[Path | None, str | None, list[tuple[str, str]]]:
    """The program, the view and the settings that the words of a command name.

    Raises: UnknownName: no such view; UsageError: a word too many, or no setting.
    """
    from penstock.front.explorer.views import VIEWS
    from penstock.program.workloads import ProgramKind, kind_of, names

    program: Path | None = None
    view: str | None = None
    settings: list[tuple[str, str]] = []
    for word in words:
        is_file = "=" not in word and word not in VIEWS and kind_of(word) is not ProgramKind.WORKLOAD
        if is_file and program is None:
            program = Path(word)
        elif "=" in word or view is not None:
            settings.append(_setting(word))
        elif word in VIEWS:
            view = word
        elif word in names() and not any(name == "workload" for name, _ in settings):
            settings.insert(0, ("workload", word))
        else:
            raise UnknownName("view", word, VIEWS)
    if program is not None and any(name == "workload" for name, _ in settings):
        raise UsageError(f"{program} is the program of the page: leave the other one out, or name it with --trace")
    return program, view, settings


def _state(settings: Sequence[tuple[str, str]], library: Library, program: Path | None) -> State:
    """The settings as a state; a program that was named is its workload, at the machine's own set unless one is named.

    Who names a cache or a policy wants keys held by it, and not a hit ratio.

    Raises: as `State.from_query`.
    """
    from penstock.front.explorer.state import FILE, State

    asked = dict(settings)
    if program is not None:
        files = {**library.program_files, **library.trace_files}
        name = next(name for name, path in files.items() if path == program)
        asked = {"workload": FILE + name, "params": "", **asked}
    if asked.keys() & {"cache", "policy"} and not asked.keys() & {"hold", "hit_ratio"}:
        asked["hold"] = "cache"
    return State.from_query(asked)


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise UsageError(f"setting '{text}': write NAME=VALUE, for example tier=rdma")
    return name.strip(), readable(value)

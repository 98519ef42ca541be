"""Options that several verbs share."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

import click
from click.core import ParameterSource

from penstock.errors import UsageError

if TYPE_CHECKING:
    from penstock.scheme.machines import Machine

Values: TypeAlias = dict[str, Any]
"""What the options of a command say: name of a parameter -> its value."""
Command: TypeAlias = Callable[..., Any]
"""The function of a command."""
Decorator: TypeAlias = Callable[[Command], Command]
"""An option, or several: what stands above the function of a command."""
PATH = click.Path(path_type=Path)
FILE = click.Path(path_type=Path, dir_okay=False)
FOLDER = click.Path(path_type=Path, file_okay=False)
THREADS = click.IntRange(min=1, max=4096)
"""Threads of one process: more than any machine has cores, and few enough for every library."""

params_option = click.option(
    "--params", help="Parameter set: a name of 'penstock params list' or a .toml file. Default: the size's own."
)
params_on_machine_option = click.option(
    "--params", help="Parameter set: a name of 'penstock params list' or a .toml file. Default: the machine's own."
)
"""Of a verb with machines: the set that they were built for, where the program runs on it; else the size's own."""
size_option = click.option(
    "--size", help="Named size of the workload. Default: the one that the parameters imply ('penstock workloads')."
)
data_option = click.option("--data", type=PATH, help="Your data: a folder (MNIST, CIFAR-10) or a file (genotypes).")
seed_option = click.option("--seed", type=click.IntRange(min=0), default=0, help="Seed of the data.")
key_form_option = click.option(
    "--key-form",
    metavar="FORM",
    help="Form of stored and moved keys: full, seeded, truncated, seeded+truncated. Default: the parameter set's.",
)
threads_option = click.option(
    "--threads", type=THREADS, help="Threads inside one operation. Default: all cores of this process."
)
quiet_option = click.option("--quiet", "-q", is_flag=True, help="No progress and no notes on stderr.")


def all_of(*options: Decorator) -> Decorator:
    """Add several options to a command, in this order."""

    def decorate(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


def choice_option(option: str, known: Sequence[str], text: str, **settings: Any) -> Decorator:
    """One of some words; the first of them where none is named, unless `default` says another."""
    return click.option(option, type=click.Choice(known), help=text, **{"default": known[0], **settings})


def count_option(option: str, default: int, text: str, **settings: Any) -> Decorator:
    """A whole number from 1 on."""
    return click.option(option, type=click.IntRange(min=1), default=default, help=text, **settings)


def several_option(option: str, field: str, text: str, **settings: Any) -> Decorator:
    """An option that may be repeated; the command gets a tuple `field`."""
    return click.option(option, field, multiple=True, help=f"{text}; may be repeated.", **settings)


program_options = all_of(params_option, size_option, data_option)
"""A program's set, size and data."""


measured_machine_option = click.option(
    "--machine", help="A machine's name or .toml file; 'penstock predict fit' writes one."
)

priced_options = all_of(measured_machine_option, params_on_machine_option, size_option)
"""A machine that prices, and a program's set and size."""


def machine_named(text: str | None) -> Machine:
    """The machine of `measured_machine_option`. Raises: UsageError: none is named; as `load_machine`."""
    from penstock.scheme.machines import load_machine, machine_names

    if text is None:
        raise UsageError(f"name a machine: --machine {'|'.join(machine_names())}, or a .toml file of your own")
    return load_machine(text)


def together(name: str, *options: Decorator, make: Callable[[Values], object] = dict) -> Decorator:
    """Give a command the values of several options as one argument: a dictionary, or what `make` makes of it."""

    def decorate(command: Command) -> Command:
        own = {parameter.name for parameter in getattr(command, "__click_params__", ())}

        @functools.wraps(command)
        def with_options(*arguments: object, **values: object) -> object:
            values[name] = make({option: values.pop(option) for option in names})
            return command(*arguments, **values)

        decorated = all_of(*options)(with_options)
        parameters = getattr(decorated, "__click_params__", ())
        names = [parameter.name for parameter in parameters if parameter.name not in own]
        return decorated

    return decorate


def parts_of(text: str) -> list[str]:
    """What stands between the commas of a text, without spaces around it."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers_of(text: str | None, option: str) -> tuple[int, ...] | None:
    """Whole numbers to try, `35,40`, `30..50` or `2^14`; `None`: the option is not given.

    Raises: UsageError: the text is something else.
    """
    from penstock.lab.prediction.whatif_axes import whole_numbers

    return None if text is None else tuple(whole_numbers(text.split(","), option))


def counts_of(text: str | None, option: str, example: str) -> tuple[int, ...] | None:
    """Whole numbers from 1 on, with commas between.

    Raises: UsageError: the text is something else.
    """
    if text is None:
        return None
    try:
        counts = tuple(int(part) for part in text.split(","))
    except ValueError:
        raise UsageError(f"{option} {text!r}: write whole numbers, {example}") from None
    if any(count < 1 for count in counts):
        raise UsageError(f"{option} {text!r}: ask for at least 1")
    return counts


def is_given(name: str) -> bool:
    """Whether the option of this parameter stands on the command line."""
    return click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE

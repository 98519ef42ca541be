"""`penstock predict`: fit a machine to measurements, price programs on it, and check how good that is."""

from __future__ import annotations

import importlib

import click

from penstock.errors import UnknownName

VERBS: dict[str, str] = {
    "fit": "Fit a machine to measured primitives.",
    "run": "Predict time, energy and memory of a program before it runs.",
    "validate": "Hold out configurations and applications, and compare predictions with what was measured.",
}
"""Verb -> one-line help. Each is the click command `command` of `penstock.cli.verbs.predict.<verb>`."""


class _Verbs(click.Group):
    """Loads a verb's module only when it is called."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in VERBS:
            return None
        module = importlib.import_module(f"{__name__}.{cmd_name}")
        command: click.Command = module.command
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args and args[0] not in VERBS and not args[0].startswith("-"):
            raise UnknownName("command of predict", args[0], VERBS)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(VERBS.items()))


@click.group("predict", cls=_Verbs)
def command() -> None:
    """Price any program on any machine, before it runs.

    \b
    Examples:
      penstock bench run --suite fit
      penstock predict fit -o mine.toml
      penstock predict run resnet20 --machine mine.toml
      penstock predict validate
    """

"""Command groups that load a verb's module only when it is called."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click

from penstock.errors import UnknownName


class NamedVerbs(click.Group):
    """Suggests the nearest verb for an unknown one."""

    what = ""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args and args[0] not in known and not args[0].startswith("-"):
            raise UnknownName(self.what or f"command of '{ctx.command_path}'", args[0], known)
        return super().resolve_command(ctx, args)


class LazyGroup(NamedVerbs):
    """Finds verbs by name without importing the others, and suggests the nearest for an unknown one.

    `verbs` maps each to its one-line help; verb `x` is the click command `command` of the module `<package>.x`, unless
    `places` names another: `"module:attribute"`. `what` names the kind of thing in the error for an unknown one.
    """

    def __init__(
        self,
        *args: Any,
        verbs: Mapping[str, str],
        package: str,
        what: str = "command",
        places: Mapping[str, str] | None = None,
        **options: Any,
    ) -> None:
        super().__init__(*args, **options)
        self.verbs, self.package, self.what, self.places = verbs, package, what, places or {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in self.verbs:
            return None
        place, _, attribute = self.places.get(cmd_name, f"{self.package}.{cmd_name}:command").partition(":")
        command: click.Command = getattr(importlib.import_module(place), attribute)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl(list(self.verbs.items()))

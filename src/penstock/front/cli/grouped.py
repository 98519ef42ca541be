"""Commands whose help shows options under headings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import click

WIDEST = 26
"""Columns for the names of options; a wider one has its help on the next line."""


class GroupedCommand(click.Command):
    """A command with many options: `groups` maps each heading to the names of its parameters.

    Raises: ValueError: an option without a group, in two groups, or a name without an option.
    """

    def __init__(self, *args: Any, groups: Mapping[str, Sequence[str]], **options: Any) -> None:
        super().__init__(*args, **options)
        self.groups = groups
        named = [name for names in groups.values() for name in names]
        shown = [parameter.name for parameter in self.params if isinstance(parameter, click.Option)]
        if sorted(named) != sorted(map(str, shown)):
            raise ValueError(
                f"{self.name}: headings name {sorted(named)}, and the options are {sorted(map(str, shown))}"
            )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write a section for each heading, all with the same columns."""
        groups = dict(self.groups)
        named = {name for names in groups.values() for name in names}
        own = [str(option.name) for option in self.get_params(ctx) if option.name not in named]
        last = list(groups)[-1]
        groups[last] = (*groups[last], *own)  # --help, which click adds
        records = {option.name: option.get_help_record(ctx) for option in self.get_params(ctx)}
        sections = [(head, [row for name in names if (row := records[name])]) for head, names in groups.items()]
        widths = [len(name) for _, rows in sections for name, _ in rows]
        column = max((width for width in widths if width <= WIDEST), default=WIDEST)
        for head, rows in sections:
            with formatter.section(head):
                formatter.write_dl([(name.ljust(column), text) for name, text in rows], col_max=column)

"""`penstock reproduce`: published results next to our own. The studies are the distribution penstock-studies."""

from __future__ import annotations

import click

from penstock.base import plugins
from penstock.base.system import remedy
from penstock.errors import CapabilityMissing


class _Studies(click.Group):
    """The studies that are installed. Their entry points are read when one is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(plugins.registered(plugins.STUDIES))

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        place = plugins.registered(plugins.STUDIES).get(cmd_name)
        if place is None:
            return None
        command: click.Command = place.load()
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if not self.list_commands(ctx):
            raise CapabilityMissing(f"no study is installed here: {remedy.studies()}")
        return super().resolve_command(ctx, args)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        if not self.list_commands(ctx):
            formatter.write_paragraph()
            formatter.write_text(f"No study is installed here: {remedy.studies()}.")


@click.group("reproduce", cls=_Studies)
def command() -> None:
    """Compare published results with the same quantities from our own traces, models and measurements.

    Each table begins with a verdict: how many published numbers come out within 10 %, and the largest error.

    \b
    Example:
      penstock reproduce cryptoracle
      penstock reproduce io-study
      penstock reproduce fheins
    """

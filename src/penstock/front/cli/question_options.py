"""The options of a question to the simulator, made from the table of words, and the question that they make."""

from __future__ import annotations

import click

from penstock.base.types import Row
from penstock.front.cli.grouped import GroupedCommand
from penstock.front.cli.options import Decorator, Values, is_given, together
from penstock.lab.simulation.worded import WordedQuestion, worded_question
from penstock.lab.simulation.words import GROUPS, OPTIONS, QuestionWord, Words

_TYPES = {"number": click.FLOAT, "count": click.IntRange(min=0)}


def _option(word: QuestionWord) -> Decorator:
    """A word as an option."""
    settings: Row = {"help": word.text(), "default": word.usual}
    if word.takes == "flag":
        return click.option(OPTIONS(word.name), is_flag=True, **settings)
    known = click.Choice(word.known()) if word.strict else None
    return click.option(
        OPTIONS(word.name),
        multiple=word.several,
        type=known or _TYPES.get(word.takes, click.STRING),
        metavar=word.metavar,
        **settings,
    )


QUESTION_GROUPS = {
    group: tuple(OPTIONS(word.name)[2:].replace("-", "_") for word in OPTIONS.taken() if word.group == group)
    for group in GROUPS
}
"""Heading in the help of a verb -> its options, by the names of their parameters."""


class QuestionCommand(GroupedCommand):
    """A command that takes the words of a question. A word of another front end is refused with its reason.

    Raises: UsageError.
    """

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """As click does."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            OPTIONS.check(error.option_name)
            raise


def _asked(values: Values) -> WordedQuestion:
    given = {OPTIONS.field(f"--{name.replace('_', '-')}"): name for name in values}
    return worded_question(
        Words(**{word: values[name] for word, name in given.items()}),
        {word for word, name in given.items() if is_given(name)},
        OPTIONS,
    )


question_options = together("asked", *map(_option, OPTIONS.taken()), make=_asked)
"""Adds every option of a question; the command gets one argument `asked`, an `WordedQuestion`."""

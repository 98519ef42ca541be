"""`penstock completion`: the script with which a shell completes words of `penstock`."""

from __future__ import annotations

import click

from penstock.front.cli.completion import SHELLS, script


@click.command("completion")
@click.argument("shell", type=click.Choice(list(SHELLS)))
def command(shell: str) -> None:
    """Print the script that completes verbs, options, names and files in a shell.

    \b
    Install it once, then open a new shell:
      penstock completion bash > ~/.local/share/bash-completion/completions/penstock
      penstock completion zsh > ~/.zfunc/_penstock        with 'fpath+=~/.zfunc' before 'compinit' in ~/.zshrc
      penstock completion fish > ~/.config/fish/completions/penstock.fish
    """
    click.echo(script(shell), nl=False)

"""One style of errors in all verbs, and one exit code for a file that is not there."""

from __future__ import annotations

from collections.abc import Iterator

import click
import pytest

from penstock.front.cli.main import cli, main


def commands(group: click.Group = cli, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of every command."""
    context = click.Context(group, info_name="penstock")
    for name in group.list_commands(context):
        found = group.get_command(context, name)
        assert found is not None
        if isinstance(found, click.Group):
            yield from commands(found, (*words, name))
        else:
            yield (*words, name)


COMMANDS = list(commands())


@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
def test_an_unknown_option_is_one_line_that_names_it_and_the_help(
    capsys: pytest.CaptureFixture[str], words: tuple[str, ...]
) -> None:
    assert main([*words, "--no-such-option"]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith("penstock: no such option '--no-such-option'")
    assert found.err.endswith(f"; see 'penstock {' '.join(words)} --help'\n")
    assert found.err.count("\n") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["simulate"], "penstock: missing argument 'TRACE|WORKLOAD'; see 'penstock simulate --help'"),
        (["simulate", "--machin", "sharp"], "--machine"),
        (["run", "inner-product", "--reading", "x"], "'x' is not one of 'clear', 'noisy', 'openfhe', 'native'"),
        (["run", "inner-product", "--threads", "0"], "0 is not in the range 1<=x<=4096"),
        (["bnch"], "did you mean 'bench'?"),
    ],
)
def test_other_slips_are_of_the_same_style(capsys: pytest.CaptureFixture[str], words: list[str], said: str) -> None:
    assert main(words) == 2
    message = capsys.readouterr().err
    assert message.startswith("penstock: ")
    assert said in message
    assert "Usage:" not in message


SIMULATE = ["simulate", "inner-product", "--machine", "sharp", "--params", "sharp"]


@pytest.mark.parametrize(
    "words",
    [
        ["simulate", "no.parquet", "--machine", "sharp"],
        ["simulate", "inner-product", "--machine", "no.toml"],
        ["simulate", "inner-product", "--machine", "sharp", "--params", "no.toml"],
        [*SIMULATE, "--tier", "no.toml"],
        [*SIMULATE, "--hosts", "2", "--network", "no.toml"],
        [*SIMULATE, "--hosts", "2", "--network", "ethernet-400", "--topology", "no.toml"],
        [*SIMULATE, "--levels", "no.toml"],
        [*SIMULATE, "--with", "no.parquet"],
        ["run", "no.py"],
        ["analyze", "no.py"],
        ["profile", "no.py"],
        ["trace", "no.py"],
        ["workloads", "no.py"],
        ["run", "--tenants", "no.toml", "--jobs", "no.toml"],
        ["record", "no.py"],
        ["trace", "info", "no.parquet"],
        ["trace", "validate", "no.parquet"],
        ["trace", "diff", "no.parquet", "no.parquet"],
        ["trace", "expand", "no.parquet", "-o", "x.parquet"],
        ["trace", "export", "no.parquet", "--to", "jsonl", "-o", "x.jsonl"],
        ["trace", "import", "no.bin", "--from", "heracles", "-o", "x.parquet"],
        ["trace", "rewrite", "no.parquet", "--pass", "hoist", "-o", "x.parquet"],
        ["predict", "run", "no.py", "--machine", "sharp"],
        ["predict", "run", "no.parquet", "--machine", "sharp"],
        ["predict", "run", "--op-counts", "no.csv", "--params", "sharp", "--machine", "sharp"],
        ["predict", "suggest", "no.py", "--machine", "sharp"],
        ["predict", "precision", "no.py"],
        ["predict", "fit", "no", "-o", "x.toml"],
        ["predict", "validate", "no"],
        ["sweep", "no.toml"],
        ["report", "no"],
        ["reproduce", "cryptoracle", "--data", "no"],
        ["bench", "run", "--suite", "no.toml"],
        ["bench", "compare", "no", "no"],
        ["ssd", "scan", "--drive", "no.toml"],
        ["database", "query", "no", "--index", "1"],
        ["machines", "show", "no.toml"],
        ["machines", "check", "no.toml"],
        ["params", "show", "no.toml"],
        ["params", "size", "no.toml"],
    ],
    ids=lambda words: " ".join(words),
)
def test_a_file_that_is_not_there_ends_every_verb_with_2_and_is_named(
    capsys: pytest.CaptureFixture[str],
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
    words: list[str],
) -> None:
    monkeypatch.chdir(tmp_path_factory.mktemp("empty"))
    assert main(words) == 2
    message = capsys.readouterr().err
    named = next(word for word in words if word == "no" or word.startswith("no."))
    assert message.splitlines()[-1].startswith("penstock: "), "progress may stand before it"
    assert named in message
    assert "internal error" not in message

"""The table of words: each word stands in each front end, or is refused there with its reason."""

import inspect
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import get_args

import click
import pytest

import penstock as ps
from penstock.errors import UnknownName, UsageError
from penstock.front.cli.completion import index
from penstock.front.cli.main import cli
from penstock.front.cli.main import main as run_command
from penstock.front.explorer.asked import OF_VIEWS, Asked
from penstock.front.explorer.library import Library
from penstock.front.explorer.state import MORE, State
from penstock.lab.advice.words import Setting
from penstock.lab.simulation.words import (
    ARGUMENTS,
    FRONTS,
    GROUPS,
    KEYS,
    OPTIONS,
    SETTINGS,
    WORDS,
    Front,
    QuestionWord,
    Spelling,
    Takes,
)
from penstock.lab.sweeps.spec import parse_sweep
from penstock.scheme.machines import load_machine

PROGRAM = {"program", "params", "size", "seed"}
SPELLINGS = (OPTIONS, ARGUMENTS, KEYS, SETTINGS)
VALUES = {
    "tenants": "2", "limit": "3", "hosts": "2", "hit_ratio": 0.5, "prefetch_depth": 2, "decode": "1 GB/s",
    "prefetch": "perfect", "prefetch_buffer": "64 MB", "cache": "1 GiB", "levels": "on-chip,hbm",
    "network": "infiniband-ndr", "pin": "keys=hbm", "share": "keys=on-chip:1 MB", "reserve": "hbm=1 GB",
    "beside": "logistic-regression", "machine": "ark", "tier": "pcie5",
}  # fmt: skip


def refused(spelling: Spelling) -> list[QuestionWord]:
    return [word for word in WORDS.values() if spelling.front in word.refused]


def options() -> dict[str, click.Option]:
    command = cli.get_command(click.Context(cli), "simulate")
    assert command is not None
    return {param.opts[0]: param for param in command.params if isinstance(param, click.Option)}


@pytest.mark.parametrize("word", WORDS.values(), ids=lambda word: word.name)
def test_a_word_says_all_that_front_ends_need(word: QuestionWord) -> None:
    assert word.help
    assert word.group in GROUPS
    assert word.takes in get_args(Takes)
    assert set(word.refused) <= set(FRONTS)
    assert set(word.spelled) <= set(FRONTS)
    assert all(reason for reason in word.refused.values())
    assert word.fronts(), "some front end takes it"
    assert not word.registry or word.known(), "its registry holds values"
    assert not word.strict or word.registry
    if word.registry and not word.axis and isinstance(word.usual, str):
        assert word.usual in word.known()


def test_each_word_is_an_option_with_its_default_help_and_completion() -> None:
    found = options()
    completed = {each["names"][0]: each["takes"] for each in index()["commands"]["simulate"]["options"]}
    for word in OPTIONS.taken():
        option = found[OPTIONS(word.name)]
        assert option.help == word.text()
        assert option.multiple == word.several
        assert option.is_flag == (word.takes == "flag")
        assert option.metavar == word.metavar
        taken = completed[OPTIONS(word.name)]
        assert set(word.known()) <= set(taken), "a shell completes the known values"


def test_each_word_is_an_argument() -> None:
    known = set(inspect.signature(ps.simulate).parameters)
    assert known == PROGRAM | {ARGUMENTS(word.name) for word in ARGUMENTS.taken()}


def of_option(word: str) -> None:
    command = cli.get_command(click.Context(cli), "simulate")
    assert command is not None
    command.parse_args(click.Context(command), ["inner-product", word, "1"])


def of_argument(word: str) -> None:
    ps.simulate("inner-product", "sharp", **{word: 1})


def of_key(word: str) -> None:
    parse_sweep(f'workload = "inner-product"\nmachine = "sharp"\n{word} = 1', "test")


def of_setting(word: str) -> None:
    State.from_query({word: "1"})


TRIED: dict[Front, Callable[[str], None]] = {
    "option": of_option, "argument": of_argument, "key": of_key, "setting": of_setting,
}  # fmt: skip


@pytest.mark.parametrize("front", TRIED)
def test_a_refused_word_says_why_and_where_it_works(front: Front) -> None:
    spelling = Spelling(front)
    assert refused(spelling), "else the test tries nothing"
    for word in refused(spelling):
        written = OPTIONS(word.name) if front == "option" else word.name
        with pytest.raises(UsageError) as error:
            TRIED[front](written)
        assert word.refused[front] in str(error.value)
        for other in word.fronts():
            assert f"{FRONTS[other]} as {Spelling(other)(word.name)}" in str(error.value)


@pytest.mark.parametrize(
    ("front", "written", "right"),
    [("option", "--beside", "--with"), ("option", "--tiers", "--tier"), ("argument", "with", "beside"),
     ("argument", "tier", "tiers"), ("key", "beside", "with"), ("setting", "prefetch_buffer", "buffer")],
)  # fmt: skip
def test_a_word_of_another_front_end_is_told_its_spelling(front: Front, written: str, right: str) -> None:
    with pytest.raises(UsageError, match=f"{FRONTS[front]} writes it {right}"):
        TRIED[front](written)


@pytest.mark.parametrize(
    ("front", "written", "nearest"),
    [("argument", "topologie", "topology"), ("key", "polici", "policy"), ("setting", "topologie", "topology")],
)
def test_an_unknown_word_gets_the_nearest(front: Front, written: str, nearest: str) -> None:
    with pytest.raises(UnknownName) as error:
        TRIED[front](written)
    assert error.value.nearest == nearest


def test_an_unknown_option_gets_the_nearest(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["simulate", "inner-product", "--machine", "sharp", "--topologie", "ring"]) == 2
    assert "--topology" in capsys.readouterr().err


@pytest.mark.parametrize("word", KEYS.taken(), ids=lambda word: word.name)
def test_each_word_is_a_key_of_sweeps(word: QuestionWord) -> None:
    other = [each for each in word.known() if each != word.usual and (each,) != word.usual]
    value = {"flag": True, "counts": 2}.get(word.takes, VALUES.get(word.name) or (other or ["1"])[0])
    needs = {
        "prefetch": {"mode": "overlap", "prefetch_buffer": "64 MB"}, "interleave": {"with": "logistic-regression"},
        "prefetch_buffer": {"mode": "overlap", "prefetch": "perfect"}, "inclusion": {"levels": "on-chip,hbm"},
        "policy": {"cache": "1 GiB"}, "write_back": {"classes": "ciphertexts", "cache": "1 GiB"},
    }.get(word.name, {})  # fmt: skip
    keys = {"workload": "inner-product", "machine": "sharp", **needs, KEYS(word.name): value}
    (table,) = parse_sweep("\n".join(f"{key} = {json.dumps(each)}" for key, each in keys.items()), "test").tables
    assert getattr(table.words, word.name) in (value, str(value), (value,)), "the question has the value"
    assert word.name in table.stated


def address(word: QuestionWord) -> dict[str, str]:
    """An address that says this word, where its page looks at it."""
    other = [each for each in word.known() if each != word.usual and (each,) != word.usual]
    value = str({"flag": "yes"}.get(word.takes, VALUES.get(word.name) or (other or ["1"])[0]))
    held, ahead = {"hold": "cache"}, {"mode": "overlap", "prefetch": "perfect"}
    needs = {"cache": held, "policy": held, "write_back": held | {"classes": "ciphertexts"}, "prefetch": ahead,
             "buffer": ahead, "network": {"hosts": "2"}, "partition": {"hosts": "2"}}  # fmt: skip
    return needs.get(SETTINGS(word.name), {}) | {SETTINGS(word.name): value}


@pytest.mark.parametrize("word", SETTINGS.taken(), ids=lambda word: word.name)
def test_each_word_is_a_setting_whose_value_reaches_the_question_and_the_command(word: QuestionWord) -> None:
    query = address(word)
    state = State.from_query(query)
    assert State.from_query(state.to_query()) == state
    library = Library(runs=Path("no-such-folder"))
    of = {"levels": {"levels": ["on-chip,hbm"]}, "tenants": {"tenants": [2]}, "hosts": {"hosts": [2]}}
    view = "levels" if word.name == "levels" else OF_VIEWS.get(word.name, "")
    asked = Asked.of(state, **of.get(view, {}))
    said = asked.words(library)[word.name]
    text = {True: "yes"}.get(said, said) if isinstance(said, bool) else said if isinstance(said, str) else said[0]
    assert str(text) == query[SETTINGS(word.name)]
    asked.question(library, [load_machine(state.machine)])
    assert OPTIONS(word.name) in asked.command(library).split()


PAGES_DIFFER = {
    "machine": "a page shows a machine before anyone names one",
    "tier": "a page shows one tier, and the view slowdown all",
    "hit_ratio": "a slider stands somewhere: nothing on chip, as without the word",
    "cache": "what the control shows once a cache is chosen",
    "policy": "lru, which is meant where nobody says one",
    "network": "what several hosts get as soon as the slider makes some",
    "prefetch": "next-1, which is meant where nobody says one",
    "prefetch_buffer": "what perfect prefetching gets as soon as it is chosen",
}


def test_a_page_shows_the_usual_value_of_each_word_or_has_a_reason_for_another() -> None:
    differ = set()
    for word in SETTINGS.taken():
        usual = ",".join(word.usual) if isinstance(word.usual, tuple) else str(word.usual or "")
        shown = State().text(word.name)
        differ |= set() if shown == {"": ""}.get(usual, usual) or (word.takes, shown) == ("flag", "no") else {word.name}
    assert differ == set(PAGES_DIFFER)


@pytest.mark.parametrize("name", ["policy", "prefetch", "topology", "interleave"])
def test_no_word_of_an_address_is_a_path(name: str) -> None:
    for path in ("/etc/passwd", "mine.py", "ring.toml", "/tmp/mine.py:k=8"):
        with pytest.raises(UnknownName):
            State.from_query({name: path})


@pytest.mark.parametrize("word", OPTIONS.taken(), ids=lambda word: word.name)
def test_advice_writes_each_word_as_the_command_takes_it(word: QuestionWord) -> None:
    value = VALUES.get(word.name) or (word.known() or ("1",))[0]
    said = {"flag": True}.get(word.takes, (value,) if word.several else value)
    command = Setting(program="inner-product", words={word.name: said}).command()
    assert command is not None
    assert OPTIONS(word.name) in command.split()


def test_a_word_with_few_values_refuses_others_in_python_too() -> None:
    with pytest.raises(UnknownName, match="by-latency"):
        ps.simulate("inner-product", "sharp", hosts=2, network="ethernet-400", sharing="by-lateny")


def test_values_of_another_type_are_refused_or_read_as_texts() -> None:
    asked = {"program": "inner-product", "machine": "sharp"}
    for words, message in (
        ({"tiers": []}, "tiers is empty: name at least one"),
        ({"write_back": "no"}, "write_back is 'no': write True or False"),
        ({"prefetch": 4, "mode": "overlap"}, "unknown prefetch '4'"),
    ):
        with pytest.raises(UsageError, match=re.escape(message)):
            ps.simulate(**asked, **words)


def test_an_empty_setting_is_the_usual_one() -> None:
    query = {SETTINGS(word.name): "" for word in SETTINGS.taken() if SETTINGS(word.name) in MORE}
    assert State.from_query(query) == State()
    with pytest.raises(UnknownName, match="topology"):
        State.from_query({"topology": "file:x.toml"})

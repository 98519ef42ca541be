"""Module paths of version 0.1: an import says where the module went, and the new path is there."""

from __future__ import annotations

import importlib
import importlib.util

import pytest

from penstock.base.moved import _APART, _WINGS, new_path

OLD = sorted({room for rooms in _WINGS.values() for room in rooms.split()} | set(_APART))


@pytest.mark.parametrize("old", OLD)
def test_what_an_old_path_names_is_there(old):
    place = new_path(f"penstock.{old}")
    assert place is not None
    assert importlib.util.find_spec(place) is not None


@pytest.mark.parametrize(
    ("statement", "old", "new"),
    [
        ("import penstock.simulation.own", "simulation.own", "scheme.play.own"),
        ("from penstock.simulation.own import Priority", "simulation.own", "scheme.play.own"),
        (
            "from penstock.simulation.memory.hierarchy import Mode",
            "simulation.memory.hierarchy",
            "scheme.play.hierarchy",
        ),
        ("from penstock.simulation import caches", "simulation.caches", "scheme.play.caches"),
        ("from penstock.client import KeyPair", "client", "runtime.client"),
        ("from penstock.params import catalogue", "params", "scheme.params"),
        ("import penstock.client; penstock.client.KeyPair", "client", "runtime.client"),
        ("import penstock.traces.io", "traces.io", "scheme.traces.io"),
    ],
)
def test_an_import_of_an_old_path_says_the_new_one(statement, old, new):
    with pytest.raises(ModuleNotFoundError) as refused:
        exec(statement, {})
    assert str(refused.value) == f"No module named 'penstock.{old}': it is 'penstock.{new}' since penstock 0.2"


def test_a_module_that_is_joined_with_another_names_the_room_that_has_it():
    with pytest.raises(ModuleNotFoundError) as refused:
        importlib.import_module("penstock.cli.unsteered")
    assert str(refused.value) == (
        "No module named 'penstock.cli.unsteered': since penstock 0.2 'penstock.front.cli' has what it had"
    )


def test_paths_that_programs_of_users_name_still_work():
    for module, name in (("penstock.errors", "UsageError"), ("penstock.program.evaluator", "Evaluator")):
        assert hasattr(importlib.import_module(module), name)


def test_a_name_that_never_was_is_refused_as_ever():
    with pytest.raises(ModuleNotFoundError, match=r"^No module named 'penstock\.nothing'$"):
        importlib.import_module("penstock.nothing")

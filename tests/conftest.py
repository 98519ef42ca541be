from __future__ import annotations

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path
from typing import Any

import pytest
from _pytest.doctest import DoctestModule
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

sys.path.insert(0, str(Path(__file__).parent))
from support.examples import ASKED, CORE, WHOLE
from support.tiers import TIERS, Pieces, Recording, in_core, longest_first, recorded

# One thread an operation: tests share two cores. It must be set before OpenFHE is imported anywhere.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tests start thousands of processes: each would compile every module again, and so would each that collects.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False
# What a shell starts in the background ignores Ctrl-C, and so would the commands that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A deadline fails a test for what else the machine is doing.
# The same commit draws the same cases, so that it passes or fails each time; `make fuzz` draws others.
settings.register_profile("core", deadline=None, max_examples=CORE, derandomize=not ASKED)
settings.register_profile("whole", deadline=None, max_examples=int(ASKED or WHOLE), derandomize=not ASKED)


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--tier", choices=TIERS, help="run the tests of one target of the Makefile")
    parser.addoption("--took", type=Path, help="write the seconds of each test into this file")


class DoctestsWhereTheyStand:
    """A module without an example is neither imported nor searched for one: that takes half of collecting."""

    @pytest.hookimpl(wrapper=True)
    def pytest_collect_file(self, file_path: Path) -> Generator[None, list[pytest.Collector], list[pytest.Collector]]:
        collected = yield
        return [each for each in collected if not isinstance(each, DoctestModule) or ">>> " in file_path.read_text()]


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(DoctestsWhereTheyStand())
    settings.load_profile("whole" if config.option.tier in ("rest", "all") else "core")
    if config.option.took and not hasattr(config, "workerinput"):
        config.pluginmanager.register(Recording(config.option.took))


@pytest.hookimpl(wrapper=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Collected tests stay until the end, so the garbage collector need not look for them."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose the tests of a tier, and put those that take longest first."""
    tier, seconds = config.option.tier, recorded()
    if tier in (None, "core", "smoke") and not config.option.markexpr:
        kept = [item for item in items if item.get_closest_marker("long") is None]
    else:
        kept = list(items)
    marked = {item.nodeid for item in kept if item.get_closest_marker("smoke")}
    if tier == "smoke":
        kept = [item for item in kept if item.nodeid in marked]
    elif tier in ("core", "rest"):
        brief = [item.nodeid for item in items if item.get_closest_marker("long") is None]
        core = in_core(brief, seconds, marked)
        kept = [item for item in kept if (item.nodeid in core) == (tier == "core")]
    if len(kept) < len(items):
        chosen = {id(item) for item in kept}
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in chosen])
    if hasattr(config, "workerinput"):
        kept = [kept[place] for place in longest_first([item.nodeid for item in kept], seconds)]
    items[:] = kept


class Dealt(LoadScopeScheduling):
    """Sends pieces of files to the processes, as `Pieces` cuts them."""

    def __init__(self, config: pytest.Config, log: Any) -> None:
        super().__init__(config, log)
        self._pieces = Pieces(recorded())

    def _split_scope(self, nodeid: str) -> str:
        return self._pieces.of(nodeid)


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Dealt:
    return Dealt(config, log)


@pytest.fixture(scope="session")
def watch():
    """Notes what this process encrypts while it makes packages, and searches them for it."""
    from support.package_watch import WATCH, install

    install()
    return WATCH


@pytest.fixture(scope="session", autouse=True)
def watching(watch: Any) -> None:
    """Packages of fixtures are searched too."""


@pytest.fixture(autouse=True)
def no_package_holds_its_inputs(request: pytest.FixtureRequest, watch: Any) -> Iterator[None]:
    """Fails a test that makes a package with an input inside. The mark `holds_inputs` says why one may."""
    watch.begin()
    yield
    found = watch.taken()
    if request.node.get_closest_marker("holds_inputs") is None:
        assert not found, "packages hold what their programs encrypt: " + "\n".join(found)


@pytest.fixture(scope="session")
def openfhe():
    """OpenFHE, or a skip that names what is missing."""
    from penstock.errors import CapabilityMissing
    from penstock.program.openfhe.evaluator import load_openfhe

    try:
        return load_openfhe()
    except CapabilityMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def encrypting() -> str:
    """The client library that encrypts unless another is named, or a skip that names what is missing."""
    from penstock.errors import CapabilityMissing
    from penstock.runtime.native.client import chosen_library, require_library

    try:
        require_library("native", None)
    except CapabilityMissing as error:
        pytest.skip(str(error))
    return chosen_library().name


@pytest.fixture(params=("penstock", "openfhe"))
def library(request: pytest.FixtureRequest) -> str:
    """Each client library in turn, or a skip that names what is missing."""
    from penstock.errors import CapabilityMissing
    from penstock.runtime.native.client import LIBRARIES, require_library

    if request.param not in LIBRARIES:
        pytest.skip("no such client library")
    try:
        require_library("native", request.param)
    except CapabilityMissing as error:
        pytest.skip(str(error))
    return str(request.param)

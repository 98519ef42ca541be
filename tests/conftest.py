from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings
from xdist.scheduler import LoadScopeScheduling

# One thread an operation: tests share two cores. It must be set before OpenFHE is imported anywhere.
os.environ.setdefault("OMP_WAIT_POLICY", "passive")
os.environ.setdefault("OMP_NUM_THREADS", "1")
sys.path.insert(0, str(Path(__file__).parent))
# Tests start thousands of processes: each would compile every module again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# What a shell starts in the background ignores Ctrl-C, and so would the commands that the tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A deadline fails a test for what else the machine is doing.
settings.register_profile("penstock", deadline=None)
settings.load_profile("penstock")

# Longest first: a long file that begins last keeps one core waiting for the other.
LONGEST = (
    "test_docs_blocks", "test_command_line", "test_rewrites_keep_results", "test_native_bootstrap", "test_io_study",
    "test_wheel", "test_bench_openfhe", "test_machines_price_workloads", "test_database", "test_explore_browser",
    "test_fault_kills", "test_networks_openfhe", "test_precision_openfhe", "test_native_reading", "test_notebooks",
    "test_random_programs", "test_explore_server", "test_predict_fit", "test_sweep", "test_tenant_queue",
    "test_profile_openfhe", "test_cryptoracle_primitives", "test_workloads", "test_explore_limits", "test_suggest",
    "test_help_examples", "test_fault_service", "test_networks_native", "test_docs_site", "test_engine_stubs",
)  # fmt: skip


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Without `-m`, tests marked `long` are left out. Where processes share tests, the longest files come first."""
    if not config.option.markexpr:
        items[:] = [item for item in items if item.get_closest_marker("long") is None]
    if hasattr(config, "workerinput"):
        rank = {name: place for place, name in enumerate(LONGEST)}
        items.sort(key=lambda item: rank.get(item.path.stem, len(rank)))


class Files(LoadScopeScheduling):
    """Sends whole files to a process, and pages of the documentation one by one."""

    def _split_scope(self, nodeid: str) -> str:
        file, _, name = nodeid.partition("::")
        return nodeid if name.startswith("test_what_a_page_shows") else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Files:
    return Files(config, log)


@pytest.fixture(scope="session")
def watch():
    """Notes what this process encrypts while it makes packages, and searches them for it."""
    from package_watch import WATCH, install

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
    from penstock.openfhe.evaluator import load_openfhe

    try:
        return load_openfhe()
    except CapabilityMissing as error:
        pytest.skip(str(error))


@pytest.fixture(scope="session")
def encrypting() -> str:
    """The client library that encrypts unless another is named, or a skip that names what is missing."""
    from penstock.errors import CapabilityMissing
    from penstock.native.client import chosen_library, require_library

    try:
        require_library("native", None)
    except CapabilityMissing as error:
        pytest.skip(str(error))
    return chosen_library().name


@pytest.fixture(params=("penstock", "openfhe"))
def library(request: pytest.FixtureRequest) -> str:
    """Each client library in turn, or a skip that names what is missing."""
    from penstock.errors import CapabilityMissing
    from penstock.native.client import LIBRARIES, require_library

    if request.param not in LIBRARIES:
        pytest.skip("no such client library")
    try:
        require_library("native", request.param)
    except CapabilityMissing as error:
        pytest.skip(str(error))
    return str(request.param)

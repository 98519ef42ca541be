"""The studies are a distribution of their own: found by entry points, never imported, and missed with a remedy."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from penstock.base import plugins
from penstock.base.system import toml
from penstock.errors import CapabilityMissing, UnknownName
from penstock.front.cli.main import main
from penstock.lab.prediction.importers import BUILDS, load
from penstock.program import workloads
from penstock_studies.importers import settings

ROOT = Path(__file__).parents[3]
PROJECT = toml.loads((ROOT / "studies/pyproject.toml").read_text())["project"]
HEADER = "security_standard_level,n,batch_size,depth,num_threads,CPU Model Name,CKKS_Add Time\n"


@pytest.fixture
def hidden(monkeypatch) -> Iterator[None]:
    """As where penstock-studies is not installed."""
    monkeypatch.setattr(plugins, "registered", lambda group: {})
    workloads._modules.cache_clear()
    yield
    workloads._modules.cache_clear()


@pytest.fixture
def unread(monkeypatch) -> Iterator[None]:
    """Entry points that fail as they are read."""

    def refuse(group: str) -> dict[str, EntryPoint]:
        raise AssertionError(f"the entry points of {group} were read")

    monkeypatch.setattr(plugins, "registered", refuse)
    workloads._modules.cache_clear()
    yield
    workloads._modules.cache_clear()


@pytest.mark.parametrize("group", [plugins.STUDIES, plugins.WORKLOADS, plugins.IMPORTERS])
def test_what_is_installed_is_what_the_project_states(group):
    places = {name: point.value for name, point in plugins.registered(group).items()}
    assert places == PROJECT["entry-points"][group]


def test_every_workload_of_the_studies_has_the_name_that_it_is_found_by():
    names = [name for name in workloads.names() if name.startswith("cryptoracle-")]
    assert names == sorted(PROJECT["entry-points"][plugins.WORKLOADS])
    assert [workloads.get(name).NAME for name in names] == names


def test_nothing_in_penstock_imports_the_studies():
    imports = re.compile(r"^\s*(?:from|import) penstock_studies\b", re.M)
    sources = (ROOT / "src").rglob("*.py")
    assert [str(path) for path in sources if imports.search(path.read_text(encoding="utf-8"))] == []


@pytest.mark.usefixtures("hidden")
class TestWithoutTheStudies:
    @pytest.mark.parametrize("words", [["io-study"], ["cryptoracle", "--format", "json"], ["io-study", "--help"]])
    def test_a_study_is_missed_with_the_remedy(self, words, capsys):
        assert main(["reproduce", *words]) == CapabilityMissing.exit_code
        assert "pip install ./studies" in capsys.readouterr().err

    def test_the_help_says_how_to_get_them(self, capsys):
        assert main(["reproduce", "--help"]) == 0
        shown = " ".join(capsys.readouterr().out.split())
        assert "No study is installed here" in shown
        assert "pip install ./studies" in shown

    def test_a_workload_of_theirs_is_missed_with_the_remedy_and_another_as_ever(self, capsys):
        with pytest.raises(CapabilityMissing, match=r"cryptoracle-resnet20.*pip install \./studies"):
            workloads.get("cryptoracle-resnet20")
        with pytest.raises(UnknownName, match="did you mean 'inner-product'"):
            workloads.get("inner-produkt")
        assert "resnet20" in workloads.names()
        assert "cryptoracle-resnet20" not in workloads.names()
        assert main(["workloads", "--format", "csv"]) == 0
        assert "\ncryptoracle-" not in capsys.readouterr().out

    def test_cryptoracles_files_are_missed_with_the_remedy(self, tmp_path):
        (tmp_path / "timings.csv").write_text(HEADER)
        (tmp_path / "application.yaml").write_text("name: cifar10\n")
        for path in (tmp_path, tmp_path / "application.yaml", tmp_path / "timings.csv"):
            with pytest.raises(CapabilityMissing, match=r"pip install \./studies"):
                load(path)


@pytest.mark.usefixtures("unread")
def test_what_needs_no_study_reads_no_entry_points(capsys):
    assert main(["simulate", "inner-product", "--params", "sharp", "--machine", "sharp", "--tier", "pcie5"]) == 0
    assert main(["predict", "fit", "--help"]) == 0
    capsys.readouterr()


def test_the_first_help_reads_no_entry_points():
    code = "import sys; from penstock.front.cli.main import main; main(['--help']); "
    code += "print('importlib.metadata' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    assert done.stdout.split()[-1] == "False"


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("studies.io_study", "penstock_studies.io_study"),
        ("workloads.cryptoracle_cifar10", "penstock_studies.workloads.cifar10"),
    ],
)
def test_an_import_of_an_old_path_says_the_new_one(old, new):
    with pytest.raises(ModuleNotFoundError, match=f"it is '{new}' since penstock 0.2"):
        importlib.import_module(f"penstock.{old}")


def test_the_builds_that_the_command_line_offers_are_those_of_the_files():
    assert (settings.PLAIN, settings.HEXL, settings.WITHOUT_HEXL) == BUILDS

"""Where penstock was installed from a wheel there is no Makefile, and no message names one."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from penstock.base.system import doctor, probe, remedy
from penstock.base.system.host import Host, Printed
from penstock.errors import CapabilityMissing, UsageError
from penstock.lab.simulation.cluster.simgrid import SimGridMissing, find_python
from penstock.runtime.keystore.place import object_settings

SOURCE = Path(__file__).parents[3] / "src/penstock"
MAKE = re.compile(r"\bmake (setup|demo|simgrid|clean)")
FAILED_IMPORTS = [
    ("3.11.7", "ModuleNotFoundError: No module named 'openfhe'"),
    ("3.10.13", "ModuleNotFoundError: No module named 'openfhe'"),
    ("3.10.13", "ModuleNotFoundError: No module named 'openfhe.openfhe'"),
    ("3.10.13", "ImportError: libgomp.so.1: cannot open shared object file: No such file or directory"),
    ("3.10.13", "ImportError: libfoo.so.2: cannot open shared object file: No such file or directory"),
    ("3.12.1", "ImportError: libstdc++.so.6: version `GLIBCXX_3.4.32' not found"),
    ("3.10.13", "ImportError: OpenFHE requires numpy"),
    ("3.10.13", "OSError: strange"),
    ("", "no such interpreter"),
]


@pytest.fixture
def wheel(monkeypatch, tmp_path):
    """penstock as if it lay in an environment's site-packages."""
    monkeypatch.setattr(probe, "ROOT", tmp_path)


class Bare(Host):
    """A machine where nothing is installed."""

    __slots__ = ()

    def run(self, argv, timeout_s=60.0):
        return Printed(1, stderr="nothing")

    def try_openfhe(self):
        return probe.explain(1, "3.10.13", "ModuleNotFoundError: No module named 'openfhe'")

    def import_module(self, name):
        raise ImportError(name)

    def version(self, distribution):
        return None

    def package_file(self, package, relative):
        return None


def test_in_the_source_tree_the_makefile_installs():
    assert remedy.install("data") == "'make setup'"
    assert remedy.install(anew=True) == "'make clean-venv setup'"
    assert "'make setup' builds it" in remedy.engine()
    assert remedy.simgrid().startswith("'make simgrid'")
    assert remedy.object_stores() == "make setup S3=1"


@pytest.mark.usefixtures("wheel")
def test_from_a_wheel_pip_installs_the_extra():
    assert remedy.install("data") == "pip install 'penstock[data]'"
    assert remedy.install() == "pip install penstock"
    assert remedy.install("openfhe", anew=True) == "pip install --force-reinstall 'penstock[openfhe]'"
    assert "pip install --force-reinstall penstock" in remedy.engine()
    assert remedy.simgrid().startswith("'apt-get install python3-simgrid'")


@pytest.mark.parametrize("file", ["Makefile", "pyproject.toml"])
def test_a_folder_with_only_one_of_the_two_files_is_no_source_tree(wheel, tmp_path, file):
    (tmp_path / file).write_text("")
    assert not remedy.in_source_tree()


@pytest.mark.usefixtures("wheel")
def test_from_a_wheel_the_doctor_names_no_makefile():
    findings = doctor.examine(Bare())
    missing = {finding.check for finding in findings if finding.status is doctor.Status.MISSING}
    assert missing >= {"packages", "engine", "openfhe", "digits", "simgrid"}
    assert [finding.remedy for finding in findings if MAKE.search(finding.remedy)] == []
    remedies = {finding.check: finding.remedy for finding in findings}
    assert "pip install 'penstock[data]'" in remedies["digits"]
    assert "pip install 'penstock[openfhe]'" in remedies["openfhe"]


@pytest.mark.usefixtures("wheel")
@pytest.mark.parametrize(("python", "said"), FAILED_IMPORTS)
@pytest.mark.parametrize("returncode", [1, -4])
def test_from_a_wheel_no_failed_import_of_openfhe_names_a_makefile(python, said, returncode):
    told = probe.explain(returncode, python, said).remedy
    assert told
    assert not MAKE.search(told)


@pytest.mark.usefixtures("wheel")
def test_from_a_wheel_the_digits_come_with_the_extra(monkeypatch):
    from penstock.program.workloads.parts import images

    monkeypatch.setattr(images, "find_spec", lambda name: None)
    with pytest.raises(CapabilityMissing, match=r"not installed: pip install 'penstock\[data\]'; or bring mine"):
        images.bundled_digits("mine")


@pytest.mark.usefixtures("wheel")
def test_from_a_wheel_openfhe_comes_with_the_extra(monkeypatch):
    from penstock.program.openfhe import evaluator
    from penstock.program.openfhe.recorder import script

    def broken(name):
        raise ImportError(name)

    monkeypatch.setattr(evaluator.importlib, "import_module", broken)
    with pytest.raises(CapabilityMissing, match=r"then pip install 'penstock\[openfhe\]'"):
        evaluator.load_openfhe()
    monkeypatch.setattr(script, "try_openfhe", lambda python: probe.ImportOutcome(False, "3.10.13", None, "", ""))
    assert "pip install --force-reinstall 'penstock[openfhe]'" in str(script._openfhe_missing())


@pytest.mark.usefixtures("wheel")
def test_from_a_wheel_object_stores_take_a_build_from_the_sources(monkeypatch):
    from penstock.runtime.keystore import place

    monkeypatch.setattr(place._engine, "KeyStore", SimpleNamespace(OBJECT_STORES=False))
    with pytest.raises(CapabilityMissing, match="in a copy of penstock's source tree: make setup S3=1"):
        object_settings({})


@pytest.mark.usefixtures("wheel")
def test_from_a_wheel_a_build_without_drives_is_installed_anew(monkeypatch):
    from penstock.front.explorer import drives
    from penstock.front.explorer.state import State
    from penstock.front.explorer.views.drive import drive

    monkeypatch.setattr(drives, "names", lambda: [])
    with pytest.raises(UsageError, match="simulates no drives: pip install --force-reinstall penstock"):
        drive(SimpleNamespace(), State())


@pytest.mark.usefixtures("wheel")
def test_from_a_wheel_simgrid_comes_from_the_system(tmp_path):
    with pytest.raises(SimGridMissing, match="'apt-get install python3-simgrid'") as caught:
        find_python({"PENSTOCK_SIMGRID_PYTHON": str(tmp_path / "none")})
    assert not MAKE.search(str(caught.value))


def test_two_files_alone_name_the_makefile():
    naming = {path.relative_to(SOURCE).as_posix() for path in SOURCE.rglob("*.py") if MAKE.search(path.read_text())}
    assert naming == {"base/system/probe.py", "base/system/remedy.py"}

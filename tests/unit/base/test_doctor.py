"""`penstock doctor` against faked machines: the environment is faked, the logic of the checks is not."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

import penstock
from penstock.base.system import doctor, host, probe
from penstock.base.system.doctor import Finding, Status
from penstock.base.system.host import Host, Printed
from penstock.errors import UnknownName
from penstock.front.cli import main

GIB = 2**30
PARANOID = "Error:\nNo permission to enable instructions:u event.\nperf_event_paranoid setting is 4:\n"


WORKING = probe.ImportOutcome(True, "3.10.13", "1.6.1.0.22.4", "", "")


@dataclasses.dataclass
class FakeHost:
    """A machine made of dictionaries; what is not named is not there."""

    python: str = "/venv/bin/python"
    python_version: tuple[int, int, int] = (3, 10, 13)
    implementation: str = "CPython"
    folder: Path = Path()
    environ: dict[str, str] = dataclasses.field(default_factory=dict)
    files: dict[str, str | None] = dataclasses.field(default_factory=dict)
    outputs: dict[str, Printed] = dataclasses.field(default_factory=dict)
    versions: dict[str, str] = dataclasses.field(default_factory=dict)
    broken_modules: dict[str, Exception] = dataclasses.field(default_factory=dict)
    openfhe: probe.ImportOutcome = WORKING
    disk_bytes: int = 50 * 10**9
    cores: int = 4
    allowed_cores: int = 4
    asked: list[list[str]] = dataclasses.field(default_factory=list)

    def run(self, argv, timeout_s=60.0):
        self.asked.append(argv)
        return self.outputs.get(argv[0], Printed(None, stderr="No such file or directory"))

    def try_openfhe(self):
        return self.openfhe

    def import_module(self, name):
        if name in self.broken_modules:
            raise self.broken_modules[name]
        return SimpleNamespace(__version__="0")

    def version(self, distribution):
        return self.versions.get(distribution)

    def package_file(self, package, relative):
        path = f"{package}/{relative}"
        return Path(path) if path in self.files else None

    def read(self, path):
        return self.files.get(path)

    def exists(self, path):
        return path in self.files

    def free_disk_bytes(self):
        return self.disk_bytes

    def cpu_count(self):
        return self.cores

    def affinity(self):
        return self.allowed_cores


def whole_host(**changes) -> FakeHost:
    """A machine on which everything works."""
    host = FakeHost(
        files={
            "sklearn/datasets/data/digits.csv.gz": "",
            "/sys/class/powercap/intel-rapl:0/energy_uj": "123",
            "/proc/meminfo": f"MemTotal: 1 kB\nMemAvailable: {16 * GIB // 1024} kB\n",
            "/proc/cpuinfo": "model name\t: Some CPU\nflags\t\t: fpu fma avx2 avx512f\n",
            "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor": "performance\n",
        },
        outputs={
            "/venv/bin/python": Printed(0, "0.1.0\n/src/penstock/_engine.abi3.so\n"),
            "/usr/bin/python3": Printed(0, "3.32\n"),
            "perf": Printed(0, stderr="123456,,instructions:u,200000,100.00,,\n"),
        },
        versions={"scikit-learn": "1.7.2", "numpy": "2.2.6", "penstock": "0.1.0"},
    )
    for name, value in changes.items():
        if isinstance(value, dict):
            value = {**getattr(host, name), **value}
        setattr(host, name, value)
    return host


def find(check: str, host: FakeHost) -> Finding:
    return doctor.CHECKS[check](host)


def test_a_whole_machine_is_ok_in_every_check():
    findings = doctor.examine(whole_host())
    assert [f.check for f in findings] == list(doctor.CHECKS)
    assert {f.check: f.status for f in findings} == dict.fromkeys(doctor.CHECKS, Status.OK)
    assert doctor.unmet(findings, ["openfhe"]) == []


def test_on_a_bare_machine_every_check_answers_and_whatever_is_not_ok_says_its_cost_and_its_remedy():
    findings = doctor.examine(FakeHost(openfhe=probe.explain(1, "3.10.13", "No module named 'openfhe'")))
    assert len(findings) == len(doctor.CHECKS)
    not_ok = [f for f in findings if f.status is not Status.OK]
    assert {f.check for f in not_ok} >= {"engine", "openfhe", "digits", "simgrid", "perf", "energy"}
    assert all(f.costs and f.remedy for f in not_ok)


@pytest.mark.parametrize(
    ("version", "implementation", "status"),
    [
        ((3, 9, 18), "CPython", Status.MISSING),
        ((3, 10, 0), "CPython", Status.OK),
        ((3, 13, 9), "CPython", Status.OK),
        ((3, 14, 0), "CPython", Status.LIMITED),
        ((3, 10, 13), "PyPy", Status.MISSING),
    ],
)
def test_python_is_held_against_the_supported_versions(version, implementation, status):
    assert find("python", whole_host(python_version=version, implementation=implementation)).status is status


def test_a_package_built_for_another_numpy_is_named_with_its_error():
    finding = find("packages", whole_host(broken_modules={"pyarrow": ValueError("numpy.dtype size changed")}))
    assert finding.status is Status.MISSING
    assert "pyarrow (numpy.dtype size changed)" in finding.detail


class TestEngine:
    def test_a_rust_core_that_does_not_load_is_missing_and_says_how_it_is_built(self):
        broken = Printed(1, stderr="Traceback\nModuleNotFoundError: No module named 'penstock._engine'\n")
        finding = find("engine", whole_host(outputs={"/venv/bin/python": broken}))
        assert finding.status is Status.MISSING
        assert "No module named 'penstock._engine'" in finding.detail
        assert "make setup" in finding.remedy

    def test_a_rust_core_that_kills_the_process_is_missing(self):
        finding = find("engine", whole_host(outputs={"/venv/bin/python": Printed(-4)}))
        assert finding.status is Status.MISSING
        assert "-4" in finding.detail

    def test_a_rust_core_of_another_version_is_limited(self):
        finding = find("engine", whole_host(versions={"penstock": "0.2.0"}))
        assert finding.status is Status.LIMITED
        assert "0.1.0" in finding.detail
        assert "0.2.0" in finding.detail

    def test_a_rust_core_without_a_version_is_ok(self):
        outputs = {"/venv/bin/python": Printed(0, "\n/src/penstock/_engine.abi3.so\n")}
        finding = find("engine", whole_host(outputs=outputs))
        assert (finding.status, finding.detail) == (Status.OK, "penstock._engine, /src/penstock/_engine.abi3.so")


class TestClient:
    ABSENT = Printed(1, stderr="ModuleNotFoundError: No module named 'penstock_client'\n")

    def test_penstocks_own_is_named_with_its_version(self):
        finding = find("client", whole_host())
        assert finding.status is Status.OK
        assert "penstock's own client 0.1.0" in finding.detail

    def test_openfhe_takes_its_place_and_the_price_is_told(self):
        finding = find("client", whole_host(outputs={"/venv/bin/python": self.ABSENT}))
        assert finding.status is Status.LIMITED
        assert "OpenFHE makes keys, encrypts and decrypts" in finding.detail
        assert "No module named 'penstock_client'" in finding.detail
        assert "keys of full size" in finding.costs

    def test_without_either_nothing_is_encrypted(self):
        no_openfhe = probe.explain(1, "3.11.7", "")
        finding = find("client", whole_host(outputs={"/venv/bin/python": self.ABSENT}, openfhe=no_openfhe))
        assert finding.status is Status.MISSING
        assert "all encryption" in finding.costs
        assert "make setup" in finding.remedy


class TestOpenFhe:
    """The messages are those that the wheels really give on Debian 12."""

    def explained(self, python: str, stderr: str, returncode: int = 1) -> Finding:
        return find("openfhe", whole_host(openfhe=probe.explain(returncode, python, stderr)))

    def test_an_import_that_works_gives_the_version(self):
        outcome = probe.explain(0, "3.10.13\n1.6.1.0.22.4\n/site-packages/openfhe/__init__.py\n", "")
        assert outcome == WORKING

    def test_python_3_11_has_no_wheel_and_the_remedy_is_another_python(self):
        finding = self.explained("3.11.7", "Traceback\nModuleNotFoundError: No module named 'openfhe.openfhe'\n")
        assert finding.status is Status.MISSING
        assert "CPython 3.11" in finding.detail
        assert "3.10 and 3.12" in finding.detail
        assert "uv python install 3.10" in finding.remedy

    def test_a_wheel_of_another_interpreter_is_told_from_a_wheel_that_is_not_there(self):
        wrong = self.explained("3.12.1", "ModuleNotFoundError: No module named 'openfhe.openfhe'\n")
        absent = self.explained("3.12.1", "ModuleNotFoundError: No module named 'openfhe'\n")
        assert "another interpreter" in wrong.detail
        assert "--force-reinstall openfhe==1.6.1.0.24.4" in wrong.remedy
        assert absent.detail == "OpenFHE is not installed"
        assert "pip install openfhe==1.6.1.0.24.4" in absent.remedy

    def test_an_old_libstdcxx_is_named_and_the_remedy_is_python_3_10(self):
        finding = self.explained(
            "3.12.1",
            "ImportError: /lib/x86_64-linux-gnu/libstdc++.so.6: version `GLIBCXX_3.4.32' not found (required by "
            "/venv/openfhe/openfhe.cpython-312-x86_64-linux-gnu.so)\n",
        )
        assert "GLIBCXX_3.4.32" in finding.detail
        assert "CPython 3.10" in finding.remedy

    def test_a_missing_libgomp_is_installed_with_apt(self):
        finding = self.explained(
            "3.10.13",
            "ImportError: libgomp.so.1: cannot open shared object file: No such file or directory\n",
        )
        assert "libgomp" in finding.detail
        assert "apt install libgomp1" in finding.remedy

    def test_another_missing_library_is_named(self):
        finding = self.explained(
            "3.10.13", "ImportError: libfoo.so.2: cannot open shared object file: No such file or directory\n"
        )
        assert finding.detail == "a shared library is not installed: libfoo.so.2"

    def test_an_import_that_kills_the_process_says_the_signal(self):
        assert "signal 4" in self.explained("3.10.13", "", returncode=-4).detail

    def test_an_unknown_failure_passes_on_what_python_said(self):
        assert self.explained("3.10.13", "Traceback\nOSError: strange\n").detail == "OSError: strange"

    def test_a_shim_that_only_prints_an_error_is_reported_with_its_first_line(self, tmp_path):
        shim = tmp_path / "python3.10"
        shim.write_text("#!/bin/sh\necho 'pyenv: python3.10: command not found' >&2\necho more >&2\nexit 127\n")
        shim.chmod(0o755)
        outcome = probe.try_openfhe(str(shim))
        assert (outcome.ok, outcome.reason) == (False, "pyenv: python3.10: command not found")

    def test_an_interpreter_that_is_not_there_is_reported(self, tmp_path):
        assert "cannot be started" in probe.try_openfhe(str(tmp_path / "python3.10")).reason


class TestPerf:
    def check(self, output: Printed, **changes) -> Finding:
        return find("perf", whole_host(outputs={"perf": output}, **changes))

    def test_no_perf_is_missing(self):
        assert find("perf", FakeHost()).status is Status.MISSING

    def test_a_virtual_machine_without_counters_is_limited(self):
        finding = self.check(Printed(0, stderr="<not supported>,,instructions:u,0,100.00,,\n"))
        assert finding.status is Status.LIMITED
        assert "no hardware counters" in finding.detail

    def test_a_kernel_that_forbids_counting_is_limited_and_says_the_setting(self):
        finding = self.check(Printed(255, stderr=PARANOID), files={"/proc/sys/kernel/perf_event_paranoid": "4\n"})
        assert finding.status is Status.LIMITED
        assert "perf_event_paranoid is 4" in finding.detail
        assert "perf_event_paranoid=1" in finding.remedy

    def test_a_perf_of_another_kernel_is_limited(self):
        finding = self.check(Printed(2, stderr="WARNING: perf not found for kernel 6.8\n"))
        assert finding.status is Status.LIMITED
        assert "perf not found for kernel 6.8" in finding.detail


class TestEnergy:
    COUNTER = "/sys/class/powercap/intel-rapl:0/energy_uj"

    def test_no_counter_is_missing_and_never_zero(self):
        finding = find("energy", FakeHost())
        assert finding.status is Status.MISSING
        assert "not zero" in finding.costs

    def test_a_counter_that_may_not_be_read_is_limited(self):
        finding = find("energy", whole_host(files={self.COUNTER: None}))
        assert finding.status is Status.LIMITED
        assert "chmod" in finding.remedy


class TestMemory:
    def with_available(self, num_bytes: int, **files: str) -> Finding:
        return find("memory", whole_host(files={"/proc/meminfo": f"MemAvailable: {num_bytes // 1024} kB\n", **files}))

    def test_the_bound_itself_is_enough_and_a_kibibyte_less_is_not(self):
        assert self.with_available(doctor.ENOUGH_MEMORY_BYTES).status is Status.OK
        assert self.with_available(doctor.ENOUGH_MEMORY_BYTES - 1024).status is Status.LIMITED

    def test_the_limit_of_a_control_group_counts_where_it_is_lower(self):
        files = {"/sys/fs/cgroup/memory.max": f"{2 * GIB}\n", "/sys/fs/cgroup/memory.current": f"{GIB}\n"}
        finding = self.with_available(16 * GIB, **files)
        assert finding.status is Status.LIMITED
        assert "(1 GiB) available" in finding.detail
        assert "control group limit" in finding.detail

    def test_a_control_group_without_a_limit_changes_nothing(self):
        files = {"/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/memory.current": f"{GIB}\n"}
        assert self.with_available(16 * GIB, **files).status is Status.OK

    def test_unknown_memory_is_limited(self):
        assert find("memory", FakeHost()).status is Status.LIMITED


def test_the_disk_is_limited_one_byte_below_its_bound():
    assert find("disk", whole_host(disk_bytes=doctor.ENOUGH_DISK_BYTES)).status is Status.OK
    assert find("disk", whole_host(disk_bytes=doctor.ENOUGH_DISK_BYTES - 1)).status is Status.LIMITED


def test_a_processor_without_avx2_is_limited_and_an_arm_one_with_neon_is_ok():
    old = whole_host(files={"/proc/cpuinfo": "model name : Old CPU\nflags : fpu sse2\n"})
    arm = whole_host(files={"/proc/cpuinfo": "Features\t: fp asimd aes\n"})
    assert find("cpu", old).status is Status.LIMITED
    assert find("cpu", arm).status is Status.OK


def test_a_saving_governor_is_limited_and_an_invisible_one_too():
    path = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
    assert "powersave" in find("governor", whole_host(files={path: "powersave\n"})).detail
    assert find("governor", whole_host(files={path: "powersave\n"})).status is Status.LIMITED
    assert find("governor", FakeHost()).status is Status.LIMITED


class TestThreads:
    def test_as_many_threads_as_cores_is_ok_and_one_more_is_limited(self):
        assert find("threads", whole_host(environ={"OMP_NUM_THREADS": "4"})).status is Status.OK
        too_many = find("threads", whole_host(environ={"OMP_NUM_THREADS": "5"}))
        assert too_many.status is Status.LIMITED
        assert too_many.remedy == "export OMP_NUM_THREADS=4"

    def test_fewer_allowed_cores_than_the_machine_has_bound_the_threads(self):
        finding = find("threads", whole_host(allowed_cores=2, environ={"OMP_NUM_THREADS": "4"}))
        assert finding.status is Status.LIMITED
        assert finding.remedy == "export OMP_NUM_THREADS=2"

    def test_a_quota_below_the_cores_is_limited_until_the_threads_are_set(self):
        quota = {"/sys/fs/cgroup/cpu.max": "200000 100000\n"}
        unset = find("threads", whole_host(files=quota))
        assert (unset.status, unset.remedy) == (Status.LIMITED, "export OMP_NUM_THREADS=2")
        assert find("threads", whole_host(files=quota, environ={"OMP_NUM_THREADS": "2"})).status is Status.OK

    def test_no_quota_is_no_limit(self):
        assert find("threads", whole_host(files={"/sys/fs/cgroup/cpu.max": "max 100000\n"})).status is Status.OK

    @pytest.mark.parametrize("value", ["0", "many", "-1"])
    def test_a_value_that_is_no_positive_number_is_limited(self, value):
        assert find("threads", whole_host(environ={"OMP_NUM_THREADS": value})).status is Status.LIMITED

    def test_a_list_of_nesting_levels_is_read_by_its_first(self):
        assert find("threads", whole_host(environ={"OMP_NUM_THREADS": "2,1"})).status is Status.OK


@pytest.mark.parametrize(
    ("policy", "status"),
    [(None, Status.OK), ("passive", Status.OK), ("PASSIVE", Status.OK), ("active", Status.LIMITED)],
)
def test_spinning_threads_are_limited(policy, status):
    environ = {} if policy is None else {"OMP_WAIT_POLICY": policy}
    assert find("openmp", whole_host(environ=environ)).status is status


def test_changes_anywhere_in_the_package_are_said_with_its_commit(monkeypatch):
    folders = []

    def run(argv, **more):
        folders.append(Path(argv[2]))
        return SimpleNamespace(stdout="abc\n")

    monkeypatch.setattr(host.subprocess, "run", run)
    assert host.source_commit() == "abc+changes"
    assert set(folders) == {Path(penstock.__file__).parent}


def test_simgrid_is_asked_of_the_interpreter_that_the_environment_names():
    host = whole_host(environ={doctor.SIMGRID_PYTHON: "/opt/python"}, outputs={"/opt/python": Printed(0, "4.1\n")})
    assert find("simgrid", host).detail == "SimGrid 4.1, /opt/python"
    assert Path(host.asked[-1][2]).is_file()
    del host.outputs["/opt/python"]
    assert find("simgrid", host).status is Status.MISSING


class TestRequired:
    def test_an_optional_check_that_is_missing_is_in_the_way_only_when_required(self):
        findings = doctor.examine(whole_host(openfhe=probe.explain(1, "3.11.7", "")))
        assert doctor.unmet(findings, []) == []
        assert [f.check for f in doctor.unmet(findings, ["openfhe"])] == ["openfhe"]

    def test_a_required_check_that_is_limited_is_in_the_way(self):
        findings = doctor.examine(whole_host(disk_bytes=0))
        assert doctor.unmet(findings, []) == []
        assert [f.check for f in doctor.unmet(findings, ["disk"])] == ["disk"]

    @pytest.mark.parametrize("broken", [{"outputs": {"/venv/bin/python": Printed(1)}}, {"python_version": (3, 9, 0)}])
    def test_a_broken_core_is_always_in_the_way(self, broken):
        assert doctor.unmet(doctor.examine(whole_host(**broken)), []) != []

    def test_an_unknown_check_suggests_the_nearest(self):
        with pytest.raises(UnknownName, match="did you mean 'openfhe'"):
            doctor.unmet([], ["openfe"])


class TestCommand:
    """The command on a faked host: exit codes, and the rows of its JSON."""

    @pytest.fixture
    def on(self, monkeypatch):
        def use(host: FakeHost) -> None:
            monkeypatch.setattr("penstock.front.cli.verbs.doctor.Host", lambda: host)

        return use

    def test_json_has_one_row_a_check_with_stable_fields(self, on, capsys):
        on(whole_host())
        assert main(["doctor", "--format", "json"]) == 0
        rows = json.loads(capsys.readouterr().out)
        assert [row["check"] for row in rows] == list(doctor.CHECKS)
        assert {tuple(row) for row in rows} == {("check", "status", "detail", "costs", "remedy")}
        assert {row["status"] for row in rows} == {"ok"}

    def test_a_missing_required_check_exits_with_3_and_says_the_remedy_on_stderr(self, on, capsys):
        on(whole_host(openfhe=probe.explain(1, "3.10.13", "ModuleNotFoundError: No module named 'openfhe'")))
        assert main(["doctor"]) == 0
        capsys.readouterr()
        assert main(["doctor", "--require", "openfhe", "--format", "json"]) == 3
        captured = capsys.readouterr()
        assert "openfhe is missing: 'make setup'" in captured.err
        assert len(json.loads(captured.out)) == len(doctor.CHECKS)

    def test_a_broken_core_exits_with_3(self, on, capsys):
        on(whole_host(outputs={"/venv/bin/python": Printed(1, stderr="no core")}))
        assert main(["doctor"]) == 3
        assert "something required does not work" in capsys.readouterr().out

    def test_the_table_keeps_brackets_in_messages(self, on, capsys):
        on(whole_host(broken_modules={"pyarrow": ImportError("[Errno 2] gone")}))
        main(["doctor"])
        assert "[Errno 2] gone" in capsys.readouterr().out

    def test_an_unknown_required_check_exits_with_2_before_anything_runs(self, on, capsys):
        on(SimpleNamespace())
        assert main(["doctor", "--require", "openfe"]) == 2
        assert "did you mean 'openfhe'" in capsys.readouterr().err


def test_this_machine_gets_an_answer_to_every_check():
    findings = doctor.examine(Host())
    assert [f.check for f in findings] == list(doctor.CHECKS)
    assert all(f.detail for f in findings)

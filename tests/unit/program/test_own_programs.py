"""Programs of the user's own: a Python file stands wherever the name of a workload does."""

from __future__ import annotations

import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path

import numpy as np
import pytest

from penstock.base.system import own_file
from penstock.errors import ParamsError, PenstockError, UnknownName, UsageError
from penstock.front.cli.main import main
from penstock.front.explorer.library import Library
from penstock.lab.analysis import request_of
from penstock.lab.measure.bench.spec import load_suite, plan
from penstock.lab.prediction.whatif import WhatIfAxes, Workload, what_if
from penstock.program import workloads
from penstock.program.evaluator.tally import tally_of
from penstock.program.running import record_openfhe, run_clear, trace_workload
from penstock.program.running.counting import count_workload
from penstock.program.running.trace_pack import write_pack
from penstock.program.workloads import own
from penstock.runtime.native.prepared import ClientPlace
from penstock.scheme.machines import load_machine
from penstock.scheme.params import catalogue
from penstock.scheme.traces.inspect import differences
from penstock.service.tenants import parse_jobs
from support.native_runs import record_native

HEAD = 'import numpy as np\n\nPARAMS = "insecure-ci"\n\n'
DATA = "def data(size, slots, seed):\n    return np.random.default_rng(seed).uniform(-1, 1, 8)\n\n"
PROGRAM = """def program(ev, data, size):
    with ev.scope("input"):
        x = ev.encrypt(data, name="x")
    with ev.scope("square"):
        y = ev.rescale(ev.square(ev.add(x, ev.rotate(x, 1))))
    return np.real(ev.decrypt(y))[:7]
"""
GOOD = f'"""Squares of sums of neighbours.\n\nMore.\n"""\n{HEAD}{DATA}{PROGRAM}'


def sized(sizes: str) -> str:
    """The good file with other lines in place of `PARAMS`."""
    return GOOD.replace('PARAMS = "insecure-ci"', sizes)


@pytest.fixture
def write(tmp_path: Path):
    """Writes a file and gives its name; files of one test are apart."""

    def written(text: str, name: str = "mine.py") -> str:
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        own._LOADED.pop(path.resolve(), None)
        return str(path)

    return written


def test_a_file_with_the_least_is_a_whole_workload(write):
    name = write(GOOD)
    found = workloads.get(name)
    assert found.NAME == "mine.py"
    assert found.DESCRIPTION == "Squares of sums of neighbours."
    assert name == found.SOURCE
    assert list(found.SIZES.items()) == [("default", own.OneSize("insecure-ci"))]
    assert found.DEFAULT_SIZE == found.ACCELERATOR_SIZE == "default"
    trace = trace_workload(name)
    assert trace.meta.workload == "mine.py"
    assert trace.count_by_kind() == {"encrypt": 1, "rotate": 1, "add": 1, "square": 1, "rescale": 1, "decrypt": 1}
    assert count_workload(name) == tally_of(trace)
    x = np.random.default_rng(3).uniform(-1, 1, 8)
    assert run_clear(name, seed=3) == pytest.approx((x[:7] + x[1:]) ** 2)


def test_it_runs_encrypted(write, encrypting):
    name = write(GOOD)
    done = record_native(name, seed=3, client=ClientPlace.INSIDE)
    assert done.trace.count_by_kind() == trace_workload(name).count_by_kind()
    check = workloads.get(name).check(run_clear(name, seed=3), done.result, None, None)
    assert check.passed
    assert 0 < check.max_abs_error < check.tolerance == 1e-3


def test_sizes_and_a_check_of_its_own(write):
    text = """
from dataclasses import dataclass
import numpy as np
from penstock.program.workloads import Check

@dataclass(frozen=True)
class Size:
    params: str
    length: int

SIZES = {"short": Size("insecure-ci", 4), "long": Size("sharp", 8)}
DEFAULT_SIZE = "short"
ACCELERATOR_SIZE = "long"
asked = []

def data(size, slots, seed, path=None):
    asked.append((size.length, slots, seed, path))
    return np.zeros(size.length)

def blank(size, slots):
    return np.ones(size.length)

def program(ev, data, size):
    x = ev.encrypt(data)
    for _ in range(size.length):
        x = ev.add(x, x)
    return ev.decrypt(x)

def check(clear, got, data, size):
    return Check(passed=len(data) == size.length, max_abs_error=0.0, tolerance=0.0)
"""
    name = write(text)
    found = workloads.get(name)
    assert trace_workload(name).count_by_kind()["add"] == 4
    assert trace_workload(name, "sharp").count_by_kind()["add"] == 8
    assert trace_workload(name, "sharp", "short").count_by_kind()["add"] == 4
    assert not found.asked, "the trace reading takes blank"
    run_clear(name, seed=2)
    assert found.asked == [(4, 2048, 2, None)]
    assert found.check(None, None, np.zeros(4), found.SIZES["short"]).passed
    with pytest.raises(UnknownName, match=r"size of 'mine\.py' 'lnog': did you mean 'long'"):
        trace_workload(name, size="lnog")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (HEAD + DATA, r"it lacks program\. A script that calls OpenFHE itself is recorded: penstock record"),
        ("raise SystemExit('a script was run')", "it lacks program and data"),
        (HEAD + "def program(ev, data, size:\n    pass", r"mine\.py, line 5: no Python"),
        ("import nothing_of_the_kind\n" + GOOD, r"mine\.py, line 1, while it is read: ModuleNotFoundError"),
        (GOOD.replace("PARAMS", "PARAM"), "state either PARAMS"),
        (GOOD + "\nSIZES = {}", "state either PARAMS"),
        (sized("SIZES = {}"), "SIZES is a dictionary of names and sizes, at least one"),
        (sized("SIZES = {'a': 1}"), r"SIZES\['a'\] needs a field params"),
        (
            sized("import types\nSIZES = {'a': types.SimpleNamespace(params='sharp')}"),
            r"SIZES\['a'\] cannot be hashed; write @dataclass\(frozen=True\)",
        ),
        (GOOD.replace('"insecure-ci"', "3"), "PARAMS is the name of a parameter set or a .toml file, not 3"),
        (GOOD + "\nDEFAULT_SIZE = 'big'", "DEFAULT_SIZE 'big' is none of SIZES: default"),
        (GOOD.replace("m(ev, data, size)", "m(ev)"), r"write program\(ev, data, size\); it is program\(ev\)"),
        (GOOD.replace("data(size, slots, seed)", "data(size)"), r"write data\(size, slots, seed\); it is data\(size\)"),
        (GOOD + "\nblank = 3", "blank is a function, not 3"),
        (GOOD + "\nTOLERANCE = -1", "TOLERANCE is a number that is not negative, not -1"),
        (GOOD + "\nTOLERANCE = 'small'", "TOLERANCE is a number"),
    ],
)  # fmt: skip
def test_what_is_wrong_with_a_file_is_said_with_the_remedy(write, text, said):
    with pytest.raises(UsageError, match=said):
        workloads.get(write(text))


def test_a_file_that_is_not_there_or_no_text(tmp_path):
    with pytest.raises(UsageError, match="no such file"):
        workloads.get(str(tmp_path / "none.py"))
    (tmp_path / "bytes.py").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read as text"):
        workloads.get(str(tmp_path / "bytes.py"))


@pytest.mark.parametrize(
    ("program", "said"),
    [
        ("    return 1 / 0", r"line 9, in program: ZeroDivisionError: division by zero; --debug"),
        ("    return ev.decrypt(ev.add('x', data, 1))", r"line 9, in program: TypeError"),
        ("    return ev.decrypt(ev.rotat(data, 1))", r"line 9, in program: AttributeError.*rotat"),
        ("    return ev.encrypt(np.zeros(10**6))", r"line 9, in program: .*does not fit in 2048 slots"),
    ],
)
def test_a_fault_of_the_program_is_an_error_with_its_line(write, capsys, program, said):
    name = write(f"{HEAD}{DATA}def program(ev, data, size):\n{program}\n")
    with pytest.raises(UsageError, match=said):
        run_clear(name)
    assert main(["run", name, "--reading", "clear"]) == 2
    assert "internal error" not in capsys.readouterr().err


def test_a_list_of_numbers_is_a_vector(write):
    body = "    x = ev.encrypt([0.5, 0.25])\n    return np.real(ev.decrypt(ev.mult(x, ev.encode([2, 4]))))[:3]\n"
    name = write(f"{HEAD}{DATA}def program(ev, data, size):\n{body}")
    assert run_clear(name).tolist() == [1, 1, 0]
    trace = trace_workload(name)
    assert count_workload(name) == tally_of(trace)


def test_operators_on_ciphertexts_are_a_fault_where_the_clear_reading_cannot_tell(write):
    name = write(GOOD.replace("ev.add(x, ev.rotate(x, 1))", "x + x"))
    assert run_clear(name) is not None
    with pytest.raises(UsageError, match="line 16, in program: TypeError"):
        trace_workload(name)


@pytest.mark.parametrize("call", ["ev.add(x, data)", "ev.mult(x, data)", "ev.sub(data, x)", "ev.sub(x, list(data))"])
def test_a_vector_is_no_operand_until_it_is_encoded(write, call):
    name = write(GOOD.replace("ev.add(x, ev.rotate(x, 1))", call))
    with pytest.raises(PenstockError, match=r"line 16, in program: an operand is a vector of 8 values: make a plain"):
        trace_workload(name)


def test_what_is_deeper_than_its_parameters_is_refused_as_for_any_workload(write):
    name = write(GOOD.replace("ev.rescale(ev.square(", "deep(ev, (").replace("def program", DEEP + "def program"))
    with pytest.raises(ParamsError):
        trace_workload(name)


DEEP = "def deep(ev, x):\n    for _ in range(60):\n        x = ev.rescale(ev.square(x))\n    return x\n\n"


def test_a_result_that_cannot_be_compared(write):
    name = write(GOOD.replace("np.real(ev.decrypt(y))[:7]", '{"a": 1}'))
    with pytest.raises(UsageError, match=r"program returns what cannot be compared .*; return an array"):
        workloads.get(name).check({"a": 1}, {"a": 1}, None, None)


def test_results_beyond_the_tolerance_fail(write):
    found = workloads.get(write(GOOD + "\nTOLERANCE = 0.5"))
    assert found.check(np.zeros(3), np.full(3, 0.4), None, None).passed
    failed = found.check([0, 0], [0, 0.6], None, None)
    assert not failed.passed
    assert failed.rules == ("results differ by at most 0.5: does not hold",)
    with pytest.raises(UsageError, match="cannot be compared"):
        found.check(np.zeros(3), np.zeros(4), None, None)
    for nothing, said in ((np.zeros(0), "no values"), (np.array([1.0, np.inf]), "not all are finite")):
        with pytest.raises(UsageError, match=said):
            found.check(nothing, nothing, None, None)


def test_a_check_of_the_files_own_says_something_and_is_a_check(write):
    own_check = "\nfrom penstock.program.workloads import Check\n\ndef check(clear, got, data, size):\n    return "
    silent = workloads.get(write(GOOD + own_check + "Check(passed=False, max_abs_error=1.0, tolerance=0.0)"))
    assert silent.check(None, None, None, None).rules == ("the program's own check: does not hold",)
    wrong = workloads.get(write(GOOD + own_check + "True"))
    with pytest.raises(UsageError, match=r"check returns True; return a penstock\.program\.workloads\.Check"):
        wrong.check(None, None, None, None)


def test_parts_may_come_from_another_module(write, tmp_path):
    (tmp_path / "beside_it_2.py").write_text(GOOD)
    assert trace_workload(write("from beside_it_2 import data, program, PARAMS\n")).count_by_kind()["square"] == 1
    named = "from beside_it_2 import *\nfrom beside_it_2 import program\n"
    assert trace_workload(write(named)).count_by_kind()["square"] == 1


@pytest.mark.parametrize("imported", ["openfhe", "beside_it_3"])
def test_a_script_that_imports_with_a_star_is_not_run(write, tmp_path, imported):
    (tmp_path / "beside_it_3.py").write_text(GOOD)
    mark = tmp_path / "it-ran"
    with pytest.raises(UsageError, match=r"it lacks program.*penstock record"):
        workloads.get(write(f"open({str(mark)!r}, 'w').close()\nfrom {imported} import *\n"))
    assert not mark.exists()


def test_imaginary_parts_are_refused_where_openfhe_would_lose_them(write, openfhe):
    name = write(GOOD.replace("ev.encrypt(data,", "ev.encrypt(data * 1j,"))
    assert run_clear(name) is not None
    with pytest.raises(PenstockError, match="would drop the imaginary parts"):
        record_openfhe(name)


def test_a_refresh_of_openfhe_that_gives_no_limbs_has_the_value_of_the_others(write, openfhe):
    refreshed = GOOD.replace("ev.encrypt(data,", "ev.bootstrap(ev.encrypt(data,").replace('name="x")', 'name="x"))')
    name = write(refreshed.replace("insecure-ci", "insecure-resnet20"))
    run = record_openfhe(name)
    assert np.allclose(run.result, run_clear(name), atol=1e-4)
    assert list(differences(run.trace, trace_workload(name))) == []


@pytest.mark.parametrize(
    ("head", "listed"),
    [
        ('"""  \n  \n"""', "a program of your own"),
        ('"""\n\n Squares. \n"""', "Squares."),
        ("", "a program of your own"),
    ],
)
def test_the_description_is_the_first_line_of_the_docstring(write, head, listed):
    assert listed == workloads.get(write(head + "\n" + HEAD + DATA + PROGRAM)).DESCRIPTION


def test_files_have_their_own_coding(write, tmp_path):
    for i, content in enumerate((b"\xef\xbb\xbf" + GOOD.encode(), b"# coding: latin-1\n# \xe9\n" + GOOD.encode())):
        (tmp_path / f"coded{i}.py").write_bytes(content)
        assert trace_workload(str(tmp_path / f"coded{i}.py")).count_by_kind()["square"] == 1


def test_what_a_program_prints_is_not_among_the_results(write, capsys):
    name = write(GOOD.replace('    with ev.scope("input"):', "    print('hello')\n    with ev.scope(\"input\"):"))
    assert main(["run", name, "--reading", "clear", "--format", "json"]) == 0
    captured = capsys.readouterr()
    assert json.loads(captured.out)["workload"] == "mine.py"
    assert "hello" in captured.err


@pytest.mark.parametrize("ending", ["raise SystemExit(0)", "import sys; sys.exit()", "quit()"])
def test_a_program_that_ends_the_process_is_at_fault(write, capsys, ending):
    assert main(["trace", write(GOOD.replace('    with ev.scope("input"):', f"    {ending}\n    if True:"))]) == 2
    assert "in program: SystemExit" in capsys.readouterr().err


def test_penstocks_own_refusals_have_the_line_too(write):
    name = write(GOOD.replace("ev.rescale(ev.square(", "deep(ev, (").replace("def program", DEEP + "def program"))
    with pytest.raises(ParamsError, match=r"mine\.py, line \d+, in program: rescale: "):
        trace_workload(name)


def test_results_of_other_shapes_are_not_stretched(write):
    with pytest.raises(UsageError, match=r"in the clear its shape is \(3,\), encrypted \(1,\)"):
        workloads.get(write(GOOD)).check(np.zeros(3), np.zeros(1), None, None)


def test_two_programs_have_helpers_of_one_name(tmp_path):
    text = GOOD.replace("import numpy", "from consts_of_mine import STEP\nimport numpy", 1).replace(
        "(x, 1)", "(x, STEP)"
    )
    late = "    from consts_of_mine import STEP as late\n    assert late == STEP\n    if True:"
    text = text.replace('    with ev.scope("input"):', late, 1).replace("(x, 1)", "(x, STEP)")
    for folder, step in (("a", 1), ("b", 2)):
        (tmp_path / folder / ".venv").mkdir(parents=True)
        (tmp_path / folder / "consts_of_mine.py").write_text(f"STEP = {step}\n")
        (tmp_path / folder / "mine.py").write_text(text)
    first, second = (str(tmp_path / folder / "mine.py") for folder in "ab")
    keys = [trace_workload(name).key_ids()[0] for name in (first, second, first)]
    assert keys[0] == keys[2] != keys[1]
    assert "consts_of_mine" not in sys.modules
    assert not list(tmp_path.rglob("__pycache__"))
    assert str(tmp_path / "a") not in sys.path


def test_what_a_program_imports_from_elsewhere_stays(write, tmp_path, monkeypatch):
    site = tmp_path / ".venv" / "site-packages"
    site.mkdir(parents=True)
    (site / "elsewhere_of_mine.py").write_text("STEP = 1\n")
    monkeypatch.syspath_prepend(str(site))
    trace_workload(write(GOOD.replace("import numpy", "import elsewhere_of_mine\nimport numpy", 1)))
    assert sys.modules.pop("elsewhere_of_mine").STEP == 1


def test_parameters_may_be_a_file_beside_the_program(write, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    (tmp_path / "set.toml").write_text(catalogue.spec("insecure-ci").to_toml().replace("insecure-ci", "insecure-mine"))
    assert trace_workload(write(GOOD.replace("insecure-ci", "set.toml"))).parameters().name == "insecure-mine"


def test_sizes_may_name_files_beside_the_program_too(write, tmp_path, monkeypatch):
    monkeypatch.chdir("/")
    (tmp_path / "set.toml").write_text(catalogue.spec("insecure-ci").to_toml().replace("insecure-ci", "insecure-mine"))
    frozen = (
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Size:\n    params: str\n    rows: int = 1\n"
        'SIZES = {"one": Size("set.toml", 7)}\n'
    )
    assert trace_workload(write(sized(frozen))).parameters().name == "insecure-mine"
    assert workloads.get(write(sized(frozen))).SIZES["one"].rows == 7


@pytest.mark.parametrize("call", ["rotate(x, 1.5)", "rotate_many(x, [1, 2.5])[1]"])
@pytest.mark.parametrize("read", [run_clear, trace_workload])
def test_a_step_is_a_whole_number(write, call, read):
    with pytest.raises(UsageError, match=r"mine\.py.*float"):
        read(write(GOOD.replace("rotate(x, 1)", call)))


def test_a_file_that_takes_no_data_says_so(write, tmp_path, capsys):
    assert main(["run", write(GOOD), "--reading", "clear", "--data", str(tmp_path)]) == 2
    assert "takes no --data" in capsys.readouterr().err


def test_modules_beside_it_can_be_imported_and_no_bytecode_is_left(write, tmp_path):
    (tmp_path / "beside_it_1.py").write_text("STEP = 2\n")
    name = write(
        GOOD.replace("import numpy", "import beside_it_1\nimport numpy").replace("(x, 1)", "(x, beside_it_1.STEP)")
    )
    assert (
        trace_workload(name).key_ids() == trace_workload(write(GOOD.replace("(x, 1)", "(x, 2)"), "other.py")).key_ids()
    )
    assert sorted(path.name for path in tmp_path.iterdir()) == ["beside_it_1.py", "mine.py", "other.py"]


def test_verbs_take_a_file(write, capsys, tmp_path):
    name = write(GOOD)

    def said(*words: str) -> object:
        assert main([*words, "--format", "json"]) == 0
        return json.loads(capsys.readouterr().out)

    (listed,) = said("workloads", name)
    assert (listed["workload"], listed["size"], listed["params"]) == ("mine.py", "default", "insecure-ci")
    assert said("trace", name)["num_operations"] == 4
    (row,) = said("simulate", name, "--params", "sharp", "--machine", "sharp", "--tier", "pcie5")
    assert row["workload"] == "mine.py"
    assert said("predict", "run", name, "--params", "sharp", "--machine", "sharp")["workload"] == "mine.py"
    assert said("run", name, "--reading", "clear")["workload"] == "mine.py"
    assert said("analyze", name, "--dry-run")["workload"] == "mine.py"
    sweep = tmp_path / "sweep.toml"
    sweep.write_text(f'workload = "{name}"\nparams = "sharp"\nmachine = "sharp"\ntier = "pcie5"\n')
    assert main(["sweep", str(sweep), "-o", str(tmp_path / "sweep"), "--workers", "1", "-q"]) == 0
    header, values = ((tmp_path / "sweep" / "results.csv").read_text().splitlines())[:2]
    found = dict(zip(header.split(","), values.split(","), strict=True))
    assert (found["workload"], found["trace"], float(found["total_s"])) == ("mine.py", name, row["total_s"])


def test_a_changed_file_is_another_analysis(write):
    def identity(text: str) -> object:
        asked = request_of(
            write(text), params=None, size=None, seed=0, threads=1, data=None, machines=["sharp"], tiers=["hbm"]
        )
        return asked.config("")["program"]

    assert identity(GOOD) == identity(GOOD)
    assert identity(GOOD) != identity(GOOD.replace("(x, 1)", "(x, 2)"))


def test_what_if_in_several_processes_reads_the_file_there(write):
    program = Workload(name=write(GOOD), size="default", params=catalogue.get("sharp"))
    axes = WhatIfAxes(depth=tuple(range(4, 40)), dnum=(2, 3), security=(0,))
    machine = load_machine("sharp")
    assert what_if(program, axes, [machine], workers=2) == what_if(program, axes, [machine])


def test_files_are_for_the_command_line_not_for_requests_packs_or_suites(write, tmp_path):
    name = write(GOOD)
    with pytest.raises(UnknownName):
        Library(runs=tmp_path).trace_path(name)
    with pytest.raises(UnknownName):
        write_pack(tmp_path / "pack", ["sharp"], [name])
    suite = tmp_path / "suite.toml"
    suite.write_text(f'[[workloads]]\nworkload = "{name}"\n')
    with pytest.raises(UsageError, match=r"a suite runs penstock's own workloads.*time a program of your own"):
        plan(load_suite(str(suite)))


def test_jobs_name_files_from_their_own_folder(write, tmp_path):
    write(GOOD)
    (job,) = parse_jobs('[[job]]\ntenant = "alice"\nworkload = "mine.py"', "jobs.toml", ["alice"], tmp_path)
    assert workloads.get(job.workload).NAME == "mine.py"


def test_a_run_takes_its_own_entry_of_the_path_back_and_no_other(tmp_path, monkeypatch):
    file, path = tmp_path / "p.py", [str(tmp_path), "elsewhere", *sys.path]
    monkeypatch.setattr(sys, "path", list(path))
    with own_file.blamed(file, "p.py", "here"):
        assert sys.path == [*path, str(tmp_path)]
    assert sys.path == path
    with own_file.blamed(file, "p.py", "here"):
        sys.path[:] = ["its own"]
    assert sys.path == ["its own"]


@pytest.mark.parametrize("is_first", [True, False])
def test_output_that_another_thread_redirects_meanwhile_is_put_back(write, is_first):
    before, text = sys.stdout, io.StringIO()
    outside, inside = redirect_stdout(text), own_file.blamed(Path("p.py"), "p.py", "here")
    first, second = (outside, inside) if is_first else (inside, outside)
    for each in (first, second):
        each.__enter__()
    for each in (first, second):  # not the last one first, as with two threads
        each.__exit__(None, None, None)
    print("to where it went before", file=sys.stdout)
    assert text.getvalue() == ""
    assert sys.stdout is before or sys.stdout.before is before
    sys.stdout = before


@pytest.mark.parametrize("when", ["import turns", "ev.encrypt"])
def test_a_file_or_a_module_beside_it_that_changes_is_read_again(tmp_path, when):
    """A module may be imported at the top, or by the program as it runs."""
    file, helper = tmp_path / "p.py", tmp_path / "turns.py"
    top, inner = ("import turns\n", "") if when.startswith("import") else ("", "    import turns\n")
    text = (
        f"import numpy as np\n{top}PARAMS = 'insecure-small'\n\n"
        "def data(size, slots, seed):\n    return np.ones(4)\n\n"
        f"def program(ev, data, size):\n{inner}    return ev.decrypt(ev.add(ev.encrypt(data), turns.BY + 0))[:4]\n"
    )
    found = []
    for by, more in ((1, 0), (2, 0), (2, 1)):
        helper.write_text(f"BY = {by}\n")
        file.write_text(text.replace("+ 0", f"+ {more}"))
        found.append(run_clear(str(file))[0])
    assert found == [2.0, 3.0, 4.0]
    assert workloads.get(str(file)) is workloads.get(str(file))

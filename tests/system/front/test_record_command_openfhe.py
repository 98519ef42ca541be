"""`penstock record`, and one line in a script: the trace is kept, the script is left as it was."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

import penstock.program.openfhe.recorder as recorder
from penstock.errors import CapabilityMissing
from penstock.scheme.traces.inspect import problems, summary
from penstock.scheme.traces.io import read_trace
from support.loaded import Record, loaded_record

ROOT = Path(__file__).resolve().parents[3]
EXAMPLE = ROOT / "examples" / "openfhe_script.py"
COMMAND = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())", "record"]


@pytest.fixture(scope="module")
def run() -> Iterator[Record]:
    with loaded_record() as record:
        yield record


def run_anew(script: Path, *arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    """`penstock record` as a shell starts it."""
    return subprocess.run(
        [*COMMAND, str(script), *arguments], capture_output=True, text=True, cwd=cwd, timeout=120, check=False
    )


def written(folder: Path, body: str) -> Path:
    script = folder / "program.py"
    script.write_text(textwrap.dedent(body))
    return script


PREAMBLE = """
    from openfhe import *
    p = CCParamsCKKSRNS()
    p.SetMultiplicativeDepth(2)
    p.SetSecurityLevel(HEStd_NotSet)
    p.SetRingDim(1024)
    cc = GenCryptoContext(p)
    for feature in (PKE, KEYSWITCH, LEVELEDSHE):
        cc.Enable(feature)
    keys = cc.KeyGen()
    cc.EvalMultKeyGen(keys.secretKey)
    c = cc.Encrypt(keys.publicKey, cc.MakeCKKSPackedPlaintext([1.0, 2.0]))
"""


@pytest.mark.usefixtures("openfhe")
def test_the_documented_script_gives_a_trace_of_the_hand_count_and_the_same_results(tmp_path: Path) -> None:
    plain = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=60)
    done = run_anew(EXAMPLE, "-o", "trace.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # Three decimals of every decrypted value; encryption is randomised, the noise is far below.
    assert done.stdout == plain.stdout
    trace = read_trace(tmp_path / "trace.parquet")
    assert list(problems(trace)) == []
    # By hand: 2 Encrypt; c1 + c2, EvalSub, EvalMult by 4.0; EvalMult; EvalSquare and EvalMult for the cube;
    # EvalAddInPlace of a plaintext; EvalRotate twice and EvalAdd of the two; 6 Decrypt.
    assert trace.count_by_kind() == {
        "encrypt": 2,
        "decrypt": 6,
        "add": 2,
        "add_plain": 1,
        "sub": 1,
        "mult": 2,
        "mult_scalar": 1,
        "square": 1,
        "rotate": 2,
    }
    assert len(trace) == 18
    info = summary(trace)
    assert info["num_operations"] == 10
    assert info["keys"] == ["relin", "rot:5", f"rot:{pow(5, 2046, 8192)}"]
    assert "18 operations (measured)" in done.stderr
    assert "2 automorphism keys generated" in done.stderr
    assert (trace.meta.workload, trace.meta.reading) == ("openfhe_script", "record")


@pytest.mark.usefixtures("openfhe")
def test_the_script_sees_its_own_name_arguments_and_folder(run: Record, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("HERE = 1\n")
    script = written(
        tmp_path,
        PREAMBLE
        + """
    import sys, beside
    print(__name__, sys.argv[1:], sys.path[0] == __file__.rpartition("/")[0], cc.EvalAdd.__name__)
    cc.EvalAdd(c, c)
    """,
    )
    other = tmp_path / "elsewhere"
    other.mkdir()
    done = run(script, "--layers", "3", "-q", "--", "-o", "mine", cwd=other)
    assert done.stdout == "__main__ ['--layers', '3', '-o', 'mine'] True EvalAdd\n"
    assert done.stderr == ""
    assert len(read_trace(other / "program.trace.parquet")) == 2


@pytest.mark.usefixtures("openfhe")
def test_a_script_that_changes_its_folder_has_its_trace_named_from_the_users(run: Record, tmp_path: Path) -> None:
    script = written(tmp_path, PREAMBLE + "\n    import os; os.chdir('/')\n    cc.EvalAdd(c, c)\n")
    done = run(script, cwd=tmp_path)
    assert "trace in program.trace.parquet;" in done.stderr
    assert (tmp_path / "program.trace.parquet").is_file()


@pytest.mark.usefixtures("openfhe")
def test_the_environment_that_the_script_sets_reaches_openfhe(tmp_path: Path) -> None:
    body = "import sys; print('openfhe' in sys.modules)" + PREAMBLE.replace("\n    ", "\n") + "print(c.GetLevel())\n"
    done = run_anew(written(tmp_path, body), cwd=tmp_path)
    assert done.stdout == "False\n0\n", done.stderr


@pytest.mark.usefixtures("openfhe")
def test_a_script_that_raises_keeps_its_trace_and_shows_its_own_traceback(run: Record, tmp_path: Path) -> None:
    script = written(
        tmp_path, PREAMBLE + "\n    def f():\n        cc.EvalAdd(c, c)\n        cc.EvalAdd(1, 2, 3)\n    f()\n"
    )
    done = run(script, cwd=tmp_path)
    assert done.returncode == 1
    assert done.stderr.startswith("Traceback (most recent call last):\n")
    assert "TypeError" in done.stderr
    assert "cc.EvalAdd(1, 2, 3)" in done.stderr
    for ours in ("recorder", "runpy"):
        assert ours not in done.stderr
    trace = read_trace(tmp_path / "program.trace.parquet")
    assert trace.count_by_kind() == {"encrypt": 1, "add": 1}
    assert any("ended early: TypeError" in note for note in trace.meta.notes)


@pytest.mark.parametrize(
    ("ending", "code"),
    [("import sys; sys.exit(7)", 7), ("raise SystemExit", 0), ("import sys; sys.exit('sorry')", 1)],
)
@pytest.mark.usefixtures("openfhe")
def test_the_exit_code_is_the_scripts(run: Record, tmp_path: Path, ending: str, code: int) -> None:
    done = run(written(tmp_path, PREAMBLE + "    " + ending), cwd=tmp_path)
    assert done.returncode == code
    assert ("sorry" in done.stderr) == (code == 1)
    assert len(read_trace(tmp_path / "program.trace.parquet")) == 1


@pytest.mark.usefixtures("openfhe")
def test_an_interrupt_keeps_what_was_recorded(run: Record, tmp_path: Path) -> None:
    script = written(
        tmp_path,
        PREAMBLE
        + """
    import os, signal
    cc.EvalAdd(c, c)
    os.kill(os.getpid(), signal.SIGINT)
    cc.EvalAdd(c, c)
    """,
    )
    done = run(script, cwd=tmp_path)
    assert done.returncode == 130
    assert "Traceback" not in done.stderr
    assert len(read_trace(tmp_path / "program.trace.parquet")) == 2


@pytest.mark.usefixtures("openfhe")
def test_threads_that_the_script_leaves_running_are_recorded_to_their_end(run: Record, tmp_path: Path) -> None:
    script = written(
        tmp_path,
        PREAMBLE
        + """
    import threading, time
    def later():
        time.sleep(0.3)
        cc.EvalAdd(c, c)
    threading.Thread(target=later).start()
    """,
    )
    assert run(script, cwd=tmp_path).returncode == 0
    assert read_trace(tmp_path / "program.trace.parquet").count_by_kind() == {"encrypt": 1, "add": 1}


@pytest.mark.usefixtures("openfhe")
def test_a_forked_child_leaves_the_trace_to_its_parent(run: Record, tmp_path: Path) -> None:
    script = written(
        tmp_path,
        PREAMBLE
        + """
    import os
    child = os.fork()
    if child:
        cc.EvalAdd(c, c)
        print("parent, child ended with", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
    else:
        print("child")
        raise SystemExit(3)
    """,
    )
    done = run(script, "-q", cwd=tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "child\nparent, child ended with 3\n"
    assert len(read_trace(tmp_path / "program.trace.parquet")) == 2


@pytest.mark.usefixtures("openfhe")
def test_each_context_of_a_script_has_its_own_trace(run: Record, tmp_path: Path) -> None:
    second = PREAMBLE.replace("Depth(2)", "Depth(5)").replace("from openfhe import *", "")
    done = run(written(tmp_path, PREAMBLE + second), "-o", "t.parquet", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert read_trace(tmp_path / "t.parquet").parameters().depth == 2
    assert read_trace(tmp_path / "t-2.parquet").parameters().depth == 5


@pytest.mark.usefixtures("openfhe")
def test_a_bfv_script_runs_and_is_told_that_only_ckks_is_recorded(run: Record, tmp_path: Path) -> None:
    script = written(
        tmp_path,
        """
        from openfhe import *
        p = CCParamsBFVRNS()
        p.SetPlaintextModulus(65537)
        p.SetMultiplicativeDepth(1)
        cc = GenCryptoContext(p)
        for feature in (PKE, KEYSWITCH, LEVELEDSHE):
            cc.Enable(feature)
        keys = cc.KeyGen()
        c = cc.Encrypt(keys.publicKey, cc.MakePackedPlaintext([1, 2, 3]))
        total = cc.Decrypt(cc.EvalAdd(c, c), keys.secretKey)
        total.SetLength(3)
        print(total.GetPackedValue())
        """,
    )
    done = run(script, cwd=tmp_path)
    assert done.stdout == "[2, 4, 6]\n"
    assert done.returncode == 2
    assert "a BFV context is not recorded: this version records CKKS only" in done.stderr
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.usefixtures("openfhe")
def test_a_script_without_ciphertexts_is_an_error_and_leaves_no_file(run: Record, tmp_path: Path) -> None:
    done = run(written(tmp_path, "print('nothing')"), cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("nothing\n", 1)
    assert "executed no operation on a CKKS ciphertext" in done.stderr
    assert not list(tmp_path.glob("*.parquet"))


@pytest.mark.usefixtures("openfhe")
def test_a_file_that_exists_is_refused_before_the_script_runs(run: Record, tmp_path: Path) -> None:
    (tmp_path / "program.trace.parquet").write_text("mine")
    script = written(tmp_path, "print('ran')" + PREAMBLE.replace("\n    ", "\n"))
    done = run(script, cwd=tmp_path)
    assert (done.stdout, done.returncode) == ("", 2)
    assert "--force" in done.stderr
    assert (tmp_path / "program.trace.parquet").read_text() == "mine"
    assert run(script, "--force", cwd=tmp_path).returncode == 0
    assert len(read_trace(tmp_path / "program.trace.parquet")) == 1


@pytest.mark.parametrize("target", ["missing/trace.parquet", "program.py/trace.parquet", "."])
@pytest.mark.usefixtures("openfhe")
def test_an_output_that_cannot_be_written_is_refused_before_the_script_runs(
    run: Record, tmp_path: Path, target: str
) -> None:
    done = run(written(tmp_path, "print('ran')"), "-o", target, cwd=tmp_path)
    assert done.stdout == ""
    assert done.returncode in (1, 2)
    assert "Traceback" not in done.stderr
    assert target.split("/")[0] in done.stderr


@pytest.mark.usefixtures("openfhe")
def test_a_script_that_is_not_there_is_refused_with_what_is(run: Record, tmp_path: Path) -> None:
    written(tmp_path, "")
    done = run(tmp_path / "progam.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "no script" in done.stderr
    assert "program.py" in done.stderr
    assert run(tmp_path, cwd=tmp_path).returncode == 2


def test_without_openfhe_the_command_says_how_to_get_it(tmp_path: Path) -> None:
    broken = tmp_path / "openfhe"
    broken.mkdir()
    (broken / "__init__.py").write_text("raise ImportError('GLIBCXX_3.4.32 not found', name='openfhe')\n")
    script = written(tmp_path, "import openfhe\n")
    done = run_anew(script, cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "penstock doctor" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.usefixtures("openfhe")
def test_one_line_in_a_script_writes_the_trace_when_it_ends(run: Record, tmp_path: Path) -> None:
    body = PREAMBLE.replace(
        "keys = cc.KeyGen()",
        "import penstock.program.openfhe.recorder as penstock\n    cc = penstock.record(cc)\n    keys = cc.KeyGen()",
    )
    script = written(tmp_path, body + "    d = c + c\n    1 / 0\n")
    for expected in ("program.trace.parquet", "program-2.trace.parquet"):
        done = subprocess.run(
            [sys.executable, str(script)], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
        )
        assert "ZeroDivisionError" in done.stderr
        assert expected in done.stderr.splitlines()[-1]
        assert read_trace(tmp_path / expected).count_by_kind() == {"encrypt": 1, "add": 1}
    # Under the command the script's own line adds no second file.
    recorded = run(script, "-o", "t.parquet", cwd=tmp_path)
    assert recorded.returncode == 1
    assert sorted(p.name for p in tmp_path.glob("*.parquet")) == [
        "program-2.trace.parquet",
        "program.trace.parquet",
        "t.parquet",
    ]


def test_the_runner_says_what_is_missing_when_openfhe_is(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delitem(sys.modules, "openfhe", raising=False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(CapabilityMissing, match="penstock doctor"):
        recorder.run_script(written(tmp_path, ""))

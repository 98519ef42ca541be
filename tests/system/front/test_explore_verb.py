"""`penstock explore` as a process: it says its address, answers, ends with Ctrl-C, and says what is missing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from urllib.request import urlopen

import pytest

from penstock.front.cli.main import main

COMMAND = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())", "explore"]


@pytest.mark.smoke
def test_it_serves_this_machine_until_it_is_interrupted(tmp_path):
    pytest.importorskip("uvicorn", reason="the explorer's server is not installed: pip install 'penstock[explore]'")
    arguments = ["roofline", "tier=rdma", "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert address.endswith("/?view=roofline&tier=rdma")
        with urlopen(address) as page:
            assert b"penstock" in page.read()
        with urlopen(address.split("/?")[0] + "/api/catalogue") as catalogue:
            assert "sharp" in json.load(catalogue)["machines"]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")
    assert list(tmp_path.iterdir()) == []


def test_an_answer_that_does_not_end_does_not_hold_up_the_end(tmp_path):
    pytest.importorskip("uvicorn", reason="the explorer's server is not installed: pip install 'penstock[explore]'")
    endless = (
        "import time; from penstock.front.explorer import views\n"
        "views.VIEWS['runs'] = lambda engine, state: time.sleep(120)\n"
    )
    command = [COMMAND[0], "-c", endless + COMMAND[2], *COMMAND[3:], "--port", "0", "--no-browser"]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    try:
        address = process.stdout.readline().strip().rstrip("/")
        with pytest.raises(TimeoutError):
            urlopen(f"{address}/api/view/runs", timeout=1)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
    assert (process.returncode, out, err) == (0, "", "")


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["whatiff"], "did you mean 'whatif'"),
        (["whatif", "tierr=hbm"], "did you mean 'tier'"),
        (["whatif", "tier"], "write NAME=VALUE"),
        (["whatif", "tier=hbn", "--print"], "did you mean 'hbm"),
        (["--print"], "name one of"),
        (["--machine", "nothing.toml"], "cannot read nothing.toml"),
        (["--port", "70000"], "70000"),
        (["--token-file", "token"], "--token-file is for --service"),
        (["--service", "http://127.0.0.1:9", "--token-file", "nothing"], "cannot read nothing"),
    ],
)
def test_wrong_words_exit_2_with_the_remedy(tmp_path, monkeypatch, capsys, arguments, reason):
    monkeypatch.chdir(tmp_path)
    assert main(["explore", *arguments, "--no-browser"]) == 2
    said = capsys.readouterr().err
    assert reason in said
    assert "Traceback" not in said


def test_a_refusal_is_the_exit_code_of_a_process(tmp_path):
    done = subprocess.run(
        [*COMMAND, "whatiff", "--no-browser"], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert done.returncode == 2, done.stderr
    assert "did you mean 'whatif'" in done.stderr
    assert "Traceback" not in done.stderr


def test_without_its_server_it_says_what_to_install_and_still_prints(tmp_path):
    printing = ["explore", "whatif", "workload=inner-product", "--print", "--format", "json"]
    code = (
        "import sys; sys.modules['fastapi'] = sys.modules['uvicorn'] = None\n"
        "from penstock.front.cli.main import main\n"
        "assert main(['explore', '--no-browser']) == 3\n"
        f"sys.exit(main({printing!r}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, timeout=60, check=False
    )
    assert "pip install 'penstock[explore]'" in done.stderr
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["provenance"] == "simulated"


def test_a_cache_on_the_command_line_holds_the_keys(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    asked = ("explore", "whatif", "workload=inner-product", "--print", "--format", "json")

    def rows(*more: str) -> list[dict[str, object]]:
        assert main([*asked, *more]) == 0
        return json.loads(capsys.readouterr().out)

    named, both, forced = rows("cache=4 GiB"), rows("cache=4 GiB", "hold=cache"), rows("cache=4 GiB", "hit_ratio=0")
    assert named == both
    assert named != forced

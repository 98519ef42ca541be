"""The whole service: a server, its workers, and a client that encrypts, submits and decrypts."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from penstock.front.cli.main import main
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Verb
from penstock.program.package.file import open_package, write_package
from penstock.program.package.replay import run_package
from penstock.runtime.client import Service
from penstock.scheme.params import catalogue
from support.docs_blocks import blocks

read_config = pytest.importorskip("penstock.service.http.config").read_config
pytest.importorskip("sqlalchemy", reason="the service is not installed: pip install 'penstock[serve]'")
pytest.importorskip("uvicorn", reason="the service is not installed: pip install 'penstock[serve]'")
pytest.importorskip("penstock_client", reason="penstock's client is not installed")

COMMAND = [sys.executable, "-c", "import sys; from penstock.front.cli.main import main; sys.exit(main())"]
X, W = np.linspace(-1.0, 1.0, 8), np.linspace(0.5, 1.0, 8)


class Running:
    """A server in a process of its own, with the tokens that it printed."""

    def __init__(self, folder: Path) -> None:
        words = [*COMMAND, "serve", "--folder", str(folder / "service"), "--port", "0", "--admin-port", "0"]
        self.process = subprocess.Popen(
            [*words, "--log", str(folder / "serve.log")],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if line.startswith("operators:"):
                break
        found = re.search(r"tenants: (\S+)", said)
        assert found, said
        self.url = found[1]
        tokens = re.findall(r"token of the (operator|tenant 'default').*: (\S+)", said)
        self.tokens = dict(tokens)

    def stop(self) -> int:
        """Drain it."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
        return self.process.returncode


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    there = Running(tmp_path_factory.mktemp("service"))
    try:
        yield there
    finally:
        there.stop()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """x * w, squared, plus its rotation by one."""
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x, w = builder.encrypt(Input("x", 8)), builder.encrypt(Input("w", 8))
    product = builder.add(Verb.RESCALE, [builder.add(Verb.MULT, [x, w])])
    square = builder.add(Verb.RESCALE, [builder.add(Verb.SQUARE, [product])])
    builder.output(builder.add(Verb.ADD, [square, builder.add(Verb.ROTATE, [square], argument=1)]), Output("sum", 7))
    builder.output(product, Output("product", 8))
    path = tmp_path_factory.mktemp("package") / "score.pkg"
    write_package(builder.finish("score", catalogue.get("insecure-small"), constants), path)
    return path


def test_the_configurations_of_the_page_are_read(tmp_path: Path) -> None:
    for name in ("certificate.pem", "key.pem"):
        (tmp_path / name).write_text("")
        (tmp_path / name).chmod(0o600)
    found = {}
    for block in blocks():
        if block.page == "docs/guides/serve.md" and block.file not in (None, "load.toml"):
            path = tmp_path / str(block.file)
            path.write_text(block.text)
            found[path.stem] = read_config(path)
    assert found.keys() == {"serve", "tls", "postgresql"}
    # The page shows the values that hold without it.
    (tmp_path / "least.toml").write_text('folder = "service"\n')
    assert found["serve"] == read_config(tmp_path / "least.toml")
    assert found["tls"].scheme == "https"
    assert found["postgresql"].database.startswith("postgresql+pg8000://")


def test_results_decrypt_to_the_clear_values(running: Running, package: Path, tmp_path: Path) -> None:
    program = open_package(package)
    clear = run_package(ClearEvaluator(program.params), program, {"x": X, "w": W})
    token = running.tokens["tenant 'default'"]
    with Service(running.url, token=token, folder=tmp_path / "alice", allow_insecure=True, patience_s=20) as service:
        service.deploy(package, "score")
        assert service.program("score").params == program.params
        assert set(service.needed_keys("score").lacking) == set(program.keys)
        found = service.run("score", {"x": X, "w": W})
        again = service.run("score", {"x": -X, "w": W})
        assert service.needed_keys("score").lacking == ()
        assert service.upload_keys("score") == []
        job = service.submit("score", {"x": X, "w": W}, "again")
        assert service.submit("score", {"x": X, "w": W}, "again") == job
        assert service.wait(job)["state"] == "done"
    assert found.keys() == clear.keys()
    for name, values in clear.items():
        assert found[name].shape == values.shape
        assert np.max(np.abs(found[name] - values)) < 1e-3
    assert np.max(np.abs(again["product"] + clear["product"])) < 1e-3


def test_a_load_is_computed_by_the_service(
    running: Running, package: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_SERVICE", running.url)
    monkeypatch.setenv("PENSTOCK_TOKEN", running.tokens["tenant 'default'"])
    token = tmp_path / "token"
    token.write_text(running.tokens["tenant 'default'"])
    token.chmod(0o600)
    np.savez("inputs.npz", x=X, w=W)
    with Service(running.url, token=token.read_text()) as service:
        service._web.ask("DELETE", "/v1/tenant")
    for words in (
        ["deploy", str(package), "--name", "load"],
        ["keygen", "bob", "--program", "load", "--allow-insecure"],
        ["upload", "bob", "--program", "load"],
        ["submit", "bob", "--program", "load", "--input", "inputs.npz", "--prepare", "ready", "--allow-insecure"],
    ):
        assert main(["client", *words, "-q"]) == 0, capsys.readouterr().err
    (tmp_path / "load.toml").write_text(
        '[[tenant]]\nname = "default"\ntoken_file = "token"\nprogram = "load"\n'
        'inputs = {x = "ready/input-0.ct", w = "ready/input-1.ct"}\n'
    )
    capsys.readouterr()
    assert main(["load", "--tenants", "load.toml", "--rate", "8", "--duration", "1 s", "--format", "json", "-q"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["done"] == found["jobs"] > 0
    assert found["p99_s"] < 20

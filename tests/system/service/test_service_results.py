"""Results of a service, held to the package that the client itself knows, and given to others with noise."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from penstock.errors import ParamsError, UsageError
from penstock.front.cli.main import main
from penstock.program.evaluator.protocol import Evaluator, Values
from penstock.program.package.capture import capture
from penstock.program.package.content import ConstantsInMemory, Output
from penstock.program.package.file import open_package, write_package
from penstock.runtime.client import Service
from penstock.runtime.client.uploads import digest_of
from penstock.scheme.params import catalogue
from support.fake_service import TOKEN, FakeService, fake_service

X = np.linspace(-1.0, 1.0, 8)
PRECISE = """
ring_dim = 4096
slots = 8
depth = 2
scale_bits = 55
secret = "uniform-ternary"
scaling = "fixed-manual"
security = "none"
"""


def client(fake: FakeService, folder: Path) -> Service:
    return Service(fake.url, token=TOKEN, folder=folder, allow_insecure=True)


def said(capsys: pytest.CaptureFixture[str], *words: str) -> list[dict[str, object]]:
    capsys.readouterr()
    code = main([*words, "--format", "json", "-q"])
    shown = capsys.readouterr()
    assert code == 0, shown.err
    found = json.loads(shown.out)
    return found if isinstance(found, list) else [found]


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[FakeService]:
    with fake_service(tmp_path) as service:
        yield service


@pytest.fixture
def precise(tmp_path: Path, fake: FakeService) -> Path:
    """The identity, whose results have room for the noise that hides the key, deployed as `same`."""
    (tmp_path / "precise.toml").write_text(PRECISE)

    def program(ev: Evaluator) -> Values:
        return ev.decrypt(ev.encrypt(X, name="x"))

    path = tmp_path / "same.pkg"
    write_package(capture(program, catalogue.get(str(tmp_path / "precise.toml")), ConstantsInMemory(), "same"), path)
    sha256 = digest_of(path)[0]
    fake.blobs[sha256] = path.read_bytes()
    fake.deploy("same", sha256)
    return path


def test_a_result_for_others_is_held_to_the_package_that_the_client_named(
    fake: FakeService, precise: Path, tmp_path: Path
) -> None:
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("same")
        with pytest.raises(UsageError, match="'same' has outputs"):
            service.submit("same", {"x": X}, package=_renamed(precise, tmp_path))
        named = service.submit("same", {"x": X}, "named", package=precise)
        assert fake.jobs["named"]["asked"]["package"] == digest_of(precise)[0]
        shared = service.result(named, result_for="shared")["output[0]"]
        assert 0 < np.max(np.abs(shared - X)) < 0.1
        compared = service.result(named, result_for="shared", package=precise, inputs={"x": X})["output[0]"]
        assert np.max(np.abs(compared - X)) < 0.1
        assert service.shared.results == 2
        with pytest.raises(UsageError, match="was submitted for another package"):
            service.result(named, result_for="owner", package=_renamed(precise, tmp_path))
        with pytest.raises(ParamsError, match="is not what 'same' makes of these inputs"):
            service.result(named, result_for="shared", package=precise, inputs={"x": -X})
        # A job whose program the client does not know by itself.
        told = service.submit("same", {"x": X}, "told")
        assert "package" not in fake.jobs["told"]["asked"]
        with pytest.raises(UsageError, match="a shared result needs its program's package"):
            service.result(told, result_for="shared")
        assert np.max(np.abs(service.result(told, result_for="owner")["output[0]"] - X)) < 1e-6
        # Inputs that the noise does not cover.
        large = service.submit("same", {"x": 9 * X}, "large", package=precise)
        with pytest.raises(ParamsError, match="inputs of 'same' have values up to"):
            service.result(large, result_for="shared")


def _renamed(package: Path, folder: Path) -> Path:
    found = open_package(package)
    other = folder / "renamed.pkg"
    write_package(replace(found, outputs=(Output("z", found.outputs[0].length),)), other, force=True)
    return other


def test_a_client_that_deployed_a_program_holds_its_results_to_it(
    fake: FakeService, precise: Path, tmp_path: Path
) -> None:
    with client(fake, tmp_path / "alice") as service:
        service.make_keys("same")
        service.deploy(precise, "same")
        job = service.submit("same", {"x": X})
        assert fake.jobs[job]["asked"]["package"] == digest_of(precise)[0]
        service.result(job, result_for="shared")
        assert service.shared.results == 1


def test_the_verbs_share_a_result_with_its_package_alone(
    fake: FakeService,
    precise: Path,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "token").write_text(TOKEN + "\n")
    (tmp_path / "token").chmod(0o600)
    access = ["--service", fake.url, "--token-file", "token"]
    np.save("x.npy", X)
    said(capsys, "client", "keygen", "alice", "--program", "same", *access, "--allow-insecure")
    submit = ["client", "submit", "alice", "--program", "same", "--input", "x.npy", "--allow-insecure", *access]
    said(capsys, *submit, "--job", "one")
    result = ["client", "result", "alice", "one", *access]
    assert main(result) == 2
    assert "--for" in capsys.readouterr().err
    assert main([*result, "--for", "shared"]) == 2
    assert "--package FILE" in capsys.readouterr().err
    assert main([*result, "--for", "shared", "--package", "same.pkg", "--format", "json"]) == 0
    shown = capsys.readouterr()
    assert "shared results of this pair: 1; an advantage of at most 2^-22.8 (predicted)" in shown.err
    assert "is trusted to have run the program" in shown.err
    assert np.allclose([row["value"] for row in json.loads(shown.out)], X, atol=0.1)
    assert main([*result, "--for", "shared", "--package", "same.pkg", "--input", "x.npy", "-o", "y.npy"]) == 0
    assert "The package makes the same of the inputs." in capsys.readouterr().err
    # The same ciphertext as a file.
    content = "alice/jobs/one/output-0.ct"
    decrypt = ["client", "decrypt", "alice", content, "--params", "precise.toml"]
    assert main(decrypt) == 2
    assert main([*decrypt, "--for", "shared"]) == 2
    assert main([*decrypt, "--for", "owner", "--result", "output[0]"]) == 2
    assert main([*decrypt, "--for", "shared", "--input", "x.npy"]) == 2
    assert "add --package FILE" in capsys.readouterr().err
    rows = said(capsys, *decrypt, "--for", "shared", "--package", "same.pkg", "--result", "output[0]")
    assert len(rows) == len(X)
    assert main([*decrypt, "--for", "shared", "--package", "same.pkg", "--queries", "1"]) == 2
    assert "make a new pair" in capsys.readouterr().err
    (tmp_path / "alice" / "shared.json").unlink()
    assert main([*decrypt, "--for", "shared", "--package", "same.pkg"]) != 0
    assert "is missing" in capsys.readouterr().err
    assert said(capsys, *decrypt, "--for", "owner", "--count", "1")[0]["value"] == pytest.approx(-1, abs=1e-6)

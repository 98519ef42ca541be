"""`penstock serve` with real workers and real keys: deploy, upload, compute, decrypt."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("fastapi")
pytest.importorskip("sqlalchemy")

from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.package.file import write_package
from penstock.program.package.replay import run_package, trace_package
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client import open_client
from penstock.runtime.native.store import add_missing_keys
from support.serve_site import Caller
from support.service_jobs import PARAMS, package


@pytest.mark.smoke
def test_a_job_from_deployment_to_decryption(tmp_path: Path) -> None:
    command = [str(Path(sys.executable).with_name("penstock")), "serve", "--folder", "state", "--port", "0"]
    with (tmp_path / "log").open("w") as log:
        process = subprocess.Popen(
            [*command, "--admin-port", "0"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=log, text=True
        )
    assert process.stdout is not None
    try:
        said = ""
        for line in process.stdout:
            said += line
            if line.startswith("operators: "):
                break
        token = re.search(r"tenant 'default', shown once: (\S+)", said)
        port = re.search(r"tenants: http://127.0.0.1:(\d+)", said)
        assert token is not None, (said, (tmp_path / "log").read_text())
        assert port is not None
        _one_job(Caller(int(port[1]), token[1]), tmp_path)
        process.terminate()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def _one_job(service: Caller, folder: Path) -> None:
    made = package(PARAMS)
    write_package(made, folder / "model.pkg")
    blob = service.upload((folder / "model.pkg").read_bytes(), "package").json["blob"]
    deployed = service("POST", "/v1/programs", {"name": "turns", "package": blob})
    assert deployed.status == 201, deployed
    assert deployed.json["predicted"]["seconds"] > 0

    rng = np.random.default_rng(3)
    values = {each.name: rng.uniform(-1, 1, each.length) for each in made.inputs}
    client = open_client(PARAMS, library="penstock")
    store = KeyStore(folder / "own")
    add_missing_keys(client, store, "default", dict(trace_package(made).view().key_limbs()))
    lacking = service("GET", "/v1/programs/turns/keys").json
    assert {each["key"] for each in lacking["lacking"]} == {key.name.key for key in store.list_keys()}
    segments = sorted((folder / "own").glob("*/*/*.pkey"))
    assert len(segments) == len(lacking["needed"])
    damaged = bytearray(segments[0].read_bytes())
    damaged[len(damaged) // 2] ^= 1
    refused = service.upload(bytes(damaged), "key", params="turns")
    assert (refused.status, refused.json["type"]) == (422, "urn:penstock:key-refused")
    for segment in segments:
        taken = service.upload(segment.read_bytes(), "key", params="turns")
        assert taken.status == 200, taken
    other = open_client(PARAMS, library="penstock")
    others = KeyStore(folder / "others")
    add_missing_keys(other, others, "default", {"relin": PARAMS.num_q})
    refused = service.upload(next((folder / "others").glob("*/*/*.pkey")).read_bytes(), "key", params="turns")
    assert refused.status == 422
    foreign = KeyStore(folder / "foreign")
    add_missing_keys(client, foreign, "mallory", {"relin": PARAMS.num_q})
    refused = service.upload(next((folder / "foreign").glob("*/*/*.pkey")).read_bytes(), "key", params="turns")
    assert refused.status == 422
    needs = service("GET", "/v1/programs/turns/keys").json
    assert needs["lacking"] == []
    assert needs["pair"] == client.key_tag

    inputs = {}
    for name, vector in values.items():
        padded = np.zeros(PARAMS.slots)
        padded[: len(vector)] = vector
        inputs[name] = service.upload(client.encrypt(padded).content).json["blob"]
    form = {"job": "one", "program": "turns", "inputs": inputs}
    submitted = service("POST", "/v1/jobs", form)
    assert submitted.status == 202, submitted
    ended = service.ended("one", 60)
    assert ended["state"] == "done", str(ended)
    clear = run_package(ClearEvaluator(PARAMS), made, values)
    for name, expected in clear.items():
        found = client.decrypt(service("GET", f"/v1/jobs/one/outputs/{name}").body).values[: len(expected)]
        np.testing.assert_allclose(found.real, expected, atol=1e-5)
    removed = service("DELETE", "/v1/tenant").json
    assert removed["removed"]["keys"] == len(segments)
    assert "ackups" in removed["remains"]
    assert service("GET", "/v1/keys").json["keys"] == []
    assert not list((folder / "state" / "keys").glob("*/*/*.pkey"))

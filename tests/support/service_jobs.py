"""Tenants with real keys, packages, and encrypted inputs, for tests of the service's workers."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, Verb
from penstock.program.package.file import write_package
from penstock.program.package.replay import run_package
from penstock.runtime.keystore import KeyStore
from penstock.runtime.native.client import open_client
from penstock.runtime.native.store import add_missing_keys
from penstock.scheme.params import catalogue
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.work.messages import JobSpec
from penstock.service.work.programs import plan_program

PARAMS = catalogue.get("insecure-cryptoracle")
LENGTH = 16
BUDGET = 64 << 20
"""Bytes of keys."""


def package(params: CkksParameters, repeats: int = 1, rotations: int = 3) -> Package:
    """Rotations, products and a constant, again and again: `repeats` makes it longer."""
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x, y = (builder.encrypt(Input(name, LENGTH)) for name in ("x", "y"))
    half = builder.constant(np.full(LENGTH, 0.5))
    total = builder.add(Verb.ADD, [x, y])
    for _ in range(repeats):
        turned = [builder.add(Verb.ROTATE, [x], argument=1 << step) for step in range(rotations)]
        product = builder.add(Verb.MULT, [turned[-1], y])
        scaled = builder.add(Verb.MULT_PLAIN, [turned[0]], constants=[half])
        total = builder.add(Verb.ADD, [product, scaled])
    builder.output(total, Output("total", LENGTH))
    builder.output(builder.add(Verb.SQUARE, [y]), Output("square", LENGTH))
    return builder.finish(f"turns-{repeats}-{rotations}", params, constants)


def refreshed(params: CkksParameters) -> Package:
    """One refresh."""
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x = builder.encrypt(Input("x", LENGTH))
    low = builder.add(Verb.MOD_DROP, [x], argument=3)
    builder.output(builder.add(Verb.BOOTSTRAP, [low]), Output("y", LENGTH))
    return builder.finish("refreshed", params, constants)


class Site:
    """A folder with a store, packages, and tenants."""

    def __init__(self, folder: Path, params: CkksParameters = PARAMS) -> None:
        self.folder, self.params = folder, params
        self.store = KeyStore(folder / "keys")
        for name in ("packages", "inputs", "outputs"):
            (folder / name).mkdir()
        self.packages: dict[str, tuple[Path, Package]] = {}
        self.clients: dict[str, Any] = {}
        self._made = 0

    def deploy(self, made: Package) -> str:
        path = self.folder / "packages" / f"{made.name}.pkg"
        write_package(made, path)
        self.packages[made.name] = path, made
        return made.name

    def join(self, tenant: str, *programs: str, without: str = "", budget_bytes: int = BUDGET) -> None:
        """A tenant with a key pair of its own, and the keys of the programs."""
        client = self.clients.setdefault(tenant, open_client(self.params, library="penstock"))
        for program in programs:
            keys = dict(plan_program(self.packages[program][0], budget_bytes).keys)
            keys.pop(without, None)
            add_missing_keys(client, self.store, tenant, keys)

    def job(self, tenant: str, program: str, **rest: Any) -> tuple[JobSpec, dict[str, np.ndarray]]:
        """A job on random values, and its outputs in the clear."""
        self._made += 1
        path, made = self.packages[program]
        rng = np.random.default_rng(self._made)
        values = {each.name: rng.uniform(-1, 1, each.length) for each in made.inputs}
        name = f"job-{self._made}"
        inputs = {}
        for given, vector in values.items():
            padded = np.zeros(self.params.slots)
            padded[: len(vector)] = vector
            inputs[given] = self.folder / "inputs" / f"{name}-{given}"
            inputs[given].write_bytes(self.clients[tenant].encrypt(padded).content)
        outputs = {each.name: self.folder / "outputs" / f"{name}-{each.name}" for each in made.outputs}
        spec = JobSpec(
            job=name,
            tenant=tenant,
            program=program,
            package=path,
            store=self.store.folder,
            secret_tag=self.clients[tenant].key_tag,
            inputs=inputs,
            outputs=outputs,
            **rest,
        )
        return spec, run_package(ClearEvaluator(self.params), made, values)

    def check(self, spec: JobSpec, clear: Mapping[str, np.ndarray], tolerance: float = 1e-5) -> None:
        """The outputs decrypt to the clear result, with the tenant's own key."""
        for name, path in spec.outputs.items():
            found = self.clients[spec.tenant].decrypt(path.read_bytes()).values[:LENGTH]
            np.testing.assert_allclose(found.real, clear[name], atol=tolerance)

    def leftovers(self) -> list[str]:
        """Files in the folder of outputs that are no outputs."""
        return sorted(path.name for path in (self.folder / "outputs").iterdir() if not path.name.startswith("job-"))


class Told:
    """What a pool said, in order."""

    def __init__(self) -> None:
        self.started: list[str] = []
        self.done: dict[str, Any] = {}
        self.failed: dict[str, tuple[str, bool]] = {}
        self.ended: list[str] = []

    def callbacks(self) -> dict[str, Callable[..., object]]:
        def done(job: str, figures: Any) -> None:
            assert job not in self.ended
            self.ended.append(job)
            self.done[job] = figures

        def failed(job: str, reason: str, retry: bool) -> None:
            assert job not in self.ended
            self.ended.append(job)
            self.failed[job] = reason, retry

        return {"on_started": self.started.append, "on_done": done, "on_failed": failed}

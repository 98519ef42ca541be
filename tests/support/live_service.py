"""A real server with real workers in a process of its own, and tenants with keys of their own."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np

from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Verb
from penstock.program.package.file import write_package
from penstock.runtime.client import Service
from penstock.scheme.params import catalogue
from support.own_process import COMMAND
from support.serve_site import Caller

X, W = np.linspace(-1.0, 1.0, 8), np.linspace(0.5, 1.0, 8)


def write_score(path: Path) -> Path:
    """x * w, and its rotation by one."""
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x, w = builder.encrypt(Input("x", 8)), builder.encrypt(Input("w", 8))
    product = builder.add(Verb.RESCALE, [builder.add(Verb.MULT, [x, w])])
    builder.output(builder.add(Verb.ROTATE, [product], argument=1), Output("turned", 7))
    write_package(builder.finish("score", catalogue.get("insecure-small"), constants), path)
    return path


class LiveService:
    """`penstock serve` on free ports, or on those of an earlier one."""

    def __init__(self, folder: Path, settings: str = "", ports: tuple[int, int] = (0, 0)) -> None:
        self.folder, self.settings = folder, settings
        self.operator_token = ""
        self.start(ports)

    def start(self, ports: tuple[int, int]) -> None:
        """Start it, and wait until it listens."""
        config = self.folder / "serve.toml"
        listen = f'listen = "127.0.0.1:{ports[0]}"\nadmin = "127.0.0.1:{ports[1]}"\n'
        config.write_text(f'folder = "state"\n{listen}{self.settings}')
        words = [*COMMAND, "serve", "--config", str(config), "--log", str(self.folder / "serve.log")]
        environment = {**os.environ, "PYTHONUNBUFFERED": "1"}
        self.process = subprocess.Popen(
            words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=environment
        )
        assert self.process.stdout is not None
        said = ""
        for line in self.process.stdout:
            said += line
            if line.startswith("operators:"):
                break
        found = re.findall(r"^(?:tenants|operators): http://127.0.0.1:(\d+)$", said, re.M)
        assert len(found) == 2, said
        self.ports = int(found[0]), int(found[1])
        if token := re.search(r"token of the operator, shown once: (\S+)", said):
            self.operator_token = token[1]
        self.operator = Caller(self.ports[1], self.operator_token)
        self.url, self.admin_url = (f"http://127.0.0.1:{port}" for port in self.ports)

    def tenant(self, name: str) -> Caller:
        """A new tenant, and a token of it."""
        assert self.operator("POST", "/v1/tenants", {"tenant": name}).status == 201
        form = {"scopes": ["deploy", "keys", "run", "read"]}
        made = self.operator("POST", f"/v1/tenants/{name}/tokens", form)
        return Caller(self.ports[0], made.json["token"])

    def client(self, name: str, caller: Caller, **more: Any) -> Service:
        """The tenant's client; its pair is in a folder named after it."""
        return Service(
            self.url, token=str(caller.token), folder=self.folder / name, allow_insecure=True, patience_s=20, **more
        )

    def stop(self) -> None:
        """Drain it."""
        self.process.terminate()
        try:
            self.process.communicate(timeout=30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()

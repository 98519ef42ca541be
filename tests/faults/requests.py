"""Hostile requests to penstock's servers, each a process of its own as a shell starts it.

The explorer and the key node are asked while they run; a key store in S3 is read from a server that lies. Between the
hostile requests honest ones are asked, whose answers stay what they were.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from faults import objects, web
from faults.frame import Result, command, over, reported
from faults.served import Server, port_in, start
from support.explore_site import hostile_runs

if TYPE_CHECKING:
    from faults.near import Node

BATCH = 500
"""Cases between two looks at the servers."""
SETTLING = 32
"""Requests in one go before a server is at rest: each thread of its pool that it may have is there then."""
CLIENTS = 8
"""Of a key node at once."""
CANARY = "canary-4f1c9be2"
KINDS = (("explorer", 0.65), ("key node", 0.29), ("lying node", 0.03), ("object store", 0.03))
SWEEP = 'name = "small"\nworkload = ["logistic-function"]\nmachine = ["sharp"]\ntier = ["pcie5", "hbm"]\n'
Case = Callable[[int, np.random.Generator], Result]


def kind_of(seed: int) -> tuple[str, np.random.Generator]:
    """What a seed asks, and the random numbers that it goes on with."""
    rng = np.random.default_rng([seed, 4])
    names, shares = zip(*KINDS, strict=True)
    return str(rng.choice(names, p=shares)), rng


@dataclass
class Sites:
    """Servers of each kind that seeds ask: `jobs` of them, so that the bench is not slower than its machine."""

    cases: dict[str, list[Case]] = field(default_factory=dict)
    servers: list[Server] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)
    """Kind -> why it is not here."""

    def case(self, seed: int) -> Result:
        """The case of a seed."""
        kind, rng = kind_of(seed)
        if kind in self.missing:
            return Result("requests", kind, seed, f"left out: {self.missing[kind]}", cases=0)
        there = self.cases[kind]
        return there[seed % len(there)](seed, rng)

    def look(self, first: int, asked: int) -> Iterator[Result]:
        """What the servers did meanwhile."""
        for server in self.servers:
            kind = f"{server.name.rpartition('-')[0]}: process"
            found = server.faults(asked)
            ended = "stands" if server.alive() else "ended"
            yield Result("requests", kind, first, ended, found, peak_bytes=server.peak_bytes(), cases=0)


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """Ask `count` hostile requests of the seeds from `seed` on."""
    seeds = range(seed, seed + count)
    kinds = {kind_of(each)[0] for each in seeds}
    with ExitStack() as stack:
        sites = prepared(folder, kinds, max(1, jobs), stack)

        def everything() -> Iterator[Result]:
            for at in range(0, count, BATCH):
                yield from over(sites.case, seeds[at : at + BATCH], jobs)
                yield from sites.look(seeds[at], min(at + BATCH, count))
            for server in sites.servers:
                yield Result("requests", "the end", seed, "ended", server.end(), cases=0)

        return reported(everything(), count)


def prepared(folder: Path, kinds: set[str], jobs: int, stack: ExitStack, *, real: bool = True) -> Sites:
    """Servers of these kinds. They end with the stack."""
    sites = Sites()
    if "explorer" in kinds:
        library = runs(folder / "explorer", real=real)
        # Hostile requests of two workers meet in one server, too.
        for number in range(jobs):
            site = explorer(library, folder, number)
            stack.callback(site.server.end)
            sites.servers.append(site.server)
            sites.cases.setdefault("explorer", []).append(partial(web.case, site))
    if nodes := kinds & {"key node", "lying node"}:
        if why := _without_openfhe():
            sites.missing.update(dict.fromkeys(nodes, why))
        else:
            from faults import lying_node, near

            node = key_node(folder)
            stack.callback(node.server.end)
            sites.servers.append(node.server)
            sites.cases["key node"] = [partial(near.case, node)]
            sites.cases["lying node"] = [partial(lying_node.case, lying_node.prepared(node, folder / "liar"))]
    if "object store" in kinds and (why := objects.missing() or _without_openfhe()):
        sites.missing["object store"] = why
    elif "object store" in kinds:
        sites.cases["object store"] = [partial(objects.case, objects.prepared(folder / "objects"))]
    return sites


def _without_openfhe() -> str:
    from penstock.errors import CapabilityMissing
    from penstock.program.openfhe.evaluator import load_openfhe

    try:
        load_openfhe()
    except CapabilityMissing:
        return "no OpenFHE"
    return ""


# The explorer.
def runs(folder: Path, *, real: bool = True) -> Path:
    """Runs of penstock's own verbs where they are `real`, runs of others, and beside them what no answer holds."""
    root = folder / "runs"
    folder.mkdir()
    hostile_runs(root)
    (folder / "outside" / "report.html").write_text(CANARY)
    (folder / "outside" / "secret.toml").write_text(f'name = "{CANARY}"')
    record = folder / "outside" / "run.json"
    record.write_text(record.read_text().replace("{", f'{{"note": "{CANARY}", ', 1))
    (root / "plain" / "report.html").write_text("<p>tables</p>")
    if real:
        (folder / "sweep.toml").write_text(SWEEP)
        verbs = [["sweep", str(folder / "sweep.toml"), "-o", str(root / "sweep"), "--workers", "1", "-q"]]
        if not _without_openfhe():
            verbs.append(["analyze", "inner-product", "--size", "ci", "-o", str(root / "analyzed"), "-q"])
        for argv in verbs:
            ended = command(argv, folder)
            assert ended.code == 0, ended.errors
    return root


def explorer(root: Path, folder: Path, number: int) -> web.Site:
    """A running explorer, and its honest answers."""
    server = start(
        f"explorer-{number}",
        ["explore", "--port", "0", "--no-browser", "--runs", str(root)],
        folder,
        lambda out, _: bool(port_in(out)),
        environ={"PENSTOCK_NODE_SECRET": CANARY},
        secrets=[CANARY],
    )
    hidden = (CANARY.encode(), b"root:x:0:0")
    site = web.Site(server, port_in(server.out.read_text()), {}, [], hidden)
    choices = json.loads(_ask(site, "/api/catalogue"))
    lists = {"workload": "workloads", "machine": "machines", "other": "machines", "tier": "tiers",
    "network": "networks",
             "mode": "modes", "policy": "policies", "partition": "partitions", "classes": "classes", "hold": "holds",
             "drive": "drives", "pattern": "patterns", "scan_end": "scan_ends", "run": "runs", "other_run": "runs",
             "params": "params"}  # fmt: skip
    known = {word["name"]: word["known"] for word in choices["words"]}
    for setting, usual in choices["defaults"].items():
        found = choices.get(lists.get(setting, ""), known.get(setting, []))
        names = [one["name"] if isinstance(one, dict) else one for one in found]
        site.names[setting] = names or [usual]
    site.views = choices["views"]
    done = ["plain", *(name for name in ("sweep", "analyzed") if (root / name).is_dir())]
    question = "workload=inner-product&params=openfhe-demo"
    addresses = ["/", "/static/main.js", "/api/catalogue", "/report/plain", "/api/view/runs"]
    views = ("whatif", "slowdown", "residency", "hosts") if len(done) > 1 else ("whatif",)
    addresses += [f"/api/view/{view}?{question}" for view in views]
    addresses += [f"/api/view/run?run={name}" for name in done]
    site.honest = {address: _ask(site, address) for address in addresses}
    many = [web.Asked("honest", web.request(addresses[0], site)) for _ in range(SETTLING)]
    many += [web.Asked("honest", web.request(f"/api/view/whatif?{question}", site)) for _ in range(2 * SETTLING)]
    web.at_once(site.port, many)
    server.rested()
    return site


def _ask(site: web.Site, address: str) -> bytes:
    got, _ = web.exchange(site.port, web.Asked("honest", web.request(address, site, "Connection: close")))
    (answer,) = web.parse(got)
    assert answer.status == 200, (address, answer)
    return answer.body


# The key node.
def key_node(folder: Path) -> Node:
    """A running key node with keys of two tenants."""
    from faults import near

    store, secret = folder / "keys", folder / "node-secret"
    params, jobs, expected = near.prepared(store)
    secret.touch(0o600)
    secret.write_text(os.urandom(16).hex())
    server = start(
        "key node-0",
        ["keys", "node", "--store", str(store), "--params", params.name, "--listen", "127.0.0.1:0", "--secret-file",
         str(secret), "--threads", "1", "--max-clients", str(CLIENTS), "--budget", f"{4 * params.key_bytes()} B"],
        folder,
        lambda _, errors: bool(port_in(errors)),
    )  # fmt: skip
    node = near.Node(server, port_in(server.errors.read_text()), params, secret.read_text(), jobs, expected)
    server.secrets = tuple(each.encode() for each in (node.secret, *(node.token(tenant) for tenant in near.TENANTS)))
    near.record(node)
    assert all(not near.honest(node, tenant) for tenant in near.TENANTS)
    shutil.rmtree(f"{store}.client", ignore_errors=True)
    # A ring of io_uring for each client that has read at the same time as others.
    server.rested({"anon_inode": CLIENTS})
    return node

"""The process in which SimGrid runs: one JSON request on standard input, one JSON reply on standard output.

It is a separate script, run by any interpreter that imports `simgrid` (3.32 or 4.x) and nothing of penstock, for two
reasons. SimGrid's bindings belong to one interpreter, often not the one that penstock runs on. And its engine is a
singleton whose clock goes on in a second simulation of the same process: one simulation is one process.

Request:  {"hosts": h, "links": [[bytes_per_s, latency_s], …], "routes": [[source, target, [link, …]], …],
           "patterns": [[[[source, target, bytes], …], …], …], "play": [pattern, …], "config": ["name:value", …]}
Reply:    {"simgrid": version, "seconds": [one for each of "play"]}, or {"error": what was wrong}.
A pattern is a list of rounds, a round a list of messages that start together; a round starts when the round before it
has ended. Links carry one direction each, so a full-duplex cable is two of them.
With the argument `--version` it prints SimGrid's version instead, or says on standard error why there is none.
"""

from __future__ import annotations

import ctypes
import json
import sys
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from simgrid import Comm, Engine, Host


def main() -> int:
    if sys.argv[1:] == ["--version"]:
        try:
            simgrid = load()
        except ImportError as error:
            sys.stderr.write(f"{error}\n")
            return 1
        sys.stdout.write("{}\n".format(getattr(simgrid, "simgrid_version", "")))
        return 0
    try:
        request = json.load(sys.stdin)
    except ValueError as error:
        return _reply({"error": f"the request is not JSON: {error}"})
    try:
        simgrid = load()
    except ImportError as error:
        return _reply({"error": f"this interpreter has no SimGrid: {error}"})
    try:
        seconds = simulate(simgrid, request)
    except Exception as error:  # whatever SimGrid raises has to reach the caller as a reply
        return _reply({"error": f"{type(error).__name__}: {error}"})
    return _reply({"simgrid": str(getattr(simgrid, "simgrid_version", "")), "seconds": seconds})


def load() -> ModuleType:
    """The module. A wheel built by pip has libsimgrid next to the module, where the loader does not look."""
    try:
        return import_module("simgrid")
    except ImportError as error:
        libraries = [path for folder in sys.path for path in sorted(Path(folder).glob("libsimgrid.so.*"))]
        if "libsimgrid" not in str(error) or not libraries:
            raise
        ctypes.CDLL(str(libraries[0]), mode=ctypes.RTLD_GLOBAL)
        return import_module("simgrid")


def simulate(simgrid: ModuleType, request: dict[str, Any]) -> list[float]:
    """Seconds of each pattern of "play", one after the other."""
    engine = simgrid.Engine(["penstock", "--log=root.thresh:error", *("--cfg=" + entry for entry in request["config"])])
    hosts = build(simgrid, engine, request)
    seconds: list[float] = []

    def conduct() -> None:
        for index in request["play"]:
            start = clock(engine)
            for messages in request["patterns"][index]:
                pending = [simgrid.Comm.sendto_async(hosts[i], hosts[j], size) for i, j, size in messages]
                wait_for_all(simgrid, pending)
            seconds.append(clock(engine) - start)

    if hasattr(hosts[0], "add_actor"):
        hosts[0].add_actor("conductor", conduct)
    else:
        simgrid.Actor.create("conductor", hosts[0], conduct)
    engine.run()
    if len(seconds) != len(request["play"]):
        raise RuntimeError("{} of {} patterns ended".format(len(seconds), len(request["play"])))
    return seconds


def build(simgrid: ModuleType, engine: Engine, request: dict[str, Any]) -> list[Host]:
    """Hosts, with a route of links for each pair that needs one. Names of the 4.x bindings where there are any."""
    if hasattr(simgrid.NetZone, "add_netzone_full"):
        zone = engine.netzone_root.add_netzone_full("cluster")
        add_host, add_link = zone.add_host, zone.add_link
    else:
        zone = simgrid.NetZone.create_full_zone("cluster")
        add_host, add_link = zone.create_host, zone.create_link
    hosts = [add_host(f"host-{i}", 1e9) for i in range(request["hosts"])]
    for host in hosts:
        host.seal()
    links = []
    for i, (bandwidth, latency) in enumerate(request["links"]):
        link = add_link(f"link-{i}", float(bandwidth))
        link.set_latency(float(latency))
        link.seal()
        links.append(simgrid.LinkInRoute(link))
    for source, target, route in request["routes"]:
        path = [links[i] for i in route]
        if hasattr(simgrid.NetZone, "add_netzone_full"):
            zone.add_route(hosts[source], hosts[target], path, False)
        else:
            ends = hosts[source].netpoint, hosts[target].netpoint
            zone.add_route(*ends, None, None, path, False)
    zone.seal()
    return hosts


def clock(engine: Engine) -> float:
    """Simulated seconds."""
    value = getattr(engine, "clock", None)
    return float(engine.get_clock() if value is None or callable(value) else value)


def wait_for_all(simgrid: ModuleType, pending: list[Comm]) -> None:
    if hasattr(simgrid, "ActivitySet"):
        simgrid.ActivitySet(pending).wait_all()
    else:
        simgrid.Comm.wait_all(pending)


def _reply(reply: dict[str, object]) -> int:
    sys.stdout.write(json.dumps(reply) + "\n")
    sys.stdout.flush()
    return 1 if "error" in reply else 0


if __name__ == "__main__":
    sys.exit(main())

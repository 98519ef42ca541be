"""The SimGrid worker that is not there, is killed, hangs or prints nonsense: stand-ins for its interpreter."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from penstock.front.cli.main import main
from penstock.lab.simulation.cluster import simgrid as module
from penstock.lab.simulation.cluster.collectives import AllGather, pattern_of
from penstock.lab.simulation.cluster.simgrid import PYTHON_VARIABLE, SimGrid, SimGridFailed, SimGridMissing, find_python
from penstock.lab.simulation.cluster.topology import build
from penstock.scheme.machines.networks import load_network

STAR = build("star", 2)
NETWORK = load_network("ethernet-400")
PATTERN = pattern_of(AllGather((0, 1), (8, 8)))
OTHER = pattern_of(AllGather((0, 1), (9, 9)))
ANSWER = '{"simgrid": "4.1", "seconds": [0.5]}'


@pytest.fixture
def interpreter(tmp_path):
    """A stand-in interpreter that runs a shell script, whatever it is asked."""

    def make(script: str) -> str:
        path = tmp_path / f"python-{len(list(tmp_path.iterdir()))}"
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return str(path)

    return make


def play(python: str, **fields) -> list[float]:
    return SimGrid(python=python, **fields).seconds(STAR, NETWORK, [PATTERN])


def test_an_answer_is_an_answer(interpreter):
    assert play(interpreter(f"cat > /dev/null; echo '{ANSWER}'")) == [0.5]


@pytest.mark.parametrize(
    ("script", "message"),
    [
        ("kill -9 $$", "killed by SIGKILL"),
        ("kill -15 $$", "killed by SIGTERM"),
        ("cat > /dev/null; echo hello", "it said: hello"),
        ("cat > /dev/null; echo broken >&2; exit 7", "status 7 and no answer; it said: broken"),
        ("cat > /dev/null", "it said: nothing"),
        ("cat > /dev/null; echo '[1, 2]'", "which is not an object"),
        ("cat > /dev/null; echo '{\"seconds\": [1, 2]}'", "no time for each of 1 patterns"),
        ("cat > /dev/null; echo '{\"seconds\": [-1]}'", "no time for each"),
        ("cat > /dev/null; echo '{\"seconds\": [NaN]}'", "no time for each"),
        ('cat > /dev/null; echo \'{"seconds": ["1"]}\'', "no time for each"),
        ('cat > /dev/null; echo \'{"error": "Bad config key"}\'', "refused the simulation.*Bad config key"),
    ],
)
def test_what_is_no_answer_is_a_clear_error(interpreter, script, message):
    with pytest.raises(SimGridFailed, match=message):
        play(interpreter(script))


def test_a_worker_that_hangs_is_ended(interpreter):
    with pytest.raises(SimGridFailed, match=r"no answer within 0\.2 s and was ended"):
        play(interpreter("exec sleep 60"), timeout_s=0.2)


def test_nothing_that_was_played_before_is_lost(interpreter):
    once = interpreter(f"cat > /dev/null; [ -e $0.done ] && kill -9 $$; touch $0.done; echo '{ANSWER}'")
    judge = SimGrid(python=once)
    assert judge.seconds(STAR, NETWORK, [PATTERN]) == [0.5]
    with pytest.raises(SimGridFailed, match="nothing that was played before is lost"):
        judge.seconds(STAR, NETWORK, [PATTERN, OTHER])
    assert judge.seconds(STAR, NETWORK, [PATTERN]) == [0.5]
    assert judge.processes == 2


def test_an_interpreter_that_is_not_there_has_a_remedy():
    with pytest.raises(SimGridMissing, match="make simgrid") as caught:
        find_python({PYTHON_VARIABLE: "/nonexistent/python"})
    assert caught.value.exit_code == 3
    with pytest.raises(SimGridMissing, match="apt-get install python3-simgrid"):
        play("/nonexistent/python")


def test_an_interpreter_without_simgrid_has_a_remedy(monkeypatch, capsys, interpreter):
    without = interpreter("echo \"No module named 'simgrid'\" >&2; exit 1")
    with pytest.raises(SimGridMissing, match=r"No module named 'simgrid'.*make simgrid"):
        find_python({PYTHON_VARIABLE: without})
    monkeypatch.setenv(PYTHON_VARIABLE, without)
    options = ["--machine", "sharp", "--hosts", "2", "--network", "ethernet-400", "--simgrid"]
    assert main(["simulate", "inner-product", "--params", "sharp", *options]) == 3
    assert "make simgrid" in capsys.readouterr().err


def test_the_first_interpreter_that_imports_simgrid_is_taken(monkeypatch, interpreter):
    without, with_it = interpreter("exit 1"), interpreter("echo 4.1")
    monkeypatch.setattr(module, "CANDIDATES", (without, with_it))
    assert find_python({"PATH": "a path of this test"}) == with_it


def worker(text: str) -> dict:
    """What the worker replies, run by this interpreter, which has no SimGrid."""
    done = subprocess.run(
        [sys.executable, "-I", str(module._WORKER)], input=text, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    return json.loads(done.stdout)


def test_the_worker_says_what_is_wrong_with_a_request():
    assert "not JSON" in worker("{")["error"]


def test_the_worker_speaks_the_names_of_both_bindings(monkeypatch):
    """The 3.32 and the 4.x bindings name everything differently; stand-ins of both are built and played alike."""
    from penstock.lab.simulation.cluster import simgrid_worker

    request = {
        "hosts": 2, "links": [[1.0, 0.5]], "routes": [[0, 1, [0]]], "patterns": [[[[0, 1, 4]]]], "play": [0, 0],
        "config": ["a:b"],
    }  # fmt: skip
    assert simgrid_worker.simulate(Bindings(new=False), request) == [4.5, 4.5]
    assert simgrid_worker.simulate(Bindings(new=True), request) == [4.5, 4.5]


class Bindings:
    """As much of SimGrid as the worker uses, for one message at a time, with the names of 3.32 or of 4.x."""

    def __init__(self, *, new: bool) -> None:
        outer, self.now, self.actors, self.rates = self, 0.0, [], []
        self.LinkInRoute = lambda link: link

        class Link:
            def set_latency(self, value):
                outer.rates.append(value)

            def seal(self):
                return self

        class Host:
            netpoint = "netpoint"

            def seal(self):
                return self

        class Zone:
            seal = staticmethod(lambda: None)
            add_route = staticmethod(lambda *ends: None)

        class Engine:
            def __init__(self, arguments):
                assert "--cfg=a:b" in arguments

            def run(self):
                for actor in outer.actors:
                    actor()

        class Comm:
            sendto_async = staticmethod(lambda source, target, size: size)

        class NetZone:
            pass

        def ended(pending):
            outer.now += sum(pending) + outer.rates[0]

        zone = Zone()
        if new:
            Zone.add_host, Zone.add_link = staticmethod(lambda *a: Host()), staticmethod(lambda *a: Link())
            NetZone.add_netzone_full = None
            Engine.netzone_root = type("Root", (), {"add_netzone_full": staticmethod(lambda name: zone)})()
            Engine.clock = property(lambda engine: outer.now)
            Host.add_actor = lambda host, name, run: outer.actors.append(run)
            self.ActivitySet = lambda pending: type("Set", (), {"wait_all": lambda each: ended(pending)})()
        else:
            Zone.create_host, Zone.create_link = staticmethod(lambda *a: Host()), staticmethod(lambda *a: Link())
            NetZone.create_full_zone = staticmethod(lambda name: zone)
            Engine.get_clock = lambda engine: outer.now
            self.Actor = type("Actor", (), {"create": staticmethod(lambda name, host, run: outer.actors.append(run))})
            Comm.wait_all = staticmethod(ended)
        self.Engine, self.Comm, self.NetZone = Engine, Comm, NetZone

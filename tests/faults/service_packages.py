"""Mutated packages through deployment: uploaded to a live service, deployed, and some of them run.

    python tests/faults service_packages --count 100000
    python tests/faults service_packages --count 1 --seed 137

Most mutants are sealed again: digests and footer are those of the changed bytes, so that they get past them. A mutant
is refused in words, or it is a program. No answer may be a failure or take longer than `MOST_SECONDS`, the examiner may
not break down, front and workers may not grow, and a mutant that computes gives what its instructions say in the clear.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import struct
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any

import numpy as np

from faults.frame import AT_MOST, MOST_SECONDS, Result
from faults.service_requests import wrong
from faults.service_site import PARAMS, Asking, Served, Tenant
from faults.service_words import Drawn
from penstock.errors import PenstockError
from penstock.program.evaluator.clear import ClearEvaluator
from penstock.program.package.builder import PackageBuilder
from penstock.program.package.content import ConstantsInMemory, Input, Output, Package, Verb
from penstock.program.package.file import open_package, write_package
from penstock.program.package.replay import run_package
from penstock.runtime.client import KeyPair
from support.serve_site import Answer
from support.service_jobs import LENGTH, package

FOOTER = struct.Struct("<QQ32sII8s")
COUNTS = 18
_ELEMENT = {"verbs": (1, 3), "arguments": (4, 3), "limbs": (2, 3), "degrees": (1, 3), "scopes": (4, 3), "many": (4, 4),
            "operands": (4, 5), "uses": (4, 6), "numbers": (16, 7), "parents": (4, 8), "ends": (16, 9),
            "series": (4, 9), "coefficients": (8, 10), "input lengths": (4, 11), "input limbs": (2, 11),
            "complex": (1, 11), "output lengths": (4, 12), "key limbs": (2, 13), "offsets": (8, 14), "bytes": (4, 14),
            "values": (4, 14), "kinds": (1, 14), "forms": (1, 14), "digests": (32, 14)}  # fmt: skip
"""Column -> bytes of an element, and the number that says how many there are."""
MORE_BYTES = 64 << 20
"""Front and workers may hold so much more than when they are warm."""
TENANT_LASTS = 250
"""Mutants of one tenant, which is removed then: packages that are refused stay until that."""
RUN_SHARE = 0.5
"""Of mutants that are programs, so many are run."""
LARGEST = 256.0
"""Results are compared where nothing in the program is larger: others overflow."""
TOLERANCE = 1e-4


def _scaled() -> Package:
    constants = ConstantsInMemory()
    builder = PackageBuilder(constants)
    x, y = (builder.encrypt(Input(name, LENGTH)) for name in ("x", "y"))
    ramp, half = builder.constant(np.linspace(-1, 1, LENGTH)), builder.constant(np.full(LENGTH, 0.5))
    turned = builder.add(Verb.ROTATE_HOISTED, [x, builder.add(Verb.DECOMPOSE, [x])], argument=2)
    total = builder.add(Verb.WEIGHTED_SUM, [x, y, turned], constants=[ramp, half, ramp])
    low = builder.add(Verb.RESCALE, [builder.add(Verb.MULT, [builder.add(Verb.NEGATE, [x]), y])])
    moved = builder.add(Verb.SCALAR_SUB, [builder.add(Verb.ADD_PLAIN, [low], constants=[ramp])], number=0.25)
    builder.output(builder.add(Verb.MOD_DROP, [moved], argument=3), Output("moved", LENGTH))
    builder.output(total, Output("total", LENGTH))
    return builder.finish("scaled", PARAMS, constants)


BASES: Mapping[str, Callable[[], Package]] = {"turns": lambda: package(PARAMS, rotations=3), "scaled": _scaled}


def sections(tables: bytes) -> dict[str, tuple[int, int, int]]:
    """Where each column of some tables begins, how long it is, and the bytes of its elements."""
    counts, at = struct.unpack_from(f"<{COUNTS}I", tables), 4 * COUNTS
    texts = 2 + sum(counts[number] for number in (8, 11, 12, 13))
    sizes = [(name, counts[number] * size, size) for name, (size, number) in _ELEMENT.items()]
    sizes += [("text lengths", 2 * texts, 2), ("texts", counts[15], 1), ("params", counts[16], 1),
              ("provenance", counts[17], 1)]  # fmt: skip
    found = {"counts": (0, at, 4)}
    for name, size, element in sizes:
        if size:
            found[name] = at, size, element
        at += size
    assert at == len(tables), "the tables have other columns than this bench knows"
    return found


def parts(content: bytes) -> tuple[bytes, bytes]:
    """Header with constants, and tables, of a package."""
    at, size, *_ = FOOTER.unpack(content[-FOOTER.size :])
    return content[:at], content[at : at + size]


def sealed(body: bytes, tables: bytes) -> bytes:
    """A package of these: its digest is that of the tables."""
    footer = FOOTER.pack(len(body), len(tables), hashlib.sha256(tables).digest(), 1, 0, b"GKPTSNEP")
    return body + tables + footer


def _element(rng: random.Random, tables: bytearray, where: dict[str, tuple[int, int, int]]) -> None:
    """Another value for an element of a column."""
    at, size, wide = where[rng.choice(list(where))]
    place = at + rng.randrange(size // wide) * wide
    old = int.from_bytes(tables[place : place + wide], "little")
    near = [old ^ 1 << rng.randrange(8 * wide), old + 1, old - 1, 0, 1, rng.randrange(16), (1 << 8 * wide) - 1, old * 2]
    tables[place : place + wide] = (rng.choice(near) % (1 << 8 * wide)).to_bytes(wide, "little")


def _copied(rng: random.Random, tables: bytearray, where: dict[str, tuple[int, int, int]]) -> None:
    """An element takes the value of another one of its column, or both change places."""
    at, size, wide = where[rng.choice([name for name in where if name != "counts"])]
    first, second = (at + rng.randrange(size // wide) * wide for _ in range(2))
    one, other = bytes(tables[first : first + wide]), bytes(tables[second : second + wide])
    tables[first : first + wide] = other
    if rng.random() < 0.5:
        tables[second : second + wide] = one


def _exchanged(rng: random.Random, tables: bytearray, where: dict[str, tuple[int, int, int]]) -> None:
    """Two columns change places."""
    (one, size, _), (two, more, _) = sorted(where[name] for name in rng.sample([*where][1:], 2))
    changed = tables[:one] + tables[two : two + more] + tables[one + size : two] + tables[one : one + size]
    tables[:] = changed + tables[two + more :]


def _resized(rng: random.Random, tables: bytearray, where: dict[str, tuple[int, int, int]]) -> None:
    """A column has an element more or less, and the counts say so, or do not."""
    name = rng.choice([*where][1:])
    at, size, wide = where[name]
    place = at + rng.randrange(size // wide) * wide
    step = rng.choice([-1, 1])
    tables[place : place + (wide if step < 0 else 0)] = b"" if step < 0 else bytes(tables[place : place + wide])
    number = _ELEMENT[name][1] if name in _ELEMENT else {"texts": 15, "params": 16, "provenance": 17}.get(name)
    if number is not None and rng.random() < 0.8:
        count = int.from_bytes(tables[4 * number : 4 * number + 4], "little") + step
        tables[4 * number : 4 * number + 4] = (count % (1 << 32)).to_bytes(4, "little")


def _json(rng: random.Random, tables: bytearray, where: dict[str, tuple[int, int, int]]) -> None:
    """Another number or text in the parameter set."""
    at, size, _ = where["params"]
    params = json.loads(tables[at : at + size])
    name = rng.choice(list(params))
    old = params[name]
    if isinstance(old, list) and old:
        place = rng.randrange(len(old))
        old[place] = rng.choice([old[place - 1], 0, 2, old[place] + 2 if isinstance(old[place], int) else None])
    else:
        more = [old + 1, old - 1, old * 2, -old] if isinstance(old, int | float) else []
        params[name] = rng.choice([None, 0, 1, -1, "", [], {}, 1 << 70, 1e308, True, *more])
    text = json.dumps(params).encode()
    tables[at : at + size] = text
    tables[64:68] = len(text).to_bytes(4, "little")


def _constant(rng: random.Random, body: bytearray, tables: bytearray) -> None:
    """Bytes of a constant, whose digest is made good."""
    where = sections(bytes(tables))
    offsets, lengths, digests = (where[name][0] for name in ("offsets", "bytes", "digests"))
    number = rng.randrange(where["bytes"][1] // 4)
    at = int.from_bytes(tables[offsets + 8 * number : offsets + 8 * number + 8], "little")
    size = int.from_bytes(tables[lengths + 4 * number : lengths + 4 * number + 4], "little")
    for _ in range(rng.randrange(1, 4)):
        body[at + rng.randrange(size)] = rng.randrange(256)
    tables[digests + 32 * number : digests + 32 * number + 32] = hashlib.sha256(body[at : at + size]).digest()


def _damaged(rng: random.Random, content: bytes) -> bytes:
    """Cut, or with other bytes, and not sealed again."""
    changed = bytearray(content[: rng.randrange(1, len(content))] if rng.random() < 0.4 else content)
    for _ in range(rng.randrange(4)):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def mutant(bases: Sequence[bytes], seed: int) -> tuple[str, bytes]:
    """The kind and the bytes of a seed's package."""
    rng = random.Random(seed)
    content = rng.choice(bases)
    kind = rng.choices(["damaged", "constant", "tables"], [0.1, 0.1, 0.8])[0]
    if kind == "damaged":
        return kind, _damaged(rng, content)
    body, tables = map(bytearray, parts(content))
    if kind == "constant":
        _constant(rng, body, tables)
        return kind, sealed(bytes(body), bytes(tables))
    change = rng.choices([_element, _copied, _exchanged, _resized, _json], [0.4, 0.3, 0.08, 0.12, 0.1])[0]
    where = sections(bytes(tables))
    for _ in range(rng.choice([1, 1, 1, 2]) if change in (_element, _copied) else 1):
        change(rng, tables, where)
    return change.__name__.strip("_"), sealed(bytes(body), bytes(tables))


class Deploying:
    """Threads that deploy mutants, and what became of them."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.served = folder, Served(folder, None)
        try:
            paths = {name: folder / f"{name}.pkg" for name in BASES}
            for name, path in paths.items():
                write_package(BASES[name](), path)
            alice = Tenant(self.served, "alice", paths)
            with alice.service() as service:
                for name in paths:
                    service.upload_keys(name)
        except BaseException:
            self.served.end()
            raise
        self.bases = [path.read_bytes() for path in paths.values()]
        self._alice, self._pair = alice.ask, KeyPair.load(alice.folder, PARAMS)
        rng = np.random.default_rng(5)
        self._values = {name: rng.uniform(-1, 1, LENGTH) for name in ("x", "y")}
        contents = {name: self._pair.encrypt(values) for name, values in self._values.items()}
        self._blobs = {name: alice.ask.upload(content).json["blob"] for name, content in contents.items()}
        self.kinds, self.ended, self.faults = Counter[str](), Counter[str](), list[Result]()
        self.slowest_s, self.compared = 0.0, 0
        self._ends, self._lock = time.monotonic() + AT_MOST["seconds"], threading.Lock()
        self._hidden = (str(folder).encode(), b"Traceback", b"panicked")

    def run(self, seeds: range, threads: int) -> None:
        """All seeds."""
        shares: SimpleQueue[range] = SimpleQueue()
        for at in range(seeds.start, seeds.stop, TENANT_LASTS):
            shares.put(range(at, min(at + TENANT_LASTS, seeds.stop)))
        running = [threading.Thread(target=self._some, args=(shares,), daemon=True) for _ in range(threads)]
        for each in running:
            each.start()
        for each in running:
            each.join()

    def _some(self, shares: SimpleQueue[range]) -> None:
        while time.monotonic() < self._ends and len(self.faults) < 50:
            try:
                seeds = shares.get_nowait()
            except Empty:
                return
            tenant = f"maker-{seeds.start}"
            maker = Asking(self.served.ports[0], self.served.token(tenant))
            for seed in seeds:
                if time.monotonic() > self._ends:
                    break
                self._one(maker, seed)
            self.served.operator.surely("DELETE", f"/v1/tenants/{tenant}")

    def _one(self, maker: Asking, seed: int) -> None:
        kind, content = mutant(self.bases, seed)
        begun, said, ended = time.monotonic(), "", "refused"
        try:
            answer, said = self._deployed(maker, f"m{seed}", content)
            if answer.status in (200, 201):
                ended = "a program"
                if random.Random(seed).random() < RUN_SHARE and not said:
                    ended, said = self._ran(f"m{seed}", content)
        except (OSError, http.client.HTTPException, ValueError, KeyError, TimeoutError) as error:
            said = f"no answer: {error!r}"[:300]
        took_s = time.monotonic() - begun
        with self._lock:
            self.kinds[kind] += 1
            self.ended[ended] += 1
            self.slowest_s = max(self.slowest_s, took_s)
            if said:
                self.faults.append(Result("service_packages", kind, seed, ended, (said,), took_s))
                print(self.faults[-1], flush=True)

    def _deployed(self, ask: Asking, name: str, content: bytes) -> tuple[Answer, str]:
        """The answer to a deployment, and what is wrong with it."""
        sent = ask.upload(content, "package")
        if sent.status != 200:
            return sent, f"an upload was answered with {sent}"
        form = {"name": name, "package": hashlib.sha256(content).hexdigest()}
        while True:
            begun = time.monotonic()
            answer = ask("POST", "/v1/programs", form)
            took_s = time.monotonic() - begun
            if answer.status != 429:
                break
            time.sleep(0.05)
        headers = {name.lower(): value for name, value in answer.headers.items()}
        said = wrong(Drawn("deploy", b""), answer.status, headers, answer.body, self._hidden)
        if b"could not be examined" in answer.body:
            said = f"the examiner broke down: {answer}"
        if took_s > MOST_SECONDS:
            said = f"a deployment took {took_s:.1f} s"
        return answer, said

    def _ran(self, name: str, content: bytes) -> tuple[str, str]:
        """How a job of a mutant ended, and what is wrong with that."""
        ask = self._alice
        answer, said = self._deployed(ask, name, content)
        while answer.status == 404 and b"no-package" in answer.body:
            # Another seed made the same mutant, and removed its program, and with it the package, in between.
            answer, said = self._deployed(ask, name, content)
        if answer.status not in (200, 201):
            return "refused", said or f"another tenant may not deploy it: {answer}"
        try:
            inputs = {each["name"]: self._blobs.get(each["name"], self._blobs["x"]) for each in answer.json["inputs"]}
            form = {"job": name, "program": name, "inputs": inputs, "deadline_s": 60.0}
            submitted = ask.surely("POST", "/v1/jobs", form)
            if submitted.status != 202:
                return f"not taken ({submitted.status})", "" if submitted.status < 500 else f"a job: {submitted}"
            job = ask.ended(name, 60)
            if job["state"] != "done":
                return f"a job {job['state']}", self._bad_reason(str(job["reason"]))
            outputs = {each: ask("GET", f"/v1/jobs/{name}/outputs/{each}").body for each in job["outputs"]}
            return "a job done", self._compare(name, content, inputs, outputs)
        finally:
            ask.surely("DELETE", f"/v1/jobs/{name}")
            ask.surely("DELETE", f"/v1/programs/{name}")

    def _bad_reason(self, reason: str) -> str:
        words = (str(self.folder), "Error:", "Exception", "panicked", "worker")
        return f"a job failed with: {reason[:300]}" if any(word in reason for word in words) else ""

    def _compare(self, name: str, content: bytes, inputs: Mapping[str, str], outputs: Mapping[str, bytes]) -> str:
        """What differs from the program in the clear; empty: nothing, or it cannot be compared."""
        path = self.folder / f"{name}.pkg"
        path.write_bytes(content)
        try:
            made = open_package(path)
            own = {self._blobs[name]: values for name, values in self._values.items()}
            if any(each.length != LENGTH for each in made.inputs) or made.params != PARAMS:
                return ""
            watched = _Watched(made.params)
            with np.errstate(all="ignore"):
                clear = run_package(watched, made, {each: own[blob] for each, blob in inputs.items()})
        except (PenstockError, OSError, ArithmeticError):
            return ""
        finally:
            path.unlink(missing_ok=True)
        if not watched.largest <= LARGEST:
            return ""
        with self._lock:
            self.compared += 1
        for output, values in clear.items():
            found = self._pair.decrypt_complex(outputs[output], result_for="owner")[: len(values)]
            off = float(np.max(np.abs(found - values), initial=0.0))
            if not off <= TOLERANCE * max(1.0, watched.largest):
                return f"output '{output}' is off by {off:.3g}"
        return ""


class _Watched(ClearEvaluator):
    """The clear reading, and the largest value that it met."""

    largest = 0.0

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if name.startswith("_") or not callable(found):
            return found

        def watched(*args: Any, **named: Any) -> Any:
            result = found(*args, **named)
            for each in result if isinstance(result, list | tuple) else [result]:
                with suppress(TypeError, ValueError):
                    self.largest = max(self.largest, float(np.max(np.abs(each), initial=0.0)))
            return result

        return watched


def deployed(folder: Path, seeds: range, threads: int) -> tuple[list[Result], str]:
    """Deploy the mutants of these seeds; faults and one result a kind, and what was measured in a sentence."""
    site = Deploying(folder)
    try:
        begun, warm = time.monotonic(), seeds[: len(seeds) // 10]
        site.run(warm, threads)
        before = site.served.memory()
        site.run(seeds[len(warm) :], threads)
        after, took_s = site.served.memory(), time.monotonic() - begun
        found = [
            f"{what} hold {now >> 20} MiB, {then >> 20} MiB when they were warm"
            for what, then, now in zip(("the front", "workers"), before, after, strict=True)
            if warm and now - then > MORE_BYTES
        ]
        assert site.served.process is not None
        if site.served.process.poll() is not None:
            found.append(f"the server ended with {site.served.process.returncode}")
        with site.served.log.open() as lines:
            if failed := [line for line in lines if '"event": "failure"' in line][:3]:
                found.append(f"the log tells of failures: {failed}")
    finally:
        code = site.served.end()
    if code != 0:
        found.append(f"the server ended with {code}")
    results = [*site.faults, *(Result("service_packages", kind, seeds.start, "deployed", cases=n)
                               for kind, n in site.kinds.items())]  # fmt: skip
    results.append(Result("service_packages", "process", seeds.start, "stands", tuple(found), cases=0))
    count = site.kinds.total()
    memory = ", ".join(f"{then >> 20} to {now >> 20} MiB" for then, now in zip(before, after, strict=True))
    said = (
        f"{count} mutants in {took_s:.0f} s ({count / took_s:.1f} a second): {dict(site.ended.most_common())}; "
        f"{site.compared} compared with the clear; slowest {site.slowest_s:.1f} s; front and workers {memory}"
    )
    return results, said


def bench(folder: Path, count: int, seed: int, jobs: int) -> list[Result]:
    """Deploy `count` mutants from the seed on."""
    results, said = deployed(folder, range(seed, seed + count), 2 * max(1, jobs))
    print(f"  {said}")
    return results

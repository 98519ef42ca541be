"""Answers of the simulator in the time of a keystroke: traces, prices and prepared programs are kept.

The functions are those of `penstock simulate`, so the same question gives the same numbers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Hashable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from penstock.base.system.files import os_errors
from penstock.base.system.host import available_cores
from penstock.base.types import Rows
from penstock.errors import PenstockError, UsageError
from penstock.front.explorer import drives
from penstock.front.explorer.asked import Asked
from penstock.front.explorer.bounds import ANSWERS_BYTES, PRICES_BYTES, READY_BYTES, SPACES_BYTES, TRACES_BYTES, Turns
from penstock.front.explorer.designs import designs
from penstock.front.explorer.library import Library
from penstock.front.explorer.memo import Memo
from penstock.front.explorer.pairs import Pair, pairs_of_bench
from penstock.front.explorer.state import FILE, State
from penstock.front.explorer.view import View
from penstock.lab.advice.remedy import Advice
from penstock.lab.advice.simulated import Plays
from penstock.lab.measure.bench.history import History, histories
from penstock.lab.measure.bench.results import load_results
from penstock.lab.reports.space import Space
from penstock.lab.reports.sweep import sweep_rows, sweep_space
from penstock.lab.simulation.cluster.program import prepare
from penstock.lab.simulation.memory.tenants import interleave, order_named
from penstock.lab.simulation.names import classes_named, one_of
from penstock.lab.simulation.play import Ready, play
from penstock.lab.simulation.question import Point
from penstock.program.running import trace_workload
from penstock.program.running.native_set import set_for
from penstock.scheme.machines import InsideModel, Machine
from penstock.scheme.params.catalogue import names as params_names
from penstock.scheme.params.rlwe import form_of
from penstock.scheme.play.price import PricedTrace, price_trace
from penstock.scheme.play.rows import columns
from penstock.scheme.traces.schema import Trace
from penstock.scheme.work.shapes import Ints, codes, server_rows

if TYPE_CHECKING:
    from penstock.lab.instorage.flash.scan import ScanResult


COUNTS = (1, 2, 4, 8, 16, 32, 64)
"""Hosts that the cluster's view shows."""
KEPT_TRACES = 6
KEPT_PRICES = 24
KEPT_ANSWERS = 256
KEPT_PLAYS = 3


class _Workers:
    """The threads of one process: a child of a fork starts its own."""

    def __init__(self) -> None:
        self.start()
        os.register_at_fork(after_in_child=self.start)

    def start(self) -> None:
        self.pool = ThreadPoolExecutor(max_workers=min(4, available_cores()), thread_name_prefix="explore")


_WORKERS = _Workers()


class Engine:
    """Plays the question. Thread safe."""

    def __init__(self, library: Library) -> None:
        self.library = library
        self.turns = Turns()
        """Of answers; whoever asks the engine for one takes a turn."""
        self._traces = Memo[Trace](KEPT_TRACES, most_bytes=TRACES_BYTES)
        self._machines = Memo[Machine](KEPT_PRICES, most_bytes=ANSWERS_BYTES)
        self._sets = Memo[str](KEPT_PRICES, most_bytes=ANSWERS_BYTES)
        self._priced = Memo[PricedTrace](KEPT_PRICES, most_bytes=PRICES_BYTES)
        self._ready = Memo[Ready](KEPT_PRICES, most_bytes=READY_BYTES)
        self._copies = Memo[PricedTrace](KEPT_PRICES, most_bytes=READY_BYTES)
        self._num_keys = Memo[int](KEPT_TRACES, most_bytes=ANSWERS_BYTES)
        self._kinds = Memo[tuple[Ints, list[str]]](KEPT_TRACES, most_bytes=ANSWERS_BYTES)
        self._steps = Memo[dict[str, int]](KEPT_TRACES, most_bytes=ANSWERS_BYTES)
        self._answers = Memo[tuple[Rows, list[str]]](KEPT_ANSWERS, most_bytes=ANSWERS_BYTES)
        self._plays = Memo[Plays](KEPT_PLAYS, most_bytes=PRICES_BYTES)
        self._advised = Memo[Advice](KEPT_ANSWERS, most_bytes=ANSWERS_BYTES)
        self._drives = Memo["ScanResult"](KEPT_ANSWERS, most_bytes=ANSWERS_BYTES)
        self._benches = Memo[pa.Table](KEPT_TRACES * 2, most_bytes=ANSWERS_BYTES)
        self._histories = Memo[list[History]](KEPT_TRACES, most_bytes=ANSWERS_BYTES)
        self._spaces = Memo[tuple[Space, str] | None](KEPT_TRACES, most_bytes=SPACES_BYTES)
        self._designs = Memo[tuple[Space, str]](KEPT_TRACES, most_bytes=SPACES_BYTES)
        self._sheets = Memo[View](KEPT_ANSWERS, most_bytes=ANSWERS_BYTES)
        self._timed = Memo[tuple[list[Pair], list[str]]](KEPT_TRACES, most_bytes=ANSWERS_BYTES)

    def trace(self, state: State) -> Trace:
        """The program of a state.

        Raises: UnknownName; UsageError: the parameters do not fit the workload; TraceError, TooLarge: of a file.
        """
        path = self.library.trace_path(state.workload)
        if path is not None:
            return self._traces.get(_stamp(path), lambda: self.library.read_trace(path))
        params = state.params or None
        if params is not None:
            one_of("parameter set", params, params_names())  # a path is none
        program = self.library.program(state.workload)
        return self._traces.get(self._trace_key(state), lambda: trace_workload(program, params, None, 0))

    def sheet(self, name: str, state: State, make: Callable[[], View]) -> View:
        """A view that takes long: made once for a program on a machine, while no file of theirs changes."""
        key = name, state, self._key(state, state.machine), self._policy_key(state)
        return self._sheets.get(key, make)

    def _trace_key(self, state: State) -> Hashable:
        """What tells the program of a state from others: a file by its present state."""
        path = self.library.trace_path(state.workload)
        if path is not None:
            return _stamp(path)
        path = self.library.program_path(state.workload)
        return state.workload, state.params, None if path is None else _stamp(path)

    def _policy_key(self, state: State) -> Hashable:
        """The present state of policies of the user's own."""
        own = (name for name in (state.policy, state.prefetch) if name.startswith(FILE))
        return tuple(_stamp(Path(self.library.policy(name))) for name in own)

    def settled(self, state: State) -> State:
        """The state with a parameter set where the visitor names none: the machine's own, as in every verb.

        A name that does not exist is left to the view, which may not ask for it.
        """
        try:
            if state.params or self.library.trace_path(state.workload) is not None:
                return state
            machine = self.machine(state.machine)
            key = state.workload, self._machine_key(state.machine)
            program = self.library.program(state.workload)
            taken = self._sets.get(key, lambda: set_for(program, None, None, [machine]).params or "")
        except PenstockError:
            return state
        return replace(state, params=taken)

    def machine(self, name: str) -> Machine:
        """The machine of that name; a file is read again where it has changed.

        Raises: UnknownName; MachineError, TooLarge: of its file.
        """
        return self._machines.get(self._machine_key(name), lambda: self.library.machine(name))

    def priced(self, state: State, machine: str) -> PricedTrace:
        """That program on a machine."""
        classes, form = classes_named([state.classes]), form_of(state.key_form or None)

        def price() -> PricedTrace:
            played = replace(self.machine(machine), inside=InsideModel(state.text("inside")))
            return price_trace(self.trace(state), played, key_form=form, classes=classes)

        return self._priced.get(self._key(state, machine), price)

    def ready(self, state: State, machine: str, *, clusters: bool) -> Ready:
        """That program, ready to be played."""
        priced = self.priced(state, machine)
        if not clusters:
            return priced
        form = form_of(state.key_form or None)
        return self._ready.get(
            self._key(state, machine),
            lambda: prepare(self.trace(state), self.machine(machine), priced, form),
        )

    def copies(self, state: State, machine: str, count: int) -> PricedTrace:
        """That program for so many users at once, who take turns."""
        priced = self.priced(state, machine)
        if count == 1:
            return priced
        order = order_named(state.text("interleave"))
        key = self._key(state, machine), count, order
        return self._copies.get(key, lambda: replace(interleave([priced] * count, order), tenants=None))

    def num_keys(self, state: State) -> int:
        """Evaluation keys of that program."""
        key = self._trace_key(state)
        return self._num_keys.get(key, lambda: len(self.trace(state).key_ids()))

    def kinds(self, state: State) -> tuple[Ints, list[str]]:
        """(n,) code of each priced operation's kind, and the names of the codes."""
        key = self._trace_key(state)
        return self._kinds.get(key, lambda: codes(server_rows(self.trace(state).view().operations)["kind"]))

    def steps(self, state: State) -> dict[str, int]:
        """Key of a rotation -> the step that it rotates by, of the first operation that uses it."""
        return self._steps.get(self._trace_key(state), lambda: _steps_of(self.trace(state)))

    def play(self, asked: Asked) -> tuple[Rows, list[str]]:
        """Rows as `penstock simulate` prints them, and their warnings.

        Raises: as `Asked.question`, `Question.points_on` and `play`; UsageError: two machines of one name.
        """
        key = (asked, self._policy_key(asked.state), *(self._key(asked.state, name) for name in asked.machines))
        return self._answers.get(key, lambda: self._play(asked))

    def _play(self, asked: Asked) -> tuple[Rows, list[str]]:
        machines = [self.machine(name) for name in asked.machines]
        if len({machine.name for machine in machines}) < len(machines):
            raise UsageError("two machines are named alike: results could not be told apart; change 'name' in a file")
        question = asked.question(self.library, machines)
        rows, warnings = Rows(), list[str]()
        for name, machine in zip(asked.machines, question.machines, strict=True):
            ready = self.ready(asked.state, name, clusters=question.on_clusters)
            by_hold: dict[int, list[Point]] = {}
            for point in question.points_on(machine):
                by_hold.setdefault(id(point.hold), []).append(point)
            one = partial(play, ready)
            first, *rest = by_hold.values()
            # The first leaves prices of parts behind that the others use; the engine plays outside the interpreter.
            played = [one(first), *(_WORKERS.pool.map(one, rest) if len(rest) > 1 else map(one, rest))]
            rows += [row for group, _ in played for row in group]
            warnings += [*ready.priced.warnings, *(text for _, texts in played for text in texts)]
        return columns(rows, of_clusters=question.on_clusters), list(dict.fromkeys(warnings))

    def advised(self, state: State, make: Callable[[], Advice]) -> Advice:
        """The remedies of a point, made where they are not kept."""
        return self._advised.get((state, self._key(state, state.machine), self._policy_key(state)), make)

    def plays(self, state: State, make: Callable[[], Plays]) -> Plays:
        """Prices of the program of a state and of its variants, made where they are not kept."""
        priced = self._key(replace(state, key_form=""), state.machine)
        return self._plays.get((priced, state.hosts > 1), make)

    def _machine_key(self, name: str) -> Hashable:
        text = self.library.machine_text(name)
        return name if text == name else _stamp(Path(text))

    def _key(self, state: State, machine: str) -> Hashable:
        trace = self._trace_key(state)
        return trace, self._machine_key(machine), state.class_names, state.key_form, state.text("inside")

    # Measurements.

    def timed(self, name: str) -> tuple[list[Pair], list[str]] | None:
        """The timings of a run of `penstock bench run`, next to a machine fitted to it; `None`: another run.

        Raises: as `Library.bench_path` and `pairs_of_bench`.
        """
        path = self.library.bench_path(name)
        return None if path is None else self._timed.get(_stamp(path), lambda: pairs_of_bench(path))

    def bench(self, name: str) -> pa.Table:
        """The timings of a run of `penstock bench run`.

        Raises: UsageError: it has none; as `Library.bench_path` and `load_results`.
        """
        path = self.library.bench_path(name)
        if path is None:
            raise UsageError(f"run {name} holds no benchmarks")
        return self._benches.get(_stamp(path), lambda: load_results(path))

    def benches(self, names: tuple[str, ...]) -> list[History]:
        """The points of the last of these benchmark runs, and their history in the others, the oldest first.

        Raises: as `bench` and `histories`.
        """
        stamps = tuple(_stamp(path) for name in names if (path := self.library.bench_path(name)) is not None)
        return self._histories.get((names, stamps), lambda: histories([(name, self.bench(name)) for name in names]))

    def space(self, name: str) -> tuple[Space, str] | None:
        """The points of a sweep, and the same as its drawing reads them; `None`: another run, or nothing played yet.

        Raises: as `Library.sweep_path`; DamagedResults.
        """
        path = self.library.sweep_path(name)
        return None if path is None else self._spaces.get(_stamp(path), lambda: _space_of(path))

    def designs(self, query: str) -> tuple[Space, str]:
        """The design space of a workload in a drive, and the same as its drawing reads it.

        Raises: UnknownName: no such workload.
        """

        def made() -> tuple[Space, str]:
            space = designs(query)
            return space, space.to_json()

        return self._designs.get(query, made)

    # Drives.

    def tier_text(self, state: State) -> str:
        """The tier of a state as `--tier` takes it: its name, or the bandwidth that its drive reaches."""
        if not state.drive:
            return state.tier
        return f"{self.scan(replace(state, scan_end='pcie')).bytes_per_s / 1e9:.4g} GB/s"

    def scan(self, state: State) -> ScanResult:
        """The scan of the state's drive (`penstock.lab.instorage.flash.scan.ScanResult`).

        Raises: UnknownName: no such drive.
        """
        one_of("drive", state.drive, drives.names())  # a path is none
        key = state.drive, state.pattern, state.queue_depth, state.scan_end
        return self._drives.get(key, lambda: drives.scan(state))

    def warm(self, state: State) -> None:
        """Prepare the first answer."""
        self.play(Asked.of(state, tier=self.tier_text(state)))

    def warm_hosts(self, state: State) -> None:
        """Prepare the first answer on several hosts."""
        self.play(Asked.of(state, tier=self.tier_text(state), hosts=sorted({*COUNTS, state.hosts})))


def _space_of(path: Path) -> tuple[Space, str] | None:
    rows = sweep_rows(path.parent)
    if not rows:
        return None
    space = sweep_space(rows)
    return space, space.to_json()


def _steps_of(trace: Trace) -> dict[str, int]:
    rows = server_rows(trace.view().operations)
    table = pa.table({"key": rows["key"].cast(pa.string()), "step": rows["step"]})
    used = table.filter(pc.is_valid(table["step"])).group_by("key", use_threads=False).aggregate([("step", "first")])
    first_steps = zip(used["key"].to_pylist(), used["step_first"].to_pylist(), strict=True)
    return {str(key): int(step) for key, step in first_steps if key is not None}


def _stamp(path: Path) -> Hashable:
    """A file in its present state."""
    with os_errors(path, "read"):
        status = path.stat()
    return str(path), status.st_mtime_ns, status.st_size

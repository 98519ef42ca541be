"""Jobs: accepted once by the client's own identity, kept in the state, computed by `penstock.service.work`.

A job that was accepted is in the database and its inputs are on the disk, so it is submitted again after the server was
killed or the machine lost its power. Its outputs are whole before its state says `done`, and synced soon after that:
after a start of the machine, jobs whose outputs may not have been synced are computed again.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict
from functools import lru_cache, wraps
from pathlib import Path
from typing import Concatenate, ParamSpec

from sqlalchemy.exc import IntegrityError

from penstock.base.types import Row, Rows, RowView
from penstock.errors import PenstockError, UsageError
from penstock.scheme.params.ckks import CkksParameters
from penstock.service.http.checks import JobChecks, not_taken
from penstock.service.http.config import Config
from penstock.service.http.feed import Feed, Waiting
from penstock.service.http.keys import Keys, Quota
from penstock.service.http.metrics import Metrics
from penstock.service.http.programs import Programs
from penstock.service.http.results import Results, file_of, predicted_output_bytes
from penstock.service.http.threads import in_thread
from penstock.service.http.uploads import Files
from penstock.service.state.problems import Problem, no_such, told
from penstock.service.state.state import ServiceState
from penstock.service.state.tables import OPEN_STATES
from penstock.service.state.tokens import Caller
from penstock.service.work.messages import EXPIRED, AdmissionRefused, JobFigures, JobSpec
from penstock.service.work.pool import WorkerPool

MOST_ATTEMPTS = 3
"""Attempts at a job before it fails."""
_LATER_S = 0.5
_SHORT_REQUEST = 4096
"""Bytes of a request that do not count: the number of jobs bounds them."""
_MORE_OUTPUT = 65536
"""Bytes that a result may have above its words."""

_told = lru_cache(1024)(told)
"""Of jobs that end alike, as they do by hundreds."""
Asked = ParamSpec("Asked")


def _surely(action: Callable[Concatenate[Jobs, Asked], None]) -> Callable[Concatenate[Jobs, Asked], None]:
    """A method that is done again later where the database is away or the disk is full."""

    @wraps(action)
    def tried(jobs: Jobs, /, *args: Asked.args, **named: Asked.kwargs) -> None:
        try:
            action(jobs, *args, **named)
        except (PenstockError, OSError):
            jobs.do_later(lambda: tried(jobs, *args, **named))

    return tried


class Jobs:
    """The jobs of all tenants, and the pool that computes them. Call `start` once.

    Args:   make_pool: from the configuration and these jobs, which hear of their ends, to the pool.
    """

    def __init__(
        self,
        config: Config,
        state: ServiceState,
        files: Files,
        keys: Keys,
        programs: Programs,
        metrics: Metrics,
        make_pool: Callable[[Config, Jobs], WorkerPool],
    ) -> None:
        self._config, self._state, self._files = config, state, files
        self._keys, self._programs, self._metrics = keys, programs, metrics
        self._checks, self._quota = JobChecks(state, keys, programs), Quota(config.limits.tenant_bytes, keys)
        self._later: list[Callable[[], object]] = []
        self._handed: set[str] = set()
        """Jobs that the workers have, or will be given. Open jobs besides them wait for `submit_stray`."""
        self._lock, self._ended = threading.Lock(), threading.Event()
        self._waiting = Waiting()
        self._listing: dict[str, threading.Lock] = {}
        self._retrying = threading.Thread(target=self._retry, name="jobs-later", daemon=True)
        self._handing = self._retrying
        self._disk = ThreadPoolExecutor(4, thread_name_prefix="inputs")
        """Syncs inputs while the state is synced: the file system makes one of both."""
        self._results = Results(state, files)
        self.draining = False
        self.on_reason: Callable[..., object] = lambda **_: None
        """Hears why a job failed, in full: job, reason."""
        self.feed = Feed()
        self.pool = make_pool(config, self)

    def start(self) -> int:
        """Start the workers, and submit the accepted jobs of an earlier server again; how many.

        A thread hands them over, in their order: the server does not wait for it.
        """
        self.pool.start()
        self._results.recover()
        self._retrying.start()
        accepted = self._state.queue_again()
        with self._lock:
            self._handed.update(accepted)
        self._handing = threading.Thread(target=self._hand_on, args=(accepted,), name="jobs-accepted", daemon=True)
        self._handing.start()
        return len(accepted)

    def _hand_on(self, accepted: list[str]) -> None:
        for job in accepted:
            if self.draining or self._ended.is_set():
                return
            self._submit_again(job)

    def close(self) -> None:
        """End the thread that tries again and syncs results."""
        self._ended.set()
        self._disk.shutdown()
        if self._retrying.is_alive():
            self._handing.join(5)
            self._retrying.join(5)
            with suppress(Problem, OSError):
                self._results.sync()
        self.pool.close()

    def do_later(self, action: Callable[[], object]) -> None:
        """Do something in half a second."""
        with self._lock:
            self._later.append(action)

    def _retry(self) -> None:
        while not self._ended.wait(_LATER_S):
            with self._lock:
                actions, self._later = self._later, []
            for action in actions:
                action()
            with suppress(Problem, OSError):
                self._results.sync()

    # What the workers say, from a thread of the pool

    def on_started(self, job: str) -> None:
        """A job begins to compute."""
        self._noted_start(job, self._state.clock())

    @_surely
    def _noted_start(self, job: str, at_s: float) -> None:
        self._state.move_job(job, "running", only=("queued",), started_s=at_s)

    @_surely
    def on_done(self, job: str, figures: JobFigures) -> None:
        """The outputs of a job are in their files."""
        row = self._state.job(job)
        if row is None or row["state"] not in OPEN_STATES:
            if row is not None:
                self._results.drop(row)
            self._let_go(job)
            return
        folder = self._files.results(row["tenant"], job)
        outputs = {path.name: path.stat().st_size for path in sorted(folder.iterdir())} if folder.is_dir() else {}
        program = self._state.program(row["tenant"], row["program"])
        named = [] if program is None else [output["name"] for output in program["description"]["outputs"]]
        if len(outputs) < len(named):
            self.on_failed(job, "the worker said that the job was done, and results are missing", True)
            return
        sizes = {name: outputs[file_of(at)] for at, name in enumerate(named)}
        ended: Row = {"figures": asdict(figures), "outputs": sizes}
        ended["output_bytes"] = sum(outputs.values()) + _long_bytes(row["request"])
        self._end(row, "done", ended, figures)

    @_surely
    def on_failed(self, job: str, reason: str, retry: bool) -> None:
        """A job failed; `retry`: another try may succeed."""
        row = self._state.job(job)
        self.on_reason(job=job, reason=reason[:2000], retry=retry)
        if row is None:
            self._let_go(job)
        elif retry and row["attempts"] < MOST_ATTEMPTS:
            if self._state.move_job(job, "queued", attempts=row["attempts"] + 1):
                self._submit_again(job)
            else:
                self._let_go(job)
        else:
            self._end(row, "expired" if reason.startswith(EXPIRED) else "failed", {"reason": reason})

    def _end(self, row: Row, state: str, values: RowView, took: JobFigures | None = None) -> None:
        """Let a job end with further columns, where it has not ended before."""
        job, tenant, is_done = row["job"], row["tenant"], state == "done"
        now = self._results.done(row) if is_done else self._state.clock()
        kept_s = self._config.retention.results_s if is_done else self._config.retention.jobs_s
        if "reason" in values:
            values = {**values, "reason": told(values["reason"])[:2000]}
        gone = {} if is_done else {"output_bytes": 0, "request": {}}
        ended = {**gone, **values, "ended_s": now, "expires_s": now + kept_s}
        moved = self._state.move_job(job, state, **ended)
        if moved:
            self._metrics.job_ended(row["tenant"], row["program"], state, now - row["submitted_s"], took)
            event = {"job": row["client_job"], "program": row["program"], "state": state}
            times = {"submitted_s": row["submitted_s"], "started_s": row["started_s"], "ended_s": now}
            self.feed.add(tenant, {**event, **times})
        if moved != is_done:
            self._results.drop(row)
        self._let_go(job)
        self._waiting.changed(job)

    def _let_go(self, job: str) -> None:
        with self._lock:
            self._handed.discard(job)

    # Submission

    @_surely
    def _submit_again(self, job: str) -> None:
        """Submit an accepted job, later where the workers take none now."""
        with self._lock:
            self._handed.add(job)
        row = self._state.job(job)
        if row is None or row["state"] not in OPEN_STATES or self._ended.is_set():
            self._let_go(job)
            return
        deadline_s = row["request"].get("deadline_s")
        if deadline_s is not None and row["submitted_s"] + deadline_s <= self._state.clock():
            self._end(row, "expired", {"reason": "its deadline passed while it waited"})
            return
        try:
            self._results.drop(row)
            with self._files.using(row["tenant"]):
                self._give(self._spec(row), is_accepted=True)
            if self._state.state_of(job) in (None, "cancelled"):  # meanwhile, when the workers did not have it yet
                self.pool.cancel(job)
                self._results.drop(row)
                self._let_go(job)
        except AdmissionRefused:
            self._submit_later(job)
        except (Problem, UsageError) as error:
            if isinstance(error, Problem) and error.status >= 500:
                raise
            self._end(row, "failed", {"reason": str(error)})

    def _submit_later(self, job: str, *, if_stray: bool = False) -> bool:
        """Whether it will be submitted. `if_stray`: only where the workers neither have it, nor will be given it."""
        with self._lock:
            if if_stray and job in self._handed:
                return False
            self._handed.add(job)
            self._later.append(lambda: self._submit_again(job))
        return True

    def submit_stray(self) -> int:
        """Submit open jobs that the workers do not have, and how many: the database took them, and broke before it
        said so."""
        return sum(self._submit_later(job, if_stray=True) for job in self._state.open_names())

    def submit(self, caller: Caller, asked: Row) -> tuple[bool, Row]:
        """Whether the job is new, and the job. `asked`: job, program, inputs, priority, deadline_s.

        Raises: Problem: 409 for another job of this identity, 424 with the keys that are lacking, 429, 503.
        """
        request = {name: value for name, value in asked.items() if name != "job"}
        if request.get("package") is None:
            request.pop("package", None)
        digest = hashlib.sha256(json.dumps(request, sort_keys=True).encode()).hexdigest()
        with self._files.using(caller.tenant, caller.era):
            return self._submitted(caller, asked["job"], request, digest)

    def _submitted(self, caller: Caller, client_job: str, request: Row, digest: str) -> tuple[bool, Row]:
        there = self._same(caller, client_job, digest)
        if there is not None:
            self._state.settle()  # the first request may be waiting for the disk still
            return False, there
        if self.draining:
            raise Problem(503, "the server is draining", remedy="come again later", kind="draining", retry_after_s=10)
        program, pair = self._checks.checked(caller.tenant, request)
        most = self._config.limits.unfinished_jobs
        row = {
            "job": secrets.token_hex(16),
            "tenant": caller.tenant,
            "client_job": client_job,
            "digest": digest,
            "request": request,
            "program": request["program"],
            "package": program["package"],
            "state": "queued",
            "attempts": 1,
            "submitted_s": self._state.clock(),
            "output_bytes": predicted_output_bytes(program["description"]) + _long_bytes(request),
        }
        spec = self._spec(row, pair)
        try:
            self.pool.check(spec)  # most refusals so leave the database alone
        except (AdmissionRefused, UsageError) as error:
            raise not_taken(error) from error
        with self._lock:
            self._handed.add(row["job"])
        try:
            fits, inputs = self._quota.fits(caller.tenant, row["output_bytes"]), request["inputs"].values()
            kept = self._config.limits.kept_jobs
            if not self._state.add_job(row, most=most, most_kept=kept, fits=fits, inputs=inputs):
                raise Problem(
                    429, f"this tenant has {most} jobs that did not end", remedy="wait for some of them",
                    kind="jobs", retry_after_s=max(1.0, program["description"]["predicted"]["seconds"]),
                )  # fmt: skip
        except IntegrityError:  # the same job came twice at once
            self._let_go(row["job"])
            there = self._same(caller, client_job, digest)
            if there is None:
                raise Problem(
                    503, "the same job was refused a moment ago", remedy="send it again", kind="job-refused",
                    retry_after_s=1,
                ) from None  # fmt: skip
            return False, there
        except BaseException:
            self._let_go(row["job"])  # if the database has it all the same, it is a stray one
            raise
        self._hand_over(caller, row, spec)
        return True, self.show(caller.tenant, client_job)

    def _hand_over(self, caller: Caller, row: Row, spec: JobSpec) -> None:
        """Let the workers have a new job; it is on the disk when this returns. Raises: Problem: they do not take it."""
        try:
            self._give(spec)
        except (PenstockError, OSError) as error:
            self._take_back(row)
            if isinstance(error, AdmissionRefused | UsageError):
                raise not_taken(error) from error
            raise
        # It computes already; the answer waits for the disk.
        self._state.record(caller, "submit", f"{row['client_job']} {row['program']}", soon=True)
        inputs = self._disk.submit(self._files.settle, list(spec.inputs.values()))
        self._state.settle()
        inputs.result()

    def _give(self, spec: JobSpec, *, is_accepted: bool = False) -> None:
        self._files.results(spec.tenant, spec.job).mkdir(parents=True, exist_ok=True, mode=0o700)
        self.pool.submit(spec, is_accepted=is_accepted)

    def _take_back(self, row: Row) -> None:
        """Remove a job that the pool did not take. Where the database refuses that, it is accepted after all."""
        try:
            self._state.remove_job(row["job"])
        except PenstockError:
            self._submit_later(row["job"])
            raise
        self._let_go(row["job"])
        self._results.drop(row)

    def _same(self, caller: Caller, client_job: str, digest: str) -> Row | None:
        there = self._state.job_of(caller.tenant, client_job)
        if there is None:
            return None
        if there["digest"] != digest:
            raise Problem(
                409, f"job '{client_job}' is there with another content", remedy="give each job its own identity",
                rule="the same identity is the same job", kind="job-differs",
            )  # fmt: skip
        if there["state"] in OPEN_STATES:
            self._submit_later(there["job"], if_stray=True)
        return _shown(there)

    def _spec(self, row: Row, pair: str | None = None) -> JobSpec:
        """A job for the workers. Raises: Problem: its program is gone."""
        tenant, request = row["tenant"], row["request"]
        description = self._programs.row(tenant, row["program"])["description"]
        predicted, params = description["predicted"], CkksParameters.from_dict(description["params"])
        folder = self._files.results(tenant, row["job"])
        deadline_s = request.get("deadline_s")
        if deadline_s is not None:
            deadline_s = max(0.001, row["submitted_s"] + deadline_s - self._state.clock())
        files = {sha256: self._files.blob(tenant, sha256) for sha256 in set(request["inputs"].values())}
        return JobSpec(
            job=row["job"],
            tenant=tenant,
            program=row["program"],
            package=self._files.blob(tenant, row["package"]),
            store=self._files.store,
            secret_tag=pair or self._keys.needs(tenant, description)["pair"],
            inputs={name: files[sha256] for name, sha256 in request["inputs"].items()},
            outputs={output["name"]: folder / file_of(at) for at, output in enumerate(description["outputs"])},
            most_output_bytes=params.ciphertext_bytes(params.num_q) + _MORE_OUTPUT,
            priority=request.get("priority", 0),
            deadline_s=deadline_s,
            key_bytes=predicted["key_bytes"],
            compute_s=predicted["seconds"],
            memory_bytes=predicted["memory_bytes"],
            planned_key_bytes=description.get("planned_key_bytes", 0),
        )

    # Questions

    def show(self, tenant: str, client_job: str) -> Row:
        return _shown(self._state.known_job(tenant, client_job))

    def listed(self, tenant: str) -> Rows:
        """The latest 1,000, the newest first; figures and outputs in JSON."""
        # One list of a tenant at a time: many rows keep the interpreter from others.
        with self._lock:
            turn = self._listing.setdefault(tenant, threading.Lock())
        with turn:
            return [_shown(row) for row in self._state.jobs(tenant)]

    async def wait(self, tenant: str, client_job: str, wait_s: float) -> Row:
        """The job when it ended, or after so many seconds."""

        def look() -> Awaitable[Row]:
            return in_thread(self._state.known_job, tenant, client_job)

        row = await look()
        if wait_s > 0 and row["state"] in OPEN_STATES:
            # Another process may end it: the state is read again now and then.
            row = await self._waiting.until(
                row["job"], lambda row: row["state"] not in OPEN_STATES or self.draining, wait_s, look, every_s=2.0
            )
        return _shown(row)

    def output(self, tenant: str, client_job: str, name: str) -> Path:
        """The file of a result."""
        row = self._state.known_job(tenant, client_job)
        if row["state"] != "done":
            raise Problem(
                409, f"job '{client_job}' is {row['state']}: it has no results", kind="job-not-done",
                remedy="wait until it is done (GET /v1/jobs/JOB?wait=30)" if row["state"] in OPEN_STATES
                else "submit it again under another identity", more={"state": row["state"]},
            )  # fmt: skip
        names = list(row["outputs"])
        if name not in names:
            raise no_such("output", name, f"the job has {names}")
        path = self._files.results(tenant, row["job"]) / file_of(names.index(name))
        if not path.is_file():
            raise results_gone(client_job)
        return path

    def cancel(self, caller: Caller, client_job: str) -> Row:
        """Cancel a job that did not end, or remove the results of one that did."""
        row = self._state.known_job(caller.tenant, client_job)
        if row["state"] in OPEN_STATES:
            # First the state: a database that is away refuses, and then the job goes on.
            self._end(row, "cancelled", {"reason": "cancelled by the client"})
            self.pool.cancel(row["job"])
        elif row["state"] == "done":
            self.expire([row])
        return self.show(caller.tenant, client_job)

    def forget_tenant(self, tenant: str) -> None:
        """Cancel the jobs of a tenant, and let the workers forget it."""
        for row in self._state.open_jobs(tenant):
            self._end(row, "cancelled", {"reason": "the tenant was deleted"})
            self.pool.cancel(row["job"])
        self.pool.forget_tenant(tenant)
        self.feed.forget(tenant)

    # The end of things

    def expire(self, rows: Rows) -> int:
        """Remove results whose time is over, and later the rows of their jobs; how many."""
        done = [row for row in rows if row["state"] == "done"]
        for row in done:
            ends = self._state.clock() + self._config.retention.jobs_s
            self._state.move_job(row["job"], "expired", only=("done",), output_bytes=0, request={}, expires_s=ends)
        if done:
            self._state.settle()  # no row on the disk says `done` of results that are gone
        for row in rows:
            if row["state"] == "done":
                self._results.drop(row)
            elif row["state"] not in OPEN_STATES:
                self._state.remove_job(row["job"])
        return len(rows)


def _long_bytes(request: Row) -> int:
    """Of a job's row, that count towards the quota: its inputs may be thousands."""
    return max(0, len(json.dumps(request)) - _SHORT_REQUEST)


def results_gone(client_job: str) -> Problem:
    return Problem(
        409, f"the results of job '{client_job}' are gone", remedy="submit it again under another identity",
        kind="results-gone",
    )  # fmt: skip


def _shown(row: Row) -> Row:
    names = ("state", "program", "submitted_s", "started_s", "ended_s", "expires_s", "figures", "outputs", "reason")
    reason = row.get("reason") and _told(row["reason"])
    return {"job": row["client_job"], **{name: row.get(name) for name in names}, "reason": reason}

"""Drives a service with jobs at their times. A few threads send jobs and fetch results; one connection for each tenant
hears of all ended jobs."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from urllib.parse import quote

from penstock.base.system.web import ServiceError, ServiceRefused, Web
from penstock.base.types import Row, RowView
from penstock.errors import UsageError
from penstock.service.load.arrivals import Arrival
from penstock.service.load.report import JobRow
from penstock.service.load.tenants import Tenant

_ENDED = ("done", "failed", "cancelled", "expired")
_POLL_S = 20.0
_PATIENCE_S = 30.0
_REFUSED = (429, 503)
DEFAULT_SENDERS = 16
"""Threads that send jobs and fetch results."""
_FIRST_CURSOR = "start"


@dataclass(slots=True)
class _Job:
    """A job in flight."""

    tenant: int
    row: JobRow
    end: RowView | None = None
    """As the service described it."""


class ServiceLoad:
    """A load on a service.

    Args:   most_open: jobs in flight; an arrival above them is counted as unsent. results: fetch the outputs, too.
            deadline_s: each job's, at the service. senders: connections that send jobs and fetch results.
    """

    def __init__(
        self,
        url: str,
        tenants: Sequence[Tenant],
        *,
        ca: Path | None = None,
        most_open: int = 10_000,
        results: bool = True,
        deadline_s: float | None = None,
        senders: int = DEFAULT_SENDERS,
    ) -> None:
        self._url, self._tenants, self._ca = url, tenants, ca
        self._results, self._deadline_s = results, deadline_s
        self._most_open, self._senders = most_open, senders
        self._idle: list[list[Web]] = [[] for _ in tenants]
        self._mutex = threading.Condition()
        self._open: list[dict[str, _Job]] = [{} for _ in tenants]
        """Of each tenant, by identity: sent or waiting to be sent, and without a row."""
        self._work: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._listening: list[threading.Thread | None] = [None for _ in tenants]
        self._cursors = [_FIRST_CURSOR for _ in tenants]
        self._begun = 0.0
        self._on_end: Callable[[int], None] | None = None
        self._blobs: list[dict[str, str]] = []
        self._outputs: list[list[str]] = []
        self.rows: list[JobRow] = []
        """Of the jobs that have ended."""

    def prepare(self, upload: Callable[[Web, Path], str], on_tenant: Callable[[int], None] | None = None) -> None:
        """Upload each tenant's inputs once, and look at its program.

        Args:   upload: sends a file and returns its name at the service.
        Raises: UsageError: inputs that the program does not take; as `Web.ask`.
        """
        for place, tenant in enumerate(self._tenants):
            with self._web(place) as web:
                described = web.ask("GET", f"/v1/programs/{quote(tenant.program, safe='')}").content
                wanted = {str(declared["name"]) for declared in described.get("inputs", ())}
                if wanted != set(tenant.inputs):
                    raise UsageError(
                        f"tenant '{tenant.name}': program '{tenant.program}' has the inputs "
                        f"{', '.join(sorted(wanted))}, and {', '.join(sorted(tenant.inputs))} are there: name a file "
                        "for each"
                    )
                self._outputs.append([str(declared["name"]) for declared in described.get("outputs", ())])
                self._blobs.append({name: upload(web, path) for name, path in tenant.inputs.items()})
            if on_tenant is not None:
                on_tenant(place + 1)

    def play(self, arrivals: Sequence[Arrival], on_end: Callable[[int], None] | None = None) -> float:
        """Send every job at its time, wait for all, and return the seconds from the beginning to the last end.

        Args:   on_end: called with the number of jobs that have ended.
        """
        self._on_end = on_end
        threads = [threading.Thread(target=self._send_all, daemon=True) for _ in range(self._senders)]
        for thread in threads:
            thread.start()
        self._begun = time.monotonic()
        for arrival in arrivals:
            pause_s = self._begun + arrival.at_s - time.monotonic()
            if pause_s > 0:
                time.sleep(pause_s)
            with self._mutex:
                full = sum(map(len, self._open)) >= self._most_open
                tenant, name = self._tenants[arrival.tenant], "" if full else uuid.uuid4().hex
                row = JobRow(tenant=tenant.name, program=tenant.program, job=name, due_s=arrival.at_s)
                job = _Job(arrival.tenant, row)
                if not full:
                    self._open[arrival.tenant][name] = job
            if full:
                row.sent_s = self._now()
                self._ended(job, "unsent", {})
            else:
                self._work.put(lambda job=job: self._submit(job))  # type: ignore[misc]
        with self._mutex:
            self._mutex.wait_for(lambda: not any(self._open))
        took_s = self._now()
        for _ in threads:
            self._work.put(None)
        for thread in threads:
            thread.join()
        return took_s

    def close(self) -> None:
        """End all connections."""
        for idle in self._idle:
            while idle:
                idle.pop().close()

    # Threads that send and fetch.
    def _send_all(self) -> None:
        while (work := self._work.get()) is not None:
            work()

    def _now(self) -> float:
        return time.monotonic() - self._begun

    def _submit(self, job: _Job) -> None:
        tenant, row = job.tenant, job.row
        row.sent_s = self._now()
        request = {"job": row.job, "program": row.program, "inputs": self._blobs[tenant], "priority": 0}
        if self._deadline_s is not None:
            request["deadline_s"] = self._deadline_s
        try:
            with self._web(tenant) as web:
                # One try: an open loop counts a refused job, and does not come back with it.
                web.once("POST", "/v1/jobs", request)
        except ServiceError as error:
            self._failed(job, error, "refused")
            return
        with self._mutex:
            row.accepted_s = self._now()
            end = job.end
            self._listen(tenant)
        if end is not None:
            self._fetch(job, end)

    def _failed(self, job: _Job, error: ServiceError, refused: str) -> None:
        status = error.status if isinstance(error, ServiceRefused) else None
        self._ended(job, refused if status in _REFUSED else "error", {"status": status})

    def _fetch(self, job: _Job, end: RowView) -> None:
        """The results of a job that has ended."""
        tenant, size, state = job.tenant, 0, str(end["state"])
        try:
            if state == "done" and self._results:
                with self._web(tenant) as web:
                    for name in self._outputs[tenant]:
                        size += web.swallow(f"/v1/jobs/{job.row.job}/outputs/{quote(name, safe='')}")
        except ServiceError as error:
            self._failed(job, error, "error")
            return
        submitted, started, ended = (end.get(name) for name in ("submitted_s", "started_s", "ended_s"))
        times: Row = {"ended_s": self._now(), "result_bytes": size}
        if submitted is not None and ended is not None:
            times["server_s"] = ended - submitted
            times["server_queue_s"] = None if started is None else started - submitted
        self._ended(job, state, times)

    # One thread a tenant that has jobs in flight.
    def _listen(self, tenant: int) -> None:
        """Start to listen, with the mutex held."""
        if self._listening[tenant] is None:
            thread = self._listening[tenant] = threading.Thread(target=self._hear, args=(tenant,), daemon=True)
            thread.start()

    def _hear(self, tenant: int) -> None:
        """Hear of ended jobs until none is in flight."""
        web = Web(self._url, self._tenants[tenant].token, ca=self._ca, patience_s=_PATIENCE_S)
        try:
            while self._has_open(tenant):
                asked = time.monotonic()
                path = f"/v1/jobs?after={quote(self._cursors[tenant])}&wait={_POLL_S:g}"
                news = web.ask("GET", path, wait_s=_POLL_S).content
                self._cursors[tenant] = str(news.get("after", _FIRST_CURSOR))
                for event in news.get("jobs", ()):
                    self._heard(tenant, event)
                if news.get("missed", False):
                    # The service was started again, or the feed is behind: each job is looked at.
                    self._look_at_each(tenant, web)
                if not news.get("jobs") and time.monotonic() - asked < 0.01:
                    time.sleep(0.02)
        except ServiceError as error:
            with self._mutex:
                lost = list(self._open[tenant].values())
                self._listening[tenant] = None
            for job in lost:
                if job.row.accepted_s is not None and job.end is None:
                    self._failed(job, error, "error")
        finally:
            web.close()

    def _has_open(self, tenant: int) -> bool:
        """Whether to listen on; decided together with `_listen`, so that no job is without a listener."""
        with self._mutex:
            if not self._open[tenant]:
                self._listening[tenant] = None
            return bool(self._open[tenant])

    def _look_at_each(self, tenant: int, web: Web) -> None:
        """Ask for each job that was sent, answered or not: it may have ended before the feed's cursor."""
        with self._mutex:
            unheard = [job.row for job in self._open[tenant].values() if job.end is None]
            sent = [row.job for row in unheard if row.sent_s is not None]
        for job in sent:
            try:
                state = web.ask("GET", f"/v1/jobs/{job}").content
            except ServiceRefused as error:
                if error.status != 404:
                    raise
            else:
                self._heard(tenant, {**state, "job": job})

    def _heard(self, tenant: int, event: RowView) -> None:
        if event.get("state") not in _ENDED:
            return
        with self._mutex:
            job = self._open[tenant].get(str(event.get("job")))
            if job is None or job.end is not None:
                return
            job.end = event
            accepted = job.row.accepted_s is not None
        if accepted:
            self._work.put(lambda: self._fetch(job, event))

    # Rows.
    def _ended(self, job: _Job, outcome: str, figures: RowView) -> None:
        row = replace(job.row, outcome=outcome, sent_s=job.row.sent_s or 0.0, **figures)
        with self._mutex:
            if row.job and self._open[job.tenant].pop(row.job, None) is None:
                return  # it has a row
            self.rows.append(row)
            count = len(self.rows)
            self._mutex.notify_all()
        if self._on_end is not None:
            self._on_end(count)

    @contextmanager
    def _web(self, tenant: int) -> Iterator[Web]:
        """A connection with the tenant's token, of this thread for that long."""
        idle = self._idle[tenant]
        with self._mutex:
            web = idle.pop() if idle else None
        web = web or Web(self._url, self._tenants[tenant].token, ca=self._ca, patience_s=_PATIENCE_S)
        try:
            yield web
        except BaseException:
            web.close()
            raise
        with self._mutex:
            idle.append(web)

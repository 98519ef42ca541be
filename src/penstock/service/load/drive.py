"""Drives a service with jobs at their times: a thread a job in flight, connections kept for the next ones."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote

from penstock.errors import UsageError
from penstock.service.load.arrivals import Arrival
from penstock.service.load.report import JobRow
from penstock.service.load.tenants import Tenant
from penstock.system.web import ServiceError, ServiceRefused, Web

_ENDED = ("done", "failed", "cancelled", "expired")
_POLL_S = 20.0
_REFUSED = (429, 503)


class Load:
    """A load on a service.

    Args:   most_open: jobs in flight; an arrival above them is counted as unsent. results: fetch the outputs, too.
            deadline_s: each job's, at the service.
    """

    def __init__(
        self,
        url: str,
        tenants: Sequence[Tenant],
        *,
        ca: Path | None = None,
        most_open: int = 1000,
        results: bool = True,
        deadline_s: float | None = None,
    ) -> None:
        self._url, self._tenants, self._ca = url, tenants, ca
        self._results, self._deadline_s = results, deadline_s
        self._free = threading.BoundedSemaphore(most_open)
        self._idle: list[list[Web]] = [[] for _ in tenants]
        self._mutex = threading.Lock()
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
                told = web.ask("GET", f"/v1/programs/{quote(tenant.program, safe='')}").content
                wanted = {str(each["name"]) for each in told.get("inputs", ())}
                if wanted != set(tenant.inputs):
                    raise UsageError(
                        f"tenant '{tenant.name}': program '{tenant.program}' has the inputs "
                        f"{', '.join(sorted(wanted))}, and {', '.join(sorted(tenant.inputs))} are there: name a file "
                        "for each"
                    )
                self._outputs.append([str(each["name"]) for each in told.get("outputs", ())])
                self._blobs.append({name: upload(web, path) for name, path in tenant.inputs.items()})
            if on_tenant is not None:
                on_tenant(place + 1)

    def play(self, arrivals: Sequence[Arrival], on_end: Callable[[int], None] | None = None) -> float:
        """Send every job at its time, wait for all, and return the seconds from the beginning to the last end.

        Args:   on_end: called with the number of jobs that have ended.
        """
        begun = time.monotonic()
        threads = []
        for each in arrivals:
            pause_s = begun + each.at_s - time.monotonic()
            if pause_s > 0:
                time.sleep(pause_s)
            if not self._free.acquire(blocking=False):
                self._ended(self._row(each, "", time.monotonic() - begun, "unsent"), on_end)
                continue
            thread = threading.Thread(target=self._one, args=(each, begun, on_end), daemon=True)
            thread.start()
            threads.append(thread)
            if len(threads) > 4096:
                threads = [thread for thread in threads if thread.is_alive()]
        for thread in threads:
            thread.join()
        return time.monotonic() - begun

    def close(self) -> None:
        """End all connections."""
        for idle in self._idle:
            while idle:
                idle.pop().close()

    def _one(self, arrival: Arrival, begun: float, on_end: Callable[[int], None] | None) -> None:
        job = uuid.uuid4().hex
        sent_s = time.monotonic() - begun
        times: dict[str, Any] = {}
        try:
            with self._web(arrival.tenant) as web:
                outcome = self._carried_out(web, arrival.tenant, job, begun, times)
        except ServiceRefused as error:
            early = "accepted_s" not in times and error.status in _REFUSED
            outcome, times["status"] = "refused" if early else "error", error.status
        except ServiceError:
            outcome = "error"
        finally:
            self._free.release()
        self._ended(self._row(arrival, job, sent_s, outcome, times), on_end)

    def _carried_out(self, web: Web, tenant: int, job: str, begun: float, times: dict[str, Any]) -> str:
        request: dict[str, Any] = {
            "job": job,
            "program": self._tenants[tenant].program,
            "inputs": self._blobs[tenant],
            "priority": 0,
        }
        if self._deadline_s is not None:
            request["deadline_s"] = self._deadline_s
        # One try: an open loop counts a refused job, and does not come back with it.
        web.once("POST", "/v1/jobs", request)
        times["accepted_s"] = time.monotonic() - begun
        state = ""
        while state not in _ENDED:
            asked = time.monotonic()
            state = str(web.ask("GET", f"/v1/jobs/{job}?wait={_POLL_S:g}", wait_s=_POLL_S).content.get("state"))
            if state not in _ENDED and time.monotonic() - asked < 0.01:
                time.sleep(0.02)
        if state == "done" and self._results:
            for name in self._outputs[tenant]:
                size = web.swallow(f"/v1/jobs/{job}/outputs/{quote(name, safe='')}")
                times["result_bytes"] = times.get("result_bytes", 0) + size
        times["ended_s"] = time.monotonic() - begun
        return state

    def _row(
        self, arrival: Arrival, job: str, sent_s: float, outcome: str, times: Mapping[str, Any] | None = None
    ) -> JobRow:
        tenant = self._tenants[arrival.tenant]
        found = dict(times or {})
        return JobRow(
            tenant=tenant.name,
            program=tenant.program,
            job=job,
            due_s=arrival.at_s,
            sent_s=sent_s,
            accepted_s=found.pop("accepted_s", None),
            ended_s=found.pop("ended_s", None),
            outcome=outcome,
            **found,
        )

    def _ended(self, row: JobRow, on_end: Callable[[int], None] | None) -> None:
        with self._mutex:
            self.rows.append(row)
            count = len(self.rows)
        if on_end is not None:
            on_end(count)

    @contextmanager
    def _web(self, tenant: int) -> Iterator[Web]:
        """A connection with the tenant's token, of this thread for that long."""
        idle = self._idle[tenant]
        with self._mutex:
            web = idle.pop() if idle else None
        web = web or Web(self._url, self._tenants[tenant].token, ca=self._ca, patience_s=30.0)
        try:
            yield web
        except BaseException:
            web.close()
            raise
        with self._mutex:
            idle.append(web)

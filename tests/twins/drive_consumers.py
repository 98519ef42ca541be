"""Accelerators of the slow twin: chunks, their metadata, outputs. The clock and the events are the twin's."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from penstock.lab.instorage.flash.input import EngineInput
from twins.drive_parts import Kind, Stream, Worker


class Consumers(ABC):
    """The part of the twin that serves chunks."""

    g: EngineInput
    now: int
    touched: set[int]
    workers: list[Worker]
    streams: list[Stream]
    host_places: int | None
    delivered: int
    scan_end: int
    outputs_made: int

    @abstractmethod
    def push(self, time: int, kind: Kind, about: Any) -> None: ...

    @abstractmethod
    def serve(self, server: str, time: int) -> int: ...

    @abstractmethod
    def ask(self, stream: Stream) -> None: ...

    def collect(self, worker: Worker) -> None:
        worker.loose += 1
        if worker.loose == worker.spec.chunk_pages:
            worker.loose = 0
            worker.ready += 1
            self.advance(worker)
        if self.delivered == self.g.pages:
            self.flush()

    def flush(self) -> None:
        for worker in self.workers:
            self.advance(worker)
            self.finish(worker)

    def advance(self, worker: Worker) -> None:
        spec = worker.spec
        while True:
            if worker.fetched and not worker.serving:
                worker.serving, worker.fetched = worker.fetched, 0
                worker.busy += spec.serve
                self.push(self.now + spec.serve, Kind.SERVE, worker)
            if worker.fetched or worker.fetching:
                return
            if worker.ready:
                worker.ready -= 1
                worker.fetching = spec.chunk_pages
            elif self.delivered == self.g.pages and worker.loose:
                worker.fetching, worker.loose = worker.loose, 0
            else:
                return
            worker.fetching_since = self.now
            if spec.dram:
                self.push(self.serve("dram", spec.dram), Kind.DRAM, worker)
                return
            if spec.edram:
                self.push(self.serve("edram", spec.edram), Kind.EDRAM, worker)
                return
            worker.fetched, worker.fetching = worker.fetching, 0

    def on_edram(self, worker: Worker) -> None:
        if not worker.serving:
            worker.wait += self.now - max(worker.fetching_since, worker.idle_since)
        worker.fetched, worker.fetching = worker.fetching, 0
        self.advance(worker)

    def on_serve(self, worker: Worker) -> None:
        self.scan_end = worker.idle_since = self.now
        pages, worker.serving = worker.serving, 0
        worker.chunks += 1
        if self.host_places is None:
            self.touched.update(worker.room.give(pages))
        else:
            self.host_places += pages
            self.ask(self.streams[0])
        if worker.spec.upload:
            self.output(worker, final=False)
        self.advance(worker)
        self.finish(worker)

    def finish(self, worker: Worker) -> None:
        if self.delivered == self.g.pages and worker.idle() and not worker.final:
            worker.final = True
            if worker.spec.final_upload:
                self.output(worker, final=True)

    def output(self, worker: Worker, *, final: bool) -> None:
        self.outputs_made += 1
        if self.g.aggregate is not None:
            self.push(self.serve("aggregator", self.g.aggregate), Kind.AGGREGATE, (worker, final))
        else:
            self.on_aggregate((worker, final))

    def on_aggregate(self, about: tuple[Worker, bool]) -> None:
        worker, final = about
        time = worker.spec.final_upload if final else worker.spec.upload
        self.push(self.serve("upload", time), Kind.UPLOAD, final)

"""The slow twin of the simulated drive, in plain Python: the same rules, written the obvious way, for small drives.

One list of events, sorted by (time, kind, order of entry); lists for queues; nothing is jumped and nothing is packed.
It plays reads: the scan, other reads, the table in NAND, retries, consumers, the host. It does not play writes.
"""

from __future__ import annotations

import heapq
from collections import OrderedDict
from typing import Any

from penstock.lab.instorage.flash.input import EngineInput
from twins.drive_consumers import Consumers
from twins.drive_parts import WORD, Channel, Die, Kind, Page, Room, Stream, Worker, below, mix


class Oracle(Consumers):
    """One run. `play()` gives the counts that the engine gives."""

    def __init__(self, given: EngineInput) -> None:
        if given.writes.interval:
            raise ValueError("the twin does not play writes")
        self.g = given
        per_channel = given.chips_per_channel * given.dies_per_chip
        self.channels = [
            Channel([Die(chip=die // given.dies_per_chip) for die in range(per_channel)]) for _ in range(given.channels)
        ]
        self.places = self._places()
        self.width = len(self.places)
        self.now = self.entries = self.events = 0
        self.calendar: list[tuple[int, Kind, int, Any]] = []
        self.touched: set[int] = set()
        self.free_at = dict.fromkeys(("dram", "edram", "upload", "aggregator"), 0)
        self.busy: list[tuple[str | int, int, int]] = []
        """Who is busy from when to when; a bus is its number."""
        self.host_room = Room(given.host_buffer_pages)
        specs = [*given.consumers, *([given.host_consumer] if given.host_consumer else [])]
        self.workers = [Worker(spec, Room(spec.buffer_pages)) for spec in specs]
        self.worker_of = {channel: worker for worker in self.workers for channel in worker.spec.channels}
        self.host_places = given.host_consumer.buffer_pages if given.host_consumer else None
        self.streams = self._streams()
        self.delivered = self.scan_end = 0
        self.retried: list[int] = []
        self.table_read: list[int] = []
        self.outputs = self.final_outputs = self.outputs_made = 0
        self.latencies: list[int] = []
        self.read_latencies: list[tuple[int, int]] = []
        """With the time at which each read was done."""
        self.reads_come = self.reads_begun = self.reads_under_way = 0
        self.table: OrderedDict[int, list[Page] | None] = OrderedDict()

    def _places(self) -> list[tuple[int, int, int]]:
        """(channel, die of the channel, plane) of the pages of one row, in order."""
        g = self.g
        size = {"c": g.channels, "w": g.chips_per_channel, "d": g.dies_per_chip, "p": g.planes_per_die}
        found = []
        for index in range(size["c"] * size["w"] * size["d"] * size["p"]):
            rest, at = index, {}
            for letter in g.order:
                at[letter], rest = rest % size[letter], rest // size[letter]
            found.append((at["c"], at["w"] * g.dies_per_chip + at["d"], at["p"]))
        return found

    def _streams(self) -> list[Stream]:
        g = self.g
        if g.random_span:
            pages = [g.first_page + below(g.random_span, g.seed, index) for index in range(g.pages)]
            return [Stream(pages, g.queue_depth)]
        pages = list(range(g.first_page, g.first_page + g.pages))
        if not g.consumers:
            return [Stream(pages, g.queue_depth)]
        share, extra = divmod(g.queue_depth, g.channels)
        return [
            Stream(
                [page for page in pages if self.places[page % self.width][0] == channel],
                max(1, share + (channel < extra)),
            )
            for channel in range(g.channels)
        ]

    def push(self, time: int, kind: Kind, about: Any) -> None:
        self.entries += 1
        heapq.heappush(self.calendar, (time, kind, self.entries, about))

    def serve(self, server: str, time: int) -> int:
        """When the server, which works in order, is done with something that comes now."""
        self.free_at[server] = max(self.free_at[server], self.now) + time
        self.busy.append((server, self.free_at[server] - time, self.free_at[server]))
        return self.free_at[server]

    def play(self) -> dict[str, Any]:
        if self.g.reads.interval:
            self.push(self.g.reads.interval, Kind.READ_COMES, None)
        for stream in self.streams:
            self.ask(stream)
        if self.g.pages == 0:
            self.flush()
        while self.calendar or self.touched:
            if self.touched and not (self.calendar and self.calendar[0][0] == self.now):
                for channel in sorted(self.touched):
                    self.touched.discard(channel)
                    if not self.channels[channel].busy:
                        self.grant(channel)
                continue
            time, kind, _, about = heapq.heappop(self.calendar)
            self.events += 1
            if kind is Kind.READ_COMES and not self.read_comes():
                continue
            self.now = time
            getattr(self, f"on_{kind.name.lower()}")(about)
        over = self.scan_end if self.g.pages else self.now

        def busy(who: str | int) -> int:
            return sum(min(end, over) - min(start, over) for each, start, end in self.busy if each == who)

        return {
            "pages": self.delivered, "scan_end_ps": self.scan_end, "end_ps": self.now, "events": self.events,
            "latencies": sorted(self.latencies),
            "read_latencies": sorted(latency for at, latency in self.read_latencies if at <= over),
            "bus_busy_ps": [busy(channel) for channel in range(self.g.channels)], "array_busy_ps": busy("array"),
            "dram_busy_ps": busy("dram"), "edram_busy_ps": busy("edram"), "upload_busy_ps": busy("upload"),
            "aggregator_busy_ps": busy("aggregator"), "chunks": [each.chunks for each in self.workers],
            "consumer_busy_ps": [each.busy for each in self.workers],
            "consumer_wait_ps": [each.wait for each in self.workers], "outputs": self.outputs,
            "final_outputs": self.final_outputs, "retries": sum(at <= over for at in self.retried),
            "table_reads": sum(at <= over for at in self.table_read),
        }  # fmt: skip

    # Requests.

    def ask(self, stream: Stream) -> None:
        while stream.under_way < stream.window and stream.asked < len(stream.pages) and self.host_places != 0:
            logical = stream.pages[stream.asked]
            stream.asked += 1
            stream.under_way += 1
            if self.host_places is not None:
                self.host_places -= 1
            self.look_up(self.page("scan", logical, self.now))

    def page(self, what: str, logical: int, since: int) -> Page:
        channel, die, plane = self.places[logical % self.width]
        return Page(what, logical, channel, die, plane, logical // self.width, since)

    def read_comes(self) -> bool:
        """Whether there is another read."""
        return self.reads_come < self.g.reads.requests if self.g.reads.requests else self.scan_goes_on()

    def on_read_comes(self, _: None) -> None:
        self.reads_come += 1
        self.push(self.now + self.g.reads.interval, Kind.READ_COMES, None)
        self.begin_reads()

    def begin_reads(self) -> None:
        reads = self.g.reads
        while (
            self.reads_under_way < self.g.queue_depth
            and self.reads_begun < self.reads_come
            and (reads.requests or self.scan_goes_on())
        ):
            logical = below(reads.span_pages, reads.seed, self.reads_begun)
            self.reads_begun += 1
            self.reads_under_way += 1
            self.look_up(self.page("read", logical, self.reads_begun * reads.interval))

    def scan_goes_on(self) -> bool:
        return (
            self.delivered < self.g.pages
            or self.outputs_made > self.outputs + self.final_outputs
            or not all(worker.idle() for worker in self.workers)
        )

    def look_up(self, page: Page) -> None:
        """The table's entries are pages that are there (`None`) or that requests wait for, oldest use first."""
        g = self.g
        if not g.cached_pages:
            self.enqueue(page)
            return
        number = page.logical // g.entries
        missing = [] if number in self.table else [number]
        waiting = self.table.setdefault(number, [])
        self.table.move_to_end(number)
        if waiting is not None:
            waiting.append(page)
        last = (g.first_page + g.pages - 1) // g.entries
        in_order = g.ahead and page.what == "scan" and not g.random_span
        if in_order and number < last and number + 1 not in self.table:
            self.table[number + 1] = []
            missing.append(number + 1)
        for each in missing:
            channel, die, plane = self.places[each % self.width]
            row = 2**32 - 1 - each // self.width
            self.enqueue(Page("table", each, channel, die, plane, row, self.now))
        if waiting is None:
            self.enqueue(page)

    def table_page_is_there(self, page: Page) -> None:
        self.table_read.append(self.now)
        waiting = self.table[page.logical] or []
        self.table[page.logical] = None
        for number in list(self.table):
            if len(self.table) > self.g.cached_pages and self.table[number] is None:
                del self.table[number]
        for each in waiting:
            self.enqueue(each)

    def enqueue(self, page: Page) -> None:
        self.channels[page.channel].dies[page.die].queue.append(page)
        self.touched.add(page.channel)

    # Buses and dies.

    def grant(self, channel: int) -> None:
        if self.g.convoy:
            _ = self.grant_send(channel) or self.grant_command(channel)
        else:
            _ = self.grant_command(channel) or self.grant_send(channel)

    def turns(self, channel: int, last: int) -> list[int]:
        """Dies in turn, the one after `last` first."""
        count = len(self.channels[channel].dies)
        return [(last + 1 + step) % count for step in range(count)]

    def may_start(self, channel: int, index: int) -> bool:
        bus = self.channels[channel]
        die = bus.dies[index]
        others = [each for each in bus.dies if each.chip == die.chip] if self.g.convoy else [die]
        return bool(die.queue) and all(each.state == "free" for each in others)

    def grant_command(self, channel: int) -> bool:
        g, bus = self.g, self.channels[channel]
        for index in self.turns(channel, bus.last_command):
            if not self.may_start(channel, index):
                continue
            die = bus.dies[index]
            taken = [die.queue.pop(0)]
            while (
                g.multi_plane
                and die.queue
                and len(taken) < g.planes_per_die
                and die.queue[0].row == taken[0].row
                and all(die.queue[0].plane != page.plane for page in taken)
            ):
                taken.append(die.queue.pop(0))
            die.inside, die.state = taken, "sensing"
            bus.last_command, bus.busy = index, True
            command = g.read_command + (len(taken) - 1) * g.further_plane
            self.busy.append((channel, self.now, self.now + command))
            self.busy.append(("array", self.now + command, self.now + command + g.sense))
            self.push(self.now + command, Kind.COMMANDED, channel)
            self.push(self.now + command + g.sense, Kind.SENSED, (channel, index))
            return True
        return False

    def grant_send(self, channel: int) -> bool:
        bus = self.channels[channel]
        # The die that sent last goes on; else dies take turns.
        order = [bus.last_send, *(index for index in self.turns(channel, bus.last_send) if index != bus.last_send)]
        for index in order:
            die = bus.dies[index]
            if not die.out:
                continue
            room = self.room_of(die.out[0])
            if room is not None and not room.take(channel):
                continue
            page = die.out.pop(0)
            die.sending, bus.busy, bus.last_send = True, True, index
            time = self.g.data_in if page.what == "table" else self.g.data_out
            self.busy.append((channel, self.now, self.now + time))
            self.push(self.now + time, Kind.SENT, page)
            return True
        return False

    def room_of(self, page: Page) -> Room | None:
        if page.what == "table":
            return None
        if page.what == "read":
            return self.host_room
        if page.channel in self.worker_of:
            return self.worker_of[page.channel].room
        return self.host_room if self.g.to_host else None

    def on_commanded(self, channel: int) -> None:
        self.channels[channel].busy = False
        self.touched.add(channel)

    def on_sensed(self, where: tuple[int, int]) -> None:
        channel, index = where
        die = self.channels[channel].dies[index]
        if die.sending or die.out:
            die.state = "held"
        else:
            self.fill_register(channel, die)

    def fill_register(self, channel: int, die: Die) -> None:
        die.out, die.inside = die.inside, []
        die.state = "free" if self.g.cache_read else "full"
        self.touched.add(channel)

    def on_sent(self, page: Page) -> None:
        bus = self.channels[page.channel]
        die = bus.dies[page.die]
        bus.busy = die.sending = False
        self.touched.add(page.channel)
        if not die.out and die.state == "held":
            self.fill_register(page.channel, die)
        elif not die.out and die.state == "full":
            die.state = "free"
        if self.g.correction:
            self.push(self.now + self.g.correction, Kind.CORRECTED, page)
        else:
            self.on_corrected(page)

    # From error correction on.

    def on_corrected(self, page: Page) -> None:
        g = self.g
        if g.retry and page.tries < g.max_retries:
            die = page.channel * g.chips_per_channel * g.dies_per_chip + page.die
            if mix((g.seed + (page.tries << 32)) & WORD, page.row << 20 | die << 4 | page.plane) < g.retry:
                page.tries += 1
                self.retried.append(self.now)
                room = self.room_of(page)
                if room is not None:
                    self.touched.update(room.give(1))
                self.channels[page.channel].dies[page.die].queue.insert(0, page)
                self.touched.add(page.channel)
                return
        if page.what == "table":
            self.table_page_is_there(page)
        elif page.what == "read" or g.to_host:
            self.push(self.serve("dram", g.dram), Kind.DRAM, page)
        else:
            self.deliver(page)
            if page.channel in self.worker_of:
                self.collect(self.worker_of[page.channel])

    def on_dram(self, about: Page | Worker) -> None:
        if isinstance(about, Page):
            self.push(self.serve("upload", self.g.upload), Kind.UPLOAD, about)
        elif about.spec.edram:
            self.push(self.serve("edram", about.spec.edram), Kind.EDRAM, about)
        else:
            self.on_edram(about)

    def on_upload(self, about: Page | bool) -> None:
        if isinstance(about, bool):
            self.outputs += not about
            self.final_outputs += about
            self.scan_end = self.now
            return
        self.touched.update(self.host_room.give(1))
        if about.what == "read":
            self.read_latencies.append((self.now, self.now - about.since))
            self.reads_under_way -= 1
            self.begin_reads()
            return
        self.deliver(about)
        if self.g.host_consumer:
            self.collect(self.workers[-1])

    def deliver(self, page: Page) -> None:
        self.latencies.append(self.now - page.since)
        self.delivered += 1
        self.scan_end = self.now
        stream = self.streams[page.channel if len(self.streams) > 1 else 0]
        stream.under_way -= 1
        self.ask(stream)

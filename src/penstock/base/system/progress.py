"""Progress of long work on stderr: only on a terminal, with the remaining time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, ProgressColumn, Task, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as RichProgress
from rich.text import Text

from penstock.base.units import format_seconds


class Progress:
    """Stage, percent and remaining time on stderr: only on a terminal, and only once a stage lasts over a second.

    `quiet=True` never draws. A separate thread redraws the display twice a second, so that it does not disturb
    measurements.
    """

    def __init__(self, *, quiet: bool = False, console: Console | None = None, delay_s: float = 1.0) -> None:
        self._console = console or Console(stderr=True)
        self._shown = self._console.is_terminal and not quiet
        self._delay_s = delay_s

    @contextmanager
    def stage(self, name: str, total: float | None = None) -> Iterator[StageProgress]:
        """One stage of `total` steps (`None`: unknown, only the elapsed time is drawn)."""
        stage = StageProgress(name, total)
        if not self._shown:
            yield stage
            return
        timer = threading.Timer(self._delay_s, stage._show, [self._console])
        timer.daemon = True
        timer.start()
        try:
            yield stage
        finally:
            timer.cancel()
            timer.join()
            stage._hide()


class _RemainingColumn(ProgressColumn):
    """Remaining time at the mean pace so far: steady where steps are few and long."""

    def render(self, task: Task) -> Text:
        if not task.total or not task.completed or task.elapsed is None:
            return Text("")
        return Text(f"about {format_seconds(round(remaining_s(task.elapsed, task.completed, task.total)))} left")


def remaining_s(elapsed_s: float, done: float, total: float) -> float:
    """Seconds that the rest takes at the pace so far; `done` is positive.

    >>> remaining_s(10.0, 1, 4)
    30.0
    """
    return elapsed_s * max(total - done, 0.0) / done


class StageProgress:
    """The progress of one stage; `advance` and `update` cost next to nothing while nothing is drawn."""

    def __init__(self, name: str, total: float | None) -> None:
        self.name = name
        self.total = total
        self.done = 0.0
        self._started = time.monotonic()
        self._display: RichProgress | None = None
        self._mutex = threading.Lock()

    @property
    def visible(self) -> bool:
        return self._display is not None

    def advance(self, steps: float = 1) -> None:
        """`steps` more are done."""
        self.update(self.done + steps)

    def update(self, done: float, total: float | None = None, *, name: str | None = None) -> None:
        """`done` steps are done; `total` and `name` may be refined on the way."""
        self.done = done
        self.total = self.total if total is None else total
        self.name = name or self.name
        if self._display is not None:
            with self._mutex:
                if self._display is not None:
                    self._display.update(
                        self._display.task_ids[0], completed=done, total=self.total, description=_plain_text(self.name)
                    )

    def _show(self, console: Console) -> None:
        with self._mutex:
            display = RichProgress(
                TextColumn("{task.description}"),
                BarColumn(),
                TaskProgressColumn(),
                TextColumn("elapsed"),
                TimeElapsedColumn(),
                _RemainingColumn(),
                console=console,
                refresh_per_second=2,
                transient=True,
            )
            task = display.add_task(_plain_text(self.name), total=self.total, completed=0)
            display.tasks[0].start_time = display.get_time() - (time.monotonic() - self._started)
            display.start()
            display.update(task, completed=self.done)
            self._display = display

    def _hide(self) -> None:
        with self._mutex:
            if self._display is not None:
                self._display.stop()
                self._display = None


def _plain_text(text: str) -> str:
    """`text` without the square brackets that the terminal library would read as markup."""
    return text.replace("[", "\\[")

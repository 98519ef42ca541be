"""What a person sees of long work."""

from __future__ import annotations

import io
import threading
import time

import pytest
from rich.console import Console

from penstock.base.system.progress import Progress


def drawn(*, terminal: bool, quiet: bool = False, lasts_s: float, delay_s: float = 0.05) -> tuple[str, bool]:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=100)
    with Progress(quiet=quiet, console=console, delay_s=delay_s).stage("encrypt [0]", 4) as stage:
        end, visible = time.monotonic() + lasts_s, False
        while time.monotonic() < end:
            stage.update(1)
            visible |= stage.visible
            time.sleep(0.01)
    assert stage.visible is False
    return text.getvalue(), visible


def test_progress_shows_stage_percent_and_remaining_time_on_a_terminal():
    text, visible = drawn(terminal=True, lasts_s=0.5)
    assert visible
    assert "encrypt [0]" in text
    assert "25%" in text
    assert "left" in text


@pytest.mark.parametrize(
    "how", [{"terminal": False, "lasts_s": 0.2}, {"terminal": True, "quiet": True, "lasts_s": 0.2},
            {"terminal": True, "lasts_s": 0.1, "delay_s": 30.0}],
)  # fmt: skip
def test_progress_is_silent_off_a_terminal_when_quiet_and_for_short_work(how):
    assert drawn(**how) == ("", False)


def test_an_unfinished_progress_ends_with_its_block_and_its_timer():
    before = threading.active_count()
    with pytest.raises(RuntimeError), Progress(console=Console(file=io.StringIO(), force_terminal=True)).stage("x"):
        raise RuntimeError
    assert threading.active_count() == before

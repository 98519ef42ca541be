"""The steady state of a drive's scan by formulas; the simulation is tested against them.

All rates are bytes a second of a drive whose queue never runs empty, with whole pages; x is the time of one page on a
channel's bus, page / rate. Each formula assumes that its named resource binds and no other does.
"""

from __future__ import annotations

from penstock.scheme.machines.drives import Drive


def page_on_bus_s(drive: Drive) -> float:
    """x: one page over a channel's bus."""
    return drive.page_bytes / drive.channel_bytes_per_s


def command_s(drive: Drive, planes: int) -> float:
    """The bus is taken so long by the command of a read of so many planes of a die."""
    return drive.read_command_s + (planes - 1) * drive.further_plane_s


def bus_rate(drive: Drive) -> float:
    """Without commands: channels x rate."""
    return drive.channels * drive.channel_bytes_per_s


def bus_rate_with_commands(drive: Drive, planes: int) -> float:
    """Sequential: channels x p pages / (p x + command), p planes a command.

    Holds where the other dies of a channel hide a die's sense: dies a channel - 1 times that is at least a sense.
    """
    return drive.channels * planes * drive.page_bytes / (planes * page_on_bus_s(drive) + command_s(drive, planes))


def scan_rate(drive: Drive) -> float:
    """The rate of a sequential scan inside the drive: what binds of bus and sense."""
    planes = drive.planes_per_die if drive.multi_plane else 1
    return min(bus_rate_with_commands(drive, planes), cycle_rate(drive, planes))


def cycle_rate(drive: Drive, planes: int) -> float:
    """Without cache reads a die is at work from its command to its last page's end: p pages / (command + tR + p x)."""
    cycle = command_s(drive, planes) + drive.sense_s + planes * page_on_bus_s(drive)
    return drive.dies * planes * drive.page_bytes / cycle

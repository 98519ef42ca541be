"""The steady state of a drive's scan by formulas; the simulation is tested against them.

All rates are bytes a second of a drive whose queue never runs empty, with whole pages; x is the time of one page on a
channel's bus, page / rate. Each formula assumes that its named resource binds and no other does.
"""

from __future__ import annotations

import math

from penstock.machines.drives import Drive
from penstock.simulation.drive.spec import Arbitration


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


def sense_rate(drive: Drive, planes: int) -> float:
    """Where buses take no time: all dies sense p pages again and again: dies x p pages / tR."""
    return drive.dies * planes * drive.page_bytes / drive.sense_s


def link_rate(drive: Drive) -> float:
    """PCIe or SATA: the payload rate of the link."""
    return drive.host_link_bytes_per_s


def convoy_rate(drive: Drive, planes: int) -> float:
    """Data before commands, one die of a chip at a time: a round is a command, a sense, and all chips' data.

    In a round each of w chips gives p pages. Its first data is ready one command and one sense after the bus became
    free for commands. The other chips' commands hide in that sense, and their senses in the first one's data: channels
    x w p pages / (command + tR + w p x). Holds where (w - 1) commands are no longer than a sense.
    """
    chips = drive.chips_per_channel
    round_s = command_s(drive, planes) + drive.sense_s + chips * planes * page_on_bus_s(drive)
    return drive.channels * chips * planes * drive.page_bytes / round_s


def single_read_s(drive: Drive) -> float:
    """One page at a time (queue depth 1), up to the end of error correction: command + tR + x + correction."""
    return command_s(drive, 1) + drive.sense_s + page_on_bus_s(drive) + drive.correction_s


def single_read_to_host_s(drive: Drive) -> float:
    """And then through DRAM, in and out, and over the link."""
    passes = drive.dram_passes * drive.page_bytes / drive.dram_bytes_per_s
    return single_read_s(drive) + passes + drive.page_bytes / drive.host_link_bytes_per_s


def scan_rate(drive: Drive, arbitration: Arbitration = Arbitration.PIPELINED) -> float:
    """The rate of a sequential scan inside the drive: what binds of bus and sense."""
    planes = drive.planes_per_die if drive.multi_plane else 1
    if arbitration is Arbitration.CONVOY:
        return convoy_rate(drive, planes)
    return min(bus_rate_with_commands(drive, planes), cycle_rate(drive, planes))


def cycle_rate(drive: Drive, planes: int) -> float:
    """Without cache reads a die is at work from its command to its last page's end: p pages / (command + tR + p x)."""
    cycle = command_s(drive, planes) + drive.sense_s + planes * page_on_bus_s(drive)
    return drive.dies * planes * drive.page_bytes / cycle


def served_rate(consumers: int, chunk_bytes: int, service_s: float) -> float:
    """Accelerators bind: consumers x chunk / service."""
    return consumers * chunk_bytes / service_s


def metadata_rate(chunk_bytes: int, metadata_bytes: int, memory_bytes_per_s: float) -> float:
    """The shared memory binds that all consumers fetch their metadata from: chunk / (metadata / rate)."""
    return chunk_bytes * memory_bytes_per_s / metadata_bytes


def lru_write_amplification(used_share: float) -> float:
    """Pages programmed per page written, uniform over the drive, where blocks are collected in the order of writing.

    u = used_share of the blocks hold valid data. With A the amplification, a block has lost all but the share
    v = 1 - 1/A of its pages when its turn comes, and v solves v = exp(-(1 - v) / u): Desnoyers, SYSTOR 2012.
    Collecting the block with the most invalid pages does better.
    """
    valid = 0.5
    for _ in range(10_000):
        valid = math.exp(-(1 - valid) / used_share)
    return 1 / (1 - valid)

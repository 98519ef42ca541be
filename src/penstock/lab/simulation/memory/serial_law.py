"""The storage-I/O study's law, the closed form of the time mode `serial`: slowdowns, and the hit ratios that they need.

With D bytes that have to come from the tier per second of ideal time, and a tier of bandwidth BW, the slowdown is
1 + D / BW.
"""

from __future__ import annotations

from penstock.errors import UsageError

IDEAL_SHARE = 0.8
"""The share of the ideal speed that the study asks the hit ratio for."""


def serial_slowdown(
    bytes_per_ideal_s: float,
    bandwidth_bytes_per_s: float,
    *,
    hit_ratio: float = 0.0,
    decode_bytes_per_s: float | None = None,
) -> float:
    """Total over ideal time where compute, transfer (and decoding) follow each other: 1 + D / BW.

    Args:   bytes_per_ideal_s: D, bytes asked for per second of ideal time; hit_ratio: share of them that is resident.
    Raises: UsageError: a negative demand, a bandwidth that is not positive, a hit ratio outside 0 to 1.
    Source: the storage-I/O study's law; bandwidths in decimal GB/s.
    >>> round(serial_slowdown(1633e9, 12.5e9), 1)
    131.6
    """
    _check(bytes_per_ideal_s, bandwidth_bytes_per_s)
    if not 0 <= hit_ratio <= 1:
        raise UsageError(f"hit ratio {hit_ratio}: it lies between 0 and 1")
    seconds_per_byte = 1 / bandwidth_bytes_per_s
    if decode_bytes_per_s is not None:
        _check(bytes_per_ideal_s, decode_bytes_per_s)
        seconds_per_byte += 1 / decode_bytes_per_s
    return 1 + (1 - hit_ratio) * bytes_per_ideal_s * seconds_per_byte


def required_hit_ratio(
    bytes_per_ideal_s: float,
    bandwidth_bytes_per_s: float,
    target: float = IDEAL_SHARE,
    *,
    reads_per_ideal_s: float = 0.0,
    latency_s: float = 0.0,
) -> float:
    """Share of the bytes that must be resident to reach `target` of the ideal speed, by the serial law.

    `target` of the ideal speed is a slowdown of 1 / target, so at most (1 / target - 1) BW bytes may come from the tier
    in each second of ideal time; each read takes `latency_s` in addition to its bytes. 0 if the tier alone is fast
    enough.
    Raises: UsageError: as for `serial_slowdown`; a target outside 0 to 1, or 0.
    >>> round(required_hit_ratio(1633e9, 64e9), 4)
    0.9902
    """
    _check(bytes_per_ideal_s, bandwidth_bytes_per_s)
    if not 0 < target <= 1:
        raise UsageError(f"target {target}: it is a share of the ideal speed, more than 0 and at most 1")
    if not (reads_per_ideal_s >= 0 and 0 <= latency_s < float("inf")):
        raise UsageError(f"{reads_per_ideal_s} reads a second of {latency_s} s latency: neither is negative")
    if bytes_per_ideal_s == 0:
        return 0.0
    waiting_s = reads_per_ideal_s * latency_s
    if waiting_s:
        bandwidth_bytes_per_s = bytes_per_ideal_s / (bytes_per_ideal_s / bandwidth_bytes_per_s + waiting_s)
    return max(0.0, 1 - (1 / target - 1) * bandwidth_bytes_per_s / bytes_per_ideal_s)


def _check(bytes_per_ideal_s: float, bandwidth_bytes_per_s: float) -> None:
    if not bytes_per_ideal_s >= 0:
        raise UsageError(f"a demand of {bytes_per_ideal_s} bytes a second: it is not negative")
    if not bandwidth_bytes_per_s > 0:
        raise UsageError(f"a bandwidth of {bandwidth_bytes_per_s} bytes a second: it is more than zero")

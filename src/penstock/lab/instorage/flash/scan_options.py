"""A question to a simulated drive, in the words of a front end."""

from __future__ import annotations

from collections.abc import Sequence

from penstock.base.types import Row, RowView
from penstock.base.units import parse_bytes, parse_rate
from penstock.errors import UsageError
from penstock.lab.instorage.flash import spec

DEFAULT_CACHE = "64 MiB"
"""Of the page table."""
SEEDS = 2**64


def scan_of(asked: RowView) -> tuple[spec.Scan, Row]:
    """The scan that options name, and the other arguments of `scan_drive`.

    Args:   asked: the options of `penstock ssd scan`, by name.
    Raises: UsageError, UnitError: an option that breaks a rule, or changes nothing.
    """
    span, other, request = asked["span"], asked["background_span"], asked["request_size"]
    spanned = None if other is None else parse_bytes(other, "--background-span")
    if other is not None and asked["background_reads"] is None and asked["background_writes"] is None:
        raise UsageError("--background-span says what other traffic falls on: give --background-reads or -writes too")

    def traffic(kind: str, rate: str | None, further: int) -> spec.HostTraffic | None:
        seed = (asked["seed"] + further) % SEEDS
        if rate is None:
            return None
        return spec.HostTraffic(bytes_per_s=parse_rate(rate, f"--background-{kind}"), span_bytes=spanned, seed=seed)

    scan = spec.Scan(
        size_bytes=_positive(asked["size"], "--size"),
        first_byte=parse_bytes(asked["first"], "--from"),
        pattern=spec.ScanPattern(asked["pattern"]),
        span_bytes=None if span is None else parse_bytes(span, "--span"),
        queue_depth=asked["queue_depth"],
        request_bytes=None if request is None else _positive(request, "--request-size"),
        seed=asked["seed"],
    )
    return scan, {
        "host": spec.ScanTarget(asked["host"]),
        "arbitration": spec.Arbitration(asked["arbitration"]),
        "mapping": _mapping(asked["page_mapping"], asked["mapping_cache"]),
        "reads": traffic("reads", asked["background_reads"], 1),
        "writes": traffic("writes", asked["background_writes"], 2),
    }


def changes_of(texts: Sequence[str]) -> dict[str, str]:
    """Value of a drive -> its text, of `VALUE=TEXT`. Raises: UsageError: another form, or a value twice."""
    changes: dict[str, str] = {}
    for text in texts:
        value, sign, written = text.partition("=")
        if not sign or not value.strip() or not written.strip():
            raise UsageError(f"--set '{text}' is not a VALUE=TEXT; write for example --set 'sense=45 us'")
        if value.strip() in changes:
            raise UsageError(f"--set '{text}': '{value.strip()}' is set twice; give it once")
        changes[value.strip()] = written.strip()
    return changes


def _positive(text: str, option: str) -> int:
    size = parse_bytes(text, option)
    if size == 0:
        raise UsageError(f"{option} '{text}' is zero; read at least one byte")
    return size


def _mapping(name: str, cache: str | None) -> spec.PageMapping:
    if cache is not None and name != "cached":
        raise UsageError(f"--mapping-cache goes with --page-mapping cached, and this is '{name}'")
    if name == "cached":
        return spec.CachedMapping(cache_bytes=parse_bytes(cache or DEFAULT_CACHE, "--mapping-cache"))
    return spec.NandMapping() if name == "nand" else spec.IdentityMapping()

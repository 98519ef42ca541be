from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from penstock.base.units import (
    BYTE_UNITS,
    HERTZ_UNITS,
    RATE_UNITS,
    SECOND_UNITS,
    format_bytes,
    format_rate,
    format_seconds,
    parse_bytes,
    parse_quantity,
    parse_rate,
    parse_seconds,
)
from penstock.errors import UnitError


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("0 B", 0),
        ("80 GB", 80 * 10**9),
        ("80 GiB", 80 * 2**30),
        ("16GiB", 16 * 2**30),
        ("1.5 MiB", 1_572_864),
        (" 2 kB ", 2000),
        ("2 KB", 2000),
        ("1e3 B", 1000),
        (".5 KiB", 512),
    ],
)
def test_a_size_is_read_in_its_own_unit(text: str, size: int) -> None:
    assert parse_bytes(text) == size


def test_a_gigabyte_is_not_a_gibibyte() -> None:
    assert parse_bytes("1 GiB") - parse_bytes("1 GB") == 73_741_824


@pytest.mark.parametrize(
    ("text", "rate"), [("7 GB/s", 7e9), ("400 Gb/s", 50e9), ("8 b/s", 1.0), ("1 GiB/s", 2.0**30), ("100 Mb/s", 12.5e6)]
)
def test_a_bandwidth_in_bits_is_an_eighth_of_one_in_bytes(text: str, rate: float) -> None:
    assert parse_rate(text) == rate


@pytest.mark.parametrize(
    ("text", "seconds"), [("12.5 us", 12.5e-6), ("2 min", 120.0), ("1 h", 3600.0), ("3 ps", 3e-12)]
)
def test_a_time_is_read_in_seconds(text: str, seconds: float) -> None:
    assert parse_seconds(text) == pytest.approx(seconds, rel=1e-15)


def test_micro_is_read_from_either_of_its_two_letters() -> None:
    assert parse_seconds("4 \N{MICRO SIGN}s") == parse_seconds("4 \N{GREEK SMALL LETTER MU}s") == parse_seconds("4 us")


@pytest.mark.parametrize("text", ["80", "80 ", "1e9", "0", ".5"])
def test_a_number_without_a_unit_is_refused_and_the_message_shows_one_with_a_unit(text: str) -> None:
    with pytest.raises(UnitError, match=r"has no unit; write for example '.+ GB'"):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["", "GB", "big", "nan GB", "inf B", "--3 B", "1,000 B", "3 B 4", "1 000 B", "0x10 B"])
def test_what_is_no_number_with_a_unit_is_refused(text: str) -> None:
    with pytest.raises(UnitError):
        parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("3 gb", "unknown unit 'gb'"),
        ("3 GB/s", "unknown unit 'GB/s'"),
        ("-3 GB", "negative"),
        ("1.5 B", "whole number of bytes"),
        ("1e-9 B", "whole number of bytes"),
        ("1e400 B", "not finite"),
        ("1e300 PB", "too large"),
        ("1e-99999999 B", "unknown unit"),
    ],
)
def test_a_bad_size_is_named_with_its_rule(text: str, words: str) -> None:
    with pytest.raises(UnitError, match=words) as caught:
        parse_bytes(text, "cache")
    assert str(caught.value).startswith(f"cache '{text}'")


def test_a_bandwidth_of_zero_is_refused() -> None:
    with pytest.raises(UnitError, match="positive"):
        parse_rate("0 GB/s")
    assert parse_rate("1 B/s") == 1.0


@given(st.integers(0, 2**80))
def test_whole_bytes_are_read_exactly_however_many(size: int) -> None:
    assert parse_bytes(f"{size} B") == size


@given(st.integers(0, 2**40), st.sampled_from(sorted(BYTE_UNITS)))
def test_a_size_is_its_number_times_its_unit(number: int, unit: str) -> None:
    assert parse_bytes(f"{number} {unit}") == number * int(BYTE_UNITS[unit])


@given(st.floats(0, 1e12, allow_nan=False), st.sampled_from(sorted(RATE_UNITS)))
def test_any_float_and_unit_reads_back_as_written(number: float, unit: str) -> None:
    assert parse_quantity(f"{number!r} {unit}", RATE_UNITS, "bandwidth") == number * RATE_UNITS[unit]


@given(st.text(max_size=20) | st.from_regex(r"[+-]?[0-9.]{1,4}([eE][+-]?[0-9]{1,4})? ?[a-zA-Z/]{0,4}", fullmatch=True))
@example("0" * 201)
def test_any_text_is_read_or_refused_with_a_unit_error(text: str) -> None:
    for units in (BYTE_UNITS, SECOND_UNITS, HERTZ_UNITS):
        try:
            value = parse_quantity(text, units, "value")
        except UnitError as error:
            message = str(error)
        else:
            message = f"value '{text}' is {value}"
            assert value >= 0
        assert message.startswith(
            f"value '{text}'" if len(text) <= 200 else f"value is a text of {len(text)} characters"
        )


@given(st.integers(0, 10**18))
def test_a_printed_size_reads_back_to_four_digits_in_both_units(size: int) -> None:
    shown = format_bytes(size)
    for part in shown.removesuffix(")").split(" ("):
        value = parse_quantity(part, BYTE_UNITS, "size")
        assert value == pytest.approx(size, rel=5.1e-4)


@given(st.floats(1e-12, 1e7))
def test_a_printed_time_reads_back_to_four_digits(seconds: float) -> None:
    shown = format_seconds(seconds)
    if "min" in shown:
        minutes, rest = shown.split(" min ")
        assert 0 <= parse_seconds(rest) < 60
        assert int(minutes) * 60 + parse_seconds(rest) == pytest.approx(seconds, abs=0.5)
    else:
        assert parse_seconds(shown) == pytest.approx(seconds, rel=5.1e-4)


@given(st.floats(1.0, 1e15))
def test_a_printed_bandwidth_reads_back_to_four_digits(rate: float) -> None:
    assert parse_rate(format_rate(rate)) == pytest.approx(rate, rel=5.1e-4)


@pytest.mark.parametrize(
    ("size", "shown"),
    [
        (0, "0 B"),
        (999, "999 B"),
        (100_663_296, "100.7 MB (96 MiB)"),
        (47_185_920, "47.19 MB (45 MiB)"),
        (10**12, "1 TB (931.3 GiB)"),
    ],
)
def test_a_size_is_printed_in_decimal_and_binary_units(size: int, shown: str) -> None:
    assert format_bytes(size) == shown


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [(0.0, "0 s"), (0.0123, "12.3 ms"), (119.6, "119.6 s"), (120.0, "2 min 0 s"), (179.7, "3 min 0 s"),
     (-150.0, "-2 min 30 s"), (-0.0123, "-12.3 ms")],
)  # fmt: skip
def test_a_time_is_printed_with_the_unit_that_suits_it(seconds: float, shown: str) -> None:
    assert format_seconds(seconds) == shown

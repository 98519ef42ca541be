"""The wire format of Protocol Buffers, as far as traces of other tools need it: numbers, text and nested messages.

A message is a row of fields; each begins with a number that holds its id and its wire type: 0 a number of 7 bits a
byte, 1 eight bytes, 2 a length and so many bytes, 5 four bytes. Source: protobuf.dev, "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator

from penstock.errors import TraceError

VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5
_MOST_BYTES = 10


def varint(number: int) -> bytes:
    """A number from 0 to 2^64 - 1 as 7 bits a byte, the lowest first.

    >>> varint(300).hex()
    'ac02'
    """
    if not 0 <= number < 1 << 64:
        raise ValueError(f"{number} is not an unsigned number of 64 bits")
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def number_field(field: int, number: int) -> bytes:
    """A numeric field; nothing if it is 0, the meaning of a missing field."""
    return varint(field << 3 | VARINT) + varint(number) if number else b""


def bytes_field(field: int, content: bytes) -> bytes:
    """A nested message, also an empty one."""
    return varint(field << 3 | BYTES) + varint(len(content)) + content


def text_field(field: int, text: str) -> bytes:
    """A text; nothing if it is empty, the meaning of a missing field."""
    return bytes_field(field, text.encode()) if text else b""


def fields(message: bytes | memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """The id and content of each field: an `int` where it is a number, the bytes of anything with a length.

    Raises: TraceError: it is cut off, or holds a wire type that is none.
    """
    view = memoryview(message)
    at = 0
    while at < len(view):
        tag, at = _read_varint(view, at)
        field, wire = tag >> 3, tag & 7
        if field == 0:
            raise TraceError(f"byte {at}: a field with the id 0; this is not a protocol buffer, or it is damaged")
        if wire == VARINT:
            number, at = _read_varint(view, at)
            yield field, number
            continue
        if wire == BYTES:
            size, at = _read_varint(view, at)
        elif wire in (FIXED64, FIXED32):
            size = 8 if wire == FIXED64 else 4
        else:
            raise TraceError(f"byte {at}: wire type {wire}; this is not a protocol buffer, or it is damaged")
        if size > len(view) - at:
            raise TraceError(f"byte {at}: a field of {size} bytes, and {len(view) - at} are left; the file is cut off")
        content = view[at : at + size]
        at += size
        yield field, content if wire == BYTES else int.from_bytes(content, "little")


def _read_varint(view: memoryview, at: int) -> tuple[int, int]:
    number = 0
    for i in range(_MOST_BYTES):
        if at + i >= len(view):
            raise TraceError(f"byte {at}: a number without an end; the file is cut off")
        byte = view[at + i]
        number |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return number & (1 << 64) - 1, at + i + 1
    raise TraceError(f"byte {at}: a number of more than {_MOST_BYTES} bytes; this is not a protocol buffer")


def packed(value: memoryview) -> list[int]:
    """Numbers that stand one behind another, as a repeated number is written.

    >>> packed(memoryview(bytes.fromhex("01ac02")))
    [1, 300]
    """
    numbers, at = [], 0
    while at < len(value):
        number, at = _read_varint(value, at)
        numbers.append(number)
    return numbers


def whole(value: int | memoryview) -> int:
    """A field that has to be a number."""
    if isinstance(value, int):
        return value
    raise TraceError("a field that should be a number holds bytes; this is another message, or it is damaged")


def nested(value: int | memoryview) -> memoryview:
    """A field that has to be a message."""
    if isinstance(value, int):
        raise TraceError("a field that should be a message holds a number; this is another message, or it is damaged")
    return value


def text(value: int | memoryview) -> str:
    """A field that has to be text."""
    try:
        return bytes(nested(value)).decode()
    except UnicodeDecodeError as error:
        raise TraceError(f"a text is not UTF-8 ({error}); this is another message, or it is damaged") from error

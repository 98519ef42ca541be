"""The decoded size of an Arrow IPC stream from its headers: rows and bytes, before a buffer is decompressed.

A message is a flatbuffer with a body of buffers; a compressed buffer begins with its length in eight bytes.
Source: arrow.apache.org, "Arrow Columnar Format", Message.fbs and Schema.fbs of format version 1.5.
"""

from __future__ import annotations

import struct

import pyarrow as pa

_DICTIONARY, _RECORDS = 2, 3
"""Kinds of messages that hold buffers."""
_NOT_COMPRESSED = -1


def decoded_size(stream: pa.Buffer) -> tuple[int, int]:
    """(rows, bytes) of all batches and dictionaries of a stream, as its headers state them.

    Raises: pa.ArrowInvalid: no such stream. ValueError: a header that contradicts itself.
    """
    rows = size = 0
    try:
        for message in pa.ipc.MessageReader.open_stream(stream):
            header = _Flat(message.metadata.to_pybytes())
            root = header.follow(0)
            kind = header.field(root, 1)
            batch = header.field(root, 2)
            kind = 0 if kind is None else header.content[kind]
            if kind not in (_DICTIONARY, _RECORDS) or batch is None:
                continue
            batch = header.follow(batch)
            if kind == _DICTIONARY:
                inner = header.field(batch, 1)
                if inner is None:
                    continue
                batch = header.follow(inner)
            length = header.field(batch, 0)
            rows += 0 if length is None else header.number(length)
            size += _buffers(header, batch, message.body)
    except (struct.error, IndexError) as error:
        raise ValueError("a header of its Arrow stream is damaged") from error
    return rows, size


def _buffers(header: _Flat, batch: int, body: pa.Buffer) -> int:
    listed, compression = header.field(batch, 2), header.field(batch, 3)
    if listed is None:
        return 0
    if compression is None:
        return int(body.size)
    total, first = 0, header.follow(listed)
    for i in range(header.unsigned(first)):
        offset, length = header.number(first + 4 + 16 * i), header.number(first + 12 + 16 * i)
        if offset < 0 or length < 0:
            raise struct.error
        stated = struct.unpack_from("<q", body, offset)[0] if length else 0
        if stated < _NOT_COMPRESSED:
            raise struct.error
        total += length if stated == _NOT_COMPRESSED else stated
    return total


class _Flat:
    """A flatbuffer: tables whose fields lie where an offset says."""

    def __init__(self, content: bytes) -> None:
        self.content = content

    def number(self, at: int) -> int:
        """A number of 64 bits."""
        return int(struct.unpack_from("<q", self.content, at)[0])

    def unsigned(self, at: int) -> int:
        return int(struct.unpack_from("<I", self.content, at)[0])

    def follow(self, at: int) -> int:
        """Where the offset at `at` leads."""
        return at + self.unsigned(at)

    def field(self, table: int, number: int) -> int | None:
        """The place of a field of a table; `None`: it is left out."""
        fields = table - int(struct.unpack_from("<i", self.content, table)[0])
        entry = 4 + 2 * number
        if entry >= int(struct.unpack_from("<H", self.content, fields)[0]):
            return None
        offset = int(struct.unpack_from("<H", self.content, fields + entry)[0])
        return table + offset if offset else None

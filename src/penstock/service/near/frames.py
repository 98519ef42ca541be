"""Frames between an evaluator and a node that owns keys.

A frame is `PSNK`, a version, a kind, the length of a JSON header and the length of a body (little-endian, 20 bytes),
then header and body. A body is rows of limbs: N words of 8 bytes each. Lengths are bounded before anything is
allocated; a header is a flat object of known fields with checked types.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from enum import IntEnum

from penstock.base.system.outside import json_of
from penstock.base.types import Row, RowView
from penstock.errors import PenstockError

MAGIC, VERSION = b"PSNK", 1
PREFIX = struct.Struct("<4sHHIQ")
MAX_HEADER_BYTES = 4096


class Kind(IntEnum):
    """The kinds of frames."""

    HELLO = 1
    """Client: token, tenant, digest of the parameters, tag of the key pair."""
    WELCOME = 2
    ROTATE = 3
    """Client: an automorphism of a ciphertext."""
    ROTATE_HOISTED = 4
    """Client: the same by a decomposition that the node keeps while ciphertexts are the same; no body: as before."""
    RELINEARIZE = 5
    PULL = 6
    """Client: the rows of a key at so many limbs."""
    RESULT = 7
    """Node: a ciphertext."""
    KEY_ROWS = 8
    """Node: rows of a key, in the order of the engine's `ckks_key_words`."""
    ERROR = 9


class FrameRefused(PenstockError):
    """Bytes that are not a frame, or a frame larger than the other side accepts."""


@dataclass(frozen=True, slots=True)
class Prefix:
    """The fixed part of a frame."""

    kind: Kind
    header_bytes: int
    body_bytes: int


def encode_prefix(kind: Kind, header: RowView, body_bytes: int) -> bytes:
    """Prefix and header of a frame.

    Raises: FrameRefused: the header is too long.
    """
    text = json.dumps(header).encode()
    if len(text) > MAX_HEADER_BYTES:
        raise FrameRefused(f"a header of {len(text)} bytes: a frame's has at most {MAX_HEADER_BYTES}")
    return PREFIX.pack(MAGIC, VERSION, kind, len(text), body_bytes) + text


def decode_prefix(content: bytes, max_body_bytes: int) -> Prefix:
    """The fixed part of a frame, checked before anything behind it is read.

    Raises: FrameRefused: no frame, another version, or one that is too large.
    """
    magic, version, kind, header_bytes, body_bytes = PREFIX.unpack(content)
    if magic != MAGIC:
        raise FrameRefused("these bytes are not a frame of a key node")
    if version != VERSION:
        raise FrameRefused(f"a frame of version {version}: this side speaks {VERSION}; run the same release on both")
    if kind not in Kind.__members__.values():
        raise FrameRefused(f"a frame of unknown kind {kind}")
    if header_bytes > MAX_HEADER_BYTES or body_bytes > max_body_bytes:
        raise FrameRefused(
            f"a frame of {header_bytes} + {body_bytes} bytes: at most {MAX_HEADER_BYTES} + {max_body_bytes} are taken"
        )
    if body_bytes % 8:
        raise FrameRefused(f"a body of {body_bytes} bytes: rows are whole words of 8 bytes")
    return Prefix(Kind(kind), header_bytes, body_bytes)


def decode_header(content: bytes, fields: Mapping[str, type]) -> Row:
    """A header with exactly `fields`.

    Raises: FrameRefused: not JSON, a missing, unknown or mistyped field.
    """
    try:
        header = json_of(content)
    except ValueError as error:
        raise FrameRefused("a header that is not JSON") from error
    if not isinstance(header, dict) or header.keys() != fields.keys():
        names = sorted(header) if isinstance(header, dict) else type(header).__name__
        raise FrameRefused(f"a header with {names}: this kind of frame has {sorted(fields)}")
    for name, kind in fields.items():
        # A bool is an int to Python, and no count.
        if not isinstance(header[name], kind) or isinstance(header[name], bool):
            raise FrameRefused(f"header field '{name}' is not of type {kind.__name__}")
    return header


CIPHERTEXT_FIELDS: dict[str, type] = {"polynomials": int, "limbs": int, "degree": int, "scale": float, "slots": int}
"""What describes the rows of a ciphertext."""
REQUEST_FIELDS: dict[Kind, dict[str, type]] = {
    Kind.HELLO: {"token": str, "tenant": str, "digest": str, "key_tag": str},
    Kind.ROTATE: {**CIPHERTEXT_FIELDS, "element": int},
    Kind.ROTATE_HOISTED: {**CIPHERTEXT_FIELDS, "element": int},
    Kind.RELINEARIZE: CIPHERTEXT_FIELDS,
    Kind.PULL: {"key": str, "limbs": int},
}
"""Kind of request -> the fields of its header."""
ANSWER_FIELDS: dict[Kind, dict[str, type]] = {
    Kind.WELCOME: {"max_body_bytes": int},
    Kind.RESULT: CIPHERTEXT_FIELDS,
    Kind.KEY_ROWS: {"limbs": int},
    Kind.ERROR: {"message": str},
}
"""Kind of answer -> the fields of its header."""

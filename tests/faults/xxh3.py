"""XXH3-64 of more than 240 bytes, unseeded, as the key store ends a header with: to write one that a damaged header
passes for whole. Source: xxHash's specification, doc/xxhash_spec.md, version 0.2.0."""

from __future__ import annotations

import struct

_M64 = (1 << 64) - 1
_P32 = (0x9E3779B1, 0x85EBCA77, 0xC2B2AE3D)
_P64 = (0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5)
_SECRET = bytes.fromhex(
    "b8fe6c3923a44bbe7c01812cf721ad1cded46de9839097db7240a4a4b7b3671fcb79e64eccc0e578825ad07dccff7221b8084674f743248e"
    "e03590e6813a264c3c2852bb91c300cb88d0658b1b532ea371644897a20df94e3819ef46a9deacd8a8fa763fe39c343ff9dcbbc7c70b4f1d"
    "8a51e04bcdb45931c89f7ec9d9787364eac5ac8334d3ebc3c581a0fffa1363eb170ddd51b7f0da49d316552629d4689e2b16be587d47a1fc"
    "8ff8b8d17ad031ce45cb3a8f95160428afd7fbcabb4b407e"
)
_LANES = struct.Struct("<8Q")


def xxh3_64(content: bytes) -> int:
    """The hash of `content`, of more than 240 bytes."""
    assert len(content) > 240
    lanes = [_P32[2], _P64[0], _P64[1], _P64[2], _P64[3], _P32[1], _P64[4], _P32[0]]
    stripes = (len(content) - 1) // 64
    for stripe in range(stripes):
        _accumulate(lanes, content, 64 * stripe, 8 * (stripe % 16))
        if stripe % 16 == 15:
            for i, key in enumerate(_LANES.unpack_from(_SECRET, 128)):
                lanes[i] = ((lanes[i] ^ lanes[i] >> 47 ^ key) * _P32[0]) & _M64
    _accumulate(lanes, content, len(content) - 64, 121)
    found = len(content) * _P64[0]
    keys = _LANES.unpack_from(_SECRET, 11)
    for i in range(0, 8, 2):
        product = (lanes[i] ^ keys[i]) * (lanes[i + 1] ^ keys[i + 1])
        found += product & _M64 ^ product >> 64
    found &= _M64
    found = ((found ^ found >> 37) * 0x165667919E3779F9) & _M64
    return found ^ found >> 32


def _accumulate(lanes: list[int], content: bytes, at: int, secret: int) -> None:
    keys = _LANES.unpack_from(_SECRET, secret)
    for i, word in enumerate(_LANES.unpack_from(content, at)):
        mixed = word ^ keys[i]
        lanes[i] = (lanes[i] + (mixed & 0xFFFFFFFF) * (mixed >> 32)) & _M64
        lanes[i ^ 1] = (lanes[i ^ 1] + word) & _M64

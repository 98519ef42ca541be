"""OpenFHE's own switch to the ephemeral secret, which its Python module does not show.

`EvalBootstrap` takes it inside. Here the exported C++ function is called on the objects of the Python module: it takes
a reference to each `shared_ptr`, which pybind11 keeps behind the object's head and value pointer, and returns one.
"""

from __future__ import annotations

import ctypes
import re
from pathlib import Path
from typing import Any

import numpy as np

_HEAD = object.__basicsize__
_WORD = ctypes.sizeof(ctypes.c_void_p)
_KEY, _SHARED = 4 * _WORD, 5 * _WORD
"""In a node of libstdc++'s map, behind its colour and three pointers: the key, and the `shared_ptr`."""


def switched_to_sparse(ciphertext: Any, key: Any) -> Any:
    """OpenFHE's `FHECKKSRNS::KeySwitchSparse` of a ciphertext with one limb, by an EvalKey."""
    result = (ctypes.c_void_p * 2)()
    switch = _function()
    switch.restype = None
    shared = [ctypes.c_void_p(id(each) + _HEAD + _WORD) for each in (ciphertext, key)]
    switch(ctypes.byref(result), *shared)
    assert result[0]
    return _pointed(ciphertext.Clone(), result[0], result[1])


def key_of(keys: Any, element: int, like: Any) -> Any:
    """The EvalKey of one automorphism in an EvalKeyMap, which the caller keeps. like: any other EvalKey."""
    node = _at(_at(id(keys) + _HEAD) + 2 * _WORD)  # the root
    while (found := ctypes.c_uint32.from_address(node + _KEY).value) != element:
        node = _at(node + (3 if found < element else 2) * _WORD)
        assert node, f"no key {element}"
    return _pointed(like, _at(node + _SHARED), _at(node + _SHARED + _WORD))


def words_of(engine: Any, openfhe: Any, ciphertext: Any) -> list[np.ndarray]:
    """Both polynomials of OpenFHE's ciphertext, (limbs, N) uint64 each."""
    read = engine.import_ciphertext(openfhe.Serialize(ciphertext, openfhe.BINARY))
    return [read.words(part) for part in (0, 1)]


def _at(address: int) -> int:
    return ctypes.c_void_p.from_address(address).value or 0


def _pointed(made: Any, value: int, owner: int) -> Any:
    """`made`, pointed to another C++ object. It is never freed, and what it held neither."""
    words = (ctypes.c_void_p * 3).from_address(id(made) + _HEAD)
    words[0], words[1], words[2] = value, value, owner
    # pybind11 knows its objects by what they point to, and ends the process over one that it does not know.
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(made))
    return made


def _function() -> Any:
    line = next(line for line in Path("/proc/self/maps").read_text().splitlines() if "libOPENFHEpke" in line)
    path = line.split()[-1]
    name = re.search(rb"_ZN8lbcrypto10FHECKKSRNS15KeySwitchSparse\w+", Path(path).read_bytes())
    assert name is not None
    return ctypes.CDLL(path)[name.group().decode()]

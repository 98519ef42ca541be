"""OpenFHE's objects, by name.

The library is a compiled module without stubs: to a type checker each of its objects may be anything. The names say
which one is meant.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

CryptoContext: TypeAlias = Any
Ciphertext: TypeAlias = Any
"""Also a decomposition into digits."""
Plaintext: TypeAlias = Any
Key: TypeAlias = Any
"""A public, a secret or an evaluation key, or a map of automorphism keys."""
Serialized: TypeAlias = Any
"""A part of the JSON that the library writes of a context."""
Argument: TypeAlias = Any
"""Of a call of the library: one of its objects, a number, a list of them."""
Arguments: TypeAlias = tuple[Argument, ...]
Method: TypeAlias = Callable[..., Any]
"""A method or function of the library, or what a recorder puts in its place."""
Numeric: TypeAlias = Any
"""A number, an array, or a nest of lists of them: arithmetic of two of them may give any third."""

"""Numbers that a script got by decryption, marked, so that a package can refuse to hold them.

A mark goes through arithmetic of Python's numbers, numpy's functions, indexing, and conversions to lists and arrays. A
comparison, a conversion to an integer and a copy that cannot hold a mark are noted in `OBSERVED`, with their line.
"""

from __future__ import annotations

import builtins
import functools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import SupportsIndex

import numpy as np
import numpy.typing as npt

from penstock.program.openfhe.recorder.observed import OBSERVED
from penstock.program.openfhe.types import Argument, Method, Numeric

COMPARED = "compares decrypted values"
COUNTED = "turns decrypted values into integers or truth values"
COPIED = "copies decrypted values to a place that is not followed"

_BINARY = ("add", "sub", "mul", "truediv", "floordiv", "mod", "divmod", "pow")
_UNARY = ("neg", "pos", "abs")
_COMPARISONS = ("lt", "le", "gt", "ge", "eq", "ne")
_SHAPES = frozenset(
    {np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj, np.result_type, np.can_cast, np.min_scalar_type}
    | {np.shares_memory, np.may_share_memory, np.zeros_like, np.ones_like, np.empty_like, np.common_type}
)
"""Functions that do not look at values."""


class _Marked:
    """A number, a list or an array with a mark."""

    __slots__ = ()
    __array_priority__ = 1000.0

    def __array_ufunc__(
        self, ufunc: np.ufunc, method: str, *inputs: object, out: object = None, **kwargs: object
    ) -> Numeric:
        targets = out if isinstance(out, tuple) else () if out is None else (out,)
        with OBSERVED.paused():
            if targets:
                kwargs["out"] = tuple(map(plain, targets))
            computed = getattr(ufunc, method)(*map(plain, inputs), **plain(kwargs))
        if method == "at":
            targets = (inputs[0],)
        if any(target is not None and not isinstance(target, _Marked) for target in targets):
            OBSERVED.note(COPIED)
        if targets:
            return targets[0] if len(targets) == 1 else targets
        return followed(computed)

    def __array_function__(
        self, function: Method, types: Iterable[type], args: Iterable[object], kwargs: Mapping[str, object]
    ) -> Numeric:
        out = kwargs.get("out")
        with OBSERVED.paused():
            computed = function(*plain(args), **plain(kwargs))
        if function in _SHAPES:
            return computed
        if computed is None or (out is not None and not isinstance(out, _Marked)):
            OBSERVED.note(COPIED)
        return followed(computed) if out is None else out


def _through(base: type, name: str) -> Method:
    """The method of the base, with a mark on its result."""
    own = getattr(base, name)

    def method(self: Numeric, *args: object, **kwargs: object) -> Numeric:
        with OBSERVED.paused():
            computed = own(unmarked(self), *plain(args), **plain(kwargs))
            if computed is NotImplemented and base is float and args and isinstance(args[0], complex):
                computed = getattr(complex, name)(complex(unmarked(self)), plain(args[0]))
        return computed if computed is NotImplemented else followed(computed)

    method.__name__ = name
    return method


def _noted(base: type, name: str, did: str | None) -> Method:
    """The method of the base. Its result has no mark, so its line is noted; `None`: no later call can depend on it."""
    own = getattr(base, name)

    def method(self: Numeric, *args: object) -> Numeric:
        with OBSERVED.paused():
            computed = own(unmarked(self), *plain(args))
        if did is not None and computed is not NotImplemented:
            OBSERVED.note(did)
        return computed

    method.__name__ = name
    return method


def _methods(base: type, kept: Iterable[str], noted: Mapping[str, str]) -> dict[str, Method]:
    """The methods of a marked class, where its base has them: some keep the mark, and others are noted."""
    shown = dict.fromkeys(("__repr__", "__str__", "__format__"))
    own = {name: _through(base, name) for name in kept if hasattr(base, name)}
    return own | {name: _noted(base, name, did) for name, did in {**noted, **shown}.items() if hasattr(base, name)}


def _part(name: str) -> Callable[[Numeric], Numeric]:
    """A getter of the real or the imaginary part."""
    return lambda self: followed(getattr(unmarked(self), name))


def _itself(self: Numeric, *_: object) -> Numeric:
    return self


def _scalar(name: str, base: type) -> type:
    """A class of marked numbers."""
    own: dict[str, object] = {"__slots__": (), "__hash__": base.__hash__, "_base": base}
    binary = [f"__{side}{stem}__" for stem in _BINARY for side in ("", "r")]
    kept = [*binary, *(f"__{stem}__" for stem in _UNARY), "conjugate", "__round__"]
    if issubclass(base, np.generic):
        kept += ["item", "round", "astype", "mean", "sum", "max", "min", "tolist", "squeeze", "ravel", "reshape"]
        kept += ["conj", "prod", "std", "var", "clip", "copy", "flatten", "__getitem__"]
    noted = dict.fromkeys((f"__{stem}__" for stem in _COMPARISONS), COMPARED)
    noted |= dict.fromkeys(("__bool__", "__int__", "__trunc__", "__floor__", "__ceil__", "is_integer"), COUNTED)
    noted |= dict.fromkeys(("__float__", "__complex__", "as_integer_ratio", "hex", "tobytes"), COPIED)
    own |= _methods(base, kept, noted)
    for method in ("real", "imag"):
        own[method] = property(_part(method))
    own["__copy__"] = own["__deepcopy__"] = _itself
    own["__reduce__"] = own["__reduce_ex__"] = lambda self, *_: (base, (_python(self),))
    # numpy takes the first base of a scalar's class for its type.
    own |= {method: vars(_Marked)[method] for method in ("__array_priority__", "__array_ufunc__", "__array_function__")}
    return type(name, (base, _Marked), own)


def _python(number: Numeric) -> Numeric:
    value = unmarked(number)
    return value if isinstance(value, np.generic) or type(value) in (float, complex) else value.item()


DecryptedFloat = _scalar("DecryptedFloat", float)
"""A decrypted real number, or a number computed from one."""
DecryptedComplex = _scalar("DecryptedComplex", complex)
"""A decrypted complex number, or a number computed from one."""
_SCALARS: dict[type, type] = {float: DecryptedFloat, complex: DecryptedComplex}
for _base in (np.float16, np.float32, np.float64, np.longdouble, np.complex64, np.complex128, np.clongdouble):
    _SCALARS.setdefault(_base, _scalar(f"Decrypted{_base.__name__.title()}", _base))


class DecryptedList(_Marked, list[Numeric]):
    """The values of a decrypted plaintext."""

    def __getitem__(self, where: SupportsIndex | slice) -> Numeric:
        part = list.__getitem__(self, where)
        return DecryptedList(part) if isinstance(where, slice) else part

    def __add__(self, other: object) -> Numeric:
        return DecryptedList([*self, *other]) if isinstance(other, list) else NotImplemented

    def __mul__(self, times: object) -> Numeric:
        if not isinstance(times, int):
            return NotImplemented
        return DecryptedList(list.__mul__(self, times))

    __rmul__ = __mul__

    def copy(self) -> DecryptedList:
        return DecryptedList(self)

    def sort(self, *, key: Callable[[Numeric], Numeric] | None = None, reverse: bool = False) -> None:
        if key is not None:
            list.sort(self, key=key, reverse=reverse)
            return
        with OBSERVED.paused():
            list.sort(self, reverse=reverse)

    def __array__(self, dtype: npt.DTypeLike = None, copy: bool | None = None) -> Numeric:
        OBSERVED.note(COPIED)
        return np.array(plain(list(self)), dtype=dtype)

    def __reduce_ex__(self, *_: object) -> tuple[object, ...]:
        return list, (plain(list(self)),)

    def __deepcopy__(self, _: object) -> DecryptedList:
        return DecryptedList(self)

    __copy__ = copy


class DecryptedArray(_Marked, np.ndarray[tuple[int, ...], np.dtype[np.generic]]):
    """The values of a decrypted plaintext, and what numpy made of them."""

    def view(self, *args: Numeric, **kwargs: Numeric) -> Numeric:
        viewed: Numeric = np.ndarray.view(self, *args, **kwargs)
        if not isinstance(viewed, DecryptedArray):
            OBSERVED.note(COPIED)
        return viewed

    def __iter__(self) -> Iterator[Numeric]:
        return map(followed, iter(unmarked(self)))

    def __deepcopy__(self, _: object) -> DecryptedArray:
        return self.copy()

    def __reduce_ex__(self, *args: object) -> Numeric:
        return unmarked(self).__reduce_ex__(*args)

    @property
    def flat(self) -> Numeric:
        OBSERVED.note(COPIED)
        return unmarked(self).flat

    @property
    def data(self) -> Numeric:
        OBSERVED.note(COPIED)
        return unmarked(self).data


_KEPT = (
    *("all", "any", "argmax", "argmin", "argpartition", "argsort", "astype", "choose", "clip", "compress", "conj"),
    *("conjugate", "copy", "cumprod", "cumsum", "diagonal", "dot", "flatten", "item", "max", "mean", "min", "nonzero"),
    *("prod", "ravel", "repeat", "reshape", "round", "searchsorted", "squeeze", "std", "sum", "swapaxes", "take"),
    *("tolist", "trace", "transpose", "var", "byteswap", "__getitem__"),
)
_NOTED = dict.fromkeys(("__bool__", "__int__", "__index__", "__contains__"), COUNTED)
_NOTED |= dict.fromkeys(("__float__", "__complex__", "tobytes", "tofile", "dump", "dumps"), COPIED)
for _name, _method in _methods(np.ndarray, _KEPT, _NOTED).items():
    setattr(DecryptedArray, _name, _method)


def unmarked(thing: Numeric) -> Numeric:
    """Return a marked number or array without its mark, and anything else unchanged. Memory of an array is shared."""
    if isinstance(thing, np.ndarray):
        return np.ndarray.view(thing, np.ndarray) if isinstance(thing, DecryptedArray) else thing
    base = getattr(type(thing), "_base", None) if isinstance(thing, _Marked) else None
    return thing if base is None else base.__pos__(thing)


def plain(thing: Numeric) -> Numeric:
    """The same number, array, or nest of lists, tuples and dictionaries, without marks."""
    kind = type(thing)
    if kind is DecryptedList or kind is list:
        return [plain(entry) if type(entry) is not float else entry for entry in thing]
    if kind is tuple:
        return tuple(map(plain, thing))
    if kind is dict:
        return {key: plain(entry) for key, entry in thing.items()}
    return unmarked(thing)


def marked(number: Numeric) -> Numeric:
    """Return the same number, list or array with the mark, and anything else unchanged.

    >>> type(2 * marked(0.5) + 1), 2 * marked(0.5) + 1
    (<class 'penstock.program.openfhe.recorder.decrypted.DecryptedFloat'>, 2.0)
    """
    kind = _SCALARS.get(type(number))
    if kind is not None:
        return kind(number)
    if isinstance(number, _Marked):
        return number
    if isinstance(number, list):
        return DecryptedList(map(marked, number))
    if isinstance(number, np.ndarray):
        return np.ndarray.view(number, DecryptedArray)
    return number


def followed(computed: Numeric) -> Numeric:
    """Mark a result that was computed from decrypted values. Integers and truth values count as a look at them."""
    if isinstance(computed, np.ndarray):
        if computed.dtype.kind in "biu":
            OBSERVED.note(COMPARED if computed.dtype.kind == "b" else COUNTED)
        return marked(computed)
    if isinstance(computed, bool | int | np.bool_ | np.integer):
        OBSERVED.note(COMPARED if isinstance(computed, bool | np.bool_) else COUNTED)
        return computed
    if isinstance(computed, list):
        return DecryptedList(map(followed, computed))
    if isinstance(computed, tuple):
        parts = [followed(part) for part in computed]
        return type(computed)(*parts) if hasattr(computed, "_fields") else tuple(parts)
    return marked(computed)


def is_decrypted(argument: object) -> bool:
    """Whether a number, or one in a sequence, carries the mark."""
    if isinstance(argument, _Marked):
        return True
    if isinstance(argument, list | tuple):
        kinds = set(map(type, argument))
        if any(issubclass(kind, _Marked) for kind in kinds):
            return True
        return any(issubclass(kind, list | tuple) for kind in kinds) and any(map(is_decrypted, argument))
    if isinstance(argument, np.ndarray) and argument.dtype.kind == "O":
        return any(map(is_decrypted, argument.flat))
    return False


# Functions of Python and numpy that would lose a mark, replaced while a package is recorded.
_ARRAYS = ("array", "asarray", "ascontiguousarray", "asfortranarray", "full", "lexsort")
_CHOICES = ("min", "max", "sorted")


def replace_functions(replace: Callable[[object, str, Method], None]) -> None:
    """Replace them.

    Args:   replace: takes a module, the name of a function and another function.
    """
    for name in _ARRAYS:
        replace(np, name, _following(getattr(np, name)))
    for name in dir(math):
        if callable(getattr(math, name)) and not name.startswith("_"):
            replace(math, name, _following(getattr(math, name)))
    for name in _CHOICES:
        replace(builtins, name, _choosing(getattr(builtins, name)))


def _following(original: Method) -> Method:
    """The function of plain values; its result is marked if an argument is."""

    @functools.wraps(original)
    def function(*args: Argument, **kwargs: Argument) -> object:
        if not any(map(is_decrypted, args)):
            return original(*args, **kwargs)
        with OBSERVED.paused():
            computed = original(*plain(args), **kwargs)
        return followed(computed)

    return function


def _choosing(original: Method) -> Method:
    """Return a function that picks or orders numbers. They keep their marks, so its comparisons do not count as looks.

    With a `key` the result may be unmarked, so the comparisons count.
    """

    @functools.wraps(original)
    def function(*args: Argument, **kwargs: Argument) -> object:
        if "key" in kwargs or not args:
            return original(*args, **kwargs)
        if len(args) == 1 and not isinstance(args[0], list | tuple):
            args = (list(args[0]),)
        given = args if len(args) > 1 else args[0]
        if not is_decrypted(given) or not all(isinstance(number, float | int) for number in given):
            return original(*args, **kwargs)
        with OBSERVED.paused():
            chosen = original(*args, **kwargs)
        return marked(chosen) if not isinstance(chosen, int) else followed(chosen)

    return function

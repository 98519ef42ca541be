"""The key pair that a ciphertext states, held against the one of the keys that compute on it.

Keys of another pair compute without an error, and nobody can decrypt the result.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penstock import _engine
from penstock.errors import EvaluationRefused, KeyRefused, UsageError

REMEDY = "send ciphertexts of that pair, or import the keys of this one"


def check_bytes(content: object, what: str) -> None:
    """Raises: UsageError: it is not of the class `bytes`, as everything encrypted is."""
    if not isinstance(content, bytes):
        raise UsageError(
            f"{what} is of class {type(content).__name__}: ciphertexts are passed as bytes; pass the bytes "
            "that the client returned, or the content of its file"
        )


def stated_pair(content: bytes, what: str) -> str:
    """The tag of the key pair of a ciphertext.

    Args:   what: names it in messages.
    Raises: UsageError: no bytes. KeyRefused: it states none. EvaluationRefused: it is not a whole ciphertext.
    """
    check_bytes(content, what)
    try:
        tag = _engine.ckks_ciphertext_tag(content)
    except EvaluationRefused as error:
        raise EvaluationRefused(f"{what}: {error}") from error
    if tag is None:
        raise KeyRefused(f"{what} states no key pair, so that no keys can be held against it: encrypt it anew")
    return tag


def common_pair(contents: Mapping[str, bytes]) -> str | None:
    """The tag of the one key pair of all ciphertexts; `None` of no ciphertext.

    Args:   contents: by the names that messages use.
    Raises: as `stated_pair`; KeyRefused: they are of several.
    """
    first: tuple[str, str] | None = None
    for what, content in contents.items():
        tag = stated_pair(content, what)
        first = first or (what, tag)
        if tag != first[1]:
            raise KeyRefused(
                f"{first[0]} is encrypted with key pair {first[1]}, and {what} with {tag}: one request has the "
                "ciphertexts of one pair; encrypt all of them with the same one"
            )
    return None if first is None else first[1]


def check_pair(content: bytes, what: str, tags: Iterable[str], whose: str, remedy: str = REMEDY) -> str:
    """Make sure that a ciphertext is of one of these key pairs; its tag.

    Args:   whose: the name in messages of the owner of these pairs.
    Raises: as `stated_pair`; KeyRefused: it is of another one.
    """
    tag = stated_pair(content, what)
    check_tag(tag, what, tags, whose, remedy)
    return tag


def check_tag(tag: str, what: str, tags: Iterable[str], whose: str, remedy: str = REMEDY) -> None:
    """As `check_pair`, of a ciphertext whose tag is known."""
    known = sorted(tags)
    if tag not in known:
        raise KeyRefused(
            f"{what} is encrypted with key pair {tag}, and {whose} with {' or '.join(known) or 'none'}: {remedy}"
        )

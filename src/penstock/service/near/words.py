"""Ciphertexts of the native evaluator as header and rows, and back."""

from __future__ import annotations

from penstock import _engine
from penstock.base.types import Row, RowView
from penstock.service.near.frames import CIPHERTEXT_FIELDS
from penstock.service.near.link import Words


def header_of(a: _engine.CkksCiphertext) -> Row:
    """What describes the rows of `a`."""
    return {name: getattr(a, name) for name in CIPHERTEXT_FIELDS}


def rows_of(a: _engine.CkksCiphertext) -> list[Words]:
    """(limbs, N) of each polynomial."""
    return [a.words(i) for i in range(a.polynomials)]


def ciphertext_of(engine: _engine.CkksContext, header: RowView, words: Words) -> _engine.CkksCiphertext:
    """The ciphertext of a frame; every word is checked against its modulus.

    Raises: PenstockError: header and words do not fit the parameters or each other.
    """
    return _engine.ckks_ciphertext(engine, words, **{name: header[name] for name in CIPHERTEXT_FIELDS})

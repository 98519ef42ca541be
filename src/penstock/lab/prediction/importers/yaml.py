"""The part of YAML that CryptOracle's configuration files use: nested mappings, lists of scalars, comments, quotes."""

from __future__ import annotations

import re
from typing import Any

from penstock.base.system.outside import DEEPEST, LONGEST_NUMBER, TOO_DEEP, TOO_LONG
from penstock.base.types import Row
from penstock.lab.prediction.importers.rows import BadTiming

_PAIR = re.compile(r"^([^\s:#\"'\[\]{}][^:#]*):(?:\s+(.*))?$")
_WHOLE = re.compile(r"[+-]?\d+")
_REAL = re.compile(r"[+-]?(\d+\.\d*|\.\d+)([eE][+-]?\d+)?")
_WORDS: dict[str, bool | None] = {"true": True, "false": False, "null": None, "~": None}


def loads(text: str, where: str) -> Row:
    """A mapping from YAML text.

    Raises: BadTiming: another part of YAML, or none; the message names file and line.
    >>> loads("n: 16 # log2\\ncounts:\\n  CKKS_Add: 178\\nthreads:\\n- 1\\n- 2", "x.yaml")
    {'n': 16, 'counts': {'CKKS_Add': 178}, 'threads': [1, 2]}
    """
    lines = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = _without_comment(line)
        if stripped and stripped not in ("---", "..."):
            lines.append((number, len(line) - len(line.lstrip(" ")), stripped))
    value, rest = _block(lines, 0, where)
    if rest < len(lines) or not isinstance(value, dict):
        raise _refused(where, lines[rest][0] if rest < len(lines) else 1, "a mapping 'key: value' was expected")
    return value


def _block(lines: list[tuple[int, int, str]], at: int, where: str, level: int = 1) -> tuple[Any, int]:
    """The mapping or list that begins at line `at`, and the line behind it."""
    if at == len(lines):
        raise _refused(where, 1, "there is nothing in it")
    if level > DEEPEST:
        raise _refused(where, lines[at][0], TOO_DEEP)
    indent, listed = lines[at][1], _is_item(lines[at][2])
    items: list[Any] = []
    mapping: Row = {}
    while at < len(lines) and lines[at][1] == indent and _is_item(lines[at][2]) == listed:
        number, _, text = lines[at]
        at += 1
        if listed:
            items.append(_scalar(text[1:].strip(), where, number))
            continue
        pair = _PAIR.match(text)
        if pair is None:
            raise _refused(where, number, f"'{text}' is not 'key: value'")
        key, value = pair.group(1).rstrip(), (pair.group(2) or "").strip()
        if key in mapping:
            raise _refused(where, number, f"'{key}' is there twice")
        deeper = at < len(lines) and (lines[at][1] > indent or (lines[at][1] == indent and _is_item(lines[at][2])))
        if value or not deeper:
            mapping[key] = _scalar(value, where, number)
        else:
            mapping[key], at = _block(lines, at, where, level + 1)
    if at < len(lines) and lines[at][1] > indent:
        raise _refused(where, lines[at][0], "it is indented further than the line above it")
    return (items if listed else mapping), at


def _is_item(text: str) -> bool:
    return text == "-" or text.startswith("- ")


def _without_comment(line: str) -> str:
    """The line without its comment; a `#` in quotes or inside a word is none."""
    quote = ""
    for position, sign in enumerate(line):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "\"'":
            quote = sign
        elif sign == "#" and (position == 0 or line[position - 1] in " \t"):
            return line[:position].strip()
    return line.strip()


def _scalar(text: str, where: str, number: int) -> Any:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        return text[1:-1]
    if text[:1] in ("[", "{", "&", "*", "!", "|", ">", '"', "'", "%", "@", "`"):
        raise _refused(where, number, f"'{text}' is YAML that is not understood; write plain values and '- ' lists")
    if text.lower() in _WORDS or not text:
        return _WORDS.get(text.lower())
    if _WHOLE.fullmatch(text):
        if len(text) > LONGEST_NUMBER:
            raise _refused(where, number, f"it holds {TOO_LONG}")
        return int(text)
    return float(text) if _REAL.fullmatch(text) else text


def _refused(where: str, number: int, what: str) -> BadTiming:
    return BadTiming(f"{where}:{number}: not a configuration of CryptOracle: {what}")

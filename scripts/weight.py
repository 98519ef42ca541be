"""Lines of code by room, and names that say nothing.

    scripts/weight.py [ROOT]        ROOT: the project's folder, this one by default

A line counts where it holds code: no blank line, comment, docstring or test module of Rust.
"""

from __future__ import annotations

import re
import sys
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

VAGUE = ("found", "each", "told", "said", "Any")
"""Names that stand for nothing in particular."""
_NO_CODE = (
    tokenize.COMMENT, tokenize.NL, tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER,
    tokenize.ENCODING,
)  # fmt: skip
_STARTS = (tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT, tokenize.NL, tokenize.ENCODING)
"""Tokens after which a string is a docstring."""


def python_lines(path: Path) -> int:
    lines: set[int] = set()
    before = tokenize.ENCODING
    for token in _tokens(path):
        if token.type in _NO_CODE:
            before = token.type if token.type != tokenize.COMMENT else before
            continue
        if token.type != tokenize.STRING or before not in _STARTS:
            lines.update(range(token.start[0], token.end[0] + 1))
        before = token.type
    return len(lines)


def rust_lines(path: Path) -> int:
    lines, depth, testing = 0, 0, False
    for line in path.read_text(encoding="utf-8").splitlines():
        code = re.sub(r"//.*", "", line).strip()
        if not testing and code.startswith("#[cfg(test)]"):
            testing, depth = True, 0
        elif testing:
            depth += code.count("{") - code.count("}")
            testing = depth > 0 or not ("}" in code or code.endswith(";"))
        else:
            lines += bool(code)
    return lines


def vague_names(folder: Path) -> Counter[str]:
    """How often each of `VAGUE` is a name in a file, or below a folder."""
    return Counter(
        token.string
        for path in ([folder] if folder.is_file() else sorted(folder.rglob("*.py")))
        for token in _tokens(path)
        if token.type == tokenize.NAME and token.string in VAGUE
    )


def weights(root: Path) -> Iterator[tuple[str, Counter[str]]]:
    """Folder of sources -> lines by room: `wing/room`, or the crate."""
    for folder, depth in ((root / "src/penstock", 2), (root / "studies/penstock_studies", 1)):
        rooms: Counter[str] = Counter()
        for path in folder.rglob("*.py"):
            rooms["/".join(path.relative_to(folder).with_suffix("").parts[:depth])] += python_lines(path)
        yield str(folder.relative_to(root)), rooms
    crates: Counter[str] = Counter()
    for path in (root / "crates").rglob("*.rs"):
        parts = path.relative_to(root / "crates").parts
        if not {"tests", "examples", "benches"} & set(parts[:-1]):
            crates[parts[0]] += rust_lines(path)
    yield "crates", crates


def _tokens(path: Path) -> Iterator[tokenize.TokenInfo]:
    with path.open("rb") as file:
        yield from tokenize.tokenize(file.readline)


def main(root: Path) -> None:
    for folder, rooms in weights(root):
        print(f"{folder}: {sum(rooms.values()):,}")
        print("  " + "  ".join(f"{room} {lines:,}" for room, lines in rooms.most_common()))
    names = vague_names(root / "src")
    print("names: " + "  ".join(f"{name} {names[name]:,}" for name in VAGUE))


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "."))

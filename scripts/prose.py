#!/usr/bin/env python3
"""Count turns of phrase that slow a reader down, in pages, docstrings, comments, help texts and error messages.

    scripts/prose.py [--worst 20] [--bound 2] [PATH ...]        default: docs README.md src crates

A marker is a hint: rewrite the sentence if a reader would stumble, keep it if not. The output is one line for each
path with its words and its markers in a thousand words, then the files with most markers and the worst sentences.
With --bound the exit status is 1 where a path has more markers in a thousand words than that.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

MARKERS = {
    "clause as subject": r"(?:^|[.;:] )(?:What|That|Which|Who|Where|How)\b(?! (?:is|are|does|do|can|to|if)\b[^.]*\?)"
    r"[^.?!]*?\b(?:is|are|was|were|has|have|had|goes|comes|costs|takes|stays|lies|leaves|gives)\b",
    "what it ...": r"\bwhat (?:it|they|a|an|the|each|is|was|comes|leaves|stays|one)\b",
    "beside": r"\bbeside\b",
    "is no + noun": r"\b(?:is|are|was|were) no\b (?!longer|more|less|fewer|other|way|need|doubt|such)",
    "of its own": r"\b(?:of|on) (?:its|their|one's|our) own\b",
    "in place of": r"\bin place of\b",
    "is to be": r"\b(?:is|are|was) to be\b",
    "as it is": r"\bas (?:it|they) (?:is|are|was|were|goes|comes)\b",
    "those that": r"\bthose (?:that|which|of)\b|\bthat of\b",
    "stands in": r"\bstands? (?:beside|below|above|in)\b",
}
LONGEST_SENTENCE = 42
"""Words; a longer sentence counts as a marker."""
LEFT_OUT = (
    (r"(?s)```.*?```", " "),
    (r"(?s)\x08.*?(?:\n\s*\n|$)", " "),  # examples of the help, as click marks them
    (r"`[^`]*`", "X"),
    (r"(?m)^\s*\|.*$", " "),
    (r"(?s)<!--.*?-->", " "),
    (r"\]\([^)]*\)", "]"),
)
"""Parts of a text that are not sentences, and their replacements."""
ARGUMENT = r"(?=\w+(?:, \w+)*(?:\([^)]*\))?: )"
"""Where the next argument begins in the list of a docstring: each is a sentence."""
TEXT_WORDS = 4
"""A string of code with so many words is taken as a text for people."""


def sentences(text: str) -> Iterator[str]:
    """The sentences of a text, without code, tables and addresses."""
    for pattern, instead in LEFT_OUT:
        text = re.sub(pattern, instead, text)
    for block in re.split(r"\n\s*\n|\n(?=\s*[-*#] )", text):
        for sentence in re.split(rf"(?<=[.!?])\s+(?=[A-Z\[*])|[;.] {ARGUMENT}", " ".join(block.split())):
            if len(sentence.split()) >= TEXT_WORDS:
                yield sentence


def texts(path: Path) -> Iterator[str]:
    """The texts of a file: a page whole; of Python docstrings, comments and strings for people; of Rust comments."""
    content = path.read_text(encoding="utf-8")
    if path.suffix == ".py":
        yield from _strings(ast.parse(content))
        yield from _comments(content)
    elif path.suffix == ".rs":
        lines = (re.sub(r"^\s*//[/!]? ?", "", line) for line in content.splitlines() if re.match(r"\s*//", line))
        yield "\n".join(lines)
    else:
        yield content


def _strings(node: ast.AST) -> Iterator[str]:
    """Docstrings, and strings that read like a sentence; what an f-string inserts counts as one word."""
    if isinstance(node, ast.JoinedStr):
        text = "".join(str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values)
        if _for_people(text):
            yield text
        return
    if isinstance(node, ast.Constant) and isinstance(node.value, str) and _for_people(node.value):
        yield node.value
    for child in ast.iter_child_nodes(node):
        yield from _strings(child)


def _for_people(text: str) -> bool:
    return len(re.findall(r"\b[a-z]{2,}\b", text)) >= TEXT_WORDS and not re.search(r"[{}<>\\]{2}|=\"", text)


def _comments(content: str) -> Iterator[str]:
    """Comments, those of neighbouring lines together."""
    together: list[str] = []
    last = 0
    for token in tokenize.generate_tokens(io.StringIO(content).readline):
        if token.type != tokenize.COMMENT or re.match(r"#\s*(?:noqa|fmt|type|!)", token.string):
            continue
        if together and token.start[0] != last + 1:
            yield " ".join(together)
            together = []
        together.append(token.string.lstrip("#: "))
        last = token.start[0]
    if together:
        yield " ".join(together)


def files(root: Path) -> list[Path]:
    """The pages and sources of a path."""
    found = [root] if root.is_file() else sorted(root.rglob("*"))
    return [path for path in found if path.suffix in (".md", ".py", ".rs") and "target" not in path.parts]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("paths", nargs="*", type=Path)
    parser.add_argument("--worst", type=int, default=15, metavar="N", help="files and sentences to print (default 15)")
    parser.add_argument("--bound", type=float, metavar="RATE", help="most markers in a thousand words of a path")
    asked = parser.parse_args()
    rows: list[tuple[float, int, int, Path]] = []
    worst: list[tuple[float, Path, str]] = []
    beyond = False
    for root in asked.paths or [Path(name) for name in ("docs", "README.md", "src", "crates")]:
        root_words = root_markers = 0
        for path in files(root):
            words = markers = 0
            for sentence in (each for text in texts(path) for each in sentences(text)):
                length = len(sentence.split())
                found = sum(len(re.findall(pattern, sentence)) for pattern in MARKERS.values())
                found += length > LONGEST_SENTENCE
                words, markers = words + length, markers + found
                if found:
                    worst.append((found + length / 60, path, sentence))
            if words:
                rows.append((1000 * markers / words, markers, words, path))
            root_words, root_markers = root_words + words, root_markers + markers
        rate = 1000 * root_markers / max(root_words, 1)
        beyond |= asked.bound is not None and rate > asked.bound
        print(f"{root}: {root_markers} markers in {root_words} words, {rate:.1f} in a thousand")
    for rate, markers, words, path in sorted(rows, key=lambda row: -row[1])[: asked.worst]:
        print(f"{rate:6.1f} in a thousand {markers:5d} in {words:6d}  {path}")
    for _, path, sentence in sorted(worst, key=lambda each: -each[0])[: asked.worst]:
        print(f"\n{path}:\n  {sentence}")
    sys.exit(1 if beyond else 0)


if __name__ == "__main__":
    main()

"""Where a source can be changed into a mutant, and how: Python by its syntax tree, Rust by its tokens."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass

SWAPPED = {
    "<": "<=", "<=": "<", ">": ">=", ">=": ">", "==": "!=", "!=": "==", "&&": "||", "||": "&&", "and": "or",
    "or": "and", "+": "-", "-": "+", "*": "+", "/": "*", "//": "*", "%": "*", "+=": "-=", "-=": "+=",
    "<<": ">>", ">>": "<<", "is": "is not", "is not": "is", "in": "not in", "not in": "in",
    "break": "continue", "continue": "break", "true": "false", "false": "true", "True": "False", "False": "True",
}  # fmt: skip
RUST_OPERATOR = re.compile(rb"(?<=\s)(?:<=|>=|==|!=|&&|\|\||\+=|-=|<<|>>|[-<>+*/%])(?=\s)")
RUST_WORD = re.compile(rb"\b(?:break|continue)(?=;)|\b(?:true|false)\b")
RUST_NUMBER = re.compile(
    rb"(?:(?<![\w.])|(?<=\.\.)|(?<=\.\.=))\d[\d_]*(?=(?:[ui](?:8|16|32|64|128|size))?(?![\w]|\.\d))"
)
RUST_IF = re.compile(rb"\bif (?!let\b)([^{}]+?)(?= \{)")
RUST_STATEMENT = re.compile(rb"(?<=\n)[ ]*([\w.:&*\[\]]+(?:\([^\n]*\)\??| [-+*|&^]?= [^\n]*)|return\b[^\n]*);(?=\n)")
# What no test can tell by its nature, or what is words for people, or is not compiled here.
RUST_APART = re.compile(
    rb"#!?\[[^\n]*\]|\b(?:pub )?use [^;]*;"
    rb"|\b(?:panic|unreachable|format|write|writeln|println|eprintln|debug_assert\w*)!\([^\n]*"
)
RUST_ABSENT = re.compile(rb"#\[cfg\((?:test|doctest|feature[^\n]*|not\((?:target_os|target_arch)[^\n]*)\)\]")
RUST_LITERAL = re.compile(
    rb"""//[^\n]*|b?r(#*)"(?:.|\n)*?"\1|b?"(?:\\(?:.|\n)|[^"\\])*"|b?'(?:\\[^\n]+?|[^'\\\n])'""", re.DOTALL
)
EQUIVALENT = re.compile(r"capacity|\.reserve\(|maxsize|stacklevel|Ordering::|daemon=|prefetch_hint|madvise")
SAID = re.compile(r"\b(?:log|logger|_log|_logger|logging|warnings)\.")


@dataclass(frozen=True)
class Place:
    """A stretch of bytes, and what stands there instead."""

    start: int
    end: int
    after: str
    kind: str


def places(source: bytes, suffix: str) -> list[Place]:
    """Every place where `source` can be changed, in the order of the text; one of a kind at each."""
    found = _python(source) if suffix == ".py" else _rust(source)
    return sorted(set(found), key=lambda place: (place.start, place.end, place.after))


def changed(source: bytes, place: Place) -> bytes:
    return source[: place.start] + place.after.encode() + source[place.end :]


def line_of(source: bytes, place: Place) -> int:
    return source.count(b"\n", 0, place.start) + 1


def equivalent_by_text(source: bytes, place: Place) -> bool:
    """Whether its line is one that only hints at something: nothing that is promised depends on it."""
    return EQUIVALENT.search(source.splitlines()[line_of(source, place) - 1].decode()) is not None


def masked(source: bytes) -> bytes:
    """Rust with blanks instead of strings, comments, attributes, messages, tests and what is not compiled."""

    def blank(found: re.Match[bytes]) -> bytes:
        return re.sub(rb"[^\n]", b" ", found.group())

    text = RUST_LITERAL.sub(blank, source)
    absent = [
        found.span() for found in RUST_ABSENT.finditer(source) if text[found.start() : found.start() + 2] == b"#["
    ]
    for start, end in absent:
        depth, at = 0, end
        while at < len(text):
            depth += (text[at] in b"{([") - (text[at] in b"})]")
            at += 1
            if (depth == 0 and text[at - 1] in b";},") or depth < 0:
                break
        text = text[:start] + re.sub(rb"[^\n]", b" ", text[start:at]) + text[at:]
    return RUST_APART.sub(blank, text)


def _rust(source: bytes) -> Iterator[Place]:
    text = masked(source)
    for pattern, kind in ((RUST_OPERATOR, "operator"), (RUST_WORD, "word")):
        for found in pattern.finditer(text):
            yield Place(*found.span(), SWAPPED[found.group().decode()], kind)
    for found in RUST_NUMBER.finditer(text):
        yield from _numbers(found.start(), found.end(), int(found.group().replace(b"_", b"")))
    for found in RUST_IF.finditer(text):
        condition = source[found.start(1) : found.end(1)]
        if not re.search(rb"\blet\b|=>|;", text[found.start(1) : found.end(1)]):
            yield Place(*found.span(1), f"!({condition.decode()})", "negated")
    for found in RUST_STATEMENT.finditer(text):
        yield Place(found.start(1), found.end(), "", "dropped")


def _numbers(start: int, end: int, value: int) -> Iterator[Place]:
    yield Place(start, end, str(value + 1), "constant")
    if value:
        yield Place(start, end, str(value - 1), "constant")


class _Visitor(ast.NodeVisitor):
    """Collects the places of a Python module."""

    def __init__(self, source: bytes) -> None:
        self._source = source
        lines = source.split(b"\n")
        self._begins = [0]
        for line in lines:
            self._begins.append(self._begins[-1] + len(line) + 1)
        self.found: list[Place] = []

    def _start(self, node: ast.expr | ast.stmt) -> int:
        return self._begins[node.lineno - 1] + node.col_offset

    def _end(self, node: ast.expr | ast.stmt) -> int:
        return self._begins[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)

    def _text(self, node: ast.expr | ast.stmt) -> str:
        return self._source[self._start(node) : self._end(node)].decode()

    def _whole(self, node: ast.expr | ast.stmt, after: str, kind: str) -> None:
        self.found.append(Place(self._start(node), self._end(node), after, kind))

    def _between(self, left: ast.expr | ast.Name, right: ast.expr) -> None:
        """Swap the operator between two operands; brackets and comments beside it stay."""
        start, end = self._end(left), self._start(right)
        gap = re.sub(rb"#[^\n]*", lambda comment: b" " * len(comment.group()), self._source[start:end])
        word = rb"is\s+not\b|not\s+in\b|\b(?:is|in|and|or)\b|//=?|<<|>>|[-+<>=!]=|\*\*|[-+*/%<>]"
        found = re.search(word, gap)
        if found and (after := SWAPPED.get(re.sub(r"\s+", " ", found.group().decode()))):
            self.found.append(Place(start + found.start(), start + found.end(), after, "operator"))

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                self.visit(default)
        self._body(node.body)

    visit_AsyncFunctionDef = visit_FunctionDef  # noqa: N815

    def _body(self, body: list[ast.stmt]) -> None:
        for statement in body:
            self.visit(statement)

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._body(node.body)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if node.value is not None:
            self.visit(node.value)

    def visit_Assign(self, node: ast.Assign) -> None:
        if not any(isinstance(each, ast.Name) and each.id in ("__all__", "model_config") for each in node.targets):
            self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> None:
        self._whole(node, "pass", "dropped")

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        """Words; before Python 3.12 nothing inside has a right place either."""

    def visit_Expr(self, node: ast.Expr) -> None:
        if isinstance(node.value, ast.Constant) or SAID.search(self._text(node)):
            return
        if isinstance(node.value, ast.Call):
            self._whole(node, "pass", "dropped")
        self.generic_visit(node)

    def visit_Return(self, node: ast.Return) -> None:
        if node.value is not None and self._text(node.value) != "None":
            self._whole(node.value, "None", "returned")
        self.generic_visit(node)

    def visit_If(self, node: ast.If | ast.While | ast.IfExp) -> None:
        if self._text(node.test) != "TYPE_CHECKING":
            if not isinstance(node.test, ast.Constant):
                self._whole(node.test, f"(not ({self._text(node.test)}))", "negated")
            self.generic_visit(node)

    visit_While = visit_IfExp = visit_If  # noqa: N815

    def visit_Break(self, node: ast.Break | ast.Continue) -> None:
        self._whole(node, SWAPPED[self._text(node)], "word")

    visit_Continue = visit_Break  # noqa: N815

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, bool):
            self._whole(node, SWAPPED[str(node.value)], "word")
        elif isinstance(node.value, int):
            self.found += _numbers(self._start(node), self._end(node), node.value)

    def visit_Compare(self, node: ast.Compare) -> None:
        for left, right in zip([node.left, *node.comparators], node.comparators, strict=False):
            self._between(left, right)
        self.generic_visit(node)

    def visit_BoolOp(self, node: ast.BoolOp) -> None:
        for left, right in zip(node.values, node.values[1:], strict=False):
            self._between(left, right)
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        words = (node.left, node.right)
        if not any(isinstance(each, ast.JoinedStr) or isinstance(getattr(each, "value", 0), str) for each in words):
            self._between(node.left, node.right)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._between(node.target, node.value)
        self.generic_visit(node)


def _python(source: bytes) -> list[Place]:
    visitor = _Visitor(source)
    visitor.visit(ast.parse(source))
    return visitor.found

"""The rules by which a change of the code is no change of behaviour; such mutants are never judged.

Left out, by the syntax tree:

1. annotations, type aliases (`A | None`), the type in `cast` and the bodies under `if TYPE_CHECKING`;
2. `__all__`, `__slots__`, overloads, and `__repr__` and `__str__`;
3. arguments of decorators (`frozen=`, `slots=`, `maxsize=`) and of `field` but for its default;
4. sizes of caches: constants with `CACHE` or `REMEMBERED` in their name;
5. texts of errors and checks: f-strings; the arguments of an error except `code` and `retryable`; arguments that are
   named like texts (`expected`, `got`, `clause`, …), wherever they stand; what a step of a procedure records for people
   (`procedure.record(…)`), and the length at which the `repr(…)` of a value is cut;
6. assertions about the program itself: `assert`, `assert_never(…)` and `zip(…, strict=…)`.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

__all__ = ["Span", "is_behaviour", "left_out"]

_TEXTS = frozenset(
    (
        "clause",
        "detail",
        "expected",
        "field",
        "got",
        "hint",
        "meaning",
        "message",
        "note",
        "offset",
        "text",
        "title",
        "why",
    )
)
_MEANINGFUL = frozenset(("code", "retryable"))
_TYPES = frozenset(
    ("bool", "bytes", "dict", "float", "frozenset", "int", "list", "object", "set", "str", "tuple", "type")
)


class Span(NamedTuple):
    """A stretch of a file: first line and column, last line and column behind it; lines from 1, columns from 0."""

    begin: tuple[int, int]
    end: tuple[int, int]

    def holds(self, other: "Span") -> bool:
        """Return whether the other lies in this one."""
        return self.begin <= other.begin and other.end <= self.end


def is_behaviour(mutant: Span, spans: tuple[Span, ...]) -> bool:
    """Return whether a change of this place can change behaviour.

    Args:
        mutant: the place that is changed.
        spans: of `left_out`, for this file.
    """
    return not any(span.holds(mutant) for span in spans)


def left_out(source: str) -> tuple[Span, ...]:
    """Return the stretches of a file whose change is no change of behaviour."""
    lines = source.splitlines(keepends=True)
    return tuple(_span(node, lines) for top in ast.walk(ast.parse(source)) for node in _not_behaviour(top))


def _span(node: ast.AST, lines: list[str]) -> Span:
    """Return where a node stands; the syntax tree counts bytes, Cosmic Ray characters."""
    assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    return Span(
        (node.lineno, _column(lines[node.lineno - 1], node.col_offset)),
        (node.end_lineno, _column(lines[node.end_lineno - 1], node.end_col_offset)),
    )


def _column(line: str, offset: int) -> int:
    return len(line.encode()[:offset].decode())


def _not_behaviour(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.FunctionDef():
            yield from _of_function(node)
        case ast.ClassDef():
            yield from node.decorator_list
        case ast.Assign() | ast.AnnAssign():
            yield from _of_assignment(node)
        case ast.BinOp(op=ast.BitOr()) if _is_type(node.left) or _is_type(node.right):
            yield node
        case ast.Subscript(value=ast.Call(func=ast.Name(id="repr")), slice=ast.Slice() as cut):
            yield cut
        case ast.If(test=ast.Name(id="TYPE_CHECKING")):
            yield from node.body
        case ast.JoinedStr() | ast.Assert():
            yield node
        case ast.Raise(exc=ast.Call() as call):
            yield from _texts_of_error(call)
        case ast.Call():
            yield from _of_call(node)
        case _:
            pass


def _of_function(node: ast.FunctionDef) -> Iterator[ast.AST]:
    yield from node.decorator_list
    if node.returns is not None:
        yield node.returns
    arguments = node.args
    for argument in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs, arguments.vararg, arguments.kwarg):
        if argument is not None and argument.annotation is not None:
            yield argument.annotation
    if node.name in {"__repr__", "__str__"} or any(_name(one) == "overload" for one in node.decorator_list):
        yield from node.body


def _of_assignment(node: ast.Assign | ast.AnnAssign) -> Iterator[ast.AST]:
    if isinstance(node, ast.AnnAssign):
        yield node.annotation
    (target, *_) = node.targets if isinstance(node, ast.Assign) else (node.target,)
    name = _name(target)
    if name in {"__all__", "__slots__"} or "CACHE" in name or "REMEMBERED" in name:
        yield node


def _of_call(node: ast.Call) -> Iterator[ast.AST]:
    called = _name(node.func)
    if called.endswith("Error"):
        yield from _texts_of_error(node)
    if called == "record":
        yield from node.args
    if called == "cast":
        yield node.args[0]
    if called == "assert_never":
        yield node
    for keyword in node.keywords:
        of_field = called == "field" and keyword.arg not in {"default", "default_factory"}
        if keyword.arg in _TEXTS or of_field or (called == "zip" and keyword.arg == "strict"):
            yield keyword


def _texts_of_error(call: ast.Call) -> Iterator[ast.AST]:
    yield from call.args
    yield from (keyword for keyword in call.keywords if keyword.arg not in _MEANINGFUL)


def _is_type(node: ast.expr) -> bool:
    match node:
        case ast.Constant(value=None):
            return True
        case ast.Subscript():
            return _is_type(node.value)
        case ast.Name() | ast.Attribute():
            name = _name(node)
            return name in _TYPES or (name[:1].isupper() and not name.isupper())
        case _:
            return False


def _name(node: ast.expr) -> str:
    """Return the last part of a name, also of one that is called; "" for anything else."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Call():
            return _name(node.func)
        case _:
            return ""

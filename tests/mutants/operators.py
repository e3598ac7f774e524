"""Mutation operators: those of Cosmic Ray that change behaviour, and two that it lacks.

Runs in the environment of the mutation testing tool (`requirements/mutants.txt`), not in that of the tests.
"""

from collections.abc import Iterator
from typing import Any

import parso
from cosmic_ray.operators.operator import Example, Operator
from cosmic_ray.plugins import get_operator
from parso.python.tree import Keyword

Position = tuple[tuple[int, int], tuple[int, int]]

_COMPARISONS = (
    *("Eq_NotEq", "NotEq_Eq", "Is_IsNot", "IsNot_Is"),
    *("Lt_LtE", "LtE_Lt", "Gt_GtE", "GtE_Gt"),  # the bound itself
    *("Lt_GtE", "LtE_Gt", "Gt_LtE", "GtE_Lt"),
)
_BINARY = (
    *("Add_Sub", "Sub_Add", "Mul_FloorDiv", "FloorDiv_Mul", "Mod_FloorDiv", "Pow_Mul"),
    *("LShift_RShift", "RShift_LShift", "BitOr_BitAnd", "BitAnd_BitOr", "BitXor_BitOr"),
)
_OTHERS = (
    *("NumberReplacer", "ReplaceTrueWithFalse", "ReplaceFalseWithTrue", "ReplaceAndWithOr", "ReplaceOrWithAnd"),
    *("AddNot", "ReplaceUnaryOperator_Delete_Not", "ReplaceUnaryOperator_Delete_USub"),
    *("ReplaceBreakWithContinue", "ReplaceContinueWithBreak", "ExceptionReplacer", "ZeroIterationForLoop"),
)


class DeleteStatement(Operator):  # type: ignore[misc]  # Cosmic Ray ships no types.
    """Replace a statement that checks or changes something by `pass`.

    Assignments to plain names stay, and so does the last `return` of a function: without them nearly any call fails.
    """

    def mutation_positions(self, node: Any) -> Iterator[Position]:  # noqa: ANN401  a node of parso, which has no common type
        """Find the statement of a line."""
        if node.type == "simple_stmt" and _is_deletable(node.children[0]):
            yield node.children[0].start_pos, node.children[0].end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ANN401  as above
        """Put `pass` in its place."""
        first = node.children[0]
        node.children[0] = Keyword("pass", first.start_pos, prefix=first.get_first_leaf().prefix)
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return one change of each kind."""
        return (
            Example("if a:\n    raise B\n", "if a:\n    pass\n"),
            Example("check(a)\n", "pass\n"),
            Example("a += 1\n", "pass\n"),
        )


class SwapMembership(Operator):  # type: ignore[misc]  # as above
    """Exchange `in` and `not in`."""

    def mutation_positions(self, node: Any) -> Iterator[Position]:  # noqa: ANN401  as above
        """Find the operator of a comparison."""
        if node.type == "comparison" and _membership(node.children[1]) is not None:
            yield node.children[1].start_pos, node.children[1].end_pos

    def mutate(self, node: Any, index: int) -> Any:  # noqa: ANN401  as above
        """Put the other operator in its place."""
        other = "not in" if _membership(node.children[1]) == "in" else "in"
        node.children[1] = parso.parse(f" {other}")
        return node

    @classmethod
    def examples(cls) -> tuple[Example, ...]:
        """Return both changes."""
        return Example("a in b", "a not in b"), Example("a not in b", "a in b")


def operators() -> dict[str, Operator]:
    """Return the operators by name."""
    names = (
        *(f"ReplaceComparisonOperator_{name}" for name in _COMPARISONS),
        *(f"ReplaceBinaryOperator_{name}" for name in _BINARY),
        *_OTHERS,
    )
    found: dict[str, Operator] = {name: get_operator(f"core/{name}")() for name in names}
    found["DeleteStatement"] = DeleteStatement()
    found["SwapMembership"] = SwapMembership()
    return found


def _membership(node: Any) -> str | None:  # noqa: ANN401  as above
    code = " ".join(node.get_code(include_prefix=False).split())
    return code if code in {"in", "not in"} else None


def _is_deletable(statement: Any) -> bool:  # noqa: ANN401  as above
    if statement.type in {"raise_stmt", "del_stmt"} or statement.type == "keyword":
        return bool(statement.type != "keyword" or statement.value in {"return", "raise"})
    if statement.type == "return_stmt":
        block = statement.parent.parent
        return bool(block.type == "suite" and block.parent.type != "funcdef")
    if statement.type == "expr_stmt":
        return _changes_something(statement)
    return bool(statement.type == "atom_expr")


def _changes_something(assignment: Any) -> bool:  # noqa: ANN401  as above
    operator, target = assignment.children[1], assignment.children[0]
    augmented = operator.type == "operator" and operator.value not in {"=", ":"}
    return bool(augmented or (operator.type == "operator" and target.type == "atom_expr"))

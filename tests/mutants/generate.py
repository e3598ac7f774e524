"""Write mutants of files as lines of JSON, in random order where a seed is given.

Runs in the environment of the mutation testing tool (`requirements/mutants.txt`). Cosmic Ray finds the places and makes
the changes; the rules leave out what is no behaviour.
"""

import argparse
import ast
import hashlib
import json
import pickle
import random
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from cosmic_ray.ast import ast_nodes, get_ast
from cosmic_ray.mutating import MutationVisitor

from tests.mutants.operators import operators
from tests.mutants.rules import Span, is_behaviour, left_out

_OPERATORS = operators()


class Place(NamedTuple):
    """A mutant that is not made yet."""

    path: Path
    operator: str
    occurrence: int
    line: int

    def name(self) -> str:
        """Return what names this mutant, as long as its file does not change."""
        digest = hashlib.sha256(_source(self.path).encode()).hexdigest()[:16]
        return f"{self.path}@{digest}:{self.operator}:{self.occurrence}"


@cache
def _source(path: Path) -> str:
    return path.read_text(encoding="utf-8")


@cache
def _tree(path: Path) -> bytes:
    """Return the syntax tree of Cosmic Ray: to read it back takes a fifth of the time that parsing does."""
    return pickle.dumps(get_ast(_source(path)))


@cache
def _program(source: str) -> str:
    return ast.dump(ast.parse(source))


def places(path: Path) -> Iterator[Place]:
    """Find every behavioural mutant of a file."""
    source = _source(path)
    spans = left_out(source)
    nodes = list(ast_nodes(get_ast(source)))
    for name, operator in _OPERATORS.items():
        found = (position for node in nodes for position in operator.mutation_positions(node))
        for occurrence, position in enumerate(found):
            if is_behaviour(Span(*position), spans):
                yield Place(path, name, occurrence, position[0][0])


def mutant(place: Place) -> dict[str, Any] | None:
    """Make a mutant; None where the change is none, or is no Python."""
    source = _source(place.path)
    visitor = MutationVisitor(place.occurrence, _OPERATORS[place.operator])
    mutated = visitor.walk(pickle.loads(_tree(place.path))).get_code()  # noqa: S301  written above
    if not visitor.mutation_applied or not _is_other_program(source, mutated):
        return None
    before, after = _difference(source, mutated)
    return {
        "name": place.name(),
        "path": str(place.path),
        "operator": place.operator,
        "line": place.line,
        "before": before,
        "after": after,
        "source": mutated,
    }


def _is_other_program(source: str, mutated: str) -> bool:
    try:
        return ast.dump(ast.parse(mutated)) != _program(source)
    except SyntaxError:
        return False


def _difference(source: str, mutated: str) -> tuple[str, str]:
    """Return the lines that differ, before and after, each as one line with single spaces."""
    old, new = source.splitlines(), mutated.splitlines()
    head = next(index for index, (one, other) in enumerate(zip(old, new, strict=False)) if one != other)
    tail = next(index for index, (one, other) in enumerate(zip(old[::-1], new[::-1], strict=False)) if one != other)
    tail = min(tail, len(old) - head - 1, len(new) - head - 1)
    return _joined(old[head : len(old) - tail]), _joined(new[head : len(new) - tail])


def _joined(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def main(argv: list[str] | None = None) -> int:
    """Write the mutants to standard output: one that says how many places there are, then one a line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("files", nargs="+", type=Path)
    parser.add_argument("--seed", type=int, help="the order is random; without it, it is that of the files")
    parser.add_argument("--judged", type=Path, help="a file of names, one a line, that are left out")
    options = parser.parse_args(argv)
    judged = frozenset(options.judged.read_text(encoding="utf-8").split("\n")) if options.judged else frozenset()
    found = [place for path in options.files for place in places(path)]
    print(json.dumps({"places": len(found)}), flush=True)  # noqa: T201  the output of the program
    waiting = [place for place in found if place.name() not in judged]
    if options.seed is not None:
        random.Random(options.seed).shuffle(waiting)
    for place in waiting:
        made = mutant(place)
        if made is not None:
            print(json.dumps(made), flush=True)  # noqa: T201  as above
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""The constants of a package that are plain values, by name."""

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path

__all__ = ["LIMIT", "plain", "plain_constants"]

REPOSITORY = Path(__file__).resolve().parent.parent
LIMIT = re.compile(r"_?(?:HIGHEST|LARGEST|LATEST|LONGEST|MANY|MAX|SHORTEST)_")
"""Names of limits; those are written down in tests/test_limits.py."""
_SIZE_OF_A_CACHE = re.compile(r"CACHE|REMEMBERED")


def plain(value: object) -> object:
    """Return a value with those of its enumerations in place of their members."""
    match value:
        case Enum():
            return value.value
        case tuple():
            return tuple(map(plain, value))
        case frozenset():
            return frozenset(map(plain, value))
        case Mapping():
            return {plain(key): plain(one) for key, one in value.items()}
        case _:
            return value


def plain_constants(folder: str) -> set[tuple[str, str]]:
    """Return the modules and names of the constants of a package that are numbers or hold numbers alone.

    Packages in it that have such a test themselves are left out.
    """
    found = set()
    for path in (REPOSITORY / folder).rglob("*.py"):
        relative = path.parent.relative_to(REPOSITORY / "attest")
        if path.parent != REPOSITORY / folder and (REPOSITORY / "tests" / relative / "test_constants.py").exists():
            continue
        module = ".".join(path.relative_to(REPOSITORY).with_suffix("").parts)
        for name in _assigned(ast.parse(path.read_text(encoding="utf-8"))):
            if LIMIT.match(name) or _SIZE_OF_A_CACHE.search(name):
                continue
            if _is_of_numbers(getattr(importlib.import_module(module), name)):
                found.add((module, name))
    return found


def _assigned(tree: ast.Module) -> Iterator[str]:
    """Yield the names that a module gives to what it writes itself, with a number in it."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and any(_is_number(one) for one in ast.walk(node.value)):
            yield from (one.id for target in node.targets for one in ast.walk(target) if isinstance(one, ast.Name))


def _is_number(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, int | float)


def _is_of_numbers(value: object) -> bool:
    if isinstance(value, tuple | frozenset):
        return all(map(_is_of_numbers, value))
    return isinstance(value, int | float | range) and not isinstance(value, Enum)

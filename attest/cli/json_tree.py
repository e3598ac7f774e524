"""Any JSON document for people: names and values, nested by indentation, nothing cut."""

from __future__ import annotations

from collections.abc import Iterator

from rich.text import Text

from attest.encoding import JsonValue
from attest.terminal.console import facts, plain, text_console
from attest.terminal.display import Display


def print_tree(document: JsonValue, *, display: Display) -> None:
    """Print a document."""
    out = text_console(display)
    out.print(facts(_rows(document, depth=0), indent=0))
    out.print()


def _rows(value: JsonValue, *, depth: int) -> Iterator[tuple[str, Text]]:
    pad = "  " * depth
    members = value.items() if isinstance(value, dict) else []
    for name, member in members:
        if isinstance(member, dict):
            yield from _mapping(pad + name, member, depth)
        elif isinstance(member, list):
            yield from _list(pad + name, member, depth)
        else:
            yield pad + name, plain(_scalar(member))


def _mapping(label: str, member: dict[str, JsonValue], depth: int) -> Iterator[tuple[str, Text]]:
    """Lay out a mapping: a few numbers, such as a TCB, are on one line; anything else is below its name."""
    if member and len(member) <= 5 and all(type(v) is int for v in member.values()):
        yield label, plain(" ".join(f"{name} {level}" for name, level in member.items()))
        return
    yield label, Text()
    yield from _rows(member, depth=depth + 1)


def _list(label: str, members: list[JsonValue], depth: int) -> Iterator[tuple[str, Text]]:
    if not members:
        yield label, plain("none")
    for number, member in enumerate(members):
        if isinstance(member, dict):
            yield f"{label}[{number}]", Text()
            yield from _rows(member, depth=depth + 1)
        else:
            yield f"{label}[{number}]", plain(_scalar(member))


def _scalar(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "absent" if value is None else str(value)

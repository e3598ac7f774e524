"""Writing a policy as YAML that a person goes on with: comments in their places, one form for each value.

Text is in quotes unless it is a plain word, and quoted text is ASCII. So no value can be taken for a
number, a date or a comment, whatever a certificate or a device put into it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attest.encoding import JsonValue

_WIDTH = 110
_COMMENT_WIDTH = 100
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9_./+-]{1,39}")
_WORDS_OF_YAML = {"true", "false", "yes", "no", "on", "off", "null"}

Path = tuple[str, ...]


def yaml_text(document: Mapping[str, JsonValue], comments: Mapping[Path, tuple[str, ...]]) -> str:
    """Write a document of mappings, lists and scalars, with paragraphs above the keys at the paths of ``comments``."""
    return "".join(f"{line}\n" for line in _mapping(document, (), comments))


def comment_lines(text: str, *, indent: int = 0) -> Iterator[str]:
    """Write a comment, wrapped between words; characters that could end it are escaped."""
    line = ""
    for word in _ascii(text).split():
        if line and len(line) + 1 + len(word) > _COMMENT_WIDTH:
            yield f"{' ' * indent}# {line}"
            line = word
        else:
            line = f"{line} {word}" if line else word
    yield f"{' ' * indent}# {line}".rstrip()


def _mapping(members: Mapping[str, JsonValue], path: Path, comments: Mapping[Path, tuple[str, ...]]) -> Iterator[str]:
    indent = 2 * len(path)
    for name, value in members.items():
        place = (*path, name)
        if not path and isinstance(value, dict):
            yield ""
        for paragraph in comments.get(place, ()):
            yield from comment_lines(paragraph, indent=indent)
        yield from _member(name, value, place, comments)


def _member(name: str, value: JsonValue, place: Path, comments: Mapping[Path, tuple[str, ...]]) -> Iterator[str]:
    pad = "  " * (len(place) - 1)
    flow = f"{pad}{_scalar(name)}: {_flow(value)}"
    comments_within = any(other[: len(place)] == place and other != place for other in comments)
    short = len(flow) <= _WIDTH and len(place) > 1 and not comments_within
    if short or not isinstance(value, dict | list):
        yield flow
        return
    yield f"{pad}{_scalar(name)}:"
    if isinstance(value, dict):
        yield from _mapping(value, place, comments)
    else:
        yield from (f"{pad}  - {_flow(member)}" for member in value)


def _flow(value: JsonValue) -> str:
    match value:
        case dict():
            return "{" + ", ".join(f"{_scalar(name)}: {_flow(member)}" for name, member in value.items()) + "}"
        case list():
            return "[" + ", ".join(map(_flow, value)) + "]"
        case _:
            return _scalar(value)


def _scalar(value: JsonValue) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str):
        return str(value)
    if _PLAIN.fullmatch(value) and value.lower() not in _WORDS_OF_YAML:
        return value
    return '"' + _ascii(value.replace("\\", "\\\\").replace('"', '\\"')) + '"'


def _ascii(text: str) -> str:
    """Escape everything but printable ASCII, as YAML's double quotes do; line ends are no part of a comment."""
    return "".join(
        c if " " <= c <= "~" else f"\\U{ord(c):08x}" if ord(c) > 0xFFFF else f"\\u{ord(c):04x}" for c in text
    )

"""Reader of a policy's text: YAML or JSON in, plain values out, and a place in the text for every refusal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable
from typing import Any, Final, cast

from attest import encoding
from attest.encoding import MAX_JSON_DEPTH, JsonValue, json_value
from attest.errors import ConfigurationError, EvidenceError, InvalidValueError
from attest.policy.decoder import refuse
from attest.policy.positions import Located, TextPosition, json_places, yaml_places

MAX_POLICY_BYTES = 1024 * 1024
MAX_POLICY_NODES: Final = 20_000
"""Keys and values of a document. YAML takes some 40 µs for each: any document is read or refused in a second."""


def read_document(data: bytes, *, name: str = "policy") -> JsonValue:
    """Read a policy's text as plain values; ``name`` is its name in errors.

    Raises:
        ConfigurationError: ``policy-unreadable``.
    """
    if len(data) > MAX_POLICY_BYTES:
        raise _unreadable(name, f"more than {MAX_POLICY_BYTES} bytes")
    return _json(data, name) if _is_json(data) else _yaml(data, name)


def _require_few(nodes: int, name: str, place: TextPosition | None = None) -> None:
    if nodes > MAX_POLICY_NODES:
        raise _unreadable(name, f"more than {MAX_POLICY_NODES} keys and values", place)


def _nodes_of(value: JsonValue) -> int:
    """Return how many keys and values a document has, itself included."""
    count, rest = 0, [value]
    while rest:
        one = rest.pop()
        count += 1
        if isinstance(one, dict):
            count += len(one)
            rest += one.values()
        elif isinstance(one, list):
            rest += one
    return count


def placed(error: InvalidValueError, data: bytes, *, name: str) -> ConfigurationError:
    """Return the error for a value of a readable text, with its line and column; ``name`` is the text's name."""
    place = _places(data).find(error.field or "", key=error.at_key)
    return ConfigurationError(
        f"{name}:{place.line}:{place.column}: {error.message}",
        code=error.code,
        field=error.field,
        line=place.line,
        column=place.column,
        expected=error.expected,
        got=error.got,
        hint=error.hint,
    )


def canonical_json(document: JsonValue, *, what: str = "policy") -> bytes:
    """Return the canonical JSON (RFC 8785) of a document; ``what`` is its name in errors.

    Raises:
        ConfigurationError: ``policy-invalid``.
    """
    try:
        return encoding.canonical_json(document)
    except (ValueError, RecursionError) as exc:  # rfc8785's errors are ValueErrors
        raise refuse(what, "values that canonical JSON has", str(exc)[:80]) from exc


def _is_json(data: bytes) -> bool:
    return data.lstrip()[:1] == b"{"


def _places(data: bytes) -> Located:
    if _is_json(data):
        return json_places(data.decode())
    return yaml_places(yaml_reader("policy").compose, data)


def _json(data: bytes, name: str) -> JsonValue:
    try:
        value = json_value(data, what="it")
    except EvidenceError as exc:
        raise _unreadable(name, exc.message, _problem_of_json(exc.__cause__, data)) from exc
    _require_few(_nodes_of(value), name)
    return value


def _problem_of_json(cause: BaseException | None, data: bytes) -> TextPosition | None:
    """Return the place where JSON ends early, or of a repeated key; None for a text that is too deep or no text."""
    if isinstance(cause, json.JSONDecodeError):
        return TextPosition(line=cause.lineno, column=cause.colno)
    try:
        text = data.decode()
        json.loads(text)  # well formed, with a defect that this reader forgives
        return json_places(text).repeated
    except (ValueError, RecursionError):
        return None


_IMPORTING: Final = threading.Lock()
"""Serialises the first import of the library: another thread may see the package before it is bound to its parent,
through which the library looks up its own modules."""


def yaml_reader(name: str) -> Any:  # noqa: ANN401  the library's own annotations are partial
    """Return a reader of YAML 1.2.

    Raises:
        ConfigurationError: ``policy-unreadable``, the library is not installed.
    """
    try:
        with _IMPORTING:
            from ruamel.yaml import YAML  # noqa: PLC0415  of the extra 'cli'; a JSON policy needs none
    except ImportError as exc:
        raise _unreadable(name, "YAML needs the extra 'cli' of this package; JSON needs nothing") from exc
    return YAML(typ="safe", pure=True)


def _yaml(data: bytes, name: str) -> JsonValue:
    """Read YAML 1.2 without ambiguous features: duplicate and merge keys, anchors, tags, several documents."""
    reader = yaml_reader(name)
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    try:
        _require_plain_events(reader.parse(data), name)
        value: object = reader.load(data)
    except (YAMLError, ValueError, TypeError, RecursionError) as exc:  # TypeError: a list or mapping as a key
        raise _unreadable(name, _words_of_yaml(exc), _problem_of_yaml(exc, data)) from exc
    try:
        return _plain(value, "")
    except InvalidValueError as exc:
        raise placed(exc, data, name=name) from exc


def _require_plain_events(events: Iterable[Any], name: str) -> None:  # Any: the library's own annotations are partial
    """Refuse what the reader above names, and a document that would take long, before anything is built of it."""
    from ruamel.yaml.events import CollectionEndEvent, CollectionStartEvent, NodeEvent  # noqa: PLC0415

    nodes = depth = 0
    for event in events:
        place = _mark(event.start_mark)
        if isinstance(event, NodeEvent):
            nodes += 1
            _require_few(nodes, name, place)
            _require_plain(event, name, place)
        depth += isinstance(event, CollectionStartEvent) - isinstance(event, CollectionEndEvent)
        if depth > MAX_JSON_DEPTH:
            raise _unreadable(name, f"nested deeper than {MAX_JSON_DEPTH}", place)


def _require_plain(node: Any, name: str, place: TextPosition | None) -> None:  # noqa: ANN401  as above
    if node.anchor is not None:
        raise _unreadable(name, "anchors and aliases are not allowed", place)
    if getattr(node, "tag", None) is not None:
        raise _unreadable(name, f"the tag {node.tag} is not allowed", place)
    # Unquoted, it brings in keys that are not written where they count.
    if getattr(node, "value", None) == "<<" and node.implicit[0]:
        raise _unreadable(name, "merge keys (<<) are not allowed", place)


def _words_of_yaml(problem: Exception) -> str:
    """Return the problem without the library's own marks and advice: the place is reported apart."""
    words, begun = getattr(problem, "problem", None), getattr(problem, "context_mark", None)
    if words is None:
        return " ".join(str(getattr(problem, "reason", problem)).split())[:300]
    if words.startswith("found duplicate key"):
        key = words.partition('"')[2].partition('" with value')[0]
        return f"duplicate key {key[:80]!r}: it occurs twice in one mapping"
    context = " ".join(str(getattr(problem, "context", None) or "").split())
    from_line = f" that begins in line {begun.line + 1}" if context and begun is not None else ""
    return (f"{context}{from_line}: {words}" if context else words)[:300]


def _problem_of_yaml(problem: Exception, data: bytes) -> TextPosition | None:
    """Return the place that the library reports: a mark, or the offset of a byte that is no text."""
    offset = getattr(problem, "position", None)
    if isinstance(offset, int):
        before = data[:offset]
        return TextPosition(line=before.count(b"\n") + 1, column=offset - before.rfind(b"\n"))
    return _mark(getattr(problem, "problem_mark", None))


def _mark(mark: Any) -> TextPosition | None:  # noqa: ANN401  of the library
    return None if mark is None else TextPosition(line=mark.line + 1, column=mark.column + 1)


def _plain(value: object, path: str) -> JsonValue:
    """Convert YAML values to JSON values."""
    match value:
        case None | bool() | int() | str():
            return value
        case list():
            return [_plain(member, f"{path}[{i}]") for i, member in enumerate(cast("list[object]", value))]
        case dict():
            members = cast("dict[object, object]", value)
            for key in members:
                if not isinstance(key, str):
                    raise _no_value(_join(path, str(key)), "a key in quotes: keys are text", key, at_key=True)
            return {str(key): _plain(member, _join(path, str(key))) for key, member in members.items()}
        case _:
            raise _no_value(path, "a value in quotes", value)


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _no_value(path: str, expected: str, got: object, *, at_key: bool = False) -> InvalidValueError:
    shown = f"{type(got).__name__} {got}"[:80]
    where = f"{path}: " if path else ""
    error = InvalidValueError(
        f"cannot be read: {where}expected {expected}, got {shown}",
        code="policy-unreadable",
        field=path,
        expected=expected,
        got=shown,
        hint="see docs/policy.md",
    )
    error.at_key = at_key
    return error


def _unreadable(name: str, problem: str, place: TextPosition | None = None) -> ConfigurationError:
    where = name if place is None else f"{name}:{place.line}:{place.column}"
    return ConfigurationError(
        f"{where}: cannot be read: {problem}",
        code="policy-unreadable",
        line=None if place is None else place.line,
        column=None if place is None else place.column,
        hint="see docs/policy.md",
    )

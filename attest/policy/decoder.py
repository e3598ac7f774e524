"""Typed decoding of untyped documents: every key is known, every value has one type, every error has a path."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from datetime import datetime
from types import MappingProxyType
from typing import Any, Generic, TypeVar

from attest.checks import Unchecked, is_visible
from attest.encoding import JsonValue, hex_bytes, rfc3339
from attest.errors import EvidenceError, InvalidValueError

T = TypeVar("T")
Decoder = Callable[[JsonValue, str], T]
"""Reads a value, given its path; raises ConfigurationError ``policy-invalid``."""
MAX_TEXT_CHARACTERS = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class RelaxedDemand:
    """A demand that the policy's author decided not to make, with the reason. It shows in every result."""

    reason: str


@dataclass(frozen=True, slots=True)
class Demand(Generic[T]):
    """Either a value that is demanded, or the reason why none is."""

    value: T | RelaxedDemand


def stated(demand: Demand[T] | None) -> T | None:
    """Return the demanded value; None for a demand that is relaxed or not made."""
    return None if demand is None or isinstance(demand.value, RelaxedDemand) else demand.value


def refuse(
    path: str,
    expected: str,
    got: JsonValue = None,
    *,
    near: Iterable[str] = (),
    at_key: bool = False,
    shown: str | None = None,
) -> InvalidValueError:
    """Return the error for one value.

    The error suggests the word of ``near`` that is nearest to ``got``. ``at_key`` says that the key is wrong instead of
    its value; ``shown`` describes an absent value in the place of ``got``.
    """
    shown = shown or _shown(got)
    word = nearest(got, near)
    error = InvalidValueError(
        f"{path}: expected {expected}, got {shown}" + ("" if word is None else f"; did you mean {word!r}?"),
        code="policy-invalid",
        field=path,
        expected=expected,
        got=shown,
        hint="'attest policy schema' describes every key; see docs/policy.md",
    )
    error.at_key = at_key
    return error


def _shown(got: JsonValue) -> str:
    """Write a value in the terms of a document."""
    match got:
        case list():
            return "a list" if got else "an empty list"
        case dict():
            return "a mapping" if got else "an empty mapping"
        case None:
            return "null"
        case bool():
            return str(got).lower()
        case _:
            return repr(got)[:80]


_ALIKE = 0.5
"""Similarity from which one word counts as a misspelling of the other."""
_ALMOST_EQUAL = 0.8


def nearest(got: JsonValue, words: Iterable[str], *, alike: float = _ALIKE) -> str | None:
    """Return the most similar known word, or None."""
    if not isinstance(got, str):
        return None
    by_lower = {word.lower(): str(word) for word in words}
    found = difflib.get_close_matches(got[:80].lower(), by_lower, n=1, cutoff=alike)
    return by_lower[found[0]] if found else None


class Section:
    """One mapping of a document. Take each key once, then ``finish``.

    Its path (``snp.minimum_tcb``) is empty for the document itself.
    """

    def __init__(self, value: JsonValue, path: str) -> None:
        if not isinstance(value, dict):
            raise refuse(path or "document", "a mapping", value)
        self._members: dict[str, JsonValue] = value
        self._path = path
        self._taken: set[str] = set()

    def path(self, name: str) -> str:
        """Return the full path of a key."""
        return f"{self._path}.{name}" if self._path else name

    def required(self, name: str, decoder: Decoder[T]) -> T:
        """Decode a key that must be there."""
        self._taken.add(name)
        if name not in self._members:
            misspelt = nearest(name, self._members, alike=_ALMOST_EQUAL)
            if misspelt is not None and misspelt not in self._taken:
                raise refuse(self.path(misspelt), "a known key", misspelt, near=[name], at_key=True)
            raise refuse(self.path(name), "a value", shown="nothing", at_key=True)
        return decoder(self._members[name], self.path(name))

    def optional(self, name: str, decoder: Decoder[T], *, default: T) -> T:
        """Decode a key, or return the default when the key is absent; an explicit null is no absence."""
        self._taken.add(name)
        return decoder(self._members[name], self.path(name)) if name in self._members else default

    def stated(self, name: str, decoder: Decoder[T]) -> T | None:
        """Decode a key, or return None when the key is absent."""
        return self.optional(name, decoder, default=None)

    def record(
        self, cls: type[T], decoders: Mapping[str, Decoder[Any]] = MappingProxyType({}), /, **given: object
    ) -> T:
        """Decode the keys of a dataclass, declared with ``key`` or in ``decoders``; ``given`` has its other fields."""
        found = dict(given)
        for one in fields(cls):  # type: ignore[arg-type]  # a dataclass, as its caller knows
            decoder: Decoder[object] | None = decoders.get(one.name, one.metadata.get(_DECODER))
            if decoder is None:
                continue
            if one.name in self._members or (one.default is MISSING and one.default_factory is MISSING):
                found[one.name] = self.required(one.name, decoder)
            self._taken.add(one.name)
        return cls(**found)

    def require_known(self, names: Iterable[str]) -> None:
        """Refuse unknown keys, before a missing key is refused.

        Raises:
            ConfigurationError: ``policy-invalid``, naming the key and the nearest known one.
        """
        known = sorted(names)
        unknown = sorted(set(self._members) - set(known))
        if unknown:
            raise refuse(self.path(unknown[0]), "a known key", unknown[0], near=known, at_key=True)

    def finish(self) -> None:
        """Refuse keys that were not taken: a typing error must not switch a demand off.

        Raises:
            ConfigurationError: as ``require_known``.
        """
        self.require_known(self._taken)


_DECODER = "decoder"


def key(decoder: Decoder[Any]) -> Mapping[str, Decoder[Any]]:  # Any: the field's own type
    """Return the metadata of a dataclass field that is a key of a section, required unless the field has a default."""
    return {_DECODER: decoder}


def record_of(cls: type[T]) -> Decoder[T]:
    """Decode a mapping as a dataclass, whose fields declare all keys."""

    def decode(value: JsonValue, path: str) -> T:
        section = Section(value, path)
        found = section.record(cls)
        section.finish()
        return found

    return decode


def text(value: JsonValue, path: str) -> str:
    """Decode text with a visible character."""
    if not isinstance(value, str) or not is_visible(value) or len(value) > MAX_TEXT_CHARACTERS:
        raise refuse(path, f"text of 1 to {MAX_TEXT_CHARACTERS} characters", value)
    return value


def boolean(value: JsonValue, path: str) -> bool:
    """Decode true or false; no other word means either."""
    if not isinstance(value, bool):
        raise refuse(path, "true or false", value)
    return value


def integer(low: int, high: int) -> Decoder[int]:
    """Decode an integer between both bounds, inclusive; a boolean is not an integer."""

    def decode(value: JsonValue, path: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            raise refuse(path, f"an integer from {low} to {high}", value)
        return value

    return decode


def must_be(*, strict: bool) -> Decoder[Demand[bool]]:
    """Decode a demand that has one strict value; the other one would be a relaxation without a reason."""

    def decode(value: JsonValue, path: str) -> Demand[bool]:
        found = demand(boolean)(value, path)
        if stated(found) is (not strict):
            raise refuse(path, f"{str(strict).lower()}, or {{unchecked: reason}}", value)
        return found

    return decode


def choice(options: Iterable[str]) -> Decoder[str]:
    """Decode one of some words."""
    known = tuple(options)

    def decode(value: JsonValue, path: str) -> str:
        if not isinstance(value, str) or value not in known:
            raise refuse(path, f"one of {', '.join(known)}", value, near=known)
        return value

    return decode


def hex_of(length: int) -> Decoder[bytes]:
    """Decode hex of exactly this many bytes."""

    def decode(value: JsonValue, path: str) -> bytes:
        if not isinstance(value, str):
            raise refuse(path, f"{length} bytes of hex in quotes", value)
        try:
            return hex_bytes(value, what=path, length=length)
        except EvidenceError as exc:
            raise refuse(path, f"{length} bytes of hex", value) from exc

    return decode


_HEX = re.compile(r"(?:[0-9a-fA-F]{2})+")


def hex_text(value: JsonValue, path: str) -> str:
    """Decode hex of any number of bytes, as text in lower case."""
    if not isinstance(value, str) or not _HEX.fullmatch(value):
        raise refuse(path, "hex in quotes", value)
    return value.lower()


def moment(value: JsonValue, path: str) -> datetime:
    """Decode an RFC 3339 time."""
    try:
        return rfc3339(text(value, path), what=path)
    except EvidenceError as exc:
        raise refuse(path, "an RFC 3339 time such as 2027-01-31T12:00:00Z", value) from exc


def list_of(decoder: Decoder[T]) -> Decoder[tuple[T, ...]]:
    """Decode a list with at least one member: an empty list would match nothing and looks like a mistake."""

    def decode(value: JsonValue, path: str) -> tuple[T, ...]:
        if not isinstance(value, list) or not value:
            raise refuse(path, "a list with at least one member", value)
        return tuple(decoder(member, f"{path}[{index}]") for index, member in enumerate(value))

    return decode


def table_of(decoder: Decoder[T], *, keys: Iterable[str] | None = None) -> Decoder[Mapping[str, T]]:
    """Decode a mapping with at least one member, its keys free or from a closed set."""
    known = None if keys is None else tuple(keys)

    def decode(value: JsonValue, path: str) -> Mapping[str, T]:
        if not isinstance(value, dict) or not value:
            raise refuse(path, "a mapping with at least one member", value)
        for name in value:
            if known is not None and name not in known:
                raise refuse(f"{path}.{name}", f"one of {', '.join(known)}", name, near=known, at_key=True)
        return {name: decoder(member, f"{path}.{name}") for name, member in value.items()}

    return decode


def demand(decoder: Decoder[T]) -> Decoder[Demand[T]]:
    """Decode a value, or ``{unchecked: reason}`` in its place."""

    def decode(value: JsonValue, path: str) -> Demand[T]:
        if isinstance(value, dict) and "unchecked" in value:
            section = Section(value, path)
            relaxed = RelaxedDemand(reason=section.required("unchecked", text))
            section.finish()
            return Demand(relaxed)
        if (
            isinstance(value, dict)
            and len(value) == 1
            and nearest(next(iter(value)), ["unchecked"], alike=_ALMOST_EQUAL)
        ):
            Section(value, path).require_known(["unchecked"])
        return Demand(decoder(value, path))

    return decode


def hex_list(length: int) -> Decoder[Demand[tuple[bytes, ...]]]:
    """Decode a demand for one of several values of this many bytes."""
    return demand(list_of(hex_of(length)))


def unchecked_of(value: JsonValue, path: str) -> tuple[Unchecked, ...]:
    """Decode relaxations of verification: the name of each, and its reason."""
    reasons = table_of(text, keys=Unchecked.NAMES)(value, path)
    return tuple(Unchecked(check=name, reason=reason) for name, reason in reasons.items())


STRICT_ON, STRICT_OFF = key(must_be(strict=True)), key(must_be(strict=False))
"""Keys with one strict value; ``ON`` and ``OFF`` are that value where it also holds when the key is absent."""
ON, OFF = Demand(value=True), Demand(value=False)


def named_bits(
    section: Section, name: str, bits: Iterable[str], *, strict: Mapping[str, bool]
) -> Mapping[str, Demand[bool]]:
    """Decode bits that must be set or clear; those in ``strict`` are demanded even when the section omits them."""
    found = section.stated(name, table_of(demand(boolean), keys=bits)) or {}
    for bit, wanted in strict.items():
        if stated(found.get(bit)) is (not wanted):
            expected = f"{str(wanted).lower()}, or {{unchecked: reason}}"
            raise refuse(f"{section.path(name)}.{bit}", expected, not wanted)
    return {**{bit: Demand(wanted) for bit, wanted in strict.items()}, **found}

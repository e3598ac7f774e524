"""Reference values: expected measurements under names that a policy's rules speak of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

from attest.encoding import JsonValue, rfc3339_text
from attest.policy.decode import Decoder, Section, choice, hex_of, list_of, moment, refuse, text

__all__ = ["ReferenceValues", "decode_reference_values", "names_in", "reference_text"]

_MEASUREMENT_BYTES = 48


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceValues:
    """Expected measurements under one name.

    Attributes:
        values: launch digests of 48 bytes; one image has several, by number and type of vCPUs.
        origin: where they come from (build, command, supplier), for people.
        expires: last moment at which they count, included; None for no end.
    """

    values: tuple[bytes, ...]
    origin: str
    expires: datetime | None


def decode_reference_values(value: JsonValue, path: str) -> ReferenceValues:
    """Read one entry of ``reference_values``."""
    section = Section(value, path)
    found = ReferenceValues(
        values=section.required("values", list_of(hex_of(_MEASUREMENT_BYTES))),
        origin=section.required("origin", text),
        expires=section.optional("expires", moment, default=None),
    )
    section.finish()
    return found


def names_in(references: Mapping[str, ReferenceValues]) -> Decoder[str]:
    """Decode the name of a reference value that the policy has."""
    return choice(references) if references else _no_references


def _no_references(value: JsonValue, path: str) -> str:
    raise refuse(path, "a name under reference_values, of which there are none", value)


def reference_text(name: str, reference: ReferenceValues) -> str:
    """Write a reference value for people: name, end, values in full."""
    until = "" if reference.expires is None else f" until {rfc3339_text(reference.expires)}"
    return f"{name}{until}: {' or '.join(value.hex() for value in reference.values)}"

"""Reference values: expected measurements under names that a policy's rules use."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256

import rfc8785

from attest.encoding import JsonValue, rfc3339_text
from attest.policy.decoder import Decoder, choice, hex_of, key, list_of, moment, record_of, refuse, text

_SHA256_BYTES = 32
SHA384_BYTES = 48


def _digests(value: JsonValue, path: str) -> tuple[bytes, ...]:
    first = value[0] if isinstance(value, list) and value else None
    short = isinstance(first, str) and len(first) == 2 * _SHA256_BYTES
    return list_of(hex_of(_SHA256_BYTES if short else SHA384_BYTES))(value, path)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReferenceValues:
    """Expected measurements under one name.

    Attributes:
        values: digests, all of 48 bytes or (MRENCLAVE) all of 32; one image has several, by number and type of vCPUs.
        origin: where they come from (build, command, supplier), for people.
        expires: last moment at which they count, included; None for no end.
        document: the document of reference values that brings them; None for the policy's own.
    """

    values: tuple[bytes, ...] = field(metadata=key(_digests))
    origin: str = field(metadata=key(text))
    expires: datetime | None = field(default=None, metadata=key(moment))
    document: str | None = None


class IncompleteReferences(dict[str, ReferenceValues]):
    """Reference values of a policy some of whose documents are not available: any other name may be in one of them.

    For inspection of a policy, never for appraisal: an unavailable name has no value, so it accepts nothing.
    """

    def __missing__(self, name: str) -> ReferenceValues:
        """Return the name without a value."""
        return ReferenceValues(values=(), origin=f"{name} is defined in a document that was not given", expires=None)


decode_reference_values = record_of(ReferenceValues)
"""Reads one entry of ``reference_values``; its values are all SHA-256 or all SHA-384 digests."""


def names_in(references: Mapping[str, ReferenceValues], *, size: int = SHA384_BYTES) -> Decoder[str]:
    """Decode the name of a reference value that the policy has and whose digests have this size in bytes.

    For ``IncompleteReferences`` an unknown name is accepted as well.
    """
    fitting = [name for name, reference in references.items() if len(reference.values[0]) == size]
    if isinstance(references, IncompleteReferences):
        misfits = references.keys() - fitting
        return lambda value, path: choice(fitting)(value, path) if text(value, path) in misfits else text(value, path)
    if fitting:
        return choice(fitting)

    def none_fits(value: JsonValue, path: str) -> str:
        raise refuse(path, f"a name under reference_values with {size}-byte digests; there is none", value)

    return none_fits


def ends_of(references: Iterable[ReferenceValues]) -> Mapping[bytes, datetime | None]:
    """Return each value with the last moment at which it counts; of one value in several places the latest one."""
    ends: dict[bytes, datetime | None] = {}
    for reference in references:
        for value in reference.values:
            known, end = ends.get(value, reference.expires), reference.expires
            ends[value] = None if known is None or end is None else max(known, end)
    return ends


def reference_text(name: str, reference: ReferenceValues) -> str:
    """Write a reference value for people: name, end, values in full."""
    until = "" if reference.expires is None else f" until {rfc3339_text(reference.expires)}"
    return f"{name}{until}: {' or '.join(value.hex() for value in reference.values)}"


def reference_digest(references: Mapping[str, ReferenceValues]) -> bytes:
    """Return the SHA-256 of reference values as they count: canonical JSON (RFC 8785) of names, values, origins, ends.

    Two policies with values from different documents have one digest if the values and their stated origins are the
    same. The order of values makes no difference.
    """
    entries = {
        name: {
            "values": sorted(value.hex() for value in reference.values),
            "origin": reference.origin,
            "expires": None if reference.expires is None else rfc3339_text(reference.expires),
        }
        for name, reference in references.items()
    }
    return sha256(rfc8785.dumps(entries)).digest()

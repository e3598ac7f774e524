"""The attestation document of a service as plain data, unverified, for ``attest inspect``."""

from __future__ import annotations

from collections.abc import Callable

from attest.encoding import JsonValue
from attest.evidence.envelope import MEDIA_PROVIDER_DOCUMENT, EvidenceItem
from attest.evidence.providers.families import parse_document


def provider_document(value: bytes, describe: Callable[[EvidenceItem], dict[str, JsonValue]]) -> dict[str, JsonValue]:
    """Describe each machine and its items; an ``EvidenceError`` if the document is malformed or not read."""
    item = EvidenceItem(name="document", media_type=MEDIA_PROVIDER_DOCUMENT, value=value)
    return {
        "machines": [
            {
                "machine": machine.name,
                "role": machine.role,
                "items": [describe(each) for each in machine.evidence.items],
            }
            for machine in parse_document((item,)).machines
        ]
    }

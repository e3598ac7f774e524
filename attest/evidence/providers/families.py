"""The families of documents: how each is recognised, and how it is read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.envelope import (
    MEDIA_ENDORSEMENTS,
    MEDIA_PROVIDER_DOCUMENT,
    MEDIA_PROVIDER_KEYS,
    Evidence,
    EvidenceItem,
)
from attest.evidence.providers import chutes, dstack, tinfoil
from attest.evidence.providers.document import ProviderDocument
from attest.evidence.providers.values import FORM

DOCUMENT_TYPES = (MEDIA_PROVIDER_DOCUMENT, MEDIA_PROVIDER_KEYS)
"""Types of items that hold the evidence of whole machines."""
MAX_DOCUMENT_BYTES = 2 * 1024 * 1024
"""Recorded documents of five machines with eight GPUs each have half of that."""


class _Family(NamedTuple):
    """One family.

    Attributes:
        looks: recognises a document by its members, well formed or not.
        read: reads a document, given its bytes too, and the keys beside it or None.
    """

    label: str
    looks: Callable[[JsonValue], bool]
    read: Callable[[JsonValue, bytes, JsonValue], ProviderDocument]


_WITH_KEYS = _Family(
    "Chutes evidence (JSON)",
    chutes.is_evidence,
    lambda document, _data, keys: chutes.read_evidence_answer(document, keys),
)
FAMILIES: tuple[_Family, ...] = (
    _WITH_KEYS,
    _Family(
        "attestation document of a gateway and its machines (JSON)",
        dstack.is_gateway,
        lambda document, *_: dstack.read_gateway(document),
    ),
    _Family(
        "attestation document of a dstack machine (JSON)",
        dstack.is_machine,
        lambda document, *_: dstack.read_machine(document),
    ),
    _Family("list of Chutes instances (JSON)", chutes.is_list, lambda document, *_: chutes.read_list(document)),
    _Family(
        "tinfoil attestation document (JSON)",
        tinfoil.is_tinfoil,
        lambda document, data, _keys: tinfoil.read_tinfoil(document, data),
    ),
)


def parse_document(items: tuple[EvidenceItem, ...]) -> ProviderDocument:
    """Read a document, perhaps with the keys that came in an answer of their own, into its machines.

    Args:
        items: all items of the evidence; endorsements beside the document are left out.

    Raises:
        EvidenceError: ``provider-document-malformed``, ``json-invalid``, ``gpu-device-malformed``, or
            ``evidence-ambiguous`` if anything else stands beside the document.
        UnsupportedError: ``evidence-unsupported``, a form that this version does not verify.
    """
    data = _only(items, MEDIA_PROVIDER_DOCUMENT)
    keys = _only(items, MEDIA_PROVIDER_KEYS)
    others = [item.name for item in items if item.essence not in (*DOCUMENT_TYPES, MEDIA_ENDORSEMENTS)]
    if data is None or others:
        raise _ambiguous("one document, perhaps with the keys that belong to it", ", ".join(others) or "keys alone")
    if len(data) > MAX_DOCUMENT_BYTES:
        raise FORM.malformed("document", f"at most {MAX_DOCUMENT_BYTES} bytes", f"{len(data)} bytes")
    document = json_value(data, what="document")
    family = next((family for family in FAMILIES if family.looks(document)), None)
    if keys is not None and family is not _WITH_KEYS:
        raise _ambiguous("keys beside the evidence that they belong to", "keys beside another document")
    if family is not None:
        return family.read(document, data, None if keys is None else json_value(keys, what="instances"))
    raise UnsupportedError(
        "the document is of no known service",
        code="evidence-unsupported",
        check=FORM.check,
        field="document",
        expected=", ".join(family.label for family in FAMILIES),
        got="JSON with other members",
    )


def _only(items: tuple[EvidenceItem, ...], essence: str) -> bytes | None:
    found = [item.value for item in items if item.essence == essence]
    if len(found) > 1:
        raise _ambiguous("one document, perhaps with the keys that belong to it", f"{len(found)} of one kind")
    return found[0] if found else None


def _ambiguous(expected: str, got: str) -> EvidenceError:
    return EvidenceError(
        f"evidence with a service's document: expected {expected}, got {got}",
        code="evidence-ambiguous",
        check=FORM.check,
        field="document",
        expected=expected,
        got=got,
        clause=FORM.clause,
    )


def is_document(evidence: Evidence) -> bool:
    """Return True if evidence is a service's document."""
    return any(item.essence in DOCUMENT_TYPES for item in evidence.items)


def device_items(evidence: Evidence) -> tuple[EvidenceItem, ...]:
    """Return the items of evidence; those of a document are the items of its machines, under the names of results.

    Raises:
        EvidenceError: as ``parse_document``.
    """
    if not is_document(evidence):
        return evidence.items
    return tuple(
        replace(item, name=f"{machine.name}/{item.name}")
        for machine in parse_document(evidence.items).machines
        for item in machine.evidence.items
    )

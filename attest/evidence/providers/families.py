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
    """One family; ``looks`` recognises a document by its members, well formed or not."""

    label: str
    looks: Callable[[JsonValue], bool]


FAMILIES: tuple[_Family, ...] = (
    _Family("Chutes evidence (JSON)", chutes.is_evidence),
    _Family("attestation document of a gateway and its machines (JSON)", dstack.is_gateway),
    _Family("attestation document of a dstack machine (JSON)", dstack.is_machine),
    _Family("list of Chutes instances (JSON)", chutes.is_list),
    _Family("tinfoil attestation document (JSON)", tinfoil.is_tinfoil),
)
"""The first one that fits decides, as in ``parse_document``."""


def parse_document(items: tuple[EvidenceItem, ...]) -> ProviderDocument:
    """Read a document, perhaps with the keys that came in an answer of their own, into its machines.

    Args:
        items: all items of the evidence; endorsements beside the document are left out.

    Raises:
        EvidenceError: ``provider-document-malformed``, ``json-invalid``, ``gpu-device-malformed``, or
            ``evidence-ambiguous`` if anything else is given with the document.
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
    if chutes.is_evidence(document):
        return chutes.read_evidence_answer(document, None if keys is None else json_value(keys, what="instances"))
    if keys is not None:
        raise _ambiguous("keys beside the evidence that they belong to", "keys beside another document")
    if dstack.is_gateway(document):
        return dstack.read_gateway(document)
    if dstack.is_machine(document):
        return dstack.read_machine(document)
    if chutes.is_list(document):
        return chutes.read_list(document)
    if tinfoil.is_tinfoil(document):
        return tinfoil.read_tinfoil(document, data)
    raise UnsupportedError(
        "the document does not have the format of a known service",
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

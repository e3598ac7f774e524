"""Documents in force: the resource policy, attestation policies by class of device, and the reference values.

Spec: specs/kbs-protocol.md, sections 16 and 17.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final, NamedTuple

from attest.encoding import JsonValue, json_value
from kms.store import ReadTransaction

RESOURCE_POLICY: Final = "resource-policy"
REFERENCE_VALUES: Final = "reference-values"
"""All of them in one object: a reader sees every value, or the change of one."""
_ATTESTATION: Final = "attestation-policy/"


def attestation_policy_name(policy_id: str) -> str:
    """Return the document's name of an attestation policy, such as that of ``default_cpu``."""
    return _ATTESTATION + policy_id


class _Known(NamedTuple):
    content: bytes | None
    noted: Mapping[bytes, bytes | None]


class DocumentCache:
    """Documents that were read, kept as long as the authenticated state shows them unchanged."""

    def __init__(self) -> None:
        self._known: dict[str, _Known] = {}

    def content(self, tx: ReadTransaction, name: str) -> bytes | None:
        """Return the content of a document in force, or None."""
        known = self._known.get(name)
        if known is None or not tx.state.holds(known.noted):
            with tx.state.noting() as noted:
                found = tx.kbs_documents.newest(name)
            known = self._known[name] = _Known(None if found is None else found.content, dict(noted))
        return known.content

    def attestation_policy(self, tx: ReadTransaction, kind: str) -> bytes | None:
        """Return the attestation policy for a class of devices (``cpu``), or None."""
        return self.content(tx, attestation_policy_name(f"default_{kind}"))

    def resource_policy(self, tx: ReadTransaction) -> bytes | None:
        """Return the resource policy, or None."""
        return self.content(tx, RESOURCE_POLICY)

    def references(self, tx: ReadTransaction) -> Mapping[str, JsonValue]:
        """Return all reference values by name."""
        return read_references(self.content(tx, REFERENCE_VALUES))


def read_references(content: bytes | None) -> dict[str, JsonValue]:
    """Return the reference values of a document."""
    found = {} if content is None else json_value(content, what="reference values")
    return found if isinstance(found, dict) else {}


def references_content(values: Mapping[str, JsonValue]) -> bytes:
    """Return reference values in their stored form."""
    return json.dumps(dict(values), separators=(",", ":"), ensure_ascii=False, sort_keys=True).encode()

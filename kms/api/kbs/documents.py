"""Documents in force: the resource policy, attestation policies by class of device, and reference values by name.

Spec: specs/kbs-protocol.md, sections 16 and 17.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from attest.encoding import JsonValue, json_value
from kms.store import ReadTransaction

RESOURCE_POLICY: Final = "resource-policy"
_ATTESTATION: Final = "attestation-policy/"
_REFERENCE: Final = "reference-value/"


def attestation_policy_name(policy_id: str) -> str:
    """Return the document's name of an attestation policy, such as that of ``default_cpu``."""
    return _ATTESTATION + policy_id


def reference_name(name: str) -> str:
    """Return the document's name of a reference value."""
    return _REFERENCE + name


class Documents:
    """The documents in force, as one transaction sees them; each is read when it is asked for."""

    def __init__(self, tx: ReadTransaction) -> None:
        self._tx = tx

    def content(self, name: str) -> bytes | None:
        """Return the content of a document, or None."""
        found = self._tx.kbs_documents.newest(name)
        return None if found is None else found.content

    def attestation_policy(self, kind: str) -> bytes | None:
        """Return the attestation policy for a class of devices (``cpu``), or None."""
        return self.content(attestation_policy_name(f"default_{kind}"))

    def resource_policy(self) -> bytes | None:
        """Return the resource policy, or None."""
        return self.content(RESOURCE_POLICY)

    def reference(self, name: str) -> JsonValue | None:
        """Return a reference value, or None; a stored one is never null."""
        content = self.content(reference_name(name))
        return None if content is None else json_value(content, what="reference value")

    def references(self) -> Mapping[str, JsonValue]:
        """Return all reference values by name."""
        stored = (name for name in self._tx.kbs_documents.names() if name.startswith(_REFERENCE))
        names = (name.removeprefix(_REFERENCE) for name in stored)
        return {name: value for name in names if (value := self.reference(name)) is not None}


def reference_content(value: JsonValue) -> bytes:
    """Return a reference value in its stored form."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()

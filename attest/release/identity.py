"""A key-release service's statement about itself, and its proof. Both sides read and write it here.

::

    statement   canonical JSON: verifier key, TLS key, digest of the configuration, …
    binding     context "kms-identity/v1", role "service", audience as the client states it, nonce of the client,
                key = the verifier key's text, init_data = SHA-256 of the statement
    evidence    of the service's machine; its report commits to the binding
    note        a signed note of the service over nonce, audience, statement and evidence
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from hashlib import sha256
from typing import Any, cast

import rfc8785

from attest.encoding import JsonValue, base64url_bytes, base64url_text, hex_bytes, json_value
from attest.evidence.binding import Binding
from attest.evidence.envelope import Evidence, parse_envelope
from attest.release.wire import signed_text, texts_of, wire_invalid

CONTEXT = "kms-identity/v1"
"""The binding's context, distinct from that of a release."""
ROLE = "service"
ANYBODY = "anybody"
"""Audience of a client without a name; the nonce alone makes the evidence its own."""
SCHEMA = "kms.identity/1"
NOTE = "attest-service-identity/v1"
_TEXTS = ("verifier_key", "configuration_sha256", "anchors_sha256", "profile", "version")
_DIGEST_BYTES = 32


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceStatement:
    """A service's statement about itself, trusted once the evidence that commits to it is verified.

    Attributes:
        tls_spki_sha256: SHA-256 of the SubjectPublicKeyInfo of its TLS certificate, 32 bytes; None means plain HTTP.
        configuration_sha256: digest of its effective settings, 32 bytes; its log has their content.
        anchors_sha256: digest of the accepted roots, 32 bytes.
        allow_simulated: evidence of the simulator is accepted.
        profile: ``standard`` or ``production``.
    """

    verifier_key: str
    tls_spki_sha256: bytes | None
    configuration_sha256: bytes
    anchors_sha256: bytes
    allow_simulated: bool
    profile: str
    version: str

    def to_bytes(self) -> bytes:
        """Return the canonical JSON that the binding commits to."""
        tls = None if self.tls_spki_sha256 is None else self.tls_spki_sha256.hex()
        document: dict[str, JsonValue] = {
            "schema": SCHEMA,
            "verifier_key": self.verifier_key,
            "tls_spki_sha256": tls,
            "configuration_sha256": self.configuration_sha256.hex(),
            "anchors_sha256": self.anchors_sha256.hex(),
            "allow_simulated": self.allow_simulated,
            "profile": self.profile,
            "version": self.version,
        }
        return rfc8785.dumps(cast("dict[str, Any]", document))  # Any: JSON

    @staticmethod
    def parse(raw: bytes) -> ServiceStatement:
        """Parse a statement: exactly these members, in canonical form.

        Raises:
            EvidenceError: ``wire-invalid``, ``json-invalid`` or ``hex-invalid``.
        """
        document = json_value(raw, what="statement")
        members = dict(document) if isinstance(document, dict) else {}
        tls, simulated = members.pop("tls_spki_sha256", None), members.pop("allow_simulated", None)
        if members.pop("schema", None) != SCHEMA or not isinstance(simulated, bool) or not isinstance(tls, str | None):
            raise wire_invalid("statement", f"expected {SCHEMA}")
        texts = texts_of(members, _TEXTS, what="statement")
        statement = ServiceStatement(
            verifier_key=texts["verifier_key"],
            tls_spki_sha256=None if tls is None else _digest(tls, "tls_spki_sha256"),
            configuration_sha256=_digest(texts["configuration_sha256"], "configuration_sha256"),
            anchors_sha256=_digest(texts["anchors_sha256"], "anchors_sha256"),
            allow_simulated=simulated,
            profile=texts["profile"],
            version=texts["version"],
        )
        if statement.to_bytes() != raw:
            raise wire_invalid("statement", "it is not canonical")
        return statement


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceAttestation:
    """A service's proof of its identity, not verified."""

    statement: bytes
    evidence: Evidence
    note: str

    def to_json(self) -> dict[str, JsonValue]:
        """Return the JSON members."""
        evidence: JsonValue = json.loads(self.evidence.to_json())
        return {"statement": base64url_text(self.statement), "evidence": evidence, "note": self.note}

    @staticmethod
    def from_json(document: JsonValue) -> ServiceAttestation:
        """Read the JSON members.

        Raises:
            EvidenceError: ``wire-invalid``, ``base64-invalid``, or as ``parse_envelope``.
        """
        members = document if isinstance(document, dict) else {}
        statement, note = members.get("statement"), members.get("note")
        if set(members) != {"statement", "evidence", "note"} or not isinstance(statement, str):
            raise wire_invalid("attestation", "expected exactly statement, evidence and note")
        if not isinstance(note, str):
            raise wire_invalid("attestation", "note: expected text")
        return ServiceAttestation(
            statement=base64url_bytes(statement, what="statement"),
            evidence=parse_envelope(json.dumps(members["evidence"]).encode()),
            note=note,
        )


def identity_binding(statement: ServiceStatement, *, nonce: bytes, audience: str) -> Binding:
    """Return the binding of the service's evidence.

    The nonce is 32 bytes of the client; the audience is as the client states it.
    """
    return Binding(
        context=CONTEXT,
        role=ROLE,
        audience=audience,
        nonce=nonce,
        key=statement.verifier_key.encode(),
        init_data=sha256(statement.to_bytes()).digest(),
    )


def identity_note(*, nonce: bytes, audience: str, statement: bytes, evidence: Evidence) -> str:
    """Return the text that the service signs, which ties its proof to this nonce."""
    document: dict[str, JsonValue] = {
        "audience": audience,
        "nonce": nonce.hex(),
        "statement_sha256": sha256(statement).hexdigest(),
        "evidence": evidence.digest.hex(),
    }
    return signed_text(NOTE, document)


def _digest(text: str, name: str) -> bytes:
    return hex_bytes(text, what=name, length=_DIGEST_BYTES)

"""Policies and reference values that administrators upload.

Spec: specs/kbs-protocol.md, sections 16 and 17.
"""

from __future__ import annotations

import json
import re
from http import HTTPStatus
from typing import Final

from attest.encoding import JsonValue, base64_bytes, base64url_bytes, json_value
from attest.errors import AttestError, ConfigurationError
from kms.api.kbs.documents import (
    REFERENCE_VALUES,
    RESOURCE_POLICY,
    attestation_policy_name,
    read_references,
    references_content,
)
from kms.api.kbs.errors import KbsRefusal, Variant
from kms.api.kbs.rego_policies import require_attestation_policy, require_resource_policy
from kms.domain.actors import Actor
from kms.keys.kbs_documents import update_document
from kms.release.services import Services

_POLICY_ID: Final = re.compile(r"default_[a-z][a-z0-9-]{0,31}", re.ASCII)
_VERSION: Final = "0.1.0"
_EXTRACTOR: Final = "sample"
_MAX_NAME: Final = 256
_MAX_VALUES: Final = 256
_NOT_SET: Final = "Attestation error: Set Attestation Policy failed"


class Policies:
    """Policies and reference values of one service."""

    def __init__(self, services: Services) -> None:
        self._services = services

    def set_resource_policy(self, body: bytes, *, actor: Actor) -> None:
        """Put a resource policy into force.

        Raises:
            KbsRefusal: it is no Rego, with line and column; the one in force stays.
        """
        policy = _policy(_object(body, "ParsePolicyError"), "ParsePolicyError")
        try:
            require_resource_policy(policy)
        except ConfigurationError as exc:
            text = f"Policy engine error: {exc.message}"
            raise KbsRefusal(HTTPStatus.UNAUTHORIZED, "PolicyEngineError", text, exc.code) from exc
        self._set(RESOURCE_POLICY, policy, actor)

    def resource_policies(self) -> bytes:
        """Return the ids of the resource policies in force as JSON."""
        with self._services.store.reading() as tx:
            there = tx.kbs_documents.newest(RESOURCE_POLICY) is not None
        return json.dumps([RESOURCE_POLICY] if there else []).encode()

    def set_attestation_policy(self, body: bytes, *, actor: Actor) -> None:
        """Put an attestation policy for a class of devices into force.

        Raises:
            KbsRefusal: it is no Rego, with line and column, or not for a class of devices; the one in force stays.
        """
        members = _object(body, "AttestationError")
        policy, policy_id = _policy(members, "AttestationError"), members.get("policy_id")
        if not isinstance(policy_id, str) or not _POLICY_ID.fullmatch(policy_id):
            text = (
                "Set Attestation Policy failed: policy_id is default_CLASS, such as default_cpu [kbs-policy-id-invalid]"
            )
            raise KbsRefusal(HTTPStatus.UNAUTHORIZED, "AttestationError", text, code="kbs-policy-id-invalid")
        try:
            require_attestation_policy(policy)
        except ConfigurationError as exc:
            text = f"{_NOT_SET}: {exc.message}"
            raise KbsRefusal(HTTPStatus.UNAUTHORIZED, "AttestationError", text, exc.code) from exc
        self._set(attestation_policy_name(policy_id), policy, actor)

    def set_reference_values(self, body: bytes, *, actor: Actor) -> None:
        """Put reference values into force. Each replaces the one of the same name.

        Raises:
            KbsRefusal: the message is malformed, or of a form that this service does not read.
        """
        members = _object(body, "RvpsError")
        version, kind, payload = (members.get(name) for name in ("version", "type", "payload"))
        if version != _VERSION or kind != _EXTRACTOR or not isinstance(payload, str):
            raise _rvps(
                f"expected version {_VERSION}, the type {_EXTRACTOR!r} and a payload", code="kbs-reference-invalid"
            )
        try:
            values = json_value(base64_bytes(payload, what="payload"), what="payload")
        except AttestError as exc:
            raise _rvps(exc.message, code=exc.code) from exc
        if not isinstance(values, dict) or not 0 < len(values) <= _MAX_VALUES:
            raise _rvps(f"the payload is an object of 1 to {_MAX_VALUES} values", code="kbs-reference-invalid")
        if any(not 0 < len(name) <= _MAX_NAME or not name.isprintable() or one is None for name, one in values.items()):
            text = f"names have 1 to {_MAX_NAME} printable characters, and no value is null"
            raise _rvps(text, code="kbs-reference-invalid")
        update_document(
            self._services.store,
            REFERENCE_VALUES,
            lambda before: references_content({**read_references(before), **values}),
            actor=actor,
            at=self._services.clock(),
        )

    def reference_value(self, name: str) -> bytes:
        """Return a reference value as JSON.

        Raises:
            KbsRefusal: no reference value has this name.
        """
        with self._services.store.reading() as tx:
            document = tx.kbs_documents.newest(REFERENCE_VALUES)
        values = read_references(None if document is None else document.content)
        if name not in values:
            raise _rvps(f"there is no reference value {name[:_MAX_NAME]!r}", code="kbs-reference-unknown")
        return json.dumps(values[name], separators=(",", ":"), ensure_ascii=False).encode()

    def _set(self, name: str, content: bytes, actor: Actor) -> None:
        services = self._services
        update_document(services.store, name, lambda _: content, actor=actor, at=services.clock())


def _object(body: bytes, variant: Variant) -> dict[str, JsonValue]:
    try:
        found = json_value(body, what="the request")
    except AttestError as exc:
        raise KbsRefusal(HTTPStatus.UNAUTHORIZED, variant, exc.message, exc.code) from exc
    if not isinstance(found, dict):
        raise KbsRefusal(HTTPStatus.UNAUTHORIZED, variant, "the request is no object", code="kbs-request-malformed")
    return found


def _policy(members: dict[str, JsonValue], variant: Variant) -> bytes:
    text = members.get("policy")
    try:
        return base64url_bytes(text if isinstance(text, str) else "?", what="policy")
    except AttestError as exc:
        raise KbsRefusal(HTTPStatus.UNAUTHORIZED, variant, exc.message, exc.code) from exc


def _rvps(text: str, *, code: str) -> KbsRefusal:
    return KbsRefusal(HTTPStatus.UNAUTHORIZED, "RvpsError", text, code)

"""The Verifier of the release: an MAA-shaped endpoint, and the token that it issues about this guest.

The token is verified before it is sent on: issuer, signature, time, the key of this release and the report data.

Spec: specs/azure-skr.md, sections 8, 11 and 12.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from attest.encoding import JsonValue, base64url_text
from attest.errors import BindingError, EndorsementError, ReleaseRefusedError
from attest.policy.foreign.issuers import parse_issuer
from attest.release.transport import HttpAnswer, Timeouts, request
from attest.results import TokenKey, VerifiedServiceToken, read_jwks, verify_service_token
from attest.skr.encryption_key import EncryptionKey
from attest.skr.guest import RuntimeEvidence, SkrTee
from attest.skr.problems import answer_invalid, document_of, refusal_text

if TYPE_CHECKING:
    import httpx

PATHS: Final[Mapping[SkrTee, str]] = {
    "snp": "attest/SevSnpVm?api-version=2022-08-01",
    "tdx": "attest/TdxVm?api-version=2025-06-01",
}
"""Paths of requests by TEE."""
_REPORT_DATA: Final[Mapping[SkrTee, str]] = {"snp": "x-ms-sevsnpvm-reportdata", "tdx": "tdx_report_data"}
_KINDS: Final[Mapping[SkrTee, str]] = {"snp": "sev-snp", "tdx": "tdx"}
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
_DISCOVERY: Final = ".well-known/openid-configuration"
_JSON: Final = {"Content-Type": "application/json"}
_REPORT_DATA_BYTES: Final = 64
_WHO: Final = "the Verifier"


class MaaVerifier:
    """A Verifier.

    Args:
        http: an HTTP client with the Verifier as its base URL.
        issuer: required ``iss`` of its tokens.
        keys: keys that may sign them; empty asks the Verifier for its key set over this connection.
    """

    def __init__(self, http: httpx.Client, *, issuer: str, keys: tuple[TokenKey, ...]) -> None:
        self._http = http
        self._issuer = issuer
        self._keys = keys

    def token(
        self, evidence: RuntimeEvidence, *, tee: SkrTee, key: EncryptionKey, at: datetime, patience: Timeouts
    ) -> str:
        """Return a verified token about this guest with a key.

        Raises:
            ReleaseRefusedError: ``maa-refused`` or ``maa-failed``.
            BindingError: ``skr-token-mismatch``: the token is about another guest or key; ``service-answer-invalid``.
            AttestError: as ``verify_service_token`` and ``request``.
        """
        body = json.dumps(request_document(evidence, tee=tee, runtime_data=key.runtime_data)).encode()
        answer = request(self._http, "POST", PATHS[tee], content=body, headers=_JSON, patience=patience)
        token = _document(answer).get("token")
        if not isinstance(token, str):
            raise answer_invalid(_WHO, "no token")
        keys = self._keys or self._published(patience)
        try:
            verified = verify_service_token(token.encode(), trusted={self._issuer: keys}, at=at)
        except EndorsementError as exc:
            if exc.code == "token-key-unknown":
                exc.hint = "--maa-keys: give the present key set of the Verifier, or leave it out"
            raise
        _require_about(verified, tee, key)
        return token

    def _published(self, patience: Timeouts) -> tuple[TokenKey, ...]:
        """Return the key set that the Verifier publishes, at its own origin alone."""
        found = _document(request(self._http, "GET", _DISCOVERY, patience=patience))
        issuer, place = found.get("issuer"), found.get("jwks_uri")
        own = _origin(str(self._http.base_url))
        if issuer != self._issuer or not isinstance(place, str) or own is None or _origin(place) != own:
            raise answer_invalid(
                _WHO,
                f"a discovery document of another issuer than {self._issuer}, or with keys elsewhere",
                hint="--maa-issuer is the issuer of its tokens; --maa-keys takes their keys from a file",
            )
        answer = request(self._http, "GET", place, patience=patience)
        _document(answer)
        return read_jwks(answer.content)


def request_document(evidence: RuntimeEvidence, *, tee: SkrTee, runtime_data: bytes) -> dict[str, JsonValue]:
    """Return the body of a request for a token."""
    runtime: JsonValue = {"data": base64url_text(runtime_data), "dataType": "JSON"}
    if tee == "tdx":
        return {"quote": base64url_text(evidence.report), "runtimeData": runtime}
    report = {"SnpReport": base64url_text(evidence.report), "VcekCertChain": base64url_text(evidence.chain)}
    return {"report": base64url_text(json.dumps(report).encode()), "runtimeData": runtime}


def _document(answer: HttpAnswer) -> Mapping[str, JsonValue]:
    if answer.status == HTTPStatus.OK:
        return document_of(answer.content, who=_WHO)
    if answer.status < HTTPStatus.BAD_REQUEST:
        raise answer_invalid(_WHO, f"status {answer.status}, which is not followed")
    busy = answer.status >= HTTPStatus.INTERNAL_SERVER_ERROR or answer.status == HTTPStatus.TOO_MANY_REQUESTS
    raise ReleaseRefusedError(
        f"the Verifier issues no token: {refusal_text(answer)}",
        code="maa-failed" if busy else "maa-refused",
        status=answer.status,
        failed_checks=(),
        retry_after=answer.retry_after,
        hint="try later" if busy else "compare this machine with the policy of the Verifier",
    )


def _origin(url: str) -> tuple[str, str, int] | None:
    found = parse_issuer(url)
    return None if found is None else (found.scheme, found.host, found.port or _DEFAULT_PORTS[found.scheme])


def _require_about(token: VerifiedServiceToken, tee: SkrTee, key: EncryptionKey) -> None:
    """Require a token about this TEE, whose one encryption key is that of this release."""
    data = sha256(key.runtime_data).digest().ljust(_REPORT_DATA_BYTES, b"\0").hex()
    _require("x-ms-attestation-type", _KINDS[tee], token.facts[0].kind)
    _require(_REPORT_DATA[tee], data, token.claims.get(_REPORT_DATA[tee]))
    runtime = token.claims.get("x-ms-runtime")
    keys = runtime.get("keys") if isinstance(runtime, dict) else None
    found = keys[0] if isinstance(keys, list) and len(keys) == 1 else None
    members = found if isinstance(found, dict) else {}
    for name in ("kty", "kid", "n", "e"):
        _require(f"x-ms-runtime.keys[0].{name}", key.jwk[name], members.get(name))


def _require(field: str, expected: JsonValue, got: JsonValue) -> None:
    if expected != got:
        raise BindingError(
            f"the Verifier's token is not about this guest and its key: {field}",
            code="skr-token-mismatch",
            field=field,
            expected=str(expected)[:200],
            got=str(got)[:200],
        )

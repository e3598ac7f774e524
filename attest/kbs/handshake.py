"""Messages of the handshake from the guest's side: bodies to send, and answers to read strictly.

Spec: specs/kbs-protocol.md, sections 3, 5 and 18.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from attest.encoding import JsonValue, json_value
from attest.errors import (
    AttestError,
    BindingError,
    KeyUnknownError,
    PolicyNotMetError,
    ReleaseRefusedError,
    UnsupportedError,
)
from attest.release.exchange import strange_answer
from attest.release.transport import HttpAnswer

VERSION: Final = "0.4.0"
AUTH, ATTEST, RESOURCE = "auth", "attest", "resource"
"""Steps, by the first segment of their paths."""
_HASH: Final = "sha384"
_NONCE_CHARACTERS: Final = 4096
_SEVERAL: Final = HTTPStatus.MULTIPLE_CHOICES
_COOKIE: Final = "kbs-session-id"
_COOKIE_VALUE: Final = re.compile(r"[\x21\x23-\x2b\x2d-\x3a\x3c-\x5b\x5d-\x7e]{1,131072}")
"""Characters of a cookie's value (RFC 6265, section 4.1.1); as long as a service's head may be."""
_SHOWN: Final = 500
_MISMATCH: Final = "KBS Client Protocol Version Mismatch"
_POLICY_DENY: Final = "PolicyDeny"


def auth_body(tee: str) -> bytes:
    """Return the body of ``/auth``."""
    extra: JsonValue = {"supported-hash-algorithms": [_HASH]}
    return _json({"version": VERSION, "tee": tee, "extra-params": extra})


def attest_body(runtime: Mapping[str, JsonValue], *, primary: JsonValue, additional: str) -> bytes:
    """Return the body of ``/attest``."""
    evidence: JsonValue = {"primary_evidence": primary, "additional_evidence": additional}
    return _json({"init-data": None, "runtime-data": dict(runtime), "tee-evidence": evidence})


def additional_text(devices: Mapping[str, JsonValue]) -> str:
    """Return the evidence of devices as the text that is hashed and sent; empty without devices."""
    return _json(devices).decode() if devices else ""


def read_challenge(answer: HttpAnswer) -> str:
    """Return the nonce as text.

    Raises:
        BindingError: ``service-answer-invalid``: another document.
        UnsupportedError: ``kbs-hash-unsupported``: the service selects another hash than SHA-384.
        ReleaseRefusedError: as ``require_success``.
    """
    members = _document(answer, AUTH)
    nonce, extra = members.get("nonce"), members.get("extra-params")
    if not isinstance(nonce, str) or not 0 < len(nonce) <= _NONCE_CHARACTERS or "extra-params" not in members:
        raise strange_answer("no challenge: expected a nonce and extra-params")
    selected = extra.get("selected-hash-algorithm", _HASH) if isinstance(extra, dict) else _HASH
    if not isinstance(selected, str) or selected.lower() != _HASH:
        raise UnsupportedError(
            "the service selects another hash for the evidence",
            code="kbs-hash-unsupported",
            field="selected-hash-algorithm",
            expected=_HASH,
            got=str(selected)[:40],
        )
    return nonce


def read_token(answer: HttpAnswer) -> str:
    """Return the token, not verified.

    Raises:
        BindingError: ``service-answer-invalid``: another document.
        ReleaseRefusedError: as ``require_success``.
    """
    token = _document(answer, ATTEST).get("token")
    if not isinstance(token, str):
        raise strange_answer("no token")
    return token


def session_cookie(answer: HttpAnswer, *, held: str | None) -> str:
    """Return the session's cookie in an answer, as ``NAME=VALUE``; the held one where an answer sets none.

    Raises:
        BindingError: ``kbs-cookie-invalid``: none, several, or another cookie.
    """
    stated = answer.values("set-cookie")
    if not stated and held is not None:
        return held
    name, _, value = stated[0].partition(";")[0].partition("=") if len(stated) == 1 else ("", "", "")
    if name != _COOKIE or not _COOKIE_VALUE.fullmatch(value):
        got = ", ".join(one.partition("=")[0][:40] for one in stated) or "none"
        raise BindingError(
            "the service does not set the one cookie of a session",
            code="kbs-cookie-invalid",
            field="Set-Cookie",
            expected=f"one cookie {_COOKIE}",
            got=got[:200],
        )
    return f"{name}={value}"


def require_success(answer: HttpAnswer, step: str) -> bytes:
    """Return the content of an answer of status 200.

    Raises:
        ReleaseRefusedError: the service refuses, with its own text; ``PolicyNotMetError`` and ``KeyUnknownError`` where
            it says so.
        BindingError: ``service-answer-invalid``: another success, or a redirect, which is not followed.
    """
    if answer.status == HTTPStatus.OK:
        return answer.content
    if answer.status < HTTPStatus.BAD_REQUEST:
        kind = "a redirect" if answer.status >= _SEVERAL else "of another status than 200"
        raise strange_answer(f"{kind} (status {answer.status} of {step})")
    variant, detail = _problem(answer)
    code, kind_of_error, hint = _refusal(answer.status, step, variant, detail)
    raise kind_of_error(
        f"the service refuses {_STEPS[step]}: {detail}",
        code=code,
        status=answer.status,
        field=step,
        got=variant or f"status {answer.status}",
        failed_checks=(),
        retry_after=answer.retry_after,
        hint=hint,
    )


_STEPS: Final = {AUTH: "the session", ATTEST: "the evidence", RESOURCE: "the resource"}


def _refusal(status: int, step: str, variant: str, detail: str) -> tuple[str, type[ReleaseRefusedError], str | None]:
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR or status == HTTPStatus.TOO_MANY_REQUESTS:
        return "kbs-service-failed", ReleaseRefusedError, "try later; the service's log has the reason"
    if _MISMATCH in detail:
        return "kbs-version-refused", ReleaseRefusedError, f"this client speaks version {VERSION} of the protocol"
    if step == AUTH and status == HTTPStatus.NOT_FOUND:
        hint = "check the service's URL: no Key Broker Service is served below it"
        return "kbs-attestation-refused", ReleaseRefusedError, hint
    if step != RESOURCE:
        return "kbs-attestation-refused", ReleaseRefusedError, "the service's log has more about this evidence"
    if status == HTTPStatus.FORBIDDEN or variant == _POLICY_DENY:
        return "kbs-policy-denied", PolicyNotMetError, "compare this machine with the policies of the resource"
    if status == HTTPStatus.NOT_FOUND:
        return (
            "kbs-resource-missing",
            KeyUnknownError,
            "check the address; a resource can also be hidden from this guest",
        )
    return "kbs-resource-refused", ReleaseRefusedError, None


def _problem(answer: HttpAnswer) -> tuple[str, str]:
    """Return the last segment of the error's type and its text, as far as the answer has them."""
    try:
        document = json_value(answer.content, what="refusal")
    except AttestError:
        document = None
    members = document if isinstance(document, dict) else {}
    variant, detail = members.get("type"), members.get("detail")
    text = detail if isinstance(detail, str) and detail.strip() else f"status {answer.status} without a reason"
    return _shown(variant.rpartition("/")[2] if isinstance(variant, str) else ""), _shown(text)


def _shown(text: str) -> str:
    return "".join(one if one.isprintable() else " " for one in text[:_SHOWN]).strip()


def _document(answer: HttpAnswer, step: str) -> Mapping[str, JsonValue]:
    content = require_success(answer, step)
    try:
        document = json_value(content, what=f"answer of {step}")
    except AttestError as exc:
        raise strange_answer(f"not JSON ({step})") from exc
    if not isinstance(document, dict):
        raise strange_answer(f"no object ({step})")
    return document


def _json(document: Mapping[str, JsonValue]) -> bytes:
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()

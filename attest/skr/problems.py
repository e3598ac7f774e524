"""Answers of vaults and Verifiers that are no success: texts for people, and errors."""

from __future__ import annotations

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final

from attest.encoding import JsonValue, json_value
from attest.errors import AttestError, BindingError, KeyUnknownError, PolicyNotMetError, ReleaseRefusedError
from attest.release.transport import HttpAnswer

_SHOWN: Final = 500
_POLICIES: Final = "compare the token's claims with the key's policies"
_VERIFIER: Final = "the vault does not accept this Verifier's tokens: compare --maa with the authorities of the vault"
_TIMES: Final = "compare the clocks of machine, Verifier and vault, and the token age that the vault accepts"
_BRAKE: Final = "the vault's operator stops releases of this key at present: ask the operator"
DENIAL_HINTS: Final[Mapping[str, str]] = {
    "skr-permission-missing": "the caller needs the permission to release: the vault's operator grants it",
    **dict.fromkeys(("release-policy", "policy-not-met"), _POLICIES),
    **dict.fromkeys(
        ("token-issuer-untrusted", "token-key-unknown", "token-signature-invalid", "token-algorithm-refused"), _VERIFIER
    ),
    **dict.fromkeys(("token-expired", "token-not-yet-valid", "skr-token-too-old"), _TIMES),
    "skr-token-used": "the vault accepts a token once: repeat the command, which gets a new one",
    "token-audience-mismatch": "the Verifier's token is for another vault: ask its operator",
    "below-floor": "the firmware of this machine is below the level that the vault's operator requires: update it",
    "via-not-allowed": "the key is not released by this protocol: its administrator permits skr with --via",
    **dict.fromkeys(("key-disabled", "key-frozen", "tenant-frozen", "service-frozen", "product-frozen"), _BRAKE),
}
"""Remedies after a refusal with 403, by the reason that a service of this project states."""


def answer_invalid(who: str, problem: str, *, hint: str | None = None) -> BindingError:
    """Return the error for an answer outside of the protocol."""
    return BindingError(f"the answer of {who} is {problem}", code="service-answer-invalid", hint=hint)


def document_of(content: bytes, *, who: str) -> Mapping[str, JsonValue]:
    """Return an answer's object.

    Raises:
        BindingError: ``service-answer-invalid``.
    """
    try:
        document = json_value(content, what="answer")
    except AttestError as exc:
        raise answer_invalid(who, "not JSON") from exc
    if not isinstance(document, dict):
        raise answer_invalid(who, "no object")
    return document


def _members_of(answer: HttpAnswer) -> Mapping[str, JsonValue]:
    try:
        document = json_value(answer.content, what="refusal")
    except AttestError:
        document = None
    error = document.get("error") if isinstance(document, dict) else None
    return error if isinstance(error, dict) else {}


def _reason_of(answer: HttpAnswer) -> str:
    """Return the innermost code of a refusal. A service of this project states the reason there, Azure does not."""
    members = _members_of(answer)
    while isinstance(inner := members.get("innererror"), dict):
        members = inner
    code = members.get("code")
    return code if isinstance(code, str) else ""


def refusal_text(answer: HttpAnswer) -> str:
    """Return what a refusal says: ``code (inner code): message``, as far as it has them."""
    members = _members_of(answer)
    inner = members.get("innererror")
    codes = [members.get("code"), inner.get("code") if isinstance(inner, dict) else None, members.get("message")]
    texts = [one for one in codes if isinstance(one, str) and one.strip()]
    text = ": ".join(texts) or f"status {answer.status} without a reason"
    return "".join(one if one.isprintable() else " " for one in text[:_SHOWN])


def vault_refusal(answer: HttpAnswer) -> ReleaseRefusedError:
    """Return the error for a vault's refusal."""
    code, kind, hint = _refusal(answer.status)
    if answer.status == HTTPStatus.FORBIDDEN:
        hint = DENIAL_HINTS.get(_reason_of(answer), hint)
    return kind(
        f"the vault releases no key: {refusal_text(answer)}",
        code=code,
        status=answer.status,
        failed_checks=(),
        retry_after=answer.retry_after,
        hint=hint,
    )


def _refusal(status: int) -> tuple[str, type[ReleaseRefusedError], str | None]:
    match status:
        case HTTPStatus.UNAUTHORIZED:
            return "skr-unauthorized", ReleaseRefusedError, "the bearer token is for another vault, or has expired"
        case HTTPStatus.FORBIDDEN:
            hint = f"{_POLICIES}; the caller also needs the permission to release"
            return "skr-denied", PolicyNotMetError, hint
        case HTTPStatus.NOT_FOUND:
            return "skr-key-unknown", KeyUnknownError, "check vault, name and version of the key"
        case HTTPStatus.TOO_MANY_REQUESTS:
            return "skr-failed", ReleaseRefusedError, "try later"
        case _ if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            return "skr-failed", ReleaseRefusedError, "try later"
        case _:
            return "skr-refused", ReleaseRefusedError, None

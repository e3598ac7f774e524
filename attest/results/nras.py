"""Tokens of NVIDIA's Remote Attestation Service, read as Attestation Results (detached EAT, NRAS v3 and v4).

NVIDIA verified the evidence and signed its findings. Reliance on such a token is reliance on NVIDIA's service and on
the key set of the day of issue. This module proves that the token is genuine, whole and in time; ``appraise_nras``
judges its claims.

Spec: specs/nvidia-gpu.md, sections 17 and 18.
"""

from __future__ import annotations

import hmac
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from hashlib import sha256

from attest.checks import Check, judged
from attest.encoding import JsonValue, hex_bytes, json_value, rfc3339_text
from attest.errors import BindingError, SignatureError, VerificationError
from attest.results.ear import LATEST_SECONDS
from attest.results.jose import MAX_TOKEN_BYTES, SignedToken, TokenKey, unverified_claims, verify_token
from attest.results.nvidia_token_claims import nvidia_kind, nvidia_token_claims
from attest.results.token_facts import ClaimReader, TokenFacts, TokenFrame
from attest.results.token_refusal import TokenChecks, issuer_untrusted, token_malformed
from attest.verification import Freshness

NRAS_ISSUER = "https://nras.attestation.nvidia.com"
NRAS_INTERMEDIATE_SPKI = bytes.fromhex("fd32837f954e2c45db073105166dfe6985ae0480bb113fba63b091a75affe896")
"""SHA-256 of the key of ``NVIDIA Attestation Service GPU Intermediate 004``, which certifies NRAS's keys."""
SUBJECT = "NVIDIA-PLATFORM-ATTESTATION"
MAX_SUBMODULES = 32
_ALGORITHMS = frozenset({"ES384"})
_DIGEST = "SHA-256"
_NONCE_BYTES = 32
_CLAUSE = "NVIDIA nvtrust, detached EAT"
_malformed = partial(token_malformed, clause=_CLAUSE, what="token")


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedNrasToken:
    """A token of NRAS that is genuine, whole and in time. Built by ``verify_nras_token`` only.

    Attributes:
        submodules: the claims of each device (``GPU-0``).
        nonce: the nonce that all of them state, 32 bytes.
        facts: what it states about each device, in the vocabulary of verified evidence.
    """

    issuer: str
    claims: Mapping[str, JsonValue]
    submodules: Mapping[str, Mapping[str, JsonValue]]
    nonce: bytes
    key_id: str
    at: datetime
    freshness: Freshness
    facts: tuple[TokenFacts, ...]
    checks: tuple[Check, ...]


def verify_nras_token(
    data: bytes, *, trusted: Mapping[str, tuple[TokenKey, ...]], at: datetime, nonce: bytes | None = None
) -> VerifiedNrasToken:
    """Check that NRAS issued this token for this nonce, and that no part of it was exchanged.

    Args:
        data: the detached EAT, JSON.
        trusted: for each issuer the keys that may sign for it.
        at: moment of appraisal, aware; ``nbf <= at < exp``.
        nonce: what the token must answer, 32 bytes; None leaves freshness not evaluated.

    Raises:
        EvidenceError: ``token-malformed``, ``token-claim-invalid``, ``json-invalid`` or ``base64-invalid``.
        SignatureError: ``token-signature-invalid``, ``token-algorithm-refused`` or ``token-digest-mismatch``.
        BindingError: ``token-issuer-mismatch``, ``token-nonce-mismatch``, ``nonce-mismatch``.
        VerificationError: ``token-expired`` or ``token-not-yet-valid``.
        EndorsementError: ``token-issuer-untrusted`` or ``token-key-unknown``.
    """
    checks = TokenChecks(clause=_CLAUSE)
    with checks.reported(_CHECK_OF, otherwise="token.format", expected="a token of NRAS"):
        return _verified(data, checks, trusted=trusted, at=at, nonce=nonce)


def _verified(
    data: bytes, checks: TokenChecks, *, trusted: Mapping[str, tuple[TokenKey, ...]], at: datetime, nonce: bytes | None
) -> VerifiedNrasToken:
    # (1) Shape: the overall token, and one token for each device.
    overall_text, device_texts = _read(data)
    # (2) Signatures, with keys of the one issuer that the overall token names, which the caller must trust.
    issuer = _unverified_issuer(overall_text)
    keys = trusted.get(issuer)
    if not keys:
        raise issuer_untrusted(issuer, trusted, clause=_CLAUSE)
    overall = verify_token(overall_text, keys=keys, algorithms=_ALGORITHMS, what="the overall token")
    devices = {
        name: verify_token(text, keys=keys, algorithms=_ALGORITHMS, what=f"the token of {name}")
        for name, text in device_texts.items()
    }
    checks.passed("token.signature", f"{', '.join(_ALGORITHMS)} by a key of {issuer}", f"key {overall.kid}")
    # (3) The overall token names each of the others by digest, and no more.
    _require_digests(overall, device_texts)
    checks.passed("token.submodules", "the digest of every device's token", ", ".join(device_texts))
    # (4) All state the same issuer, subject and nonce, and all are in time.
    stated = _require_alike(overall, devices, issuer)
    for what, token in (("the overall token", overall), *((f"the token of {n}", t) for n, t in devices.items())):
        _require_in_time(token, what, at)
    checks.passed(
        "token.time", "nbf <= at < exp", rfc3339_text(at), clause="NVIDIA nvtrust, detached EAT; RFC 7519, 4.1"
    )
    # (5) Every claim that has a name of ours is of its type.
    facts = tuple(_facts(overall, name, device, nonce=stated) for name, device in devices.items())
    # (6) It repeats the expected nonce.
    freshness = checks.require_nonce(
        nonce,
        answers=lambda expected: hmac.compare_digest(expected, stated),
        got=stated.hex(),
        field="eat_nonce",
    )
    return VerifiedNrasToken(
        issuer=issuer,
        claims=overall.claims,
        submodules={name: token.claims for name, token in devices.items()},
        nonce=stated,
        key_id=overall.kid,
        at=at,
        freshness=freshness,
        facts=facts,
        checks=tuple(checks.made),
    )


def appraise_nras(token: VerifiedNrasToken) -> tuple[Check, ...]:
    """Return the statements of NRAS as checks: its overall result, and the measurements of every device.

    A missing claim fails like a negative one.
    """
    overall = token.claims.get("x-nvidia-overall-att-result")
    stated: list[tuple[str, str, JsonValue, bool, str | None]] = [
        ("policy.token.overall_result", "true", overall, overall is True, None)
    ]
    for name, claims in token.submodules.items():
        result = claims.get("measres")
        stated.append(("policy.token.measres", "success", result, result == "success", name))
    return tuple(
        judged(
            check_id,
            holds=holds,
            expected=expected,
            got="absent" if got is None else str(got).lower()[:120],
            clause="NVIDIA nvtrust, device claims 3.0",
            item=item,
        )
        for check_id, expected, got, holds, item in stated
    )


# -- the steps


def _read(data: bytes) -> tuple[str, dict[str, str]]:
    if len(data) > MAX_TOKEN_BYTES:
        raise _malformed(f"{len(data)} bytes, more than {MAX_TOKEN_BYTES}")
    match json_value(data, what="token"):
        case [["JWT", str(overall)], dict(submodules)] if 0 < len(submodules) <= MAX_SUBMODULES:
            texts = {name: text for name, text in submodules.items() if isinstance(text, str)}
            if len(texts) == len(submodules):
                return overall, texts
    raise _malformed(f'expected [["JWT", token], {{name: token}}] with 1 to {MAX_SUBMODULES} devices')


def _unverified_issuer(token: str) -> str:
    """Return the claimed issuer, which only selects among the trusted ones."""
    issuer = unverified_claims(token, what="the overall token", refusal=_malformed).get("iss")
    if not isinstance(issuer, str) or not 0 < len(issuer) <= 256:
        raise _malformed("the overall token states no issuer")
    return issuer


def _require_digests(overall: SignedToken, devices: Mapping[str, str]) -> None:
    submodules = overall.claims.get("submods")
    if not isinstance(submodules, dict) or set(submodules) != set(devices):
        named, got = (
            ", ".join(sorted(submodules)) if isinstance(submodules, dict) else "none",
            ", ".join(sorted(devices)),
        )
        raise _digest_mismatch(
            ("the overall token lists other devices than the tokens that came with it"), "submods", named, got
        )
    for name, text in devices.items():
        wanted: JsonValue = ["DIGEST", [_DIGEST, sha256(text.encode()).hexdigest()]]
        if submodules[name] != wanted:
            problem, stated = f"the overall token names another token for {name}", str(submodules[name])
            raise _digest_mismatch(problem, f"submods.{name}", stated, str(wanted))


def _digest_mismatch(problem: str, field: str, expected: str, got: str) -> SignatureError:
    return SignatureError(
        problem,
        code="token-digest-mismatch",
        field=field,
        expected=expected[:200],
        got=got[:200],
        clause=_CLAUSE,
    )


def _require_alike(overall: SignedToken, devices: Mapping[str, SignedToken], issuer: str) -> bytes:
    """Require one issuer and one nonce throughout, and return the nonce."""
    if overall.claims.get("sub") != SUBJECT:
        raise _malformed(f"sub: expected {SUBJECT}")
    stated = overall.claims.get("eat_nonce")
    if not isinstance(stated, str):
        raise _malformed("eat_nonce: expected hex")
    for name, token in devices.items():
        for claim, wanted, code in (
            ("iss", issuer, "token-issuer-mismatch"),
            ("eat_nonce", stated, "token-nonce-mismatch"),
        ):
            if token.claims.get(claim) != wanted:
                raise BindingError(
                    f"the token of {name} has another {claim} than the overall one",
                    code=code,
                    field=f"{name}: {claim}",
                    expected=wanted,
                    got=str(token.claims.get(claim))[:120],
                    clause=_CLAUSE,
                )
    return hex_bytes(stated, what="eat_nonce", length=_NONCE_BYTES)


def _require_in_time(token: SignedToken, what: str, at: datetime) -> None:
    begins, ends = (_moment(token, name, what) for name in ("nbf", "exp"))
    if begins <= at < ends:
        return
    early = at < begins
    raise VerificationError(
        f"{what} is {'not valid yet' if early else 'expired'} at {rfc3339_text(at)}",
        code="token-not-yet-valid" if early else "token-expired",
        field="nbf" if early else "exp",
        expected=f"{rfc3339_text(begins)} <= at < {rfc3339_text(ends)}",
        got=rfc3339_text(at),
        clause=_CLAUSE,
        hint="a token is valid for an hour: request a new one, or verify it at its time with --at",
    )


def _moment(token: SignedToken, name: str, what: str) -> datetime:
    value = token.claims.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= LATEST_SECONDS:
        raise _malformed(f"{what}: {name}: expected whole seconds since 1970")
    return datetime.fromtimestamp(value, tz=UTC)


def _facts(overall: SignedToken, name: str, device: SignedToken, *, nonce: bytes) -> TokenFacts:
    kind = nvidia_kind(device.claims, name)
    issued, expires = (_moment(overall, each, "the overall token") for each in ("nbf", "exp"))
    result = overall.claims.get("x-nvidia-overall-att-result")
    return TokenFacts(
        frame=TokenFrame(service="nras", issuer=str(overall.claims["iss"]), issued=issued, expires=expires),
        name=name,
        kind=kind,
        claims=nvidia_token_claims(ClaimReader(members=device.claims, path=name), kind),
        statements={"overall_result": result} if isinstance(result, bool) else {},
        nonces=(nonce,),
    )


_CHECK_OF = {
    "token-digest-mismatch": "token.submodules",
    "token-issuer-mismatch": "token.submodules",
    "token-nonce-mismatch": "token.submodules",
}

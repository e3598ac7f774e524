"""The token of ``/attest``: an EAR in the profile of Trustee, signed by this service.

Beside the claims that clients and policies read, ``kms.attestation`` carries the evidence, compressed, and what it must
commit to. The release of a resource verifies that evidence again, under the key's policy and at that moment: a token
alone releases nothing.

Spec: specs/kbs-protocol.md, section 11.
"""

from __future__ import annotations

import json
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from hashlib import sha256
from typing import Final

from attest import Evidence, ExpectedRuntimeData, __version__, parse_envelope
from attest.encoding import JsonValue, base64url_bytes, base64url_json, base64url_text
from attest.errors import AttestError, EvidenceError
from attest.kbs import TeeKey, read_tee_key
from attest.results import SigningKey, TokenKey, TrustVector, verify_token
from kms.domain.recent_values import RecentValues
from kms.release.foreign import ForeignTerms

PROFILE: Final = "tag:github.com,2024:confidential-containers/Trustee"
ALGORITHM: Final = "ES256"
MAX_TOKEN_CHARACTERS: Final = 126 * 1024
"""Longest token: with the other headers it fits into the head of a request, see ``kms.api.limits``."""
MAX_EVIDENCE_BYTES: Final = 2 * 1024 * 1024
ROLE: Final = "guest"
_WHAT: Final = "the attestation token"
_MEMBER: Final = "kms.attestation"
_LEVEL: Final = 1
"""Of compression: certificates and signatures hardly shrink, and a higher level takes ten times as long."""
MAX_REMEMBERED: Final = 64
"""Tokens that an issuer knows again without verifying them, and up to as many again: a guest asks right after."""
_LONG_TEXT: Final = 1024
"""Evidence of devices that is longer than this is left out of the shown claims; it is in ``kms.attestation``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Submodule:
    """The appraisal of one device in a token: its name (``cpu0``), vector, and claims as policies read them."""

    name: str
    vector: TrustVector
    claims: Mapping[str, JsonValue]
    extensions: Mapping[str, JsonValue]

    def members(self) -> dict[str, JsonValue]:
        """Return it as JSON members."""
        return {
            "ear.status": str(self.vector.tier),
            "ear.trustworthiness-vector": dict(self.vector.items()),
            "ear.appraisal-policy-id": "default",
            "ear.veraison.annotated-evidence": dict(self.claims),
            **self.extensions,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEvidence:
    """The evidence that a token carries.

    Attributes:
        terms: what it must carry, and proves.
        key: the guest's key, to which resources are encrypted.
    """

    evidence: Evidence
    terms: ForeignTerms
    key: TeeKey


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedToken:
    """A token that this service signed and that is in time.

    Attributes:
        claims: as resource policies read them: all but the attestation itself.
        issued_at: the beginning of its validity.
        expires_at: the end of its validity, excluded.
    """

    claims: Mapping[str, JsonValue]
    carried: TokenEvidence
    issued_at: datetime
    expires_at: datetime


class TokenIssuer:
    """Issuer and verifier of tokens.

    Args:
        key: P-256.
        issuer: the service's verifier key text, which names origin and key.
        lifetime_seconds: of a token.
    """

    def __init__(self, key: SigningKey, *, issuer: str, lifetime_seconds: int) -> None:
        self._key = key
        self._issuer = issuer
        self._lifetime = timedelta(seconds=lifetime_seconds)
        self._trusted = (TokenKey(kid=key.kid, jwk=key.jwk),)
        public = {name: key.jwk[name] for name in ("alg", "kty", "crv", "x", "y")}
        self._issued = RecentValues[bytes, OpenedToken](MAX_REMEMBERED)
        self._header = base64url_json({"typ": "JWT", "alg": ALGORITHM, "kid": key.kid, "jwk": public})

    @property
    def jwks(self) -> dict[str, JsonValue]:
        """The key set by which others verify tokens."""
        return {"keys": [self._key.jwk]}

    def issue(
        self, submodules: tuple[Submodule, ...], carried: TokenEvidence, *, simulated: bool, at: datetime
    ) -> tuple[str, datetime]:
        """Sign a token; return it with the end of its validity, excluded.

        Raises:
            EvidenceError: ``kbs-token-too-large``: the evidence does not fit into the head of a later request.
        """
        issued = int(at.timestamp())
        claims: dict[str, JsonValue] = {
            "eat_profile": PROFILE,
            "iat": issued,
            "exp": issued + int(self._lifetime.total_seconds()),
            "iss": self._issuer,
            "ear.verifier-id": {"developer": "attest", "build": f"kms {__version__}"},
            "submods": {one.name: one.members() for one in submodules},
            **({"simulated": True} if simulated else {}),
            _MEMBER: _members(carried),
        }
        signed = f"{self._header}.{base64url_json(claims)}"
        token = f"{signed}.{base64url_text(self._key.sign(signed.encode()))}"
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise EvidenceError(
                "the evidence is too large for a token, which later requests carry in their heads",
                code="kbs-token-too-large",
                field="tee-evidence",
                expected=f"a token of at most {MAX_TOKEN_CHARACTERS} characters",
                got=f"{len(token)} characters",
                hint="send fewer devices with one attestation",
            )
        opened = _opened(json.loads(json.dumps(claims)), carried, at)
        self._issued.put({_digest(token): opened})
        return token, opened.expires_at

    def open(self, token: str, *, at: datetime) -> OpenedToken:
        """Verify a token: this service signed it, and ``iat <= at < exp``.

        Raises:
            EvidenceError: ``token-malformed``, or ``token-expired``.
            EndorsementError: ``token-key-unknown``.
            SignatureError: ``token-signature-invalid`` or ``token-algorithm-refused``.
        """
        opened = self._issued.get(_digest(token)) or self._verified(token, at)
        if not opened.issued_at <= at < opened.expires_at:
            raise EvidenceError(
                f"{_WHAT} has expired", code="token-expired", field="exp", hint="attest again, which gives a new token"
            )
        return opened

    def _verified(self, token: str, at: datetime) -> OpenedToken:
        """Verify a token that another process issued, or this one a while ago."""
        if len(token) > MAX_TOKEN_CHARACTERS:
            raise _malformed("it is too long")
        ignored = frozenset({"jwk"})
        claims = verify_token(
            token, keys=self._trusted, algorithms=frozenset({ALGORITHM}), what=_WHAT, ignored_header=ignored
        ).claims
        issued, expires = claims.get("iat"), claims.get("exp")
        if claims.get("iss") != self._issuer or not isinstance(issued, int) or not isinstance(expires, int):
            raise _malformed("it was not issued by this service for this protocol")
        return _opened(claims, _carried(claims.get(_MEMBER)), at)


def _digest(token: str) -> bytes:
    return sha256(token.encode(errors="replace")).digest()


def _opened(claims: Mapping[str, JsonValue], carried: TokenEvidence, at: datetime) -> OpenedToken:
    """Return a genuine token, with moments in the time zone of ``at``."""
    issued, expires = (datetime.fromtimestamp(int(str(claims[name])), tz=at.tzinfo) for name in ("iat", "exp"))
    shown = {name: claim for name, claim in claims.items() if name != _MEMBER}
    return OpenedToken(claims=shown, carried=carried, issued_at=issued, expires_at=expires)


def _members(carried: TokenEvidence) -> dict[str, JsonValue]:
    terms = carried.terms
    return {
        "evidence": base64url_text(zlib.compress(carried.evidence.to_cbor(), level=_LEVEL)),
        "digest": base64url_text(terms.expected.digest),
        "device_digest": base64url_text(terms.expected.device_digest),
        "context": terms.context,
        "nonce": base64url_text(terms.nonce),
        "key": {**carried.key.jwk},
    }


def _carried(value: JsonValue) -> TokenEvidence:
    """Read what this service wrote; the token's signature was verified."""
    members = value if isinstance(value, dict) else {}
    texts = {name: text for name, text in members.items() if isinstance(text, str)}
    try:
        raw = {name: base64url_bytes(texts[name], what=_MEMBER) for name in ("digest", "device_digest", "nonce")}
        key = read_tee_key(members["key"])
        terms = ForeignTerms(
            expected=ExpectedRuntimeData(digest=raw["digest"], device_digest=raw["device_digest"]),
            context=texts["context"],
            role=ROLE,
            nonce=raw["nonce"],
            key=key.to_bytes(),
        )
        evidence = parse_envelope(_unpacked(base64url_bytes(texts["evidence"], what=_MEMBER)))
    except (KeyError, ValueError, zlib.error, AttestError) as exc:
        raise _malformed("it carries no evidence that can be read") from exc
    return TokenEvidence(evidence=evidence, terms=terms, key=key)


def _unpacked(compressed: bytes) -> bytes:
    unpacker = zlib.decompressobj()
    content = unpacker.decompress(compressed, MAX_EVIDENCE_BYTES + 1)
    if len(content) > MAX_EVIDENCE_BYTES or not unpacker.eof:
        raise ValueError("too long, or cut")
    return content


def shown_claims(claims: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    """Return runtime data for a token, without a long text of device evidence."""
    return {name: one for name, one in claims.items() if not (isinstance(one, str) and len(one) > _LONG_TEXT)}


def _malformed(problem: str) -> EvidenceError:
    return EvidenceError(f"{_WHAT} is refused: {problem}", code="token-malformed")

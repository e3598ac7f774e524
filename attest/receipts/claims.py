"""Claims of a receipt: one exchange, in digests alone, as CWT claims (RFC 8392) in deterministic CBOR.

::

    1   iss          text      the service's name: the audience of its binding
    6   iat          integer   Unix seconds at the end of the answer, by the machine's clock
    7   cti          16 bytes  identity of the receipt
    10  nonce        8 to 64 bytes, optional   the client's challenge
    265 eat_profile  text      "tag:attest,2026:receipt/1"
    statement, model           SHA-256 digests; see statement
    sequence                   from 0, one more for each exchange that the machine began
    request                    {"method", "target", "type", "size", "sha256"}
    response                   {"status", "type", "size", "sha256", "complete"}
    sampling                   parameter → canonical JSON (RFC 8785) of its value
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from attest.encoding import rfc3339_text
from attest.receipts.map_reader import MAX_UINT, MapReader, malformed
from attest.results.cbor import CborClaims, claims_bytes, claims_value

PROFILE: Final = "tag:attest,2026:receipt/1"
RECEIPT_ID_BYTES: Final = 16
CHALLENGE_BYTES: Final = range(8, 65)
"""As of a nonce in an EAT (RFC 9711, section 4.1)."""
MAX_TARGET_CHARACTERS: Final = 2048
MAX_TYPE_CHARACTERS: Final = 255
MAX_METHOD_CHARACTERS: Final = 32
MAX_NAME_CHARACTERS: Final = 512
MAX_PARAMETERS: Final = 32
MAX_PARAMETER_CHARACTERS: Final = 256
MAX_PARAMETER_NAME_CHARACTERS: Final = 64
_MAX_SECONDS: Final = 253402300799
"""The last second of the year 9999."""

ISS, IAT, CTI, NONCE, EAT_PROFILE = 1, 6, 7, 10, 265
_CLAIMS: Final = frozenset[int | str](
    {ISS, IAT, CTI, EAT_PROFILE, "statement", "model", "sequence", "request", "response", "sampling"}
)
_REQUEST: Final = frozenset[int | str]({"method", "target", "type", "size", "sha256"})
_RESPONSE: Final = frozenset[int | str]({"status", "type", "size", "sha256", "complete"})


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestClaim:
    """The request of an exchange.

    Attributes:
        target: path and query as received.
        media_type: value of Content-Type; empty without one.
        size: of the body, bytes.
        sha256: of the body.
    """

    method: str
    target: str
    media_type: str
    size: int
    sha256: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ResponseClaim:
    """The response of an exchange.

    Attributes:
        media_type: value of Content-Type; empty without one.
        size: of the body as sent, bytes.
        sha256: of the body as sent.
        complete: the application ended the body itself. False: the answer was cut off after ``size`` bytes.
    """

    status: int
    media_type: str
    size: int
    sha256: bytes
    complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ReceiptClaims:
    """The claims of one receipt; statements of a machine once its signatures and its chain are verified.

    Attributes:
        issuer: name of the service.
        issued_at: end of the answer, whole seconds, UTC, by the machine's clock.
        receipt_id: 16 random bytes.
        challenge: of the client, 8 to 64 bytes; None without one.
        statement: digest of the machine's statement, 32 bytes.
        model: digest of the model record in the statement, 32 bytes.
        sequence: number of the exchange under these receipt keys, from 0.
        sampling: parameters of the answer with their values as canonical JSON, in the order of their names.
    """

    issuer: str
    issued_at: datetime
    receipt_id: bytes
    challenge: bytes | None
    statement: bytes
    model: bytes
    sequence: int
    request: RequestClaim
    response: ResponseClaim
    sampling: tuple[tuple[str, str], ...] = ()

    def to_claims(self) -> CborClaims:
        """Return the claims by their labels."""
        return {
            ISS: self.issuer,
            IAT: int(self.issued_at.timestamp()),
            CTI: self.receipt_id,
            **({} if self.challenge is None else {NONCE: self.challenge}),
            EAT_PROFILE: PROFILE,
            "statement": self.statement,
            "model": self.model,
            "sequence": self.sequence,
            "request": {
                "method": self.request.method,
                "target": self.request.target,
                "type": self.request.media_type,
                "size": self.request.size,
                "sha256": self.request.sha256,
            },
            "response": {
                "status": self.response.status,
                "type": self.response.media_type,
                "size": self.response.size,
                "sha256": self.response.sha256,
                "complete": self.response.complete,
            },
            "sampling": dict(self.sampling),
        }

    def to_bytes(self) -> bytes:
        """Return the claims in deterministic CBOR: the payload of a receipt."""
        return claims_bytes(self.to_claims())

    def __str__(self) -> str:
        return f"receipt {self.receipt_id.hex()} of {self.issuer}, {rfc3339_text(self.issued_at)}"


def parse_claims(payload: bytes) -> ReceiptClaims:
    """Parse the payload of a receipt.

    Raises:
        EvidenceError: ``receipt-malformed`` or ``cbor-invalid``.
    """
    return claims_of(claims_value(payload, what="receipt claims", ordered=True))


def claims_of(value: object) -> ReceiptClaims:
    """Read claims by their labels; errors as ``parse_claims``."""
    claims = MapReader(value, "claims", _CLAIMS, optional=frozenset({NONCE}))
    profile = claims.text(EAT_PROFILE, MAX_TYPE_CHARACTERS)
    if profile != PROFILE:
        raise malformed("claims.265", PROFILE, profile)
    if claims.value(NONCE) is None and isinstance(value, Mapping) and NONCE in value:
        raise malformed("claims.10", "8 to 64 bytes, or no such claim", "null")
    return ReceiptClaims(
        issuer=claims.text(ISS, MAX_NAME_CHARACTERS),
        issued_at=moment_of(claims, IAT),
        receipt_id=claims.octets(CTI, range(RECEIPT_ID_BYTES, RECEIPT_ID_BYTES + 1)),
        challenge=claims.octets_or_none(NONCE, CHALLENGE_BYTES),
        statement=claims.octets("statement"),
        model=claims.octets("model"),
        sequence=claims.unsigned("sequence"),
        request=_request(claims.value("request")),
        response=_response(claims.value("response")),
        sampling=_sampling(claims.value("sampling")),
    )


def moment_of(claims: MapReader, name: int | str) -> datetime:
    """Return a moment from Unix seconds; errors as ``parse_claims``."""
    return datetime.fromtimestamp(claims.unsigned(name, _MAX_SECONDS), UTC)


def _request(value: object) -> RequestClaim:
    request = MapReader(value, "claims.request", _REQUEST)
    return RequestClaim(
        method=request.text("method", MAX_METHOD_CHARACTERS),
        target=request.text("target", MAX_TARGET_CHARACTERS),
        media_type=request.text("type", MAX_TYPE_CHARACTERS, empty=True),
        size=request.unsigned("size", MAX_UINT),
        sha256=request.octets("sha256"),
    )


def _response(value: object) -> ResponseClaim:
    response = MapReader(value, "claims.response", _RESPONSE)
    return ResponseClaim(
        status=response.unsigned("status", 999),
        media_type=response.text("type", MAX_TYPE_CHARACTERS, empty=True),
        size=response.unsigned("size", MAX_UINT),
        sha256=response.octets("sha256"),
        complete=response.flag("complete"),
    )


def _sampling(value: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(value, Mapping) or len(value) > MAX_PARAMETERS:
        raise malformed("claims.sampling", f"a map of at most {MAX_PARAMETERS} texts", "something else")
    for name, text in value.items():
        if not isinstance(name, str) or not 0 < len(name) <= MAX_PARAMETER_NAME_CHARACTERS or not name.isprintable():
            raise malformed("claims.sampling", "names of 1 to 64 printable characters", "another name")
        if not isinstance(text, str) or not 0 < len(text) <= MAX_PARAMETER_CHARACTERS or not text.isprintable():
            raise malformed(f"claims.sampling.{name}", "1 to 256 printable characters", "something else")
    return tuple(sorted(value.items()))

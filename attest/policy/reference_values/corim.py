"""Parser of CoRIM, a format of reference values, and verifier of its signature (draft-ietf-rats-corim).

This module takes one apart and verifies its signature; ``corim_import`` carries its values over. Carried are digests
that this project's policies compare: launch measurements under AMD's profile, MRTD, RTMRs, MRENCLAVE and MRSIGNER under
Intel's. Everything else in a CoRIM is listed in ``left_out``, so that the result is not mistaken for the whole. A
condition beside a carried value (a TCB, a flag) is left out in the same way, and is for the policy to state; a triple
with an unknown member never matches (the draft's own rule), and nothing of it is carried.

Spec: specs/eat-ear.md, section 11.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import sha256

from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.endorsements.cose import CoseKey, algorithm_numbers, cose_signature_holds
from attest.endorsements.tagged_cbor import Tagged, TaggedKey, TaggedValue, read_tagged
from attest.errors import EvidenceError, SignatureError

MAX_CORIM_BYTES = 4 * 1024 * 1024
CONTENT_TYPE = "application/rim+cbor"
_TAG_CORIM, _TAG_COMID, _TAG_OID, _TAG_TIME, _TAG_URI = 501, 506, 111, 1, 32
CORIM_CLAUSE = "draft-ietf-rats-corim"
_LATEST_SECONDS = 253402300799

CorimMap = Mapping[TaggedKey, TaggedValue]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedCorim:
    """A parsed CoRIM, unverified until ``verify_corim``.

    Attributes:
        profile: the URI, the OID's bytes, or None.
        not_after: of its validity, included.
        protected: the signed header, with ``payload`` and ``signature``; None where the CoRIM is not signed.
        algorithm: COSE's number.
        signer: name in the header, for people.
        left_out: its content outside of ``comids``.
    """

    id: str
    profile: str | bytes | None
    not_before: datetime | None
    not_after: datetime | None
    comids: tuple[CorimMap, ...]
    left_out: tuple[str, ...]
    protected: bytes | None = None
    payload: bytes = b""
    signature: bytes = b""
    algorithm: int | None = None
    signer: str | None = None


def parse_corim(data: bytes) -> ParsedCorim:
    """Parse a CoRIM: tag 501, or COSE_Sign1 (tag 18) around one. No signature is verified here.

    Raises:
        EvidenceError: ``corim-malformed`` or ``cbor-invalid``.
    """
    if len(data) > MAX_CORIM_BYTES:
        raise malformed("CoRIM", f"at most {MAX_CORIM_BYTES} bytes", f"{len(data)} bytes")
    match read_tagged(data, what="CoRIM"):
        case Tagged(tag=501, value=Mapping() as corim):
            return _corim(corim)
        case Tagged(tag=18, value=(bytes(protected), Mapping(), bytes(payload), bytes(signature))):
            return _signed(protected, payload, signature)
        case _:
            raise malformed("CoRIM", "tag 501, or tag 18 around four members", "something else")


def _signed(protected: bytes, payload: bytes, signature: bytes) -> ParsedCorim:
    header = require_map(read_tagged(protected, what="the protected header"), "the protected header")
    unknown = set(header) - {1, 3, 4, 8, 15}
    if unknown:
        # The hash-envelope form (258 to 260) signs a digest and not this payload; crit (2) is not understood.
        raise malformed("the protected header", "members 1, 3, 4, 8 and 15 only", str(sorted(map(str, unknown))))
    algorithm = header.get(1)
    if isinstance(algorithm, bool) or not isinstance(algorithm, int):
        raise malformed("alg", "an algorithm's number", "nothing, or something else")
    if header.get(3, CONTENT_TYPE) != CONTENT_TYPE:
        raise malformed("content type", CONTENT_TYPE, str(header.get(3))[:80])
    content = read_tagged(payload, what="the signed CoRIM")
    corim = content.value if isinstance(content, Tagged) and content.tag == _TAG_CORIM else content
    return replace(
        _corim(require_map(corim, "the signed CoRIM")),
        protected=protected,
        payload=payload,
        signature=signature,
        algorithm=algorithm,
        signer=_signer(header),
    )


def _signer(header: CorimMap) -> str | None:
    """Return the signer's name for people: from corim-meta, or the issuer of the CWT claims."""
    meta, claims = header.get(8), header.get(15)
    if isinstance(meta, bytes):
        meta = read_tagged(meta, what="corim-meta")
    if isinstance(meta, Mapping) and isinstance(signer := meta.get(0), Mapping):
        return corim_text(signer.get(0))
    return corim_text(claims.get(1)) if isinstance(claims, Mapping) else None


def _corim(corim: CorimMap) -> ParsedCorim:
    tags = corim.get(1)
    if not isinstance(tags, tuple) or not tags:
        raise malformed("tags", "at least one tag", "none")
    validity = require_map(corim.get(4, {}), "validity")
    comids, left_out = _comids(tags)
    if 2 in corim:
        left_out.append("dependent CoRIMs")
    return ParsedCorim(
        id=corim_text(corim.get(0)) or "without a name",
        profile=_profile(corim.get(3)),
        not_before=_moment(validity.get(0), "validity.not-before"),
        not_after=_moment(validity.get(1), "validity.not-after"),
        comids=comids,
        left_out=tuple(left_out),
    )


def _comids(tags: tuple[TaggedValue, ...]) -> tuple[tuple[CorimMap, ...], list[str]]:
    """Return the CoMIDs: each a byte string of tagged CBOR, or a tag around one."""
    comids: list[CorimMap] = []
    others: list[str] = []
    for at, tag in enumerate(tags):
        place = f"tags[{at}]"
        content = read_tagged(tag, what=place) if isinstance(tag, bytes) else tag
        if not isinstance(content, Tagged):
            raise malformed(place, "a tagged item", "an item without a tag")
        if content.tag != _TAG_COMID:
            others.append(f"{place}: tag {content.tag}, which is not a CoMID (506)")
            continue
        inner = content.value
        comids.append(require_map(read_tagged(inner, what=place) if isinstance(inner, bytes) else inner, place))
    return tuple(comids), others


def _profile(value: TaggedValue) -> str | bytes | None:
    """Return the profile; since draft 1 one, before a list of one."""
    if isinstance(value, tuple) and len(value) == 1:
        value = value[0]
    inner = value.value if isinstance(value, Tagged) and value.tag in (_TAG_URI, _TAG_OID) else value
    if inner is None or isinstance(inner, str | bytes):
        return inner
    raise malformed("profile", "a URI or an OID", "something else")


def _moment(value: TaggedValue, path: str) -> datetime | None:
    if value is None:
        return None
    seconds = value.value if isinstance(value, Tagged) and value.tag == _TAG_TIME else None
    if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 <= seconds <= _LATEST_SECONDS:
        raise malformed(path, "seconds since 1970 under tag 1", "something else")
    return datetime.fromtimestamp(seconds, UTC)


def verify_corim(parsed: ParsedCorim, *, key: CoseKey) -> bytes:
    """Check that one pinned key signed a CoRIM.

    Returns:
        The key's name: SHA-256 of its SubjectPublicKeyInfo.

    Raises:
        SignatureError: ``corim-signature-invalid``: not signed, by another key, or with another kind of algorithm.
    """
    if parsed.protected is None:
        raise _unsigned("a CoRIM without a signature")
    if parsed.algorithm is None or parsed.algorithm not in algorithm_numbers(key):
        raise _unsigned(f"COSE algorithm {parsed.algorithm}, which is not the key's")
    signed = {"protected": parsed.protected, "payload": parsed.payload, "signature": parsed.signature}
    if not cose_signature_holds(key, algorithm=parsed.algorithm, **signed):
        raise _unsigned("a signature that does not verify")
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def _unsigned(got: str) -> SignatureError:
    return SignatureError(
        f"the CoRIM is not signed by the given key: {got}",
        code="corim-signature-invalid",
        expected="COSE_Sign1 by the given key",
        got=got,
        clause=CORIM_CLAUSE,
    )


def corim_text(value: TaggedValue) -> str | None:
    """Return an id or a name as text for people: text, or the digits of bytes such as a UUID; None if there is none."""
    inner = value.value if isinstance(value, Tagged) else value
    if isinstance(inner, bytes):
        return inner.hex()[:128] or None
    text = inner.strip()[:128] if isinstance(inner, str) else ""
    return text or None


def require_map(value: TaggedValue, path: str) -> CorimMap:
    """Return a map.

    Raises:
        EvidenceError: ``corim-malformed``.
    """
    if not isinstance(value, Mapping):
        raise malformed(path, "a map", "nothing" if value is None else "something else")
    return value


def malformed(path: str, expected: str, got: str) -> EvidenceError:
    """Make the error for one place."""
    return EvidenceError(
        f"the CoRIM cannot be read: {path}: expected {expected}, got {got}",
        code="corim-malformed",
        field=path,
        expected=expected,
        got=got,
        clause=CORIM_CLAUSE,
    )

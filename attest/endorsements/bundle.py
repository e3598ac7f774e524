"""Offline bundles: what a vendor says, in one file that can be carried to a machine without a network.

Everything in a bundle is signed by its vendor, so a bundle can lie about nothing. What
it can do is withhold: a copy of last year hides what was revoked since. Therefore every bundle ends at a stated
moment, and an operator who wants to know who put it together signs it and lists the keys that count.

::

    bundle  = {"format": "attest.endorsements/1", "created": text, "expires": text,
               "entries": [{"kind": text, "source": text, "data": bytes}, …]}
    signed  = {"bundle": bytes of the above,
               "signatures": [{"algorithm": "Ed25519", "key_id": 32 bytes, "signature": 64 bytes}, …]}
    message = "attest endorsement bundle v1" ‖ NUL ‖ bytes of the bundle

Both are canonical CBOR (RFC 8949, section 4.2.1), so one bundle has one encoding. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from hashlib import sha256
from typing import Literal, TypeAlias, cast, get_args

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from attest.encoding import CborValue, cbor_bytes, cbor_value, rfc3339, rfc3339_text
from attest.endorsements.intel import IntelDocument, IntelDocumentKind
from attest.endorsements.intel_answers import parse_intel_crl, parse_intel_document
from attest.endorsements.ocsp_answers import OcspAnswer, parse_ocsp
from attest.endorsements.pool import Endorsements
from attest.endorsements.rims import RimDocument, parse_rim_answer
from attest.endorsements.x509 import Certificate, Crl, parse_certificate, parse_crl, pem_blocks
from attest.errors import ConfigurationError, EndorsementError, EvidenceError

__all__ = [
    "BUNDLE_FORMAT",
    "MAX_BUNDLE_BYTES",
    "MAX_ENTRIES",
    "BundleEntry",
    "BundleKeys",
    "BundleSignature",
    "BundleSigner",
    "BundleTrust",
    "EntryKind",
    "ParsedBundle",
    "UnsignedBundles",
    "VerifiedBundle",
    "build_bundle",
    "is_bundle",
    "key_id_of",
    "parse_bundle",
    "read_bundle_key",
    "sign_bundle",
    "verify_bundle",
]

BUNDLE_FORMAT = "attest.endorsements/1"
MAX_BUNDLE_BYTES = 16 * 1024 * 1024
"""A VCEK has 1.4 KiB and a chain 5 KiB: room for some 8,000 chips."""
MAX_ENTRIES = 8192
MAX_SIGNATURES = 16
MAX_SOURCE_CHARACTERS = 2048
MAX_CHAIN_CERTIFICATES = 8

EntryKind = Literal[
    "amd-vcek",
    "amd-chain",
    "amd-crl",
    "intel-tcb-info",
    "intel-qe-identity",
    "intel-crl",
    "nvidia-rim",
    "nvidia-ocsp",
]
"""What an entry holds: one DER certificate, PEM certificates, one DER revocation list; an answer of Intel's with its
issuer chain (``intel_answers.py``); an answer of NVIDIA's RIM service; or one OCSP answer."""

_DOMAIN = b"attest endorsement bundle v1\0"
_FORMAT_HEAD = cbor_bytes("format")
_FORMAT_FAMILY = b"attest.endorsements/"
_SIGNED_HEAD = cbor_bytes("bundle")
_SIGNATURE_BYTES = 64
_KEY_ID_BYTES = 32


# -- what a bundle is made of


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleEntry:
    """One answer of a vendor, as received.

    Attributes:
        kind: what ``data`` holds.
        source: where it came from, for people; nothing is ever fetched from here.
        data: DER for ``amd-vcek``, ``amd-crl`` and ``nvidia-ocsp``, PEM for ``amd-chain``, CBOR of body and issuer
            chain for Intel's, JSON for ``nvidia-rim``.
    """

    kind: EntryKind
    source: str
    data: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSignature:
    """One signature beside a bundle, not verified.

    Attributes:
        key_id: SHA-256 of the signer's SubjectPublicKeyInfo, 32 bytes.
        signature: 64 bytes, Ed25519.
    """

    key_id: bytes
    signature: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedBundle:
    """A readable bundle: a stranger's word until ``verify_bundle`` has judged its signature and its dates.

    Attributes:
        created: when it was put together, UTC.
        expires: end of its use, UTC, excluded.
        entries: the vendors' answers.
        signatures: in the order of their key ids, no key twice; empty for an unsigned bundle.
        inner: the bundle without its signatures, as received: what is signed.
        endorsements: what all entries hold.
    """

    created: datetime
    expires: datetime
    entries: tuple[BundleEntry, ...]
    signatures: tuple[BundleSignature, ...]
    inner: bytes
    endorsements: Endorsements = field(compare=False, repr=False)

    def to_bytes(self) -> bytes:
        """Encode again; equal to what ``parse_bundle`` accepted."""
        if not self.signatures:
            return self.inner
        signatures: list[CborValue] = [
            {"algorithm": "Ed25519", "key_id": made.key_id, "signature": made.signature} for made in self.signatures
        ]
        return cbor_bytes({"bundle": self.inner, "signatures": signatures})


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedBundle:
    """A bundle whose dates and, where demanded, signature hold. Built by ``verify_bundle`` only.

    Its certificates and lists are still only candidates: verification of evidence judges each of them.

    Attributes:
        signed_by: ids of the trusted keys whose signatures verified; empty when no signature was demanded.
        at: the moment for which this holds.
    """

    created: datetime
    expires: datetime
    entries: tuple[BundleEntry, ...]
    endorsements: Endorsements = field(compare=False, repr=False)
    signed_by: tuple[bytes, ...]
    at: datetime


class UnsignedBundles(enum.Enum):
    """The decision that no signature is demanded of a bundle: the vendors' signatures and the dates suffice."""

    ACCEPTED = "accepted"


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleKeys:
    """Who may sign bundles: one good signature of any of these is enough. The empty set accepts nobody."""

    keys: tuple[Ed25519PublicKey, ...]


BundleTrust: TypeAlias = BundleKeys | Literal[UnsignedBundles.ACCEPTED]


@dataclass(frozen=True, slots=True, kw_only=True)
class BundleSigner:
    """A signing key that lives elsewhere: a token, a service, a person with a key ceremony.

    Attributes:
        public_key: the key that others will list.
        sign: takes the message, returns 64 bytes.
    """

    public_key: Ed25519PublicKey
    sign: Callable[[bytes], bytes]


# -- making


def build_bundle(entries: Iterable[BundleEntry], *, created: datetime, expires: datetime) -> ParsedBundle:
    """Put answers of vendors together; an answer that stands twice is kept once.

    Args:
        entries: at least one and at most ``MAX_ENTRIES``; each is read, so that a bundle holds nothing unreadable.
        created: aware; now.
        expires: aware; the first moment at which the bundle must no longer be used.

    Raises:
        EndorsementError: ``bundle-malformed``, an entry that cannot be read, none at all, or too many.
        ValueError: a moment without a time zone, or ``created`` not before ``expires``.
    """
    begins, ends = rfc3339_text(created), rfc3339_text(expires)
    if created >= expires:
        msg = f"a bundle cannot end at {ends} when it begins at {begins}"
        raise ValueError(msg)
    records: list[CborValue] = [
        {"kind": entry.kind, "source": entry.source, "data": entry.data} for entry in dict.fromkeys(entries)
    ]
    bundle: CborValue = {
        "format": BUNDLE_FORMAT,
        "created": begins,
        "expires": ends,
        "entries": records,
    }
    return parse_bundle(cbor_bytes(bundle))


def key_id_of(key: Ed25519PublicKey) -> bytes:
    """SHA-256 of a key's SubjectPublicKeyInfo, 32 bytes: how a signature names its signer."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def sign_bundle(bundle: ParsedBundle, signer: BundleSigner | Ed25519PrivateKey) -> ParsedBundle:
    """Add a signature; one by the same key is replaced.

    Raises:
        EndorsementError: ``bundle-malformed``, more than ``MAX_SIGNATURES`` signatures.
        ValueError: the signer returned something that its public key does not verify.
    """
    if isinstance(signer, Ed25519PrivateKey):
        signer = BundleSigner(public_key=signer.public_key(), sign=signer.sign)
    message = _DOMAIN + bundle.inner
    signature = signer.sign(message)
    try:
        signer.public_key.verify(signature, message)
    except InvalidSignature as exc:
        msg = "the signer's signature does not verify with its own public key"
        raise ValueError(msg) from exc
    made = {old.key_id: old for old in bundle.signatures}
    key_id = key_id_of(signer.public_key)
    made[key_id] = BundleSignature(key_id=key_id, signature=signature)
    if len(made) > MAX_SIGNATURES:
        raise _malformed("signatures", f"at most {MAX_SIGNATURES}", str(len(made)))
    return ParsedBundle(
        created=bundle.created,
        expires=bundle.expires,
        entries=bundle.entries,
        signatures=tuple(made[name] for name in sorted(made)),
        inner=bundle.inner,
        endorsements=bundle.endorsements,
    )


def read_bundle_key(pem: bytes) -> Ed25519PublicKey:
    """Read the public key of somebody who may sign bundles, PEM with the label PUBLIC KEY.

    Raises:
        ConfigurationError: ``bundle-key-invalid``, not PEM or not an Ed25519 public key.
    """
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise ConfigurationError(
            "bundle key cannot be read", code="bundle-key-invalid", expected="an Ed25519 public key in PEM"
        ) from exc
    if not isinstance(key, Ed25519PublicKey):
        raise ConfigurationError(
            f"bundle key is of kind {type(key).__name__}, expected Ed25519",
            code="bundle-key-invalid",
            expected="an Ed25519 public key in PEM",
        )
    return key


# -- reading


def is_bundle(data: bytes) -> bool:
    """Say by the first bytes whether this is meant to be a bundle, of this version or another, signed or not."""
    if not data or not 0xA0 <= data[0] <= 0xBB:
        return False
    family = data[1 + len(_FORMAT_HEAD) :][:32]
    return data.startswith(_SIGNED_HEAD, 1) or (data.startswith(_FORMAT_HEAD, 1) and _FORMAT_FAMILY in family)


def parse_bundle(data: bytes) -> ParsedBundle:
    """Read a bundle, signed or not, with every certificate and list in it.

    Args:
        data: at most ``MAX_BUNDLE_BYTES`` of canonical CBOR, nothing before or after.

    Raises:
        EndorsementError: ``bundle-malformed``.
    """
    if len(data) > MAX_BUNDLE_BYTES:
        raise _malformed("bundle", f"at most {MAX_BUNDLE_BYTES} bytes", f"{len(data)} bytes")
    try:
        outer = cbor_value(data, what="bundle")
        if isinstance(outer, Mapping) and "bundle" in outer:
            members = _members(outer, ("bundle", "signatures"), "signed bundle")
            inner = _bytes(members["bundle"], "bundle")
            return _parse_inner(inner, cbor_value(inner, what="bundle"), _signatures(members["signatures"]))
        return _parse_inner(data, outer, ())
    except EvidenceError as exc:  # of the readers below: the same refusal, but the Verifier's to repair
        raise EndorsementError(exc.message, code="bundle-malformed", field=exc.field, hint=_FETCH_AGAIN) from exc


_FETCH_AGAIN = "make a new one with 'attest endorsements fetch'"


def _malformed(path: str, expected: str, got: str) -> EndorsementError:
    return EndorsementError(
        f"endorsement bundle: {path}: expected {expected}, got {got}",
        code="bundle-malformed",
        field=path,
        expected=expected,
        got=got,
        hint=_FETCH_AGAIN,
    )


def _parse_inner(inner: bytes, value: CborValue, signatures: tuple[BundleSignature, ...]) -> ParsedBundle:
    members = _members(value, ("format", "created", "expires", "entries"), "bundle")
    if members["format"] != BUNDLE_FORMAT:
        raise _malformed("format", BUNDLE_FORMAT, str(members["format"])[:40])
    created, expires = _moment(members["created"], "created"), _moment(members["expires"], "expires")
    if created >= expires:
        raise _malformed("expires", f"later than {rfc3339_text(created)}", rfc3339_text(expires))
    records = _array(members["entries"], "entries", limit=MAX_ENTRIES)
    if not records:
        raise _malformed("entries", "at least one", "none")
    entries = tuple(_entry(record, f"entries[{i}]") for i, record in enumerate(records))
    if len(set(entries)) != len(entries):
        raise _malformed("entries", "no entry twice", "one that stands twice")
    contents = [_read_content(entry, f"entries[{i}]") for i, entry in enumerate(entries)]
    return ParsedBundle(
        created=created,
        expires=expires,
        entries=entries,
        signatures=signatures,
        inner=inner,
        endorsements=Endorsements(
            certificates=tuple(certificate for content in contents for certificate in content.certificates),
            crls=tuple(crl for content in contents for crl in content.crls),
            documents=tuple(document for content in contents for document in content.documents),
            rims=tuple(rim for content in contents for rim in content.rims),
            ocsp=tuple(answer for content in contents for answer in content.ocsp),
        ),
    )


def _entry(value: CborValue, path: str) -> BundleEntry:
    members = _members(value, ("kind", "source", "data"), path)
    kind, source = _text(members["kind"], f"{path}.kind"), _text(members["source"], f"{path}.source")
    if kind not in get_args(EntryKind):
        raise _malformed(f"{path}.kind", " or ".join(get_args(EntryKind)), repr(kind[:40]))
    if len(source) > MAX_SOURCE_CHARACTERS or not (source.isascii() and source.isprintable()):
        raise _malformed(f"{path}.source", f"at most {MAX_SOURCE_CHARACTERS} printable characters", "other text")
    data = _bytes(members["data"], f"{path}.data")
    return BundleEntry(kind=cast("EntryKind", kind), source=source, data=data)  # kind was compared above


@dataclass(frozen=True, slots=True, kw_only=True)
class _Content:
    """What one entry holds."""

    certificates: tuple[Certificate, ...] = ()
    crls: tuple[Crl, ...] = ()
    documents: tuple[IntelDocument, ...] = ()
    rims: tuple[RimDocument, ...] = ()
    ocsp: tuple[OcspAnswer, ...] = ()


_DOCUMENTS: dict[EntryKind, IntelDocumentKind] = {"intel-tcb-info": "tcb-info", "intel-qe-identity": "qe-identity"}


def _read_content(entry: BundleEntry, path: str) -> _Content:
    """Read what an entry holds: exactly what its kind says, and nothing beside it."""
    try:
        match entry.kind:
            case "amd-vcek":
                return _Content(certificates=(parse_certificate(entry.data),))
            case "amd-crl":
                return _Content(crls=(parse_crl(entry.data),))
            case "amd-chain":
                return _Content(certificates=_chain(entry.data, path))
            case "intel-crl":
                crl, chain = parse_intel_crl(entry.data)
                return _Content(certificates=chain, crls=(crl,))
            case "nvidia-rim":
                return _Content(rims=(parse_rim_answer(entry.data).document,))
            case "nvidia-ocsp":
                return _Content(ocsp=(parse_ocsp(entry.data),))
            case _:  # intel-tcb-info, intel-qe-identity
                document, chain = parse_intel_document(entry.data, kind=_DOCUMENTS[entry.kind])
                return _Content(certificates=chain, documents=(document,))
    except EvidenceError as exc:
        raise _malformed(f"{path}.data", f"a readable {entry.kind}", exc.message) from exc


def _chain(data: bytes, path: str) -> tuple[Certificate, ...]:
    blocks = pem_blocks(data)
    if not 0 < len(blocks) <= MAX_CHAIN_CERTIFICATES or {label for label, _ in blocks} != {"CERTIFICATE"}:
        raise _malformed(f"{path}.data", "1 to 8 PEM certificates", f"{len(blocks)} PEM blocks")
    return tuple(parse_certificate(der) for _, der in blocks)


def _signatures(value: CborValue) -> tuple[BundleSignature, ...]:
    records = _array(value, "signatures", limit=MAX_SIGNATURES)
    signatures = tuple(_signature(record, f"signatures[{i}]") for i, record in enumerate(records))
    ids = [made.key_id for made in signatures]
    if not ids or ids != sorted(set(ids)):
        raise _malformed("signatures", "at least one, in the order of key ids, no key twice", f"{len(ids)} others")
    return signatures


def _signature(value: CborValue, path: str) -> BundleSignature:
    members = _members(value, ("algorithm", "key_id", "signature"), path)
    if members["algorithm"] != "Ed25519":
        raise _malformed(f"{path}.algorithm", "Ed25519", "another")
    return BundleSignature(
        key_id=_bytes(members["key_id"], f"{path}.key_id", length=_KEY_ID_BYTES),
        signature=_bytes(members["signature"], f"{path}.signature", length=_SIGNATURE_BYTES),
    )


def _members(value: CborValue, names: tuple[str, ...], path: str) -> Mapping[str, CborValue]:
    if not isinstance(value, Mapping) or set(value) != set(names):
        raise _malformed(path, f"a map of {', '.join(names)}", "something else")
    return value


def _array(value: CborValue, path: str, *, limit: int) -> tuple[CborValue, ...]:
    if not isinstance(value, list | tuple):
        raise _malformed(path, "an array", type(value).__name__)
    if len(value) > limit:
        raise _malformed(path, f"at most {limit}", str(len(value)))
    return tuple(value)


def _text(value: CborValue, path: str) -> str:
    if not isinstance(value, str):
        raise _malformed(path, "text", type(value).__name__)
    return value


def _bytes(value: CborValue, path: str, *, length: int | None = None) -> bytes:
    if not isinstance(value, bytes) or length not in (None, len(value)):
        raise _malformed(path, "a byte string" if length is None else f"{length} bytes", "something else")
    return value


def _moment(value: CborValue, path: str) -> datetime:
    text = _text(value, path)
    moment = rfc3339(text, what=path)
    if rfc3339_text(moment) != text:
        raise _malformed(path, f"{rfc3339_text(moment)}, the one spelling of this moment", repr(text))
    return moment


# -- judging


def verify_bundle(bundle: ParsedBundle, *, at: datetime, keys: BundleTrust) -> VerifiedBundle:
    """Require that a bundle may be used: signed by somebody who may, and neither too early nor too late.

    Args:
        bundle: as read; what it says of itself is not trusted yet.
        at: moment of appraisal, aware; ``created <= at < expires``.
        keys: who may sign, or ``UnsignedBundles.ACCEPTED``; then signatures are not looked at.

    Raises:
        EndorsementError: ``bundle-unsigned`` (keys were given and it has no signature),
            ``bundle-signature-invalid`` (none of a trusted key, or one that does not verify),
            ``bundle-not-yet-valid`` or ``bundle-expired``.
    """
    signed_by = () if keys is UnsignedBundles.ACCEPTED else _require_signed(bundle, keys)
    if not bundle.created <= at < bundle.expires:
        early = at < bundle.created
        raise EndorsementError(
            f"the endorsement bundle {'is from after' if early else 'expired before'} {rfc3339_text(at)}",
            code="bundle-not-yet-valid" if early else "bundle-expired",
            expected=f"created <= {rfc3339_text(at)} < expires",
            got=f"{rfc3339_text(bundle.created)} to {rfc3339_text(bundle.expires)}",
            hint="compare the clock, or the time given with --at, with that of the machine that made it"
            if early
            else _FETCH_AGAIN,
            retryable=early,
        )
    return VerifiedBundle(
        created=bundle.created,
        expires=bundle.expires,
        entries=bundle.entries,
        endorsements=bundle.endorsements,
        signed_by=signed_by,
        at=at,
    )


def _require_signed(bundle: ParsedBundle, trusted: BundleKeys) -> tuple[bytes, ...]:
    """Return the ids of the trusted keys that signed; every signature that names one of them must verify."""
    if not bundle.signatures:
        raise EndorsementError(
            "the endorsement bundle is not signed",
            code="bundle-unsigned",
            expected="a signature by a listed key",
            got="none",
        )
    known = {key_id_of(key): key for key in trusted.keys}
    signed_by: list[bytes] = []
    for made in bundle.signatures:
        key = known.get(made.key_id)
        if key is None:
            continue  # somebody else's signature neither helps nor harms
        try:
            key.verify(made.signature, _DOMAIN + bundle.inner)
        except InvalidSignature as exc:
            raise _not_signed(f"the signature of key {made.key_id.hex()} does not verify") from exc
        signed_by.append(made.key_id)
    if not signed_by:
        raise _not_signed(
            "only keys that are not listed signed: " + ", ".join(s.key_id.hex() for s in bundle.signatures)
        )
    return tuple(signed_by)


def _not_signed(problem: str) -> EndorsementError:
    return EndorsementError(
        f"the endorsement bundle is not signed by a listed key: {problem}",
        code="bundle-signature-invalid",
        expected="a signature by a listed key that verifies",
        got=problem,
    )

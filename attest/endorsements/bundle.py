"""Offline bundles: endorsements in one file for machines without a network.

The vendors sign everything in a bundle, so a bundle cannot forge endorsements. It
can withhold: an old copy hides recent revocations. Therefore every bundle expires at a stated
moment, and operators can sign bundles and list the accepted keys.

::

    bundle  = {"format": "attest.endorsements/1", "created": text, "expires": text,
               "entries": [{"kind": text, "source": text, "data": bytes}, …]}
    signed  = {"bundle": bytes of the above,
               "signatures": [{"algorithm": "Ed25519", "key_id": 32 bytes, "signature": 64 bytes}, …]}
    message = "attest endorsement bundle v1" ‖ NUL ‖ bytes of the bundle

Both are canonical CBOR (RFC 8949, section 4.2.1), so one bundle has one encoding. Times are RFC 3339 in UTC.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from hashlib import sha256

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key

from attest.encoding import CborValue, cbor_bytes, rfc3339_text
from attest.endorsements.bundle_reader import parse_bundle
from attest.endorsements.bundle_records import (
    BUNDLE_FORMAT,
    FETCH_AGAIN,
    MAX_SIGNATURES,
    BundleEntry,
    BundleKeys,
    BundleSignature,
    BundleSigner,
    BundleTrust,
    ParsedBundle,
    UnsignedBundles,
    VerifiedBundle,
    malformed,
)
from attest.errors import ConfigurationError, EndorsementError

_DOMAIN = b"attest endorsement bundle v1\0"


# -- making


def build_bundle(entries: Iterable[BundleEntry], *, created: datetime, expires: datetime) -> ParsedBundle:
    """Return a bundle of vendors' answers, without repetitions.

    Every entry is parsed, so that a bundle has no unreadable one. The end of its use, ``expires``, is excluded.

    Raises:
        EndorsementError: ``bundle-malformed``: an unreadable entry, none, or too many.
        ValueError: a moment without a time zone, or ``created`` not before ``expires``.
    """
    begins, ends = rfc3339_text(created), rfc3339_text(expires)
    if created >= expires:
        raise ValueError(f"a bundle cannot end at {ends} when it begins at {begins}")
    records: list[CborValue] = [{"kind": e.kind, "source": e.source, "data": e.data} for e in dict.fromkeys(entries)]
    bundle: CborValue = {"format": BUNDLE_FORMAT, "created": begins, "expires": ends, "entries": records}
    return parse_bundle(cbor_bytes(bundle))


def key_id_of(key: Ed25519PublicKey) -> bytes:
    """Return the SHA-256 of a key's SubjectPublicKeyInfo, 32 bytes: the signer's id in a signature."""
    return sha256(key.public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)).digest()


def sign_bundle(bundle: ParsedBundle, signer: BundleSigner | Ed25519PrivateKey) -> ParsedBundle:
    """Add a signature, in place of one by the same key.

    Raises:
        EndorsementError: ``bundle-malformed``, more than ``MAX_SIGNATURES`` signatures.
        ValueError: the signer's signature does not verify under its public key.
    """
    if isinstance(signer, Ed25519PrivateKey):
        signer = BundleSigner(public_key=signer.public_key(), sign=signer.sign)
    message = _DOMAIN + bundle.inner
    signature = signer.sign(message)
    try:
        signer.public_key.verify(signature, message)
    except InvalidSignature as exc:
        raise ValueError("the signer's signature does not verify with its own public key") from exc
    made = {old.key_id: old for old in bundle.signatures}
    key_id = key_id_of(signer.public_key)
    made[key_id] = BundleSignature(key_id=key_id, signature=signature)
    if len(made) > MAX_SIGNATURES:
        raise malformed("signatures", f"at most {MAX_SIGNATURES}", str(len(made)))
    return replace(bundle, signatures=tuple(made[name] for name in sorted(made)))


def read_bundle_key(pem: bytes) -> Ed25519PublicKey:
    """Parse the public key of a bundle's signer, PEM with the label PUBLIC KEY.

    Raises:
        ConfigurationError: ``bundle-key-invalid``, not PEM or not an Ed25519 public key.
    """
    expected = "an Ed25519 public key in PEM"
    try:
        key = load_pem_public_key(pem)
    except (ValueError, UnsupportedAlgorithm) as exc:
        raise ConfigurationError("bundle key cannot be read", code="bundle-key-invalid", expected=expected) from exc
    if not isinstance(key, Ed25519PublicKey):
        problem = f"bundle key is of kind {type(key).__name__}, expected Ed25519"
        raise ConfigurationError(problem, code="bundle-key-invalid", expected=expected)
    return key


# -- judging


def verify_bundle(bundle: ParsedBundle, *, at: datetime, keys: BundleTrust) -> VerifiedBundle:
    """Require a valid bundle: signed by an accepted key unless ``keys`` skips signatures, and within its period.

    Raises:
        EndorsementError: ``bundle-unsigned`` (keys were given, without a signature in the bundle),
            ``bundle-signature-invalid`` (none of a trusted key, or an invalid one), or outside
            ``created <= at < expires``: ``bundle-not-yet-valid`` or ``bundle-expired``.
    """
    signed_by = () if keys is UnsignedBundles.ACCEPTED else _require_signed(bundle, keys)
    if not bundle.created <= at < bundle.expires:
        raise _not_within(bundle, at)
    return VerifiedBundle(
        created=bundle.created,
        expires=bundle.expires,
        entries=bundle.entries,
        endorsements=bundle.endorsements,
        signed_by=signed_by,
        at=at,
    )


def _not_within(bundle: ParsedBundle, at: datetime) -> EndorsementError:
    early = at < bundle.created
    other_clock = "compare the clock, or the time given with --at, with that of the machine that made it"
    return EndorsementError(
        f"the endorsement bundle {'was made after' if early else 'expired before'} {rfc3339_text(at)}",
        code="bundle-not-yet-valid" if early else "bundle-expired",
        expected=f"created <= {rfc3339_text(at)} < expires",
        got=f"{rfc3339_text(bundle.created)} to {rfc3339_text(bundle.expires)}",
        hint=other_clock if early else FETCH_AGAIN,
        retryable=early,
    )


def _require_signed(bundle: ParsedBundle, trusted: BundleKeys) -> tuple[bytes, ...]:
    """Return the ids of the trusted keys that signed; every signature with one of them must verify."""
    if not bundle.signatures:
        problem, expected = "the endorsement bundle is not signed", "a signature by a listed key"
        raise EndorsementError(problem, code="bundle-unsigned", expected=expected, got="none")
    known = {key_id_of(key): key for key in trusted.keys}
    ours = [made for made in bundle.signatures if made.key_id in known]  # those of other keys have no effect
    if not ours:
        ids = ", ".join(made.key_id.hex() for made in bundle.signatures)
        raise _not_signed(f"only keys that are not listed signed: {ids}")
    for made in ours:
        try:
            known[made.key_id].verify(made.signature, _DOMAIN + bundle.inner)
        except InvalidSignature as exc:
            raise _not_signed(f"the signature of key {made.key_id.hex()} does not verify") from exc
    return tuple(made.key_id for made in ours)


def _not_signed(problem: str) -> EndorsementError:
    return EndorsementError(
        f"the endorsement bundle is not signed by a listed key: {problem}",
        code="bundle-signature-invalid",
        expected="a signature by a listed key that verifies",
        got=problem,
    )

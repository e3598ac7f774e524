"""Google's launch endorsement: measurements of the firmware of Compute Engine, signed by its builder.

A ``VMLaunchEndorsement`` holds a serialized ``VMGoldenMeasurement`` and a signature over exactly these bytes. The
certificate of the signing key lies within the signed bytes; Google's root issued it. The root is the caller's to name:
none is shipped, and none is taken from the endorsement.

Status: from Google's published messages and verifier; no endorsement of a running machine was available. An endorsement
and its certificate cannot be revoked.

Spec: google/gce-tcb-verifier, proto/endorsement.proto, README.md and gcetcbendorsement/README.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding, rsa

from attest.endorsements.chains import require_ca, require_understood, require_valid
from attest.endorsements.signatures import load_public_key
from attest.endorsements.x509 import Certificate, parse_certificate, pem_blocks
from attest.errors import ChainError, ConfigurationError, EvidenceError, SignatureError
from attest.measure.protobuf import ProtobufMessage, parse_protobuf

MAX_ENDORSEMENT_BYTES = 1 << 20
"""Real ones have some 10 KiB."""
MAX_MEASUREMENTS = 1024

_CLAUSE = "gce-tcb-verifier, proto/endorsement.proto"
_DIGEST_BYTES = 48
_UUID_BYTES = 16
_PSS = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=32)
_PSS_SHA256 = (
    "304106092a864886f70d01010a3034a00f300d06096086480165030402010500"
    "a11c301a06092a864886f70d010108300d06096086480165030402010500a203020120"
)
_RSA_SHA256 = "300d06092a864886f70d01010b0500"
_CERTIFICATE_SCHEMES: dict[bytes, padding.AsymmetricPadding] = {
    bytes.fromhex(_PSS_SHA256): _PSS,
    bytes.fromhex(_RSA_SHA256): padding.PKCS1v15(),
}
"""Signature algorithms by DER AlgorithmIdentifier; the salt has 32 bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SnpGoldenMeasurements:
    """MEASUREMENT of SEV-SNP guests by the number of virtual processors at launch."""

    svn: int
    measurements: tuple[tuple[int, bytes], ...]
    family_id: bytes
    image_id: bytes
    policy: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxGoldenMeasurement:
    """MRTD of TDs.

    Attributes:
        ram_gib: memory of the machine in GiB; 0 where MRTD does not depend on it.
        early_accept: all memory is accepted by the firmware.
    """

    ram_gib: int
    early_accept: bool
    mr_td: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxGoldenMeasurements:
    """MRTD of every configuration that the provider starts."""

    svn: int
    measurements: tuple[TdxGoldenMeasurement, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedLaunchEndorsement:
    """An endorsement as read; nothing of it is verified.

    Attributes:
        signed: the serialized golden measurement, the bytes that are signed.
        certificate: DER certificate of the signing key, from the signed bytes.
        issued: moment that the endorsement names as its own.
        changelist: number of the source that the firmware was built from; 0 if not stated.
        commit: digest of the source; empty if not stated.
        firmware_sha384: SHA-384 of the firmware image.
    """

    signed: bytes
    signature: bytes
    certificate: bytes
    issued: datetime
    changelist: int
    commit: bytes
    firmware_sha384: bytes
    snp: SnpGoldenMeasurements | None
    tdx: TdxGoldenMeasurements | None


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedLaunchEndorsement:
    """An endorsement that verifies under Google's root at the given moment."""

    parsed: ParsedLaunchEndorsement
    signer: Certificate


# -- reading


def parse_launch_endorsement(data: bytes) -> ParsedLaunchEndorsement:
    """Read a binary-serialized ``VMLaunchEndorsement``.

    Unknown fields of the unsigned outer message are refused; those of the signed one are ignored.

    Raises:
        EvidenceError: ``launch-endorsement-malformed``, ``protobuf-malformed`` or ``truncated``.
    """
    if len(data) > MAX_ENDORSEMENT_BYTES:
        raise _malformed(f"{len(data)} bytes, at most {MAX_ENDORSEMENT_BYTES}")
    outer = parse_protobuf(data, what="launch endorsement")
    if set(outer.fields) != {1, 2}:
        raise _malformed("expected a golden measurement and a signature, and nothing else")
    signed = outer.data(1)
    golden = parse_protobuf(signed, what="golden measurement")
    snp, tdx = golden.message(7, "SEV-SNP measurements"), golden.message(8, "TDX measurements")
    if snp is None and tdx is None:
        raise _malformed("it endorses neither SEV-SNP nor TDX")
    return ParsedLaunchEndorsement(
        signed=signed,
        signature=outer.data(2),
        certificate=golden.data(4),
        issued=_moment(golden.message(1, "timestamp")),
        changelist=golden.number(2),
        commit=golden.data(3),
        firmware_sha384=_sized(golden.data(5), _DIGEST_BYTES, "digest of the firmware"),
        snp=None if snp is None else _snp(snp),
        tdx=None if tdx is None else _tdx(tdx),
    )


def _moment(timestamp: ProtobufMessage | None) -> datetime:
    if timestamp is None:
        raise _malformed("it names no time")
    try:
        return datetime.fromtimestamp(timestamp.number(1), UTC)
    except (ValueError, OverflowError, OSError) as exc:
        raise _malformed("its time is none") from exc


def _snp(message: ProtobufMessage) -> SnpGoldenMeasurements:
    rows = tuple(
        (row.number(1), _sized(row.data(2), _DIGEST_BYTES, "measurement"))
        for row in message.messages(2, "SEV-SNP measurement")
    )
    _require_distinct([count for count, _ in rows], "numbers of virtual processors")
    return SnpGoldenMeasurements(
        svn=message.number(1),
        measurements=tuple(sorted(rows)),
        family_id=_sized(message.data(3), _UUID_BYTES, "family id"),
        image_id=_sized(message.data(4), _UUID_BYTES, "image id"),
        policy=message.number(5),
    )


def _tdx(message: ProtobufMessage) -> TdxGoldenMeasurements:
    rows = tuple(
        TdxGoldenMeasurement(
            ram_gib=row.number(1),
            early_accept=bool(row.number(2)),
            mr_td=_sized(row.data(3), _DIGEST_BYTES, "MRTD"),
        )
        for row in message.messages(2, "TDX measurement")
    )
    _require_distinct([(row.ram_gib, row.early_accept) for row in rows], "configurations")
    return TdxGoldenMeasurements(svn=message.number(1), measurements=rows)


def _require_distinct(keys: list[int] | list[tuple[int, bool]], what: str) -> None:
    if not keys or len(keys) > MAX_MEASUREMENTS or len(set(keys)) != len(keys):
        raise _malformed(f"{len(keys)} measurements of {len(set(keys))} {what}, at most {MAX_MEASUREMENTS}")


def _sized(value: bytes, size: int, what: str) -> bytes:
    if len(value) != size:
        raise _malformed(f"{what} of {len(value)} bytes, expected {size}")
    return value


# -- verifying


def verify_launch_endorsement(
    endorsement: ParsedLaunchEndorsement, *, root: Certificate, at: datetime
) -> VerifiedLaunchEndorsement:
    """Check that the root issued the certificate of the signing key, and that this key signed the endorsement.

    Args:
        endorsement: not trusted yet.
        root: Google's root for launch endorsements, from a place that the caller trusts.
        at: moment of use, UTC; validity bounds are inclusive.

    Raises:
        EvidenceError: ``certificate-malformed``.
        ChainError: ``root-not-trusted``, ``certificate-expired``, ``certificate-not-yet-valid``,
            ``critical-extension-unknown`` or ``public-key-invalid``.
        SignatureError: ``launch-endorsement-signature-invalid``.
    """
    signer = parse_certificate(endorsement.certificate)
    _require_issued(signer, root)
    for certificate in (root, signer):
        require_valid(certificate, at=at)
    require_understood(signer)
    if not _holds(endorsement.signed, endorsement.signature, signer.spki, _PSS):
        raise SignatureError(
            "the signature over the golden measurement does not verify",
            code="launch-endorsement-signature-invalid",
            expected="RSASSA-PSS with SHA-256 by the key of the certificate within",
            clause=_CLAUSE,
        )
    return VerifiedLaunchEndorsement(parsed=endorsement, signer=signer)


def parse_root(data: bytes) -> Certificate:
    """Read the certificate of a root, DER or PEM.

    Raises:
        ConfigurationError: ``launch-root-invalid``: no certificate, several, or not that of a root.
    """
    try:
        blocks = [content for _, content in pem_blocks(data)] if b"-----BEGIN" in data else [data]
        found = [parse_certificate(block) for block in blocks]
        for certificate in found:
            require_ca(certificate)
    except (EvidenceError, ChainError) as exc:
        raise _no_root(exc.message) from exc
    if len(found) != 1 or found[0].issuer != found[0].subject:
        raise _no_root("it is not one certificate of a CA that issued itself")
    return found[0]


def _require_issued(signer: Certificate, root: Certificate) -> None:
    """Require name and signature of the root; other certificates within the endorsement count nothing.

    NOTE: Google's verifier takes any algorithm of a certificate. Its published test certificates have RSASSA-PSS;
    PKCS #1 v1.5 is accepted beside it, both with SHA-256, since the root of production was not available.
    """
    scheme = _CERTIFICATE_SCHEMES.get(signer.algorithm)
    if signer.issuer != root.subject or scheme is None or not _holds(signer.tbs, signer.signature, root.spki, scheme):
        raise ChainError(
            "the given root did not issue the certificate of the signing key",
            code="root-not-trusted",
            expected=f"a certificate by {root.name}, signed with RSA and SHA-256",
            got=f"one by {signer.issuer_common_name}",
            clause=_CLAUSE,
            hint="give Google's root for launch endorsements, GCE-cc-tcb-root",
        )


def _holds(signed: bytes, signature: bytes, spki: bytes, scheme: padding.AsymmetricPadding) -> bool:
    key = load_public_key(spki)
    if not isinstance(key, rsa.RSAPublicKey):
        raise ChainError(
            "a signing key is of another kind than Google's", code="public-key-invalid", expected="RSA", clause=_CLAUSE
        )
    try:
        key.verify(signature, signed, scheme, hashes.SHA256())
    except InvalidSignature:
        return False
    return True


def _no_root(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"this is no root of launch endorsements: {problem}",
        code="launch-root-invalid",
        expected="one certificate, DER or PEM",
        hint="get GCE-cc-tcb-root_1.crt from Google's certificate site, and compare it with a second source",
    )


def _malformed(problem: str) -> EvidenceError:
    return EvidenceError(
        f"this is no launch endorsement of Compute Engine: {problem}",
        code="launch-endorsement-malformed",
        expected="a binary-serialized VMLaunchEndorsement",
        clause=_CLAUSE,
        hint="give the file as the provider serves it, named by its measurement with the ending .binarypb",
    )

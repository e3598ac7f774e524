"""Reference integrity manifests of NVIDIA: contents, signers and validity (specs/nvidia-gpu.md, section 9).

Three checks, each with a refusal of its own: the XML signature holds (``verify_rim_signature``), its signer leads to a
pinned root (``find_signers``), and all of them are valid at a moment (``require_window``). Only together do they make a
``VerifiedRim``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from types import MappingProxyType

from cryptography.hazmat import asn1
from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import rfc3339_text
from attest.endorsements.anchors import Anchor, AnchorRole, TrustAnchors
from attest.endorsements.asn1 import BasicConstraints, KeyUsageHolder, tlv
from attest.endorsements.chains import require_ca, require_issued, untrusted_root
from attest.endorsements.rims import RimDocument
from attest.endorsements.signatures import SignatureAlgorithm, load_public_key
from attest.endorsements.x509 import Certificate, parse_certificate
from attest.errors import ChainError, EndorsementError, EvidenceError, SignatureError
from attest.evidence.gpu.chain import pinned_root
from attest.evidence.gpu.rim_document import RimEdition, read_content
from attest.evidence.gpu.xml_signature import SignatureState, malformed, read_signed_document

EMBEDDED_CERTIFICATES = 4
"""L4 signer, L3, L2, root; the root is only ever compared with a pin (section 9.4)."""
_REMEMBERED = 32
"""Few, because a RIM may have 256 KiB, and the Attester chooses it."""
_ROLE: AnchorRole = "nvidia-rim-root"
_CLAUSE = "NVIDIA nvtrust, RIM certificates; RFC 5280, 6.1"
_DIGITAL_SIGNATURE = 0x80
_NOTHING: Mapping[int, tuple[bytes, ...]] = MappingProxyType({})

RimSigners = tuple[Certificate, Certificate, Certificate]
"""L4, which signed the document, with its issuers L3 and L2."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ParsedRim:
    """A readable RIM. Its text is unverified: it serves to choose among RIMs and for nothing else.

    Attributes:
        product: ``GH100``, ``GB100``, ``LS10``.
        edition: ``GPU`` for driver and VBIOS alike, ``SWITCH``.
        version: ``colloquialVersion``, of the driver, VBIOS or BIOS.
        tag_id: the SWID tag's id; several issues share one.
        reference_values: RIM index to its alternatives of 48 bytes, active records only; empty unless ``signature``
            is ``valid``, so that nothing is compared with unsigned values.
        names: NVIDIA's names of these values by index.
        certificates: as embedded, signer first; the signature was verified with the key of the first.
        signature: ``valid``, or which half of the XML signature does not hold.
    """

    document: RimDocument
    product: str
    edition: RimEdition
    version: str
    tag_id: str
    reference_values: Mapping[int, tuple[bytes, ...]]
    names: Mapping[int, str]
    certificates: tuple[Certificate, ...]
    signature: SignatureState


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class VerifiedRim:
    """A RIM whose signature holds and whose signers lead to a pinned root.

    Attributes:
        signers: L4, L3 and L2, whose revocation counts.
        not_before: first moment at which all four of its certificates are valid, included.
        not_after: last such moment, included.
    """

    parsed: ParsedRim
    signers: RimSigners
    anchor: Anchor
    not_before: datetime
    not_after: datetime


# -- reading


@lru_cache(maxsize=_REMEMBERED)
def read_rim(document: RimDocument) -> ParsedRim:
    """Read a RIM and verify its XML signature with the key of its first certificate.

    A pure function of the bytes, remembered in a bounded table: neither dates nor anchors are looked at.

    Raises:
        EvidenceError: ``rim-malformed``.
        UnsupportedError: ``rim-unsupported``, it carries numeric reference values.
        ConfigurationError: ``rim-library-missing``.

    Spec: specs/nvidia-gpu.md, sections 9.2 and 9.3.
    """
    signed = read_signed_document(document.xml)
    content = read_content(signed.root)
    return ParsedRim(
        document=document,
        product=content.product,
        edition=content.edition,
        version=content.version,
        tag_id=content.tag_id,
        reference_values=content.reference_values if signed.state == "valid" else _NOTHING,
        names=content.names,
        certificates=tuple(map(_certificate, signed.certificates)),
        signature=signed.state,
    )


def _certificate(der: bytes) -> Certificate:
    try:
        return parse_certificate(der)
    except EvidenceError as exc:
        raise malformed(exc.message, field="X509Certificate") from exc


_PROBLEMS: Mapping[SignatureState, str] = {
    "signed-info-invalid": "its SignatureValue does not verify with its first certificate",
    "digest-mismatch": "its content was changed after it was signed",
    "unverifiable": "its first certificate has no P-384 key",
}


def verify_rim_signature(parsed: ParsedRim) -> None:
    """Require both halves of the XML signature to hold.

    Raises:
        SignatureError: ``rim-signature-invalid``.
    """
    if parsed.signature == "valid":
        return
    raise SignatureError(
        f"the signature of the RIM {parsed.product} {parsed.version} does not hold: {_PROBLEMS[parsed.signature]}",
        code="rim-signature-invalid",
        expected="a valid SignedInfo and the digest of the document in it",
        got=parsed.signature,
        clause="W3C XML Signature",
    )


# -- signers


def find_signers(parsed: ParsedRim, anchors: TrustAnchors) -> tuple[RimSigners, Anchor]:
    """Return L4, L3 and L2 with the pinned root that they lead to; dates are judged by ``require_window``.

    Raises:
        ChainError: ``rim-chain-length``, ``rim-signer-unexpected``, ``root-not-trusted``,
            ``simulated-root-refused``, or as the rules of ``attest.endorsements.chains``.
    """
    if len(parsed.certificates) != EMBEDDED_CERTIFICATES:
        raise ChainError(
            f"the RIM {parsed.product} {parsed.version} carries {len(parsed.certificates)} certificates",
            code="rim-chain-length",
            expected=f"{EMBEDDED_CERTIFICATES}: signer, L3, L2 and root",
            got=str(len(parsed.certificates)),
            clause=_CLAUSE,
        )
    signer, l3, l2, root = parsed.certificates
    _require_signer(signer)
    for issuer in (l3, l2):
        require_ca(issuer)
        _require_p384(issuer)
    require_issued(signer, l3.as_issuer(), algorithm=SignatureAlgorithm.ECDSA_SHA384)
    require_issued(l3, l2.as_issuer(), algorithm=SignatureAlgorithm.ECDSA_SHA384)
    found = pinned_root(l2, (root,), anchors, role=_ROLE)
    if found is None:
        raise untrusted_root(
            f"{root.name} of the RIM", (root,), role=_ROLE, expected="a pinned NVIDIA RIM root key", clause=_CLAUSE
        )
    return (signer, l3, l2), found.anchor


def _require_signer(certificate: Certificate) -> None:
    constraints, usage = certificate.extension("2.5.29.19"), certificate.extension("2.5.29.15")
    try:
        is_ca = constraints is not None and asn1.decode_der(BasicConstraints, constraints.value).ca
        octets = asn1.decode_der(KeyUsageHolder, tlv(0x30, usage.value)).bits.as_bytes() if usage else b""
    except ValueError as exc:
        raise _unexpected(certificate, str(exc)) from exc
    if is_ca or octets[:1] != bytes([_DIGITAL_SIGNATURE]):
        raise _unexpected(certificate, f"CA:{is_ca}, keyUsage {octets.hex() or 'absent'}")
    _require_p384(certificate)


def _require_p384(certificate: Certificate) -> None:
    key = load_public_key(certificate.spki)
    if not isinstance(key, ec.EllipticCurvePublicKey) or key.curve.name != "secp384r1":
        raise _unexpected(certificate, f"another key than P-384: {type(key).__name__}")


def _unexpected(certificate: Certificate, got: str) -> ChainError:
    return ChainError(
        f"{certificate.name} does not fit its place among the signers of a RIM: {got}",
        code="rim-signer-unexpected",
        expected="P-384 keys; a signer with keyUsage digitalSignature that is no CA",
        got=got,
        clause=_CLAUSE,
    )


# -- validity


def rim_window(parsed: ParsedRim, signers: RimSigners, anchor: Anchor) -> tuple[datetime, datetime]:
    """Return the first and last moment at which L4, L3, L2 and the root are all valid; the first may be the later one.

    The root's dates are those of the held anchor. Where only a pin is held, they are those of the embedded root,
    whose key ``find_signers`` compared with the pin.
    """
    root = parsed.certificates[-1]
    held = anchor.not_before is not None and anchor.not_after is not None
    first, last = (anchor.not_before, anchor.not_after) if held else (root.not_before, root.not_after)
    return (
        max(first or root.not_before, *(certificate.not_before for certificate in signers)),
        min(last or root.not_after, *(certificate.not_after for certificate in signers)),
    )


def require_window(
    parsed: ParsedRim, *, signers: RimSigners, anchor: Anchor, at: datetime
) -> tuple[datetime, datetime]:
    """Require ``not_before <= at <= not_after`` of the RIM's window, and return the window.

    A RIM outside it is a stale endorsement: NVIDIA issues the same id again.

    Raises:
        EndorsementError: ``rim-not-yet-valid`` or ``rim-expired``.
    """
    not_before, not_after = rim_window(parsed, signers, anchor)
    if not_before <= at <= not_after:
        return not_before, not_after
    early = at < not_before
    raise EndorsementError(
        f"the RIM {parsed.product} {parsed.version} is {'not valid yet' if early else 'expired'} at {rfc3339_text(at)}",
        code="rim-not-yet-valid" if early else "rim-expired",
        expected=f"{rfc3339_text(not_before)} to {rfc3339_text(not_after)}, the window of all its signers",
        got=rfc3339_text(at),
        clause=_CLAUSE,
        hint="fetch the current issue with 'attest endorsements fetch'",
        retryable=True,
    )


# -- names at the RIM service


_ID_PART = re.compile(r"[0-9A-Za-z.-]{1,24}")


def driver_rim_id(product: str, driver_version: str) -> str:
    """Return the id of a driver's RIM.

    Args:
        product: ``GH100``, or a Blackwell's chip name (opaque field 35, ``GB100`` when absent).
        driver_version: as the report states it.

    Raises:
        EvidenceError: ``rim-id-invalid``, a part that cannot be part of an id.

    Spec: specs/nvidia-gpu.md, section 9.1.
    """
    kind = "NV_GPU_DRIVER" if product.startswith("GH") else "NV_GPU_CC_DRIVER"
    return f"{kind}_{_id_part('product', product)}_{_id_part('driver version', driver_version)}"


def vbios_rim_id(project: str, project_sku: str, chip_sku: str, vbios_version: str) -> str:
    """Return the id of a GPU VBIOS's RIM: upper case, the version without dots.

    Raises:
        EvidenceError: ``rim-id-invalid``, a part that cannot be part of an id.

    Spec: specs/nvidia-gpu.md, section 9.1.
    """
    parts = (
        _id_part("project", project),
        _id_part("project SKU", project_sku),
        _id_part("chip SKU", chip_sku),
        _id_part("VBIOS version", vbios_version.replace(".", "")),
    )
    return "_".join(("NV_GPU_VBIOS", *parts)).upper()


def switch_bios_rim_id(version: str) -> str:
    """Return the id of an LS10 BIOS's RIM; project, SKU and chip SKU are constants.

    Raises:
        EvidenceError: ``rim-id-invalid``, a version that cannot be part of an id.

    Spec: specs/nvidia-gpu.md, section 9.1.
    """
    return f"NV_SWITCH_BIOS_5612_0002_890_{_id_part('BIOS version', version.replace('.', '')).upper()}"


def _id_part(what: str, text: str) -> str:
    """Restrict the characters: the report is not verified yet, and an id becomes part of an address and a file name."""
    if not _ID_PART.fullmatch(text) or not text.strip("."):
        raise EvidenceError(
            f"the {what} of this report cannot be part of the id of a RIM",
            code="rim-id-invalid",
            field=what,
            expected="1 to 24 letters, digits, dots and hyphens",
            got=repr(text[:40]),
            clause="NVIDIA RIM service",
        )
    return text

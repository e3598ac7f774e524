"""RIMs made and signed here, so that each rule can be broken alone: by a signer whose root a test may pin.

The text is put together from parts; canonicalisation is that of lxml, the signature that of cryptography.
"""

import hmac
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha384

from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import decode_dss_signature
from lxml import etree  # type: ignore[import-untyped]  # it ships no types

from attest.endorsements.anchors import Anchor, TrustAnchors, amd_name
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import Certificate, Extension, parse_certificate
from attest_simulator import der
from tests.endorsements.made import BEGINS, ENDS, certificate

SWID = "http://standards.iso.org/iso/19770/-2/2015/schema.xsd"
DS = "http://www.w3.org/2000/09/xmldsig#"
C14N = "http://www.w3.org/2006/12/xml-c14n11"
ECDSA_SHA384 = "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384"
SHA384 = "http://www.w3.org/2001/04/xmldsig-more#sha384"
ENVELOPED = f"{DS}enveloped-signature"
HASH_NAMESPACE = "http://www.w3.org/2001/04/xmlenc#sha384"
OPAQUE_NAMESPACE = "https://docs.nvidia.com/attestation/specs/latest/opaque-data.html"

SIGNS_DATA = Extension(oid="2.5.29.15", critical=True, value=der.bit_string(b"\x80", unused_bits=7))
NO_CA = Extension(oid="2.5.29.19", critical=True, value=der.sequence())
SIGNER_EXTENSIONS = (NO_CA, SIGNS_DATA)

ROOT_KEY, L2_KEY, L3_KEY, SIGNER_KEY, STRANGER_KEY = (
    ec.derive_private_key(2000 + number, ec.SECP384R1()) for number in range(5)
)
ROOT, L2, L3, SIGNER = (amd_name(f"Made RIM {part}") for part in ("Root", "L2", "L3", "Signer"))

VALUES: Mapping[int, tuple[bytes, ...]] = {
    0: (b"\xa0" * 48,),
    1: (b"\xa1" * 48, b"\xb1" * 48),
    35: (b"\xa3" * 48,),
}


def root_certificate(**changes: object) -> bytes:
    return certificate(**{"subject": ROOT, "issuer": ROOT, "key": ROOT_KEY, "signer": ROOT_KEY} | changes)  # type: ignore[arg-type]  # changes of any argument


def l2_certificate(**changes: object) -> bytes:
    return certificate(**{"subject": L2, "issuer": ROOT, "key": L2_KEY, "signer": ROOT_KEY} | changes)  # type: ignore[arg-type]  # as above


def l3_certificate(**changes: object) -> bytes:
    return certificate(**{"subject": L3, "issuer": L2, "key": L3_KEY, "signer": L2_KEY} | changes)  # type: ignore[arg-type]  # as above


def signer_certificate(**changes: object) -> bytes:
    given: dict[str, object] = {"subject": SIGNER, "issuer": L3, "key": SIGNER_KEY, "signer": L3_KEY}
    return certificate(**given | {"extensions": SIGNER_EXTENSIONS} | changes)  # type: ignore[arg-type]  # as above


CHAIN = (signer_certificate(), l3_certificate(), l2_certificate(), root_certificate())
ROOT_PARSED: Certificate = parse_certificate(CHAIN[-1])
PINNED = TrustAnchors(
    anchors=(Anchor(name="made", role="nvidia-rim-root", product="NVIDIA RIM", spki_sha256=ROOT_PARSED.spki_sha256),)
)
"""The root by its digest alone, so that the embedded certificate says the rest."""


def held(begins: datetime | None = BEGINS, ends: datetime | None = ENDS) -> TrustAnchors:
    """The root by its key, so that the embedded certificate says nothing."""
    anchor = Anchor(
        name="made",
        role="nvidia-rim-root",
        product="NVIDIA RIM",
        spki_sha256=ROOT_PARSED.spki_sha256,
        subject=ROOT_PARSED.subject,
        spki=ROOT_PARSED.spki,
        not_before=begins,
        not_after=ends,
    )
    return TrustAnchors(anchors=(anchor,))


def resource(index: int, digests: Iterable[bytes], *, active: bool = True) -> str:
    values = tuple(digests)
    hashed = " ".join(f'ns2:Hash{number}="{value.hex()}"' for number, value in enumerate(values))
    return (
        f'<ns0:Resource type="Measurement" index="{index}" active="{active}" alternatives="{len(values)}" '
        f'{hashed} name="Measurement_{index}" size="48"/>'
    )


def body(
    values: Mapping[int, tuple[bytes, ...]] = VALUES,
    *,
    product: str = "GH100",
    edition: str = "GPU",
    version: str = "1.2.3",
    indices: Iterable[int] = range(64),
) -> str:
    """The document with a place for its signature."""
    resources = "\n".join(resource(i, values.get(i, (bytes(48),)), active=i in values) for i in indices)
    return (
        f'<SoftwareIdentity xmlns="{SWID}" xmlns:ns0="{SWID}" xmlns:ns2="{HASH_NAMESPACE}" corpus="false" '
        f'name="{product}" patch="false" supplemental="false" tagId="ab" version="1.0" tagVersion="0">\n'
        '<ns0:Entity name="NVIDIA Corporation" role="softwareCreator tagCreator"/>\n'
        '<ns0:Meta xmlns:ns1="https://trustedcomputinggroup.org/resource/tcg-reference-integrity-manifest-rim-'
        f'information-model/" colloquialVersion="{version}" edition="{edition}" product="{product}" revision="r1" '
        'PayloadType="direct" ns1:BindingSpec="RIMIM" ns1:BindingSpecVersion="1.01" '
        'ns1:PlatformManufacturerId="5703" ns1:PlatformManufacturerStr="NVIDIA Corporation" '
        f'ns1:PlatformModel="{product}" ns1:FirmwareManufacturer="NVIDIA Corporation" '
        'ns1:FirmwareManufacturerId="5703"/>\n'
        f"<ns0:Payload>\n{resources}\n</ns0:Payload>\n@SIGNATURE@</SoftwareIdentity>"
    )


SIGNED_INFO = (
    f'<ds:SignedInfo><ds:CanonicalizationMethod Algorithm="{C14N}"/><ds:SignatureMethod Algorithm="{ECDSA_SHA384}"/>'
    f'<ds:Reference URI=""><ds:Transforms><ds:Transform Algorithm="{ENVELOPED}"/><ds:Transform Algorithm="{C14N}"/>'
    f'</ds:Transforms><ds:DigestMethod Algorithm="{SHA384}"/><ds:DigestValue>@DIGEST@</ds:DigestValue></ds:Reference>'
    "</ds:SignedInfo>"
)


def raw_signature(signed: bytes, key: ec.EllipticCurvePrivateKey = SIGNER_KEY) -> bytes:
    size = (key.key_size + 7) // 8
    pair = decode_dss_signature(key.sign(signed, ec.ECDSA(hashes.SHA384(), deterministic_signing=True)))
    return b"".join(number.to_bytes(size, "big") for number in pair)


def hmac_with(secret: bytes) -> Callable[[bytes], bytes]:
    return lambda signed: hmac.digest(secret, signed, "sha384")


def base64(data: bytes) -> str:
    return b64encode(data).decode()


@dataclass(frozen=True, kw_only=True)
class Made:
    """What a RIM is made of; `dataclasses.replace` breaks one part of it."""

    text: str = body()
    signed_info: str = SIGNED_INFO
    certificates: tuple[bytes, ...] = CHAIN
    sign: Callable[[bytes], bytes] = raw_signature
    key_info: str = "<ds:KeyInfo><ds:X509Data>@CERTIFICATES@</ds:X509Data></ds:KeyInfo>"
    after: str = ""

    def xml(self) -> bytes:
        unsigned = etree.fromstring(self.text.replace("@SIGNATURE@", "").encode())
        digest = sha384(etree.tostring(unsigned, method="c14n", exclusive=False)).digest()
        info = self.signed_info.replace("@DIGEST@", base64(digest))
        embedded = "".join(f"<ds:X509Certificate>{base64(der)}</ds:X509Certificate>" for der in self.certificates)
        text = self.text.replace(
            "@SIGNATURE@",
            f'<ds:Signature xmlns:ds="{DS}">{info}<ds:SignatureValue>@VALUE@</ds:SignatureValue>'
            f"{self.key_info.replace('@CERTIFICATES@', embedded)}{self.after}</ds:Signature>",
        )
        found = etree.fromstring(text.encode()).find(f".//{{{DS}}}SignedInfo")
        assert found is not None
        value = self.sign(etree.tostring(found, method="c14n", exclusive=False))
        return text.replace("@VALUE@", base64(value)).encode()

    def document(self) -> RimDocument:
        return RimDocument(xml=self.xml())


def made(text: str | None = None, **changes: object) -> RimDocument:
    given = changes if text is None else {"text": text, **changes}
    return Made(**given).document()  # type: ignore[arg-type]  # changes of any part

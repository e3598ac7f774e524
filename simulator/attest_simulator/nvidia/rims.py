"""Reference integrity manifests of simulated firmware, signed in NVIDIA's form.

Spec: specs/nvidia-gpu.md, sections 9.1 to 9.4; ISO/IEC 19770-2:2015; TCG, Reference Integrity Manifest Information
Model; W3C, XML Signature Syntax and Processing.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import sha256, sha384
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import Extension
from attest_simulator import der
from attest_simulator.nvidia.authorities import reference_issuer
from attest_simulator.nvidia.certificates import (
    COMMON_NAME,
    COUNTRY,
    LOCALITY,
    ORGANISATION,
    SIMULATED_NVIDIA,
    STATE,
    NvidiaCertificateTemplate,
    authority_key_id,
    key_usage,
    name,
    ocsp_pointer,
    subject_key_id,
)
from attest_simulator.nvidia.firmware import DIGEST_BYTES, driver_values, firmware_values
from attest_simulator.nvidia.keys import derived_bytes, p384_key, sign_raw, spki_of
from attest_simulator.nvidia.products import PRODUCTS, Product
from attest_simulator.nvidia.xml_writer import Element, Node, canonical_text, document_text

RESOURCES: Final = 64
"""All resources of a document."""
SIGNER_YEARS: Final = 2

_SWID = "http://standards.iso.org/iso/19770/-2/2015/schema.xsd"
_TCG = "https://trustedcomputinggroup.org/resource/tcg-reference-integrity-manifest-rim-information-model/"
_SHA384 = "http://www.w3.org/2001/04/xmlenc#sha384"
_DSIG = "http://www.w3.org/2000/09/xmldsig#"
_C14N = "http://www.w3.org/2006/12/xml-c14n11"
_ENVELOPED = f"{_DSIG}enveloped-signature"
_ECDSA_SHA384 = "http://www.w3.org/2001/04/xmldsig-more#ecdsa-sha384"
_DIGEST_SHA384 = "http://www.w3.org/2001/04/xmldsig-more#sha384"
_ROOT_NAMESPACES = {"": _SWID, "ns0": _SWID, "ns2": _SHA384}
_MANUFACTURER = "NVIDIA Corporation"
_MANUFACTURER_ID = "5703"
_SERIAL_BYTES = 20
_SIGNS_DATA = der.bit_string(b"\x80", unused_bits=7)
_ZERO = bytes(DIGEST_BYTES)


# -- signers


def signed_in(at: datetime) -> datetime:
    """Return the signing date of RIMs that are current at a moment: the first of January of its year."""
    return datetime(at.astimezone(UTC).year, 1, 1, tzinfo=UTC)


def rim_signer_key(product: Product, issued: datetime) -> ec.EllipticCurvePrivateKey:
    """Return the key that signs a product's RIMs from a moment on; not secret."""
    return p384_key("RIM signer", product.chip, issued.isoformat())


def rim_signer_template(product: Product, issued: datetime) -> NvidiaCertificateTemplate:
    """Return L4 of the RIM chain, unsigned; it lasts two years from ``issued``."""
    key, issuer = rim_signer_key(product, issued), reference_issuer(product)
    subject = name(
        (COUNTRY, "US"),
        (STATE, "CA"),
        (LOCALITY, "Santa Clara"),
        (ORGANISATION, SIMULATED_NVIDIA),
        (COMMON_NAME, product.reference_signer),
    )
    serial = derived_bytes(_SERIAL_BYTES, "RIM signer serial", product.chip, issued.isoformat())
    return NvidiaCertificateTemplate(
        serial=int.from_bytes(serial, "big") >> 1,
        issuer=issuer.subject,
        subject=subject,
        not_before=issued,
        not_after=der.years_after(issued, SIGNER_YEARS),
        spki=spki_of(key),
        extensions=(
            subject_key_id(key),
            authority_key_id(issuer.key),
            Extension(oid="2.5.29.19", critical=True, value=der.sequence()),
            key_usage(_SIGNS_DATA),
            ocsp_pointer(),
        ),
    )


def rim_signer_certificates(product: Product, issued: datetime) -> tuple[bytes, ...]:
    """Return the DER of L4, L3, L2 and the root."""
    issuer = reference_issuer(product)
    return (rim_signer_template(product, issued).issue(issuer.key), *issuer.chain())


# -- the document


@dataclass(frozen=True, slots=True, kw_only=True)
class RimTemplate:
    """A RIM without its signature; ``dataclasses.replace`` makes invalid ones.

    Attributes:
        id: the service's id; the document does not contain it.
        product: in the document.
        edition: ``GPU`` or ``SWITCH``.
        version: colloquialVersion, upper case.
        tag_id: hex.
        values: active indices with their alternatives.
        key: for the signature.
        certificates: DER of the signer, its issuers and the root, as embedded.
    """

    id: str
    product: str
    edition: str
    version: str
    tag_id: str
    values: Mapping[int, tuple[bytes, ...]]
    key: ec.EllipticCurvePrivateKey
    certificates: tuple[bytes, ...]

    def unsigned(self) -> Element:
        """Return the document without its signature."""
        return self._document(())

    def issue(self) -> bytes:
        """Return the signed document, UTF-8, without an XML declaration."""
        return document_text(self._document((self._signature(),))).encode("utf-8") + b"\n"

    def document(self) -> RimDocument:
        """Return the signed document as an endorsement."""
        return RimDocument(xml=self.issue())

    def _document(self, signature: tuple[Element, ...]) -> Element:
        resources = (self._resource(index) for index in range(RESOURCES))
        payload: tuple[Node, ...] = tuple(node for resource in resources for node in ("\n        ", resource))
        payload = (*payload, "\n    ")
        return Element(
            tag="SoftwareIdentity",
            namespaces=_ROOT_NAMESPACES,
            attributes=(
                ("corpus", "false"),
                ("name", self.product),
                ("patch", "false"),
                ("supplemental", "false"),
                ("tagId", self.tag_id),
                ("version", "1.0"),
                ("tagVersion", "0"),
            ),
            children=(
                "\n    ",
                Element(tag="ns0:Entity", attributes=(("name", _MANUFACTURER), ("role", "softwareCreator tagCreator"))),
                "\n    ",
                self._meta(),
                "\n    ",
                Element(tag="ns0:Payload", namespaces={"SHA384": _SHA384}, children=payload),
                "\n",
                *signature,
            ),
        )

    def _meta(self) -> Element:
        return Element(
            tag="ns0:Meta",
            namespaces={"ns1": _TCG},
            attributes=(
                ("colloquialVersion", self.version),
                ("edition", self.edition),
                ("product", self.product),
                ("revision", "r1"),
                ("PayloadType", "direct"),
                ("ns1:BindingSpec", "RIMIM"),
                ("ns1:BindingSpecVersion", "1.01"),
                ("ns1:PlatformManufacturerId", _MANUFACTURER_ID),
                ("ns1:PlatformManufacturerStr", _MANUFACTURER),
                ("ns1:PlatformModel", self.product),
                ("ns1:FirmwareManufacturer", _MANUFACTURER),
                ("ns1:FirmwareManufacturerId", _MANUFACTURER_ID),
            ),
        )

    def _resource(self, index: int) -> Element:
        values = self.values.get(index, (_ZERO,))
        hashes = ((f"ns2:Hash{number}", value.hex()) for number, value in enumerate(values))
        return Element(
            tag="ns0:Resource",
            attributes=(
                ("type", "Measurement"),
                ("index", str(index)),
                ("active", str(index in self.values)),
                ("alternatives", str(len(values))),
                *hashes,
                ("name", f"Measurement_{index}"),
                ("size", str(DIGEST_BYTES)),
            ),
        )

    def _signature(self) -> Element:
        """Return the enveloped signature over SignedInfo, which has the digest of the document without it."""
        digest = sha384(canonical_text(self.unsigned()).encode("utf-8")).digest()
        info = _signed_info(digest)
        signed = canonical_text(info, inherited={**_ROOT_NAMESPACES, "ds": _DSIG}).encode("utf-8")
        certificates = (
            Element(tag="ds:X509Certificate", children=(_lines(certificate),)) for certificate in self.certificates
        )
        data = Element(tag="ds:X509Data", children=tuple(certificates))
        return Element(
            tag="ds:Signature",
            namespaces={"ds": _DSIG},
            children=(
                info,
                Element(tag="ds:SignatureValue", children=(_base64(sign_raw(self.key, signed)),)),
                Element(tag="ds:KeyInfo", children=(data,)),
            ),
        )


def _signed_info(digest: bytes) -> Element:
    transforms = (Element(tag="ds:Transform", attributes=(("Algorithm", uri),)) for uri in (_ENVELOPED, _C14N))
    reference = Element(
        tag="ds:Reference",
        attributes=(("URI", ""),),
        children=(
            Element(tag="ds:Transforms", children=tuple(transforms)),
            Element(tag="ds:DigestMethod", attributes=(("Algorithm", _DIGEST_SHA384),)),
            Element(tag="ds:DigestValue", children=(_base64(digest),)),
        ),
    )
    return Element(
        tag="ds:SignedInfo",
        children=(
            Element(tag="ds:CanonicalizationMethod", attributes=(("Algorithm", _C14N),)),
            Element(tag="ds:SignatureMethod", attributes=(("Algorithm", _ECDSA_SHA384),)),
            reference,
        ),
    )


def _base64(data: bytes) -> str:
    return b64encode(data).decode("ascii")


def _lines(certificate: bytes) -> str:
    """Return base64 in lines of 64 characters with a final newline, NVIDIA's form of embedded certificates."""
    text = _base64(certificate)
    return "".join(f"{text[at : at + 64]}\n" for at in range(0, len(text), 64))


# -- RIMs of drivers and firmware


def driver_rim(product: Product, driver: str, *, issued: datetime) -> RimTemplate:
    """Return the unsigned RIM of a driver.

    Args:
        product: kind of GPU.
        driver: version.
        issued: start of its signer's validity; the RIM lasts two years from then.
    """
    tag = sha384(f"{product.chip}_{driver}".encode("ascii")).hexdigest()
    rim_id = product.driver_rim_id(driver)
    return _template(product, rim_id, driver, tag, driver_values(product, driver), issued)


def firmware_rim(product: Product, vbios: str, *, issued: datetime) -> RimTemplate:
    """Return the unsigned RIM of a VBIOS or of a switch's BIOS; arguments as ``driver_rim``."""
    rim_id = product.firmware_rim_id(vbios)
    tag = derived_bytes(DIGEST_BYTES, "tag", rim_id).hex()
    return _template(product, rim_id, vbios.upper(), tag, firmware_values(product, vbios), issued)


def _template(  # noqa: PLR0917  the parts of one document, in its order
    product: Product, rim_id: str, version: str, tag: str, values: Mapping[int, tuple[bytes, ...]], issued: datetime
) -> RimTemplate:
    return RimTemplate(
        id=rim_id,
        product=product.chip,
        edition=product.edition,
        version=version,
        tag_id=tag,
        values=values,
        key=rim_signer_key(product, issued),
        certificates=rim_signer_certificates(product, issued),
    )


_VERSION = re.compile(r"[0-9]{1,4}(?:\.[0-9]{1,3}){1,3}")
_VBIOS = re.compile(r"[0-9A-F]{10}")


def rim_of_id(rim_id: str, *, issued: datetime) -> RimTemplate | None:
    """Return the RIM of an id; None for other firmware. Every version of a known product has one."""
    for product in PRODUCTS.values():
        driver = rim_id.removeprefix(product.driver_rim_id(""))
        if driver != rim_id and product.driver_active and _VERSION.fullmatch(driver):
            return driver_rim(product, driver, issued=issued)
        vbios = rim_id.removeprefix(product.firmware_rim_id(""))
        if vbios != rim_id and _VBIOS.fullmatch(vbios):
            return firmware_rim(product, ".".join(re.findall("..", vbios)), issued=issued)
    return None


def rim_answer(rim: RimTemplate) -> bytes:
    """Return the RIM service's answer: JSON with id, document and the document's digest (section 9.1)."""
    xml = rim.issue()
    document = {
        "id": rim.id,
        "rim": _base64(xml),
        "sha256": sha256(xml).hexdigest(),
        "request_id": derived_bytes(16, "request", rim.id).hex(),
        "rim_format": "SWID",
    }
    return json.dumps(document).encode("utf-8")

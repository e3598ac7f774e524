"""Simulated certificates and lists equal AMD's byte by byte, but for keys, names and the host of a link."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.x509.oid import NameOID

from attest.endorsements.anchors import amd_name
from attest.endorsements.x509 import Certificate, Extension, parse_certificate, parse_crl
from attest.errors import ChainError
from attest.evidence.snp.certificates import LeafKind, SnpLeaf, read_leaf
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest_simulator import (
    SIMULATED_ORGANISATION,
    CaRole,
    CertificateTemplate,
    SimulatedChip,
    ca_template,
    crl_template,
    simulated_ca_key,
    simulated_crl,
)
from attest_simulator.certificates import CERTIFIED_FROM, KDS_HOST, ca_role, vcek_template, vlek_template

AUTHORITIES = [(product, role) for product in SnpProduct for role in CaRole]
TCB = SnpTcbVersion(bootloader=4, tee=0, snp=24, microcode=219)
TURIN_TCB = SnpTcbVersion(fmc=1, bootloader=2, tee=3, snp=4, microcode=200)
HWID = bytes(range(64))
EXPLICIT_TRAILER_BYTES = 72
OF_THE_KEY = frozenset({"2.5.29.14", "2.5.29.35"})
DISTRIBUTION_POINT = "2.5.29.31"


def key_id_of(certificate: Certificate) -> bytes:
    key = x509.load_der_x509_certificate(certificate.der).public_key()
    assert isinstance(key, rsa.RSAPublicKey)
    return x509.SubjectKeyIdentifier.from_public_key(key).digest


def genuine_extensions(ours: tuple[Extension, ...], genuine: Certificate) -> tuple[Extension, ...]:
    """Put AMD's key identifiers and host into our extensions, and leave order and all else as they are."""
    values: Mapping[str, bytes] = {e.oid: e.value for e in genuine.extensions}
    host, amd = KDS_HOST.encode(), b"kdsintf.amd.com"
    shorter = len(host) - len(amd)
    changed = []
    for extension in ours:
        value = values[extension.oid] if extension.oid in OF_THE_KEY else extension.value
        if extension.oid == DISTRIBUTION_POINT:
            heads = value[: value.index(b"https://")]
            # Only the four single-byte lengths in front of the URI count the host: 30 len 30 len a0 len a0 len 86 len.
            lengths = bytes(byte - shorter if index % 2 else byte for index, byte in enumerate(heads))
            value = lengths + value[len(heads) :].replace(host, amd)
        changed.append(replace(extension, value=value))
    return tuple(changed)


@pytest.mark.parametrize(("product", "role"), AUTHORITIES)
def test_an_authority_is_amds_byte_by_byte_but_for_key_and_name(
    vectors_dir: Path, product: SnpProduct, role: CaRole
) -> None:
    path = vectors_dir / "sev-snp" / "certs" / product.lower() / f"{role.lower()}.der"
    genuine = parse_certificate(path.read_bytes())
    ours = ca_template(product, role)
    masked = replace(
        ours,
        issuer=amd_name(f"ARK-{product}"),
        subject=genuine.subject,
        spki=genuine.spki,
        extensions=genuine_extensions(ours.extensions, genuine),
    )
    assert masked.to_be_signed() == genuine.tbs
    assert parse_certificate(ours.issue(simulated_ca_key(product, CaRole.ARK))).algorithm == genuine.algorithm
    assert key_id_of(genuine) == next(e.value[2:] for e in genuine.extensions if e.oid == "2.5.29.14")


@pytest.mark.parametrize(
    "path",
    [
        "milan-v2-vcek/vcek.der",
        "milan-v2-debug/vcek.der",
        "milan-v3-vlek/vlek.der",
        "genoa-v5-vcek/vcek.der",
        "turin-chain/vcek.der",
    ],
)
def test_a_leaf_is_amds_byte_by_byte_but_for_key_and_name(vectors_dir: Path, path: str) -> None:
    genuine = parse_certificate((vectors_dir / "sev-snp" / path).read_bytes())
    leaf = read_leaf(genuine)
    ours = template_like(leaf)
    assert ours.not_after == genuine.not_after
    masked = replace(
        ours,
        issuer=amd_name(leaf.kind.issuer_common_name(leaf.product)),
        subject=amd_name(leaf.kind.common_name),
        spki=genuine.spki,
    )
    assert masked.to_be_signed() == genuine.tbs
    issued = ours.issue(simulated_ca_key(leaf.product, ca_role(leaf.kind)))
    assert parse_certificate(issued).algorithm == genuine.algorithm


def template_like(leaf: SnpLeaf) -> CertificateTemplate:
    certificate = leaf.certificate
    explicit_trailer = len(certificate.algorithm) == EXPLICIT_TRAILER_BYTES
    if leaf.hwid is not None:
        return vcek_template(
            product=leaf.product,
            hwid=leaf.hwid,
            tcb=leaf.tcb,
            product_name=leaf.product_name,
            not_before=certificate.not_before,
            explicit_trailer=explicit_trailer,
        )
    assert leaf.csp_id is not None
    return vlek_template(
        product=leaf.product,
        csp_id=leaf.csp_id,
        tcb=leaf.tcb,
        product_name=leaf.product_name,
        not_before=certificate.not_before,
        explicit_trailer=explicit_trailer,
    )


@pytest.mark.parametrize(
    ("path", "product", "revoked"),
    [("genoa-2022-10.der", SnpProduct.GENOA, (131073,)), ("milan-2022-05.der", SnpProduct.MILAN, ())],
)
def test_a_revocation_list_is_amds_byte_by_byte_but_for_key_and_name(
    vectors_dir: Path, path: str, product: SnpProduct, revoked: tuple[int, ...]
) -> None:
    genuine = parse_crl((vectors_dir / "sev-snp" / "crl" / path).read_bytes())
    theirs = x509.load_der_x509_crl(genuine.der)
    number = theirs.extensions.get_extension_for_class(x509.CRLNumber).value.crl_number
    authority = theirs.extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value.public_bytes()
    ours = crl_template(product, this_update=genuine.this_update, next_update=genuine.next_update, revoked=revoked)
    masked = replace(
        ours,
        issuer=amd_name(f"ARK-{product}"),
        authority_key=replace(ours.authority_key, value=authority),
        number=number,
    )
    assert masked.to_be_signed() == genuine.tbs
    assert parse_crl(ours.issue(simulated_ca_key(product, CaRole.ARK))).algorithm == genuine.algorithm


@pytest.mark.parametrize(("product", "role"), AUTHORITIES)
def test_the_library_finds_an_authority_issued_by_its_ark(product: SnpProduct, role: CaRole) -> None:
    ark = simulated_ca_key(product, CaRole.ARK)
    root = x509.load_der_x509_certificate(ca_template(product, CaRole.ARK).issue(ark))
    certificate = x509.load_der_x509_certificate(ca_template(product, role).issue(ark))
    certificate.verify_directly_issued_by(root)
    organisation = certificate.subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)
    assert [attribute.value for attribute in organisation] == [SIMULATED_ORGANISATION]


@pytest.mark.parametrize("product", SnpProduct)
def test_the_library_reads_a_revocation_list_and_finds_it_signed_by_the_ark(product: SnpProduct) -> None:
    at = datetime(2030, 12, 31, 23, 59, 59, tzinfo=UTC)
    revoked = x509.load_der_x509_crl(simulated_crl(product, at=at, revoked=(65537, 7)))
    assert revoked.is_signature_valid(simulated_ca_key(product, CaRole.ARK).public_key())
    assert not revoked.is_signature_valid(simulated_ca_key(product, CaRole.ASK).public_key())
    assert [entry.serial_number for entry in revoked] == [65537, 7]
    assert revoked.last_update_utc == datetime(2030, 1, 1, tzinfo=UTC)
    assert revoked.next_update_utc == datetime(2031, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("product", "tcb", "hwid"), [(SnpProduct.MILAN, TCB, HWID), (SnpProduct.TURIN, TURIN_TCB, HWID[:8])]
)
@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("explicit_trailer", [False, True])
def test_a_vcek_says_what_it_was_made_for_in_every_spelling(
    product: SnpProduct, tcb: SnpTcbVersion, hwid: bytes, wrapped: bool, explicit_trailer: bool
) -> None:
    template = vcek_template(
        product=product, hwid=hwid, tcb=tcb, wrapped_hwid=wrapped, explicit_trailer=explicit_trailer
    )
    certificate = parse_certificate(template.issue(simulated_ca_key(product, CaRole.ASK)))
    leaf = read_leaf(certificate)
    assert (leaf.kind, leaf.product, leaf.tcb, leaf.hwid, leaf.csp_id) == (LeafKind.VCEK, product, tcb, hwid, None)
    assert (leaf.struct_version, certificate.serial) == (int(product is SnpProduct.TURIN), 0)
    assert (certificate.not_before, certificate.not_after.year) == (CERTIFIED_FROM, CERTIFIED_FROM.year + 7)


@pytest.mark.parametrize(("product", "tcb"), [(SnpProduct.GENOA, TCB), (SnpProduct.TURIN, TURIN_TCB)])
def test_a_vlek_names_its_provider_and_no_chip(product: SnpProduct, tcb: SnpTcbVersion) -> None:
    template = vlek_template(product=product, csp_id="CN=simulated-cloud.example", tcb=tcb)
    leaf = read_leaf(parse_certificate(template.issue(simulated_ca_key(product, CaRole.ASVK))))
    assert (leaf.kind, leaf.tcb, leaf.hwid, leaf.csp_id) == (LeafKind.VLEK, tcb, None, "CN=simulated-cloud.example")
    assert leaf.certificate.not_after.year == CERTIFIED_FROM.year + 1


def test_a_leaf_of_29_february_ends_on_the_first_of_march() -> None:
    template = vcek_template(
        product=SnpProduct.MILAN, hwid=HWID, tcb=TCB, not_before=datetime(2028, 2, 29, 12, tzinfo=UTC)
    )
    assert template.not_after == datetime(2035, 3, 1, 12, tzinfo=UTC)


def test_a_template_can_be_changed_into_what_amd_would_never_sign() -> None:
    template = SimulatedChip.of(SnpProduct.MILAN).leaf_template()
    incomplete = replace(template, extensions=tuple(e for e in template.extensions if not e.oid.endswith(".3.8")))
    certificate = parse_certificate(incomplete.issue(simulated_ca_key(SnpProduct.MILAN, CaRole.ASK)))
    with pytest.raises(ChainError) as refusal:
        read_leaf(certificate)
    assert refusal.value.code == "snp-leaf-malformed"

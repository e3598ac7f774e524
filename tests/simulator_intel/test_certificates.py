"""Simulated certificates and lists equal Intel's byte by byte, but for keys, names and the hosts of links."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from hashlib import sha1, sha256
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from attest.endorsements.anchors import TrustAnchors, intel_name
from attest.endorsements.x509 import Certificate, Crl, Extension, parse_certificate, parse_crl, pem_blocks
from attest.evidence.intel.pck import read_pck
from attest.evidence.intel.quote import parse_quote
from attest_simulator.intel import SIMULATED_INTEL, IntelAuthority, SimulatedPlatform
from attest_simulator.intel.certificates import (
    PlatformConfiguration,
    SgxExtension,
    authority_certificate,
    authority_template,
    distribution_point,
    issuer_chain,
    pck_template,
    pem_text,
)
from attest_simulator.intel.crls import intel_crl_template, simulated_intel_crl
from attest_simulator.intel.keys import authority_key, p256_key, spki_of

BUNDLES = {
    IntelAuthority.PLATFORM: ("tdx-b0c06f000000-2025-06.json", "pck_crl_issuer_chain", 0),
    IntelAuthority.PROCESSOR: ("sgx-00a067110000-2025-06.json", "pck_crl_issuer_chain", 0),
    IntelAuthority.TCB_SIGNING: ("tdx-b0c06f000000-2025-06.json", "tcb_info_issuer_chain", 0),
    IntelAuthority.ROOT: ("tdx-b0c06f000000-2025-06.json", "tcb_info_issuer_chain", 1),
}
QUOTES = (
    "tdx/v4-b0c06f000000-uptodate/quote.bin",
    "tdx/v5-90c06f000000-uptodate/quote.bin",
    "sgx/v3-00a067110000-confswh/quote.bin",
    "sgx/v3-00606a000000-debug/quote.bin",
)
JANUARY, FEBRUARY = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 1, tzinfo=UTC)
OF_THE_KEY = frozenset({"2.5.29.14", "2.5.29.35"})


def bundle(vectors_dir: Path, name: str) -> dict[str, str]:
    loaded: dict[str, str] = json.loads((vectors_dir / "collateral" / name).read_text())
    return loaded


def genuine_authority(vectors_dir: Path, authority: IntelAuthority) -> Certificate:
    name, member, position = BUNDLES[authority]
    return parse_certificate(pem_blocks(bundle(vectors_dir, name)[member].encode())[position][1])


def as_genuine(ours: tuple[Extension, ...], genuine: Certificate) -> Iterator[Extension]:
    """Put Intel's key identifiers and host into our extensions, and leave order and all else as they are."""
    theirs = {extension.oid: extension for extension in genuine.extensions}
    for extension in ours:
        if extension.oid in OF_THE_KEY:
            yield replace(extension, value=theirs[extension.oid].value)
        elif extension.oid == "2.5.29.31":
            url = extension.value[extension.value.index(b"https://") :].decode()
            # Certificates of 2023 point to version 3 of the interface.
            version = "v3" if b"/v3/" in theirs[extension.oid].value else "v4"
            yield distribution_point(url.replace("simulation.invalid", "intel.com").replace("v4", version))
        else:
            yield extension


def verifies(der: bytes, authority: IntelAuthority) -> None:
    certificate = x509.load_der_x509_certificate(der)
    key = authority_key(authority).public_key()
    key.verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize("authority", IntelAuthority)
def test_an_authority_is_intels_byte_by_byte_but_for_key_and_name(vectors_dir: Path, authority: IntelAuthority) -> None:
    genuine = genuine_authority(vectors_dir, authority)
    ours = authority_template(authority)
    masked = replace(
        ours,
        serial=genuine.serial,
        issuer=intel_name(IntelAuthority.ROOT),
        subject=intel_name(authority),
        spki=genuine.spki,
        extensions=tuple(as_genuine(ours.extensions, genuine)),
    )
    assert masked.to_be_signed() == genuine.tbs
    assert parse_certificate(ours.issue(IntelAuthority.ROOT)).algorithm == genuine.algorithm


@pytest.mark.parametrize("name", QUOTES)
def test_a_pck_certificate_is_intels_byte_by_byte_but_for_key_and_name(vectors_dir: Path, name: str) -> None:
    genuine = parse_certificate(pem_blocks(parse_quote((vectors_dir / name).read_bytes()).certification_data)[0][1])
    pck = read_pck(genuine)
    ca = IntelAuthority(genuine.issuer_common_name or "")
    flags = (pck.dynamic_platform, pck.cached_keys, pck.smt_enabled)
    sgx = SgxExtension(
        ppid=pck.ppid,
        components=pck.component_svns,
        pce_svn=pck.pce_svn,
        cpu_svn=pck.cpu_svn,
        pce_id=pck.pce_id,
        fmspc=pck.fmspc,
        sgx_type=int(pck.sgx_type),
        platform_instance_id=pck.platform_instance_id,
        configuration=None
        if flags == (None, None, None)
        else PlatformConfiguration(dynamic_platform=flags[0], cached_keys=flags[1], smt_enabled=flags[2]),
    )
    ours = pck_template(spki=genuine.spki, sgx=sgx, ca=ca, not_before=genuine.not_before)
    masked = replace(
        ours,
        serial=genuine.serial,
        issuer=intel_name(ca),
        subject=intel_name("Intel SGX PCK Certificate"),
        extensions=tuple(as_genuine(ours.extensions, genuine)),
    )
    assert masked.to_be_signed() == genuine.tbs


@pytest.mark.parametrize(
    ("name", "member", "ca"),
    [
        ("tdx-b0c06f000000-2025-06.json", "root_ca_crl", IntelAuthority.ROOT),
        ("tdx-b0c06f000000-2025-06.json", "pck_crl", IntelAuthority.PLATFORM),
        ("tdx-90c06f000000-2026-03.json", "pck_crl", IntelAuthority.PLATFORM),
        ("sgx-00a067110000-2025-06.json", "pck_crl", IntelAuthority.PROCESSOR),
    ],
)
def test_a_list_is_intels_byte_by_byte_but_for_key_and_name(
    vectors_dir: Path, name: str, member: str, ca: IntelAuthority
) -> None:
    genuine = parse_crl(bytes.fromhex(bundle(vectors_dir, name)[member]))
    loaded = x509.load_der_x509_crl(genuine.der)
    ours = intel_crl_template(
        ca,
        this_update=genuine.this_update,
        next_update=genuine.next_update,
        revoked=tuple(entry.serial_number for entry in loaded),
    )
    key_id = next(e for e in genuine_authority(vectors_dir, ca).extensions if e.oid == "2.5.29.14").value[2:]
    masked = replace(
        ours, issuer=intel_name(ca), authority_key=replace(ours.authority_key, value=b"\x30\x16\x80\x14" + key_id)
    )
    assert masked.to_be_signed() == genuine.tbs


@pytest.mark.parametrize("authority", IntelAuthority)
def test_intels_key_identifier_is_the_sha1_of_the_whole_key_where_it_can_be_recomputed(
    vectors_dir: Path, authority: IntelAuthority
) -> None:
    genuine = genuine_authority(vectors_dir, authority)
    digest = sha1(genuine.spki, usedforsecurity=False).digest()
    assert next(e for e in genuine.extensions if e.oid == "2.5.29.14").value[2:] == digest
    assert genuine.serial == int.from_bytes(digest, "big")


def test_issuer_chains_are_written_as_intel_writes_them(vectors_dir: Path) -> None:
    for authority in (IntelAuthority.PLATFORM, IntelAuthority.PROCESSOR, IntelAuthority.TCB_SIGNING):
        name, member, _ = BUNDLES[authority]
        text = bundle(vectors_dir, name)[member]
        assert pem_text(block for _, block in pem_blocks(text.encode())) == text


@pytest.mark.parametrize("authority", IntelAuthority)
def test_every_authority_says_that_it_is_not_intel_and_is_signed_by_the_simulated_root(
    authority: IntelAuthority,
) -> None:
    der = authority_certificate(authority)
    subject = x509.load_der_x509_certificate(der).subject
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.COMMON_NAME)] == [authority.value]
    assert [a.value for a in subject.get_attributes_for_oid(NameOID.ORGANIZATION_NAME)] == [SIMULATED_INTEL]
    verifies(der, IntelAuthority.ROOT)
    assert pem_blocks(issuer_chain(authority).encode())[0][1] == der


def test_the_root_is_pinned_in_the_simulation_and_nowhere_else() -> None:
    pin = sha256(spki_of(authority_key(IntelAuthority.ROOT))).digest()
    anchor = TrustAnchors.simulation().pinned(pin, role="intel-sgx-root")
    assert anchor is not None
    assert anchor.simulated
    assert TrustAnchors.vendors().pinned(pin, role="intel-sgx-root") is None


@pytest.mark.parametrize("ca", [IntelAuthority.PLATFORM, IntelAuthority.PROCESSOR])
def test_a_pck_certificate_is_signed_by_its_ca_and_read_back(ca: IntelAuthority) -> None:
    platform = SimulatedPlatform.of(ca=ca, fmspc=bytes(range(6)), pce_id=b"\x01\x02", pce_svn=300)
    verifies(platform.pck_certificate(), ca)
    pck = read_pck(parse_certificate(platform.pck_certificate()))
    assert (pck.fmspc, pck.pce_id, pck.pce_svn) == (bytes(range(6)), b"\x01\x02", 300)
    assert pck.component_svns == platform.sgx.components == tuple(pck.cpu_svn)
    assert (pck.platform_instance_id is None) == (ca is IntelAuthority.PROCESSOR)
    assert (pck.smt_enabled is None) == (ca is IntelAuthority.PROCESSOR)


def test_a_pck_certificate_certified_on_29_february_ends_on_1_march() -> None:
    platform = replace(SimulatedPlatform.of(), certified_from=datetime(2028, 2, 29, tzinfo=UTC))
    assert platform.pck_template().not_after == datetime(2035, 3, 1, tzinfo=UTC)


def test_flags_of_the_configuration_can_be_off_or_absent() -> None:
    configuration = PlatformConfiguration(dynamic_platform=False, cached_keys=True, smt_enabled=None)
    platform = SimulatedPlatform.of()
    platform = replace(platform, sgx=replace(platform.sgx, configuration=configuration))
    pck = read_pck(parse_certificate(platform.pck_certificate()))
    assert (pck.dynamic_platform, pck.cached_keys, pck.smt_enabled) == (False, True, None)


def test_any_key_can_sign_a_template() -> None:
    stranger = p256_key("stranger")
    certificate = x509.load_der_x509_certificate(authority_template(IntelAuthority.PLATFORM).issue(stranger))
    stranger.public_key().verify(certificate.signature, certificate.tbs_certificate_bytes, ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize("ca", [IntelAuthority.ROOT, IntelAuthority.PLATFORM, IntelAuthority.PROCESSOR])
def test_a_list_is_signed_by_its_ca_and_names_what_is_revoked(ca: IntelAuthority) -> None:
    der = simulated_intel_crl(ca, this_update=JANUARY, next_update=FEBRUARY, revoked=(1, 2**159 + 1))
    loaded = x509.load_der_x509_crl(der)
    assert loaded.is_signature_valid(authority_key(ca).public_key())
    parsed: Crl = parse_crl(der)
    assert parsed.revoked == {1, 2**159 + 1}
    assert (parsed.this_update, parsed.next_update) == (JANUARY, FEBRUARY)
    stranger = p256_key("stranger")
    other = intel_crl_template(ca, this_update=JANUARY, next_update=FEBRUARY).issue(stranger)
    assert x509.load_der_x509_crl(other).is_signature_valid(stranger.public_key())
    assert not parse_crl(other).revoked


def test_keys_depend_on_what_they_stand_for() -> None:
    first, second = SimulatedPlatform.of("a"), SimulatedPlatform.of("b")
    patched = SimulatedPlatform.of("a", pce_svn=14)
    keys = {spki_of(key) for key in (first.pck_key(), second.pck_key(), patched.pck_key())}
    assert len(keys) == 3
    assert spki_of(first.attestation_key("tdx")) != spki_of(first.attestation_key("sgx"))
    assert spki_of(first.attestation_key("tdx")) == spki_of(patched.attestation_key("tdx"))

"""VCEK and VLEK: every extension that AMD writes, exactly once, exactly so."""

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.anchors import amd_name
from attest.endorsements.x509 import Certificate, Extension, parse_certificate
from attest.errors import ChainError, EvidenceError
from attest.evidence.snp.certificates import LeafKind, SnpLeaf, kind_of, read_leaf
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest_simulator import der
from attest_simulator.certificates import (
    SIMULATED_ORGANISATION,
    CertificateTemplate,
    ca_role,
    ca_template,
    vcek_template,
    vlek_template,
)
from attest_simulator.keys import CaRole, public_key_info, simulated_ca_key

ARC = "1.3.6.1.4.1.3704.1."
HWID = bytes(range(64))
TCB = SnpTcbVersion(bootloader=3, tee=1, snp=8, microcode=209)
TURIN_TCB = SnpTcbVersion(fmc=1, bootloader=2, tee=3, snp=4, microcode=200)
CSP_ID = "CN=simulated-cloud.example"

TEMPLATES = {
    "milan vcek": vcek_template(product=SnpProduct.MILAN, hwid=HWID, tcb=TCB),
    "turin vcek": vcek_template(product=SnpProduct.TURIN, hwid=HWID[:8], tcb=TURIN_TCB),
    "milan vlek": vlek_template(product=SnpProduct.MILAN, csp_id=CSP_ID, tcb=TCB),
}
MANDATORY = {
    "milan vcek": ("1", "2", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "4"),
    "turin vcek": ("1", "2", "3.1", "3.2", "3.3", "3.5", "3.6", "3.7", "3.8", "3.9", "4"),
    "milan vlek": ("1", "2", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8", "5"),
}


@cache
def read_once(template: CertificateTemplate) -> Certificate:
    key = simulated_ca_key(SnpProduct.MILAN, CaRole.ASK)  # reading a leaf looks at no signature
    return parse_certificate(template.issue(key))


def changed(name: str, suffix: str, value: bytes | None) -> Certificate:
    """A leaf with one extension replaced, removed (None) or added."""
    template = TEMPLATES[name]
    oid = ARC + suffix
    kept = tuple(extension for extension in template.extensions if extension.oid != oid)
    added = () if value is None else (Extension(oid=oid, critical=False, value=value),)
    return read_once(replace(template, extensions=(*kept, *added)))


def refused(certificate: Certificate) -> ChainError:
    with pytest.raises(ChainError) as caught:
        read_leaf(certificate)
    assert (caught.value.code, caught.value.exit_code, caught.value.check) == ("snp-leaf-malformed", 4, "snp.leaf")
    return caught.value


# -- real leaves


@pytest.mark.parametrize(
    "vector_id", ["milan-v2-vcek", "milan-v3-vlek", "genoa-v5-vcek", "milan-v2-debug", "turin-chain"]
)
def test_a_real_leaf_has_the_values_that_its_manifest_states(vector_id: str, vectors_dir: Path) -> None:
    root = vectors_dir / "sev-snp"
    vectors = json.loads((root / "MANIFEST.json").read_text())["vectors"]
    vector = next(v for v in vectors if v["id"] == vector_id)
    stated = vector["cert"]["extensions"]
    leaf = read_leaf(parse_certificate((root / vector["endorsement_cert"]).read_bytes()))
    assert leaf.kind == vector["endorsement_role"].lower()
    assert leaf.product == vector["product_line"]
    assert leaf.product_name == stated["2"]
    assert leaf.struct_version == stated["1"]
    levels = (leaf.tcb.bootloader, leaf.tcb.tee, leaf.tcb.snp, leaf.tcb.microcode, leaf.tcb.fmc)
    assert levels == (*(stated[suffix] for suffix in ("3.1", "3.2", "3.3", "3.8")), stated.get("3.9"))
    assert (leaf.hwid.hex() if leaf.hwid else None) == stated.get("4")
    assert leaf.csp_id == stated.get("5")
    assert leaf.unknown_extensions == ()


@pytest.mark.parametrize("path", ["certs/milan/ask.der", "certs/milan/ark.der", "certs/genoa/asvk.der"])
def test_a_real_authority_is_no_leaf(path: str, vectors_dir: Path) -> None:
    certificate = parse_certificate((vectors_dir / "sev-snp" / path).read_bytes())
    assert kind_of(certificate) is None
    assert refused(certificate).field == "subject CN"


# -- simulated leaves


def test_a_vcek_names_its_chip_and_no_provider() -> None:
    leaf = read_leaf(read_once(TEMPLATES["milan vcek"]))
    assert (leaf.kind, leaf.product, leaf.tcb) == (LeafKind.VCEK, SnpProduct.MILAN, TCB)
    assert (leaf.hwid, leaf.csp_id, leaf.product_name, leaf.struct_version) == (HWID, None, "Milan-B0", 0)


def test_a_vcek_of_turin_has_an_fmc_and_eight_bytes_of_hwid() -> None:
    leaf = read_leaf(read_once(TEMPLATES["turin vcek"]))
    assert (leaf.product, leaf.tcb, leaf.hwid, leaf.struct_version) == (SnpProduct.TURIN, TURIN_TCB, HWID[:8], 1)


def test_a_vlek_names_its_provider_and_no_chip() -> None:
    leaf = read_leaf(read_once(TEMPLATES["milan vlek"]))
    assert (leaf.kind, leaf.product, leaf.tcb) == (LeafKind.VLEK, SnpProduct.MILAN, TCB)
    assert (leaf.hwid, leaf.csp_id, leaf.product_name) == (None, CSP_ID, "Milan")


@pytest.mark.parametrize("product", list(SnpProduct))
@pytest.mark.parametrize("kind", list(LeafKind))
def test_the_issuer_of_a_leaf_has_the_name_that_amd_gives_it(product: SnpProduct, kind: LeafKind) -> None:
    expected = f"SEV-{product}" if kind is LeafKind.VCEK else f"SEV-VLEK-{product}"
    assert kind.issuer_common_name(product) == expected
    issuer = parse_certificate(ca_template(product, ca_role(kind)).issue(simulated_ca_key(product, CaRole.ARK)))
    assert issuer.common_name == expected
    assert kind.common_name == f"SEV-{kind.name}"


# -- each extension missing, twice, and wrong


@pytest.mark.parametrize(("name", "suffix"), [(name, s) for name, suffixes in MANDATORY.items() for s in suffixes])
def test_a_missing_extension_is_refused(name: str, suffix: str) -> None:
    error = refused(changed(name, suffix, None))
    assert (error.expected, error.got) == ("exactly one such extension", "none")
    assert f"({ARC}{suffix})" in error.message


@pytest.mark.parametrize(("name", "suffix"), [(name, s) for name, suffixes in MANDATORY.items() for s in suffixes])
def test_an_extension_that_stands_twice_makes_the_certificate_unreadable(name: str, suffix: str) -> None:
    template = TEMPLATES[name]
    twice = next(extension for extension in template.extensions if extension.oid == ARC + suffix)
    with pytest.raises(EvidenceError) as caught:
        read_once(replace(template, extensions=(*template.extensions, twice)))
    assert caught.value.code == "certificate-malformed"


@pytest.mark.parametrize("suffix", ["1", "3.1", "3.2", "3.3", "3.4", "3.5", "3.6", "3.7", "3.8"])
@pytest.mark.parametrize(
    "value",
    [b"", b"\x03", b"\x02\x00", b"\x02\x02\x00\x03", b"\x02\x01\x03\x00", b"\x02\x01", b"\x04\x01\x03", b"\xff"],
)
def test_a_level_that_is_no_der_integer_is_refused(suffix: str, value: bytes) -> None:
    assert refused(changed("milan vcek", suffix, value)).expected == "an INTEGER"


@pytest.mark.parametrize("suffix", ["3.1", "3.2", "3.3", "3.8"])
@pytest.mark.parametrize(
    ("level", "accepted"), [(0, True), (127, True), (128, True), (255, True), (256, False), (-1, False)]
)
def test_a_level_fits_in_a_byte(suffix: str, level: int, accepted: bool) -> None:
    certificate = changed("milan vcek", suffix, der.integer(level))
    if accepted:
        names = {"3.1": "bootloader", "3.2": "tee", "3.3": "snp", "3.8": "microcode"}
        assert read_leaf(certificate).tcb.components()[names[suffix]] == level
    else:
        assert refused(certificate).expected == "0 to 255"


@pytest.mark.parametrize(("name", "suffix"), [(n, s) for n in TEMPLATES for s in ("3.4", "3.5", "3.6", "3.7")])
def test_a_spare_level_that_is_not_zero_is_not_understood(name: str, suffix: str) -> None:
    plain = read_leaf(changed(name, suffix, der.integer(0)))
    assert (plain.tcb in (TCB, TURIN_TCB), plain.spares, plain.unknown_values) == (True, (), ())
    spl = f"spl{suffix[-1]}"
    (unknown,) = read_leaf(changed(name, suffix, der.integer(7))).unknown_values
    error = unknown.refusal
    assert unknown.name == f"{spl}:7"
    assert (error.code, error.exit_code, error.check) == ("snp-leaf-malformed", 4, "snp.leaf")
    assert (error.field, error.expected) == (f"extension {suffix} ({spl})", "0")
    assert error.got == "7, which is not understood and therefore refused"
    assert f"accepted_spls, '{spl}:7'" in (error.hint or "")
    assert refused(changed(name, suffix, der.integer(256))).expected == "0 to 255"
    assert refused(changed(name, suffix, der.octet_string(b"\0"))).expected == "an INTEGER"


def test_an_fmc_belongs_to_turin_only() -> None:
    assert refused(changed("milan vcek", "3.9", der.integer(0))).field == "fmcSPL on Milan"
    assert refused(changed("turin vcek", "3.9", der.octet_string(b"\0"))).field == "fmcSPL"


def test_a_level_of_a_thousand_digits_is_refused() -> None:
    assert refused(changed("milan vcek", "3.1", der.tlv(0x02, b"\x01" * 1000))).field == "blSPL"


@pytest.mark.parametrize(
    "value", [b"", b"Milan", der.tlv(0x0C, b"Milan-B0"), der.tlv(0x16, b"Mil\xe4n"), der.ia5_string("Milan")[:-1]]
)
def test_a_product_name_that_is_no_ia5_string_is_refused(value: bytes) -> None:
    assert refused(changed("milan vcek", "2", value)).expected == "an IA5String"


@pytest.mark.parametrize(
    ("product_name", "accepted"),
    [
        ("Milan", True),
        ("Milan-B0", True),
        ("Milan-B9", True),
        ("Genoa", False),
        ("MilanX", False),
        ("", False),
        ("milan", False),
    ],
)
def test_the_product_name_agrees_with_the_issuer(product_name: str, accepted: bool) -> None:
    certificate = changed("milan vcek", "2", der.ia5_string(product_name))
    if accepted:
        assert read_leaf(certificate).product_name == product_name
    else:
        error = refused(certificate)
        assert (error.field, error.expected, error.got) == ("productName", "Milan", product_name)


def test_a_vcek_with_a_provider_and_a_vlek_with_a_chip_are_refused() -> None:
    assert refused(changed("milan vcek", "5", der.ia5_string(CSP_ID))).field == "CSP_ID in a VCEK"
    assert refused(changed("milan vlek", "4", HWID)).field == "HWID in a VLEK"


def test_an_unknown_extension_of_amd_is_shown() -> None:
    assert read_leaf(changed("milan vcek", "7", b"new")).unknown_extensions == ("7",)
    assert read_leaf(changed("turin vcek", "3.10", b"")).unknown_extensions == ("3.10",)


def test_extensions_of_others_do_not_matter() -> None:
    template = TEMPLATES["milan vcek"]
    other = Extension(oid="1.3.6.1.4.1.3704.2.4", critical=False, value=b"x")
    assert read_leaf(read_once(replace(template, extensions=(*template.extensions, other)))).unknown_extensions == ()


# -- HWID: raw, or in an OCTET STRING


@pytest.mark.parametrize(("name", "hwid"), [("milan vcek", HWID), ("turin vcek", HWID[:8])])
def test_a_hwid_is_read_raw_and_wrapped(name: str, hwid: bytes) -> None:
    assert read_leaf(changed(name, "4", hwid)).hwid == hwid
    assert read_leaf(changed(name, "4", der.octet_string(hwid))).hwid == hwid


@pytest.mark.parametrize(("name", "size"), [("milan vcek", 64), ("turin vcek", 8)])
def test_a_raw_hwid_that_looks_wrapped_is_raw(name: str, size: int) -> None:
    looks_wrapped = bytes([0x04, size]) + bytes(range(size - 2))
    assert read_leaf(changed(name, "4", looks_wrapped)).hwid == looks_wrapped
    shorter = bytes([0x04, size - 2]) + bytes(range(size - 2))
    assert read_leaf(changed(name, "4", shorter)).hwid == shorter


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("milan vcek", b""),
        ("milan vcek", HWID[:63]),
        ("milan vcek", HWID + b"\0"),
        ("milan vcek", HWID + b"\0\0"),
        ("milan vcek", HWID[:8]),
        ("milan vcek", der.octet_string(HWID[:8])),
        ("milan vcek", der.octet_string(HWID[:63])),
        ("milan vcek", der.octet_string(HWID) + b"\0"),
        ("milan vcek", der.tlv(0x03, HWID)),
        ("milan vcek", b"\x04\x81\x40" + HWID),
        ("milan vcek", der.octet_string(der.octet_string(HWID))),
        ("turin vcek", HWID),
        ("turin vcek", HWID[:7]),
        ("turin vcek", HWID[:9]),
        ("turin vcek", HWID[:10]),
        ("turin vcek", der.octet_string(HWID)),
    ],
)
def test_a_hwid_of_another_size_or_form_is_refused(name: str, value: bytes) -> None:
    error = refused(changed(name, "4", value))
    assert error.field == "HWID"


# -- names and keys


@pytest.mark.parametrize("common_name", ["SEV-Milan", "VCEK", "sev-vcek", "SEV-VCEK ", "SEV-VCEK\u00e9", ""])
def test_another_common_name_is_no_leaf(common_name: str) -> None:
    subject = amd_name(common_name or "x", organisation=SIMULATED_ORGANISATION)
    certificate = read_once(replace(TEMPLATES["milan vcek"], subject=subject))
    assert kind_of(certificate) is None
    assert refused(certificate).field == "subject CN"


@pytest.mark.parametrize("issuer", ["SEV-VLEK-Milan", "ARK-Milan", "SEV-Rome", "SEV-VCEK"])
def test_another_issuer_is_refused(issuer: str) -> None:
    name = amd_name(issuer, organisation=SIMULATED_ORGANISATION)
    error = refused(read_once(replace(TEMPLATES["milan vcek"], issuer=name)))
    assert (error.field, error.expected, error.got) == ("issuer CN", "the intermediate of a VCEK", issuer)


def test_an_issuer_without_a_common_name_is_refused() -> None:
    assert refused(read_once(replace(TEMPLATES["milan vcek"], issuer=der.sequence()))).got == "no CN"


def test_the_issuer_decides_the_product_line_and_with_it_the_layout() -> None:
    issuer = amd_name("SEV-Turin", organisation=SIMULATED_ORGANISATION)
    assert refused(read_once(replace(TEMPLATES["milan vcek"], issuer=issuer))).field == "productName"


@pytest.mark.parametrize(
    "key",
    [
        ec.derive_private_key(7, ec.SECP256R1()).public_key(),
        simulated_ca_key(SnpProduct.MILAN, CaRole.ASK).public_key(),
    ],
    ids=["P-256", "RSA"],
)
def test_another_kind_of_key_is_refused(key: ec.EllipticCurvePublicKey | rsa.RSAPublicKey) -> None:
    error = refused(read_once(replace(TEMPLATES["milan vcek"], spki=public_key_info(key))))
    assert (error.field, error.expected) == ("public key", "ECDSA P-384")


@pytest.mark.parametrize("curve", [ec.SECP521R1(), ec.BrainpoolP384R1()])
def test_a_curve_that_no_vendor_uses_is_refused(curve: ec.EllipticCurve) -> None:
    key = ec.derive_private_key(7, curve).public_key()
    with pytest.raises(ChainError) as caught:
        read_leaf(read_once(replace(TEMPLATES["milan vcek"], spki=public_key_info(key))))
    assert caught.value.code == "public-key-invalid"


def test_a_key_that_is_none_is_refused() -> None:
    with pytest.raises(ChainError) as caught:
        read_leaf(read_once(replace(TEMPLATES["milan vcek"], spki=der.sequence(der.NULL))))
    assert caught.value.code == "public-key-invalid"


# -- any extension value at all


@given(st.sampled_from(sorted(TEMPLATES)), st.sampled_from(MANDATORY["turin vcek"]), st.binary(max_size=70))
def test_any_extension_value_is_read_or_refused(name: str, suffix: str, value: bytes) -> None:
    template = TEMPLATES[name]
    kept = tuple(extension for extension in template.extensions if extension.oid != ARC + suffix)
    changed_value = Extension(oid=ARC + suffix, critical=False, value=value)
    certificate = replace(read_once(template), extensions=(*kept, changed_value))
    try:
        leaf: SnpLeaf | None = read_leaf(certificate)
    except ChainError:
        leaf = None
    assert leaf is None or leaf.certificate is certificate

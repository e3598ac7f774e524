"""Certificates and revocation lists: as the vendors make them, and as nobody should accept them."""

from dataclasses import replace
from datetime import datetime, timedelta
from hashlib import sha256
from pathlib import Path

import pytest
from cryptography.hazmat import asn1
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, padding, rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.anchors import TrustAnchors, amd_name
from attest.endorsements.asn1 import Signed, TbsCrl, inside
from attest.endorsements.chains import require_ca, require_current_crl, require_issued, require_valid
from attest.endorsements.signatures import SignatureAlgorithm, load_public_key, signature_holds
from attest.endorsements.x509 import (
    MAX_CERTIFICATE_BYTES,
    MAX_CRL_BYTES,
    MAX_EXTENSIONS,
    Crl,
    Extension,
    Issuer,
    parse_certificate,
    parse_crl,
    pem_blocks,
)
from attest.errors import ChainError, EndorsementError, EvidenceError, RevokedError
from attest.evidence.snp.certificates import LeafKind
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import der
from attest_simulator.certificates import ca_template, simulated_chain
from attest_simulator.keys import CaRole, simulated_ca_key
from tests.endorsements import made

SECOND = timedelta(seconds=1)
ROOT = Issuer(name="Made Root", subject=made.ROOT_NAME, spki=made.spki(made.ROOT_KEY))
P384 = SignatureAlgorithm.ECDSA_SHA384
PSS = SignatureAlgorithm.RSA_PSS_SHA384
LINES = ("milan", "genoa", "turin")


# -- real certificates


@pytest.mark.parametrize("line", LINES)
@pytest.mark.parametrize("name", ["ask", "asvk"])
def test_the_real_intermediates_are_issued_by_the_real_root(vectors_dir: Path, line: str, name: str) -> None:
    folder = vectors_dir / "sev-snp" / "certs" / line
    root = parse_certificate((folder / "ark.der").read_bytes())
    intermediate = parse_certificate((folder / f"{name}.der").read_bytes())
    require_issued(root, root.as_issuer(), algorithm=PSS)
    require_issued(intermediate, root.as_issuer(), algorithm=PSS)
    for certificate in (root, intermediate):
        require_ca(certificate)
    assert intermediate.common_name == f"SEV-{'VLEK-' if name == 'asvk' else ''}{line.capitalize()}"
    assert intermediate.issuer_common_name == root.common_name == f"ARK-{line.capitalize()}"


@pytest.mark.parametrize("line", LINES)
def test_the_real_root_is_the_key_that_is_pinned_and_held(vectors_dir: Path, line: str) -> None:
    root = parse_certificate((vectors_dir / "sev-snp" / "certs" / line / "ark.der").read_bytes())
    anchor = TrustAnchors.vendors().pinned(root.spki_sha256, role="amd-ark")
    assert anchor is not None
    assert anchor.name == root.name
    assert (anchor.subject, anchor.spki) == (root.subject, root.spki)
    assert (anchor.not_before, anchor.not_after) == (root.not_before, root.not_after)


def test_the_real_leaves_with_serial_zero_are_read(vectors_dir: Path) -> None:
    leaves = sorted((vectors_dir / "sev-snp").glob("*/v[cl]ek.der"))
    assert leaves
    for path in leaves:
        leaf = parse_certificate(path.read_bytes())
        assert leaf.serial == 0
        assert leaf.common_name == f"SEV-{path.stem.upper()}"
        with pytest.raises(ChainError) as refusal:
            require_ca(leaf)
        assert refusal.value.code == "ca-flags-missing"


def test_the_real_crl_of_genoa_revokes_the_first_intermediate_of_genoa_and_not_the_second(vectors_dir: Path) -> None:
    folder = vectors_dir / "sev-snp"
    crl = parse_crl((folder / "crl" / "genoa-2022-10.der").read_bytes())
    root = parse_certificate((folder / "certs" / "genoa" / "ark.der").read_bytes()).as_issuer()
    first = parse_certificate((folder / "certs" / "genoa" / "ask-revoked.der").read_bytes())
    second = parse_certificate((folder / "certs" / "genoa" / "ask.der").read_bytes())
    require_issued(first, root, algorithm=PSS)  # it chains: nothing but the list refuses it
    assert require_current_crl((crl,), root, serials=(second.serial,), at=crl.this_update) is crl
    for at in (crl.this_update, crl.next_update + timedelta(days=900)):
        with pytest.raises(RevokedError) as refusal:
            require_current_crl((crl,), root, serials=(first.serial,), at=at)
        assert refusal.value.code == "certificate-revoked"


def test_the_real_crl_of_milan_lists_nothing_and_is_signed_by_its_root(vectors_dir: Path) -> None:
    folder = vectors_dir / "sev-snp"
    crl = parse_crl((folder / "crl" / "milan-2022-05.der").read_bytes())
    root = parse_certificate((folder / "certs" / "milan" / "ark.der").read_bytes()).as_issuer()
    other = parse_certificate((folder / "certs" / "genoa" / "ark.der").read_bytes()).as_issuer()
    assert crl.revoked == frozenset()
    assert crl.is_signed_by(root)
    assert not crl.is_signed_by(other)


@pytest.mark.parametrize("name", ["certs/milan/ask.der", "certs/genoa/ark.der", "crl/genoa-2022-10.der"])
def test_a_flipped_byte_of_a_real_certificate_or_list_is_refused_or_breaks_its_signature(
    vectors_dir: Path, name: str
) -> None:
    whole = (vectors_dir / "sev-snp" / name).read_bytes()
    line = "milan" if "milan" in name else "genoa"
    root = parse_certificate((vectors_dir / "sev-snp" / "certs" / line / "ark.der").read_bytes()).as_issuer()
    for at in range(len(whole)):
        flipped = whole[:at] + bytes([whole[at] ^ 0x01]) + whole[at + 1 :]
        try:
            if name.startswith("crl"):
                assert not parse_crl.__wrapped__(flipped).is_signed_by(root)
            else:
                require_issued(parse_certificate.__wrapped__(flipped), root, algorithm=PSS)
                pytest.fail(f"byte {at} flipped, and the signature still verifies")
        except (EvidenceError, ChainError):
            continue


# -- reading


def test_what_is_read_is_what_was_written() -> None:
    whole = made.certificate(serial=70000)
    read = parse_certificate(whole)
    assert (read.der, read.serial, read.common_name, read.name) == (whole, 70000, "Made Other", "Made Other")
    assert (read.issuer, read.subject, read.spki) == (made.ROOT_NAME, made.OTHER_NAME, made.spki(made.OTHER_KEY))
    assert (read.not_before, read.not_after) == (made.BEGINS, made.ENDS)
    assert read.spki_sha256 == sha256(made.spki(made.OTHER_KEY)).digest()
    assert read.extension("2.5.29.19") == made.CA_CONSTRAINTS
    assert read.extension("2.5.29.99") is None
    assert read.as_issuer() == Issuer(name="Made Other", subject=made.OTHER_NAME, spki=made.spki(made.OTHER_KEY))
    assert parse_certificate(whole) is read


def test_a_crl_is_read_with_and_without_entries() -> None:
    reason = Extension(oid="2.5.29.21", critical=False, value=b"\x0a\x01\x01")
    assert parse_crl(made.crl()).revoked == frozenset()
    full = parse_crl(made.crl(revoked=(3, 131073), entry_extensions=(reason,)))
    assert full.revoked == {3, 131073}
    assert (full.this_update, full.next_update) == (made.BEGINS, made.ENDS)
    assert full.issuer_common_name == "Made Root"


REASON = (Extension(oid="2.5.29.21", critical=False, value=b"\x0a\x01\x01"),)
DATE, LATER = der.time(made.BEGINS), der.time(made.MIDDLE)
REASONS = der.sequence(*map(made.extension, REASON))
ALIKE = made.crl(revoked=(0, 3, 131073, 2**159 + 5, 2**160 - 1, 127, 128, 3), entry_extensions=REASON)


def entry_by_entry(whole: bytes) -> frozenset[int] | None:
    """Decode every entry for itself; None when the list or an entry of it is no DER, or is critical."""
    try:
        tbs = inside(asn1.decode_der(Signed, whole).tbs, TbsCrl)
    except (ValueError, OverflowError):
        return None
    entries = tbs.revoked or []
    extensions = [*tbs.extensions, *(extension for entry in entries for extension in entry.extensions or ())]
    if tbs.version != 1 or any(extension.critical for extension in extensions):
        return None
    return frozenset(entry.serial for entry in entries)


def numbers_of(whole: bytes) -> frozenset[int] | None:
    try:
        return parse_crl.__wrapped__(whole).revoked
    except EvidenceError:
        return None


@pytest.mark.parametrize("bit", range(8))
def test_entries_that_end_alike_are_read_as_if_each_was_decoded_for_itself(bit: int) -> None:
    assert parse_crl(ALIKE).revoked == {0, 3, 131073, 2**159 + 5, 2**160 - 1, 127, 128}
    first = ALIKE.index(der.integer(0) + DATE) - 6  # with the heads of the list and of the entry
    for at in range(first, ALIKE.rindex(REASONS) + len(REASONS)):
        changed = ALIKE[:at] + bytes([ALIKE[at] ^ 1 << bit]) + ALIKE[at + 1 :]
        assert numbers_of(changed) == entry_by_entry(changed), at


LONG = len(DATE + REASONS)


def entry(*parts: bytes) -> bytes:
    return der.sequence(*parts)


@pytest.mark.parametrize(
    "more",
    [
        (entry(der.integer(9), DATE),),
        (entry(der.integer(9), LATER, REASONS),),
        (entry(der.integer(9), DATE, der.sequence()),),
        (entry(der.integer(9), DATE, REASONS, REASONS),),
        (entry(DATE, REASONS),),
        (entry(b"\x02\x00", DATE, REASONS),),
        (entry(b"\x02\x02\x00\x01", DATE, REASONS),),
        (entry(b"\x02\x81\x01\x09", DATE, REASONS),),
        (entry(der.tlv(0x0A, b"\x09"), DATE, REASONS),),
        (entry(der.integer(9), der.integer(9), DATE, REASONS),),
        (der.tlv(0x31, der.integer(9), DATE, REASONS),),
        (entry(der.tlv(0x02, b"\x09" + DATE + REASONS), DATE, REASONS),),
        (entry(der.integer(2**900), DATE, REASONS),),
        (entry(der.tlv(0x02, b"\xf7"), DATE, REASONS),),
        (entry(der.integer(1 << 8 * (125 - LONG) - 2), DATE, REASONS),),  # 127 bytes, the longest of short form
        (b"\x30\x80" + der.integer(1 << 8 * (126 - LONG) - 2) + DATE + REASONS,),  # 128 is no length of that form
        (der.integer(9), DATE + REASONS),
        (DATE + REASONS,),
        (entry(der.integer(9), DATE, REASONS), b"\0"),
    ],
)
@pytest.mark.parametrize("before", [(), (1, 2), tuple(range(10)), tuple(range(2**64, 2**64 + 10))])
def test_an_entry_that_differs_is_read_or_refused_as_the_decoder_does(
    before: tuple[int, ...], more: tuple[bytes, ...]
) -> None:
    whole = made.crl(revoked=before, entry_extensions=REASON, more_entries=more)
    assert numbers_of(whole) == entry_by_entry(whole)


@pytest.mark.parametrize("entries", [b"", b"\x00", b"\x05"], ids=["none", "a NUL", "a byte"])
def test_a_long_list_whose_entries_have_no_head_is_read_or_refused_as_the_decoder_does(entries: bytes) -> None:
    padding = (Extension(oid="1.2.3.4", critical=False, value=bytes(600)),)
    tbs = der.sequence(
        der.integer(1),
        made.ECDSA_SHA384,
        made.ROOT_NAME,
        der.time(made.BEGINS),
        der.time(made.ENDS),
        der.tlv(0x30, entries),
        der.context(0, der.sequence(*map(made.extension, padding))),
    )
    whole = made.signed(tbs, made.ROOT_KEY, outer=made.ECDSA_SHA384)
    assert numbers_of(whole) == entry_by_entry(whole)


def name_of(*common_names: bytes) -> bytes:
    oid = der.object_identifier("2.5.4.3")
    return der.sequence(*(der.tlv(0x31, der.sequence(oid, der.tlv(0x0C, text))) for text in common_names))


@pytest.mark.parametrize("name", [name_of(), name_of(b"One", b"Two"), name_of("Ä".encode()), name_of(b"\x1b[31mred")])
def test_a_name_without_one_printable_cn_has_none_and_goes_by_its_serial(name: bytes) -> None:
    read = parse_certificate(made.certificate(subject=name))
    assert read.common_name is None
    assert read.name == "certificate with serial 7"


TWICE = (made.CA_CONSTRAINTS, made.CA_CONSTRAINTS)
MANY = tuple(Extension(oid=f"1.3.6.1.{i}", critical=False, value=b"") for i in range(MAX_EXTENSIONS + 1))


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        (b"", "certificate cannot be read"),
        (b"\x30\x00", "certificate cannot be read"),
        (made.certificate() + b"\0", "certificate cannot be read"),
        (made.certificate()[:-1], "certificate cannot be read"),
        (made.certificate(version=1), "version 2, expected 3"),
        (made.certificate(outer=made.ECDSA_SHA256), "outside differs"),
        (made.certificate(extensions=TWICE), "occurs twice"),
        (made.certificate(extensions=MANY), f"more than {MAX_EXTENSIONS}"),
        (made.certificate(unused_bits=1), "not whole bytes"),
        (made.certificate(subject=der.integer(1)), "certificate cannot be read"),
        (b"\x30" + bytes(MAX_CERTIFICATE_BYTES), f"more than {MAX_CERTIFICATE_BYTES}"),
        (made.crl(), "certificate cannot be read"),
    ],
    ids=made.label,
)
def test_a_malformed_certificate_is_refused(whole: bytes, words: str) -> None:
    with pytest.raises(EvidenceError, match=words) as refusal:
        parse_certificate(whole)
    assert refusal.value.code == "certificate-malformed"


def test_the_limits_of_size_and_of_extensions_are_the_last_that_passes() -> None:
    empty = len(made.certificate(extensions=(Extension(oid="1.2.3", critical=False, value=bytes(15000)),))) - 15000
    for over in (-1, 0, 1):
        filler = Extension(oid="1.2.3", critical=False, value=bytes(MAX_CERTIFICATE_BYTES - empty + over))
        whole = made.certificate(extensions=(filler,))
        if len(whole) <= MAX_CERTIFICATE_BYTES:
            assert parse_certificate(whole).extensions == (filler,)
        else:
            with pytest.raises(EvidenceError):
                parse_certificate(whole)
    assert len(parse_certificate(made.certificate(extensions=MANY[:-1])).extensions) == MAX_EXTENSIONS


CRITICAL = (Extension(oid="2.5.29.28", critical=True, value=der.sequence()),)


@pytest.mark.parametrize(
    ("whole", "words"),
    [
        (b"", "crl cannot be read"),
        (made.crl() + b"\0", "crl cannot be read"),
        (made.crl(version=0), "expected version 2"),
        (made.crl(extensions=CRITICAL), "without critical extensions"),
        (made.crl(revoked=(1,), entry_extensions=CRITICAL), "without critical extensions"),
        (made.crl(outer=made.ECDSA_SHA256), "outside differs"),
        (b"\x30" + bytes(MAX_CRL_BYTES), f"more than {MAX_CRL_BYTES}"),
        (made.certificate(), "crl cannot be read"),
    ],
    ids=made.label,
)
def test_a_malformed_crl_is_refused(whole: bytes, words: str) -> None:
    with pytest.raises(EvidenceError, match=words) as refusal:
        parse_crl(whole)
    assert refusal.value.code == "crl-malformed"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_certificate_or_a_documented_refusal(data: bytes) -> None:
    for parse in (parse_certificate, parse_crl):
        with pytest.raises(EvidenceError):
            parse(data)


@pytest.mark.parametrize("whole", [made.certificate(), made.crl(revoked=(1, 2))], ids=["certificate", "crl"])
@given(data=st.data())
def test_damage_anywhere_is_read_or_refused_and_never_crashes(whole: bytes, data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(whole) - 1))
    damaged = whole[:at] + data.draw(st.binary(max_size=4)) + whole[at + data.draw(st.integers(0, 4)) :]
    outcomes: list[object] = []
    for parse in (parse_certificate, parse_crl):
        try:
            outcomes.append(parse(damaged).der)
        except EvidenceError as exc:
            outcomes.append(exc.code)
    assert set(outcomes) <= {damaged, "certificate-malformed", "crl-malformed"}


# -- PEM


def test_pem_blocks_are_taken_in_order_and_text_between_them_is_ignored() -> None:
    text = b"subject=CN = x\r\n" + made.pem("CERTIFICATE", b"one") + b"between\n" + made.pem("X509 CRL", b"two")
    assert pem_blocks(text) == (("CERTIFICATE", b"one"), ("X509 CRL", b"two"))
    assert pem_blocks(b"no block at all") == ()


def test_a_pem_block_that_is_not_base64_is_refused() -> None:
    with pytest.raises(EvidenceError) as refusal:
        pem_blocks(b"-----BEGIN CERTIFICATE-----\nAAA\n-----END CERTIFICATE-----")
    assert refusal.value.code == "base64-invalid"


def test_pem_labels_that_differ_at_the_end_make_no_block() -> None:
    assert pem_blocks(b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END X509 CRL-----") == ()


# -- keys and signatures


@pytest.mark.parametrize(
    "spki",
    [
        b"",
        b"not a key",
        ed25519.Ed25519PrivateKey.from_private_bytes(bytes(32))
        .public_key()
        .public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo),
        made.spki(made.ROOT_KEY)[:-1] + bytes([made.spki(made.ROOT_KEY)[-1] ^ 1]),  # no point of the curve
    ],
    ids=["empty", "text", "ed25519", "off the curve"],
)
def test_a_key_of_another_kind_or_off_its_curve_is_refused(spki: bytes) -> None:
    with pytest.raises(ChainError) as refusal:
        load_public_key(spki)
    assert refusal.value.code == "public-key-invalid"


def pss_identifier(*, hash_null: bool, mgf_null: bool, trailer: bool, salt: int = 48) -> bytes:
    sha384 = der.object_identifier("2.16.840.1.101.3.4.2.2")
    parameters = (
        der.context(0, der.sequence(sha384, *((der.NULL,) if hash_null else ()))),
        der.context(
            1,
            der.sequence(
                der.object_identifier("1.2.840.113549.1.1.8"),
                der.sequence(sha384, *((der.NULL,) if mgf_null else ())),
            ),
        ),
        der.context(2, der.integer(salt)),
        *((der.context(3, der.integer(1)),) if trailer else ()),
    )
    return der.sequence(der.object_identifier("1.2.840.113549.1.1.10"), der.sequence(*parameters))


@pytest.fixture(scope="module")
def rsa_key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def rsa_spki(key: rsa.RSAPrivateKey) -> bytes:
    return key.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)


@pytest.mark.parametrize("trailer", [False, True])
@pytest.mark.parametrize("mgf_null", [False, True])
@pytest.mark.parametrize("hash_null", [False, True])
def test_every_spelling_of_the_one_pss_verifies(
    rsa_key: rsa.RSAPrivateKey, hash_null: bool, mgf_null: bool, trailer: bool
) -> None:
    scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=48)
    signature = rsa_key.sign(b"signed", scheme, hashes.SHA384())
    identifier = pss_identifier(hash_null=hash_null, mgf_null=mgf_null, trailer=trailer)
    assert signature_holds(b"signed", signature, identifier, rsa_spki(rsa_key))
    assert not signature_holds(b"signed!", signature, identifier, rsa_spki(rsa_key))


def test_another_salt_is_another_algorithm_and_never_verifies(rsa_key: rsa.RSAPrivateKey) -> None:
    scheme = padding.PSS(mgf=padding.MGF1(hashes.SHA384()), salt_length=32)
    signature = rsa_key.sign(b"signed", scheme, hashes.SHA384())
    for salt in (32, 48):
        identifier = pss_identifier(hash_null=True, mgf_null=True, trailer=False, salt=salt)
        assert not signature_holds(b"signed", signature, identifier, rsa_spki(rsa_key))


@pytest.mark.parametrize(
    ("curve", "digest", "identifier"),
    [
        (ec.SECP256R1(), hashes.SHA256(), made.ECDSA_SHA256),
        (ec.SECP384R1(), hashes.SHA384(), made.ECDSA_SHA384),
    ],
)
def test_ecdsa_verifies_with_its_own_hash_only(
    curve: ec.EllipticCurve, digest: hashes.HashAlgorithm, identifier: bytes
) -> None:
    key = ec.derive_private_key(77, curve)
    signature = key.sign(b"signed", ec.ECDSA(digest))
    for tried in (made.ECDSA_SHA256, made.ECDSA_SHA384):
        assert signature_holds(b"signed", signature, tried, made.spki(key)) is (tried == identifier)


def test_an_algorithm_for_another_kind_of_key_never_verifies(rsa_key: rsa.RSAPrivateKey) -> None:
    pss = pss_identifier(hash_null=True, mgf_null=True, trailer=True)
    signature = made.ROOT_KEY.sign(b"signed", ec.ECDSA(hashes.SHA384()))
    assert not signature_holds(b"signed", signature, pss, made.spki(made.ROOT_KEY))
    assert not signature_holds(b"signed", signature, made.ECDSA_SHA384, rsa_spki(rsa_key))
    assert not signature_holds(b"signed", signature, b"", made.spki(made.ROOT_KEY))


# -- who may issue


def test_a_ca_with_both_flags_may_issue() -> None:
    require_ca(parse_certificate(made.certificate()))


CONSTRAINTS, USAGE = made.AUTHORITY


@pytest.mark.parametrize(
    ("extensions", "code"),
    [
        ((), "ca-flags-missing"),
        ((CONSTRAINTS,), "ca-flags-missing"),
        ((USAGE,), "ca-flags-missing"),
        ((replace(CONSTRAINTS, value=der.sequence()), USAGE), "ca-flags-missing"),
        ((replace(CONSTRAINTS, value=b"\x30"), USAGE), "ca-flags-missing"),
        ((CONSTRAINTS, replace(USAGE, value=b"garbage")), "ca-flags-missing"),
        ((CONSTRAINTS, replace(USAGE, value=der.bit_string(b""))), "ca-flags-missing"),
        ((CONSTRAINTS, replace(USAGE, value=der.bit_string(b"\x02", unused_bits=1))), "ca-flags-missing"),
        ((*made.AUTHORITY, Extension(oid="2.5.29.30", critical=True, value=b"")), "critical-extension-unknown"),
    ],
)
def test_a_certificate_without_ca_flags_or_with_unknown_demands_may_not_issue(
    extensions: tuple[Extension, ...], code: str
) -> None:
    with pytest.raises(ChainError) as refusal:
        require_ca(parse_certificate(made.certificate(extensions=extensions)))
    assert refusal.value.code == code


def test_an_unknown_extension_that_is_not_critical_does_no_harm() -> None:
    extra = Extension(oid="2.5.29.30", critical=False, value=b"")
    require_ca(parse_certificate(made.certificate(extensions=(*made.AUTHORITY, extra))))


def test_a_certificate_of_the_issuer_is_accepted() -> None:
    require_issued(parse_certificate(made.certificate()), ROOT, algorithm=P384)


@pytest.mark.parametrize(
    ("whole", "issuer", "algorithm", "code"),
    [
        (made.certificate(issuer=made.OTHER_NAME), ROOT, P384, "issuer-name-mismatch"),
        (made.certificate(issuer=name_of()), ROOT, P384, "issuer-name-mismatch"),
        (made.certificate(), ROOT, PSS, "certificate-algorithm-unexpected"),
        (
            made.certificate(inner=made.ECDSA_SHA256, outer=made.ECDSA_SHA256),
            ROOT,
            P384,
            "certificate-algorithm-unexpected",
        ),
        (made.certificate(signer=made.OTHER_KEY), ROOT, P384, "certificate-signature-invalid"),
        (made.certificate(), ROOT._replace(spki=b"no key"), P384, "public-key-invalid"),
        (
            made.certificate(extensions=(Extension(oid="1.2.3", critical=True, value=b""),)),
            ROOT,
            P384,
            "critical-extension-unknown",
        ),
    ],
    ids=made.label,
)
def test_what_the_issuer_did_not_issue_is_refused(
    whole: bytes, issuer: Issuer, algorithm: SignatureAlgorithm, code: str
) -> None:
    with pytest.raises(ChainError) as refusal:
        require_issued(parse_certificate(whole), issuer, algorithm=algorithm)
    assert refusal.value.code == code


def test_the_simulated_chain_is_issued_like_the_real_one() -> None:
    ask, ark = (parse_certificate(whole) for whole in simulated_chain(SnpProduct.MILAN, kind=LeafKind.VCEK))
    require_issued(ark, ark.as_issuer(), algorithm=PSS)
    require_issued(ask, ark.as_issuer(), algorithm=PSS)
    forged = ca_template(SnpProduct.MILAN, CaRole.ASK).issue(simulated_ca_key(SnpProduct.MILAN, CaRole.ASK))
    with pytest.raises(ChainError) as refusal:
        require_issued(parse_certificate(forged), ark.as_issuer(), algorithm=PSS)
    assert refusal.value.code == "certificate-signature-invalid"


# -- when


@pytest.mark.parametrize(
    ("at", "code"),
    [
        (made.BEGINS - SECOND, "certificate-not-yet-valid"),
        (made.BEGINS, None),
        (made.BEGINS + SECOND, None),
        (made.ENDS - SECOND, None),
        (made.ENDS, None),
        (made.ENDS + SECOND, "certificate-expired"),
    ],
)
def test_both_bounds_of_a_certificate_are_included(at: datetime, code: str | None) -> None:
    certificate = parse_certificate(made.certificate())
    if code is None:
        require_valid(certificate, at=at)
        return
    with pytest.raises(ChainError) as refusal:
        require_valid(certificate, at=at)
    assert refusal.value.code == code


# -- revocation

EARLY, LATE = made.BEGINS, made.BEGINS + timedelta(days=100)


def crl_of(**changed: object) -> Crl:
    return parse_crl(made.crl(**changed))  # type: ignore[arg-type]  # named arguments of the maker


@pytest.mark.parametrize(
    ("at", "code"),
    [
        (made.BEGINS - SECOND, "crl-not-yet-valid"),
        (made.BEGINS, None),
        (made.ENDS - SECOND, None),
        (made.ENDS, "crl-expired"),
        (made.ENDS + SECOND, "crl-expired"),
    ],
)
def test_a_list_is_current_from_its_first_moment_to_before_its_last(at: datetime, code: str | None) -> None:
    crl = crl_of()
    assert crl.is_current(at) is (code is None)
    if code is None:
        assert require_current_crl((crl,), ROOT, serials=(7,), at=at) is crl
        return
    with pytest.raises(EndorsementError) as refusal:
        require_current_crl((crl,), ROOT, serials=(7,), at=at)
    assert refusal.value.code == code
    assert refusal.value.retryable


def test_a_list_that_ends_when_it_begins_is_never_current() -> None:
    with pytest.raises(EndorsementError) as refusal:
        require_current_crl((crl_of(ends=made.BEGINS),), ROOT, serials=(), at=made.BEGINS)
    assert refusal.value.code == "crl-expired"


def test_the_newest_of_several_current_lists_counts_and_order_does_not_matter() -> None:
    old, new = crl_of(), crl_of(begins=made.BEGINS + timedelta(days=9))
    for lists in ((old, new), (new, old)):
        assert require_current_crl(lists, ROOT, serials=(), at=made.MIDDLE) is new


@pytest.mark.parametrize("at", [made.BEGINS - SECOND, made.MIDDLE, made.ENDS + SECOND], ids=["early", "now", "late"])
def test_what_any_genuine_list_names_is_revoked_even_when_that_list_is_not_current(at: datetime) -> None:
    with pytest.raises(RevokedError) as refusal:
        require_current_crl((crl_of(revoked=(5, 7)),), ROOT, serials=(6, 7), at=at)
    assert refusal.value.code == "certificate-revoked"


def test_without_a_list_of_the_issuer_the_list_is_missing() -> None:
    other = crl_of(issuer=made.OTHER_NAME, revoked=(7,))
    for lists in ((), (other,)):
        with pytest.raises(EndorsementError) as refusal:
            require_current_crl(lists, ROOT, serials=(7,), at=made.MIDDLE)
        assert refusal.value.code == "crl-missing"
        assert refusal.value.exit_code == 5


def test_a_list_in_the_issuers_name_that_it_did_not_sign_refuses_when_it_is_the_only_one() -> None:
    forged = crl_of(signer=made.OTHER_KEY)
    with pytest.raises(ChainError) as refusal:
        require_current_crl((forged,), ROOT, serials=(7,), at=made.MIDDLE)
    assert refusal.value.code == "crl-signature-invalid"


def test_a_forged_list_neither_helps_nor_revokes_beside_a_good_one() -> None:
    forged, good = crl_of(signer=made.OTHER_KEY, revoked=(7,)), crl_of()
    assert require_current_crl((forged, good), ROOT, serials=(7,), at=made.MIDDLE) is good


def test_the_message_of_an_outdated_list_speaks_of_the_newest() -> None:
    old, new = crl_of(ends=LATE), crl_of(begins=EARLY + timedelta(days=5), ends=LATE)
    with pytest.raises(EndorsementError) as refusal:
        require_current_crl((new, old), ROOT, serials=(), at=made.MIDDLE)
    assert refusal.value.got == "2026-01-06T00:00:00Z to 2026-04-11T00:00:00Z"


def test_names_are_compared_byte_by_byte() -> None:
    assert amd_name("ARK-Milan") != amd_name("ARK-Milan", organisation="Somebody Else")
    crl = crl_of(issuer=amd_name("Made Root", organisation="Somebody Else"))
    assert not crl.is_signed_by(ROOT)

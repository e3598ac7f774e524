"""Launch endorsements of Compute Engine, made with a root of our own: none of a running machine is recorded."""

from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import padding
from cryptography.hazmat.primitives.serialization import Encoding
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.x509 import Certificate
from attest.errors import AttestError, ChainError, ConfigurationError, EvidenceError, SignatureError
from attest.measure import (
    VerifiedLaunchEndorsement,
    parse_launch_endorsement,
    parse_root,
    verify_launch_endorsement,
)
from attest.measure.launch_endorsement import MAX_ENDORSEMENT_BYTES
from attest.measure.protobuf import MAX_FIELDS, parse_protobuf
from tests.measure.made_endorsements import (
    AT,
    GOLDEN,
    SNP,
    Golden,
    certificate,
    changed,
    ec_key,
    endorsement,
    field,
    root,
    rsa_key,
    signer,
    snp,
    tdx,
    varint,
)

SECOND = timedelta(seconds=1)


def trusted(certificate: x509.Certificate) -> Certificate:
    return parse_root(certificate.public_bytes(Encoding.DER))


def verified(data: bytes, *, at: datetime = AT) -> VerifiedLaunchEndorsement:
    return verify_launch_endorsement(parse_launch_endorsement(data), root=trusted(root()), at=at)


def test_an_endorsement_gives_the_measurements_of_every_configuration() -> None:
    parsed = verified(endorsement()).parsed
    assert parsed.tdx is not None
    assert parsed.snp is not None
    assert [(row.ram_gib, row.early_accept, row.mr_td[0]) for row in parsed.tdx.measurements] == [
        (0, False, 1),
        (16, False, 2),
        (16, True, 3),
    ]
    assert [(count, value[0]) for count, value in parsed.snp.measurements] == [(1, 4), (2, 5)]
    assert (parsed.tdx.svn, parsed.snp.svn, parsed.snp.policy) == (3, 5, 0x70000)
    assert (parsed.issued, parsed.changelist, parsed.commit) == (AT, 4711, b"")
    assert parsed.firmware_sha384 == b"\x44" * 48


def test_either_technology_is_enough() -> None:
    assert verified(endorsement(changed(snp=None))).parsed.snp is None
    assert verified(endorsement(changed(tdx=None))).parsed.tdx is None


def test_signed_fields_that_are_not_known_are_ignored() -> None:
    more = field(99, b"later") + field(98, 1) + varint(97 << 3 | 5) + bytes(4) + varint(96 << 3 | 1) + bytes(8)
    assert verified(endorsement(changed(more=more))).parsed.changelist == 4711


def test_every_byte_of_an_endorsement_counts() -> None:
    """The signed bytes hold the certificate, and the outer message holds nothing but them and the signature."""
    data = endorsement()
    for at in range(len(data)):
        other = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(AttestError):
            verified(other)


def test_an_endorsement_that_is_cut_off_or_longer_is_refused() -> None:
    data = endorsement()
    for length in range(0, len(data), 5):
        with pytest.raises(AttestError):
            verified(data[:length])
    with pytest.raises(EvidenceError):
        verified(data + field(3, b"unsigned"))
    with pytest.raises(EvidenceError):
        verified(data + field(2, b"another signature"))
    with pytest.raises(EvidenceError, match="at most"):
        parse_launch_endorsement(bytes(MAX_ENDORSEMENT_BYTES + 1))


@pytest.mark.parametrize(
    ("golden", "said"),
    [
        (changed(snp=None, tdx=None), "neither SEV-SNP nor TDX"),
        (changed(timestamp=None), "names no time"),
        (changed(timestamp=field(1, (1 << 64) - 1)), "its time is none"),
        (changed(digest=b"short"), "digest of the firmware of 5 bytes"),
        (changed(digest=None), "digest of the firmware of 0 bytes"),
        (changed(tdx=tdx()), "0 measurements"),
        (changed(tdx=tdx((1, False, b"short"))), "MRTD of 5 bytes"),
        (changed(tdx=tdx((1, False, bytes(48)), (1, False, bytes(48)))), "2 measurements of 1 configurations"),
        (changed(snp=snp()), "0 measurements"),
        (changed(snp=snp((1, bytes(48)), (1, bytes(48)))), "2 measurements of 1 numbers"),
        (changed(snp=snp((1, bytes(47)))), "measurement of 47 bytes"),
        (changed(snp=snp((1, bytes(48)), family=b"")), "family id of 0 bytes"),
        (changed(snp=snp((1, bytes(48)), image=b"x")), "image id of 1 bytes"),
        (changed(snp=snp(*((count, bytes(48)) for count in range(1025)))), "at most 1024"),
        (changed(cert=b"no certificate"), "certificate"),
        (changed(changelist=b"text"), "another wire type"),
        (changed(commit=7), "another wire type"),
        (changed(more=field(8, b"")), "field 8 stands 2 times"),
    ],
)
def test_golden_measurements_that_are_malformed(golden: Golden, said: str) -> None:
    with pytest.raises(EvidenceError, match=said) as refused:
        verified(endorsement(golden))
    assert refused.value.code in ("launch-endorsement-malformed", "protobuf-malformed", "certificate-malformed")


def test_a_signature_by_another_key() -> None:
    with pytest.raises(SignatureError) as refused:
        verified(endorsement(key=rsa_key("another")))
    assert refused.value.code == "launch-endorsement-signature-invalid"


def test_a_signature_of_another_scheme() -> None:
    signed = GOLDEN.encoded()
    other = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=20)
    for scheme in (other, padding.PKCS1v15()):
        signature = rsa_key("signer").sign(signed, scheme, hashes.SHA256())
        with pytest.raises(SignatureError):
            verified(endorsement(signature=signature))


def with_certificate(**options: object) -> bytes:
    made = signer(**options)  # type: ignore[arg-type]  # each by its name
    return endorsement(changed(cert=made.public_bytes(Encoding.DER)))


@pytest.mark.parametrize("pss", [True, False])
def test_the_root_may_sign_with_either_scheme_of_rsa(pss: bool) -> None:
    assert verified(with_certificate(pss=pss)).parsed.tdx is not None


def test_a_certificate_of_another_root() -> None:
    other = certificate("signer", rsa_key("signer"), issuer="GCE-cc-tcb-root", signing=rsa_key("another"), ca=False)
    renamed = certificate("signer", rsa_key("signer"), issuer="another", signing=rsa_key("root"), ca=False)
    for made in (other, renamed):
        with pytest.raises(ChainError) as refused:
            verified(endorsement(changed(cert=made.public_bytes(Encoding.DER))))
        assert refused.value.code == "root-not-trusted"


def test_the_root_within_an_endorsement_is_not_trusted() -> None:
    other = certificate(
        "GCE-cc-tcb-root", rsa_key("another"), issuer="GCE-cc-tcb-root", signing=rsa_key("another"), ca=True
    )
    made = certificate("signer", rsa_key("signer"), issuer="GCE-cc-tcb-root", signing=rsa_key("another"), ca=False)
    golden = changed(cert=made.public_bytes(Encoding.DER), ca_bundle=other.public_bytes(Encoding.PEM))
    with pytest.raises(ChainError):
        verified(endorsement(golden))


@pytest.mark.parametrize("name", ["signer", "root"])
@pytest.mark.parametrize(
    ("shift", "code"),
    [
        (-SECOND, "certificate-not-yet-valid"),
        (timedelta(0), None),
        (timedelta(days=1), None),
        (timedelta(days=1, seconds=1), "certificate-expired"),
    ],
)
def test_certificates_are_valid_from_their_first_to_their_last_second(
    name: str, shift: timedelta, code: str | None
) -> None:
    end = AT + timedelta(days=1)
    made = {"signer": signer(), "root": root()}
    made[name] = signer(start=AT, end=end) if name == "signer" else root(start=AT, end=end)
    wide = timedelta(days=30)
    if name == "signer":
        made["root"] = root(start=AT - wide, end=AT + wide)
    else:
        made["signer"] = signer(start=AT - wide, end=AT + wide)
    data = endorsement(changed(cert=made["signer"].public_bytes(Encoding.DER)))
    parsed = parse_launch_endorsement(data)
    if code is None:
        assert verify_launch_endorsement(parsed, root=trusted(made["root"]), at=AT + shift).parsed is parsed
        return
    with pytest.raises(ChainError) as refused:
        verify_launch_endorsement(parsed, root=trusted(made["root"]), at=AT + shift)
    assert refused.value.code == code


def test_a_certificate_with_a_critical_extension_that_is_not_understood() -> None:
    with pytest.raises(ChainError) as refused:
        verified(with_certificate(critical=True))
    assert refused.value.code == "critical-extension-unknown"


def test_a_signing_key_of_another_kind() -> None:
    made = certificate("signer", ec_key(), issuer="GCE-cc-tcb-root", signing=rsa_key("root"), ca=False)
    with pytest.raises(ChainError) as refused:
        verified(endorsement(changed(cert=made.public_bytes(Encoding.DER))))
    assert refused.value.code == "public-key-invalid"


# -- the root


def test_a_root_is_read_from_der_and_from_pem() -> None:
    made = root()
    der = made.public_bytes(Encoding.DER)
    assert parse_root(der).der == der
    assert parse_root(b"text before\n" + made.public_bytes(Encoding.PEM)).der == der


@pytest.mark.parametrize("case", ["nothing", "no certificate", "two", "no CA", "issued by another", "no PEM"])
def test_files_that_are_no_root(case: str) -> None:
    made = root()
    data = {
        "nothing": b"",
        "no certificate": b"0\x00",
        "two": made.public_bytes(Encoding.PEM) * 2,
        "no CA": certificate("x", rsa_key("root"), issuer="x", signing=rsa_key("root"), ca=False).public_bytes(
            Encoding.DER
        ),
        "issued by another": signer().public_bytes(Encoding.DER),
        "no PEM": b"-----BEGIN CERTIFICATE-----\n",
    }[case]
    with pytest.raises(ConfigurationError) as refused:
        parse_root(data)
    assert refused.value.code == "launch-root-invalid"


# -- the wire format


@pytest.mark.parametrize(
    "data",
    [
        b"\x00\x00",
        b"\x0b",
        b"\x0c",
        b"\x0e\x00",
        b"\x08\x80\x00",
        b"\x08" + b"\xff" * 10,
        b"\x08" + b"\xff" * 9 + b"\x02",
        varint(1 << 32) + b"\x00",
        field(1, 0) * (MAX_FIELDS + 1),
    ],
    ids=["field 0", "group", "end of group", "no type", "superfluous", "endless", "65 bits", "field 2^29", "many"],
)
def test_messages_that_are_malformed(data: bytes) -> None:
    with pytest.raises(EvidenceError) as refused:
        parse_protobuf(data, what="message")
    assert refused.value.code == "protobuf-malformed"


def test_the_largest_number_and_the_last_field() -> None:
    message = parse_protobuf(field((1 << 29) - 1, (1 << 64) - 1), what="message")
    assert message.number((1 << 29) - 1) == (1 << 64) - 1
    assert (message.number(1), message.data(1), message.message(1, "within"), message.messages(1, "within")) == (
        0,
        b"",
        None,
        (),
    )


@given(st.binary(max_size=300))
def test_any_bytes_are_an_endorsement_or_refused_by_name(data: bytes) -> None:
    for candidate in (data, field(1, data) + field(2, b""), field(1, GOLDEN.encoded() + data) + field(2, b"")):
        try:
            parse_launch_endorsement(candidate)
        except EvidenceError as exc:
            assert exc.code in ("launch-endorsement-malformed", "protobuf-malformed", "truncated")  # noqa: PT017
        try:
            parse_root(candidate)
        except ConfigurationError as exc:
            assert exc.code == "launch-root-invalid"  # noqa: PT017  a total function


def test_the_time_of_an_endorsement_is_utc() -> None:
    parsed = parse_launch_endorsement(endorsement(changed(timestamp=field(1, 0), snp=SNP)))
    assert parsed.issued == datetime(1970, 1, 1, tzinfo=UTC)

"""The simulated responder: right for a library, the same bytes each time, and what it says of whom."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import ocsp
from cryptography.x509.oid import ExtendedKeyUsageOID

from attest.endorsements.ocsp import require_not_revoked
from attest.endorsements.ocsp_answers import parse_ocsp
from attest.endorsements.x509 import parse_certificate
from attest.errors import ChainError, EndorsementError, RevokedError
from attest_simulator.nvidia import DEVICE_ROOT, RIM_ROOT, Reason, SimulatedGpu, SimulatedOcsp
from attest_simulator.nvidia.authorities import Authority, issuing_authorities, provisioner_authority, reference_issuer
from attest_simulator.nvidia.keys import p384_key
from attest_simulator.nvidia.ocsp import responder_template
from attest_simulator.nvidia.rims import rim_signer_template, signed_in

AT = datetime(2026, 6, 1, 12, 30, tzinfo=UTC)
MIDNIGHT = AT.replace(hour=0, minute=0)
GPU = SimulatedGpu.of()
DEVICE = GPU.keys.device_template().serial
ISSUER = provisioner_authority(GPU.product)
SIGNER = rim_signer_template(GPU.product, signed_in(AT)).serial
REFERENCE = reference_issuer(GPU.product)
OCSP = SimulatedOcsp.of(AT)
DIGESTS = (hashes.SHA1(), hashes.SHA256(), hashes.SHA384())  # noqa: S303  what NVIDIA's own tools ask with


def answered(found: bytes) -> ocsp.OCSPResponse:
    return ocsp.load_der_ocsp_response(found)


def request(issuer: Authority, der: bytes, digest: hashes.HashAlgorithm, nonce: bytes | None = None) -> bytes:
    builder = ocsp.OCSPRequestBuilder().add_certificate(
        x509.load_der_x509_certificate(der), x509.load_der_x509_certificate(issuer.certificate()), digest
    )
    if nonce is not None:
        builder = builder.add_extension(x509.OCSPNonce(nonce), critical=True)
    return builder.build().public_bytes(Encoding.DER)


@pytest.mark.parametrize("authority", issuing_authorities(), ids=lambda authority: authority.common_name)
def test_an_answer_is_signed_by_whom_the_issuer_delegated_to(authority: Authority) -> None:
    found = answered(OCSP.template(authority, 5).issue())
    (responder,) = found.certificates
    responder.verify_directly_issued_by(x509.load_der_x509_certificate(authority.certificate()))
    key = responder.public_key()
    assert isinstance(key, ec.EllipticCurvePublicKey)
    key.verify(found.signature, found.tbs_response_bytes, ec.ECDSA(hashes.SHA384()))
    purposes = responder.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
    assert list(purposes) == [ExtendedKeyUsageOID.OCSP_SIGNING]
    assert not responder.extensions.get_extension_for_class(x509.OCSPNoCheck).critical
    identifier = responder.extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value.digest
    assert (found.responder_key_hash, found.responder_name) == (identifier, None)


def test_the_same_question_gives_the_same_bytes() -> None:
    assert OCSP.template(ISSUER, DEVICE).issue() == SimulatedOcsp.of(AT).template(ISSUER, DEVICE).issue()
    assert OCSP.template(ISSUER, DEVICE).issue() != OCSP.template(ISSUER, DEVICE + 1).issue()


def test_an_answer_lasts_from_midnight_for_a_week() -> None:
    found = answered(OCSP.template(ISSUER, DEVICE).issue())
    assert (found.this_update_utc, found.next_update_utc) == (MIDNIGHT, MIDNIGHT + timedelta(days=7))
    assert found.produced_at_utc == MIDNIGHT
    endless = replace(OCSP, next_update=None)
    assert answered(endless.template(ISSUER, DEVICE).issue()).next_update_utc is None


@pytest.mark.parametrize("reason", Reason)
def test_a_revoked_certificate_is_said_to_be_and_why(reason: Reason) -> None:
    found = answered(SimulatedOcsp.of(AT, revoked={DEVICE: reason}).template(ISSUER, DEVICE).issue())
    assert found.certificate_status is ocsp.OCSPCertStatus.REVOKED
    flags = {
        Reason.KEY_COMPROMISE: x509.ReasonFlags.key_compromise,
        Reason.SUPERSEDED: x509.ReasonFlags.superseded,
        Reason.CESSATION: x509.ReasonFlags.cessation_of_operation,
        Reason.HOLD: x509.ReasonFlags.certificate_hold,
    }
    assert (found.revocation_reason, found.revocation_time_utc) == (flags[reason], MIDNIGHT)


@pytest.mark.parametrize(
    ("issuer", "serial", "status"),
    [
        (ISSUER, DEVICE, ocsp.OCSPCertStatus.GOOD),
        (ISSUER, 12345, ocsp.OCSPCertStatus.GOOD),
        (REFERENCE, SIGNER, ocsp.OCSPCertStatus.GOOD),
        (REFERENCE, 12345, ocsp.OCSPCertStatus.UNKNOWN),
        (RIM_ROOT, 12345, ocsp.OCSPCertStatus.UNKNOWN),
        (DEVICE_ROOT, 12345, ocsp.OCSPCertStatus.GOOD),
    ],
)
def test_what_was_never_issued_is_good_under_one_root_and_unknown_under_the_other(
    issuer: Authority, serial: int, status: ocsp.OCSPCertStatus
) -> None:
    assert answered(OCSP.template(issuer, serial).issue()).certificate_status is status


def test_signers_that_it_is_told_of_are_known() -> None:
    told = replace(OCSP, known=frozenset({12345}))
    assert answered(told.template(REFERENCE, 12345).issue()).certificate_status is ocsp.OCSPCertStatus.GOOD


@pytest.mark.parametrize("digest", DIGESTS, ids=lambda found: found.name)
def test_a_request_is_answered_in_its_own_terms(digest: hashes.HashAlgorithm) -> None:
    nonce = bytes(range(32))
    asked = request(ISSUER, GPU.certificates[1], digest, nonce)
    found = answered(OCSP.respond(asked))
    original = ocsp.load_der_ocsp_request(asked)
    assert found.response_status is ocsp.OCSPResponseStatus.SUCCESSFUL
    assert found.hash_algorithm.name == digest.name
    assert (found.issuer_name_hash, found.issuer_key_hash, found.serial_number) == (
        original.issuer_name_hash,
        original.issuer_key_hash,
        original.serial_number,
    )
    assert found.extensions.get_extension_for_class(x509.OCSPNonce).value.nonce == nonce
    assert parse_ocsp(OCSP.respond(asked)).nonce == nonce
    without = OCSP.respond(request(ISSUER, GPU.certificates[1], digest))
    assert len(answered(without).extensions) == 0


def test_it_does_not_speak_for_strangers_and_says_what_it_cannot_read() -> None:
    name, key = b"\x01" * 48, b"\x02" * 48
    builder = ocsp.OCSPRequestBuilder().add_certificate_by_hash(name, key, 5, hashes.SHA384()).build()
    assert (
        answered(OCSP.respond(builder.public_bytes(Encoding.DER))).response_status
        is ocsp.OCSPResponseStatus.UNAUTHORIZED
    )
    odd = ocsp.OCSPRequestBuilder().add_certificate_by_hash(b"\1" * 64, b"\2" * 64, 5, hashes.SHA512()).build()
    for asked in (odd.public_bytes(Encoding.DER), b"", b"nonsense"):
        assert answered(OCSP.respond(asked)).response_status is ocsp.OCSPResponseStatus.MALFORMED_REQUEST


# -- with the verifier


def judge(answer: bytes, *, at: datetime = AT) -> None:
    certificate = parse_certificate(GPU.certificates[1])
    require_not_revoked(certificate, ISSUER.as_issuer(), answers=(parse_ocsp(answer),), crls=(), at=at)


def test_the_verifier_accepts_a_good_answer_while_it_is_current() -> None:
    answer = OCSP.template(ISSUER, DEVICE).issue()
    judge(answer)
    for at, code in ((MIDNIGHT - timedelta(seconds=1), "ocsp-not-yet-valid"), (AT + timedelta(days=8), "ocsp-expired")):
        with pytest.raises(EndorsementError) as refusal:
            judge(answer, at=at)
        assert refusal.value.code == code


def test_the_verifier_refuses_a_negative_answer_and_a_forged_one() -> None:
    for reason in Reason:
        with pytest.raises(RevokedError):
            judge(SimulatedOcsp.of(AT, revoked={DEVICE: reason}).template(ISSUER, DEVICE).issue())
    template = OCSP.template(ISSUER, DEVICE)
    foreign = responder_template(REFERENCE).issue(REFERENCE.key)
    for forged in (replace(template, key=p384_key("other")), replace(template, responder=(foreign,))):
        with pytest.raises(ChainError) as refusal:
            judge(forged.issue())
        assert refusal.value.code == "ocsp-signature-invalid"

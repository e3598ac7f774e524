"""Microsoft's endorsement of a utility VM: signature, chain, issuer and measurement."""

import base64
import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import cbor2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509.oid import NameOID

from attest.encoding import CborValue
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.x509 import Extension, parse_certificate
from attest.errors import AttestError
from attest.evidence.attachment import uvm_endorsement as module
from attest.evidence.attachment.record import Attested
from attest.evidence.attachment.uvm_endorsement import (
    MAX_CHAIN,
    MAX_TEXT_CHARACTERS,
    MAX_UVM_ENDORSEMENT_BYTES,
    parse_uvm_endorsement,
    verify_uvm_endorsement,
)
from attest_simulator.azure.containers import (
    azure_container,
    did_of,
    uvm_chain,
    uvm_endorsement,
    uvm_key,
    uvm_template,
)
from tests.evidence.attachment.wild import FORMS, SNP, ZEROS, verified

MEASUREMENT = SNP.guest.measurement
HONEST = uvm_endorsement(MEASUREMENT)
Header = Mapping[int | str, CborValue]


def refused(endorsement: bytes, *, anchors: TrustAnchors | None = None) -> AttestError:
    with pytest.raises(AttestError) as caught:
        verified(azure_container(SNP.guest, ZEROS, uvm=endorsement), anchors=anchors)
    return caught.value


def made(header: Header | None = None, *, payload: bytes | None = None) -> bytes:
    return uvm_endorsement(MEASUREMENT, header=header, payload=payload)


def test_the_facts_of_the_endorsement_are_claims() -> None:
    claims = verified(FORMS["Azure container group"].data).items[0].claims["uvm"]
    assert claims == {
        "issuer": did_of(uvm_chain()[-1]),
        "feed": "ContainerPlat-AMD-UVM",
        "svn": 101,
        "measurement": MEASUREMENT.hex(),
        "root": "SIMULATED UVM Root CA",
    }


def test_a_number_is_an_svn_too() -> None:
    payload = json.dumps({"x-ms-sevsnpvm-guestsvn": 7, "x-ms-sevsnpvm-launchmeasurement": MEASUREMENT.hex()}).encode()
    assert parse_uvm_endorsement(made(payload=payload)).svn == "7"


def test_an_endorsement_of_another_measurement_is_refused() -> None:
    error = refused(uvm_endorsement(bytes(48)))
    assert (error.code, error.exit_code, error.check) == ("uvm-measurement-mismatch", 4, "uvm.measurement")


def test_a_signature_by_another_key_is_refused() -> None:
    error = refused(uvm_endorsement(MEASUREMENT, key=uvm_key("issuer")))
    assert (error.code, error.exit_code, error.check) == ("uvm-signature-invalid", 4, "uvm.signature")


def test_an_algorithm_that_is_not_the_keys_is_refused() -> None:
    assert refused(made({1: -7})).code == "uvm-signature-invalid"


def test_a_root_of_the_simulator_counts_for_those_who_accept_the_simulator() -> None:
    parsed = parse_uvm_endorsement(HONEST)
    attested = Attested("sev-snp", ZEROS, None)
    with pytest.raises(AttestError) as caught:
        verify_uvm_endorsement(parsed, attested, TrustAnchors.vendors())
    assert (caught.value.code, caught.value.check) == ("uvm-root-not-trusted", "uvm.issuer")
    with pytest.raises(AttestError) as caught:
        verify_uvm_endorsement(parsed, attested, TrustAnchors.simulation())
    assert (caught.value.code, caught.value.check) == ("evidence-unsupported", "uvm.measurement")


SIGNER, ISSUER, ROOT = uvm_chain()


def without_purpose() -> bytes:
    return replace(uvm_template("signer"), extensions=()).issue(uvm_key("issuer"))


def with_odd_purposes() -> bytes:
    odd = (Extension(oid="2.5.29.37", critical=False, value=b"\x05\x00"),)
    return replace(uvm_template("signer"), extensions=odd).issue(uvm_key("issuer"))


@pytest.mark.parametrize(
    ("header", "code"),
    [
        ({33: (SIGNER, ROOT)}, "uvm-chain-invalid"),
        ({33: (SIGNER, SIGNER, ISSUER, ROOT)}, "ca-flags-missing"),
        ({33: (SIGNER, ISSUER)}, "uvm-issuer-mismatch"),
        ({"iss": did_of(SIGNER)}, "uvm-issuer-mismatch"),
        ({"iss": did_of(ROOT, "1.2.3")}, "uvm-issuer-mismatch"),
        ({"iss": did_of(ROOT) + "::subject:CN:x"}, "uvm-issuer-mismatch"),
        ({"iss": "did:web:example.com"}, "uvm-issuer-mismatch"),
        ({"iss": did_of(ISSUER)}, "uvm-root-not-trusted"),
        ({33: (without_purpose(), ISSUER, ROOT)}, "uvm-issuer-mismatch"),
        ({33: (with_odd_purposes(), ISSUER, ROOT)}, "uvm-issuer-mismatch"),
    ],
)
def test_a_chain_that_does_not_lead_to_the_named_root_is_refused(header: Header, code: str) -> None:
    error = refused(made(header))
    assert (error.code, error.exit_code) == (code, 4)


def test_certificates_that_were_never_valid_together_are_refused() -> None:
    early = replace(
        uvm_template("signer"),
        not_before=datetime(2001, 1, 1, tzinfo=UTC),
        not_after=datetime(2002, 1, 1, tzinfo=UTC),
    ).issue(uvm_key("issuer"))
    assert refused(made({33: (early, ISSUER, ROOT)})).code == "uvm-chain-invalid"


def test_a_certificate_that_its_issuer_did_not_sign_is_refused() -> None:
    forged = uvm_template("signer").issue(uvm_key("signer"))
    assert refused(made({33: (forged, ISSUER, ROOT)})).code == "uvm-chain-invalid"


@pytest.mark.parametrize(
    "data",
    [
        b"\xd2" + cbor2.dumps([b"", {}, b""]),
        cbor2.dumps([b"\xa0", {}, b"{}", b""]),
        b"\xd2" + cbor2.dumps([b"\x01", {}, b"{}", b""]),
        b"\xd2" + cbor2.dumps([b"\xa0", {}, b"{}", b""]),
        made({2: ("x",)}),
        made({3: "application/cbor"}),
        made({1: True}),
        made({1: "PS384"}),
        made({"iss": 1}),
        made({"feed": "a\nb"}),
        made({33: SIGNER}),
        made({33: (SIGNER,)}),
        made({33: (SIGNER, "x")}),
        made({33: (SIGNER,) * 9}),
        made(payload=b"[]"),
        made(payload=b'{"x-ms-sevsnpvm-guestsvn": "1"}'),
        made(payload=json.dumps({"x-ms-sevsnpvm-launchmeasurement": MEASUREMENT.hex()}).encode()),
        made(
            payload=json.dumps(
                {"x-ms-sevsnpvm-launchmeasurement": MEASUREMENT.hex(), "x-ms-sevsnpvm-guestsvn": True}
            ).encode()
        ),
        made(
            payload=json.dumps(
                {"x-ms-sevsnpvm-launchmeasurement": MEASUREMENT.hex(), "x-ms-sevsnpvm-guestsvn": "one"}
            ).encode()
        ),
        HONEST + bytes(MAX_UVM_ENDORSEMENT_BYTES),
    ],
)
def test_what_is_not_of_the_form_is_malformed(data: bytes) -> None:
    with pytest.raises(AttestError) as caught:
        parse_uvm_endorsement(data)
    assert (caught.value.code, caught.value.exit_code) == ("uvm-endorsement-malformed", 3)


def refusal(data: bytes) -> str | None:
    with pytest.raises(AttestError) as caught:
        parse_uvm_endorsement(data)
    assert caught.value.code in ("uvm-endorsement-malformed", "hex-invalid")
    return caught.value.field


@pytest.mark.parametrize("name", ["iss", "feed"])
def test_texts_of_the_header_have_one_to_4096_characters(name: str) -> None:
    for length in (1, MAX_TEXT_CHARACTERS):
        parsed = parse_uvm_endorsement(made({name: "x" * length}))
        assert len({"iss": parsed.issuer, "feed": parsed.feed}[name]) == length
    for length in (0, MAX_TEXT_CHARACTERS + 1):
        assert refusal(made({name: "x" * length})) == name


def test_a_chain_has_two_to_eight_certificates() -> None:
    for count in (2, MAX_CHAIN):
        assert len(parse_uvm_endorsement(made({33: (SIGNER,) * count})).chain) == count
    for count in (1, MAX_CHAIN + 1):
        assert refusal(made({33: (SIGNER,) * count})) == "x5chain"


def statement(svn: object, measurement: str = MEASUREMENT.hex()) -> bytes:
    members = {"x-ms-sevsnpvm-guestsvn": svn, "x-ms-sevsnpvm-launchmeasurement": measurement}
    return made(payload=json.dumps(members).encode())


def test_the_number_of_a_utility_vm_has_at_most_ten_digits() -> None:
    for svn in ("0", "9" * 10, 9999999999):
        assert parse_uvm_endorsement(statement(svn)).svn == str(svn)
    for svn in ("", "9" * 11, 99999999999, -1, " 1", "1.0"):
        assert refusal(statement(svn)) == "x-ms-sevsnpvm-guestsvn"


@pytest.mark.parametrize("size", [0, 47, 49])
def test_the_measurement_has_48_bytes(size: int) -> None:
    assert refusal(statement("1", "ab" * size)) == "x-ms-sevsnpvm-launchmeasurement"


def test_an_endorsement_has_a_largest_size() -> None:
    room = MAX_UVM_ENDORSEMENT_BYTES - len(made({"more": bytes(60_000 - 1)})) + 60_000 - 1
    full = made({"more": bytes(room)})
    assert len(full) == MAX_UVM_ENDORSEMENT_BYTES
    assert parse_uvm_endorsement(full).measurement == MEASUREMENT
    assert refusal(made({"more": bytes(room + 1)})) == "endorsement"


def test_certificates_that_are_valid_together_for_one_moment_suffice() -> None:
    moment = parse_certificate(ISSUER).not_before
    early = replace(uvm_template("signer"), not_before=moment - timedelta(days=9), not_after=moment)
    assert refused(made({33: (early.issue(uvm_key("issuer")), ISSUER, ROOT), "iss": "x"})).code == "uvm-issuer-mismatch"


def test_a_chain_under_rsa_with_pkcs_1_as_microsoft_has_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """Microsoft's certificates are signed so; the simulator's are not."""
    keys = [rsa.generate_private_key(public_exponent=65537, key_size=2048) for _ in range(2)]
    ca = _certificate("CA", keys[1], "CA", keys[1], ca=True)
    leaf = _certificate("leaf", keys[0], "CA", keys[1], ca=False)
    pin = did_of(ca).split(":")[4]
    monkeypatch.setattr(module, "MICROSOFT_ROOTS", {pin: "A root"})
    endorsement = cbor2.loads(made({33: (leaf, ca), "iss": did_of(ca)}))
    protected, _, payload, _ = endorsement.value
    from tests.endorsements.cose_made import cose_sign

    signature = cose_sign(keys[0], protected=protected, payload=payload, algorithm=-38)
    data = cbor2.dumps(cbor2.CBORTag(18, [protected, {}, payload, signature]))
    from attest.evidence.snp.evidence import parse_snp_evidence

    attested = Attested("sev-snp", ZEROS, parse_snp_evidence(SNP.report))
    found = verify_uvm_endorsement(parse_uvm_endorsement(data), attested, TrustAnchors.vendors())
    assert (found.claims["root"], found.simulated) == ("A root", False)


def _certificate(subject: str, key: rsa.RSAPrivateKey, issuer: str, signer: rsa.RSAPrivateKey, *, ca: bool) -> bytes:
    name, by = (x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text)]) for text in (subject, issuer))
    builder = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(by)
        .public_key(key.public_key())
        .serial_number(7)
        .not_valid_before(datetime(2025, 1, 1, tzinfo=UTC))
        .not_valid_after(datetime(2026, 1, 1, tzinfo=UTC))
        .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
        .add_extension(
            x509.KeyUsage(
                digital_signature=not ca,
                content_commitment=False,
                key_encipherment=False,
                data_encipherment=False,
                key_agreement=False,
                key_cert_sign=ca,
                crl_sign=ca,
                encipher_only=False,
                decipher_only=False,
            ),
            critical=True,
        )
    )
    if not ca:
        purpose = x509.ObjectIdentifier("1.3.6.1.4.1.311.76.59.1.1")
        builder = builder.add_extension(x509.ExtendedKeyUsage([purpose]), critical=False)
    return builder.sign(signer, hashes.SHA384()).public_bytes(Encoding.DER)


# -- the document around it


def container(**members: object) -> bytes:
    document = json.loads(FORMS["Azure container group"].data) | members
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()


def test_certificates_may_come_as_thim_hands_them_out() -> None:
    pem = base64.b64decode(json.loads(FORMS["Azure container group"].data)["endorsements"]).decode()
    first, rest = pem.split("-----END CERTIFICATE-----\n", 1)
    thim = {
        "vcekCert": first + "-----END CERTIFICATE-----\n",
        "certificateChain": rest,
        "tcbm": "DB",
        "cacheControl": "1",
    }
    assert verified(container(endorsements=base64.b64encode(json.dumps(thim).encode()).decode())).items


def test_a_container_group_without_an_endorsement_is_the_report_alone() -> None:
    for absent in (None, ""):
        assert "uvm" not in verified(container(uvm_endorsements=absent)).items[0].claims


@pytest.mark.parametrize(
    "members",
    [
        {"evidence": base64.b64encode(bytes(1183)).decode()},
        {"endorsements": base64.b64encode(b"nothing").decode()},
        {"endorsements": base64.b64encode(b"{}").decode()},
        {"uvm_endorsements": base64.b64encode(bytes(MAX_UVM_ENDORSEMENT_BYTES + 1)).decode()},
        {"uvm_endorsements": 1},
        {"other": 1},
        {"evidence": "+_=="},
    ],
)
def test_a_container_group_in_another_shape_is_malformed(members: dict[str, object]) -> None:
    with pytest.raises(AttestError) as caught:
        verified(container(**members))
    assert (caught.value.code, caught.value.exit_code) == ("peer-form-malformed", 3)


def test_a_request_to_maa_may_lack_the_endorsement() -> None:
    request = json.loads(FORMS["MAA, SNP"].data)
    report = json.loads(base64.urlsafe_b64decode(request["report"]))
    del report["Endorsements"]
    request["report"] = base64.urlsafe_b64encode(json.dumps(report).encode()).decode()
    assert "uvm" not in verified(json.dumps(request).encode()).items[0].claims


def test_the_simulated_root_is_the_one_that_is_written_down() -> None:
    assert did_of(ROOT).split(":")[4] in module.SIMULATED_ROOTS
    assert parse_certificate(ROOT).common_name == module.SIMULATED_ROOTS[did_of(ROOT).split(":")[4]]

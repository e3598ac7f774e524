"""Data beside the evidence: the evidence commits to it, or is refused."""

import base64
import json
from hashlib import sha256

import pytest

from attest.encoding import JsonValue, base64url_text, cbor_bytes
from attest.errors import AttestError
from attest.evidence.attachment.committed_data import (
    MAX_COMMITTED_BYTES,
    committed_data_bytes,
    parse_committed_data,
)
from attest.evidence.attachment.record import Attested, judge_attachments
from attest.evidence.attachment.table import read_attachments
from attest.evidence.envelope import MEDIA_COMMITTED_DATA, EvidenceItem
from attest.evidence.input_files import read_evidence
from attest_simulator.azure.containers import maa_snp_request
from tests.evidence.attachment.wild import ENCLAVE, FORMS, INIT_TIME_DATA, RUNTIME_DATA, SNP, TD, ZEROS, verified


def refused(data: bytes) -> AttestError:
    with pytest.raises(AttestError) as caught:
        verified(data)
    return caught.value


def changed(name: str, **members: JsonValue) -> bytes:
    document = json.loads(FORMS[name].data)
    for path, value in members.items():
        if value == "absent":
            document.pop(path)
        else:
            document[path] = value
    return json.dumps(document).encode()


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


def attached(data: bytes) -> dict[str, JsonValue]:
    found = verified(data).items[0].claims["committed_data"]
    assert isinstance(found, dict)
    return found


def test_what_the_evidence_commits_to_is_a_claim() -> None:
    assert attached(FORMS["MAA, TDX"].data) == {
        "form": "Microsoft Azure Attestation",
        "runtime_data": RUNTIME_DATA.hex(),
    }
    assert attached(FORMS["ITA, SGX"].data)["runtime_data"] == RUNTIME_DATA.hex()
    assert attached(FORMS["Open Enclave, evidence"].data)["custom_claims"] == b"custom claims".hex()


@pytest.mark.parametrize("name", ["MAA, TDX", "MAA, SGX", "ITA, TDX", "ITA, SGX"])
def test_other_runtime_data_is_refused(name: str) -> None:
    other: JsonValue = b64(b"other") if name.startswith("ITA") else {"data": b64(b"other"), "dataType": "Binary"}
    member = "runtime_data" if name.startswith("ITA") else "runtimeData"
    error = refused(changed(name, **{member: other}))
    assert (error.code, error.exit_code, error.check) == (
        "committed-data-mismatch",
        4,
        "committed_data.report_data",
    )


@pytest.mark.parametrize("piece", ["val", "iat"])
def test_another_nonce_of_ita_is_refused(piece: str) -> None:
    document = json.loads(FORMS["ITA, TDX"].data)
    document["verifier_nonce"][piece] = b64(b"other")
    assert refused(json.dumps(document).encode()).code == "committed-data-mismatch"


def test_other_custom_claims_of_open_enclave_are_refused() -> None:
    data = bytearray(FORMS["Open Enclave, evidence"].data)
    data[-1] ^= 1
    assert refused(bytes(data)).code == "committed-data-mismatch"


def test_init_time_data_is_compared_with_host_data() -> None:
    from dataclasses import replace

    guest = replace(SNP.guest, host_data=sha256(INIT_TIME_DATA).digest())
    found = verified(maa_snp_request(guest, RUNTIME_DATA, init_time_data=INIT_TIME_DATA))
    assert "committed_data.host_data" in [check.id for check in found.checks]
    claims = found.items[0].claims["committed_data"]
    assert isinstance(claims, dict)
    assert (claims["runtime_data"], claims["init_time_data"]) == (RUNTIME_DATA.hex(), INIT_TIME_DATA.hex())
    error = refused(maa_snp_request(SNP.guest, RUNTIME_DATA, init_time_data=INIT_TIME_DATA))
    assert (error.code, error.check) == ("committed-data-mismatch", "committed_data.host_data")


def test_init_time_data_beside_a_quote_is_unsupported() -> None:
    error = refused(changed("MAA, TDX", initTimeData={"data": b64(b"init"), "dataType": "JSON"}))
    assert (error.code, error.exit_code) == ("evidence-unsupported", 3)


@pytest.mark.parametrize("name", ["MAA, TDX", "ITA, TDX"])
def test_a_request_without_data_is_the_quote_alone(name: str) -> None:
    quote = json.loads(FORMS[name].data)["quote"]
    empty = {"quote": quote, "runtimeData": None} if name == "MAA, TDX" else {"quote": quote, "user_data": None}
    found = verified(json.dumps(empty).encode())
    assert "committed_data" not in found.items[0].claims


def test_the_data_of_ita_may_be_called_user_data_and_stand_in_a_member_of_the_tee() -> None:
    document = json.loads(FORMS["ITA, TDX"].data)
    document["user_data"] = document.pop("runtime_data")
    nested = json.dumps({"tdx": document, "policy_ids": []}).encode()
    assert len(read_evidence([("file", nested)], form="tdx-quote").evidence.items) == 2
    assert attached(nested) == attached(FORMS["ITA, TDX"].data)


def test_a_request_to_ita_may_have_no_nonce() -> None:
    from hashlib import sha512

    quote = TD.quote(sha512(b"data").digest())
    assert attached(json.dumps({"quote": b64(quote), "runtime_data": b64(b"data")}).encode())["nonce"] == ""


def test_a_request_to_ita_may_have_a_nonce_alone() -> None:
    document = json.loads(FORMS["ITA, SGX"].data)
    pieces = [base64.b64decode(document["verifier_nonce"][name]) for name in ("val", "iat")]
    quote = ENCLAVE.quote(sha256(b"".join(pieces)).digest().ljust(64, b"\0"))
    only = {"quote": b64(quote), "verifier_nonce": document["verifier_nonce"]}
    assert attached(json.dumps(only).encode())["runtime_data"] == ""


def test_a_request_of_an_azure_vm_to_ita_is_called_that() -> None:
    error = refused(changed("ITA, TDX", user_data=b64(b"x")))
    assert (error.code, error.exit_code, "Azure VM" in error.message) == ("evidence-unsupported", 3, True)


@pytest.mark.parametrize("text", ["", "short", "!!!!!!!!!!!!!!!!"])
def test_a_quote_that_is_no_base64_is_malformed_whatever_stands_beside_it(text: str) -> None:
    for member in ("runtimeData", "runtime_data"):
        error = refused(json.dumps({"quote": text, member: None}).encode())
        assert (error.code, error.exit_code) == ("peer-form-malformed", 3)


# -- the item


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"\xff", "cbor-invalid"),
        (cbor_bytes(1), "committed-data-malformed"),
        (cbor_bytes({}), "committed-data-malformed"),
        (cbor_bytes({"unknown": (b"",)}), "committed-data-malformed"),
        (cbor_bytes({"open-enclave": b""}), "committed-data-malformed"),
        (cbor_bytes({"open-enclave": ()}), "committed-data-malformed"),
        (cbor_bytes({"open-enclave": ("x",)}), "committed-data-malformed"),
        (cbor_bytes({"open-enclave": (b"", 1)}), "committed-data-malformed"),
        (bytes(MAX_COMMITTED_BYTES + 1), "committed-data-malformed"),
    ],
)
def test_an_item_that_is_not_of_the_form_is_refused(data: bytes, code: str) -> None:
    with pytest.raises(AttestError) as caught:
        parse_committed_data(data)
    assert (caught.value.code, caught.value.exit_code) == (code, 3)


def test_an_item_may_have_as_many_bytes_as_are_allowed() -> None:
    head = len(committed_data_bytes({"open-enclave": (bytes(MAX_COMMITTED_BYTES - 100),)})) - MAX_COMMITTED_BYTES + 100
    full = {"open-enclave": (bytes(MAX_COMMITTED_BYTES - head),)}
    assert len(committed_data_bytes(full)) == MAX_COMMITTED_BYTES
    assert parse_committed_data(committed_data_bytes(full)) == full


def test_what_is_written_is_read() -> None:
    data = {"ita-tdx": (b"a", b"b", b"c"), "maa-init-time-data": (b"d",)}
    assert parse_committed_data(committed_data_bytes(data)) == data


def test_attachments_need_evidence_that_can_commit_to_them() -> None:
    item = EvidenceItem(name="x", media_type=MEDIA_COMMITTED_DATA, value=committed_data_bytes({"open-enclave": (b"",)}))
    for kind in (None, "azure-snp"):
        with pytest.raises(AttestError) as caught:
            read_attachments([item], kind)
        assert (caught.value.code, caught.value.exit_code) == ("attachment-without-report-data", 3)
    with pytest.raises(AttestError) as caught:
        read_attachments([item, item], "tdx")
    assert caught.value.code == "evidence-ambiguous"


def test_one_refused_attachment_does_not_hide_another() -> None:
    from attest.endorsements.anchors import TrustAnchors

    item = EvidenceItem(name="x", media_type=MEDIA_COMMITTED_DATA, value=committed_data_bytes({"open-enclave": (b"",)}))
    one = read_attachments([item], "tdx")
    judged = judge_attachments((*one, *one), Attested("tdx", ZEROS, None), TrustAnchors.vendors())
    assert [failure.code for failure in judged.failures] == ["committed-data-mismatch"] * 2
    assert ([check.outcome.value for check in judged.checks], judged.claims) == (["fail", "fail"], {})


def test_base64_of_both_alphabets_is_read() -> None:
    document = json.loads(FORMS["MAA, TDX"].data)
    raw = base64.urlsafe_b64decode(document["quote"] + "==")
    for text in (b64(raw), base64url_text(raw), base64.urlsafe_b64encode(raw).decode()):
        assert verified(changed("MAA, TDX", quote=text)).items

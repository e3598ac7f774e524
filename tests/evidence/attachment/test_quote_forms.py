"""Documents around a quote or a report: told apart by their members, and read to their limits."""

import base64
import json
from typing import Any

import pytest

from attest.errors import EvidenceError
from attest.evidence import quote_forms
from attest.evidence.envelope import MEDIA_COMMITTED_DATA, MEDIA_EVENT_LOG, MEDIA_INTEL_QUOTE
from tests.evidence.attachment.wild import FORMS

Value = Any  # of a document that is to be read
TDX = base64.b64encode(b"\4\0\2\0\x81\0\0\0x").decode()
SGX = base64.b64encode(b"\4\0\2\0\0\0\0\0x").decode()
CONTAINER: dict[str, Any] = json.loads(FORMS["Azure container group"].data)
PEM = base64.b64decode(CONTAINER["endorsements"]).decode().split("-----END CERTIFICATE-----\n", 1)[0]


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode()


@pytest.mark.parametrize(
    ("quote", "tee"),
    [(TDX, "tdx"), (SGX, "sgx"), (TDX[:11], None), (b64(bytes(8) + b"\x81"), "sgx"), ("!" * 12, None), (5, None)],
)
def test_the_tee_of_a_quote_is_told_by_its_header(quote: Value, tee: str | None) -> None:
    for known in quote_forms.TEES:
        assert quote_forms.is_maa_quote(known, {"quote": quote, "runtimeData": None}) is (tee == known)
        assert quote_forms.is_ita_request(known, {"quote": quote, "runtime_data": None}) is (tee == known)


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"quote": TDX, "runtimeData": None}, True),
        ({"quote": TDX, "initTimeData": None}, True),
        ({"quote": TDX}, False),
        ({"runtimeData": None}, False),
        ([TDX, "runtimeData"], False),
    ],
)
def test_a_request_to_maa_has_data_beside_its_quote(document: Value, known: bool) -> None:
    assert quote_forms.is_maa_quote("tdx", document) is known
    report: Value = {"report" if name == "quote" else name: one for name, one in dict.fromkeys(document, "x").items()}
    assert quote_forms.is_maa_report(report if isinstance(document, dict) else document) is known


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"quote": TDX, "verifier_nonce": None}, True),
        ({"quote": TDX, "runtime_data": None}, True),
        ({"quote": TDX, "user_data": None}, True),
        ({"tdx": {"quote": TDX, "user_data": None}, "quote": SGX}, True),
        ({"tdx": {"quote": TDX}, "user_data": None}, False),
        ({"quote": TDX}, False),
        ([TDX, "user_data"], False),
    ],
)
def test_a_request_to_ita_has_data_or_a_nonce_beside_its_quote(document: Value, known: bool) -> None:
    assert quote_forms.is_ita_request("tdx", document) is known


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"quote": TDX}, True),
        ({"quote": TDX, "event_log": ""}, False),
        ({"quote": 5}, False),
        (["quote"], False),
    ],
)
def test_a_quote_of_trustee_stands_without_a_log_of_dstack(document: Value, known: bool) -> None:
    assert quote_forms.is_trustee_quote(document) is known


@pytest.mark.parametrize("platform", ["tdx", "gcp-tdx"])
def test_a_quote_of_attestation_rs_is_named_by_its_platform(platform: str) -> None:
    assert quote_forms.is_attestation_rs_quote({"platform": platform, "evidence": {}})
    assert not quote_forms.is_attestation_rs_quote({"platform": platform})
    assert not quote_forms.is_attestation_rs_quote({"platform": "snp", "evidence": {}})
    assert not quote_forms.is_attestation_rs_quote({"evidence": {}})
    assert not quote_forms.is_attestation_rs_quote(["platform", "evidence"])


def test_the_log_of_a_quote_is_an_item_of_its_own() -> None:
    (alone,) = quote_forms.read_trustee_quote({"quote": TDX, "cc_eventlog": None}).items
    assert (alone.name, alone.media_type, b64(alone.value)) == ("cpu", MEDIA_INTEL_QUOTE, TDX)
    _, log = quote_forms.read_trustee_quote({"quote": TDX, "cc_eventlog": b64(b"log")}).items
    assert (log.name, log.media_type, log.value) == ("eventlog", MEDIA_EVENT_LOG, b"log")


def test_data_of_maa_that_are_not_there_commit_to_nothing() -> None:
    nothing: tuple[Value, ...] = (None, {"data": "", "dataType": "JSON"})
    for empty in nothing:
        assert len(quote_forms.read_maa_request({"quote": TDX, "runtimeData": empty}).items) == 1
    _, committed = quote_forms.read_maa_request({"quote": TDX, "runtimeData": {"data": b64(b"x")}}).items
    assert (committed.name, committed.media_type) == ("committed-data", MEDIA_COMMITTED_DATA)


@pytest.mark.parametrize(
    ("document", "known"),
    [
        ({"evidence": "", "endorsements": ""}, True),
        ({"evidence": ""}, False),
        ({"endorsements": ""}, False),
        ({"evidence": "", "endorsements": {}}, False),
        (["evidence", "endorsements"], False),
    ],
)
def test_a_container_group_has_a_report_and_its_certificates(document: Value, known: bool) -> None:
    assert quote_forms.is_azure_container(document) is known


@pytest.mark.parametrize(("count", "read"), [(0, False), (1, True), (8, True), (9, False)])
def test_a_container_group_has_one_to_eight_certificates(count: int, read: bool) -> None:
    text = f"{PEM}-----END CERTIFICATE-----\n" * count
    document = CONTAINER | {"endorsements": b64(text.encode())}
    if read:
        assert len(quote_forms.read_azure_container(document).certificates) == count
        return
    with pytest.raises(EvidenceError) as caught:
        quote_forms.read_azure_container(document)
    assert (caught.value.code, caught.value.field) == ("peer-form-malformed", "endorsements")

"""Open Enclave's header around a quote."""

import json
from base64 import b64encode

import pytest

from attest.errors import AttestError
from attest.evidence.open_enclave import is_open_enclave, read_open_enclave
from attest_simulator.requests import open_enclave_evidence, open_enclave_report
from tests.evidence.attachment.wild import ENCLAVE, RUNTIME_DATA, ZEROS, verified

REPORT = open_enclave_report(ENCLAVE, ZEROS)
EVIDENCE = open_enclave_evidence(ENCLAVE, b"claims")
QUOTE = ENCLAVE.quote(ZEROS)


def refused(data: bytes) -> AttestError:
    with pytest.raises(AttestError) as caught:
        read_open_enclave(data)
    return caught.value


def test_the_quote_and_the_claims_behind_it_come_apart() -> None:
    assert read_open_enclave(REPORT) == (QUOTE, b"")
    found = read_open_enclave(EVIDENCE)
    assert (len(found.quote), found.custom_claims) == (len(QUOTE), b"claims")
    assert read_open_enclave(open_enclave_evidence(ENCLAVE, b"")).custom_claims == b""


def test_evidence_without_claims_is_the_quote_alone() -> None:
    assert "committed_data" not in verified(open_enclave_evidence(ENCLAVE, b"")).items[0].claims


def test_padding_of_zeros_behind_the_quote_of_a_report_is_cut() -> None:
    size = len(QUOTE) + 8
    data = REPORT[:8] + size.to_bytes(8, "little") + QUOTE + bytes(8)
    assert read_open_enclave(data) == (QUOTE, b"")
    assert refused(data[:-1] + b"\1").code == "open-enclave-malformed"


@pytest.mark.parametrize(
    ("data", "got"),
    [
        (b"\2" + EVIDENCE[1:], "2"),
        (REPORT[:4] + b"\1" + REPORT[5:], "1: a report for the same machine"),
        (EVIDENCE[:4] + bytes(16) + EVIDENCE[20:], "00000000-0000-0000-0000-000000000000"),
    ],
)
def test_other_versions_and_formats_are_called_by_their_name(data: bytes, got: str) -> None:
    assert is_open_enclave(data)
    assert (refused(data).code, refused(data).exit_code, refused(data).got) == ("evidence-unsupported", 3, got)


def test_a_size_that_does_not_fit_is_not_this_form() -> None:
    for data in (REPORT + b"\0", REPORT[:-1], EVIDENCE + b"\0", EVIDENCE[:-1], EVIDENCE[:31], b"", b"\1\0\0\0"):
        assert not is_open_enclave(data)
    assert refused(REPORT[:-1]).code == "truncated"
    assert refused(REPORT + b"\0").code == "trailing-bytes"


def test_a_report_of_snp_whose_bytes_say_such_a_size_is_not_this_form() -> None:
    report = (3).to_bytes(4, "little") + bytes(20) + (1184 - 32).to_bytes(8, "little") + bytes(1152)
    assert len(report) == 1184
    assert not is_open_enclave(report)


def test_a_request_to_maa_may_carry_a_report_of_open_enclave() -> None:
    from hashlib import sha256

    report = open_enclave_report(ENCLAVE, sha256(RUNTIME_DATA).digest().ljust(64, b"\0"))
    data = {"data": b64encode(RUNTIME_DATA).decode(), "dataType": "Binary"}
    found = verified(json.dumps({"report": b64encode(report).decode(), "runtimeData": data}).encode())
    assert found.items[0].claims["committed_data"]

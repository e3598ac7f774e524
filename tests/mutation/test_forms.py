"""Every form that wraps a quote or a report: a byte that can be changed without a refusal is one of those listed.

The list is that of docs/forms.md. Quotes and reports have suites of their own; here one byte in so many of them is
changed, and every byte around them.
"""

import base64
import json
from collections.abc import Iterator, Mapping

import pytest

from attest.encoding import JsonValue, json_value
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.x509 import parse_certificate
from attest.errors import AttestError
from attest.evidence.attachment.record import Attested
from attest.evidence.attachment.uvm_endorsement import parse_uvm_endorsement, verify_uvm_endorsement
from attest.evidence.eventlog.structure import parse_event_log
from attest.evidence.intel.quote import parse_quote
from attest.evidence.snp.evidence import parse_snp_evidence
from attest_simulator.azure.containers import uvm_endorsement
from tests.evidence.attachment.wild import FORMS, SNP, ZEROS, verified

_STRIDE = 97
"""Of the bytes of a long value, one in so many is changed."""
_LONG = 200

MEMBERS: Mapping[str, frozenset[str]] = {
    "Trustee, TDX": frozenset({"quote", "cc_eventlog"}),
    "Trustee, TDX without a log": frozenset({"quote"}),
    "attestation-rs, TDX": frozenset({"evidence.quote", "evidence.cc_eventlog"}),
    "MAA, TDX": frozenset({"quote", "nonce", "runtimeData.dataType"}),
    "MAA, SGX": frozenset({"quote", "nonce", "runtimeData.dataType"}),
    "MAA, SNP": frozenset({"report", "nonce", "initTimeData.dataType", "runtimeData.dataType"}),
    "ITA, TDX": frozenset({"quote", "policy_ids", "verifier_nonce.signature"}),
    "ITA, SGX": frozenset({"quote", "policy_ids", "verifier_nonce.signature"}),
    "Azure container group": frozenset({"endorsed_tcb", "endorsements"}),
}
"""Members whose value may change. Of ``quote`` that is the chain behind the Quoting Enclave's part, of ``cc_eventlog``
the data of events whose digest is of something else, of ``report`` and ``endorsements`` the certificates of AMD."""
REMOVED: Mapping[str, frozenset[str]] = {
    "MAA, SNP": frozenset({"runtimeData.data", "runtimeData.dataType", "initTimeData.data", "initTimeData.dataType"}),
}
"""Members that may be called otherwise, and so are not there; beside them those whose value may change."""


def accepted(data: bytes) -> bool:
    try:
        verified(data)
    except AttestError:
        return False
    return True


def flipped(data: bytes, offset: int) -> bytes:
    return data[:offset] + bytes([data[offset] ^ 1 << offset % 7]) + data[offset + 1 :]


def leaves(value: JsonValue, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield every leaf of a document by its path."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from leaves(member, f"{path}.{name}" if path else name)
    else:
        yield path, json.dumps(value)


def offsets(data: bytes) -> Iterator[int]:
    """Yield every byte of a document but most of its long texts."""
    inside = 0
    for at, byte in enumerate(data):
        inside = 0 if byte == ord('"') else inside + 1
        if inside < _LONG or at % _STRIDE == 0:
            yield at


def stated(data: bytes) -> dict[str, str]:
    return dict(leaves(json_value(data, what="document")))


@pytest.mark.parametrize("name", MEMBERS)
def test_of_a_json_form_only_the_listed_members_can_be_changed(name: str) -> None:
    data = FORMS[name].data
    original = stated(data)
    for offset in offsets(data):
        altered = flipped(data, offset)
        if not accepted(altered):
            continue
        found = stated(altered)
        assert {path for path in original if path in found and found[path] != original[path]} <= MEMBERS[name]
        assert set(original) - set(found) <= MEMBERS[name] | REMOVED.get(name, frozenset())


@pytest.mark.parametrize("name", ["Trustee, TDX", "MAA, SGX", "ITA, TDX"])
def test_of_the_quote_in_a_json_form_only_the_chain_can_be_changed(name: str) -> None:
    document = json.loads(FORMS[name].data)
    quote = base64.b64decode(document["quote"].replace("-", "+").replace("_", "/") + "==")
    vouched = len(quote) - len(parse_quote(quote).certification_data)
    positions = [*range(0, vouched, 31), vouched - 1]
    altered = (base64.b64encode(flipped(quote, at)).decode() for at in positions)
    found = [json.dumps(document | {"quote": text}).encode() for text in altered]
    assert [at for at, data in zip(positions, found, strict=True) if accepted(data)] == []


def test_of_the_log_in_a_json_form_no_digest_can_be_changed() -> None:
    document = json.loads(FORMS["Trustee, TDX"].data)
    log = base64.b64decode(document["cc_eventlog"])
    digests = [event.digest for event in parse_event_log(log).events if any(event.digest)]
    assert len(digests) > 5
    for digest in digests:
        altered = log.replace(digest, flipped(digest, 5))
        assert not accepted(json.dumps(document | {"cc_eventlog": base64.b64encode(altered).decode()}).encode())


def _spans(data: bytes) -> list[range]:
    """Return where a certificate states its key and its evidence."""
    certificate = parse_certificate(data)
    evidence = max((extension.value for extension in certificate.extensions), key=len)
    parts = (certificate.spki, evidence)
    return [range(data.index(part), data.index(part) + len(part)) for part in parts]


@pytest.mark.parametrize("name", [name for name in FORMS if name.startswith("certificate")])
def test_of_a_certificate_neither_the_key_nor_the_evidence_can_be_changed(name: str) -> None:
    data = FORMS[name].data
    key, evidence = _spans(data)
    pem = data.index(b"-----BEGIN", evidence.start)
    positions = [at for at in range(len(data)) if at not in evidence or at % _STRIDE == 0 or at < evidence.start + 60]
    unsigned = [at for at in positions if accepted(flipped(data, at))]
    assert [at for at in unsigned if at in key] == []
    # Of the quote, the chain in PEM has bytes that nothing rests on: line breaks, and the root, which is pinned.
    assert [at for at in unsigned if at in evidence and at < pem] == []
    assert unsigned, "names and dates of a certificate are of anybody's choice"


@pytest.mark.parametrize(("name", "listed"), [("Open Enclave, report", ()), ("Open Enclave, evidence", range(20, 24))])
def test_of_open_enclaves_header_only_the_alignment_can_be_changed(name: str, listed: range) -> None:
    data = FORMS[name].data
    pem = data.index(b"-----BEGIN")
    head = [at for at in range(40) if accepted(flipped(data, at))]
    assert head == list(listed)
    rest = [at for at in (*range(40, pem, 53), *range(len(data) - 13, len(data))) if accepted(flipped(data, at))]
    # Behind the quote of a report nothing stands: its last bytes are those of the root in its chain.
    assert [at for at in rest if at < pem or name.endswith("evidence")] == []


def test_of_an_endorsement_of_a_utility_vm_no_byte_can_be_changed() -> None:
    data = uvm_endorsement(SNP.guest.measurement)
    attested = Attested("sev-snp", ZEROS, parse_snp_evidence(SNP.report))

    def holds(altered: bytes) -> bool:
        try:
            verify_uvm_endorsement(parse_uvm_endorsement(altered), attested, TrustAnchors.simulation())
        except AttestError:
            return False
        return True

    assert holds(data)
    assert [at for at in range(len(data)) if holds(flipped(data, at))] == []


def test_the_unprotected_header_of_an_endorsement_may_say_anything() -> None:
    data = uvm_endorsement(SNP.guest.measurement)
    attested = Attested("sev-snp", ZEROS, parse_snp_evidence(SNP.report))
    at = data.rindex(b"\xa0\x58")
    altered = data[:at] + b"\xa1\x01\x02" + data[at + 1 :]
    assert verify_uvm_endorsement(parse_uvm_endorsement(altered), attested, TrustAnchors.simulation()).claims

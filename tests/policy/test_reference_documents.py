"""Documents of reference values: closed, expiring, revocable, and accepted by digest or by signers."""

import copy
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from attest.policy.decoder import RelaxedDemand, list_of
from attest.policy.reference_values.accepted_documents import (
    AcceptedDocument,
    decode_accepted_document,
    merge_references,
)
from attest.policy.reference_values.reference_documents import (
    KIND_BYTES,
    MAX_REFERENCE_BYTES,
    DocumentState,
    ReferenceDocument,
    ReferenceEntry,
    make_reference_document,
    read_reference_document,
    reference_json,
)
from attest.policy.references import ReferenceValues

A, B, C = bytes([1]) * 48, bytes([2]) * 48, bytes([3]) * 32
KEY, OTHER = bytes([7]) * 32, bytes([8]) * 32
ISSUED, EXPIRES = datetime(2026, 1, 1, tzinfo=UTC), datetime(2027, 1, 1, tzinfo=UTC)
DOCUMENT: dict[str, Any] = {
    "schema": "attest.references/1",
    "name": "kata",
    "version": 3,
    "origin": "build 12",
    "issued": "2026-01-01T00:00:00Z",
    "expires": "2027-01-01T00:00:00Z",
    "values": {
        "image": {"kind": "snp-measurement", "values": [A.hex(), B.hex()]},
        "enclave": {
            "kind": "sgx-mr-enclave",
            "values": [C.hex()],
            "origin": "build 13",
            "expires": "2026-06-01T00:00:00Z",
        },
    },
}
YAML = f"""
schema: attest.references/1
name: kata
version: 3
origin: build 12
issued: "2026-01-01T00:00:00Z"
expires: "2027-01-01T00:00:00Z"
values:
  enclave: {{kind: sgx-mr-enclave, origin: build 13, expires: "2026-06-01T00:00:00Z", values: ["{C.hex()}"]}}
  image:
    kind: snp-measurement
    values: ["{A.hex()}", "{B.hex()}"]
"""


def read(**changes: Any) -> ReferenceDocument:  # noqa: ANN401  any JSON
    """Read the document with some members changed; None removes one."""
    document = copy.deepcopy(DOCUMENT) | changes
    return read_reference_document(
        json.dumps({name: value for name, value in document.items() if value is not None}).encode()
    )


def accepted(**changes: Any) -> AcceptedDocument:  # noqa: ANN401  any JSON
    """Decode one row of a policy's references."""
    row: dict[str, Any] = {"document": "kata"} | changes
    return decode_accepted_document(row, "references[0]")


def test_yaml_and_json_of_one_content_have_one_digest() -> None:
    assert read_reference_document(YAML.encode()) == read()


def test_what_is_written_reads_back() -> None:
    for document in (
        read(),
        read(expires={"unchecked": "rebuilt daily"}, revoked=[{"value": C.hex(), "reason": "CVE"}]),
    ):
        again = read_reference_document(json.dumps(reference_json(document)).encode())
        assert again == document


@pytest.mark.parametrize(
    ("changes", "path"),
    [
        ({"schema": "attest.references/2"}, "schema"),
        ({"schema": None}, "schema"),
        ({"name": ""}, "name"),
        ({"version": 0}, "version"),
        ({"version": True}, "version"),
        ({"version": 1 << 53}, "version|references"),
        ({"origin": None}, "origin"),
        ({"issued": "yesterday"}, "issued"),
        ({"expires": None}, "expires"),
        ({"expires": "2025-12-31T23:59:59Z"}, "expires"),
        ({"expires": {"unchecked": ""}}, "expires"),
        ({"values": {}}, "values"),
        ({"values": {"x": {"kind": "snp-measurment", "values": [A.hex()]}}}, "values.x.kind"),
        ({"values": {"x": {"kind": "snp-measurement", "values": []}}}, "values.x.values"),
        ({"values": {"x": {"kind": "snp-measurement", "values": [C.hex()]}}}, "values.x.values"),
        ({"values": {"x": {"kind": "snp-measurement", "values": [A.hex(), A.hex()]}}}, "values.x.values"),
        ({"values": {"x": {"kind": "snp-measurement", "values": [A.hex()], "vaules": 1}}}, "values.x.vaules"),
        ({"revoked": []}, "revoked"),
        ({"revoked": [{"value": "00", "reason": "x"}]}, "revoked"),
        ({"revoked": [{"value": 5, "reason": "x"}]}, "revoked"),
        ({"revoked": [{"value": A.hex()}]}, "revoked"),
        ({"revoked": [{"value": A.hex(), "reason": "x", "since": 1}]}, "revoked"),
        ({"extra": 1}, "extra"),
        ({"extra": 1 << 60}, "extra|references"),
    ],
)
def test_anything_out_of_place_is_refused_with_its_path(changes: dict[str, Any], path: str) -> None:
    with pytest.raises(ConfigurationError, match=path) as caught:
        read(**changes)
    assert caught.value.code == "policy-invalid"


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"a: 1\na: 2", b"x" * (MAX_REFERENCE_BYTES + 1)], ids=len)
def test_what_is_no_document_is_refused(data: bytes) -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_reference_document(data)
    assert caught.value.code in ("policy-unreadable", "policy-invalid")


@pytest.mark.parametrize(
    ("at", "state"),
    [
        (ISSUED - timedelta(seconds=1), DocumentState.NOT_YET_ISSUED),
        (ISSUED, DocumentState.CURRENT),
        (EXPIRES, DocumentState.CURRENT),
        (EXPIRES + timedelta(seconds=1), DocumentState.EXPIRED),
    ],
)
def test_a_document_counts_from_issue_to_end_both_included(at: datetime, state: DocumentState) -> None:
    assert read().state(at) is state


def test_a_document_without_an_end_says_why_and_stays_current() -> None:
    endless = read(expires={"unchecked": "rebuilt daily"})
    assert endless.state(datetime(2099, 1, 1, tzinfo=UTC)) is DocumentState.CURRENT
    assert endless.end_of(endless.entries["image"]) is None
    assert endless.end_of(endless.entries["enclave"]) == datetime(2026, 6, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"sha256": KEY.hex(), "signers": [KEY.hex()]},
        {"sha256": "00"},
        {"signers": []},
        {"signers": [KEY.hex()], "at_least": 2},
        {"signers": [KEY.hex(), KEY.hex()], "at_least": 2},
        {"sha256": KEY.hex(), "at_least": 2},
        {"signers": [KEY.hex()], "at_least": 0},
        {"signers": [KEY.hex()], "minimum_version": 0},
        {"signers": [KEY.hex()], "singers": 1},
        {"document": "", "sha256": KEY.hex()},
    ],
)
def test_a_row_of_a_policys_references_names_either_a_digest_or_signers(row: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError) as caught:
        accepted(**row)
    assert caught.value.code == "policy-invalid"


def test_rows_decode_as_a_list() -> None:
    assert list_of(decode_accepted_document)([{"document": "kata", "sha256": KEY.hex()}], "references") == (
        AcceptedDocument(document="kata", sha256=KEY),
    )


def merged(
    *rows: AcceptedDocument, own: dict[str, ReferenceValues] | None = None, **documents: ReferenceDocument
) -> Any:  # noqa: ANN401
    """Merge."""
    return merge_references(own or {}, rows, documents)


def test_values_of_an_accepted_document_are_spoken_of_by_name() -> None:
    document = read()
    found = merged(accepted(sha256=document.digest.hex()), kata=document)
    assert found["image"] == ReferenceValues(
        values=(A, B), origin="kata version 3: build 12", expires=EXPIRES, document="kata"
    )
    assert found["enclave"].expires == datetime(2026, 6, 1, tzinfo=UTC)
    assert found["enclave"].origin == "kata version 3: build 13"


def test_without_references_a_policys_own_values_stay_and_documents_count_for_nothing() -> None:
    own = {"mine": ReferenceValues(values=(A,), origin="me", expires=None)}
    assert merged(own=own, kata=read(revoked=[{"value": A.hex(), "reason": "x"}])) == own


def code_of(
    *rows: AcceptedDocument, own: dict[str, ReferenceValues] | None = None, **documents: ReferenceDocument
) -> str:
    """Merge, and return the refusal's code."""
    with pytest.raises(ConfigurationError) as caught:
        merged(*rows, own=own, **documents)
    return caught.value.code


def test_a_document_that_is_not_there_or_is_another_is_refused() -> None:
    row = accepted(sha256=read().digest.hex())
    assert code_of(row) == "references-missing"
    assert code_of(row, kata=read(name="other")) == "references-missing"
    assert code_of(row, kata=read(version=4)) == "references-not-accepted"
    assert code_of(accepted(sha256=read().digest.hex(), minimum_version=4), kata=read()) == "references-not-accepted"


@pytest.mark.parametrize(
    ("signers", "at_least", "good"),
    [
        ([], 1, False),
        ([OTHER], 1, False),
        ([KEY], 1, True),
        ([KEY], 2, False),
        ([KEY, OTHER], 2, False),
        ([KEY, bytes(32)], 2, True),
    ],
)
def test_signers_are_counted(signers: list[bytes], at_least: int, good: bool) -> None:
    row = accepted(signers=[KEY.hex(), bytes(32).hex()], at_least=at_least)
    document = read().signed_by(signers)
    if good:
        assert "image" in merged(row, kata=document)
    else:
        assert code_of(row, kata=document) == "references-not-accepted"


def test_an_old_document_with_its_signature_is_refused() -> None:
    row = accepted(signers=[KEY.hex()], minimum_version=4)
    assert code_of(row, kata=read().signed_by([KEY])) == "references-not-accepted"
    assert "image" in merged(row, kata=read(version=4).signed_by([KEY]))


def test_names_must_not_collide() -> None:
    first, second = read(), read(name="other")
    rows = (accepted(sha256=first.digest.hex()), accepted(document="other", sha256=second.digest.hex()))
    assert code_of(*rows, kata=first, other=second) == "references-collide"
    own = {"image": ReferenceValues(values=(A,), origin="me", expires=None)}
    assert code_of(rows[0], own=own, kata=first) == "references-collide"


def test_a_revoked_value_counts_nowhere() -> None:
    document = read(
        values={"other": {"kind": "snp-measurement", "values": [bytes(48).hex()]}},
        revoked=[{"value": A.hex(), "reason": "CVE-1"}],
    )
    row = accepted(sha256=document.digest.hex())
    own = {"image": ReferenceValues(values=(A, B), origin="me", expires=None)}
    assert merged(row, own=own, kata=document)["image"].values == (B,)
    with pytest.raises(ConfigurationError, match="CVE-1") as caught:
        merged(row, own={"image": ReferenceValues(values=(A,), origin="me", expires=None)}, kata=document)
    assert caught.value.code == "references-revoked"


def test_a_document_that_is_made_is_held_to_the_same_rules() -> None:
    entry = ReferenceEntry(kind="tdx-mr-td", values=(A,))
    made = make_reference_document(
        name="td", version=1, origin="x", issued=ISSUED, expires=RelaxedDemand(reason="none"), entries={"td": entry}
    )
    assert made.entries == {"td": entry}
    with pytest.raises(ConfigurationError):
        make_reference_document(name="td", version=1, origin="x", issued=ISSUED, expires=EXPIRES, entries={})


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(), lambda x: st.lists(x) | st.dictionaries(st.text(), x)
    )
)
def test_any_json_is_a_document_or_a_documented_error(value: Any) -> None:  # noqa: ANN401  any JSON
    for document in (value, DOCUMENT | {"values": value}, DOCUMENT | {"revoked": value}):
        try:
            read_reference_document(json.dumps(document).encode())
        except ConfigurationError as exc:
            assert exc.code.startswith("policy-")  # noqa: PT017  either outcome is right


def test_every_kind_is_a_digest_of_its_own_length() -> None:
    short = {"snp-host-data", "sgx-mr-enclave", "sgx-mr-signer", "nvidia-rim", *(f"azure-pcr{n}" for n in range(24))}
    long = {"snp-measurement", "snp-id-key-digest", "snp-author-key-digest", "tdx-mr-td", "tdx-mr-seam", "gpu-fwid"}
    long |= {f"tdx-rtmr{n}" for n in range(4)}
    assert dict.fromkeys(short, 32) | dict.fromkeys(long, 48) == KIND_BYTES

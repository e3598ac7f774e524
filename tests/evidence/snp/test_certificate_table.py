"""The certificate table: a list of places and what lies there, with nothing hidden between or behind."""

import contextlib
import json
from pathlib import Path
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import base64url_text
from attest.endorsements.x509 import parse_certificate
from attest.errors import EvidenceError
from attest.evidence.snp.certificate_table import (
    KINDS,
    MAX_ENTRIES,
    MAX_TABLE_BYTES,
    TableEntry,
    encode_certificate_table,
    parse_certificate_table,
)
from attest.evidence.snp.evidence import parse_configfs_tsm, parse_snp_evidence
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip, SimulatedGuest

VCEK, ASK, ARK = (next(guid for guid, kind in KINDS.items() if kind == name) for name in ("VCEK", "ASK", "ARK"))
STRANGER = UUID("00112233-4455-6677-8899-aabbccddeeff")
END = bytes(24)


def head(guid: UUID, offset: int, length: int) -> bytes:
    return guid.bytes + offset.to_bytes(4, "little") + length.to_bytes(4, "little")


def refused(table: bytes) -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        parse_certificate_table(table)
    return caught.value


# -- real and simulated tables


@pytest.mark.parametrize("folder", ["genoa-v5-vcek", "milan-v3-vlek"])
def test_a_recorded_table_holds_what_its_manifest_lists(folder: str, vectors_dir: Path) -> None:
    root = vectors_dir / "sev-snp"
    table = (root / folder / "auxblob.bin").read_bytes()
    listed = next(t for t in json.loads((root / "MANIFEST.json").read_text())["cert_tables"] if folder in t["path"])
    entries = parse_certificate_table(table)
    assert [entry.kind for entry in entries] == listed["entries"]
    leaf = next((root / folder).glob("v?ek.der")).read_bytes()
    assert entries[0].data == leaf
    assert encode_certificate_table(entries) == table


def test_a_recorded_table_cut_anywhere_before_its_padding_is_refused(vectors_dir: Path) -> None:
    table = (vectors_dir / "sev-snp" / "genoa-v5-vcek" / "auxblob.bin").read_bytes()
    covered = len(table.rstrip(b"\0"))
    for length in range(1, covered, 7):
        assert refused(table[:length]).code in {"snp-table-malformed", "truncated"}, length
    assert refused(table[:72]).code == "truncated"
    assert refused(table[:3000]).code == "snp-table-malformed"
    assert parse_certificate_table(table[:covered]) == parse_certificate_table(table)


def test_a_simulated_table_is_read_as_it_was_made() -> None:
    chip = SimulatedChip.of(SnpProduct.TURIN)
    entries = parse_certificate_table(chip.certificate_table())
    assert [entry.kind for entry in entries] == ["VCEK", "ASK", "ARK"]
    assert tuple(entry.data for entry in entries) == chip.certificates()


# -- the list


@pytest.mark.parametrize("table", [b"", bytes(24), bytes(4096), END + bytes(8)])
def test_a_table_of_zeros_is_empty(table: bytes) -> None:
    assert parse_certificate_table(table) == ()


def test_entries_are_found_by_their_places_in_any_order_and_overlap() -> None:
    table = head(ARK, 72 + 3, 2) + head(VCEK, 72, 4) + END + b"vcek" + b"Z"
    assert parse_certificate_table(table) == (TableEntry(kind="ARK", data=b"kZ"), TableEntry(kind="VCEK", data=b"vcek"))


def test_guids_stand_in_the_order_of_their_text() -> None:
    assert VCEK.bytes == bytes.fromhex("63da758de6644564adc5f4b93be8accd")
    assert parse_certificate_table(head(VCEK, 48, 1) + END + b"x") == (TableEntry(kind="VCEK", data=b"x"),)
    swapped = VCEK.bytes_le + head(VCEK, 48, 1)[16:]
    assert parse_certificate_table(swapped + END + b"x") == ()


def test_an_unknown_guid_is_skipped_but_must_lie_inside() -> None:
    table = head(STRANGER, 72, 3) + head(VCEK, 75, 1) + END + b"abcx"
    assert parse_certificate_table(table) == (TableEntry(kind="VCEK", data=b"x"),)
    assert refused(head(STRANGER, 48, 5) + END + b"abcd").code == "snp-table-malformed"


def test_an_unknown_guid_may_stand_twice() -> None:
    assert parse_certificate_table(head(STRANGER, 72, 1) * 2 + END + b"x") == ()


@pytest.mark.parametrize("offset", [0, 1, 24, 47])
def test_an_entry_that_points_into_the_list_is_refused(offset: int) -> None:
    assert "covers" in refused(head(VCEK, offset, 1) + END + b"x").message


@pytest.mark.parametrize(("offset", "length"), [(48, 2), (49, 1), (0xFFFFFFFF, 1), (48, 0xFFFFFFFF), (0xFFFFFFFF,) * 2])
def test_an_entry_that_points_outside_the_table_is_refused(offset: int, length: int) -> None:
    error = refused(head(VCEK, offset, length) + END + b"x")
    assert (error.code, error.exit_code) == ("snp-table-malformed", 3)


def test_a_kind_that_stands_twice_is_refused() -> None:
    assert "two entries of kind VCEK" in refused(head(VCEK, 72, 1) + head(VCEK, 73, 1) + END + b"xy").message


@pytest.mark.parametrize("table", [head(VCEK, 48, 1), head(VCEK, 48, 1) + bytes(23), b"x", b"x" * 23])
def test_a_list_without_its_end_is_refused(table: bytes) -> None:
    assert refused(table).code == "truncated"


@pytest.mark.parametrize("ends", [bytes(16) + b"\1" + bytes(7), bytes(20) + b"\1" + bytes(3)])
def test_an_entry_without_a_guid_that_says_something_is_refused(ends: bytes) -> None:
    assert "without a GUID" in refused(head(VCEK, 72, 0) + ends + END).message


def test_bytes_behind_the_last_entry_must_be_padding() -> None:
    table = head(VCEK, 48, 1) + END + b"x"
    assert parse_certificate_table(table + bytes(100)) == parse_certificate_table(table)
    assert "not padding" in refused(table + bytes(99) + b"\1").message
    assert "not padding" in refused(END + b"x").message


def test_as_many_entries_as_the_limit_are_read() -> None:
    def table(count: int) -> bytes:
        return head(STRANGER, 24 * (count + 1), 0) * count + END

    assert parse_certificate_table(table(MAX_ENTRIES)) == ()
    assert "more than 32 entries" in refused(table(MAX_ENTRIES + 1)).message


def test_a_table_as_large_as_the_limit_is_read() -> None:
    table = head(VCEK, 48, 1) + END + b"x"
    assert len(parse_certificate_table(table.ljust(MAX_TABLE_BYTES, b"\0"))) == 1
    assert "more than 1048576" in refused(table.ljust(MAX_TABLE_BYTES + 1, b"\0")).message


# -- writing

ENTRIES = st.lists(
    st.builds(TableEntry, kind=st.sampled_from(sorted(KINDS.values())), data=st.binary(max_size=40)),
    max_size=6,
    unique_by=lambda entry: entry.kind,
).map(tuple)


@given(ENTRIES)
def test_a_table_reads_as_it_was_written_and_fills_whole_pages(entries: tuple[TableEntry, ...]) -> None:
    table = encode_certificate_table(entries)
    assert len(table) % 4096 == 0
    assert parse_certificate_table(table) == entries


@given(st.binary(max_size=200) | st.binary(max_size=60).map(lambda rest: head(VCEK, 48, len(rest)) + END + rest))
def test_any_bytes_are_a_table_or_refused(data: bytes) -> None:
    with contextlib.suppress(EvidenceError):
        assert all(entry.kind in KINDS.values() for entry in parse_certificate_table(data))


# -- behind a report

CHIP = SimulatedChip.of(SnpProduct.GENOA)
REPORT = SimulatedGuest(chip=CHIP).report(bytes(64))


def test_a_report_with_its_table_brings_its_certificates() -> None:
    evidence = parse_snp_evidence(REPORT + CHIP.certificate_table())
    leaf, intermediate, root = CHIP.certificates()
    assert evidence.report.raw == REPORT
    assert evidence.leaves == (leaf,)
    assert evidence.issuers == (parse_certificate(intermediate), parse_certificate(root))
    assert (evidence.crls, evidence.skipped) == ((), ())


def test_a_report_alone_or_with_an_empty_table_brings_nothing() -> None:
    for table in (b"", bytes(24), bytes(4096)):
        evidence = parse_snp_evidence(REPORT + table)
        assert (evidence.leaves, evidence.issuers, evidence.crls, evidence.skipped) == ((), (), (), ())


@pytest.mark.parametrize("extra", range(1, 24))
def test_a_report_with_a_few_bytes_more_is_refused_for_its_size(extra: int) -> None:
    for byte in (b"\0", b"x"):
        with pytest.raises(EvidenceError) as caught:
            parse_snp_evidence(REPORT + byte * extra)
        assert (caught.value.code, caught.value.got) == ("size-wrong", f"{1184 + extra} bytes")


def test_issuers_and_lists_that_cannot_be_read_are_skipped_and_told() -> None:
    table = encode_certificate_table(
        tuple(TableEntry(kind=kind, data=b"no DER") for kind in ("VCEK", "VLEK", "ASK", "ARK", "CRL", "PLATFORM"))
    )
    evidence = parse_snp_evidence(REPORT + table)
    assert evidence.leaves == (b"no DER", b"no DER")
    assert (evidence.issuers, evidence.crls) == ((), ())
    assert [told.split()[0] for told in evidence.skipped] == ["ASK", "ARK", "CRL"]


@given(st.binary(max_size=120), st.integers(0, 1300))
def test_any_bytes_behind_or_instead_of_a_report_are_evidence_or_refused(rest: bytes, kept: int) -> None:
    with contextlib.suppress(EvidenceError):
        assert parse_snp_evidence(REPORT[:kept] + rest).report.to_bytes() == REPORT[:kept] + rest[: 1184 - kept]


def test_what_configfs_tsm_writes_is_read() -> None:
    document = {"provider": "sev_guest", "outblob": base64url_text(REPORT)}
    assert parse_configfs_tsm(json.dumps(document).encode()).leaves == ()
    document["auxblob"] = base64url_text(CHIP.certificate_table())
    evidence = parse_configfs_tsm(json.dumps(document).encode())
    assert (evidence.report.raw, evidence.leaves) == (REPORT, CHIP.certificates()[:1])


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"provider": "tdx_guest"}, "evidence-unsupported"),
        ({"provider": 1}, "configfs-tsm-invalid"),
        ({"outblob": None}, "configfs-tsm-invalid"),
        ({"auxblob": None}, "configfs-tsm-invalid"),
        ({"generation": "1"}, "configfs-tsm-invalid"),
        ({"outblob": ""}, "size-wrong"),
        ({"outblob": "AA=="}, "base64-invalid"),
        ({"auxblob": "eA"}, "truncated"),
    ],
)
def test_another_document_is_no_configfs_tsm_report(changes: dict[str, object], code: str) -> None:
    document = {"provider": "sev_guest", "outblob": base64url_text(REPORT), "auxblob": ""} | changes
    with pytest.raises(EvidenceError) as caught:
        parse_configfs_tsm(json.dumps(document).encode())
    assert caught.value.code == code


@pytest.mark.parametrize("text", [b"[]", b"{}", b"null", b'{"provider": "sev_guest"}'])
def test_a_document_without_a_report_is_refused(text: bytes) -> None:
    with pytest.raises(EvidenceError) as caught:
        parse_configfs_tsm(text)
    assert caught.value.code == "configfs-tsm-invalid"

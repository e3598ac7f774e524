"""`attest inspect` shows what is there and claims nothing about it."""

from pathlib import Path

import pytest

from tests.cli.conftest import Attest, Document, Files


def the_file(attest: Attest, *paths: Path) -> Document:
    ran = attest("inspect", *paths, "--json")
    assert ran.code == 0, ran.err
    assert ran.document["schema"] == "attest.inspection/1"
    assert ran.document["verified"] is False
    found: Document = ran.document["files"][0]
    return found


def test_a_report_field_by_field(attest: Attest, files: Files) -> None:
    from attest.evidence.snp.structure import layout_of_version

    found = the_file(attest, files.report)
    (item,) = found["evidence"]["items"]
    assert set(layout_of_version(5).names) <= set(item["report"])
    assert item["report"]["measurement"] == files.guest.measurement.hex()
    assert item["report"]["policy"]["debug"] is False
    assert item["report"]["reported_tcb"]["microcode"] == 84


def test_a_report_of_version_2_keeps_its_tcbs_raw(attest: Attest, files: Files) -> None:
    attest("simulate", "evidence", "--report-version", "2", "--form", "snp-report", "-o", "two.bin")
    report = the_file(attest, files.folder / "two.bin")["evidence"]["items"][0]["report"]
    assert "product" not in report
    assert report["reported_tcb"] == files.guest.chip.reported_tcb.to_bytes().hex()


def test_an_extended_report_with_its_table(attest: Attest, files: Files) -> None:
    table = the_file(attest, files.extended)["evidence"]["items"][0]["certificate_table"]
    assert [entry["entry"] for entry in table] == ["VCEK", "ASK", "ARK", "CRL"]
    assert table[0]["hwid"] == files.guest.chip.hwid.hex()
    assert table[3]["next_update"] == "2027-01-01T00:00:00Z"


def test_a_table_with_a_broken_entry(attest: Attest, files: Files) -> None:
    from attest.evidence.snp.certificate_table import TableEntry, encode_certificate_table

    entries = (TableEntry(kind="VCEK", data=b"no certificate"), TableEntry(kind="PLATFORM", data=b"\x01"))
    found = the_file(attest, files.write("table", encode_certificate_table(entries)))
    assert "unreadable" in found["certificate_table"][0]
    assert found["certificate_table"][1]["value"] == "01"


def test_an_envelope_with_a_binding(attest: Attest, files: Files) -> None:
    from tests.samples import binding

    evidence = the_file(attest, files.bound)["evidence"]
    assert evidence["collection_type"].startswith("tag:")
    assert evidence["items"][1]["binding"]["report_data"] == binding().report_data().hex()


def test_a_configfs_report(attest: Attest, files: Files) -> None:
    import json

    from attest.encoding import base64url_text

    document = {
        "provider": "sev_guest",
        "outblob": base64url_text(files.report.read_bytes()),
        "auxblob": base64url_text(files.guest.chip.certificate_table(crl=files.crl)),
    }
    (item,) = the_file(attest, files.write("tsm.json", json.dumps(document).encode()))["evidence"]["items"]
    assert len(item["certificates"]) == 3
    assert len(item["crls"]) == 1


def test_certificates_lists_tables_and_bundles(attest: Attest, files: Files) -> None:
    folder = files.endorsements
    (certificate,) = the_file(attest, folder / "leaf.der")["certificates"]
    assert (certificate["kind"], certificate["product"], certificate["serial"]) == ("vcek", "Genoa", 0)
    (crl,) = the_file(attest, folder / "below/crl.der")["crls"]
    assert crl["revoked_count"] == 0
    attest("simulate", "endorsements", "-o", "bundle")
    bundle = the_file(attest, files.folder / "bundle")["bundle"]
    assert [entry["kind"] for entry in bundle["entries"]][:2] == ["amd-vcek", "amd-chain"]
    assert attest("endorsements", "show", "bundle", "--json").document["files"][0]["bundle"] == bundle


def test_a_page_says_that_nothing_was_verified(attest: Attest, files: Files) -> None:
    ran = attest("inspect", files.extended, files.endorsements / "leaf.der")
    assert ran.code == 0
    assert ran.out.startswith("(nothing here was verified")
    assert files.guest.measurement.hex() in "".join(line.strip() for line in ran.out.splitlines())
    assert max(map(len, ran.out.splitlines())) <= 80
    assert attest("inspect", files.report, "--quiet").out == ""


def test_what_cannot_be_read_is_exit_3(attest: Attest, files: Files) -> None:
    quote = b"\x04\0\x02\0\x81\0\0\0" + bytes(700)
    for data in (b"", b"nonsense", quote, files.report.read_bytes()[:-1]):
        ran = attest("inspect", files.write("given", data), "--json")
        assert (ran.code, ran.out) == (3, "")
        assert "error: " in ran.err


@pytest.mark.parametrize("name", ["sev-snp/genoa-v5-vcek/report.bin", "sev-snp/milan-v3-vlek/auxblob.bin"])
def test_recorded_files_can_be_shown(attest: Attest, vectors_dir: Path, name: str) -> None:
    assert the_file(attest, vectors_dir / name)["bytes"] > 0

"""Files become evidence: each form is known by what it is, and the order of the files means nothing."""

import base64
import contextlib
import itertools
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import cbor2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import JsonValue, base64url_text
from attest.endorsements.bundle import build_bundle
from attest.endorsements.bundle_records import BundleEntry
from attest.endorsements.x509 import parse_certificate, parse_crl
from attest.errors import AttestError, ChainError, EvidenceError, UnsupportedError
from attest.evidence.envelope import (
    MAX_DEPTH,
    MEDIA_AZURE_CVM,
    MEDIA_BINDING,
    MEDIA_CONFIGFS_TSM,
    MEDIA_ENDORSEMENTS,
    MEDIA_INTEL_QUOTE,
    MEDIA_SNP_EXTENDED,
    MEDIA_SNP_REPORT,
    Evidence,
    EvidenceItem,
)
from attest.evidence.input_file import FORMS, MAX_CERTIFICATES, MAX_FILE_BYTES
from attest.evidence.input_files import MAX_FILES, RecognisedEvidence, read_evidence
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip, SimulatedGuest
from attest_simulator.revocation_lists import simulated_crl
from tests.evidence.attachment.wild import FORMS as WILD
from tests.evidence.snp.peer_writers import attestation, sev_struct, trustee

CHIP = SimulatedChip.of(SnpProduct.GENOA)
GUEST = SimulatedGuest(chip=CHIP)
REPORT = GUEST.report(bytes(range(64)))
LEAF, INTERMEDIATE, ROOT = CHIP.certificates()
TABLE = CHIP.certificate_table()
CRL = simulated_crl(SnpProduct.GENOA, at=datetime(2026, 6, 1, tzinfo=UTC))
PLAIN = Evidence(items=(EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=REPORT),))
ENVELOPE = Evidence(items=(*PLAIN.items, EvidenceItem(name="binding", media_type=MEDIA_BINDING, value=b"\xa0")))
CONFIGFS = json.dumps(
    {"provider": "sev_guest", "outblob": base64url_text(REPORT), "auxblob": base64url_text(TABLE)}
).encode()
INNER = {
    "attestation_report": base64.b64encode(REPORT).decode(),
    "cert_chain": {"vcek": base64.b64encode(LEAF).decode()},
}


PROTOBUF = attestation(REPORT, {1: LEAF})
TRUSTEE = json.dumps(trustee(sev_struct(REPORT), [{"cert_type": "VCEK", "data": list(LEAF)}])).encode()
BUNDLE = build_bundle(
    (BundleEntry(kind="amd-vcek", source="a test", data=LEAF),),
    created=datetime(2026, 6, 1, tzinfo=UTC),
    expires=datetime(2026, 7, 1, tzinfo=UTC),
).to_bytes()


def pem(*ders: bytes, label: str = "CERTIFICATE") -> bytes:
    lines = [base64.encodebytes(der).decode().strip() for der in ders]
    return "".join(f"-----BEGIN {label}-----\n{text}\n-----END {label}-----\n" for text in lines).encode()


def jsons(document: object) -> bytes:
    return json.dumps(document).encode()


def read(*contents: bytes, form: str | None = None) -> RecognisedEvidence:
    return read_evidence([(f"file{number}", content) for number, content in enumerate(contents)], form=form)


def refused(*contents: bytes, form: str | None = None) -> AttestError:
    with pytest.raises(AttestError) as caught:
        read(*contents, form=form)
    return caught.value


# -- one file, one form

BINARY: dict[str, tuple[bytes, str, str]] = {
    "report": (REPORT, "snp-report", "SEV-SNP report"),
    "extended report": (REPORT + TABLE, "snp-extended", "SEV-SNP extended report"),
    "report with an empty table": (REPORT + bytes(4096), "snp-extended", "SEV-SNP extended report"),
    "protobuf": (PROTOBUF, "snp-extended", "go-sev-guest attestation (protobuf)"),
    "CBOR envelope": (ENVELOPE.to_cbor(), "envelope", "evidence envelope (CBOR)"),
    "CBOR record": (cbor2.dumps([MEDIA_SNP_REPORT, REPORT]), "envelope", "evidence envelope (CBOR)"),
}
TEXT: dict[str, tuple[bytes, str, str]] = {
    "JSON envelope": (ENVELOPE.to_json(), "envelope", "evidence envelope (JSON)"),
    "JSON record": (jsons([MEDIA_SNP_REPORT, base64url_text(REPORT)]), "envelope", "evidence envelope (JSON)"),
    "configfs-tsm": (CONFIGFS, "snp-extended", "configfs-tsm report (JSON)"),
    "Trustee": (TRUSTEE, "coco-json", "Trustee SNP evidence (JSON)"),
    "Trustee, newer": (jsons(INNER), "coco-json", "SEV-SNP report in base64 within JSON (Trustee, attestation-rs)"),
    "attestation-rs": (
        jsons({"platform": "snp", "evidence": INNER}),
        "coco-json",
        "attestation-rs evidence (JSON, platform snp)",
    ),
}
EVERY = BINARY | TEXT


def spellings(data: bytes) -> dict[str, bytes]:
    hexed = data.hex()
    return {
        "hex text": hexed.encode(),
        "hex text, upper case with a prefix and a line end": b"0x" + hexed.upper().encode() + b"\r\n",
        "hex text with a prefix in lines": (
            "0x" + "\n".join(hexed[at : at + 64] for at in range(0, len(hexed), 64))
        ).encode(),
        "hex text in pairs": " ".join(hexed[at : at + 2] for at in range(0, len(hexed), 2)).encode() + b"\n",
        "base64 text": base64.b64encode(data),
        "base64 text in lines": base64.encodebytes(data),
        "base64 text in lines of Windows": b"\n" + base64.encodebytes(data).replace(b"\n", b"\r\n"),
        "base64url text": base64url_text(data).encode(),
    }


@pytest.mark.parametrize("name", sorted(EVERY))
def test_a_form_is_recognised_and_accepted_under_its_own_name_only(name: str) -> None:
    data, form, label = EVERY[name]
    assert read(data).forms == (label,)
    assert read(data, form=form) == read(data)
    for other in set(FORMS) - {form}:
        error = refused(data, form=other)
        assert (error.code, error.exit_code) == ("evidence-form-mismatch", 3)
        assert (error.expected, error.got, error.field) == (other, form, "file0")
        assert form in (error.hint or "")


@pytest.mark.parametrize("name", sorted(EVERY))
def test_every_form_leads_to_the_same_report(name: str) -> None:
    (item, *_) = read(EVERY[name][0]).evidence.items
    assert item.name == "cpu"
    if item.media_type == MEDIA_CONFIGFS_TSM:
        assert item.value == CONFIGFS
    else:
        assert item.value[: len(REPORT)] == REPORT


@pytest.mark.parametrize("name", sorted(BINARY))
@pytest.mark.parametrize("spelling", sorted(spellings(b"")))
def test_hex_and_base64_of_a_binary_form_are_recognised_alike(name: str, spelling: str) -> None:
    data, form, label = BINARY[name]
    found = read(spellings(data)[spelling], form=form)
    encoding = "hex text" if spelling.startswith("hex") else "base64 text"
    assert found.forms == (f"{label}, {encoding}",)
    assert found.evidence == read(data).evidence


def test_a_report_becomes_the_item_cpu() -> None:
    assert read(REPORT).evidence == PLAIN


def test_an_extended_report_is_kept_as_it_was_given() -> None:
    (item,) = read(REPORT + TABLE).evidence.items
    assert (item.media_type, item.value) == (MEDIA_SNP_EXTENDED, REPORT + TABLE)


def test_an_extended_report_may_begin_with_an_entry_of_an_unknown_kind() -> None:
    entry = bytes(range(1, 17)) + (48).to_bytes(4, "little") + (2).to_bytes(4, "little")
    assert read(REPORT + entry + bytes(24) + b"xy").forms == ("SEV-SNP extended report",)
    empty = bytes(range(1, 17)) + (48).to_bytes(4, "little") + bytes(4)
    assert read(REPORT + empty + bytes(24)).forms == ("SEV-SNP extended report",)
    for outside in (entry + bytes(24) + b"x", entry + bytes(24), empty + bytes(23)):
        assert refused(REPORT + outside).code == "evidence-unrecognised"


def test_an_envelope_is_kept_with_its_items_and_type() -> None:
    stated = replace(ENVELOPE, collection_type="tag:example.org,2026:x")
    for data in (stated.to_json(), stated.to_cbor()):
        evidence = read(data).evidence
        assert (set(evidence.items), evidence.collection_type) == (set(stated.items), stated.collection_type)


def test_an_envelope_may_be_nested_to_a_limit() -> None:
    document: object = [MEDIA_SNP_REPORT, base64url_text(REPORT)]
    for _ in range(MAX_DEPTH):
        document = {"a": document}
    assert read(jsons(document)).evidence.items[0].name == "a/a/a/a"
    assert refused(jsons({"a": document})).code == "evidence-unrecognised"
    assert refused(jsons({"__cmwc_t": "tag:x", "a": document})).code == "envelope-invalid"


@pytest.mark.parametrize("version", [1, 6, 255])
def test_a_report_of_a_version_that_nobody_verifies_is_still_a_report(version: int) -> None:
    assert read(bytes([version]) + REPORT[1:]).forms == ("SEV-SNP report",)


@pytest.mark.parametrize("vector", ["milan-v2-vcek", "milan-v3-vlek", "genoa-v5-vcek", "milan-v2-debug"])
def test_real_reports_are_recognised_in_every_spelling(vector: str, vectors_dir: Path) -> None:
    folder = vectors_dir / "sev-snp" / vector
    report = (folder / "report.bin").read_bytes()
    for text in (report, *spellings(report).values()):
        (item,) = read(text, form="snp-report").evidence.items
        assert (item.media_type, item.value) == (MEDIA_SNP_REPORT, report)
    for table in folder.glob("auxblob.bin"):
        for text in (report + table.read_bytes(), *spellings(report + table.read_bytes()).values()):
            (item,) = read(text, form="snp-extended").evidence.items
            assert item.value == report + table.read_bytes()


# -- several files


def test_certificates_and_lists_beside_a_report_become_presented_endorsements() -> None:
    chain = pem(INTERMEDIATE, ROOT)
    found = read(REPORT, LEAF, chain, CRL)
    assert found.forms == (
        "SEV-SNP report",
        "X.509 certificate (SEV-VCEK)",
        "PEM: SEV-Genoa, ARK-Genoa",
        "certificate revocation list",
    )
    assert found.evidence.items == PLAIN.items
    assert set(found.evidence.presented.certificates) == set(map(parse_certificate, (LEAF, INTERMEDIATE, ROOT)))
    assert found.evidence.presented.crls == (parse_crl(CRL),)


def test_the_order_of_the_files_means_nothing() -> None:
    contents = (REPORT, LEAF, CRL)
    for order in itertools.permutations(contents):
        evidence = read(*order).evidence
        assert evidence.items == PLAIN.items
        assert (len(evidence.presented.certificates), len(evidence.presented.crls)) == (1, 1)


def test_certificates_are_read_from_every_spelling() -> None:
    for data in (LEAF, *spellings(LEAF).values(), pem(LEAF), b"subject=CN\n" + pem(LEAF).replace(b"\n", b"\r\n")):
        assert read(REPORT, data).evidence.presented.certificates == (parse_certificate(LEAF),)
    for data in (CRL, pem(CRL, label="X509 CRL")):
        assert read(REPORT, data).evidence.presented.crls == (parse_crl(CRL),)


def test_certificates_beside_an_envelope_become_presented_endorsements() -> None:
    evidence = read(LEAF, ENVELOPE.to_cbor()).evidence
    assert set(evidence.items) == set(ENVELOPE.items)
    assert evidence.presented.certificates == (parse_certificate(LEAF),)


def test_a_table_beside_a_report_makes_it_an_extended_report() -> None:
    for table in (TABLE, TABLE.hex().encode()):
        found = read(table, REPORT)
        assert found.evidence == read(REPORT + TABLE).evidence
        assert found.forms[0].startswith("SEV-SNP certificate table")
    for empty in (bytes(24), bytes(4096)):
        assert read(REPORT, empty).evidence == read(REPORT + empty).evidence


@pytest.mark.parametrize("name", ["extended report", "configfs-tsm", "CBOR envelope", "Trustee"])
def test_a_table_beside_anything_else_is_ambiguous(name: str) -> None:
    error = refused(EVERY[name][0], TABLE)
    assert (error.code, error.exit_code) == ("evidence-ambiguous", 3)


def test_a_table_goes_with_a_report_without_certificates_from_a_peer() -> None:
    evidence = read(jsons({"attestation_report": INNER["attestation_report"]}), TABLE).evidence
    assert evidence == read(REPORT + TABLE).evidence


def test_an_endorsement_bundle_becomes_an_item_of_its_own() -> None:
    found = read(BUNDLE, REPORT)
    assert found.forms == ("endorsement bundle", "SEV-SNP report")
    assert found.evidence.items == (
        *PLAIN.items,
        EvidenceItem(name="endorsements", media_type=MEDIA_ENDORSEMENTS, value=BUNDLE, indicator=2),
    )
    named = Evidence(
        items=(replace(PLAIN.items[0], name="endorsements"), replace(PLAIN.items[0], name="endorsements0"))
    )
    assert [item.name for item in read(named.to_cbor(), BUNDLE).evidence.items][-1] == "endorsements1"


@pytest.mark.parametrize(
    "contents",
    [
        (REPORT, REPORT),
        (REPORT, ENVELOPE.to_json()),
        (REPORT + TABLE, CONFIGFS),
        (REPORT, REPORT.hex().encode()),
        (REPORT, LEAF, PROTOBUF),
        (REPORT, TABLE, TABLE),
    ],
)
def test_two_that_could_be_meant_are_ambiguous(contents: tuple[bytes, ...]) -> None:
    error = refused(*contents)
    assert (error.code, error.exit_code) == ("evidence-ambiguous", 3)
    assert "file" in error.message


def test_two_bundles_are_ambiguous() -> None:
    assert refused(REPORT, BUNDLE, BUNDLE).code == "evidence-ambiguous"


# -- nothing to verify


@pytest.mark.parametrize("contents", [(), (b"",), (b" \r\n\t",), (REPORT, b""), (b"\n", LEAF)])
def test_no_file_or_an_empty_one_is_refused(contents: tuple[bytes, ...]) -> None:
    error = refused(*contents)
    assert (error.code, error.exit_code) == ("evidence-empty", 3)


@pytest.mark.parametrize("contents", [(LEAF,), (pem(LEAF, INTERMEDIATE),), (CRL, TABLE), (bytes(4096),)])
def test_certificates_alone_are_no_evidence(contents: tuple[bytes, ...]) -> None:
    error = refused(*contents)
    assert error.code == "evidence-empty"
    assert "file0: " in error.message
    assert "--endorsements" in (error.hint or "")


@pytest.mark.parametrize(
    "data",
    [
        b"hello",
        b"\x7fELF" + bytes(100),
        bytes(23),
        bytes(23) + b"\1" * 40,
        b"\xff" * 1184,
        REPORT[:-1],
        REPORT + b"\0",
        REPORT + b"x" * 100,
        REPORT[:48],
        b"\xda\x63\x74\xff\xe6\x44\x23\x47\xda\x55",
        b"\x9f\x61\x74\x40\xff",
        b"\x30\x82\x01\x00\x02\x01\x00",
        b"R\xc3\xa9sum\xc3\xa9",
        REPORT.hex().encode() + b" and more",
        b"0x0x" + REPORT.hex().encode(),
        base64.b64encode(REPORT.hex().encode()),
        base64.b64encode(base64.b64encode(REPORT)),
        base64.b64encode(ENVELOPE.to_json()),
        REPORT.hex().encode().hex().encode(),
        b"\x1c",
        b"eyJhbGciOiJub25lIn0.e30",
        jsons({"anything": "else"}),
        jsons({"cpu": ["no media type", "eA"]}),
        jsons({"cpu": []}),
        jsons({"cpu": {}}),
        jsons({"cpu": ["a/b", "eA"], "tcbInfo": {"version": 3}}),
        jsons({"x5c": ["MIID/" + "A" * 200]}),
        jsons({"keys": []}),
        jsons([]),
        jsons({}),
        jsons([1, 2]),
        jsons([["a"], "b"]),
        jsons({"evidence": {"tpm_quote": {}}}),
        b"AAAA" * 15,
        b"x" * 61 + b"R=",
        jsons([1, ["JWT"]]),
        jsons({"payload": "x"}),
        jsons({"signature": "x", "tcbInfo": {}}),
        jsons([{"arch": "HOPPER"}]),
        b"\xbc" + bytes(8),
        b"\x81\x00",
        b"00" * 31,
    ],
)
def test_what_is_in_no_known_form_is_refused_with_what_is(data: bytes) -> None:
    error = refused(data)
    assert isinstance(error, EvidenceError)
    assert (error.code, error.field, error.exit_code) == ("evidence-unrecognised", "file0", 3)
    assert error.expected == f"one of {', '.join(FORMS)}"
    assert error.hint


def test_a_report_of_almost_the_right_length_is_told_so() -> None:
    assert "1183 bytes; an SNP report has 1184" in refused(REPORT[:-1]).message
    assert "an SNP report has" not in refused(b"hello").message


@pytest.mark.parametrize("name", ["\x1b[2J", "a\nb", "é"])
def test_names_of_a_strangers_members_are_escaped_in_messages(name: str) -> None:
    assert refused(jsons({name: 1})).message.isprintable()


def test_at_most_eight_of_a_strangers_members_are_named_and_in_120_characters() -> None:
    shown = "JSON of an unknown kind ('m0', 'm1', 'm2', 'm3', 'm4', 'm5', 'm6', 'm7')"
    assert shown in refused(jsons({f"m{number}": 1 for number in range(9)})).message
    assert f"({'a' * 200!r:.120})" in refused(jsons({"a" * 200: 1})).message


@pytest.mark.parametrize(
    ("data", "code"),
    [
        (b"{", "json-invalid"),
        (b'{"provider": 1, "provider": 2}', "json-invalid"),
        (b"[" * 1000, "json-invalid"),
        (b'{"cpu": ["a/b", "e"]}', "base64-invalid"),
        (jsons({"__cmwc_t": "tag:x", "cpu": "text"}), "envelope-invalid"),
        (b"\xa1\x01\x02", "cbor-invalid"),
        (b"a" * 65, "hex-invalid"),
        (b"0x" + b"0" * 63, "hex-invalid"),
        (b"0x" + base64.b64encode(REPORT), "base64-invalid"),
        (b"x" * 65, "base64-invalid"),
        (b"x" * 64 + b"xQ=", "base64-invalid"),
        (b"x" * 62 + b"R=", "base64-invalid"),
        (b"\xa0", "envelope-invalid"),
        (b"\x82", "cbor-invalid"),
        (b"\x83\x61t\x40\x00", "envelope-invalid"),
        (b"\xbb" + bytes(8), "cbor-invalid"),
        (b"x" * 64 + b"AB==", "base64-invalid"),
        (b"x" * 64 + b"+_-/", "base64-invalid"),
        (jsons({"attestation_report": {}}), "peer-form-malformed"),
        (jsons({"attestation_report": "AA=="}), "peer-form-malformed"),
        (jsons({"platform": "az-snp", "evidence": []}), "evidence-unsupported"),
        (PROTOBUF[:-1], "truncated"),
    ],
)
def test_a_defect_of_a_recognised_form_is_told_as_such(data: bytes, code: str) -> None:
    assert (refused(data).code, refused(data).exit_code) == (code, 3)


# -- forms that are known and not verified

JWT = b"eyJhbGciOiJFUzM4NCJ9.eyJpc3MiOiJ4In0.c2ln"
QUOTE = bytes.fromhex("0400020081000000") + bytes(600)
NITRO = bytes.fromhex("d28444a1013822a0590400a969") + b"module_id" + bytes(1024)
UNSUPPORTED: list[tuple[bytes, str]] = [
    (b"\1\0\0\0\3\0\0\0" + bytes(20) + b"\x21\0\0\0Spec ID Event03\0" + bytes(40), "ccel"),
    (JWT + b"\n", "token"),
    (JWT.rpartition(b".")[0] + b".", "token"),
    (jsons([["JWT", "x"], {"GPU-0": "x"}]), "token"),
    (jsons({"payload": "x", "signatures": []}), "token"),
    (jsons({"payload": "x", "protected": "x", "signature": "x"}), "token"),
    (jsons({"attestation_report": {"data": []}, "cert_chain": {}, "serial_number": []}), "coco-json"),
    (jsons({"attestation_reports": []}), "coco-json"),
    (jsons({"ak_public": "x", "tpm_quote": {}}), "coco-json"),
    (jsons({"measurement": "x", "user_data": "x", "cuid": "x", "encr_measurement_key": "x"}), "coco-json"),
    (jsons({"token": [217, 1, 143]}), "coco-json"),
    (jsons({"version": 1, "devices": [{"device_id_cert": "x"}]}), "coco-json"),
    (NITRO, "envelope"),
    (NITRO[1:], "envelope"),
    (NITRO.hex().encode(), "envelope"),
    (bytes.fromhex("d9018fa1") + bytes(60), "envelope"),
    (bytes.fromhex("d9038ba1") + bytes(60), "envelope"),
]
NAMES = {
    "serial_number": "Hygon CSV",
    "attestation_reports": "Hygon DCU",
    "ak_public": "a TPM alone",
    "cuid": "IBM Secure Execution",
    "token": "Arm CCA",
    "devices": "NVIDIA DPU",
}
"""What is said of evidence with a member of this name."""


@pytest.mark.parametrize(
    ("data", "form"),
    [
        (QUOTE, "tdx-quote"),
        (b"\x05" + QUOTE[1:], "tdx-quote"),
        (QUOTE[:2] + b"\x03" + QUOTE[3:], "tdx-quote"),
        (QUOTE.hex().encode(), "tdx-quote"),
        (QUOTE[:48], "tdx-quote"),
        (bytes.fromhex("0300020000000000") + bytes(400), "sgx-quote"),
        (bytes.fromhex("0400020000000000") + bytes(400), "sgx-quote"),
    ],
)
def test_what_begins_like_a_quote_is_taken_for_one_and_read_later(data: bytes, form: str) -> None:
    for asked in (None, form):
        (item,) = read_evidence([("quote", data)], form=asked).evidence.items
        assert (item.name, item.media_type) == ("cpu", MEDIA_INTEL_QUOTE)
    assert refused(data, form="snp-report").code == "evidence-form-mismatch"


@pytest.mark.parametrize(
    "document",
    [
        {"version": 1, "tpm_quote": {}, "hcl_report": "x", "vcek": "x"},
        {"platform": "az-tdx", "evidence": {"hcl_report": "x"}},
        {"quote": {"message": []}, "report": [1], "vcek": "x"},
    ],
)
def test_what_has_the_members_of_an_azure_vm_is_taken_for_one_and_read_later(document: JsonValue) -> None:
    for asked in (None, "azure-json"):
        (item,) = read_evidence([("vm.json", jsons(document))], form=asked).evidence.items
        assert (item.name, item.media_type) == ("cpu", MEDIA_AZURE_CVM)
    assert refused(jsons(document), form="snp-report").code == "evidence-form-mismatch"


def test_a_report_of_azures_paravisor_alone_is_recognised_and_incomplete() -> None:
    data = b"HCLA\x01\0\0\0" + bytes(100)
    assert refused(data, form="hcl").code == refused(data).code == "azure-incomplete"
    assert refused(data).got == "no TPM quote"
    assert refused(data, form="snp-report").code == "evidence-form-mismatch"


def test_recorded_evidence_of_azure_vms_is_recognised(vectors_dir: Path) -> None:
    paths = sorted(vectors_dir.glob("azure/*/evidence.json"))
    assert len(paths) > 3
    for path in paths:
        (item,) = read_evidence([(path.name, path.read_bytes())], form="azure-json").evidence.items
        assert item.media_type == MEDIA_AZURE_CVM


def test_recorded_quotes_are_recognised_in_binary_and_in_hex(vectors_dir: Path) -> None:
    for pattern, form in (("tdx/*/quote.*", "tdx-quote"), ("sgx/*/quote.bin", "sgx-quote")):
        paths = sorted(vectors_dir.glob(pattern))
        assert paths, pattern
        for path in paths:
            assert read_evidence([(path.name, path.read_bytes())], form=form).evidence.items[0].name == "cpu"


@pytest.mark.parametrize(("data", "form"), UNSUPPORTED)
def test_a_known_form_that_this_version_does_not_verify_is_refused_by_name(data: bytes, form: str) -> None:
    for asked in (None, form):
        error = refused(data, form=asked)
        assert isinstance(error, UnsupportedError)
        assert (error.code, error.exit_code) == ("evidence-unsupported", 3)
    assert refused(data, form="snp-report").code == "evidence-form-mismatch"


@pytest.mark.parametrize("member", NAMES)
def test_evidence_of_another_technology_is_called_by_its_name(member: str) -> None:
    (data,) = (data for data, _ in UNSUPPORTED if f'"{member}"'.encode() in data)
    error = refused(data)
    assert (error.code, NAMES[member] in (error.got or "")) == ("evidence-unsupported", True)
    assert NAMES[member] in error.message


def test_an_attestation_document_of_nitro_is_called_by_its_name() -> None:
    assert refused(NITRO).got == "AWS Nitro Enclaves attestation document"
    assert refused(NITRO.replace(b"module_id", b"module_ie")).code != "evidence-unsupported"


@pytest.mark.parametrize(
    "data",
    [
        QUOTE[:47],
        b"\x06" + QUOTE[1:],
        QUOTE[:2] + b"\x01" + QUOTE[3:],
        QUOTE[:4] + b"\x82" + QUOTE[5:],
        b"HCLA and so on",
        b"HCLA",
    ],
)
def test_what_only_begins_like_such_a_form_is_not_taken_for_it(data: bytes) -> None:
    assert refused(data).code == "evidence-unrecognised"


def test_recorded_evidence_of_other_kinds_is_refused_by_name(vectors_dir: Path) -> None:
    expected = {
        "ccel/*/ccel.bin": "ccel",
        "nvidia/nras-token/detached_eat.json": "token",
    }
    for pattern, form in expected.items():
        paths = sorted(vectors_dir.glob(pattern))
        assert paths, pattern
        for path in paths:
            with pytest.raises(UnsupportedError):
                read_evidence([(path.name, path.read_bytes())], form=form)


def test_recorded_endorsements_are_no_evidence(vectors_dir: Path) -> None:
    paths = [*vectors_dir.glob("**/*.der"), *vectors_dir.glob("**/*.pem"), *vectors_dir.glob("sev-snp/*/auxblob.bin")]
    assert len(paths) > 20
    for path in paths:
        with pytest.raises(EvidenceError) as caught:
            read_evidence([(path.name, path.read_bytes())])
        assert caught.value.code == "evidence-empty", path


def test_a_form_that_nobody_knows_is_a_mistake_of_the_caller() -> None:
    with pytest.raises(ValueError, match="no form is called 'quote'"):
        read(REPORT, form="quote")


# -- certificates that cannot be read


@pytest.mark.parametrize("broken", [LEAF[:-1], LEAF[:400], LEAF + b"\0", LEAF[:30] + b"\xff" + LEAF[31:]])
def test_a_certificate_that_came_with_the_evidence_and_cannot_be_read_is_a_broken_chain(broken: bytes) -> None:
    for data in (broken, pem(broken), pem(ROOT, broken)):
        error = refused(REPORT, data)
        assert isinstance(error, ChainError)
        assert (error.code, error.exit_code, error.field) == ("certificate-malformed", 4, "file1")


def test_a_revocation_list_that_cannot_be_read_is_refused() -> None:
    for data in (CRL[:-1], pem(CRL[:-1], label="X509 CRL")):
        assert (refused(REPORT, data).code, refused(REPORT, data).exit_code) == ("crl-malformed", 3)


@pytest.mark.parametrize("label", ["PRIVATE KEY", "EC PRIVATE KEY", "CERTIFICATE REQUEST", "TRUSTED CERTIFICATE"])
def test_another_pem_block_is_refused_by_its_label_and_not_shown(label: str) -> None:
    error = refused(REPORT, pem(LEAF) + pem(b"a secret key", label=label))
    assert (error.code, error.got) == ("evidence-unrecognised", label)
    shown = error.message + json.dumps(error.context())
    assert base64.b64encode(b"a secret key").decode() not in shown


@pytest.mark.parametrize(
    "data",
    [
        b"-----BEGIN CERTIFICATE-----\n",
        pem(LEAF) + b"-----BEGIN CERTIFICATE-----\n",
        pem(LEAF).replace(b"END CERTIFICATE", b"END X509 CRL"),
        pem(LEAF).replace(b"-----END", b"----- END"),
        pem(LEAF).replace(b"MII", b"MI!", 1),
        b"-----BEGIN nothing known\n",
    ],
)
def test_a_pem_block_that_does_not_end_as_it_begins_is_refused(data: bytes) -> None:
    assert refused(REPORT, data).code == "evidence-unrecognised"


def test_a_pem_block_that_is_no_base64_is_refused() -> None:
    assert refused(REPORT, pem(LEAF).replace(b"\n-----END", b"=\n-----END")).code == "base64-invalid"


# -- limits


def test_as_many_files_as_the_limit_are_read() -> None:
    assert len(read(REPORT, *[LEAF] * (MAX_FILES - 1)).evidence.presented.certificates) == 1
    assert refused(REPORT, *[LEAF] * MAX_FILES).code == "evidence-too-large"


def test_as_many_certificates_as_the_limit_are_read() -> None:
    assert read(REPORT, pem(*[LEAF] * MAX_CERTIFICATES)).evidence.presented.certificates
    assert refused(REPORT, pem(*[LEAF] * (MAX_CERTIFICATES + 1))).code == "evidence-too-large"
    error = refused(REPORT, pem(*[LEAF] * MAX_CERTIFICATES), CRL)
    assert (error.code, "65 certificates" in error.message) == ("evidence-too-large", True)


def test_a_file_as_large_as_the_limit_is_looked_at() -> None:
    assert refused(b" " * (MAX_FILE_BYTES - len(CONFIGFS)) + CONFIGFS).code == "envelope-invalid"  # as an item it is
    assert refused(bytes(MAX_FILE_BYTES + 1)).code == "evidence-too-large"


@pytest.mark.parametrize(
    "data",
    [
        b"A" * 2_000_000 + b"!",
        b"A\n" * 1_000_000 + b"!",
        b"A" + b"\n" * 2_000_000 + b"!",
        b"A=" + b"\n" * 2_000_000 + b"!",
        b"0" * 2_000_000 + b"!",
        b"eyJ" + b"." * 2_000_000,
        b"eyJ" + b"a" * 2_000_000 + b"!",
        b"-----BEGIN " * 200_000,
        b"-----BEGIN CERTIFICATE-----\n" * 70_000,
        b"[" + b'"a/b",' * 300_000 + b"1]",
    ],
    ids=lambda data: data[:16].decode(),
)
def test_large_files_of_nothing_are_refused_in_no_time(data: bytes) -> None:
    assert refused(data).exit_code == 3


# -- totality

SAMPLES = [data for data, _, _ in EVERY.values()] + [data for data, _ in UNSUPPORTED]
SAMPLES += [wild.data for wild in WILD.values()]
EDITS = st.lists(st.tuples(st.integers(0, 1 << 16), st.integers(0, 255)), max_size=3)


def edited(sample: bytes, edits: list[tuple[int, int]]) -> bytes:
    data = bytearray(sample)
    for at, value in edits:
        data[at % len(data)] = value
    return bytes(data)


@given(st.lists(st.binary(max_size=80), max_size=3), st.sampled_from([None, *FORMS]))
def test_any_files_are_evidence_or_refused(contents: list[bytes], form: str | None) -> None:
    with contextlib.suppress(EvidenceError, ChainError):
        assert len(read(*contents, form=form).forms) == len(contents)


@given(st.sampled_from(SAMPLES), EDITS, st.integers(0, 1 << 16), st.binary(max_size=8))
def test_any_known_form_with_anything_changed_is_evidence_or_refused(
    sample: bytes, edits: list[tuple[int, int]], cut: int, rest: bytes
) -> None:
    data = edited(sample, edits)
    for content in (data, data[: cut % len(data)], data + rest, data.hex().encode(), base64.b64encode(data)):
        with contextlib.suppress(EvidenceError, ChainError):
            assert len(read(content).forms) == 1


@given(st.sampled_from([LEAF, INTERMEDIATE, CRL, TABLE, pem(LEAF, ROOT)]), EDITS)
def test_anything_beside_a_report_is_taken_or_refused(sample: bytes, edits: list[tuple[int, int]]) -> None:
    with contextlib.suppress(EvidenceError, ChainError):
        (item, *_) = read(REPORT, edited(sample, edits)).evidence.items
        assert item.value[: len(REPORT)] == REPORT


TEXTS = st.text(st.sampled_from('0123456789abcdefABCDEFxyzXYZ+/-_= \r\n.{}[]",:eyJ'), max_size=60)


@given(TEXTS)
def test_any_text_is_evidence_or_refused(text: str) -> None:
    with contextlib.suppress(EvidenceError, ChainError):
        assert len(read(text.encode()).forms) == 1


def test_a_separator_that_only_unicode_calls_a_blank_is_none_in_hex() -> None:
    report = "02000000" + "00" * 1180
    for blank in ("\x1c", "\x1d", "\x1e", "\x1f"):
        with pytest.raises(EvidenceError) as raised:
            read_evidence([("report", (report[:40] + blank + report[40:]).encode())])
        assert raised.value.code == "evidence-unrecognised"

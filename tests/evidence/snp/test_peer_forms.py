"""What other projects write is put back into the signed bytes, exactly, or refused with the place of the defect."""

import base64
import contextlib
import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import JsonValue, base64url_text
from attest.errors import EvidenceError, SignatureError, UnsupportedError
from attest.evidence.envelope import MEDIA_SNP_EXTENDED, MEDIA_SNP_REPORT
from attest.evidence.snp.certificate_table import TableEntry, parse_certificate_table
from attest.evidence.snp.evidence import parse_snp_evidence
from attest.evidence.snp.peer_forms import (
    MAX_CERTIFICATES_BYTES,
    PeerSnpEvidence,
    base64_of_either_alphabet,
    read_attestation_rs,
    read_report_json,
)
from attest.evidence.snp.peer_protobuf import MAX_PROTOBUF_BYTES, MAX_PROTOBUF_FIELDS, read_protobuf
from attest.evidence.snp.structure import REPORT_BYTES, parse_report
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip, SimulatedGuest
from tests.evidence.snp.peer_writers import (
    Document,
    attestation,
    field,
    message,
    old_sev_struct,
    report_fields,
    sev_struct,
    trustee,
    varint,
)
from tests.samples import NO_CRL, scene

MACHINES = [
    (SnpProduct.MILAN, 2),
    (SnpProduct.MILAN, 3),
    (SnpProduct.GENOA, 4),
    (SnpProduct.GENOA, 5),
    (SnpProduct.TURIN, 2),
    (SnpProduct.TURIN, 3),
    (SnpProduct.TURIN, 5),
]
CHIPS = {(product, version): SimulatedChip.of(product, report_version=version) for product, version in MACHINES}
REPORTS = {machine: SimulatedGuest(chip=chip, guest_svn=7).report(bytes(range(64))) for machine, chip in CHIPS.items()}
GENOA = REPORTS[SnpProduct.GENOA, 5]
LEAF, INTERMEDIATE, ROOT = CHIPS[SnpProduct.GENOA, 5].certificates()
VECTORS = ["milan-v2-vcek", "milan-v3-vlek", "genoa-v5-vcek", "milan-v2-debug"]


def refused(read: Callable[[], object], code: str = "peer-form-malformed") -> EvidenceError:
    with pytest.raises(EvidenceError) as caught:
        read()
    assert (caught.value.code, caught.value.exit_code) == (code, 3)
    return caught.value


def real(vectors_dir: Path, vector: str) -> tuple[bytes, bytes]:
    folder = vectors_dir / "sev-snp" / vector
    return (folder / "report.bin").read_bytes(), next(folder.glob("v?ek.der")).read_bytes()


# -- round trips


@pytest.mark.parametrize(("product", "version"), MACHINES)
def test_trustees_struct_becomes_the_signed_bytes(product: SnpProduct, version: int) -> None:
    raw = REPORTS[product, version]
    peer = read_report_json(trustee(sev_struct(raw, turin=product is SnpProduct.TURIN)))
    assert (peer.report, peer.entries, peer.form) == (raw, (), "Trustee SNP evidence (JSON)")


@pytest.mark.parametrize(("product", "version"), MACHINES)
@pytest.mark.parametrize("knows_cpuid", [False, True])
def test_the_structs_of_older_crates_become_the_signed_bytes(
    product: SnpProduct, version: int, knows_cpuid: bool
) -> None:
    raw = REPORTS[product, version]
    assert read_report_json(trustee(old_sev_struct(raw, knows_cpuid=knows_cpuid))).report == raw


@pytest.mark.parametrize(("product", "version"), MACHINES)
def test_go_sev_guests_message_becomes_the_signed_bytes(product: SnpProduct, version: int) -> None:
    raw = REPORTS[product, version]
    peer = read_protobuf(attestation(raw))
    assert (peer.report, peer.entries, peer.form) == (raw, (), "go-sev-guest attestation (protobuf)")


@pytest.mark.parametrize("vector", VECTORS)
def test_a_real_report_survives_every_form(vector: str, vectors_dir: Path) -> None:
    raw, leaf = real(vectors_dir, vector)
    kind = "VLEK" if vector.endswith("vlek") else "VCEK"
    text, leaf_text = base64.b64encode(raw).decode(), base64.b64encode(leaf).decode()
    expected = (TableEntry(kind=kind, data=leaf),)
    chain = [{"cert_type": kind, "data": list(leaf)}]
    inner = trustee(text, {"vcek": leaf_text})
    for peer in (
        read_report_json(json.loads(json.dumps(trustee(sev_struct(raw), chain)))),
        read_report_json(trustee(old_sev_struct(raw), chain)),
        read_report_json(trustee(text, chain)),
        read_report_json(inner),
        read_attestation_rs({"platform": "snp", "evidence": inner}),
        read_protobuf(attestation(raw, {6 if kind == "VLEK" else 1: leaf})),
    ):
        assert (peer.report, peer.entries) == (raw, expected), peer.form


def test_what_was_put_together_verifies_and_what_lost_a_byte_does_not() -> None:
    honest = scene(SnpProduct.TURIN)
    document = sev_struct(honest.report, turin=True)
    whole = read_report_json(trustee(document))
    assert honest.verify(whole.report, unchecked=NO_CRL).report.raw == honest.report
    document["host_data"][0] ^= 1
    lossy = read_report_json(trustee(document))
    with pytest.raises(SignatureError):
        honest.verify(lossy.report, unchecked=NO_CRL)


def test_an_item_is_an_extended_report_when_certificates_came_along() -> None:
    entries = (TableEntry(kind="VCEK", data=LEAF), TableEntry(kind="ASK", data=INTERMEDIATE))
    item = PeerSnpEvidence(form="a test", report=GENOA, entries=entries).to_item()
    assert (item.name, item.media_type) == ("cpu", MEDIA_SNP_EXTENDED)
    assert item.value[:REPORT_BYTES] == GENOA
    assert parse_certificate_table(item.value[REPORT_BYTES:]) == entries
    assert parse_snp_evidence(item.value).leaves == (LEAF,)


def test_an_item_is_a_plain_report_when_nothing_came_along() -> None:
    item = PeerSnpEvidence(form="a test", report=GENOA).to_item(name="other")
    assert (item.name, item.media_type, item.value) == ("other", MEDIA_SNP_REPORT, GENOA)


# -- Trustee: the struct

OPTIONAL = {"cpuid_fam_id", "cpuid_mod_id", "cpuid_step", "launch_mit_vector", "current_mit_vector"}


@pytest.mark.parametrize("name", sorted(sev_struct(GENOA)))
def test_a_member_that_is_missing_is_refused(name: str) -> None:
    document = sev_struct(GENOA)
    del document[name]
    error = refused(lambda: read_report_json(trustee(document)))
    assert (error.field or "").startswith("attestation_report.")


@pytest.mark.parametrize("name", sorted(OPTIONAL))
def test_a_member_that_this_version_must_have_cannot_be_null(name: str) -> None:
    error = refused(lambda: read_report_json(trustee(sev_struct(GENOA) | {name: None})))
    assert error.field == f"attestation_report.{name}"


@pytest.mark.parametrize("name", sorted(set(sev_struct(GENOA)) - OPTIONAL))
@pytest.mark.parametrize("value", [None, True, 1.0, "1", [], {}, -1, 1 << 64, [256], [-1], ["a"], [True], {"x": 1}])
def test_a_member_of_another_kind_or_size_is_refused_by_its_path(name: str, value: object) -> None:
    error = refused(lambda: read_report_json(trustee(sev_struct(GENOA) | {name: value})))
    assert (error.field or "").startswith(f"attestation_report.{name}")


@pytest.mark.parametrize(
    ("path", "value", "field_name"),
    [
        (("measurement", 47), 256, "measurement[47]"),
        (("measurement", 47), 1.0, "measurement[47]"),
        (("current_tcb", "snp"), 256, "current_tcb.snp"),
        (("current_tcb", "snp"), None, "current_tcb.snp"),
        (("current_tcb", "fmc"), "1", "current_tcb.fmc"),
        (("current_tcb", "fmc"), 256, "current_tcb.fmc"),
        (("current_tcb", "_reserved"), [0, 0, 0], "current_tcb._reserved"),
        (("current_tcb", "more"), 0, "current_tcb.'more'"),
        (("current", "build"), -1, "current.build"),
        (("current", "build"), 256, "current.build"),
        (("current", "patch"), 0, "current.'patch'"),
        (("signature", "r"), [0] * 71, "signature.r"),
        (("signature", "s"), [0] * 73, "signature.s"),
        (("signature", "_reserved"), [0], "signature._reserved"),
        (("signature", "v"), [], "signature.'v'"),
    ],
)
def test_a_defect_deeper_down_is_named_by_its_path(path: tuple[str, str | int], value: object, field_name: str) -> None:
    document = deepcopy(sev_struct(GENOA))
    document[path[0]][path[1]] = value
    assert refused(lambda: read_report_json(trustee(document))).field == f"attestation_report.{field_name}"


def test_a_tcb_has_either_an_fmc_or_the_bytes_of_the_old_layout() -> None:
    document = old_sev_struct(GENOA)
    document["launch_tcb"]["fmc"] = None
    assert read_report_json(trustee(document)).report == GENOA
    document["launch_tcb"]["fmc"] = 0
    assert refused(lambda: read_report_json(trustee(document))).field == "attestation_report.launch_tcb.fmc"


@pytest.mark.parametrize(
    ("extra", "name"),
    [
        ({"unknown": 0}, "'unknown'"),
        ({"_author_key_en": 0}, "_author_key_en"),
        ({"current_build": 0}, "current_build"),
        ({"_reserved_1": [0] * 24}, "_reserved_1"),
        ({"_reserved_4": [0] * 168}, "_reserved_4"),
        ({"_reserved_1": [0] * 20}, "_reserved_1"),
    ],
)
def test_a_member_that_is_unknown_or_gives_bytes_a_second_time_is_refused(extra: Document, name: str) -> None:
    error = refused(lambda: read_report_json(trustee(sev_struct(GENOA) | extra)))
    assert error.field == f"attestation_report.{name}"


def test_reserved_bytes_that_were_carried_along_are_kept_for_the_parser_to_judge() -> None:
    for name, size in (("_reserved_0", 4), ("_reserved_2", 1), ("_reserved_3", 1)):
        for value in (1, 256**size - 1):
            raw = read_report_json(trustee(sev_struct(GENOA) | {name: value})).report
            with pytest.raises(EvidenceError) as caught:
                parse_report(raw)
            assert caught.value.code == "reserved-not-zero"
        error = refused(lambda: read_report_json(trustee(sev_struct(GENOA) | {name: 256**size})))  # noqa: B023  called here
        assert error.code == "peer-form-malformed"


@pytest.mark.parametrize("version", [0, 1, 6, 1 << 31])
def test_a_version_outside_the_table_is_unsupported(version: int) -> None:
    error = refused(
        lambda: read_report_json(trustee(sev_struct(GENOA) | {"version": version})), "snp-version-unsupported"
    )
    assert isinstance(error, UnsupportedError)
    assert error.got == str(version)


@pytest.mark.parametrize("document", [None, [], "x", 1, {}, {"attestation_report": None}, {"attestation_report": []}])
def test_a_document_without_a_report_is_refused(document: JsonValue) -> None:
    refused(lambda: read_report_json(document))


def test_an_unknown_member_beside_the_report_is_refused() -> None:
    error = refused(lambda: read_report_json(trustee(sev_struct(GENOA)) | {"eventlog": ""}))
    assert error.field == "evidence.'eventlog'"


# -- certificates of Trustee

CHAIN: list[Document] = [
    {"cert_type": "ARK", "data": list(ROOT)},
    {"cert_type": "ASK", "data": list(INTERMEDIATE)},
    {"cert_type": "VCEK", "data": list(LEAF)},
]


@pytest.mark.parametrize("chain", [None, []])
def test_a_chain_may_be_absent(chain: object) -> None:
    assert read_report_json(trustee(sev_struct(GENOA), chain)).entries == ()
    assert read_report_json({"attestation_report": sev_struct(GENOA)}).entries == ()


def test_certificates_keep_their_kind_and_order() -> None:
    empty = {"cert_type": "Empty", "data": []}
    assert read_report_json(trustee(sev_struct(GENOA), [*CHAIN, empty, empty])).entries == (
        TableEntry(kind="ARK", data=ROOT),
        TableEntry(kind="ASK", data=INTERMEDIATE),
        TableEntry(kind="VCEK", data=LEAF),
    )


@pytest.mark.parametrize("kind", ["VLEK", "CRL"])
def test_every_kind_of_the_crate_is_known(kind: str) -> None:
    chain = [{"cert_type": kind, "data": [1, 2]}]
    assert read_report_json(trustee(sev_struct(GENOA), chain)).entries == (TableEntry(kind=kind, data=b"\1\2"),)


def test_a_kind_that_the_crate_had_no_name_for_is_known_by_its_guid() -> None:
    def entries(guid: str) -> tuple[TableEntry, ...]:
        return read_report_json(trustee(sev_struct(GENOA), [{"cert_type": {"OTHER": guid}, "data": [9]}])).entries

    assert entries("a8074bc2-a25a-483e-aae6-39c045a0b8a1") == (TableEntry(kind="VLEK", data=b"\x09"),)
    assert entries("A8074BC2-A25A-483E-AAE6-39C045A0B8A1") == (TableEntry(kind="VLEK", data=b"\x09"),)
    assert entries("00112233-4455-6677-8899-aabbccddeeff") == ()


def test_certificates_in_base64_are_read_too() -> None:
    chain = [{"cert_type": "VCEK", "data": base64.b64encode(LEAF).decode()}]
    assert read_report_json(trustee(sev_struct(GENOA), chain)).entries == (TableEntry(kind="VCEK", data=LEAF),)


@pytest.mark.parametrize(
    ("chain", "path"),
    [
        ("x", "cert_chain"),
        (1, "cert_chain"),
        ([1], "cert_chain[0]"),
        ([{}], "cert_chain[0].cert_type"),
        ([{"cert_type": "VCEK"}], "cert_chain[0].data"),
        ([{"cert_type": "VCEK", "data": [256]}], "cert_chain[0].data[0]"),
        ([{"cert_type": "vcek", "data": []}], "cert_chain[0].cert_type"),
        ([{"cert_type": "OTHER", "data": []}], "cert_chain[0].cert_type"),
        ([{"cert_type": {"OTHER": 1}, "data": []}], "cert_chain[0].cert_type.OTHER"),
        ([{"cert_type": {"ELSE": "x"}, "data": []}], "cert_chain[0].cert_type.'ELSE'"),
        ([{"cert_type": "VCEK", "data": [], "name": 1}], "cert_chain[0].'name'"),
        ([*CHAIN, CHAIN[0]], "certificates"),
        ([{"cert_type": "VCEK", "data": base64url_text(bytes(MAX_CERTIFICATES_BYTES + 1))}], "certificates"),
    ],
)
def test_a_chain_that_is_none_is_refused_by_its_path(chain: object, path: str) -> None:
    assert refused(lambda: read_report_json(trustee(sev_struct(GENOA), chain))).field == path


def test_as_many_certificates_as_a_table_may_hold_are_read() -> None:
    chain = [{"cert_type": "VCEK", "data": base64url_text(bytes(MAX_CERTIFICATES_BYTES))}]
    item = read_report_json(trustee(sev_struct(GENOA), chain)).to_item()
    (entry,) = parse_certificate_table(item.value[REPORT_BYTES:])
    assert len(entry.data) == MAX_CERTIFICATES_BYTES


# -- reports in base64, and attestation-rs


@pytest.mark.parametrize("encode", [lambda raw: base64.b64encode(raw).decode(), base64url_text])
def test_a_report_in_base64_of_either_alphabet_is_read(encode: Callable[[bytes], str]) -> None:
    peer = read_report_json(trustee(encode(GENOA), {"vcek": encode(LEAF), "ask": encode(INTERMEDIATE), "ark": None}))
    assert peer.form == "SEV-SNP report in base64 within JSON (Trustee, attestation-rs)"
    assert peer.report == GENOA
    assert peer.entries == (TableEntry(kind="VCEK", data=LEAF), TableEntry(kind="ASK", data=INTERMEDIATE))


@pytest.mark.parametrize("size", [0, REPORT_BYTES - 1, REPORT_BYTES + 1])
def test_a_report_in_base64_of_another_size_is_refused(size: int) -> None:
    assert refused(lambda: read_report_json(trustee(base64url_text(bytes(size))))).field == "attestation_report"


@pytest.mark.parametrize("text", ["A", "A===", "AB==", "A B=", "AA\n=", "-_+/", "é==="])
def test_base64_in_another_spelling_is_refused(text: str) -> None:
    refused(lambda: read_report_json(trustee(text)), "base64-invalid")


@given(st.binary(max_size=70))
def test_base64_of_either_alphabet_has_one_reading(data: bytes) -> None:
    assert base64_of_either_alphabet(base64url_text(data), what="x") == data
    assert base64_of_either_alphabet(base64.b64encode(data).decode(), what="x") == data


@pytest.mark.parametrize(
    ("chain", "path"),
    [
        ({"vcek": 1}, "cert_chain.vcek"),
        ({"vcek": [1]}, "cert_chain.vcek"),
        ({"vlek": "AA=="}, "cert_chain.'vlek'"),
    ],
)
def test_a_chain_of_attestation_rs_has_text_under_known_names(chain: object, path: str) -> None:
    assert refused(lambda: read_report_json(trustee(base64url_text(GENOA), chain))).field == path


def test_the_report_decides_whether_its_leaf_is_a_vcek_or_a_vlek() -> None:
    chip = SimulatedChip.of(SnpProduct.MILAN, csp_id="CN=cloud.example")
    raw = SimulatedGuest(chip=chip).report(bytes(64))
    peer = read_report_json(trustee(base64url_text(raw), {"vcek": base64url_text(chip.leaf_certificate())}))
    assert [entry.kind for entry in peer.entries] == ["VLEK"]


@pytest.mark.parametrize("platform", ["snp", "gcp-snp"])
def test_the_outer_object_of_attestation_rs_is_read(platform: str) -> None:
    peer = read_attestation_rs({"platform": platform, "evidence": trustee(base64url_text(GENOA))})
    assert (peer.report, peer.form) == (GENOA, f"attestation-rs evidence (JSON, platform {platform})")


@pytest.mark.parametrize("platform", ["tdx", "az-snp", "SNP", ""])
def test_another_platform_of_attestation_rs_is_unsupported(platform: str) -> None:
    document: JsonValue = {"platform": platform, "evidence": {}}
    assert refused(lambda: read_attestation_rs(document), "evidence-unsupported").got == repr(platform)


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        {"platform": "snp"},
        {"platform": 1, "evidence": {}},
        {"platform": "snp", "evidence": {}},
        {"platform": "snp", "evidence": trustee(base64url_text(GENOA)), "version": 1},
    ],
)
def test_another_outer_object_is_refused(document: JsonValue) -> None:
    refused(lambda: read_attestation_rs(document))


# -- go-sev-guest


def test_certificates_of_the_chain_message_keep_their_kind() -> None:
    extra = field(1, b"92f81bc3-5811-4d3d-97ff-d19f88dc67ea") + field(2, b"crl")
    stranger = field(1, b"00112233-4455-6677-8899-aabbccddeeff") + field(2, b"x")
    chain = (
        message({1: LEAF, 2: INTERMEDIATE, 3: ROOT, 4: b"firmware", 99: b"later"})
        + field(7, extra)
        + field(7, stranger)
    )
    product = field(3, field(1, 2) + field(3, field(1, 1)))
    peer = read_protobuf(field(1, message(report_fields(GENOA))) + field(2, chain) + product + field(1000, b"later"))
    assert peer.entries == (
        TableEntry(kind="VCEK", data=LEAF),
        TableEntry(kind="ASK", data=INTERMEDIATE),
        TableEntry(kind="ARK", data=ROOT),
        TableEntry(kind="CRL", data=b"crl"),
    )


def test_fields_may_come_in_any_order() -> None:
    fields = report_fields(GENOA)
    backwards = message(dict(reversed(fields.items())))
    assert read_protobuf(field(2, field(1, LEAF)) + field(1, backwards)).report == GENOA


def test_an_empty_chain_brings_nothing() -> None:
    assert read_protobuf(field(1, message(report_fields(GENOA))) + field(2, b"") + field(2000, 1)).entries == ()


def changed(**fields: int | bytes | None) -> bytes:
    """The Genoa report with fields (``f12``) replaced, removed (None) or added."""
    edits = {int(name[1:]): value for name, value in fields.items()}
    values: dict[int, int | bytes | None] = {**report_fields(GENOA), **edits}
    return field(1, b"".join(field(place, value) for place, value in values.items() if value is not None))


@pytest.mark.parametrize(
    ("fields", "name"),
    [
        ({"f4": bytes(15)}, "family_id"),
        ({"f5": None}, "image_id"),
        ({"f11": bytes(65)}, "report_data"),
        ({"f12": b""}, "measurement"),
        ({"f13": 5}, "host_data"),
        ({"f19": bytes(63)}, "chip_id"),
        ({"f28": bytes(511)}, "signature"),
        ({"f28": None}, "signature"),
        ({"f1": b"\5"}, "version"),
        ({"f1": b""}, "version"),
        ({"f1": 1 << 32}, "version"),
        ({"f2": 1 << 32}, "guest_svn"),
        ({"f21": 256}, "current_build"),
        ({"f18": bytes(8)}, "reported_tcb"),
        ({"f29": 0x10000000}, "cpuid1eax_fms"),
        ({"f29": 0x00001000}, "cpuid1eax_fms"),
        ({"f29": 0x0FF00F00}, "cpuid1eax_fms"),
        ({"f30": b"x"}, "launch_mit_vector"),
    ],
)
def test_a_field_of_another_kind_or_size_is_refused_by_its_path(
    fields: dict[str, int | bytes | None], name: str
) -> None:
    assert refused(lambda: read_protobuf(changed(**fields))).field == f"Attestation.report.{name}"


def test_a_field_that_the_schema_does_not_know_is_refused_in_the_report() -> None:
    assert refused(lambda: read_protobuf(changed(f32=1))).field == "Attestation.report, field 32"


@pytest.mark.parametrize(("version", "place"), [(2, 29), (3, 30), (4, 31)])
def test_a_field_that_this_version_does_not_have_must_be_zero(version: int, place: int) -> None:
    product = SnpProduct.GENOA if version == 4 else SnpProduct.MILAN
    fields = report_fields(REPORTS[product, version]) | {place: 0x00A00F11}
    error = refused(lambda: read_protobuf(field(1, message(fields))))
    assert "which has no such field" in (error.expected or "")


@pytest.mark.parametrize("version", [0, 1, 6])
def test_a_message_of_another_version_is_unsupported(version: int) -> None:
    refused(lambda: read_protobuf(changed(f1=version or None)), "snp-version-unsupported")


@pytest.mark.parametrize(
    "data",
    [
        changed() + changed(),
        changed() + field(2, b"") + field(2, b""),
        changed() + field(2, field(1, LEAF) * 2),
        field(1, message(report_fields(GENOA)) + field(2, 1)),
        changed() + field(2, field(7, field(1, b"x") * 2)),
        changed() + field(2, field(7, field(2, b"x") * 2)),
    ],
)
def test_a_field_that_occurs_twice_is_refused(data: bytes) -> None:
    assert refused(lambda: read_protobuf(data)).expected == "one value"


def test_two_certificates_of_one_kind_are_refused() -> None:
    extra = field(7, field(1, b"63da758d-e664-4564-adc5-f4b93be8accd") + field(2, LEAF))
    assert refused(lambda: read_protobuf(changed() + field(2, field(1, LEAF) + extra))).field == "certificates"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (field(1, 5), "length-delimited"),
        (changed() + field(2, 5), "length-delimited"),
        (changed() + field(2, field(1, 5)), "length-delimited"),
        (changed() + field(2, field(7, 5)), "length-delimited"),
        (changed() + varint(4 << 3 | 1) + bytes(8), "wire type 0 or 2"),
        (changed() + varint(4 << 3 | 5) + bytes(4), "wire type 0 or 2"),
        (changed() + varint(4 << 3 | 3) + varint(4 << 3 | 4), "wire type 0 or 2"),
        (changed() + varint(4 << 3 | 7), "wire type 0 or 2"),
        (changed() + b"\x00\x00", "field numbers from 1"),
        (changed() + varint(1 << 32) + b"\x00", "field numbers from 1"),
        (changed() + b"\xa0\x80\x00\x01", "shortest form"),
        (changed() + b"\x20\x81\x00", "shortest form"),
        (changed() + b"\x20" + b"\xff" * 9 + b"\x02", "shortest form"),
        (changed() + b"\x20" + b"\xff" * 10 + b"\x01", "shortest form"),
    ],
)
def test_another_wire_format_is_refused(data: bytes, problem: str) -> None:
    assert problem in refused(lambda: read_protobuf(data)).message


def test_the_largest_number_is_read() -> None:
    assert read_protobuf(changed() + field(4, (1 << 64) - 1) + field((1 << 29) - 1, 0)).report == GENOA
    assert parse_report(read_protobuf(changed(f9=(1 << 64) - 1)).report).platform_info == (1 << 64) - 1


def test_the_largest_family_is_read() -> None:
    assert read_protobuf(changed(f29=0x0F0F0FFF)).report[0x188:0x18B] == b"\xff\xff\x0f"


def test_a_message_cut_anywhere_is_refused() -> None:
    data = attestation(GENOA, {1: LEAF})
    codes = {refused_code(data[:length]) for length in range(len(data))}
    assert codes <= {"truncated", "peer-form-malformed", "snp-version-unsupported", None}
    whole = len(field(1, message(report_fields(GENOA))))
    accepted = [length for length in range(len(data)) if refused_code(data[:length]) is None]
    assert accepted == [whole]


def refused_code(data: bytes) -> str | None:
    try:
        read_protobuf(data)
    except EvidenceError as exc:
        return exc.code
    return None


def test_messages_have_limits() -> None:
    many = changed() + field(4, 1) * (MAX_PROTOBUF_FIELDS - 1)
    assert read_protobuf(many).report == GENOA
    assert "at most 256 fields" in refused(lambda: read_protobuf(many + field(4, 1))).message
    full = changed() + field(2, field(1, bytes(MAX_CERTIFICATES_BYTES)))
    assert len(read_protobuf(full).entries[0].data) == MAX_CERTIFICATES_BYTES
    large = changed() + field(4, bytes(MAX_PROTOBUF_BYTES - len(changed()) - 4))
    assert len(large) == MAX_PROTOBUF_BYTES
    assert read_protobuf(large).report == GENOA
    assert "at most" in refused(lambda: read_protobuf(large + b"\0")).message


# -- totality

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1, 300) | st.sampled_from(["snp", "AA==", "VCEK"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    *(
                        "attestation_report",
                        "cert_chain",
                        "platform",
                        "evidence",
                        "format",
                        "body",
                        "vcek",
                        "version",
                        "r",
                        "s",
                    )
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=10,
)


@given(JSON, st.sampled_from([read_report_json, read_attestation_rs]))
def test_any_json_is_a_report_or_refused(document: JsonValue, read: Callable[[JsonValue], PeerSnpEvidence]) -> None:
    with contextlib.suppress(EvidenceError):
        assert len(read(document).report) == REPORT_BYTES


@given(st.data())
def test_a_struct_with_any_member_changed_is_a_report_or_refused(data: st.DataObject) -> None:
    document = sev_struct(GENOA) | {data.draw(st.sampled_from(sorted(sev_struct(GENOA)))): data.draw(JSON)}
    with contextlib.suppress(EvidenceError):
        assert len(read_report_json(trustee(document)).report) == REPORT_BYTES


@given(st.binary(max_size=80), st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 255)), max_size=3))
def test_any_bytes_are_a_message_or_refused(rest: bytes, edits: list[tuple[int, int]]) -> None:
    data = bytearray(changed() + rest)
    for at, value in edits:
        data[at] = value
    for candidate in (bytes(data), rest):
        with contextlib.suppress(EvidenceError):
            assert len(read_protobuf(candidate).report) == REPORT_BYTES

"""Files that hold several devices: the forms, and the hints of the object around the devices."""

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import JsonValue, base64url_text
from attest.errors import ChainError, EvidenceError, UnsupportedError
from attest.evidence.gpu.evidence import MAX_DEVICES, parse_nvidia_device
from attest.evidence.gpu.forms import is_nvidia_json, split_nvidia_json, split_nvidia_text
from tests.evidence.gpu import made

DEVICES: list[JsonValue] = [made.device(), made.device(made.SWITCH, arch="LS10")]
FORMS: list[JsonValue] = [
    DEVICES,
    {"evidences": DEVICES},
    {"evidences": DEVICES, "result_code": 0, "result_message": "Ok"},
    {"device_evidence_list": DEVICES},
    {"evidence_list": DEVICES},
    {"evidence_list": DEVICES, "nonce": made.NONCE.hex(), "claims_version": "3.0"},
    {"nvidia_payload": json.dumps({"evidence_list": DEVICES, "nonce": made.NONCE.hex()})},
    {"evidence_list": DEVICES, "nonce": None, "arch": None},
    {"evidences": DEVICES, "more": 1},
    {"evidence_list": DEVICES, "more": 1},
    {"device_evidence_list": DEVICES, "more": 1},
]


@pytest.mark.parametrize("document", FORMS)
def test_every_form_of_a_file_is_cut_into_the_same_items(document: JsonValue) -> None:
    assert is_nvidia_json(document)
    items = split_nvidia_json(document)
    assert [prefix for prefix, _ in items] == ["gpu", "nvswitch"]
    assert [parse_nvidia_device(value).report.raw for _, value in items] == [made.GPU, made.SWITCH]
    assert [json.loads(value) for _, value in items] == DEVICES


def test_a_device_alone_is_one_item() -> None:
    for arch, prefix in (("LS10", "nvswitch"), ("ls10", "nvswitch"), ("HOPPER", "gpu"), ("else", "gpu"), (None, "gpu")):
        device = made.device(arch=arch)
        assert is_nvidia_json(device)
        ((name, value),) = split_nvidia_json(device)
        assert (name, json.loads(value)) == (prefix, device)


SPELLINGS = (
    made.GPU.hex(),
    made.GPU.hex().upper(),
    made.b64(made.GPU),
    made.b64(made.GPU.hex().encode()),
    made.b64(made.GPU.hex().upper().encode()),
)


@pytest.mark.parametrize("text", SPELLINGS)
@pytest.mark.parametrize("name", ["evidences", "evidence_list", "device_evidence_list", None])
def test_reports_are_in_base64_or_hex_or_base64_of_hex_and_names_in_any_case(text: str, name: str | None) -> None:
    device: JsonValue = {"arch": "Hopper", "uuid": "GPU-1", "evidence": text, "certificate": made.b64(made.CHAIN)}
    ((prefix, value),) = split_nvidia_json([device] if name is None else {name: [device]})
    found = parse_nvidia_device(value)
    assert (prefix, found.report.raw, found.uuid, found.arch) == ("gpu", made.GPU, "GPU-1", "HOPPER")


def test_members_of_no_meaning_are_left_out_of_the_item() -> None:
    ((_, value),) = split_nvidia_json([{**made.device(), "version": 1, "driver_version": None, "more": {}}])
    assert json.loads(value) == made.device()


# -- a request to NRAS


def request(*devices: dict[str, Any], **members: object) -> dict[str, Any]:
    return {"nonce": made.NONCE.hex(), "arch": "HOPPER", "evidence_list": list(devices), **members}


def test_nonce_and_architecture_of_a_request_hold_for_every_device() -> None:
    bare = made.device(nonce=None, arch=None)
    for document in (request(bare, bare), request({**bare, "nonce": None, "arch": None}, bare)):
        for prefix, value in split_nvidia_json(document):
            found = parse_nvidia_device(value)
            assert (prefix, found.stated_nonce, found.arch) == ("gpu", made.NONCE, "HOPPER")
    assert [prefix for prefix, _ in split_nvidia_json(request(bare, arch="ls10"))] == ["nvswitch"]


def test_a_device_may_repeat_what_its_request_says_in_any_case() -> None:
    device = made.device(nonce=made.NONCE.hex().upper(), arch="Hopper")
    ((_, value),) = split_nvidia_json(request(device))
    assert parse_nvidia_device(value).stated_nonce == made.NONCE


@pytest.mark.parametrize(("name", "other"), [("nonce", "00" * 32), ("arch", "BLACKWELL"), ("nonce", 7), ("arch", [])])
def test_a_device_that_contradicts_its_request_is_malformed(name: str, other: object) -> None:
    for document in (request(made.device(), made.device(**{name: other})), request(made.device(), **{name: other})):
        with pytest.raises(EvidenceError) as caught:
            split_nvidia_json(document)
        assert caught.value.code == "gpu-device-malformed"
        assert (caught.value.field or "").endswith(name)


def test_a_request_that_another_document_holds_as_text_is_cut_likewise() -> None:
    text = json.dumps(request(made.device(nonce=None)))
    assert split_nvidia_text(text, what="nvidia_payload") == split_nvidia_json(request(made.device(nonce=None)))
    assert split_nvidia_json({"nvidia_payload": text}) == split_nvidia_json(request(made.device()))
    with pytest.raises(EvidenceError) as caught:
        split_nvidia_text(text[:-1], what="machine.nvidia_payload")
    assert (caught.value.code, caught.value.field) == ("json-invalid", "machine.nvidia_payload")


def test_text_beside_other_members_is_another_document() -> None:
    assert is_nvidia_json({"nvidia_payload": "{}"})
    assert not is_nvidia_json({"nvidia_payload": "{}", "intel_quote": "00"})


# -- a collection of NVIDIA's SDK


def record(media_type: str, data: bytes) -> list[JsonValue]:
    return [media_type, base64url_text(data)]


def collected(data: bytes = made.GPU, **changes: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    """Write one device of a collection; a member that is None is left out."""
    members: dict[str, Any] = {
        "__cmwc_t": "tag:nvidia.com,2026:evidence-item/v1",
        "evidence": record("application/vnd.nvidia.spdm-measurement-transcript", data),
        "certificate": record("application/vnd.nvidia.pem-cert-chain", made.CHAIN),
        "nonce": record("application/octet-stream", data[4:36]),
        **changes,
    }
    return {name: value for name, value in members.items() if value is not None}


def collection(**members: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    """Write a collection; a member that is None is left out."""
    written: dict[str, Any] = {
        "__cmwc_t": "tag:nvidia.com,2026:verifier-input/profiles/base/pre-1.0.0",
        "nonce": record("application/octet-stream", made.NONCE),
        **members,
    }
    return {name: value for name, value in written.items() if value is not None}


def test_a_collection_of_nvidias_sdk_is_cut_into_its_devices() -> None:
    for document in (
        collection(gpu_0=collected(), gpu_1=collected(nonce=None)),
        collection(gpu_1=collected(), gpu_0=collected(), nonce=None),
        collection(**{"a": collected(), "b": collected(), "appraisal-settings": record("application/json", b"{}")}),
    ):
        assert is_nvidia_json(document)
        items = split_nvidia_json(document)
        assert [prefix for prefix, _ in items] == ["gpu", "gpu"]
        for _, value in items:
            found = parse_nvidia_device(value)
            assert (found.report.raw, found.stated_nonce, found.arch) == (made.GPU, made.NONCE, None)
            assert len(found.chain or ()) == len(made.CERTIFICATES)


def test_the_devices_of_a_collection_are_in_the_order_of_their_labels() -> None:
    other = made.report(nonce=bytes(32))
    for labels in (("gpu_0", "gpu_1"), ("1", "2")):
        document = collection(**{labels[1]: collected(), labels[0]: collected(other)}, nonce=None)
        nonces = [parse_nvidia_device(value).report.nonce for _, value in split_nvidia_json(document)]
        assert nonces == [bytes(32), made.NONCE]


@pytest.mark.parametrize(
    "document",
    [
        collection(),
        collection(gpu_0=None),
        collection(gpu_0="x"),
        collection(gpu_0=[]),
        collection(gpu_0=collected(__cmwc_t="tag:nvidia.com,2026:evidence-item/v2")),
        collection(gpu_0=collected(__cmwc_t=None)),
        collection(gpu_0=collected(evidence=None)),
        collection(gpu_0=collected(certificate=None)),
        collection(gpu_0=collected(evidence=[])),
        collection(gpu_0=collected(evidence=["application/vnd.nvidia.spdm-measurement-transcript"])),
        collection(gpu_0=collected(evidence=["application/vnd.nvidia.spdm-measurement-transcript", 1])),
        collection(gpu_0=collected(evidence=[1, "x"])),
        collection(gpu_0=collected(evidence=record("application/vnd.nvidia.spdm-measurement-transcript", b""))),
        collection(gpu_0=collected(nonce=record("application/octet-stream", bytes(32)))),
        collection(gpu_0=collected(), nonce=record("application/octet-stream", bytes(32))),
        collection(**{f"gpu_{number}": collected() for number in range(MAX_DEVICES + 1)}),
        {**collection(gpu_0=collected()), "nonce": None},
    ],
)
def test_a_collection_with_a_defect_is_malformed(document: JsonValue) -> None:
    with pytest.raises(EvidenceError) as caught:
        split_nvidia_json(document)
    assert (caught.value.code, caught.value.exit_code) == ("gpu-device-malformed", 3)


@pytest.mark.parametrize("name", ["evidence", "certificate", "nonce"])
def test_another_media_type_in_a_collection_is_not_understood_and_named(name: str) -> None:
    changes: dict[str, Any] = {name: record("application/eat+cwt", b"x")}
    device = collected(**changes)
    with pytest.raises(UnsupportedError) as caught:
        split_nvidia_json(collection(gpu_0=device))
    assert (caught.value.code, caught.value.got) == ("evidence-unsupported", "application/eat+cwt")
    assert caught.value.field == f"'gpu_0'.{name}"


@pytest.mark.parametrize("wrong", [bytes(32), made.NONCE[:-1]])
def test_of_a_long_label_the_first_forty_characters_are_named(wrong: bytes) -> None:
    document = collection(**{"g" * 41: collected(nonce=record("application/octet-stream", wrong))})
    with pytest.raises(EvidenceError) as caught:
        split_nvidia_json(document)
    assert caught.value.field == f"'{'g' * 40}'.nonce"


def test_base64_of_a_collection_is_that_of_urls() -> None:
    device = collected(evidence=["application/vnd.nvidia.spdm-measurement-transcript", made.b64(made.GPU)])
    with pytest.raises(EvidenceError) as caught:
        split_nvidia_json(collection(gpu_0=device))
    assert (caught.value.code, caught.value.field) == ("base64-invalid", "'gpu_0'.evidence")


def test_a_collection_of_another_project_is_none_of_nvidias() -> None:
    for stated in ("tag:nvidia.com,2026:evidence-item/v1", "tag:example.org,2026:verifier-input/", 1):
        assert not is_nvidia_json(collection(__cmwc_t=stated, gpu_0=collected()))


# -- defects


def test_hex_that_ends_in_half_a_byte_is_refused_as_hex() -> None:
    with pytest.raises(EvidenceError) as caught:
        split_nvidia_json({"device_evidence_list": [made.device(evidence=made.GPU.hex()[:-1])]})
    assert (caught.value.code, caught.value.field) == ("hex-invalid", "device_evidence_list[0].evidence")


def test_a_report_in_neither_is_refused_with_the_place_of_its_device() -> None:
    for text in ("!", "QQ", made.GPU.hex() + "\n", made.b64(made.GPU) + "\n", "é" * 4):
        with pytest.raises(EvidenceError) as caught:
            split_nvidia_json(request(made.device(), made.device(evidence=text)))
        assert (caught.value.code, caught.value.field) == ("base64-invalid", "evidence_list[1].evidence")


@pytest.mark.parametrize(
    "document",
    [
        [],
        {"evidences": []},
        {"evidences": {}},
        {"evidences": None},
        {"evidences": DEVICES, "result_code": 1, "result_message": "failed"},
        {"evidences": DEVICES, "result_code": None},
        {"evidences": DEVICES, "result_code": False},
        {"evidences": DEVICES, "result_code": "0"},
        {"device_evidence_list": []},
        {"evidence_list": []},
        {"evidence_list": {}},
        {"evidence_list": None},
        {"evidence_list": DEVICES, "evidences": DEVICES},
        {"nvidia_payload": None},
        {"nvidia_payload": {"evidence_list": DEVICES}},
        {"nvidia_payload": "{}"},
        {"nvidia_payload": json.dumps({"nvidia_payload": "x"})[:-1] + ', "more": 1}'},
        {"device_evidence_list": "x"},
        {"device_evidence_list": DEVICES, "evidences": DEVICES},
        [*DEVICES, None],
        [*DEVICES, {}],
        [*DEVICES, []],
        [made.device(evidence=None)],
        [made.device(certificate="")],
        [*DEVICES, made.device(certificate=None)],
        [made.device()] * (MAX_DEVICES + 1),
        made.device(certificate=None),
        "x",
        None,
    ],
)
def test_a_file_without_devices_or_a_device_without_its_parts_is_malformed(document: JsonValue) -> None:
    with pytest.raises(EvidenceError) as caught:
        split_nvidia_json(document)
    assert (caught.value.code, caught.value.exit_code) == ("gpu-device-malformed", 3)


def test_a_defect_is_shown_with_the_number_of_its_device() -> None:
    with pytest.raises(EvidenceError) as caught:
        split_nvidia_json({"evidences": [*DEVICES, made.device(certificate=7)]})
    error = caught.value
    assert (error.field, error.expected, error.got) == ("evidences[2].certificate", "text", "a number")


def test_a_file_may_hold_as_many_devices_as_the_limit() -> None:
    assert len(split_nvidia_json([made.device()] * MAX_DEVICES)) == MAX_DEVICES


@pytest.mark.parametrize(
    "document",
    [
        [],
        {},
        [1],
        [["JWT", "x"]],
        [{"arch": "HOPPER"}],
        {"evidence": {}},
        {"platform": "snp", "evidence": {}},
        "x",
        None,
    ],
)
def test_other_documents_are_not_taken_for_nvidias(document: JsonValue) -> None:
    assert not is_nvidia_json(document)


@pytest.mark.parametrize("which", ["gpu", "switch"])
def test_a_recorded_board_is_cut_into_its_devices(which: str, vectors_dir: Path) -> None:
    devices = made.board(vectors_dir, which)
    facts = made.facts(vectors_dir, f"{made.BOARD}/{which}_evidence.json")
    items = split_nvidia_json(devices)
    assert {prefix for prefix, _ in items} == {"gpu" if which == "gpu" else "nvswitch"}
    for (_, value), device, fact in zip(items, devices, facts, strict=True):
        found = parse_nvidia_device(value)
        assert found.report.raw == base64.b64decode(device["evidence"])
        assert (found.arch, len(found.chain or ())) == (fact["arch"], 5)
        assert found.stated_nonce == found.report.nonce == bytes.fromhex(fact["nonce_in_json"])
        assert found.chain is not None
        assert found.chain[0].serial == int(fact["ueid"])
        assert found.chain[1].common_name == fact["hwmodel"]


# -- any document at all

MEMBERS = st.dictionaries(
    st.sampled_from(["arch", "nonce", "evidence", "certificate", "uuid", "nvml", "version", "more"]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.just(made.b64(made.GPU))),
)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), MEMBERS),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(
                st.sampled_from(["evidences", "evidence_list", "device_evidence_list", "result_code", "nonce"]),
                inner,
                max_size=3,
            ),
        ),
        max_leaves=6,
    )
)
def test_any_document_is_cut_or_refused(document: JsonValue) -> None:
    is_nvidia_json(document)
    with contextlib.suppress(EvidenceError):
        for _, value in split_nvidia_json(document):
            with contextlib.suppress(EvidenceError, ChainError):
                parse_nvidia_device(value)

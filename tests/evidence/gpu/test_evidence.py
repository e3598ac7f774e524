"""One device: its report, its chain and its hints, in a closed object; and files that hold several."""

import base64
import contextlib
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.encoding import JsonValue
from attest.endorsements.x509 import MAX_CERTIFICATE_BYTES, parse_certificate
from attest.errors import AttestError, ChainError, EvidenceError
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, MEDIA_NVIDIA_REPORT
from attest.evidence.gpu.evidence import (
    ENVIRONMENTS,
    MAX_CHAIN_CERTIFICATES,
    MAX_DEVICE_BYTES,
    MAX_DEVICES,
    MULTI_GPU_MODES,
    NVIDIA_PARSERS,
    GpuSettings,
    ParsedGpuEvidence,
    device_json,
    is_nvidia_json,
    parse_nvidia_device,
    parse_nvidia_report,
    split_nvidia_json,
)
from attest.evidence.gpu.structure import parse_report
from tests.evidence.gpu import made

NVML: dict[str, Any] = {
    "environment": "production",
    "cc_mode": True,
    "dev_tools_mode": False,
    "multi_gpu_mode": "none",
    "ready": True,
    "driver_version": "590.12",
}
SETTINGS = GpuSettings(**NVML)


def read(**members: object) -> ParsedGpuEvidence:
    return parse_nvidia_device(made.jsons(made.device(**members)))


def refused(data: bytes) -> AttestError:
    with pytest.raises(AttestError) as caught:
        parse_nvidia_device(data)
    return caught.value


def malformed(data: bytes) -> AttestError:
    error = refused(data)
    assert isinstance(error, EvidenceError)
    assert (error.code, error.check, error.exit_code) == ("gpu-device-malformed", "nvidia.format", 3)
    assert error.field
    assert error.message.isprintable()
    return error


# -- one device


def test_a_raw_report_has_no_chain_and_no_hints() -> None:
    assert parse_nvidia_report(made.GPU) == ParsedGpuEvidence(report=parse_report(made.GPU))


def test_each_media_type_has_its_parser() -> None:
    assert {MEDIA_NVIDIA_REPORT: parse_nvidia_report, MEDIA_NVIDIA_DEVICE: parse_nvidia_device} == NVIDIA_PARSERS


def test_a_device_is_read_with_its_chain_and_hints() -> None:
    found = read(nvml=NVML, uuid="GPU-1234", version="1.0", driver_version="1", vbios_version="2")
    assert found == ParsedGpuEvidence(
        report=parse_report(made.GPU),
        chain=tuple(map(parse_certificate, made.CERTIFICATES)),
        arch="HOPPER",
        settings=SETTINGS,
        uuid="GPU-1234",
        stated_nonce=made.NONCE,
    )


def test_hints_may_be_missing() -> None:
    found = read(arch=None, nonce=None)
    assert (found.arch, found.stated_nonce, found.settings, found.uuid) == (None, None, None, None)


def test_a_nonce_that_differs_from_the_report_is_kept_for_the_procedure_to_refuse() -> None:
    assert read(nonce="AB" * 32).stated_nonce == b"\xab" * 32


@pytest.mark.parametrize("nonce", ["ab" * 31, "ab" * 33, "0x" + "ab" * 31, "zz" * 32, " " + "ab" * 31 + "a"])
def test_a_nonce_that_is_not_32_bytes_of_hex_is_refused(nonce: str) -> None:
    error = refused(made.jsons(made.device(nonce=nonce)))
    assert error.exit_code == 3
    assert error.field == "device.nonce"


@pytest.mark.parametrize("arch", ["hopper", "Hopper", "HOPPER"])
def test_the_architecture_is_read_without_case(arch: str) -> None:
    assert read(arch=arch).arch == "HOPPER"


@pytest.mark.parametrize("name", ["evidence", "certificate"])
@pytest.mark.parametrize("value", [None, "", 1, [], {}, False])
def test_a_device_without_report_or_chain_is_malformed(name: str, value: object) -> None:
    device = made.device(**{name: value})
    assert malformed(made.jsons(device)).field == f"device.{name}"
    assert malformed(made.jsons({**device, name: None})).got == "null or nothing"


@pytest.mark.parametrize("name", ["arch", "nonce", "uuid", "version", "driver_version", "vbios_version"])
@pytest.mark.parametrize("value", ["", 1, 1.5, [], {}, True, "\n", "é", "x" * 65])
def test_a_hint_is_a_short_text(name: str, value: object) -> None:
    assert malformed(made.jsons(made.device(**{name: value}))).field == f"device.{name}"


def test_an_unknown_member_is_refused() -> None:
    assert malformed(made.jsons(made.device(more="x"))).got == "an unknown member"
    assert malformed(made.jsons(made.device(**{"\x1b" * 99: "x"}))).message.isprintable()


@pytest.mark.parametrize("document", [[], [made.device()], "x", 1, None])
def test_a_device_is_an_object(document: object) -> None:
    assert malformed(made.jsons(document)).expected == "an object"


def test_a_member_that_stands_twice_is_refused() -> None:
    text = made.jsons(made.device())
    assert refused(text[:-1] + b', "arch": "HOPPER"}').code == "json-invalid"


def test_a_device_is_bounded() -> None:
    text = made.jsons(made.device())
    assert parse_nvidia_device(text.ljust(MAX_DEVICE_BYTES)).arch == "HOPPER"
    assert malformed(text.ljust(MAX_DEVICE_BYTES + 1)).expected == f"at most {MAX_DEVICE_BYTES} bytes"


@pytest.mark.parametrize("name", ["evidence", "certificate"])
@pytest.mark.parametrize("text", ["!", "QQ", "QR==", "QQ==\n", "_-A="])
def test_base64_is_strict(name: str, text: str) -> None:
    error = refused(made.jsons(made.device(**{name: text})))
    assert (error.code, error.field) == ("base64-invalid", f"device.{name}")


def test_hex_is_no_report_here() -> None:
    assert refused(made.jsons(made.device(evidence=made.GPU.hex()))).exit_code == 3


def test_a_report_that_cannot_be_read_comes_before_a_chain_that_cannot() -> None:
    error = refused(made.jsons(made.device(evidence=made.b64(made.GPU + b"\0"), certificate=made.b64(b"x"))))
    assert (error.code, error.exit_code) == ("gpu-report-malformed", 3)


# -- the chain


@pytest.mark.parametrize(
    "chain",
    [
        b"x",
        made.CERTIFICATES[0],
        made.pem(made.CERTIFICATES[0][:-1]),
        made.pem(*made.CERTIFICATES, b"\0"),
        made.pem(made.CERTIFICATES[0], label="X509 CRL"),
        made.CHAIN + made.pem(b"x", label="PRIVATE KEY"),
        made.CHAIN + b"-----BEGIN CERTIFICATE-----\n",
        made.CHAIN.replace(b"END CERTIFICATE", b"END NOTHING", 1),
        made.CHAIN.replace(b"MII", b"MI!", 1),
        made.CHAIN.replace(b"MII", b"MI=", 1),
        made.pem(bytes(MAX_CERTIFICATE_BYTES + 1)),
        made.pem(*[made.CERTIFICATES[0]] * (MAX_CHAIN_CERTIFICATES + 1)),
    ],
)
def test_a_chain_that_cannot_be_read_is_broken(chain: bytes) -> None:
    error = refused(made.jsons(made.device(certificate=made.b64(chain))))
    assert isinstance(error, ChainError)
    assert (error.code, error.exit_code, error.check) == ("certificate-malformed", 4, "nvidia.chain")
    assert error.field == "device.certificate"


def test_a_chain_of_any_length_up_to_the_limit_is_kept_as_presented() -> None:
    for count in (1, MAX_CHAIN_CERTIFICATES):
        chain = made.pem(*[made.CERTIFICATES[0]] * count).replace(b"\n", b"\r\n")
        assert len(read(certificate=made.b64(chain)).chain or ()) == count


# -- settings


@pytest.mark.parametrize("environment", ENVIRONMENTS)
@pytest.mark.parametrize("mode", MULTI_GPU_MODES)
@pytest.mark.parametrize("flag", [False, True])
def test_settings_are_written_and_read_again(environment: str, mode: str, flag: bool) -> None:
    settings = GpuSettings(environment=environment, cc_mode=flag, dev_tools_mode=not flag, multi_gpu_mode=mode)
    for written in (settings, SETTINGS):
        data = device_json(made.SWITCH, made.CHAIN, "LS10", written, "SWX-1")
        found = parse_nvidia_device(data)
        assert (found.settings, found.uuid, found.arch) == (written, "SWX-1", "LS10")
        assert (found.report.raw, found.stated_nonce) == (made.SWITCH, made.NONCE)
        assert len(found.chain or ()) == len(made.CERTIFICATES)


def test_a_device_without_settings_or_name_is_written_as_nvidia_writes_it() -> None:
    data = device_json(made.GPU, made.CHAIN, "HOPPER", None, None)
    assert json.loads(data) == made.device()
    assert parse_nvidia_device(data).settings is None


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("environment", value) for value in (None, "", "PRODUCTION", "test", 2, True)),
        *(("multi_gpu_mode", value) for value in (None, "", "ppcie", 0, False)),
        *((flag, value) for flag in ("cc_mode", "dev_tools_mode") for value in (None, 0, 1, "true", 0.5)),
        *(("ready", value) for value in (0, 1, "yes")),
        *(("driver_version", value) for value in ("", 590, "é", "x" * 65)),
    ],
)
def test_a_setting_outside_its_set_is_refused(name: str, value: object) -> None:
    nvml = {key: member for key, member in {**NVML, name: value}.items() if member is not None}
    assert malformed(made.jsons(made.device(nvml=nvml))).field == f"device.nvml.{name}"
    assert malformed(made.jsons(made.device(nvml={**NVML, name: None}))).field == f"device.nvml.{name}"


def test_of_several_unknown_members_the_first_in_order_is_shown() -> None:
    assert malformed(made.jsons(made.device(nvml=NVML | {"zebra": 1, "aardvark": 1}))).field == "device.nvml.'aardvark'"


@pytest.mark.parametrize("value", ["x", 1, [], {**NVML, "more": 1}, {}])
def test_settings_are_a_closed_object(value: object) -> None:
    assert malformed(made.jsons(made.device(nvml=value))).exit_code == 3


def test_settings_that_are_null_are_refused() -> None:
    assert malformed(made.jsons({**made.device(), "nvml": None})).field == "device.nvml"


# -- several devices


DEVICES: list[JsonValue] = [made.device(), made.device(made.SWITCH, arch="LS10")]
FORMS: list[JsonValue] = [
    DEVICES,
    {"evidences": DEVICES},
    {"evidences": DEVICES, "result_code": 0, "result_message": "Ok"},
    {"device_evidence_list": DEVICES},
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


def test_confidential_containers_write_reports_in_hex_or_base64_and_names_in_any_case() -> None:
    for text in (made.GPU.hex(), made.GPU.hex().upper(), made.b64(made.GPU)):
        device: JsonValue = {"arch": "Hopper", "uuid": "GPU-1", "evidence": text, "certificate": made.b64(made.CHAIN)}
        ((prefix, value),) = split_nvidia_json({"device_evidence_list": [device]})
        found = parse_nvidia_device(value)
        assert (prefix, found.report.raw, found.uuid, found.arch) == ("gpu", made.GPU, "GPU-1", "HOPPER")


def test_hex_that_is_cut_in_half_a_byte_is_told_as_such() -> None:
    with pytest.raises(EvidenceError) as caught:
        split_nvidia_json({"device_evidence_list": [made.device(evidence=made.GPU.hex()[:-1])]})
    assert (caught.value.code, caught.value.field) == ("hex-invalid", "device_evidence_list[0].evidence")


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
        {"evidences": DEVICES, "more": 1},
        {"device_evidence_list": []},
        {"device_evidence_list": "x"},
        {"device_evidence_list": DEVICES, "more": 1},
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


def test_a_defect_is_told_with_the_number_of_its_device() -> None:
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


# -- any bytes at all

MEMBERS = st.dictionaries(
    st.sampled_from(["arch", "nonce", "evidence", "certificate", "uuid", "nvml", "version", "more"]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.just(made.b64(made.GPU)), st.just(NVML)),
)


@given(st.one_of(st.binary(max_size=100), MEMBERS.map(made.jsons)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(EvidenceError, ChainError):
        parse_nvidia_device(data)


@given(
    st.recursive(
        st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=4), MEMBERS),
        lambda inner: st.one_of(
            st.lists(inner, max_size=3),
            st.dictionaries(st.sampled_from(["evidences", "device_evidence_list", "result_code"]), inner, max_size=3),
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

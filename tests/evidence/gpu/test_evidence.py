"""One device: its report, its chain and its hints."""

import contextlib
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.x509 import MAX_CERTIFICATE_BYTES, parse_certificate
from attest.errors import AttestError, ChainError, EvidenceError
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, MEDIA_NVIDIA_REPORT
from attest.evidence.gpu.evidence import (
    ENVIRONMENTS,
    MAX_CHAIN_CERTIFICATES,
    MAX_DEVICE_BYTES,
    MULTI_GPU_MODES,
    NVIDIA_PARSERS,
    GpuSettings,
    ParsedGpuEvidence,
    device_json,
    parse_nvidia_device,
    parse_nvidia_report,
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


def test_hints_may_be_missing_or_null() -> None:
    for device in (made.device(arch=None, nonce=None), {**made.device(), "arch": None, "nonce": None, "uuid": None}):
        found = parse_nvidia_device(made.jsons(device))
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


@pytest.mark.parametrize("name", ["arch", "nonce"])
@pytest.mark.parametrize("value", ["", 1, 1.5, [], {}, True, "\n", "é", "x" * 65])
def test_a_hint_that_a_check_rests_on_is_a_short_text(name: str, value: object) -> None:
    assert malformed(made.jsons(made.device(**{name: value}))).field == f"device.{name}"


@pytest.mark.parametrize("name", ["uuid", "version", "driver_version", "vbios_version", "more", "\x1b" * 99])
@pytest.mark.parametrize("value", ["", 1, 1.5, [], {}, True, None, "\n", "é", "x" * 65])
def test_a_hint_that_no_check_rests_on_may_be_anything(name: str, value: object) -> None:
    assert parse_nvidia_device(made.jsons({**made.device(), name: value})) == read()


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


# -- any bytes at all

MEMBERS = st.dictionaries(
    st.sampled_from(["arch", "nonce", "evidence", "certificate", "uuid", "nvml", "version", "more"]),
    st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=8), st.just(made.b64(made.GPU)), st.just(NVML)),
)


@given(st.one_of(st.binary(max_size=100), MEMBERS.map(made.jsons)))
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    with contextlib.suppress(EvidenceError, ChainError):
        parse_nvidia_device(data)

"""Evidence of one NVIDIA device: its report, the chain that came with it, and NVML's statement of the machine's mode.

A raw report travels alone, and its chain lies among the endorsements. The JSON object of NVIDIA's SDK carries both;
what else it says (``arch``, ``nonce``, versions) is an unsigned hint. Our collector adds a member ``nvml``,
which is no less unsigned: it counts for something only where a CPU's evidence binds it.

Spec: specs/nvidia-gpu.md, sections 15 and 16.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass

from attest.encoding import JsonValue, base64_bytes, hex_bytes, json_value
from attest.endorsements.x509 import Certificate, parse_certificate, pem_blocks
from attest.errors import ChainError, EvidenceError
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, MEDIA_NVIDIA_REPORT
from attest.evidence.gpu.structure import ParsedGpuReport, parse_report

MAX_DEVICE_BYTES = 64 * 1024
"""JSON of one device; NVML's buffers for report and chain have 13 KiB together, 18 KiB in base64."""
MAX_CHAIN_CERTIFICATES = 8
"""NVIDIA's chains have five."""
MAX_DEVICES = 32
"""Devices in one file; the largest board has eight GPUs and four switches."""
NONCE_BYTES = 32

ENVIRONMENTS = ("unavailable", "simulation", "production")
MULTI_GPU_MODES = ("none", "protected-pcie", "nvle")

_CHECK = "nvidia.format"
_CLAUSE = "nvidia-gpu.md 16"
_REQUIRED = ("evidence", "certificate")
_HINTS = ("version", "driver_version", "vbios_version")
"""Members of older files; unsigned, and of no use beside the report, which states the versions itself."""
_MEMBERS = frozenset({"arch", "nonce", "uuid", "nvml", *_REQUIRED, *_HINTS})
_NVML_MEMBERS = frozenset({"environment", "cc_mode", "dev_tools_mode", "multi_gpu_mode", "ready", "driver_version"})
_WRAPPER_MEMBERS = frozenset({"evidences", "result_code", "result_message"})
_WORD = re.compile(r"[ -~]{1,64}")
_HEX = re.compile(r"[0-9a-fA-F]+")
_SWITCH_ARCH = "LS10"
_NOUNS: Mapping[type, str] = {
    bool: "boolean",
    int: "integer",
    float: "number",
    str: "string",
    list: "array",
    dict: "object",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSettings:
    """NVML's statement of the machine's confidential-computing mode at the time of the report. It is not signed.

    Attributes:
        environment: one of ``ENVIRONMENTS``.
        cc_mode: confidential computing is on.
        dev_tools_mode: developer tools may look into the device.
        multi_gpu_mode: one of ``MULTI_GPU_MODES``.
        ready: the device accepts work; None if unknown.
        driver_version: of the driver that answered; None if unknown.
    """

    environment: str
    cc_mode: bool
    dev_tools_mode: bool
    multi_gpu_mode: str
    ready: bool | None = None
    driver_version: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ParsedGpuEvidence:
    """One device as presented: unverified.

    Attributes:
        chain: certificates as presented, leaf first; None for a raw report, whose chain lies among the endorsements.
        arch: the stated architecture in upper case (``HOPPER``); a hint that must agree with the certificates.
        uuid: the stated name of the device; a hint.
        stated_nonce: 32 bytes; a hint that must agree with the report.
    """

    report: ParsedGpuReport
    chain: tuple[Certificate, ...] | None = None
    arch: str | None = None
    settings: GpuSettings | None = None
    uuid: str | None = None
    stated_nonce: bytes | None = None


def parse_nvidia_report(data: bytes) -> ParsedGpuEvidence:
    """Read a raw report.

    Raises:
        EvidenceError: ``gpu-report-malformed``.
        UnsupportedError: ``gpu-opaque-unsupported``.
    """
    return ParsedGpuEvidence(report=parse_report(data))


def parse_nvidia_device(data: bytes) -> ParsedGpuEvidence:
    """Read the JSON object of one device: report and chain in base64, hints, and perhaps settings.

    Args:
        data: UTF-8, at most ``MAX_DEVICE_BYTES``.

    Raises:
        EvidenceError: ``json-invalid``, ``gpu-device-malformed`` (a member is missing, unknown, of another type or
            too long), ``base64-invalid``, ``hex-invalid`` or ``gpu-report-malformed``.
        UnsupportedError: ``gpu-opaque-unsupported``.
        ChainError: ``certificate-malformed``, the chain cannot be read.

    Spec: specs/nvidia-gpu.md, section 16.
    """
    if len(data) > MAX_DEVICE_BYTES:
        raise _malformed("device", f"at most {MAX_DEVICE_BYTES} bytes", f"{len(data)} bytes")
    device = _device(json_value(data, what="NVIDIA device"), "device")
    _closed(device, _MEMBERS, "device")
    for name in _HINTS:
        _optional_word(device, name, "device")
    arch = _optional_word(device, "arch", "device")
    nonce = _optional_word(device, "nonce", "device")
    # The report before its chain: what is malformed outranks what does not hold.
    return ParsedGpuEvidence(
        report=parse_report(base64_bytes(_text(device, "evidence", "device"), what="device.evidence")),
        arch=arch.upper() if arch is not None else None,
        settings=_settings(device["nvml"], "device.nvml") if "nvml" in device else None,
        uuid=_optional_word(device, "uuid", "device"),
        stated_nonce=hex_bytes(nonce, what="device.nonce", length=NONCE_BYTES) if nonce is not None else None,
        chain=_chain(base64_bytes(_text(device, "certificate", "device"), what="device.certificate")),
    )


NVIDIA_PARSERS: Mapping[str, Callable[[bytes], ParsedGpuEvidence]] = {
    MEDIA_NVIDIA_REPORT: parse_nvidia_report,
    MEDIA_NVIDIA_DEVICE: parse_nvidia_device,
}
"""Parsers of an item of evidence by its media type; any other type is not NVIDIA evidence."""


def device_json(
    report: bytes, chain_pem: bytes, arch: str, settings: GpuSettings | None = None, uuid: str | None = None
) -> bytes:
    """Write the object that ``parse_nvidia_device`` reads.

    The report is request and response as the device made them, the chain is PEM, leaf first, and ``arch`` is
    ``HOPPER``, ``BLACKWELL`` or ``LS10``.
    """
    device: dict[str, JsonValue] = {
        "arch": arch,
        "nonce": report[4 : 4 + NONCE_BYTES].hex(),
        "evidence": base64.b64encode(report).decode(),
        "certificate": base64.b64encode(chain_pem).decode(),
    }
    if uuid is not None:
        device["uuid"] = uuid
    if settings is not None:
        device["nvml"] = {name: value for name, value in asdict(settings).items() if value is not None}
    return _written(device)


# -- files that hold several devices


def is_nvidia_json(document: JsonValue) -> bool:
    """Return whether a document is NVIDIA's evidence by its members, well formed or not.

    That is: an array of devices, one device, the answer of ``nvattest collect-evidence``, or the list of Confidential
    Containers, whose reports are hex or base64. A device is recognised by two of ``arch``, ``evidence`` and
    ``certificate``.
    """
    if isinstance(document, list):
        return bool(document) and _looks_like_device(document[0])
    if not isinstance(document, dict):
        return False
    return "device_evidence_list" in document or "evidences" in document or _looks_like_device(document)


def split_nvidia_json(document: JsonValue) -> tuple[tuple[str, bytes], ...]:
    """Cut a file of NVIDIA's evidence, in any form of ``is_nvidia_json``, into one item for each device.

    Returns:
        ``gpu`` or ``nvswitch``, as the device's ``arch`` hints, and what ``parse_nvidia_device`` reads.

    Raises:
        EvidenceError: ``gpu-device-malformed``: no device, more than ``MAX_DEVICES``, or a device without evidence or
            certificate.
    """
    path, devices = _devices(document)
    if not isinstance(devices, list):
        raise _malformed(path, "array of devices", _noun(devices))
    if not 0 < len(devices) <= MAX_DEVICES:
        raise _malformed(path, f"1 to {MAX_DEVICES} devices", str(len(devices)))
    found = [_device(device, f"{path}[{number}]") for number, device in enumerate(devices)]
    if path == "device_evidence_list":
        found = [_of_confidential_containers(device, f"{path}[{number}]") for number, device in enumerate(found)]
    return tuple((_prefix(device), _written(device)) for device in found)


def _looks_like_device(value: JsonValue) -> bool:
    return isinstance(value, dict) and len({"arch", "evidence", "certificate"} & set(value)) >= 2


def _devices(document: JsonValue) -> tuple[str, JsonValue]:
    """Find the list of devices in the object around it, in which nothing else may be; return where it stands."""
    if not isinstance(document, dict):
        return "devices", document
    if "evidences" in document:
        _closed(document, _WRAPPER_MEMBERS, "document")
        code = document.get("result_code", 0)
        if isinstance(code, bool) or code != 0:
            raise _malformed("result_code", "0, the collection succeeded", json.dumps(code)[:40])
        return "evidences", document["evidences"]
    if "device_evidence_list" in document:
        _closed(document, frozenset({"device_evidence_list"}), "document")
        return "device_evidence_list", document["device_evidence_list"]
    return "devices", [document]


def _device(value: JsonValue, path: str) -> dict[str, JsonValue]:
    """Return the object of one device, which has at least a report and a chain."""
    if not isinstance(value, dict):
        raise _malformed(path, "object", _noun(value))
    for name in _REQUIRED:
        _text(value, name, path)
    return value


def _of_confidential_containers(device: dict[str, JsonValue], path: str) -> dict[str, JsonValue]:
    """Write a report in hex as base64; hex digits alone are no base64 of a report, which begins ``EeAB``."""
    evidence = _text(device, "evidence", path)
    if not _HEX.fullmatch(evidence):
        return device
    report = hex_bytes(evidence, what=f"{path}.evidence")
    return {**device, "evidence": base64.b64encode(report).decode()}


def _prefix(device: dict[str, JsonValue]) -> str:
    arch = device.get("arch")
    return "nvswitch" if isinstance(arch, str) and arch.upper() == _SWITCH_ARCH else "gpu"


# -- members


def _chain(pem: bytes) -> tuple[Certificate, ...]:
    """Read the chain: one that cannot be read is a broken chain, not malformed evidence."""
    try:
        blocks = pem_blocks(pem)
        whole = len(blocks) == pem.count(b"-----BEGIN ") and all(label == "CERTIFICATE" for label, _ in blocks)
        if not whole or not 0 < len(blocks) <= MAX_CHAIN_CERTIFICATES:
            raise _unreadable(f"expected 1 to {MAX_CHAIN_CERTIFICATES} certificates in PEM and no other block")
        return tuple(parse_certificate(der) for _, der in blocks)
    except EvidenceError as exc:
        raise _unreadable(exc.message) from exc


def _unreadable(problem: str) -> ChainError:
    return ChainError(
        f"the device's certificate chain cannot be read: {problem}",
        code="certificate-malformed",
        check="nvidia.chain",
        field="device.certificate",
        clause="nvidia-gpu.md 6.1",
    )


def _settings(value: JsonValue, path: str) -> GpuSettings:
    if not isinstance(value, dict):
        raise _malformed(path, "object", _noun(value))
    _closed(value, _NVML_MEMBERS, path)
    return GpuSettings(
        environment=_choice(value, "environment", path, ENVIRONMENTS),
        cc_mode=_flag(value, "cc_mode", path),
        dev_tools_mode=_flag(value, "dev_tools_mode", path),
        multi_gpu_mode=_choice(value, "multi_gpu_mode", path, MULTI_GPU_MODES),
        ready=_flag(value, "ready", path) if "ready" in value else None,
        driver_version=_optional_word(value, "driver_version", path),
    )


def _closed(members: dict[str, JsonValue], known: frozenset[str], path: str) -> None:
    unknown = sorted(set(members) - known)
    if unknown:
        raise _malformed(path, f"no member but {', '.join(sorted(known))}", repr(unknown[0][:40]))


def _text(members: dict[str, JsonValue], name: str, path: str) -> str:
    value = members.get(name)
    if not isinstance(value, str) or not value:
        got = "none" if name not in members else "empty text" if value == "" else _noun(value)
        raise _malformed(f"{path}.{name}", "text", got)
    return value


def _optional_word(members: dict[str, JsonValue], name: str, path: str) -> str | None:
    """Return a short text of printable ASCII, or None when there is no such member."""
    if name not in members:
        return None
    text = _text(members, name, path)
    if not _WORD.fullmatch(text):
        raise _malformed(f"{path}.{name}", "1 to 64 printable characters", f"{len(text)} characters")
    return text


def _choice(members: dict[str, JsonValue], name: str, path: str, choices: tuple[str, ...]) -> str:
    text = _text(members, name, path)
    if text not in choices:
        raise _malformed(f"{path}.{name}", f"one of {', '.join(choices)}", repr(text[:40]))
    return text


def _flag(members: dict[str, JsonValue], name: str, path: str) -> bool:
    value = members.get(name)
    if not isinstance(value, bool):
        raise _malformed(f"{path}.{name}", "boolean", "none" if name not in members else _noun(value))
    return value


def _noun(value: JsonValue) -> str:
    return _NOUNS.get(type(value), "null")


def _written(members: dict[str, JsonValue]) -> bytes:
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()


def _malformed(path: str, expected: str, got: str) -> EvidenceError:
    return EvidenceError(
        f"NVIDIA evidence: {path}: expected {expected}, got {got}",
        code="gpu-device-malformed",
        check=_CHECK,
        field=path,
        expected=expected,
        got=got,
        clause=_CLAUSE,
    )

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
from attest.evidence.json_form import JsonForm

MAX_DEVICE_BYTES = 64 * 1024
"""JSON of one device; NVML's buffers for report and chain have 13 KiB together, 18 KiB in base64."""
MAX_CHAIN_CERTIFICATES = 8
"""NVIDIA's chains have five."""
MAX_DEVICES = 32
"""Devices of one machine; the largest board has eight GPUs and four switches."""
NONCE_BYTES = 32

ENVIRONMENTS = ("unavailable", "simulation", "production")
MULTI_GPU_MODES = ("none", "protected-pcie", "nvle")

_REQUIRED = ("evidence", "certificate")
MEMBERS = frozenset({"arch", "nonce", "uuid", "nvml", *_REQUIRED})
"""Members of one device that have a meaning here. Others are ignored, whatever they are: in older files versions of
driver and VBIOS, which the report states itself."""
_NVML_MEMBERS = frozenset({"environment", "cc_mode", "dev_tools_mode", "multi_gpu_mode", "ready", "driver_version"})
_WORD = re.compile(r"[ -~]{1,64}")
FORM = JsonForm(
    code="gpu-device-malformed",
    clause="NVIDIA nvtrust, evidence as JSON",
    check="nvidia.format",
    of=" of NVIDIA's evidence",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuSettings:
    """NVML's statement of the machine's confidential-computing mode at the time of the report. It is not signed.

    Attributes:
        environment: one of ``ENVIRONMENTS``.
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
        uuid: the stated name of the device; a hint that no check rests on.
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
        EvidenceError: ``json-invalid``, ``gpu-device-malformed`` (a member is missing, of another type or too long),
            ``base64-invalid``, ``hex-invalid`` or ``gpu-report-malformed``.
        UnsupportedError: ``gpu-opaque-unsupported``.
        ChainError: ``certificate-malformed``, the chain cannot be read.

    Spec: specs/nvidia-gpu.md, section 16.
    """
    if len(data) > MAX_DEVICE_BYTES:
        raise FORM.malformed("device", f"at most {MAX_DEVICE_BYTES} bytes", f"{len(data)} bytes")
    device = device_of(json_value(data, what="NVIDIA device"), "device")
    hints: dict[str, JsonValue] = {name: value for name, value in device.items() if value is not None}
    arch, nonce = _optional_word(hints, "arch", "device"), _optional_word(hints, "nonce", "device")
    # The report before its chain: what is malformed outranks what does not hold.
    return ParsedGpuEvidence(
        report=parse_report(base64_bytes(_text(device, "evidence", "device"), what="device.evidence")),
        arch=arch.upper() if arch is not None else None,
        settings=_settings(device["nvml"], "device.nvml") if "nvml" in device else None,
        uuid=_uuid(device),
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
    return written(device)


def device_of(value: JsonValue, path: str) -> dict[str, JsonValue]:
    """Return the object of one device, which has at least a report and a chain, perhaps with members of no meaning.

    Raises:
        EvidenceError: ``gpu-device-malformed``.
    """
    device = FORM.object_of(value, path, members=None)
    for name in _REQUIRED:
        _text(device, name, path)
    return device


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
        clause="NVIDIA nvtrust, device certificates",
    )


def _settings(value: JsonValue, path: str) -> GpuSettings:
    members = FORM.object_of(value, path, members=_NVML_MEMBERS)
    return GpuSettings(
        environment=_choice(members, "environment", path, ENVIRONMENTS),
        cc_mode=FORM.flag_of(members.get("cc_mode"), f"{path}.cc_mode"),
        dev_tools_mode=FORM.flag_of(members.get("dev_tools_mode"), f"{path}.dev_tools_mode"),
        multi_gpu_mode=_choice(members, "multi_gpu_mode", path, MULTI_GPU_MODES),
        ready=FORM.flag_of(members["ready"], f"{path}.ready") if "ready" in members else None,
        driver_version=_optional_word(members, "driver_version", path),
    )


def _text(members: dict[str, JsonValue], name: str, path: str) -> str:
    text = FORM.text_of(members.get(name), f"{path}.{name}")
    if not text:
        raise FORM.malformed(f"{path}.{name}", "text", "empty text")
    return text


def _optional_word(members: dict[str, JsonValue], name: str, path: str) -> str | None:
    """Return a short text of printable ASCII, or None when there is no such member."""
    if name not in members:
        return None
    text = _text(members, name, path)
    if not _WORD.fullmatch(text):
        raise FORM.malformed(f"{path}.{name}", "1 to 64 printable characters", f"{len(text)} characters")
    return text


def _uuid(device: dict[str, JsonValue]) -> str | None:
    value = device.get("uuid")
    return value if isinstance(value, str) and _WORD.fullmatch(value) else None


def _choice(members: dict[str, JsonValue], name: str, path: str, choices: tuple[str, ...]) -> str:
    text = _text(members, name, path)
    if text not in choices:
        raise FORM.malformed(f"{path}.{name}", f"one of {', '.join(choices)}", repr(text[:40]))
    return text


def written(members: dict[str, JsonValue]) -> bytes:
    """Write the object of one device: members in the order of their names, no white space."""
    return json.dumps(members, sort_keys=True, separators=(",", ":")).encode()

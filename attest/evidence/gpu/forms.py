"""JSON files that hold several of NVIDIA's devices, cut into one item for each.

The forms differ in the object around the list of devices::

    [device, …]                                           NVIDIA's SDK, Chutes, RedPill
    {"evidences": [device, …], "result_code": 0, …}       nvattest collect-evidence; Tinfoil without result
    {"evidence_list": [device, …], "nonce", "arch", …}    request to NRAS, the remote attestation service of NVIDIA
    {"nvidia_payload": "…"}                               one of the others as text, as services pass it on
    {"device_evidence_list": [device, …]}                 Confidential Containers
    {"__cmwc_t": "tag:nvidia.com,…", "gpu_0": …}          nvattest collect-evidence-v2, see ``collection.py``
    device                                                one device alone

Members that have no meaning here are ignored: nothing rests on them.

Spec: specs/nvidia-gpu.md, sections 16 and 18.
"""

from __future__ import annotations

import json
import re
from base64 import b64encode

from attest.encoding import JsonValue, base64_bytes, hex_bytes, json_value
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, EvidenceItem
from attest.evidence.gpu.collection import collected_devices, collected_nonce, is_nvidia_collection
from attest.evidence.gpu.evidence import FORM, MAX_DEVICES, MEMBERS, device_of, written

_LISTS = ("evidences", "evidence_list", "device_evidence_list")
"""Names of the list of devices in the object around it."""
_PAYLOAD = "nvidia_payload"
_REQUEST_HINTS = ("nonce", "arch")
"""Members of a request to NRAS that hold for each of its devices."""
_SWITCH_ARCH = "LS10"
_HEX = re.compile(rb"[0-9a-fA-F]+")


def is_nvidia_json(document: JsonValue) -> bool:
    """Return whether a document is NVIDIA's evidence by its members, well formed or not.

    A device is recognised by two of ``arch``, ``evidence`` and ``certificate``; a file of several by the name of their
    list, or by the type of the collection; text in another document only if it is the only member.
    """
    if isinstance(document, list):
        return bool(document) and _looks_like_device(document[0])
    if not isinstance(document, dict):
        return False
    return (
        set(document) == {_PAYLOAD}
        or any(name in document for name in _LISTS)
        or is_nvidia_collection(document)
        or _looks_like_device(document)
    )


def split_nvidia_text(text: str, *, what: str) -> tuple[tuple[str, bytes], ...]:
    """Cut NVIDIA's evidence that another document holds as text (``nvidia_payload``).

    Args:
        text: JSON in any form of ``is_nvidia_json``.
        what: its path in the other document, for errors.

    Returns:
        As ``split_nvidia_json``.

    Raises:
        EvidenceError: as ``split_nvidia_json``, or ``json-invalid``.
        UnsupportedError: as ``split_nvidia_json``.
    """
    return split_nvidia_json(json_value(text.encode(), what=what))


def split_nvidia_json(document: JsonValue) -> tuple[tuple[str, bytes], ...]:
    """Cut a file of NVIDIA's evidence, in any form of ``is_nvidia_json``, into one item for each device.

    Reports may be in base64, in hex, or in base64 of hex. A nonce or architecture of the whole request becomes the
    device's own, and stays a hint.

    Returns:
        ``gpu`` or ``nvswitch``, as the device's ``arch`` hints, and what ``parse_nvidia_device`` reads.

    Raises:
        EvidenceError: ``gpu-device-malformed``: no device, more than ``MAX_DEVICES``, a device without evidence or
            certificate, or one that contradicts the request around it; ``base64-invalid`` or ``hex-invalid``, a
            report; ``json-invalid``, text that is no JSON.
        UnsupportedError: ``evidence-unsupported``, a collection of evidence that is no report.
    """
    if isinstance(document, dict) and set(document) == {_PAYLOAD}:
        return split_nvidia_text(FORM.text_of(document[_PAYLOAD], _PAYLOAD), what=_PAYLOAD)
    if isinstance(document, dict) and is_nvidia_collection(document):
        request: dict[str, JsonValue] = {"nonce": collected_nonce(document, "collection")}
        named = collected_devices(document)
        _require_number("collection", len(named))
        return tuple(_item(device, repr(label[:40]), request) for label, device in named.items())
    path, devices = _devices(document)
    if not isinstance(devices, list):
        raise FORM.mistyped(path, "an array of devices", devices)
    _require_number(path, len(devices))
    request = document if path == "evidence_list" and isinstance(document, dict) else {}
    return tuple(_item(device, f"{path}[{number}]", request) for number, device in enumerate(devices))


def nvidia_items(*documents: JsonValue) -> tuple[EvidenceItem, ...]:
    """Return an item for each device of these documents, numbered among its like; null has none.

    Raises:
        EvidenceError: as ``split_nvidia_json``.
        UnsupportedError: as ``split_nvidia_json``.
    """
    items: list[EvidenceItem] = []
    for document in documents:
        for prefix, value in () if document is None else split_nvidia_json(document):
            number = sum(item.name.startswith(prefix) for item in items)
            items.append(EvidenceItem(name=f"{prefix}{number}", media_type=MEDIA_NVIDIA_DEVICE, value=value))
    return tuple(items)


def _require_number(path: str, count: int) -> None:
    if not 0 < count <= MAX_DEVICES:
        raise FORM.malformed(path, f"1 to {MAX_DEVICES} devices", str(count))


def _looks_like_device(value: JsonValue) -> bool:
    return isinstance(value, dict) and len({"arch", "evidence", "certificate"} & set(value)) >= 2


def _devices(document: JsonValue) -> tuple[str, JsonValue]:
    """Find the list of devices in the object around it; return where it stands."""
    if not isinstance(document, dict):
        return "devices", document
    found = [name for name in _LISTS if name in document]
    if len(found) > 1:
        raise FORM.malformed("document", "one list of devices", " and ".join(found))
    code = document.get("result_code", 0) if found == ["evidences"] else 0
    if isinstance(code, bool) or code != 0:
        raise FORM.malformed("result_code", "0, the collection succeeded", json.dumps(code)[:40])
    return (found[0], document[found[0]]) if found else ("devices", [document])


def _item(value: JsonValue, path: str, request: dict[str, JsonValue]) -> tuple[str, bytes]:
    """Return one device as an item, without the members that have no meaning."""
    device = device_of(value, path)
    kept = {name: member for name, member in device.items() if name in MEMBERS}
    hints = {name: _hint(request, device, name, path) for name in _REQUEST_HINTS}
    kept |= {name: hint for name, hint in hints.items() if hint is not None}
    kept["evidence"] = b64encode(_report(device, path)).decode()
    return _prefix(kept), written(kept)


def _hint(request: dict[str, JsonValue], device: dict[str, JsonValue], name: str, path: str) -> JsonValue:
    """Return the device's own hint or that of the request around it; where there are both, they must agree."""
    whole, own = request.get(name), device.get(name)
    if whole is None or own is None:
        return whole if own is None else own
    wanted, found = FORM.text_of(whole, name), FORM.text_of(own, f"{path}.{name}")
    if wanted.lower() != found.lower():
        raise FORM.malformed(f"{path}.{name}", f"{wanted[:64]!r} as in the request", repr(found[:64]))
    return own


def _report(device: dict[str, JsonValue], path: str) -> bytes:
    """Decode a report. Hex digits alone are no base64 of a report, and no report begins with one."""
    where = f"{path}.evidence"
    text = FORM.text_of(device["evidence"], where)
    data = text.encode()
    if not _HEX.fullmatch(data):
        data = base64_bytes(data, what=where)
    return hex_bytes(data.decode("ascii"), what=where) if _HEX.fullmatch(data) else data


def _prefix(device: dict[str, JsonValue]) -> str:
    arch = device.get("arch")
    return "nvswitch" if isinstance(arch, str) and arch.upper() == _SWITCH_ARCH else "gpu"

"""Collections in which newer releases of NVIDIA's SDK write evidence (``nvattest collect-evidence-v2``).

::

    {"__cmwc_t": "tag:nvidia.com,2026:verifier-input/profiles/base/pre-1.0.0",
     "nonce": ["application/octet-stream", base64url],
     "gpu_0": {"__cmwc_t": "tag:nvidia.com,2026:evidence-item/v1",
               "evidence": ["application/vnd.nvidia.spdm-measurement-transcript", base64url],
               "certificate": ["application/vnd.nvidia.pem-cert-chain", base64url],
               "nonce": […]}}

Such a file has the outer form of an envelope (RFC 9999), and none of its items is one of an envelope.

Spec: NVIDIA's attestation SDK of 2026, which calls the form experimental; specs/nvidia-gpu.md, section 16.
"""

from __future__ import annotations

from base64 import b64encode

from attest.encoding import JsonValue, base64url_bytes
from attest.errors import UnsupportedError
from attest.evidence.gpu.evidence import FORM

_TYPE = "__cmwc_t"
_INPUT_TYPE = "tag:nvidia.com,2026:verifier-input/"
_ITEM_TYPE = "tag:nvidia.com,2026:evidence-item/v1"
_TRANSCRIPT = "application/vnd.nvidia.spdm-measurement-transcript"
_PEM_CHAIN = "application/vnd.nvidia.pem-cert-chain"
_OCTETS = "application/octet-stream"
_NO_DEVICES = frozenset({_TYPE, "nonce", "appraisal-settings"})
"""Members of the collection beside its devices. Settings of appraisal are the Verifier's, never the evidence's."""


def is_nvidia_collection(document: JsonValue) -> bool:
    """Return whether a document is such a collection by its type, well formed or not."""
    stated = document.get(_TYPE) if isinstance(document, dict) else None
    return isinstance(stated, str) and stated.startswith(_INPUT_TYPE)


def collected_devices(collection: dict[str, JsonValue]) -> dict[str, JsonValue]:
    """Return the objects of all devices by their labels, in order of these, as other forms have them.

    Raises:
        EvidenceError: ``gpu-device-malformed`` or ``base64-invalid``.
        UnsupportedError: ``evidence-unsupported``, evidence that is no report.
    """
    labels = sorted(set(collection) - _NO_DEVICES)
    return {label: _device(collection[label], repr(label[:40])) for label in labels}


def collected_nonce(holder: dict[str, JsonValue], path: str) -> JsonValue:
    """Return the nonce that a collection or an item states, in hex; None if it states none."""
    if "nonce" not in holder:
        return None
    return _record(holder["nonce"], _OCTETS, f"{path}.nonce").hex()


def _device(value: JsonValue, path: str) -> JsonValue:
    item = FORM.object_of(value, path, members=None)
    if item.get(_TYPE) != _ITEM_TYPE:
        raise FORM.malformed(f"{path}.{_TYPE}", _ITEM_TYPE, "another type")
    return {
        "evidence": b64encode(_record(item.get("evidence"), _TRANSCRIPT, f"{path}.evidence")).decode(),
        "certificate": b64encode(_record(item.get("certificate"), _PEM_CHAIN, f"{path}.certificate")).decode(),
        "nonce": collected_nonce(item, path),
    }


def _record(value: JsonValue, media_type: str, path: str) -> bytes:
    """Decode ``[media type, base64url]``."""
    parts = FORM.array_of(value, path, most=2)
    if len(parts) != 2:
        raise FORM.malformed(path, "a media type and a value", f"{len(parts)} values")
    stated, text = FORM.text_of(parts[0], f"{path}[0]"), FORM.text_of(parts[1], f"{path}[1]")
    if stated != media_type:
        raise UnsupportedError(
            f"{path} is {stated[:80]!r}, which is not understood and therefore refused",
            code="evidence-unsupported",
            field=path,
            expected=media_type,
            got=stated[:80],
            clause="NVIDIA nvtrust, evidence as JSON",
            hint="reports of Hopper, Blackwell and LS10 are read; this may be of a newer device",
        )
    return base64url_bytes(text, what=path)

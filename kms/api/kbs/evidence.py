"""Evidence of a guest, in the forms of Trustee's attesters, as one ``Evidence``.

Spec: specs/kbs-protocol.md, section 10.
"""

from __future__ import annotations

import json
from typing import Final

from attest import Evidence, EvidenceItem, read_evidence
from attest.encoding import JsonValue
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence import MEDIA_SAMPLE_DEVICE
from kms.api.kbs.messages import Attestation

_FORMS: Final = {
    "snp": "coco-json",
    "tdx": "coco-json",
    "sgx": "coco-json",
    "az-snp-vtpm": "azure-json",
    "az-tdx-vtpm": "azure-json",
    "sample": "coco-json",
}
"""TEEs whose evidence is verified here, and the form in which their attesters write it."""
KINDS: Final = {
    "snp": "sev-snp",
    "tdx": "tdx",
    "sgx": "sgx",
    "az-snp-vtpm": "azure-snp",
    "az-tdx-vtpm": "azure-tdx",
    "sample": "sample",
}
"""Kinds of verified evidence by the protocol's name of the TEE."""
_SAMPLE_DEVICE: Final = "sampledevice"
_NVIDIA: Final = "nvidia"


def evidence_of(attestation: Attestation, *, tee: str) -> Evidence:
    """Return the evidence of the CPU and of all devices.

    Raises:
        EvidenceError: an item is malformed, or not in the form of this TEE.
        UnsupportedError: ``kbs-tee-unsupported``: this version has no verifier for the TEE or for a device.
    """
    form = _FORMS.get(tee)
    if form is None:
        raise _unsupported(tee, _FORMS)
    files = [("primary_evidence", _bytes(attestation.primary))]
    samples: list[EvidenceItem] = []
    for name, document in attestation.devices.items():
        if name == _NVIDIA:
            files.append((name, _bytes(document)))
        elif name == _SAMPLE_DEVICE:
            item = EvidenceItem(name=name, media_type=MEDIA_SAMPLE_DEVICE, value=_bytes(document))
            samples.append(item)
        else:
            raise _unsupported(name, (_NVIDIA, _SAMPLE_DEVICE))
    read = read_evidence(files, form=form).evidence
    return Evidence(items=(*read.items, *samples), presented=read.presented)


def _bytes(document: JsonValue) -> bytes:
    if not isinstance(document, dict):
        raise EvidenceError(
            "evidence of a guest is an object",
            code="kbs-request-malformed",
            field="tee-evidence",
            expected="an object",
            got=type(document).__name__,
            clause="docs/kbs.md",
        )
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()


def _unsupported(name: str, known: object) -> UnsupportedError:
    names = ", ".join(known) if isinstance(known, dict | tuple) else ""
    return UnsupportedError(
        f"this service does not verify evidence of {name[:40]!r}",
        code="kbs-tee-unsupported",
        field="tee",
        expected=f"one of {names}",
        got=name[:40],
        clause="docs/kbs.md",
    )

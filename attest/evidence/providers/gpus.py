"""GPUs and switches of a machine as items of its evidence."""

from __future__ import annotations

from attest.encoding import JsonValue
from attest.evidence.envelope import MEDIA_NVIDIA_DEVICE, EvidenceItem
from attest.evidence.gpu.forms import split_nvidia_json


def gpu_items(*documents: JsonValue) -> tuple[EvidenceItem, ...]:
    """Return an item for each device of NVIDIA's forms, numbered among its like; null has none.

    Raises:
        EvidenceError: ``gpu-device-malformed``.
    """
    items: list[EvidenceItem] = []
    for document in documents:
        for prefix, value in () if document is None else split_nvidia_json(document):
            number = sum(item.name.startswith(prefix) for item in items)
            items.append(EvidenceItem(name=f"{prefix}{number}", media_type=MEDIA_NVIDIA_DEVICE, value=value))
    return tuple(items)

"""Conversions between other people's policies and ours, each with the demands that it could not carry.

``convert_skr`` and ``convert_nvidia`` make a policy of ours, ``export_skr`` a release policy of Azure's. Nothing is
dropped in silence: see ``attest.policy.foreign.conversion``.
"""

from __future__ import annotations

from typing import Literal

from attest.encoding import JsonValue, json_value
from attest.errors import EvidenceError
from attest.policy.foreign.conversion import Carried, Conversion, Loss
from attest.policy.foreign.convert_nvidia import convert_nvidia
from attest.policy.foreign.convert_skr import convert_skr
from attest.policy.foreign.export_skr import export_skr

__all__ = ["Carried", "Conversion", "Language", "Loss", "convert_nvidia", "convert_skr", "export_skr", "recognised"]

Language = Literal["skr", "nvidia", "attest"]


def recognised(data: bytes) -> Language:
    """Return the language of a policy, by its top-level members; our own loader refuses an unknown one."""
    try:
        document: JsonValue = json_value(data, what="policy")
    except EvidenceError:
        return "attest"  # YAML, or nothing
    if isinstance(document, dict) and "schema" not in document:
        if "authorization-rules" in document:
            return "nvidia"
        if "anyOf" in document or "allOf" in document:
            return "skr"
    return "attest"

"""The service proves itself: evidence of the machine that it runs on, for whoever asks with a nonce (MC-30)."""

from __future__ import annotations

from kms.proving.desk import AttestationDesk
from kms.proving.sources import EvidenceSource, open_source

__all__ = ["AttestationDesk", "EvidenceSource", "open_source"]

"""The service proves itself: evidence of the machine that it runs on, for whoever asks with a nonce (MC-30)."""

from __future__ import annotations

from kms.running.self_evidence.service import SelfEvidenceService
from kms.running.self_evidence.sources import EvidenceSource, open_source

__all__ = ["EvidenceSource", "SelfEvidenceService", "open_source"]

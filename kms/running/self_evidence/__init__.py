"""Evidence of the service's own machine, for any client that sends a nonce (MC-30)."""

from __future__ import annotations

from kms.running.self_evidence.service import SelfEvidenceService, open_attestation
from kms.running.self_evidence.sources import EvidenceSource, open_source

__all__ = ["EvidenceSource", "SelfEvidenceService", "open_attestation", "open_source"]

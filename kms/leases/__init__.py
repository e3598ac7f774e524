"""Leases: who holds which key until when, and what proved itself for it."""

from __future__ import annotations

from kms.domain.lease_grants import LeaseIssuer
from kms.domain.leases import Attester, Lease, LeaseEnd, LeaseState, LeaseStop

__all__ = ["Attester", "Lease", "LeaseEnd", "LeaseIssuer", "LeaseState", "LeaseStop"]

"""The tables as SQLAlchemy knows them. The migrations make them; a test compares the two."""

from __future__ import annotations

from typing import Final

from kms.store.schema.administration import (
    approvals,
    break_glass,
    break_glass_ends,
    freezes,
    grants,
    proposal_ends,
    proposals,
    quorum_documents,
)
from kms.store.schema.base import APPEND_ONLY, metadata
from kms.store.schema.keys import key_limits, key_schedules, key_tags, key_versions, keys, prompt_keys, tenants
from kms.store.schema.leases import lease_claims, lease_ends, lease_stops, leases
from kms.store.schema.log import log_entries, log_nodes
from kms.store.schema.policies import policies, reference_documents, reference_signatures
from kms.store.schema.service import keks, meta, secrets, used_nonces

__all__ = [
    "PROTECTED",
    "REVISIONS",
    "approvals",
    "break_glass",
    "break_glass_ends",
    "freezes",
    "grants",
    "keks",
    "key_limits",
    "key_schedules",
    "key_tags",
    "key_versions",
    "keys",
    "lease_claims",
    "lease_ends",
    "lease_stops",
    "leases",
    "log_entries",
    "log_nodes",
    "meta",
    "metadata",
    "policies",
    "prompt_keys",
    "proposal_ends",
    "proposals",
    "quorum_documents",
    "reference_documents",
    "reference_signatures",
    "secrets",
    "tenants",
    "used_nonces",
]

REVISIONS: Final = (
    "0001",
    "0002",
    "0003",
    "0012",
    "0005",
    "0009",
    "0007",
    "0004",
    "0010",
    "0011",
    "0006",
    "0008",
    "0014",
    "0015",
)
"""Every schema that this version knows, oldest first; the last one is what it works with."""

PROTECTED: Final = tuple(table.name for table in metadata.sorted_tables if table.info == APPEND_ONLY)
"""Tables whose rows are never changed and never removed."""

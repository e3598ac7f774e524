"""Grants, freezes, people with their proposals, and relaxations."""

from __future__ import annotations

from sqlalchemy import BigInteger, Column, ForeignKey, ForeignKeyConstraint, Index, Integer, LargeBinary, String, Table

from kms.store.schema.base import APPEND_ONLY, metadata, name_of

__all__ = [
    "approvals",
    "break_glass",
    "break_glass_ends",
    "freezes",
    "grants",
    "proposal_ends",
    "proposals",
    "quorum_documents",
]

grants = Table(
    "grants",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("means", String(16), nullable=False),
    Column("name", name_of(512), nullable=False),
    Column("tenant", name_of(64), nullable=False),
    Column("role", String(32), nullable=False),
    Column("granted_by_means", String(16), nullable=False),
    Column("granted_by", name_of(512), nullable=False),
    Column("granted_at", String(40), nullable=False),
    Column("revoked_by_means", String(16)),
    Column("revoked_by", name_of(512)),
    Column("revoked_at", String(40)),
    Index("grants_identity", "means", "name"),
)
"""Roles of identities in tenants, see ``kms/auth/``. ``kms fsck`` compares them with the log, which says the same."""

freezes = Table(
    "freezes",
    metadata,
    Column("scope", name_of(16), primary_key=True),
    Column("name", name_of(256), primary_key=True),
    Column("reason", String(1000), nullable=False),
    Column("actor", String(1024), nullable=False),
    Column("means", String(16), nullable=False),
    Column("frozen_at", String(40), nullable=False),
)
"""The freezes in force, see ``kms/domain/freezes.py``; those that ended are in the log."""

quorum_documents = Table(
    "quorum_documents",
    metadata,
    Column("version", Integer, primary_key=True, autoincrement=False),
    Column("document", LargeBinary, nullable=False),
    Column("set_at", String(40), nullable=False),
    info=APPEND_ONLY,
)
"""Named people and rules, see ``kms/domain/people.py``; the highest version is in force. Triggers refuse changes."""

proposals = Table(
    "proposals",
    metadata,
    Column("digest", name_of(64), primary_key=True),
    Column("serial", Integer, nullable=False, unique=True),
    Column("document", LargeBinary, nullable=False),
    info=APPEND_ONLY,
)
"""Proposals by the SHA-256 of their document, hex; never changed."""

approvals = Table(
    "approvals",
    metadata,
    Column("digest", name_of(64), ForeignKey("proposals.digest"), primary_key=True),
    Column("key_id", name_of(64), primary_key=True),
    Column("person", name_of(64), nullable=False),
    Column("signature", LargeBinary, nullable=False),
    Column("added_at", String(40), nullable=False),
    info=APPEND_ONLY,
)
"""Signatures over them; verified whenever they count. Never changed."""

proposal_ends = Table(
    "proposal_ends",
    metadata,
    Column("digest", name_of(64), ForeignKey("proposals.digest"), primary_key=True),
    Column("outcome", String(16), nullable=False),
    Column("ended_at", String(40), nullable=False),
    info=APPEND_ONLY,
)
"""How proposals ended: each at most once. Never changed."""

break_glass = Table(
    "break_glass",
    metadata,
    Column("number", Integer, primary_key=True, autoincrement=False),
    Column("tenant", name_of(64), nullable=False),
    Column("key_id", name_of(128), nullable=False),
    Column("lifts_scope", name_of(16)),
    Column("lifts_name", name_of(256)),
    Column("policy_digest", LargeBinary, ForeignKey("policies.digest")),
    Column("reason", String(1000), nullable=False),
    Column("opened_at", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("kek_id", LargeBinary, nullable=False),
    Column("seal", LargeBinary, nullable=False),
    ForeignKeyConstraint(["tenant", "key_id"], ["keys.tenant", "keys.key_id"]),
    Index("break_glass_until", "until"),
    info=APPEND_ONLY,
)
"""Named relaxations, see ``kms/domain/break_glass.py``; milliseconds since 1970, UTC. Triggers refuse changes."""

break_glass_ends = Table(
    "break_glass_ends",
    metadata,
    Column("number", Integer, ForeignKey("break_glass.number"), primary_key=True, autoincrement=False),
    Column("closed_at", BigInteger, nullable=False),
    info=APPEND_ONLY,
)
"""Those that were closed early. Triggers refuse changes."""

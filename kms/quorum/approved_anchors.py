"""Under a rule for ``anchors`` a service starts with the trust anchors that were approved, and with no others."""

from __future__ import annotations

from typing import Final

from attest.errors import ConfigurationError
from kms.domain.people import ChangeKind
from kms.store import ReadTransaction

APPROVED_ANCHORS: Final = "approved_anchors"
"""Fact: SHA-256 of the approved set, 32 bytes, as ``kms.config.configuration`` computes it."""


def require_approved(tx: ReadTransaction, digest: bytes) -> None:
    """Refuse trust anchors that nobody approved, where that is demanded.

    Raises:
        ConfigurationError: ``anchors-not-approved``.
    """
    approved = tx.facts.find(APPROVED_ANCHORS)
    if tx.quorum.current().rule(ChangeKind.ANCHORS) is None or approved == digest:
        return
    raise ConfigurationError(
        "the trust anchors of these settings are not those that were approved",
        code="anchors-not-approved",
        field="anchors_file",
        expected="none was approved" if approved is None else approved.hex(),
        got=digest.hex(),
        hint="'kms anchors show' shows both; 'kms anchors approve --propose --reason TEXT' proposes these",
    )

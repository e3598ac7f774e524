"""Approval of trust anchors, as a change that the rule for ``anchors`` governs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from kms.domain.anchors import anchors_digest
from kms.domain.people import ChangeKind
from kms.quorum.change_context import Changing, ProposedChange
from kms.store import ReadTransaction

ANCHORS_APPROVED: Final = "anchors-approved"
APPROVED_ANCHORS: Final = "approved_anchors"
"""Fact: SHA-256 of the approved set, 32 bytes, as ``kms.config.configuration`` computes it."""


def require_approved(tx: ReadTransaction, digest: bytes) -> None:
    """Refuse unapproved trust anchors if there is a rule for ``anchors``.

    Raises:
        ConfigurationError: ``anchors-not-approved``.
    """
    approved = tx.facts.find(APPROVED_ANCHORS)
    if tx.quorum.current().rule(ChangeKind.ANCHORS) is None or approved == digest:
        return
    raise ConfigurationError(
        "the trust anchors of these settings are not approved",
        code="anchors-not-approved",
        field="anchors_file",
        expected="none was approved" if approved is None else approved.hex(),
        got=digest.hex(),
        hint="show both with 'kms anchors show'; propose these with 'kms anchors approve --propose --reason TEXT'",
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorsApprove(ProposedChange):
    """Approval of the roots with which services may start.

    ``lines`` has a root each, as ``kms.config.configuration`` writes them; sorted.
    """

    lines: tuple[str, ...]

    kind = ChangeKind.ANCHORS
    action = "anchors-approve"

    @property
    def digest(self) -> bytes:
        """SHA-256 of the lines, 32 bytes, as of ``kms.config.configuration.Configuration.anchors_digest``."""
        return anchors_digest(self.lines)

    def arguments(self) -> dict[str, JsonValue]:
        """Return every root."""
        return {"anchors": list(self.lines), "sha256": self.digest.hex()}

    def state(self, tx: ReadTransaction) -> dict[str, JsonValue]:
        """Build on the previously approved set."""
        before = tx.facts.find(APPROVED_ANCHORS)
        return {"approved_sha256": None if before is None else before.hex()}

    def apply(self, changing: Changing) -> str:
        """Approve them."""
        before = self.state(changing.tx)
        changing.tx.facts.put(APPROVED_ANCHORS, self.digest)
        changing.log(ANCHORS_APPROVED, {**self.arguments(), **before})
        return f"{len(self.lines)} trust anchors are approved ({self.digest.hex()})"

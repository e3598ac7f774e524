"""Other trust anchors, as a change that the rule for ``anchors`` governs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from attest.encoding import JsonValue
from kms.domain.anchors import anchors_digest
from kms.domain.people import ChangeKind, Quorum, QuorumRule
from kms.keys.vault import Vault
from kms.quorum.approved_anchors import APPROVED_ANCHORS
from kms.quorum.change_context import NOTHING_PREPARED, Changing, Prepared
from kms.store import ReadTransaction

ANCHORS_APPROVED: Final = "anchors-approved"


@dataclass(frozen=True, slots=True, kw_only=True)
class AnchorsApprove:
    """The roots with which services may start.

    Attributes:
        lines: a root each, as ``kms.config.configuration`` writes them; sorted.
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
        """Build on what was approved before."""
        before = tx.facts.find(APPROVED_ANCHORS)
        return {"approved_sha256": None if before is None else before.hex()}

    def demanded(self, quorum: Quorum, *, alone: bool) -> tuple[QuorumRule, ...]:
        """Take the rule, if there is one."""
        del alone
        return quorum.demanded(self.kind)

    def prepare(self, vault: Vault) -> Prepared:
        """Prepare nothing."""
        del vault
        return NOTHING_PREPARED

    def apply(self, changing: Changing) -> str:
        """Approve them."""
        before = self.state(changing.tx)
        changing.tx.facts.put(APPROVED_ANCHORS, self.digest)
        changing.log(ANCHORS_APPROVED, {**self.arguments(), **before})
        return f"{len(self.lines)} trust anchors are approved ({self.digest.hex()})"

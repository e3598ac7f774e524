"""Continuity of a service: the signing key is the one in the first entry of the log.

A restored database proves continuity by this key, which clients have pinned, and by its log, which contains the states
noted elsewhere (MC-27, MC-36).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from attest.errors import ConfigurationError
from attest.release import VerifierKey
from kms.domain.errors import IntegrityError, LogBrokenError
from kms.domain.log_verification import LogState, read_noted
from kms.store import ReadTransaction

MAX_REASON_CHARACTERS: Final = 1000
RESTORED_AT: Final = "restored_at"
"""Fact of a restored or accepted database: earlier challenges are refused, used or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRollback:
    """The consent to restore a log older than a noted state, with a reason of 1 to 1000 characters for the log.

    ``field`` is the option with the reason, for messages.
    """

    reason: str
    field: str = "--accept-rollback"

    def __post_init__(self) -> None:
        """Require a reason.

        Raises:
            ConfigurationError: ``rollback-reason-invalid``.
        """
        if not 0 < len(self.reason.strip()) <= MAX_REASON_CHARACTERS or not self.reason.isprintable():
            raise ConfigurationError(
                "accepting a rollback requires a reason",
                code="rollback-reason-invalid",
                field=self.field,
                expected=f"1 to {MAX_REASON_CHARACTERS} printable characters",
                got=f"{len(self.reason)} characters",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedElsewhere:
    """States of a log that were noted outside of its database.

    Attributes:
        noted: states, and hashes of entries.
        checkpoints: signed states, as files; the service itself must have signed them.
        accepted: permits states that are newer than the log; None permits none.
    """

    noted: Sequence[LogState | bytes] = ()
    checkpoints: Sequence[bytes] = ()
    accepted: AcceptedRollback | None = None

    def weighed(self, tx: ReadTransaction) -> tuple[tuple[LogState | bytes, ...], tuple[LogState, ...]]:
        """Return the states that this log must contain, and the newer ones that may be missing.

        Raises:
            SignatureError: ``note-signature-invalid``: a checkpoint that this service did not sign.
            EvidenceError: ``checkpoint-invalid``.
            VerificationError: ``checkpoint-origin-mismatch``.
            LogBrokenError: ``log-rolled-back``.
            IntegrityError: ``identity-mismatch``: the log does not name its service.
        """
        states = [read_noted(content, log=logged_identity(tx)) for content in self.checkpoints]
        every = (*self.noted, *states)
        size = tx.log.size()
        newer = tuple(one for one in every if isinstance(one, LogState) and one.size > size)
        if newer and self.accepted is None:
            most = max(one.size for one in newer)
            raise LogBrokenError(
                f"the log once had {most} entries, and here it has {size}",
                code="log-rolled-back",
                expected=f"{most} entries",
                got=f"{size} entries",
                hint="find a newer backup; if there is none, restore this one with --accept-rollback REASON, which "
                "undoes later disables and revocations",
            )
        return tuple(one for one in every if one not in newer), newer


def logged_identity(tx: ReadTransaction) -> VerifierKey:
    """Return the identity in the first entry of the log.

    Raises:
        IntegrityError: ``identity-mismatch``: there is none.
    """
    first = next(iter(tx.log.entries(limit=1)), None)
    text = None if first is None or first.seq != 1 else first.document().get("identity")
    try:
        return VerifierKey.parse(text if isinstance(text, str) else "")
    except ConfigurationError as exc:
        raise _other("its first entry has no identity", expected="a verifier key", got=str(text)[:200]) from exc


def require_continuity(tx: ReadTransaction, public: VerifierKey) -> None:
    """Check that the signing key is the one in the first entry of the log.

    Raises:
        IntegrityError: ``identity-mismatch``.
    """
    logged = logged_identity(tx)
    if logged != public:
        raise _other("its signing key is different", expected=logged.text, got=public.text)


def _other(problem: str, *, expected: str, got: str) -> IntegrityError:
    return IntegrityError(
        f"the service does not match the first entry of its log: {problem}",
        code="identity-mismatch",
        field="identity",
        expected=expected,
        got=got,
        hint="the key or the log in the database was replaced; restore the database from a backup",
    )

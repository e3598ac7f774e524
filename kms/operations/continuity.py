"""Continuity of a service: the signing key is the one that the log's first entry names.

A database that was restored proves continuity by this and by its log: the key is the one that clients pinned, and the
log passes through what was noted of it elsewhere (MC-27, MC-36).
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
"""Fact of a database that was made from a backup, or accepted: challenges from before are refused, used or not."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AcceptedRollback:
    """The consent to restore less than was noted, with a reason of 1 to 1000 printable characters for the log.

    ``field`` is the option with the reason, for messages.
    """

    reason: str
    field: str = "--accept-rollback"

    def __post_init__(self) -> None:
        """Refuse silence.

        Raises:
            ConfigurationError: ``rollback-reason-invalid``.
        """
        if not 0 < len(self.reason.strip()) <= MAX_REASON_CHARACTERS or not self.reason.isprintable():
            raise ConfigurationError(
                "a rollback is accepted for a reason, or not at all",
                code="rollback-reason-invalid",
                field=self.field,
                expected=f"1 to {MAX_REASON_CHARACTERS} printable characters",
                got=f"{len(self.reason)} characters",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedElsewhere:
    """States of a log that were kept apart from its database.

    Attributes:
        noted: states, and hashes of entries.
        checkpoints: signed states, as files; the service itself must have signed them.
        accepted: lets states pass that are newer than the log; None lets none.
    """

    noted: Sequence[LogState | bytes] = ()
    checkpoints: Sequence[bytes] = ()
    accepted: AcceptedRollback | None = None

    def weighed(self, tx: ReadTransaction) -> tuple[tuple[LogState | bytes, ...], tuple[LogState, ...]]:
        """Return the states that this log has to hold, and the newer ones that it is accepted to lack.

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
                f"the log had {most} entries once, and here it has {size}",
                code="log-rolled-back",
                expected=f"{most} entries",
                got=f"{size} entries",
                hint="look for a newer backup; where there is none, --accept-rollback REASON restores this one, and "
                "what was disabled or revoked since is revived",
            )
        return tuple(one for one in every if one not in newer), newer


def logged_identity(tx: ReadTransaction) -> VerifierKey:
    """Return the identity that the first entry of the log names.

    Raises:
        IntegrityError: ``identity-mismatch``: it names none.
    """
    first = next(iter(tx.log.entries(limit=1)), None)
    text = None if first is None or first.seq != 1 else first.document().get("identity")
    try:
        return VerifierKey.parse(text if isinstance(text, str) else "")
    except ConfigurationError as exc:
        raise _other("its first entry names no identity", expected="a verifier key", got=str(text)[:200]) from exc


def require_continuity(tx: ReadTransaction, public: VerifierKey) -> None:
    """Make sure that the signing key is the one that this log began with.

    Raises:
        IntegrityError: ``identity-mismatch``.
    """
    logged = logged_identity(tx)
    if logged != public:
        raise _other("its signing key is another one", expected=logged.text, got=public.text)


def _other(problem: str, *, expected: str, got: str) -> IntegrityError:
    return IntegrityError(
        f"this is not the service that its log began with: {problem}",
        code="identity-mismatch",
        field="identity",
        expected=expected,
        got=got,
        hint="somebody put another key or another log into the database; restore it from a backup",
    )

"""Used nonces in the database, until a clock that goes back by the tolerance cannot revive them."""

from __future__ import annotations

from datetime import datetime, timedelta

from sqlalchemy import BigInteger, Column, Index, LargeBinary, Table, bindparam, func, select
from sqlalchemy.exc import IntegrityError as ConstraintError

from kms.domain.errors import ChallengeUsedError
from kms.store.answers import require_answer
from kms.store.log import CLOCK_TOLERANCE_SECONDS
from kms.store.repository import Repository, whole_number
from kms.store.schema import metadata
from kms.store.state_rows import authenticated, whole_rows
from kms.store.timestamps import milliseconds

used_nonces = Table(
    "used_nonces",
    metadata,
    Column("digest", LargeBinary, primary_key=True),
    Column("expires_at", BigInteger, nullable=False),
    Index("used_nonces_expires_at", "expires_at"),
    info=authenticated(),
)
"""SHA-256 of each nonce that was used, until it expires; milliseconds since 1970, UTC."""


class NonceReader(Repository):
    """Used nonces in a reading transaction."""

    def require_unused(self, digest: bytes) -> None:
        """Refuse the nonce of this digest when it was used before.

        Raises:
            ChallengeUsedError: ``challenge-used``.
        """
        if self._row(used_nonces, digest=digest) is not None:
            raise _used()

    def count(self) -> int:
        """Return the number of stored nonces."""
        return int(self._connection.execute(select(func.count()).select_from(used_nonces)).scalar_one())


class NonceRepository(NonceReader):
    """Used nonces in a writing transaction."""

    def use(self, digest: bytes, *, expires_at: datetime, at: datetime) -> None:
        """Store a used nonce, and delete those whose challenge has long ended.

        Raises:
            ChallengeUsedError: ``challenge-used``.
        """
        moment = milliseconds(at - timedelta(seconds=CLOCK_TOLERANCE_SECONDS))
        for row in self._connection.execute(_ENDED, {"moment": moment}).all():
            ended = self._genuine(used_nonces, row)
            require_answer(used_nonces, holds=whole_number(ended["expires_at"]) < moment)
            self._remove(used_nonces, ended)
        try:
            self._add(used_nonces, {"digest": digest, "expires_at": milliseconds(expires_at)})
        except ConstraintError as exc:
            raise _used() from exc


# Statements of every release are built once: building one takes longer than executing it.
_ENDED = whole_rows(used_nonces).where(used_nonces.c.expires_at < bindparam("moment"))


def _used() -> ChallengeUsedError:
    return ChallengeUsedError(
        "this challenge was used before",
        code="challenge-used",
        hint="use a new challenge for each attempt, and collect evidence for it",
    )

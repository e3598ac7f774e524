"""Rollback guards on other machines, which are only read: a witness of the log, and another replica.

They know only the log, so that the counter of their positions is 0.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Final

from attest.clock import Clock
from attest.errors import AttestError
from attest.release import VerifierKey, read_checkpoint
from kms.domain.rollback import StatePosition, guard_missing
from kms.log.cosigner import LogAtUrl
from kms.log.publisher import LogPublisher
from kms.log.witness_client import Post, Witness, WitnessAnswer, WitnessPanel

REPLICA_SECONDS: Final = 5.0
_COSIGNED: Final = 200


class _ReadOnlyGuard:
    """Guard that another party maintains; writing does nothing."""

    background_seconds: ClassVar[float] = math.inf

    def make(self) -> None:
        """Do nothing."""

    def advance(self, position: StatePosition) -> None:
        """Do nothing."""

    def put(self, position: StatePosition) -> None:
        """Do nothing."""


@dataclass(frozen=True, kw_only=True)
class WitnessGuard(_ReadOnlyGuard):
    """A witness of this log, which refuses to cosign a log that is shorter than, or diverges from, the last one.

    ``log`` signs checkpoints of the database, without witnesses.
    """

    witness: Witness
    log: LogPublisher
    clock: Clock
    post: Post

    @property
    def name(self) -> str:
        """``witness:`` and its name."""
        return f"witness:{self.witness.key.name}"

    def read(self) -> StatePosition | None:
        """Request a cosignature of the database's log; None if the witness had never cosigned this log.

        If the witness knows a longer log, the position has one entry more than the database, and no root.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it does not cosign.
        """
        statuses: list[int] = []
        problems: list[str] = []
        post = partial(_noted, self.post, statuses)
        panel = WitnessPanel((self.witness,), clock=self.clock, report=problems.append, post=post)
        checkpoint = self.log.checkpoint()
        found = panel.ask(checkpoint, prove=self.log.consistency)
        if found.behind:
            return StatePosition(counter=0, log_size=checkpoint.size + 1, log_root=b"")
        if not found.lines:
            raise guard_missing(self.name, "; ".join(problems).removeprefix("warning: "))
        if statuses[0] == _COSIGNED:  # the witness stated no previous size, so there was none
            return None
        return StatePosition(counter=0, log_size=checkpoint.size, log_root=checkpoint.root)


def _noted(post: Post, statuses: list[int], url: str, body: bytes) -> WitnessAnswer:
    answer = post(url, body)
    statuses.append(answer.status)
    return answer


@dataclass(frozen=True, kw_only=True)
class ReplicaGuard(_ReadOnlyGuard):
    """Another running replica of this service, which signs its last published checkpoint."""

    url: str
    log: VerifierKey

    @property
    def name(self) -> str:
        """``replica:`` and its address."""
        return f"replica:{self.url}"

    def read(self) -> StatePosition | None:
        """Return its published state of the log, after verification of the signature.

        Raises:
            ConfigurationError: ``rollback-guard-missing``: it is unavailable, or is not this service.
        """
        import httpx  # noqa: PLC0415  slow to load, and few commands send anything

        try:
            with LogAtUrl(self.url, http=httpx.Client(timeout=REPLICA_SECONDS)) as replica:
                found = read_checkpoint(replica.checkpoint(), log=self.log)
        except AttestError as exc:
            raise guard_missing(self.name, exc.message) from exc
        return StatePosition(counter=0, log_size=found.size, log_root=found.root)

"""Exchange: a request with its challenge, the argument of every step of a release."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from attest import ExpectedBinding
from attest.encoding import JsonValue
from attest.release import CONTEXT, ROLE, PassportRequest, ReleaseRequest
from kms.domain.actors import Actor
from kms.domain.decide import ReleaseTerms
from kms.domain.keys import KeyPurpose
from kms.domain.log_decisions import decision_head
from kms.release.challenges import OpenedChallenge

_PURPOSES: Final = frozenset(map(str, KeyPurpose))


@dataclass(frozen=True, slots=True, kw_only=True)
class Exchange:
    """One request at one moment.

    Attributes:
        audience: the service's verifier key text.
        caller: identity of the caller; None if the service does not require one.
        allow_simulated: True if simulated evidence is accepted.
        log_size: size of the log that the workload has seen; None if it states none.
    """

    request: ReleaseRequest | PassportRequest
    challenge: OpenedChallenge
    audience: str
    caller: Actor | None
    allow_simulated: bool
    at: datetime
    log_size: int | None = None

    @property
    def binding(self) -> ExpectedBinding:
        """Required binding of the evidence."""
        return ExpectedBinding(context=CONTEXT, role=ROLE, audience=self.audience, nonce=self.challenge.nonce)

    @property
    def demand(self) -> ReleaseTerms:
        """Requirements of the decision on every result."""
        return ReleaseTerms(
            context=CONTEXT,
            role=ROLE,
            audience=self.audience,
            nonce=self.challenge.nonce,
            purposes=_PURPOSES,
            allow_simulated=self.allow_simulated,
        )

    @property
    def log_head(self) -> dict[str, JsonValue]:
        """Members of a log entry about the request, and its caller if there is one."""
        head = decision_head(
            nonce_digest=self.challenge.nonce_digest,
            evidence_digest=self.request.evidence.digest,
            requested=self.request.key_ids,
            at=self.at,
            allow_simulated=self.allow_simulated,
        )
        return head if self.caller is None else {**head, "caller": self.caller.members()}

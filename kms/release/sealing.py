"""Keys sealed to the workload that proved itself, and the receipt of a release."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Protocol, TypeVar

from attest.release import SealedKey, receipt_text, release_info, seal
from kms.domain.decide import KeyState
from kms.domain.lease_grants import Granted
from kms.domain.secret import EXPORT, SecretBytes
from kms.release.decision import Decided
from kms.release.exchange import Exchange

S_co = TypeVar("S_co", covariant=True)


class Seal(Protocol[S_co]):
    """Sealing of all keys of an allowed release, in the form of a protocol.

    Secrets and leases are by requested key; ``decision_digest`` is the leaf hash of the decision's log entry.
    """

    def __call__(
        self,
        exchange: Exchange,
        decided: Decided,
        granted: Granted,
        /,
        *,
        secrets: Mapping[str, SecretBytes],
        decision_digest: bytes,
    ) -> S_co:
        """Seal.

        Raises:
            VerificationError: the workload's key cannot be sealed to.
        """
        ...


def seal_keys(
    exchange: Exchange,
    decided: Decided,
    granted: Granted,
    /,
    *,
    secrets: Mapping[str, SecretBytes],
    decision_digest: bytes,
) -> tuple[SealedKey, ...]:
    """Seal each key to the recipient of the decision; a denial has no recipient, so nothing is sealed.

    Each sealed key is bound to the decision's log entry.

    Raises:
        VerificationError: the workload's key cannot be sealed to.
    """
    recipient = decided.decision.recipient
    if recipient is None:
        return ()
    return tuple(
        SealedKey(
            tenant=state.name.tenant,
            key_id=state.name.key_id,
            version=state.version,
            purpose=state.purpose,
            policy_digest=state.policy_digest,
            sealed=secrets[state.asked].lend(
                EXPORT, partial(seal, recipient=recipient, info=_info(exchange, state, decision_digest))
            ),
            lease_id=granted.leases[state.asked].lease_id,
            expires_at=granted.leases[state.asked].expires_at,
        )
        for state in decided.decision.keys
    )


def _info(exchange: Exchange, state: KeyState, decision_digest: bytes) -> bytes:
    return release_info(
        audience=exchange.audience,
        nonce=exchange.challenge.nonce,
        evidence_digest=exchange.request.evidence.digest,
        tenant=state.name.tenant,
        key_id=state.name.key_id,
        version=state.version,
        purpose=state.purpose,
        policy_digest=state.policy_digest,
        decision_digest=decision_digest,
    )


def receipt(exchange: Exchange, decided: Decided, sealed: tuple[SealedKey, ...], *, decision_digest: bytes) -> str:
    """Return the text of the receipt, which the service signs."""
    return receipt_text(
        audience=exchange.audience,
        nonce=exchange.challenge.nonce,
        evidence_digest=exchange.request.evidence.digest,
        decision_digest=decision_digest,
        keys=sealed,
        released_at=decided.decision.at,
        simulated=any(result.verified.simulated for result in decided.results.values()),
        break_glass=decided.under_break_glass,
    )

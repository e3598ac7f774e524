"""Resources for guests: keys and secrets of this service under aliases ``kbs:///REPOSITORY/TYPE/TAG``.

Reading one is a release.

Spec: specs/kbs-protocol.md, sections 13 to 15.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from attest.encoding import base64_bytes
from attest.release import ReleaseRequest, unpad_secret
from kms.api.kbs.documents import read_documents
from kms.api.kbs.errors import KbsRefusal
from kms.api.kbs.handshake import Judged, judge
from kms.api.kbs.jwe import encrypt
from kms.api.kbs.rego_policies import resource_denial
from kms.api.kbs.tee_key import TeeKey
from kms.api.kbs.tokens import OpenedToken
from kms.domain.aliases import is_kbs_path, kbs_address
from kms.domain.decide import DenialReason
from kms.domain.errors import KeyUnknownError
from kms.domain.kek import RandomBytes
from kms.domain.keys import KeyPurpose
from kms.domain.lease_grants import Granted
from kms.domain.secret import EXPORT, SecretBytes
from kms.domain.wires import Wire
from kms.keys.aliases import key_of
from kms.release.challenges import OpenedChallenge
from kms.release.decision import Decided
from kms.release.exchange import Exchange
from kms.release.foreign import ForeignExchange
from kms.release.service import ReleaseService
from kms.release.services import Services

PLUGIN: Final = "resource"


class Resources:
    """Resources of one service."""

    def __init__(self, services: Services, releases: ReleaseService, *, random: RandomBytes) -> None:
        self._services = services
        self._releases = releases
        self._random = random

    def read(self, path: str, token: OpenedToken, *, query: Mapping[str, str]) -> bytes:
        """Release the key of a resource, as a JWE to the key of the token's guest.

        Raises:
            KbsRefusal: 404, there is no such resource for this guest.
            ReleaseDeniedError: the release is denied.
            AttestError: as ``ReleaseService.release``.
        """
        services = self._services
        at = services.clock()
        # (1) The address leads to a key; one that discloses nothing is refused with the same words below.
        with services.store.reading() as tx:
            name = key_of(tx, kbs_address(path)) if is_kbs_path(path) else None
        if name is None:
            raise no_resource(path)
        # (2) The evidence of the token, verified again at this moment.
        sent = token.sent
        nonce = base64_bytes(sent.nonce, what="nonce")
        judged = judge(services, sent, nonce=nonce, at=at)
        # (3) The decision, as for every release; the resource policy can only refuse.
        exchange = ForeignExchange(
            request=ReleaseRequest(challenge="", evidence=judged.evidence, key_ids=(str(name),)),
            challenge=OpenedChallenge(nonce=nonce, expires_at=token.expires_at),
            audience=services.identity.public.text,
            caller=None,
            allow_simulated=services.allow_simulated,
            at=at,
            via=Wire.KBS,
            terms=judged.terms,
            denials=tuple(self._denials(path, token, judged, query)),
        )
        try:
            concluded = self._releases.conclude(
                exchange, partial(_encrypted, key=judged.attestation.key, random=self._random)
            )
        except KeyUnknownError as exc:
            raise no_resource(path) from exc
        return concluded.sealed or b""

    def _denials(
        self, path: str, token: OpenedToken, judged: Judged, query: Mapping[str, str]
    ) -> tuple[DenialReason, ...]:
        """Return the refusal of the resource policy; without one, sample evidence is refused."""
        policy = read_documents(self._services.store).resource_policy()
        if policy is None:
            sample = any(item.kind == "sample" for item in judged.verified.items)
            problem = "there is no resource policy, and sample evidence proves nothing" if sample else None
        else:
            problem = resource_denial(policy, token.claims, plugin=PLUGIN, path=path.split("/"), query=query)
        if problem is None:
            return ()
        return (DenialReason(code="resource-policy", key_id=None, text=f"the resource policy refuses: {problem}"),)


def _encrypted(
    _exchange: Exchange,
    decided: Decided,
    _granted: Granted,
    /,
    *,
    secrets: Mapping[str, SecretBytes],
    decision_digest: bytes,  # noqa: ARG001  the protocol has no place for it
    key: TeeKey,
    random: RandomBytes,
) -> bytes:
    """Encrypt the one key of the decision to the guest's key."""
    (state,) = decided.decision.keys
    secret = secrets[state.asked]
    if state.purpose == KeyPurpose.SECRET:
        return secret.lend(EXPORT, lambda view: encrypt(unpad_secret(view), key=key, random=random))
    return secret.lend(EXPORT, lambda view: encrypt(view, key=key, random=random))


def no_resource(path: str) -> KbsRefusal:
    """Return the refusal for a resource that does not exist, or that discloses nothing."""
    text = f"there is no resource {path[:200]!r} for this guest [kbs-resource-unknown]"
    return KbsRefusal(HTTPStatus.NOT_FOUND, "PluginInternalError", text)

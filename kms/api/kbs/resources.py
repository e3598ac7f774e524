"""Resources for guests: keys and secrets of this service under aliases ``kbs:///REPOSITORY/TYPE/TAG``.

Reading one is a release.

Spec: specs/kbs-protocol.md, sections 13 to 15.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from http import HTTPStatus
from typing import Final

from attest.clock import Clock
from attest.encoding import base64_bytes
from kms.api.kbs.documents import read_documents
from kms.api.kbs.errors import KbsRefusal
from kms.api.kbs.handshake import Judged, judge
from kms.api.kbs.jwe import RandomBytes, encrypt
from kms.api.kbs.rego_policies import resource_denial
from kms.api.kbs.tokens import OpenedToken
from kms.domain.aliases import is_kbs_path, kbs_address
from kms.domain.errors import KeyUnknownError
from kms.keys.aliases import key_of
from kms.release.foreign import ForeignProof, ForeignReleases
from kms.store import Store

PLUGIN: Final = "resource"


class Resources:
    """Resources of one service."""

    def __init__(self, releases: ForeignReleases, store: Store, *, clock: Clock, random: RandomBytes) -> None:
        self._releases = releases
        self._store = store
        self._clock = clock
        self._random = random

    def read(self, path: str, token: OpenedToken, *, query: Mapping[str, str]) -> bytes:
        """Release the key of a resource, as a JWE to the key of the token's guest.

        Raises:
            KbsRefusal: 404, there is no such resource for this guest.
            ReleaseDeniedError: the release is denied.
            AttestError: as ``ReleaseService.release``.
        """
        at = self._clock()
        # (1) The address leads to a key; one that discloses nothing is refused with the same words below.
        with self._store.reading() as tx:
            name = key_of(tx, kbs_address(path)) if is_kbs_path(path) else None
        if name is None:
            raise no_resource(path)
        # (2) The evidence of the token, verified again at this moment.
        nonce = base64_bytes(token.sent.nonce, what="nonce")
        judged = judge(self._releases, token.sent, nonce=nonce, at=at)
        # (3) The decision, as for every release; the resource policy can only refuse.
        proof = ForeignProof(evidence=judged.evidence, terms=judged.terms, expires_at=token.expires_at)
        denial = self._denial(path, token, judged, query)
        to_guest = partial(encrypt, key=judged.attestation.key, random=self._random)
        try:
            return self._releases.release(name, proof, denial=denial, encrypt=to_guest, at=at)
        except KeyUnknownError as exc:
            raise no_resource(path) from exc

    def _denial(self, path: str, token: OpenedToken, judged: Judged, query: Mapping[str, str]) -> str | None:
        """Return the refusal of the resource policy, or None; without a policy, sample evidence is refused."""
        policy = read_documents(self._store).resource_policy()
        if policy is not None:
            problem = resource_denial(policy, token.claims, plugin=PLUGIN, path=path.split("/"), query=query)
        elif any(item.kind == "sample" for item in judged.verified.items):
            problem = "there is none, and sample evidence proves nothing"
        else:
            problem = None
        return None if problem is None else f"the resource policy refuses: {problem}"


def no_resource(path: str) -> KbsRefusal:
    """Return the refusal for a resource that does not exist, or that discloses nothing."""
    text = f"there is no resource {path[:200]!r} for this guest"
    return KbsRefusal(HTTPStatus.NOT_FOUND, "PluginInternalError", text, code="kbs-resource-unknown")

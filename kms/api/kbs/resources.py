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
from attest.evidence import MEDIA_SAMPLE, MEDIA_SAMPLE_DEVICE
from kms.api.kbs.documents import DocumentCache
from kms.api.kbs.errors import KbsRefusal
from kms.api.kbs.jwe import RandomBytes, encrypt
from kms.api.kbs.rego_policies import resource_denial
from kms.api.kbs.tokens import OpenedToken
from kms.domain.aliases import is_kbs_path, kbs_address
from kms.domain.errors import KeyUnknownError
from kms.keys.aliases import key_of
from kms.release.foreign import ForeignProof, ForeignReleases
from kms.store import Store

PLUGIN: Final = "resource"
_SAMPLES: Final = frozenset({MEDIA_SAMPLE, MEDIA_SAMPLE_DEVICE})


class Resources:
    """Resources of one service."""

    def __init__(self, releases: ForeignReleases, store: Store, *, clock: Clock, random: RandomBytes) -> None:
        self._releases = releases
        self._store = store
        self._clock = clock
        self._random = random
        self._documents = DocumentCache()

    def read(self, path: str, token: OpenedToken, *, query: Mapping[str, str]) -> bytes:
        """Release the key of a resource, as a JWE to the key of the token's guest.

        Raises:
            KbsRefusal: 404, there is no such resource for this guest.
            ReleaseDeniedError: the release is denied.
            AttestError: as ``ReleaseService.release``.
        """
        at, carried = self._clock(), token.carried
        # (1) The address leads to a key; one that discloses nothing is refused with the same words below.
        with self._store.reading() as tx:
            name = key_of(tx, kbs_address(path)) if is_kbs_path(path) else None
            policy = self._documents.resource_policy(tx)
        if name is None:
            raise no_resource(path)
        # (2) The decision on the evidence of the token, as for every release; the resource policy can only refuse.
        proof = ForeignProof(evidence=carried.evidence, terms=carried.terms, expires_at=token.expires_at)
        denial = _denial(path, token, policy, query)
        to_guest = partial(encrypt, key=carried.key, random=self._random)
        try:
            return self._releases.release(name, proof, denial=denial, encrypt=to_guest, at=at)
        except KeyUnknownError as exc:
            raise no_resource(path) from exc


def _denial(path: str, token: OpenedToken, policy: bytes | None, query: Mapping[str, str]) -> str | None:
    """Return the refusal of the resource policy, or None; without a policy, sample evidence is refused."""
    if policy is not None:
        problem = resource_denial(policy, token.claims, plugin=PLUGIN, path=path.split("/"), query=query)
    elif any(item.essence in _SAMPLES for item in token.carried.evidence.items):
        problem = "no policy is set, and sample evidence proves nothing"
    else:
        problem = None
    return None if problem is None else f"the resource policy refuses: {problem}"


def no_resource(path: str) -> KbsRefusal:
    """Return the refusal for a resource that does not exist, or that discloses nothing."""
    text = f"there is no resource {path[:200]!r} for this guest"
    return KbsRefusal(HTTPStatus.NOT_FOUND, "PluginInternalError", text, code="kbs-resource-unknown")

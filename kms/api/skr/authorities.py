"""Authorities: the Verifiers whose tokens count. Key sets are pinned, or read every few minutes from an address.

Nothing is ever read from an address that a token names.

Spec: specs/azure-skr.md, section 11.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping
from datetime import datetime

from attest.clock import Clock
from attest.errors import AttestError
from attest.results import TokenKey
from kms.auth.issuers import BearerIssuer
from kms.auth.keysets import Fetch, KeySets, read_key_set
from kms.config.skr import Authority

_log = logging.getLogger("kms")


class Authorities:
    """Keys of all authorities; a thread of its own reads key sets at addresses."""

    def __init__(self, authorities: tuple[Authority, ...], *, clock: Clock, fetch: Fetch = read_key_set) -> None:
        self._pinned = {one.url: one.keys for one in authorities if one.jwks_url is None}
        self._fetched = tuple(_issuer(one) for one in authorities if one.jwks_url is not None)
        self._key_sets = KeySets(self._fetched, fetch=fetch, clock=clock, report=_log.error)

    def start(self) -> None:
        """Read the key sets at addresses, and start the thread that reads them again."""
        self._key_sets.__enter__()

    def trusted(self, *, at: datetime) -> Mapping[str, tuple[TokenKey, ...]]:
        """Return the keys that sign for each authority; one whose key set is stale is left out."""
        found = dict(self._pinned)
        for issuer in self._fetched:
            with contextlib.suppress(AttestError):
                found[issuer.issuer] = self._key_sets.keys(issuer, at=at)
        return found


def _issuer(one: Authority) -> BearerIssuer:
    return BearerIssuer(issuer=one.url, audience="none", algorithms=("RS256",), jwks_url=one.jwks_url, ca_file=one.ca)

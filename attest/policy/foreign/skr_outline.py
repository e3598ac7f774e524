"""A release policy of Azure's that shows how a key with an attest policy is guarded. It decides nothing."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Final

from attest.errors import ConfigurationError
from attest.policy.foreign.export_skr import export_skr
from attest.policy.foreign.skr import AnyOf, ClaimTest, Operator, SkrAuthority, SkrPolicy, canonical_bytes
from attest.policy.model import PolicyDocument

_KINDS: Final = ("sevsnpvm", "tdxvm", "azurevm")


def outline_skr(policy: PolicyDocument, authorities: Sequence[str]) -> bytes:
    """Write an attest policy as a release policy, if that loses nothing; otherwise name these authorities alone."""
    for url in authorities:
        try:
            document = export_skr(policy, authority=url).document
        except ConfigurationError:
            continue
        if document is not None:
            return json.dumps(document, separators=(",", ":"), ensure_ascii=False).encode()
    path = "x-ms-attestation-type"
    tests = AnyOf(conditions=tuple(ClaimTest(path=path, operator=Operator.EQUALS, value=kind) for kind in _KINDS))
    return canonical_bytes(SkrPolicy(authorities=tuple(SkrAuthority(url=url, conditions=tests) for url in authorities)))

"""Submodules of the token: each verified device under the name that Trustee gives it, with its AR4SI vector.

An uploaded attestation policy, in Rego, gives the vector; without one, ``default_appraisal`` does.

Spec: specs/kbs-protocol.md, sections 11.3 to 11.5 and 12.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final

from attest import VerifiedEvidence
from attest.encoding import JsonValue
from attest.rego import trustee_claims
from attest.results import TrustVector
from kms.api.kbs.default_appraisal import default_vector
from kms.api.kbs.rego_policies import attestation_vector
from kms.api.kbs.tokens import Submodule, shown_claims

_EXTENSION: Final = "ear.trustee.identifiers"


def submodules_of(
    verified: VerifiedEvidence,
    *,
    policies: Callable[[str], bytes | None],
    references: Mapping[str, JsonValue],
    claims_of: Callable[[bool], Mapping[str, JsonValue]],
    init_data: Mapping[str, JsonValue],
) -> Iterator[Submodule]:
    """Yield a submodule for each device, in the order of the evidence.

    ``policies`` returns the attestation policy for a class of devices, or None. ``claims_of`` returns the runtime data
    of the CPU, or of another device. ``init_data`` are the claims of the guest's initialisation data, none without it.

    Raises:
        ConfigurationError: the attestation policy of a class does not give a vector.
    """
    counts: dict[str, int] = {}
    for item in verified.items:
        found = trustee_claims(item)
        kind = found.device_class
        number = counts[kind] = counts.get(kind, -1) + 1
        runtime = claims_of(kind == "cpu")
        beside = init_data if kind == "cpu" else {}
        claims: dict[str, JsonValue] = {**beside, **found.document, "runtime_data_claims": dict(runtime)}
        policy = policies(kind)
        extensions: Mapping[str, JsonValue] = {_EXTENSION: {"validated": {}}}
        if policy is None:
            vector = TrustVector.of(default_vector(found.tee, found.claims, references))
        else:
            vector, extensions = attestation_vector(policy, claims, references)
        yield Submodule(
            name=f"{kind}{number}",
            vector=vector,
            claims={**claims, "runtime_data_claims": shown_claims(runtime)},
            extensions=extensions,
        )

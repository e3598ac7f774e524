"""Policies in Rego, in a process of their own: a resource policy can refuse, an attestation policy gives a vector.

Spec: specs/kbs-protocol.md, sections 11.5 and 13; specs/must-check.md, section 4.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache

from attest.encoding import JsonValue
from attest.rego import (
    RegoForm,
    RegoPolicy,
    read_rego_policy,
    rego_appraisal,
    resource_outcome,
    uploaded_rego_policy,
)
from attest.results import TrustVector


@lru_cache(maxsize=16)
def _policy(content: bytes, form: RegoForm) -> RegoPolicy:
    return read_rego_policy(content, form=form)


def require_resource_policy(content: bytes) -> None:
    """Refuse what the engine cannot use as a resource policy.

    Raises:
        ConfigurationError: ``rego-policy-invalid``, with line and column; or ``rego-not-evaluated``.
    """
    uploaded_rego_policy(content, form=RegoForm.RESOURCE)


def require_attestation_policy(content: bytes) -> None:
    """Refuse what the engine cannot use as an attestation policy; as ``require_resource_policy``."""
    uploaded_rego_policy(content, form=RegoForm.ATTESTATION)


def resource_denial(
    content: bytes, claims: Mapping[str, JsonValue], *, plugin: str, path: Sequence[str], query: Mapping[str, str]
) -> str | None:
    """Return why a resource policy refuses a token with these claims, or None. A failure is a refusal."""
    outcome = resource_outcome(_policy(content, RegoForm.RESOURCE), claims, plugin=plugin, path=path, query=query)
    return outcome.reason if outcome.refused else None


def attestation_vector(
    content: bytes, document: Mapping[str, JsonValue], references: Mapping[str, JsonValue]
) -> tuple[TrustVector, Mapping[str, JsonValue]]:
    """Return the AR4SI vector, and the extensions of the token, that an attestation policy gives.

    Raises:
        EvidenceError: the document is one that engines misread.
        ConfigurationError: it gives no vector.
    """
    found = rego_appraisal(_policy(content, RegoForm.ATTESTATION), document, references)
    return found.vector, {one.name: one.value for one in found.extensions}

"""The policy document: the demands of a Relying Party on an Attester, typed, closed and explained."""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names
from attest.policy.loader import Policy, load_policy

if TYPE_CHECKING:
    from attest.policy.authoring.policy_diff import PolicyDifference, diff_policies
    from attest.policy.decoder import RelaxedDemand
    from attest.policy.document import MAX_POLICY_BYTES, placed, read_document
    from attest.policy.floors import FloorDemand, floor_policy, read_floor_demand
    from attest.policy.model import decode_policy
    from attest.policy.reference_values.accepted_documents import AcceptedDocument, accept_document
    from attest.policy.reference_values.reference_documents import DocumentState, ReferenceDocument
    from attest.policy.signatures import (
        DocumentIdentity,
        DocumentSignature,
        identity_of,
        read_signature,
        require_newer,
    )
    from attest.policy.signed_documents import identity_in, read_signed_document
    from attest.policy.signing_keys import (
        PolicyPrivateKey,
        PolicyPublicKey,
        algorithm_of,
        is_signed,
        key_id,
        raw_signature,
        read_private_key,
        read_public_key,
    )

__all__ = [
    "MAX_POLICY_BYTES",
    "AcceptedDocument",
    "DocumentIdentity",
    "DocumentSignature",
    "DocumentState",
    "FloorDemand",
    "Policy",
    "PolicyDifference",
    "PolicyPrivateKey",
    "PolicyPublicKey",
    "ReferenceDocument",
    "RelaxedDemand",
    "accept_document",
    "algorithm_of",
    "decode_policy",
    "diff_policies",
    "floor_policy",
    "identity_in",
    "identity_of",
    "is_signed",
    "key_id",
    "load_policy",
    "placed",
    "raw_signature",
    "read_document",
    "read_floor_demand",
    "read_private_key",
    "read_public_key",
    "read_signature",
    "read_signed_document",
    "require_newer",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.policy.authoring.policy_diff": ("PolicyDifference", "diff_policies"),
        "attest.policy.decoder": ("RelaxedDemand",),
        "attest.policy.document": ("MAX_POLICY_BYTES", "placed", "read_document"),
        "attest.policy.floors": ("FloorDemand", "floor_policy", "read_floor_demand"),
        "attest.policy.model": ("decode_policy",),
        "attest.policy.reference_values.accepted_documents": ("AcceptedDocument", "accept_document"),
        "attest.policy.reference_values.reference_documents": ("DocumentState", "ReferenceDocument"),
        "attest.policy.signatures": (
            "DocumentIdentity",
            "DocumentSignature",
            "identity_of",
            "read_signature",
            "require_newer",
        ),
        "attest.policy.signed_documents": ("identity_in", "read_signed_document"),
        "attest.policy.signing_keys": (
            "PolicyPrivateKey",
            "PolicyPublicKey",
            "algorithm_of",
            "is_signed",
            "key_id",
            "raw_signature",
            "read_private_key",
            "read_public_key",
        ),
    },
)

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
    from attest.policy.foreign.issuers import IssuerUrl, normalised_issuer, parse_issuer
    from attest.policy.foreign.skr import SkrPolicy, canonical_bytes, parse_skr
    from attest.policy.foreign.skr_evaluation import SkrOutcome, evaluate_skr
    from attest.policy.foreign.skr_outline import outline_skr
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
    "IssuerUrl",
    "Policy",
    "PolicyDifference",
    "PolicyPrivateKey",
    "PolicyPublicKey",
    "ReferenceDocument",
    "RelaxedDemand",
    "SkrOutcome",
    "SkrPolicy",
    "accept_document",
    "algorithm_of",
    "canonical_bytes",
    "decode_policy",
    "diff_policies",
    "evaluate_skr",
    "floor_policy",
    "identity_in",
    "identity_of",
    "is_signed",
    "key_id",
    "load_policy",
    "normalised_issuer",
    "outline_skr",
    "parse_issuer",
    "parse_skr",
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
        "attest.policy.foreign.issuers": ("IssuerUrl", "normalised_issuer", "parse_issuer"),
        "attest.policy.foreign.skr": ("SkrPolicy", "canonical_bytes", "parse_skr"),
        "attest.policy.foreign.skr_evaluation": ("SkrOutcome", "evaluate_skr"),
        "attest.policy.foreign.skr_outline": ("outline_skr",),
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

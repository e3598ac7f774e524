"""Policies in Rego: they can refuse more than the typed policy, and never allow more.

The engine runs in a process of its own with an empty environment, little time and little memory. Every failure there is
a refusal. Needs the extra ``rego``.
"""

from attest.rego.evaluation import RegoOutcome, also_refuses, resource_outcome
from attest.rego.policy import RegoForm, RegoPolicy, read_rego_policy
from attest.rego.trust_vector import RegoAppraisal, RegoExtension, rego_appraisal
from attest.rego.trustee import rego_checks, with_rego
from attest.rego.trustee_names import TrusteeClaims, trustee_claims
from attest.rego.uploaded_policy import uploaded_rego_policy
from attest.rego.zygotes import RegoLimits

__all__ = [
    "RegoAppraisal",
    "RegoExtension",
    "RegoForm",
    "RegoLimits",
    "RegoOutcome",
    "RegoPolicy",
    "TrusteeClaims",
    "also_refuses",
    "read_rego_policy",
    "rego_appraisal",
    "rego_checks",
    "resource_outcome",
    "trustee_claims",
    "uploaded_rego_policy",
    "with_rego",
]

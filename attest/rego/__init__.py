"""Policies in Rego: they can refuse more than the typed policy, and never allow more.

The engine runs in a process of its own with an empty environment, little time and little memory. Every failure there is
a refusal. Needs the extra ``rego``.
"""

from attest.rego.evaluation import RegoOutcome, also_refuses
from attest.rego.policy import RegoForm, RegoPolicy, read_rego_policy
from attest.rego.trustee import rego_checks, with_rego
from attest.rego.zygotes import RegoLimits

__all__ = [
    "RegoForm",
    "RegoLimits",
    "RegoOutcome",
    "RegoPolicy",
    "also_refuses",
    "read_rego_policy",
    "rego_checks",
    "with_rego",
]

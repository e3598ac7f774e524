"""The policy document: the demands of a Relying Party on an Attester, typed, closed and explained."""

from __future__ import annotations

from attest.policy.load import Policy, load_policy

__all__ = ["Policy", "load_policy"]

"""Demands of a policy on Trustee's sample evidence: the keys of ``sample``, and their rules.

Such evidence proves nothing: the section serves trials, and a policy with it has to tolerate simulated evidence too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from attest.evidence.sample.claims import sample_claim
from attest.policy.decoder import Demand, demand, key, list_of, record_of, text
from attest.policy.rules import Rule, RuleMaker, list_text, one_of

_SAMPLE = RuleMaker("sample", sample_claim)
_TEXTS = key(demand(list_of(text)))


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleDemands:
    """Demands on sample evidence; None: no demand. See docs/policy.md for each key.

    Attributes:
        device_svn: empty when the section omits it: no sample device is accepted.
    """

    launch_digest: Demand[tuple[str, ...]] = field(metadata=_TEXTS)
    svn: Demand[tuple[str, ...]] | None = field(default=None, metadata=_TEXTS)
    device_svn: Demand[tuple[str, ...]] = field(default=Demand(()), metadata=_TEXTS)


decode_sample = record_of(SampleDemands)
"""Read the key ``sample`` of a policy."""


def sample_rules(sample: SampleDemands) -> Iterator[Rule]:
    """Yield the rules of a policy document for sample evidence of a CPU."""
    yield from _SAMPLE.rule("launch_digest", sample.launch_digest, one_of, category="executables")
    yield from _SAMPLE.rule("svn", sample.svn, one_of, category="executables")


def sample_device_rules(sample: SampleDemands) -> Iterator[Rule]:
    """Yield the rules of a policy document for sample devices."""
    yield from _SAMPLE.rule(
        "device_svn",
        sample.device_svn,
        one_of,
        category="executables",
        claim="svn",
        expected=lambda accepted: list_text(accepted) if accepted else "of no device",
    )

"""Findings in the section ``dstack`` of a policy."""

from __future__ import annotations

from collections.abc import Iterator

from attest.policy.authoring.lint_findings import LintContext, LintFinding, Severity
from attest.policy.decoder import stated
from attest.policy.dstack import AcceptedKeyProvider, DstackDemands

_KMS = "kms"


def dstack_findings(dstack: DstackDemands, path: str, context: LintContext) -> Iterator[LintFinding]:
    """Return the findings in one section."""
    if not stated(dstack.compose_hashes):
        yield LintFinding(
            rule="compose-not-demanded",
            severity=context.in_production(Severity.ERROR),
            path=path,
            why="any app-compose is accepted: an update keeps the app's id, and an image starts any app-compose",
            remedy="demand compose_hashes",
        )
    providers: tuple[AcceptedKeyProvider, ...] = stated(dstack.key_providers) or ()
    for index, provider in enumerate(providers):
        if provider.name == _KMS and provider.id is None:
            yield LintFinding(
                rule="over-broad",
                severity=context.in_production(Severity.WARNING),
                path=f"{path}.key_providers[{index}]",
                why="every KMS is accepted, and an unknown KMS can give the app's keys to any machine",
                remedy="add the id: the public key of the KMS's root CA, as 'attest verify --json' shows it",
            )

"""Verified evidence to draft policies from: the fixtures that verify, and the recorded evidence."""

import json
from dataclasses import dataclass
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

from attest.checks import Unchecked
from attest.cli.policy_init import source_of
from attest.endorsements.anchors import TrustAnchors
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import MEDIA_EVENT_LOG, Evidence, EvidenceItem
from attest.evidence.input_files import read_evidence
from attest.policy.authoring.draft import DraftSource, PolicyDraft, choose, draft_policy
from attest.verification import VerifiedEvidence, verify

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
MANIFEST: dict[str, Any] = json.loads((FIXTURES / "MANIFEST.json").read_text())
CASES: dict[str, dict[str, Any]] = {
    case["id"]: case for case in MANIFEST["cases"] if case["expected"] == "verified" and case["anchors"] == "simulation"
}


@dataclass(frozen=True)
class Drafted:
    """A draft with what it was drafted from."""

    verified: VerifiedEvidence
    source: DraftSource
    draft: PolicyDraft


def unchecked_of(names: list[str]) -> tuple[Unchecked, ...]:
    return tuple(Unchecked(check=name, reason="recorded evidence") for name in ("freshness", *names))


@cache
def verified_fixture(case_id: str) -> VerifiedEvidence:
    case = CASES[case_id]
    at = datetime.fromisoformat(case["at"])
    path = FIXTURES / case["evidence"]
    evidence = read_evidence([(path.name, path.read_bytes())]).evidence
    if case["eventlog"]:
        log = EvidenceItem(
            name="eventlog", media_type=MEDIA_EVENT_LOG, value=(FIXTURES / case["eventlog"]).read_bytes()
        )
        evidence = Evidence(items=(*evidence.items, log))
    files = [(name, (FIXTURES / name).read_bytes()) for name in case["endorsements"]]
    return verify(
        evidence,
        endorsements=read_endorsements(files, at=at).endorsements,
        anchors=TrustAnchors.simulation(),
        at=at,
        unchecked=unchecked_of(case["unchecked"]),
    )


def drafted(verified: VerifiedEvidence, **choices: Any) -> Drafted:  # noqa: ANN401  the arguments of ``choose``
    source = source_of(verified)
    kinds = [item.kind for item in source.items]
    draft = draft_policy(source, name="drafted", reference="seen", chosen=choose(kinds, **choices))
    return Drafted(verified=verified, source=source, draft=draft)

"""Appraisal of this machine by a policy: local evidence under a generated nonce, verified and appraised here.

NOTE: it proves nothing to others: a compromised machine can forge its own diagnosis. It finds missing prerequisites.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

from attest.appraisal import appraise
from attest.checks import Check
from attest.cli.endorsement_fetch import fetch_missing
from attest.cli.files import walk_endorsements
from attest.cli.options import Network
from attest.cli.policies import read_policies
from attest.cli.reference_options import References
from attest.collect.access import MachineAccess
from attest.collect.doctor import DoctorFinding, finding_of
from attest.collect.machine import collect_all
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.bundle_records import MAX_BUNDLE_BYTES, UnsignedBundles
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, CollectionError, EndorsementError
from attest.evidence.binding import NONCE_BYTES
from attest.evidence.endorsement_files import MAX_FILE_BYTES, read_endorsements
from attest.evidence.envelope import Evidence
from attest.fetch import can_be_fetched
from attest.policy.loader import Policy
from attest.terminal.display import Display
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify

__all__ = ["PolicyQuestion", "judge_machine"]

_FIXES = (
    ("freshness", "collect anew; the report answers another question"),
    ("policy.not_simulated", "simulated evidence meets no policy that does not say 'simulated'"),
    ("policy.kind", "the policy speaks of another kind of machine: add a section for this one, or run elsewhere"),
    ("policy.snp.measurement", "another image runs than the policy names: compute it with 'attest measure snp'"),
    ("policy.snp.minimum", "the host's firmware is older than the policy demands: update it, or take another host"),
    ("policy.snp.products", "run on a processor that the policy names"),
    ("policy.snp.vmpl", "collect at a VMPL that the policy accepts"),
    ("policy.snp.guest_policy", "launch the guest with another guest policy (debugging and migration off)"),
    ("policy.snp.platform_info", "the host's firmware settings differ from what the policy demands"),
    ("policy.tdx.tcb_status", "the platform's firmware is out of date: update it, or take another host"),
    ("policy.tdx.minimum", "the platform is older than the policy demands: update it, or take another host"),
    ("policy.tdx.event_log", "the boot differs from what the policy demands; 'attest inspect' shows the log"),
    ("policy.azure.event_log", "the boot differs from what the policy demands; 'attest inspect' shows the log"),
    ("policy.azure.pcr", "the VM booted something else than the policy names; 'attest inspect' shows the log"),
    ("policy.tdx.rtmr", "another firmware, kernel or command line was measured than the policy names"),
    ("policy.tdx.mr_td", "another firmware was built into the TD than the policy names"),
    ("policy.tdx.td_attributes", "launch the TD with other attributes (debugging off)"),
    ("policy.gpu.driver_versions", "install a driver that the policy accepts"),
    ("policy.gpu.vbios_versions", "update the GPUs' VBIOS, or take another host"),
    ("policy.gpu", "'attest policy explain' tells what the policy demands of GPUs"),
    ("policy.devices", "the set of devices differs from what the policy demands"),
)
"""Prefix of a check's id to its remedy; the first that matches."""
_OTHERWISE = "'attest policy explain' tells what the policy demands, and why"


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicyQuestion:
    """The arguments of ``attest doctor --policy``."""

    policies: tuple[str, ...]
    references: References
    endorsements: tuple[str, ...]
    allow_simulated: bool
    online: bool
    network: Network
    display: Display


def judge_machine(
    access: MachineAccess, asked: PolicyQuestion, *, at: datetime, timeout: float
) -> Iterator[DoctorFinding]:
    """Collect, verify and appraise; a finding for each check that stands against this machine.

    Raises:
        ConfigurationError: a file cannot be read, or is no policy.
    """
    policies = read_policies(asked.policies, references=asked.references)
    nonce = access.random(NONCE_BYTES)
    try:
        collected = collect_all(nonce, access=access, timeout=timeout)
    except CollectionError as exc:
        yield finding_of("evidence", exc)
        return
    found = f"{collected.tee} by {collected.interface}, {collected.gpus} GPUs"
    yield DoctorFinding(id="evidence", outcome="pass", found="; ".join((found, *collected.notes)))
    case = _Case(asked=asked, evidence=collected.evidence, nonce=nonce, at=at, endorsements=_endorsements(asked, at=at))
    for policy in policies:
        yield from _judged(case, policy)


@dataclass(frozen=True, slots=True, kw_only=True)
class _Case:
    """Evidence of this machine, with the inputs of its verification."""

    asked: PolicyQuestion
    evidence: Evidence
    nonce: bytes
    at: datetime
    endorsements: Endorsements

    def verify(self, policy: Policy) -> VerifiedEvidence:
        """Verify; fetch what is missing if that was allowed, and verify again."""
        try:
            return self._verify(policy, self.endorsements)
        except EndorsementError:
            if not self.asked.online or not can_be_fetched(self.evidence):
                raise
        fetched = fetch_missing(
            self.evidence, at=self.at, network=self.asked.network, display=self.asked.display, pool=self.endorsements
        )
        return self._verify(policy, self.endorsements.merged(fetched.endorsements))

    def _verify(self, policy: Policy, endorsements: Endorsements) -> VerifiedEvidence:
        anchors = TrustAnchors.vendors()
        if self.asked.allow_simulated:
            anchors = anchors.with_anchors(TrustAnchors.simulation().anchors)
        return verify(
            self.evidence,
            endorsements=endorsements,
            anchors=anchors,
            at=self.at,
            expected=ExpectedFreshness(nonce=self.nonce),
            unchecked=policy.unchecked,
            tolerances=policy.tolerances,
        )


def _endorsements(asked: PolicyQuestion, *, at: datetime) -> Endorsements:
    limit = max(MAX_BUNDLE_BYTES, MAX_FILE_BYTES)
    files = walk_endorsements(asked.endorsements, limit=limit, warn=asked.display.warn)
    return read_endorsements(files, at=at, bundle_keys=UnsignedBundles.ACCEPTED).endorsements


def _judged(case: _Case, policy: Policy) -> Iterator[DoctorFinding]:
    name = f"policy {policy.name}"
    try:
        result = appraise(case.verify(policy), policy=policy, at=case.at)
    except AttestError as exc:
        hint = exc.hint
        if isinstance(exc, EndorsementError) and not case.asked.online:
            hint = "let it be fetched with --online, or give it with --endorsements"
        yield DoctorFinding(id=name, outcome="fail", found=f"{exc.code}: {exc.message}", fix=hint)
        return
    for check in result.failed:
        yield DoctorFinding(id=name, outcome="fail", found=_told(check), fix=_fix(check))
    if result.affirmed:
        yield DoctorFinding(id=name, outcome="pass", found=f"would be affirmed ({len(result.policy_checks)} checks)")


def _told(check: Check) -> str:
    where = f"{check.item}: " if check.item else ""
    return f"{where}{check.id}: expected {check.expected}, got {check.got}"


def _fix(check: Check) -> str:
    return next((fix for beginning, fix in _FIXES if check.id.startswith(beginning)), _OTHERWISE)

"""Appraisal of this machine by a policy: local evidence under a generated nonce, verified and appraised here.

NOTE: it proves nothing to others: a compromised machine can forge its own diagnosis. It finds missing prerequisites.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from attest.cli.endorsement_inputs import read_anchors, read_pool
from attest.cli.firmware_options import findings_in
from attest.cli.options import VerificationOptions
from attest.cli.policies import read_policies
from attest.cli.reference_options import References
from attest.cli.verification_inputs import Case, appraise_case
from attest.collect.access import MachineAccess
from attest.collect.findings import OLD_FIRMWARE_FIX, DoctorFinding, finding_of
from attest.collect.machine import collect_all
from attest.errors import AttestError, CollectionError, EndorsementError
from attest.evidence.binding import NONCE_BYTES
from attest.policy.firmware_table import FirmwareTable
from attest.policy.loader import Policy
from attest.verification import ExpectedFreshness

_FIXES = (
    ("freshness", "collect again; the report answers another nonce"),
    ("policy.not_simulated", "only a policy with 'simulated' accepts simulated evidence"),
    ("policy.kind", "the policy is for another kind of machine: add a section for this one, or run elsewhere"),
    ("policy.snp.measurement", "the running image is not the policy's: compute its value with 'attest measure snp'"),
    ("policy.snp.minimum", "the host's firmware is older than the policy demands: update it, or use another host"),
    ("policy.snp.products", "run on a processor that the policy names"),
    ("policy.snp.vmpl", "collect at a VMPL that the policy accepts"),
    ("policy.snp.guest_policy", "launch the guest with another guest policy (debugging and migration off)"),
    ("policy.snp.platform_info", "the host's firmware settings differ from what the policy demands"),
    ("policy.tdx.tcb_status", "the platform's firmware is out of date: update it, or use another host"),
    ("policy.tdx.minimum", "the platform is older than the policy demands: update it, or use another host"),
    ("policy.tdx.event_log", "the boot differs from what the policy demands; 'attest inspect' shows the log"),
    ("policy.azure.event_log", "the boot differs from what the policy demands; 'attest inspect' shows the log"),
    ("policy.azure.pcr", "the VM booted another system than the policy names; 'attest inspect' shows the log"),
    ("policy.tdx.rtmr", "the measured firmware, kernel or command line differs from the policy's"),
    ("policy.tdx.mr_td", "the TD's firmware differs from the policy's"),
    ("policy.tdx.td_attributes", "launch the TD with other attributes (debugging off)"),
    ("policy.gpu.driver_versions", "install a driver that the policy accepts"),
    ("policy.gpu.vbios_versions", "update the GPUs' VBIOS, or use another host"),
    ("policy.gpu", "'attest policy explain' shows the policy's demands on GPUs"),
    ("policy.devices", "the set of devices differs from what the policy demands"),
)
"""Prefix of a check's id to its remedy; the first that matches."""
_OTHERWISE = "'attest policy explain' shows the policy's demands and their reasons"


def judge_machine(
    access: MachineAccess,
    question: VerificationOptions,
    *,
    policies: tuple[str, ...],
    references: References,
    firmware: FirmwareTable,
    at: datetime,
    timeout: float,
) -> Iterator[DoctorFinding]:
    """Collect, verify and appraise; yield a finding for each failed check of this machine.

    ``timeout`` is the limit of NVIDIA's driver for each question, in seconds.

    Raises:
        ConfigurationError: a file cannot be read, or is no policy.
    """
    loaded = read_policies(policies, references=references)
    nonce = access.random(NONCE_BYTES)
    try:
        collected = collect_all(nonce, access=access, timeout=timeout)
    except CollectionError as exc:
        yield finding_of("evidence", exc)
        return
    found = f"{collected.tee} by {collected.interface}, {collected.gpus} GPUs"
    yield DoctorFinding(id="evidence", outcome="pass", found="; ".join((found, *collected.notes)))
    case = Case(
        evidence=collected.evidence,
        endorsements=read_pool(question.endorsements, at=at, display=question.display),
        anchors=read_anchors(None, simulated=question.allow_simulated),
        expected=ExpectedFreshness(nonce=nonce),
        at=at,
        question=question,
    )
    for policy in loaded:
        yield from _judged(case, policy, firmware)


def _judged(case: Case, policy: Policy, firmware: FirmwareTable) -> Iterator[DoctorFinding]:
    name = f"policy {policy.name}"
    try:
        result = appraise_case(case, policy)
    except AttestError as exc:
        hint = exc.hint
        if isinstance(exc, EndorsementError) and case.question.offline:
            hint = "fetch it with --online, or pass it with --endorsements"
        yield DoctorFinding(id=name, outcome="fail", found=f"{exc.code}: {exc.message}", fix=hint)
        return
    for check in result.failed:
        where = f"{check.item}: " if check.item else ""
        found = f"{where}{check.id}: expected {check.expected}, got {check.got}"
        fix = next((fix for beginning, fix in _FIXES if check.id.startswith(beginning)), _OTHERWISE)
        yield DoctorFinding(id=name, outcome="fail", found=found, fix=fix)
    for old in findings_in(result.verified, firmware):
        yield DoctorFinding(id="firmware", outcome="warning", found=str(old), fix=OLD_FIRMWARE_FIX)
    if result.affirmed:
        yield DoctorFinding(id=name, outcome="pass", found=f"would be affirmed ({len(result.policy_checks)} checks)")

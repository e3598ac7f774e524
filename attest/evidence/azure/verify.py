"""Verification of Azure confidential VMs: checks A01 to A08 of specs/azure-cvm.md, except the nonce.

::

    nonce, PCR values ── TPM quote ── AK in the runtime claims ── REPORT_DATA of the CPU's report ── AMD or Intel

The chain is walked from its anchor outwards: first the CPU's report by the procedure of its own format, then its
commitment to the runtime claims, then the key in these claims, then what that key signed. No link is used before the
one that authenticates it was found to hold. A missing endorsement of the CPU's report alone does not end the walk, so
that evidence that is plainly false is called false; nothing is verified then all the same.

The nonce (A06) is compared where every format's is, in ``attest.evidence.composite``.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from typing import NamedTuple

from attest.checks import Check, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, EndorsementError, VerificationError
from attest.evidence.azure.forms import ParsedAzureEvidence
from attest.evidence.azure.runtime import RuntimeClaims, parse_runtime_claims
from attest.evidence.azure.structure import TD_INFO_BYTES
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.intel.verify import VerifiedIntelQuote, verify_intel_quote
from attest.evidence.procedure import Findings, Procedure, Step, require_equal
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.verify import VerifiedSnpReport, verify_snp_evidence
from attest.evidence.tolerances import NO_DEVICE_TOLERANCES, DeviceTolerances
from attest.evidence.tpm.quote import require_pcr_values, require_signed
from attest.evidence.tpm.structure import ParsedTpmQuote, parse_tpm_quote

_TD_INFO_OFFSET = 120
"""Offset of TDATTRIBUTES in a TD report body (intel-tdx-sgx.md 3)."""


class AzureSteps(NamedTuple):
    """Every check once the CPU's report was verified, in order; ``_steps_of`` leaves out what does not apply."""

    format: Step = Step("azure.format", "Microsoft Azure, guest attestation, HCL report")
    vmpl: Step = Step("azure.vmpl", "AMD 56860, VMPL")
    runtime_data: Step = Step("azure.runtime_data", "Microsoft Azure, guest attestation, report data")
    td_report: Step = Step("azure.td_report", "Intel TDX DCAP, TDREPORT; docs/azure.md")
    claims: Step = Step("azure.claims", "Microsoft Azure, guest attestation, runtime claims")
    tpm_signature: Step = Step("azure.tpm_signature", "TPM 2.0 Library, part 1, signing; RFC 8017, 8.2.2")
    tpm_quote: Step = Step("azure.tpm_quote", "TPM 2.0 Library, part 2, TPMS_ATTEST")
    user_data: Step = Step("azure.user_data", "docs/azure.md")
    pcr_digest: Step = Step("azure.pcr_digest", "TPM 2.0 Library, part 2, TPMS_QUOTE_INFO")


_STEPS = AzureSteps()


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedAzureEvidence:
    """Evidence of an Azure confidential VM that holds, link by link. Built by ``verify_azure_evidence`` only.

    Attributes:
        evidence: the evidence as presented; its runtime claims are verified.
        cpu: the CPU's report, verified. Its measurement is of the paravisor, not of the guest's system.
        pcrs: registers that the quote covers, ascending, with their values: the only measurements of the system.
    """

    evidence: ParsedAzureEvidence
    cpu: VerifiedSnpReport | VerifiedIntelQuote
    runtime: RuntimeClaims
    quote: ParsedTpmQuote
    pcrs: tuple[tuple[int, bytes], ...]
    at: datetime
    findings: Findings = field(repr=False)

    @property
    def simulated(self) -> bool:
        """True for evidence under the simulator's root."""
        return self.cpu.simulated

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure, those of the CPU's report first."""
        return (*self.cpu.checks, *self.findings.checks)


def verify_azure_evidence(
    evidence: ParsedAzureEvidence,
    /,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
    tolerances: DeviceTolerances = NO_DEVICE_TOLERANCES,
) -> VerifiedAzureEvidence:
    """Verify evidence of an Azure confidential VM.

    Args:
        evidence: the evidence as presented; not trusted yet.
        endorsements: statements of AMD or Intel; not trusted either.
        anchors: root keys of AMD and Intel that the Verifier Owner accepts; an empty set accepts nothing.
        at: moment of appraisal, aware.
        unchecked: relaxations for the procedure of the CPU's report; no other step can be relaxed.
        tolerances: deviations that a policy names.

    Raises:
        AttestError: as ``verify_snp_evidence`` or ``verify_intel_quote``.
        BindingError: ``azure-runtime-data-mismatch``, ``azure-td-report-mismatch``, ``azure-user-data-mismatch``,
            ``tpm-pcr-bank-unexpected``, ``tpm-pcr-count-mismatch`` or ``tpm-pcr-digest-mismatch``.
        SignatureError: ``tpm-signature-invalid``.
        VerificationError: ``azure-vmpl-unexpected``.
        EvidenceError: as ``parse_runtime_claims`` and ``parse_tpm_quote``, of claims and quotes that are genuine.

    Spec: specs/azure-cvm.md, section 10.
    """
    # (1) A08: the CPU's report.
    verify_with = partial(_verify_cpu, endorsements=endorsements, anchors=anchors, at=at, unchecked=unchecked)
    cpu = verify_with(evidence.cpu, tolerances=tolerances)
    if isinstance(cpu, AttestError) and not isinstance(cpu, EndorsementError):
        raise _not_reached(evidence, cpu)
    # (2) A03, A02, A04, A05, A07: the parts that it authenticates. Each step relies on the previous one.
    procedure = _begin(evidence)
    try:
        links = _verify_links(procedure, evidence)
    except AttestError as exc:
        exc.checks = (*cpu.checks, *exc.checks)
        raise
    # (3) What is missing counts when nothing is false.
    if isinstance(cpu, AttestError):
        raise _not_reached(evidence, cpu)
    return VerifiedAzureEvidence(
        evidence=evidence,
        cpu=cpu,
        runtime=links.runtime,
        quote=links.quote,
        pcrs=links.pcrs,
        at=at,
        findings=procedure.finish(),
    )


def _verify_cpu(
    cpu: ParsedSnpEvidence | ParsedQuote,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...],
    tolerances: DeviceTolerances,
) -> VerifiedSnpReport | VerifiedIntelQuote | AttestError:
    try:
        if isinstance(cpu, ParsedQuote):
            return verify_intel_quote(cpu, endorsements=endorsements, anchors=anchors, at=at, unchecked=unchecked)
        return verify_snp_evidence(
            cpu, endorsements=endorsements, anchors=anchors, at=at, unchecked=unchecked, tolerances=tolerances
        )
    except AttestError as exc:
        return exc


def _begin(evidence: ParsedAzureEvidence) -> Procedure:
    """Begin the procedure, with what parsing has shown already."""
    procedure = Procedure(_steps_of(evidence))
    procedure.parsed(
        _STEPS.format, "an HCL report of a known version, sizes that agree, every other byte zero", "as expected"
    )
    return procedure


def _steps_of(evidence: ParsedAzureEvidence) -> tuple[Step, ...]:
    left_out = {_STEPS.td_report if isinstance(evidence.cpu, ParsedSnpEvidence) else _STEPS.vmpl}
    if evidence.form_version <= 1:
        left_out.add(_STEPS.user_data)
    return tuple(step for step in _STEPS if step not in left_out)


def _not_reached(evidence: ParsedAzureEvidence, failure: AttestError) -> AttestError:
    """Add the steps to the refusal of the CPU's report: none of them has passed."""
    before = failure.checks
    failure.checks = (*before, *_begin(evidence).refusal(failure).checks)
    return failure


class _Links(NamedTuple):
    """The parts that the CPU's report authenticates."""

    runtime: RuntimeClaims
    quote: ParsedTpmQuote
    pcrs: tuple[tuple[int, bytes], ...]


def _verify_links(procedure: Procedure, evidence: ParsedAzureEvidence) -> _Links:
    cpu, hcl, tpm = evidence.cpu, evidence.hcl, evidence.tpm
    if isinstance(cpu, ParsedSnpEvidence):
        with procedure.step(_STEPS.vmpl):
            _require_paravisor(cpu.report.vmpl)
            procedure.record("VMPL 0", "VMPL 0")
    with procedure.step(_STEPS.runtime_data):
        _require_runtime_data(evidence)
        procedure.record("the digest of the runtime claims in REPORT_DATA", hcl.runtime_digest)
    if isinstance(cpu, ParsedQuote):
        with procedure.step(_STEPS.td_report):
            _require_one_td(cpu, hcl.td_info)
            procedure.record("TDREPORT and quote of one TD", ("{} bytes of TDINFO agree", TD_INFO_BYTES))
    with procedure.step(_STEPS.claims):
        runtime = parse_runtime_claims(hcl.runtime_data)
        procedure.record("one attestation key, RSA of 2048 bits or more", ("RSA of {} bits", runtime.ak.key_size))
    with procedure.step(_STEPS.tpm_signature):
        # Nothing else in the evidence is taken for a key.
        require_signed(tpm.message, tpm.signature, runtime.ak)
        procedure.record(
            "the attestation key of the runtime claims over the whole quote",
            ("verifies over {} bytes", len(tpm.message)),
        )
    with procedure.step(_STEPS.tpm_quote):
        quote = parse_tpm_quote(tpm.message)
        procedure.record("a quote made by a TPM, nothing left over", ("reset {}", quote.reset_count))
    if evidence.form_version > 1:
        with procedure.step(_STEPS.user_data):
            user_data = runtime.user_data or b""
            _require_user_data(quote, user_data)
            procedure.record("the quote's extraData, then zeros", user_data)
    with procedure.step(_STEPS.pcr_digest):
        pcrs = require_pcr_values(quote, tpm.pcrs)
        procedure.record(("SHA-256 bank, digest {}", quote.pcr_digest), ("{} values have this digest", len(pcrs)))
    return _Links(runtime, quote, pcrs)


# -- what the steps require


def _require_paravisor(vmpl: int) -> None:
    """Require that the paravisor itself requested the SNP report: VMPL 1 and above belong to its guest."""
    if vmpl != 0:
        raise VerificationError(
            f"the SNP report was requested at VMPL {vmpl}, and the paravisor runs at VMPL 0",
            code="azure-vmpl-unexpected",
            field="VMPL",
            offset=0x030,
            expected="0",
            got=str(vmpl),
        )


def _require_runtime_data(evidence: ParsedAzureEvidence) -> None:
    wanted = evidence.hcl.runtime_digest
    found = [("REPORT_DATA", evidence.cpu_report_data)]
    if isinstance(evidence.cpu, ParsedQuote):
        found.append(("REPORTDATA of the TDREPORT", evidence.hcl.td_report_data))
    for name, value in found:
        problem = f"{name} does not commit to the runtime claims"
        require_equal(wanted, value, problem, code="azure-runtime-data-mismatch", field=name)


def _require_one_td(quote: ParsedQuote, td_info: bytes) -> None:
    """Require that quote and TDREPORT are of one TD; only the quote is signed, and a splice is no honest mistake."""
    quoted = quote.body.raw[_TD_INFO_OFFSET:][:TD_INFO_BYTES]
    problem = "the TDREPORT in the HCL report and the TD quote are of different TDs"
    require_equal(quoted, td_info, problem, code="azure-td-report-mismatch", field="TDINFO")


def _require_user_data(quote: ParsedTpmQuote, user_data: bytes) -> None:
    """Require user data that repeats extraData, as the form demands from version 2 on."""
    wanted = quote.extra_data.ljust(64, b"\0")
    problem = "the user data among the runtime claims does not repeat the extraData of the TPM's quote"
    require_equal(wanted, user_data, problem, code="azure-user-data-mismatch", field="user-data")

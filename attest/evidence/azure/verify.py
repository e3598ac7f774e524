"""Is this evidence of an Azure confidential VM genuine? Checks A01 to A08 of specs/azure-cvm.md, but for the nonce.

::

    nonce, PCR values ── TPM quote ── AK in the runtime claims ── REPORT_DATA of the CPU's report ── AMD or Intel

The chain is walked from its anchor outwards: first the CPU's report by the procedure of its own format, then its
commitment to the runtime claims, then the key in these claims, then what that key signed. No link is used before the
one that vouches for it was found to hold. A missing endorsement of the CPU's report alone does not end the walk, so
that evidence that is plainly false is called false; nothing is verified then all the same.

The nonce (A06) is compared where every format's is, in ``attest.evidence.composite``.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime

from attest.checks import Check, Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.errors import AttestError, BindingError, EndorsementError, VerificationError
from attest.evidence.azure.forms import ParsedAzureEvidence
from attest.evidence.azure.runtime import RuntimeClaims, parse_runtime_claims
from attest.evidence.azure.structure import TD_INFO_BYTES
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.intel.verify import VerifiedIntelQuote, verify_intel_quote
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.evidence.snp.verify import VerifiedSnpReport, verify_snp_evidence
from attest.evidence.tpm.quote import require_pcr_values, require_signed
from attest.evidence.tpm.structure import ParsedTpmQuote, parse_tpm_quote

__all__ = ["PROCEDURE", "VerifiedAzureEvidence", "verify_azure_evidence"]

_TD_INFO_OFFSET = 120
"""Where TDATTRIBUTES stands in a TD report body (intel-tdx-sgx.md 3)."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedAzureEvidence:
    """Evidence of an Azure confidential VM that holds, link by link. Built by ``verify_azure_evidence`` only.

    Attributes:
        evidence: what was presented; the HCL report's runtime claims may be relied on.
        cpu: the CPU's report, verified. Its measurement is of the paravisor, not of the guest's system.
        runtime: what the paravisor says of the VM.
        quote: what the virtual TPM signed.
        pcrs: registers that the quote covers, ascending, with their values: the only measurements of the system.
        at: the moment for which all this holds.
    """

    evidence: ParsedAzureEvidence
    cpu: VerifiedSnpReport | VerifiedIntelQuote
    runtime: RuntimeClaims
    quote: ParsedTpmQuote
    pcrs: tuple[tuple[int, bytes], ...]
    at: datetime

    @property
    def simulated(self) -> bool:
        """Whether all this rests on the simulator's root."""
        return self.cpu.simulated

    @property
    def checks(self) -> tuple[Check, ...]:
        """Every check of the procedure, those of the CPU's report first."""
        return (*self.cpu.checks, *_passed(self))


def verify_azure_evidence(
    evidence: ParsedAzureEvidence,
    /,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
) -> VerifiedAzureEvidence:
    """Verify evidence of an Azure confidential VM.

    Args:
        evidence: what was presented; nothing of it is trusted yet.
        endorsements: what AMD or Intel say; not trusted either.
        anchors: root keys of AMD and Intel that the Verifier Owner accepts; an empty set accepts nothing.
        at: moment of appraisal, aware.
        unchecked: what the procedure of the CPU's report may leave unjudged; nothing else here can be.

    Raises:
        AttestError: as ``verify_snp_evidence`` or ``verify_intel_quote``.
        BindingError: ``azure-runtime-data-mismatch``, ``azure-td-report-mismatch``, ``azure-user-data-mismatch``,
            ``tpm-pcr-bank-unexpected``, ``tpm-pcr-count-mismatch`` or ``tpm-pcr-digest-mismatch``.
        SignatureError: ``tpm-signature-invalid``.
        VerificationError: ``azure-vmpl-unexpected``.
        EvidenceError: as ``parse_runtime_claims`` and ``parse_tpm_quote``, of claims and quotes that are genuine.

    Spec: specs/azure-cvm.md, section 10.
    """
    walk = _Walk(evidence=evidence, at=at)
    # (1) A08: the CPU's report.
    try:
        walk.cpu = _verify_cpu(evidence.cpu, endorsements=endorsements, anchors=anchors, at=at, unchecked=unchecked)
        walk.told += walk.cpu.checks
    except AttestError as exc:
        walk.told += exc.checks
        if not isinstance(exc, EndorsementError):
            exc.checks = (*walk.told, *_refused(evidence, exc))
            raise
        walk.missing = exc
    # (2) A03, A02, A04, A05, A07: what it vouches for. Each step stands on the one before.
    for step in _steps(evidence):
        try:
            step.run(walk)
        except AttestError as exc:
            exc.check, exc.clause = step.id, exc.clause or step.clause
            exc.checks = (*walk.told, *_refused(evidence, exc))
            raise
    # (3) What is missing counts when nothing is false.
    if walk.missing is not None:
        walk.missing.checks = (*walk.told, *_refused(evidence, walk.missing))
        raise walk.missing
    return walk.outcome()


def _verify_cpu(
    cpu: ParsedSnpEvidence | ParsedQuote,
    *,
    endorsements: Endorsements,
    anchors: TrustAnchors,
    at: datetime,
    unchecked: tuple[Unchecked, ...],
) -> VerifiedSnpReport | VerifiedIntelQuote:
    if isinstance(cpu, ParsedSnpEvidence):
        return verify_snp_evidence(cpu, endorsements=endorsements, anchors=anchors, at=at, unchecked=unchecked)
    return verify_intel_quote(cpu, endorsements=endorsements, anchors=anchors, at=at, unchecked=unchecked)


@dataclass(slots=True, kw_only=True)
class _Walk:
    """One piece of evidence, with what was found so far; a link that is not found yet has no attribute."""

    evidence: ParsedAzureEvidence
    at: datetime
    told: tuple[Check, ...] = ()
    missing: EndorsementError | None = None
    cpu: VerifiedSnpReport | VerifiedIntelQuote = field(init=False)
    runtime: RuntimeClaims = field(init=False)
    quote: ParsedTpmQuote = field(init=False)
    pcrs: tuple[tuple[int, bytes], ...] = field(init=False)

    def outcome(self) -> VerifiedAzureEvidence:
        """Return what was verified, once every step has been taken."""
        return VerifiedAzureEvidence(
            evidence=self.evidence, cpu=self.cpu, runtime=self.runtime, quote=self.quote, pcrs=self.pcrs, at=self.at
        )


# -- the steps


def _level(walk: _Walk) -> None:
    """Require that the paravisor itself asked for the SNP report: whoever sits at VMPL 1 or above is its guest."""
    cpu = walk.evidence.cpu
    if isinstance(cpu, ParsedSnpEvidence) and cpu.report.vmpl != 0:
        raise VerificationError(
            f"the SNP report was asked for at VMPL {cpu.report.vmpl}, and the paravisor runs at VMPL 0",
            code="azure-vmpl-unexpected",
            field="VMPL",
            offset=0x030,
            expected="0",
            got=str(cpu.report.vmpl),
        )


def _runtime_data(walk: _Walk) -> None:
    evidence = walk.evidence
    wanted = evidence.hcl.runtime_digest
    found = [("REPORT_DATA", evidence.cpu_report_data)]
    if isinstance(evidence.cpu, ParsedQuote):
        found.append(("REPORTDATA of the TDREPORT", evidence.hcl.td_report_data))
    for name, value in found:
        if not hmac.compare_digest(wanted, value):
            raise BindingError(
                f"{name} does not commit to the runtime claims",
                code="azure-runtime-data-mismatch",
                field=name,
                expected=wanted.hex(),
                got=value.hex(),
            )


def _td_report(walk: _Walk) -> None:
    """Require that quote and TDREPORT are of one TD; only the quote is signed, and a splice is no honest mistake."""
    cpu, hcl = walk.evidence.cpu, walk.evidence.hcl
    quoted = cpu.body.raw[_TD_INFO_OFFSET:][:TD_INFO_BYTES] if isinstance(cpu, ParsedQuote) else b""
    if not hmac.compare_digest(quoted, hcl.td_info):
        raise BindingError(
            "the TDREPORT in the HCL report and the TD quote are of different TDs",
            code="azure-td-report-mismatch",
            field="TDINFO",
            expected=quoted.hex(),
            got=hcl.td_info.hex(),
        )


def _claims(walk: _Walk) -> None:
    walk.runtime = parse_runtime_claims(walk.evidence.hcl.runtime_data)


def _signature(walk: _Walk) -> None:
    """Require the signature of the runtime claims' key; nothing else in the evidence is taken for a key."""
    require_signed(walk.evidence.tpm.message, walk.evidence.tpm.signature, walk.runtime.ak)


def _quote(walk: _Walk) -> None:
    walk.quote = parse_tpm_quote(walk.evidence.tpm.message)


def _user_data(walk: _Walk) -> None:
    """From version 2 on the form says that both places carry the same; one that does not is another's user data."""
    user_data = walk.runtime.user_data or b""
    wanted = walk.quote.extra_data.ljust(64, b"\0")
    if not hmac.compare_digest(wanted, user_data):
        raise BindingError(
            "the user data among the runtime claims does not repeat the extraData of the TPM's quote",
            code="azure-user-data-mismatch",
            field="user-data",
            expected=wanted.hex(),
            got=user_data.hex(),
        )


def _pcrs(walk: _Walk) -> None:
    walk.pcrs = require_pcr_values(walk.quote, walk.evidence.tpm.pcrs)


# -- the numbered procedure, and how each step is told


def _always(_evidence: ParsedAzureEvidence) -> bool:
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One check: its id, its clause, what it does, how its success is told, and of which evidence it is made."""

    id: str
    clause: str
    run: Callable[[_Walk], None]
    tell: Callable[[VerifiedAzureEvidence], tuple[str, str]]
    applies: Callable[[ParsedAzureEvidence], bool] = _always


PROCEDURE: tuple[Step, ...] = (
    Step(
        id="azure.vmpl",
        clause="azure-cvm.md A08, 6",
        run=_level,
        tell=lambda _: ("VMPL 0", "VMPL 0"),
        applies=lambda e: isinstance(e.cpu, ParsedSnpEvidence),
    ),
    Step(
        id="azure.runtime_data",
        clause="azure-cvm.md A03",
        run=_runtime_data,
        tell=lambda v: ("the digest of the runtime claims in REPORT_DATA", v.evidence.hcl.runtime_digest.hex()),
    ),
    Step(
        id="azure.td_report",
        clause="azure-cvm.md 4",
        run=_td_report,
        tell=lambda _: ("TDREPORT and quote of one TD", f"{TD_INFO_BYTES} bytes of TDINFO agree"),
        applies=lambda e: isinstance(e.cpu, ParsedQuote),
    ),
    Step(
        id="azure.claims",
        clause="azure-cvm.md A02",
        run=_claims,
        tell=lambda v: ("one attestation key, RSA of 2048 bits or more", f"RSA of {v.runtime.ak.key_size} bits"),
    ),
    Step(
        id="azure.tpm_signature",
        clause="azure-cvm.md A04",
        run=_signature,
        tell=lambda v: (
            "the attestation key of the runtime claims over the whole quote",
            f"verifies over {len(v.evidence.tpm.message)} bytes",
        ),
    ),
    Step(
        id="azure.tpm_quote",
        clause="TPM 2.0 Library, part 2, TPMS_ATTEST; azure-cvm.md A05",
        run=_quote,
        tell=lambda v: ("a quote made by a TPM, nothing left over", f"reset {v.quote.reset_count}"),
    ),
    Step(
        id="azure.user_data",
        clause="azure-cvm.md 9",
        run=_user_data,
        tell=lambda v: ("the quote's extraData, then zeros", (v.runtime.user_data or b"").hex()),
        applies=lambda e: e.form_version > 1,
    ),
    Step(
        id="azure.pcr_digest",
        clause="azure-cvm.md A07",
        run=_pcrs,
        tell=lambda v: (f"SHA-256 bank, digest {v.quote.pcr_digest.hex()}", f"{len(v.pcrs)} values have this digest"),
    ),
)
"""What ``verify_azure_evidence`` does once the CPU's report was verified, in order."""


def _steps(evidence: ParsedAzureEvidence) -> tuple[Step, ...]:
    return tuple(step for step in PROCEDURE if step.applies(evidence))


def _format() -> Check:
    return Check(
        id="azure.format",
        outcome=Outcome.PASS,
        expected="an HCL report of a known version, sizes that agree, every other byte zero",
        got="as expected",
        clause="azure-cvm.md A01",
    )


def _passed(verified: VerifiedAzureEvidence) -> Iterator[Check]:
    yield _format()
    for step in _steps(verified.evidence):
        expected, got = step.tell(verified)
        yield Check(id=step.id, outcome=Outcome.PASS, expected=expected, got=got, clause=step.clause)


def _refused(evidence: ParsedAzureEvidence, failure: AttestError) -> Iterator[Check]:
    """Tell the steps up to the failed one; when the CPU's report is what failed, none of them counts as passed."""
    yield _format()
    steps = _steps(evidence)
    ids = [step.id for step in steps]
    failed = ids.index(failure.check) if failure.check in ids else -1
    for number, step in enumerate(steps):
        if number < failed:
            outcome, expected, got = Outcome.PASS, "", "holds"
        elif number == failed:
            outcome, expected, got = Outcome.FAIL, failure.expected or "", failure.got or failure.message
        else:
            outcome, expected, got = Outcome.NOT_EVALUATED, "", "an earlier check failed"
        yield Check(id=step.id, outcome=outcome, expected=expected, got=got, clause=step.clause)

"""Everything that Intel's collateral has to say about one quote: T07 to T12 of specs/intel-tdx-sgx.md.

``STEPS`` is the numbered procedure. A missing or stale piece is held back until every other step has spoken, so
that evidence which is plainly false is called false (exit 4) and not merely unjudged (exit 5).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from attest.checks import Unchecked
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Certificate, Issuer
from attest.errors import AttestError, ChainError, EndorsementError, SignatureError, VerificationError
from attest.evidence.intel.collateral import SignedCollateral, find_qe_identity, find_tcb_info
from attest.evidence.intel.dates import CollateralDates, dates_of
from attest.evidence.intel.evaluation import (
    PlatformFacts,
    QeFacts,
    TcbEvaluation,
    evaluate_tcb,
    find_module,
    require_intel_qe,
    require_qe,
)
from attest.evidence.intel.qe_identity import QeIdentity
from attest.evidence.intel.revocation import PckCrls, find_pck_crls
from attest.evidence.intel.tcb_info import ComponentLevel, TcbInfo, TdxModuleIdentity

__all__ = ["STEPS", "CollateralJudgement", "CollateralStep", "VerifiedCollateral", "judge_collateral"]


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCollateral:
    """What collateral says about one platform. Built by ``judge_collateral`` and ``CollateralJudgement`` only.

    Attributes:
        crls: the lists of the PCK's CA and of the root; None when revocation was left unchecked and one was missing.
        tcb_info: None when the TCB was left unchecked.
        qe_identity: likewise.
        evaluation: likewise.
        dates: over everything that was relied on, with the PCK certificate and its CA.
        unchecked: the relaxations that were made use of.
    """

    crls: PckCrls | None
    tcb_info: SignedCollateral[TcbInfo] | None
    qe_identity: SignedCollateral[QeIdentity] | None
    evaluation: TcbEvaluation | None
    dates: CollateralDates
    unchecked: tuple[Unchecked, ...]


def judge_collateral(
    *,
    platform: PlatformFacts,
    qe: QeFacts,
    pck: Certificate,
    ca: Certificate,
    root: Issuer,
    endorsements: Endorsements,
    at: datetime,
    unchecked: tuple[Unchecked, ...] = (),
) -> VerifiedCollateral:
    """Judge a platform by Intel's collateral.

    Args:
        platform: from the PCK certificate and the quote's body, whose signatures were verified before.
        qe: the report of the quoting enclave, likewise.
        pck: the PCK certificate, its chain verified.
        ca: the PCK Platform or Processor CA that issued it.
        root: name and key of the anchor that the chain reached; all collateral must reach the same.
        endorsements: everything at hand; nothing of it is trusted.
        at: moment of appraisal, aware; both ends of every validity are included.
        unchecked: ``revocation`` tolerates that no current list is at hand; ``tcb`` leaves out the TCB, and compares
            the quoting enclave with constants instead. A revocation that is at hand refuses all the same.

    Raises:
        RevokedError: ``certificate-revoked``.
        SignatureError: ``collateral-signature-invalid``.
        ChainError: ``crl-signature-invalid``, or a TCB Signing certificate that is not the root's.
        VerificationError: ``qe-identity-mismatch``, ``tdx-module-mismatch``, ``tdx-module-unknown``,
            ``tcb-not-supported`` or ``tcb-revoked``.
        EndorsementError: a piece is missing, of another platform, out of date or not valid yet.
    """
    judgement = CollateralJudgement(
        platform=platform,
        qe=qe,
        pck=pck,
        ca=ca,
        root=root,
        endorsements=endorsements,
        at=at,
        unchecked=unchecked,
    )
    held_back: EndorsementError | None = None
    for step in STEPS:
        try:
            step.run(judgement)
        except EndorsementError as exc:
            exc.check = f"{platform.tee}.{step.name}"
            held_back = held_back or exc
        except AttestError as exc:
            exc.check = f"{platform.tee}.{step.name}"
            raise
    if held_back is not None:
        raise held_back
    return judgement.outcome()


class CollateralJudgement:
    """One quote and the collateral at hand, filled in step by step.

    A step whose piece an earlier one did not find does nothing; who runs the steps must not go on to ``outcome``
    after a refusal.
    """

    def __init__(
        self,
        *,
        platform: PlatformFacts,
        qe: QeFacts,
        pck: Certificate,
        ca: Certificate,
        root: Issuer,
        endorsements: Endorsements,
        at: datetime,
        unchecked: tuple[Unchecked, ...],
    ) -> None:
        """Take what there is to judge; see ``judge_collateral``."""
        self.platform = platform
        self.qe = qe
        self.pck = pck
        self.ca = ca
        self.root = root
        self.endorsements = endorsements
        self.at = at
        self.may_skip_revocation = tuple(u for u in unchecked if u.check == "revocation")
        self.skip_tcb = tuple(u for u in unchecked if u.check == "tcb")
        self.unchecked: tuple[Unchecked, ...] = self.skip_tcb
        self.crls: PckCrls | None = None
        self.tcb_info: SignedCollateral[TcbInfo] | None = None
        self.qe_identity: SignedCollateral[QeIdentity] | None = None
        self.qe_level: ComponentLevel | None = None
        self.module_identity: TdxModuleIdentity | None = None
        self.evaluation: TcbEvaluation | None = None

    def find_revocation(self) -> None:
        """T07: the PCK certificate and its CA are on no list, and both lists are current."""
        try:
            self.crls = find_pck_crls(self.endorsements.crls, pck=self.pck, ca=self.ca, root=self.root, at=self.at)
        except EndorsementError:
            if not self.may_skip_revocation:
                raise
            self.unchecked = (*self.may_skip_revocation, *self.skip_tcb)

    def find_tcb_info(self) -> None:
        """T08, T09: a TCB info of this platform, signed under the same root, and current."""
        if not self.skip_tcb:
            self.tcb_info = self._tcb_info()

    def find_qe_identity(self) -> None:
        """T08, T10: a QE identity of this TEE, likewise, and the quoting enclave is the one that it describes."""
        if self.skip_tcb:
            require_intel_qe(self.platform.tee, self.qe)
        else:
            self.qe_identity = self._qe_identity()
            self.qe_level = require_qe(self.qe_identity.content, self.qe)

    def find_module(self) -> None:
        """T11: the TDX module is the one that the TCB info describes; SGX has none."""
        if self.tcb_info is not None and self.platform.module is not None:
            self.module_identity = find_module(self.tcb_info.content, self.platform.module)

    def find_tcb(self) -> None:
        """T12: the levels that cover platform, module and quoting enclave, and all of them together."""
        if self.skip_tcb:
            self._require_nothing_negative()
        elif self.tcb_info is not None and self.qe_identity is not None and self.qe_level is not None:
            self.evaluation = self._evaluate(self.tcb_info, self.qe_identity, self.qe_level, self.module_identity)

    def outcome(self) -> VerifiedCollateral:
        """Return everything that was found, after every step has passed."""
        pieces = [(c.not_before, c.not_after) for c in (self.pck, self.ca)]
        if self.crls is not None:
            pieces += [(crl.this_update, crl.next_update) for crl in (self.crls.pck, self.crls.root)]
        for document in (self.tcb_info, self.qe_identity):
            if document is not None:
                pieces.append((document.content.issue_date, document.content.next_update))
                pieces.append((document.signing.not_before, document.signing.not_after))
        return VerifiedCollateral(
            crls=self.crls,
            tcb_info=self.tcb_info,
            qe_identity=self.qe_identity,
            evaluation=self.evaluation,
            dates=dates_of(pieces),
            unchecked=self.unchecked,
        )

    def _tcb_info(self) -> SignedCollateral[TcbInfo]:
        platform = self.platform
        return find_tcb_info(
            tee=platform.tee,
            fmspc=platform.fmspc,
            pce_id=platform.pce_id,
            endorsements=self.endorsements,
            root=self.root,
            at=self.at,
        )

    def _qe_identity(self) -> SignedCollateral[QeIdentity]:
        return find_qe_identity(tee=self.platform.tee, endorsements=self.endorsements, root=self.root, at=self.at)

    def _evaluate(
        self,
        info: SignedCollateral[TcbInfo],
        identity: SignedCollateral[QeIdentity],
        qe_level: ComponentLevel,
        module_identity: TdxModuleIdentity | None,
    ) -> TcbEvaluation:
        return evaluate_tcb(
            info=info.content,
            identity=identity.content,
            platform=self.platform,
            module_identity=module_identity,
            qe_level=qe_level,
        )

    def _require_nothing_negative(self) -> None:
        """With the TCB left unchecked: what genuine, current collateral at hand says against the platform still counts.

        That nothing fits, or that nothing covers this platform, is what ``unchecked`` tolerates.
        """
        module = self.platform.module
        try:
            info, identity = self._tcb_info(), self._qe_identity()
            qe_level = require_qe(identity.content, self.qe)
            module_identity = None if module is None else find_module(info.content, module)
            self._evaluate(info, identity, qe_level, module_identity)
        except (EndorsementError, SignatureError, ChainError):
            return
        except VerificationError as exc:
            if exc.code != "tcb-not-supported":
                raise


@dataclass(frozen=True, slots=True, kw_only=True)
class CollateralStep:
    """One step: the name after ``tdx.`` or ``sgx.`` in the id of its check, its clause, and what it does."""

    name: str
    clause: str
    run: Callable[[CollateralJudgement], None]


STEPS: tuple[CollateralStep, ...] = (
    CollateralStep(name="revocation", clause="intel-tdx-sgx.md T07", run=CollateralJudgement.find_revocation),
    CollateralStep(name="tcb_info", clause="intel-tdx-sgx.md T08, T09", run=CollateralJudgement.find_tcb_info),
    CollateralStep(name="qe_identity", clause="intel-tdx-sgx.md T08, T10", run=CollateralJudgement.find_qe_identity),
    CollateralStep(name="module", clause="intel-tdx-sgx.md T11", run=CollateralJudgement.find_module),
    CollateralStep(name="tcb", clause="intel-tdx-sgx.md T12", run=CollateralJudgement.find_tcb),
)
"""What ``judge_collateral`` does, in order."""

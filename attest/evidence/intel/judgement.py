"""Result of judging one platform by Intel's collateral, and the pieces of collateral at hand.

``attest.evidence.intel.verify`` judges by it, T07 to T12 of specs/intel-tdx-sgx.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from attest.checks import Unchecked
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Certificate, Issuer
from attest.errors import ChainError, EndorsementError, SignatureError, VerificationError
from attest.evidence.intel.collateral import SignedCollateral, find_qe_identity, find_tcb_info
from attest.evidence.intel.dates import CollateralDates, dates_of
from attest.evidence.intel.evaluation import TcbEvaluation, evaluate_tcb, find_module, require_qe
from attest.evidence.intel.facts import PlatformFacts, QeFacts
from attest.evidence.intel.qe_identity import QeIdentity
from attest.evidence.intel.revocation import PckCrls, find_pck_crls
from attest.evidence.intel.tcb_info import TcbInfo
from attest.evidence.procedure import tolerated


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCollateral:
    """Result of judging one platform by collateral. Built by ``judge_collateral`` only.

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


@dataclass(frozen=True, slots=True, kw_only=True)
class CollateralAtHand:
    """A platform whose certificates were verified, and everything at hand that may speak about it.

    Attributes:
        platform: from the PCK certificate and the quote's body, whose signatures were verified before.
        qe: the report of the quoting enclave, likewise.
        pck: the PCK certificate, its chain verified.
        ca: the PCK Platform or Processor CA that issued it.
        root: name and key of the anchor that the chain reached; all collateral must reach the same.
        endorsements: everything at hand; nothing of it is trusted.
        at: moment of appraisal, aware; both ends of every validity are included.
    """

    platform: PlatformFacts
    qe: QeFacts
    pck: Certificate
    ca: Certificate
    root: Issuer
    endorsements: Endorsements
    at: datetime

    def crls(self, unchecked: tuple[Unchecked, ...]) -> tuple[PckCrls | None, tuple[Unchecked, ...]]:
        """Return the current lists of both issuers, or none and the decisions that tolerate it."""
        try:
            return find_pck_crls(self.endorsements.crls, pck=self.pck, ca=self.ca, root=self.root, at=self.at), ()
        except EndorsementError as exc:
            return None, tolerated(exc, unchecked, "revocation")

    def tcb_info(self) -> SignedCollateral[TcbInfo]:
        """Return a TCB info of this platform, signed under the same root, and current."""
        platform = self.platform
        return find_tcb_info(
            tee=platform.tee,
            fmspc=platform.fmspc,
            pce_id=platform.pce_id,
            endorsements=self.endorsements,
            root=self.root,
            at=self.at,
        )

    def qe_identity(self) -> SignedCollateral[QeIdentity]:
        """Return a QE identity of this TEE, likewise."""
        return find_qe_identity(tee=self.platform.tee, endorsements=self.endorsements, root=self.root, at=self.at)

    def require_nothing_negative(self) -> None:
        """With the TCB left unchecked: what genuine, current collateral says against the platform still counts.

        That nothing fits, or that nothing covers this platform, is what ``unchecked`` tolerates.
        """
        module = self.platform.module
        try:
            info, identity = self.tcb_info(), self.qe_identity()
            evaluate_tcb(
                info=info.content,
                identity=identity.content,
                platform=self.platform,
                qe_level=require_qe(identity.content, self.qe),
                module_identity=None if module is None else find_module(info.content, module),
            )
        except (EndorsementError, SignatureError, ChainError):
            return
        except VerificationError as exc:
            if exc.code != "tcb-not-supported":
                raise

    def dates(
        self,
        crls: PckCrls | None,
        tcb_info: SignedCollateral[TcbInfo] | None,
        qe_identity: SignedCollateral[QeIdentity] | None,
    ) -> CollateralDates:
        """Return the dates over everything that was relied on."""
        pieces = [(c.not_before, c.not_after) for c in (self.pck, self.ca)]
        if crls is not None:
            pieces += [(crl.this_update, crl.next_update) for crl in (crls.pck, crls.root)]
        for document in (tcb_info, qe_identity):
            if document is not None:
                pieces.append((document.content.issue_date, document.content.next_update))
                pieces.append((document.signing.not_before, document.signing.not_after))
        return dates_of(pieces)

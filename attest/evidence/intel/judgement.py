"""Result of judging one platform by Intel's collateral, and the pieces of collateral available.

``attest.evidence.intel.verify`` judges by it, T07 to T12 of specs/intel-tdx-sgx.md.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from attest.checks import Unchecked
from attest.endorsements.chains import find_current_crl, require_not_listed
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Certificate, Crl, Issuer
from attest.errors import EndorsementError, VerificationError
from attest.evidence.intel.collateral import (
    SignedCollateral,
    find_qe_identity,
    find_tcb_info,
    genuine_qe_identity,
    genuine_tcb_info,
)
from attest.evidence.intel.evaluation import (
    PlatformFacts,
    TcbEvaluation,
    find_module,
    level_of_module,
    level_running,
    platform_levels,
    require_none_revoked,
    running_module,
)
from attest.evidence.intel.qe_identity import QeIdentity
from attest.evidence.intel.quoting_enclave import require_qe
from attest.evidence.intel.tcb_info import TcbInfo
from attest.evidence.procedure import tolerated
from attest.evidence.sgx.structure import ParsedEnclaveReport


@dataclass(frozen=True, slots=True, kw_only=True)
class PckCrls:
    """The two current lists that a PCK certificate was looked up in.

    Attributes:
        pck: of the CA that issued it, Platform or Processor.
        root: of the Intel SGX Root CA.
    """

    pck: Crl
    root: Crl


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedCollateral:
    """Result of judging one platform by collateral. Built by ``judge_collateral`` only.

    Attributes:
        crls: the lists of the PCK's CA and of the root; None when revocation was left unchecked and one was missing.
        tcb_info: None when the TCB was left unchecked.
        qe_identity: as above.
        evaluation: as above.
        unchecked: the relaxations that were made use of.
    """

    crls: PckCrls | None
    tcb_info: SignedCollateral[TcbInfo] | None
    qe_identity: SignedCollateral[QeIdentity] | None
    evaluation: TcbEvaluation | None
    unchecked: tuple[Unchecked, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class CollateralAtHand:
    """A platform whose certificates were verified, and everything available about it.

    Attributes:
        platform: from the PCK certificate and the quote's body, whose signatures were verified before.
        qe: the report of the quoting enclave, as above.
        pck: the PCK certificate, its chain verified.
        ca: the PCK Platform or Processor CA that issued it.
        root: name and key of the anchor that the chain reached; all collateral must reach the same.
        at: moment of appraisal, aware; both ends of every validity are included.
    """

    platform: PlatformFacts
    qe: ParsedEnclaveReport
    pck: Certificate
    ca: Certificate
    root: Issuer
    endorsements: Endorsements
    at: datetime

    def crls(self, unchecked: tuple[Unchecked, ...]) -> tuple[PckCrls | None, tuple[Unchecked, ...]]:
        """Return the current lists of both issuers, or none and the decisions that tolerate it.

        A certificate on any genuine list is revoked, however old the list; only then are the dates judged. Unlike the
        lists of other vendors, these are current up to and including nextUpdate (specs/intel-tdx-sgx.md, 14).
        """
        crls, issuer = self.endorsements.crls, self.ca.as_issuer()
        require_not_listed(crls, issuer, self.pck.serial, name=self.pck.name)
        require_not_listed(crls, self.root, self.ca.serial, name=self.ca.name)
        try:
            pck = find_current_crl(crls, issuer, at=self.at, next_update_included=True)
            root = find_current_crl(crls, self.root, at=self.at, next_update_included=True)
        except EndorsementError as exc:
            return None, tolerated(exc, unchecked, "revocation")
        return PckCrls(pck=pck, root=root), ()

    def tcb_info(self) -> SignedCollateral[TcbInfo]:
        """Return a TCB info of this platform, signed under the same root, and current."""
        return find_tcb_info(platform=self.platform, endorsements=self.endorsements, root=self.root, at=self.at)

    def qe_identity(self) -> SignedCollateral[QeIdentity]:
        """Return a QE identity of this TEE, in the same way."""
        return find_qe_identity(tee=self.platform.tee, endorsements=self.endorsements, root=self.root, at=self.at)

    def require_nothing_negative(self) -> None:
        """Refuse a platform by genuine collateral against it, each document on its own, be it out of date.

        That a document is missing, or that nothing covers this platform, is not negative.

        Raises:
            VerificationError: ``qe-identity-mismatch``, ``tdx-module-mismatch``, ``tdx-module-unknown`` (by a current
                TCB info alone) or ``tcb-revoked``.
            RevokedError: ``certificate-revoked``, of the TCB Signing certificate.
        """
        platform, pool = self.platform, self.endorsements
        identity = genuine_qe_identity(tee=platform.tee, endorsements=pool, root=self.root, at=self.at)
        if identity is not None:
            with _passing("tcb-not-supported"):
                require_none_revoked({"QE": require_qe(identity, self.qe)})
        info = genuine_tcb_info(platform=platform, endorsements=pool, root=self.root, at=self.at)
        if info is not None:
            self._require_nothing_in(info)

    def _require_nothing_in(self, info: TcbInfo) -> None:
        facts = self.platform.module
        # A module that is newer than the document is not in it, which is held against no platform.
        newer = () if info.issue_date <= self.at <= info.next_update else ("tdx-module-unknown",)
        with _passing("tcb-not-supported", *newer):
            if facts is not None:
                require_none_revoked({"TDX module": level_of_module(find_module(info, facts), facts)})
        now = running_module(facts)
        with _passing("tcb-not-supported", "tdx-module-unknown"):
            if now is not None:
                require_none_revoked({"TDX module that runs now": level_running(info, now)})
        with _passing("tcb-not-supported"):
            require_none_revoked({"platform": platform_levels(info, self.platform)[1]})


@contextmanager
def _passing(*codes: str) -> Generator[None]:
    """Let refusals of these codes pass."""
    try:
        yield
    except VerificationError as exc:
        if exc.code not in codes:
            raise

"""Collateral of simulated quotes, and the values of an ordinary machine.

Each part can be replaced before it is put into a bundle, and each member of the bundle after it, without
consistency checks.

Spec: specs/intel-tdx-sgx.md, sections 8, 17 and 18.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, NamedTuple

from attest.endorsements.intel import intel_document
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate, parse_crl, pem_blocks
from attest.evidence.intel.quote import Tee
from attest_simulator.intel.certificates import issuer_chain
from attest_simulator.intel.crls import simulated_intel_crl
from attest_simulator.intel.keys import IntelAuthority
from attest_simulator.intel.tcb import (
    QeIdentity,
    SvnLevel,
    TcbInfo,
    TcbLevel,
    TdxModule,
    TdxModuleIdentity,
    compact_json,
    components,
    signature_of,
    signed_document,
)

CURRENT_COMPONENTS: Final = (3, 3, 2, 2, 4, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0)
"""SGX components of an up-to-date machine."""
CURRENT_PCE_SVN: Final = 13
CURRENT_TEE_TCB_SVN: Final = bytes((6, 1, 3)).ljust(16, b"\0")
"""TDX module 1, ISVSVN 6, SEAM loader 3."""
QE_MR_SIGNER: Final[Mapping[Tee, bytes]] = {
    "sgx": bytes.fromhex("8c4f5775d796503e96137f77c68a829a0056ac8ded70140b081b094490c57bff"),
    "tdx": bytes.fromhex("dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5"),
}
"""The real ones: verifiers without QE identity compare with constants (section 5)."""
QE_ISV_PROD_ID: Final[Mapping[Tee, int]] = {"sgx": 1, "tdx": 2}
QE_ISV_SVN: Final[Mapping[Tee, int]] = {"sgx": 8, "tdx": 4}

_OLDER_COMPONENTS = (2, 2, 2, 2, 3, 1, 0, 5, 0, 0, 0, 0, 0, 0, 0, 0)
_OLDEST_PCE_SVN = 5
_TDX_COMPONENTS = (5, 0, 3, *(13 * [0]))
_OLDER_TDX_COMPONENTS = (5, 0, 2, *(13 * [0]))
_SGX_LABELS: tuple[tuple[str | None, str | None], ...] = (
    ("BIOS", "Early Microcode Update"),
    ("OS/VMM", "SGX Late Microcode Update"),
    ("OS/VMM", "TXT SINIT"),
    ("BIOS", None),
    ("BIOS", None),
    ("BIOS", None),
    (None, None),
    ("OS/VMM", "SEAMLDR ACM"),
)
_TDX_LABELS: tuple[tuple[str | None, str | None], ...] = (
    ("OS/VMM", "TDX Module"),
    ("OS/VMM", "TDX Module"),
    ("OS/VMM", "TDX Late Microcode Update"),
)
_CURRENT_DATE = datetime(2024, 11, 13, tzinfo=UTC)
_OLDER_DATE = datetime(2024, 3, 13, tzinfo=UTC)
_OLDEST_DATE = datetime(2018, 1, 4, tzinfo=UTC)
_EVALUATION_DATA_NUMBER = 18
_CURRENT_FOR = timedelta(days=45)


class Period(NamedTuple):
    """Period of currency, both ends included."""

    start: datetime
    end: datetime


def current_period(at: datetime) -> Period:
    """Return 45 days from the first of the month of ``at`` (UTC): current then and for two weeks after the month."""
    moment = at.astimezone(UTC)
    start = datetime(moment.year, moment.month, 1, tzinfo=UTC)
    return Period(start, start + _CURRENT_FOR)


def default_levels(tee: Tee) -> tuple[TcbLevel, ...]:
    """Return three levels like a real TCB info: the current one, an older one, and one of 2018."""
    rows = (
        (CURRENT_COMPONENTS, CURRENT_PCE_SVN, _TDX_COMPONENTS, _CURRENT_DATE, "UpToDate", ()),
        (
            _OLDER_COMPONENTS,
            CURRENT_PCE_SVN,
            _OLDER_TDX_COMPONENTS,
            _OLDER_DATE,
            "OutOfDate",
            ("INTEL-SA-01036", "INTEL-SA-01079"),
        ),
        (
            _OLDER_COMPONENTS,
            _OLDEST_PCE_SVN,
            _OLDER_TDX_COMPONENTS,
            _OLDEST_DATE,
            "OutOfDate",
            ("INTEL-SA-00106", "INTEL-SA-01036", "INTEL-SA-01079"),
        ),
    )
    return tuple(
        TcbLevel(
            sgx=components(sgx, _SGX_LABELS),
            pce_svn=pce_svn,
            tdx=components(tdx, _TDX_LABELS) if tee == "tdx" else None,
            date=date,
            status=status,
            advisory_ids=advisories,
        )
        for sgx, pce_svn, tdx, date, status, advisories in rows
    )


def default_module_identities() -> tuple[TdxModuleIdentity, ...]:
    """Return identities of TDX modules 3 and 1; the latter is current from ISVSVN 6."""
    return (
        TdxModuleIdentity(name="TDX_03", levels=(SvnLevel(isv_svn=3, date=_CURRENT_DATE),)),
        TdxModuleIdentity(
            name="TDX_01",
            levels=(
                SvnLevel(isv_svn=6, date=_CURRENT_DATE),
                SvnLevel(isv_svn=4, date=_OLDER_DATE, status="OutOfDate", advisory_ids=("INTEL-SA-01099",)),
            ),
        ),
    )


def default_tcb_info(
    tee: Tee,
    *,
    fmspc: bytes,
    pce_id: bytes,
    period: Period,
    evaluation_data_number: int = _EVALUATION_DATA_NUMBER,
) -> TcbInfo:
    """Return a TCB info under which the default machine is up to date; ``dataclasses.replace`` modifies it.

    Args:
        tee: of the list.
        fmspc: 6 bytes.
        pce_id: 2 bytes, in the order of the PCK certificate.
        period: issue date and next update.
        evaluation_data_number: ``tcbEvaluationDataNumber``.
    """
    return TcbInfo(
        tee=tee,
        fmspc=fmspc.hex().upper(),
        pce_id=pce_id.hex().upper(),
        issue_date=period.start,
        next_update=period.end,
        evaluation_data_number=evaluation_data_number,
        levels=default_levels(tee),
        module=TdxModule() if tee == "tdx" else None,
        module_identities=default_module_identities() if tee == "tdx" else None,
    )


def default_qe_identity(
    tee: Tee, *, period: Period, evaluation_data_number: int = _EVALUATION_DATA_NUMBER
) -> QeIdentity:
    """Return the identity of the QE of SGX or of TDX, with one older level for SGX."""
    current = SvnLevel(isv_svn=QE_ISV_SVN[tee], date=_CURRENT_DATE)
    older = SvnLevel(isv_svn=6, date=_OLDER_DATE, status="OutOfDate", advisory_ids=("INTEL-SA-00615",))
    return QeIdentity(
        kind="QE" if tee == "sgx" else "TD_QE",
        issue_date=period.start,
        next_update=period.end,
        evaluation_data_number=evaluation_data_number,
        mr_signer=QE_MR_SIGNER[tee],
        isv_prod_id=QE_ISV_PROD_ID[tee],
        levels=(current, older) if tee == "sgx" else (current,),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class IntelCollateral:
    """All collateral of one quote in dcap-qvl's form (``QuoteCollateralV3``).

    Attributes:
        pck_crl_issuer_chain: PEM of the PCK's CA and the root.
        root_ca_crl: DER.
        pck_crl: DER.
        tcb_info_issuer_chain: PEM of TCB Signing and the root.
        tcb_info: the signed JSON.
        tcb_info_signature: hex.
        qe_identity_issuer_chain: PEM of TCB Signing and the root.
        qe_identity: the signed JSON.
        qe_identity_signature: hex.
        pck_certificate_chain: PEM of PCK, CA and root, for quotes without it.
    """

    pck_crl_issuer_chain: str
    root_ca_crl: bytes
    pck_crl: bytes
    tcb_info_issuer_chain: str
    tcb_info: str
    tcb_info_signature: str
    qe_identity_issuer_chain: str
    qe_identity: str
    qe_identity_signature: str
    pck_certificate_chain: str | None = None

    def to_json(self) -> bytes:
        """Return the bundle as ``QuoteCollateralV3`` JSON, without blanks."""
        value: dict[str, object] = {
            "pck_crl_issuer_chain": self.pck_crl_issuer_chain,
            "root_ca_crl": self.root_ca_crl.hex(),
            "pck_crl": self.pck_crl.hex(),
            "tcb_info_issuer_chain": self.tcb_info_issuer_chain,
            "tcb_info": self.tcb_info,
            "tcb_info_signature": self.tcb_info_signature,
            "qe_identity_issuer_chain": self.qe_identity_issuer_chain,
            "qe_identity": self.qe_identity,
            "qe_identity_signature": self.qe_identity_signature,
        }
        if self.pck_certificate_chain is not None:
            value["pck_certificate_chain"] = self.pck_certificate_chain
        return compact_json(value).encode("ascii")

    def endorsements(self) -> Endorsements:
        """Return it as endorsements.

        Raises:
            EvidenceError: a replaced part is malformed.
        """
        chains = (
            self.pck_crl_issuer_chain,
            self.tcb_info_issuer_chain,
            self.qe_identity_issuer_chain,
            self.pck_certificate_chain or "",
        )
        return Endorsements(
            certificates=tuple(parse_certificate(block) for chain in chains for _, block in pem_blocks(chain.encode())),
            crls=(parse_crl(self.pck_crl), parse_crl(self.root_ca_crl)),
            documents=(
                intel_document("tcb-info", self.tcb_info.encode(), self.tcb_info_signature),
                intel_document("qe-identity", self.qe_identity.encode(), self.qe_identity_signature),
            ),
        )

    def files(self) -> Mapping[str, bytes]:
        """Return it as raw answers of PCS, by file names."""
        tcb_info = signed_document("tcbInfo", self.tcb_info, signature=self.tcb_info_signature)
        identity = signed_document("enclaveIdentity", self.qe_identity, signature=self.qe_identity_signature)
        return {
            "tcb_info.json": tcb_info,
            "tcb_info_issuer_chain.pem": self.tcb_info_issuer_chain.encode("ascii"),
            "qe_identity.json": identity,
            "qe_identity_issuer_chain.pem": self.qe_identity_issuer_chain.encode("ascii"),
            "pck_crl.der": self.pck_crl,
            "pck_crl_issuer_chain.pem": self.pck_crl_issuer_chain.encode("ascii"),
            "root_ca_crl.der": self.root_ca_crl,
        }


def intel_collateral(
    *,
    tcb_info: TcbInfo,
    qe_identity: QeIdentity,
    crl_period: Period,
    ca: IntelAuthority = IntelAuthority.PLATFORM,
    root_crl_period: Period | None = None,
    revoked: tuple[int, ...] = (),
    root_revoked: tuple[int, ...] = (),
    pck_certificate_chain: str | None = None,
) -> IntelCollateral:
    """Sign the parts and combine them.

    Args:
        tcb_info: TCB info.
        qe_identity: QE identity.
        crl_period: ``thisUpdate`` and ``nextUpdate`` of the list of ``ca``.
        ca: ``PLATFORM`` or ``PROCESSOR``, the issuer of the list.
        root_crl_period: period of the root's list; None: as ``crl_period``.
        revoked: serial numbers of PCK certificates in the CA's list.
        root_revoked: serial numbers of CAs or of TCB Signing in the root's list.
        pck_certificate_chain: PEM to include, or None.
    """
    root = root_crl_period or crl_period
    text, identity = tcb_info.text(), qe_identity.text()
    signing_chain = issuer_chain(IntelAuthority.TCB_SIGNING)
    return IntelCollateral(
        pck_crl_issuer_chain=issuer_chain(ca),
        root_ca_crl=simulated_intel_crl(
            IntelAuthority.ROOT, this_update=root.start, next_update=root.end, revoked=root_revoked
        ),
        pck_crl=simulated_intel_crl(ca, this_update=crl_period.start, next_update=crl_period.end, revoked=revoked),
        tcb_info_issuer_chain=signing_chain,
        tcb_info=text,
        tcb_info_signature=signature_of(text),
        qe_identity_issuer_chain=signing_chain,
        qe_identity=identity,
        qe_identity_signature=signature_of(identity),
        pck_certificate_chain=pck_certificate_chain,
    )

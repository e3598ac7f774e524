"""Facts of a quote and its PCK certificate that collateral judges."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from attest.evidence.intel.pck import PckCertificate
from attest.evidence.intel.quote import ParsedQuote
from attest.evidence.intel.tcb_info import Tee
from attest.evidence.tdx.structure import ParsedTdReport


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFacts:
    """Facts of a TD report about the TDX module.

    Attributes:
        tee_tcb_svn: TEE_TCB_SVN, 16 bytes, of when the TD was started.
        tee_tcb_svn_2: TEE_TCB_SVN_2, 16 bytes, of the module that runs now; None where the body has no such field.
        mr_signer_seam: MRSIGNERSEAM, 48 bytes.
        seam_attributes: SEAMATTRIBUTES, 8 bytes.
    """

    tee_tcb_svn: bytes
    tee_tcb_svn_2: bytes | None
    mr_signer_seam: bytes
    seam_attributes: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class PlatformFacts:
    """Facts of the PCK certificate and the body of a quote about the platform.

    Attributes:
        tee: TEE of the quote.
        fmspc: 6 bytes.
        pce_id: 2 bytes.
        component_svns: 16 numbers.
        pce_svn: PCESVN.
        module: for TDX; None for SGX.
    """

    tee: Tee
    fmspc: bytes
    pce_id: bytes
    component_svns: tuple[int, ...]
    pce_svn: int
    module: ModuleFacts | None


class QeFacts(Protocol):
    """Facts of the quoting enclave's report; a ``ParsedEnclaveReport`` has them."""

    @property
    def misc_select(self) -> int:
        """MISCSELECT as a number."""
        ...

    @property
    def attributes(self) -> bytes:
        """ATTRIBUTES, 16 bytes."""
        ...

    @property
    def mr_signer(self) -> bytes:
        """MRSIGNER, 32 bytes."""
        ...

    @property
    def isv_prod_id(self) -> int:
        """ISVPRODID."""
        ...

    @property
    def isv_svn(self) -> int:
        """ISVSVN."""
        ...


def platform_facts(quote: ParsedQuote, pck: PckCertificate) -> PlatformFacts:
    """Return what a quote and its PCK certificate say, once their signatures were verified."""
    return PlatformFacts(
        tee=quote.tee,
        fmspc=pck.fmspc,
        pce_id=pck.pce_id,
        component_svns=pck.component_svns,
        pce_svn=pck.pce_svn,
        module=_module(quote),
    )


def _module(quote: ParsedQuote) -> ModuleFacts | None:
    body = quote.body
    if not isinstance(body, ParsedTdReport):
        return None
    return ModuleFacts(
        tee_tcb_svn=body.tee_tcb_svn,
        tee_tcb_svn_2=body.tee_tcb_svn_2,
        mr_signer_seam=body.mr_signer_seam,
        seam_attributes=body.seam_attributes,
    )

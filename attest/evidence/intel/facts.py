"""What a quote and its PCK certificate say about a platform, as far as collateral judges it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from attest.evidence.intel.tcb_info import Tee

__all__ = ["ModuleFacts", "PlatformFacts", "QeFacts"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFacts:
    """What a TD report says about the TDX module.

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
    """What the PCK certificate and the body of a quote say about the platform.

    Attributes:
        tee: which TEE the quote is of.
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
    """What the report of the quoting enclave says; a ``ParsedEnclaveReport`` says it."""

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

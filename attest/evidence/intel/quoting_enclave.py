"""The quoting enclave: by Intel's identity of it, or by constants where that is left out (T10)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from attest.errors import VerificationError
from attest.evidence.intel.evaluation import covering, masked
from attest.evidence.intel.qe_identity import QeIdentity
from attest.evidence.intel.tcb_info import ComponentLevel, Tee
from attest.evidence.sgx.structure import ParsedEnclaveReport

_DEBUG = 0x02
_INTEL_QE: Final[Mapping[Tee, tuple[str, int]]] = {
    "sgx": ("8c4f5775d796503e96137f77c68a829a0056ac8ded70140b081b094490c57bff", 1),
    "tdx": ("dc9e2a7c6f948f17474e34a7fc43ed030f7c1563f1babddf6340c82e0e54a8c5", 2),
}
"""MRSIGNER and ISVPRODID of Intel's quoting enclaves (section 5); only for when QE identity is left out."""


def require_qe(identity: QeIdentity, qe: ParsedEnclaveReport) -> ComponentLevel:
    """Require that the quoting enclave is Intel's, and return the level that covers it.

    Raises:
        VerificationError: ``qe-identity-mismatch``, or ``tcb-not-supported`` when no level covers its ISVSVN.

    Spec: specs/intel-tdx-sgx.md, section 10.
    """
    if qe.misc_select & identity.misc_select_mask != identity.misc_select:
        raise _qe_mismatch("MISCSELECT", f"{identity.misc_select:08x}", f"{qe.misc_select:08x}")
    if masked(qe.attributes, identity.attributes_mask) != identity.attributes:
        wanted = f"{identity.attributes.hex()} under mask {identity.attributes_mask.hex()}"
        raise _qe_mismatch("ATTRIBUTES", wanted, qe.attributes.hex())
    if qe.mr_signer != identity.mr_signer:
        raise _qe_mismatch("MRSIGNER", identity.mr_signer.hex(), qe.mr_signer.hex())
    if qe.isv_prod_id != identity.isv_prod_id:
        raise _qe_mismatch("ISVPRODID", str(identity.isv_prod_id), str(qe.isv_prod_id))
    return covering(identity.levels, qe.isv_svn, what="quoting enclave", field="ISVSVN")


def require_intel_qe(tee: Tee, qe: ParsedEnclaveReport) -> None:
    """Require Intel's production quoting enclave by constants, for when QE identity is left out on request.

    The PCE certifies any enclave that may use the provisioning key, so without this step the chain would not prove
    that Intel's quoting enclave made the quote.

    Raises:
        VerificationError: ``qe-identity-mismatch``.

    Spec: specs/intel-tdx-sgx.md, section 5.
    """
    signer, product = _INTEL_QE[tee]
    if qe.mr_signer.hex() != signer:
        raise _qe_mismatch("MRSIGNER", signer, qe.mr_signer.hex())
    if qe.isv_prod_id != product:
        raise _qe_mismatch("ISVPRODID", str(product), str(qe.isv_prod_id))
    if qe.attributes[0] & _DEBUG:
        raise _qe_mismatch("ATTRIBUTES", "DEBUG (bit 1) not set", qe.attributes.hex())


def _qe_mismatch(field: str, expected: str, got: str) -> VerificationError:
    return VerificationError(
        f"the quoting enclave is not Intel's: {field} {got}, expected {expected}",
        code="qe-identity-mismatch",
        field=field,
        expected=expected,
        got=got,
        clause="Intel PCS, QE identity",
    )

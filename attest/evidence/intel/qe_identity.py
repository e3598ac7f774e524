"""QE identity: which enclaves of Intel's may make quotes.

Spec: specs/intel-tdx-sgx.md, section 10; Intel PCS API version 4, enclave identity version 2.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache

from attest.evidence.intel.json_members import read_object
from attest.evidence.intel.tcb_info import MAX_EVALUATION_NUMBER, ComponentLevel, read_component_levels

_REMEMBERED = 64
"""Few, because the Attester chooses the input, and a document read into objects takes ten times its bytes."""


class EnclaveId(enum.StrEnum):
    """The enclaves that Intel publishes an identity of."""

    QE = "QE"
    TD_QE = "TD_QE"
    QVE = "QVE"


@dataclass(frozen=True, slots=True, kw_only=True)
class QeIdentity:
    """A readable QE identity; nothing in it is trusted before its signature is verified.

    Attributes:
        id: QE makes SGX quotes, TD_QE makes TDX quotes, QVE makes none.
        issue_date: first moment at which it counts, included.
        next_update: last moment at which it counts, included.
        misc_select_mask: the bits of it that count.
        attributes: 16 bytes.
        attributes_mask: 16 bytes; which bits of them count.
        mr_signer: 32 bytes.
        levels: highest ISVSVN first, whatever their order in the file.
    """

    id: EnclaveId
    issue_date: datetime
    next_update: datetime
    evaluation_data_number: int
    misc_select: int
    misc_select_mask: int
    attributes: bytes
    attributes_mask: bytes
    mr_signer: bytes
    isv_prod_id: int
    levels: tuple[ComponentLevel, ...]


@lru_cache(maxsize=_REMEMBERED)
def parse_qe_identity(raw: bytes) -> QeIdentity:
    """Read a QE identity: the inner JSON value exactly as served, without ``{"enclaveIdentity": …}`` around it.

    Raises:
        EvidenceError: ``json-invalid``, ``collateral-malformed``, ``hex-invalid`` or ``time-invalid``, with the path.
        UnsupportedError: ``collateral-unsupported``, another version than 2.
    """
    identity = read_object(raw, path="enclaveIdentity")
    identity.constant("version", 2)
    return QeIdentity(
        id=identity.choice("id", EnclaveId),
        issue_date=identity.moment("issueDate"),
        next_update=identity.moment("nextUpdate"),
        evaluation_data_number=identity.integer("tcbEvaluationDataNumber", maximum=MAX_EVALUATION_NUMBER),
        misc_select=int.from_bytes(identity.hex("miscselect", length=4), "big"),
        misc_select_mask=int.from_bytes(identity.hex("miscselectMask", length=4), "big"),
        attributes=identity.hex("attributes", length=16),
        attributes_mask=identity.hex("attributesMask", length=16),
        mr_signer=identity.hex("mrsigner", length=32),
        isv_prod_id=identity.integer("isvprodid", maximum=0xFFFF),
        levels=read_component_levels(identity),
    )

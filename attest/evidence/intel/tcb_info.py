"""TCB info: Intel's statement about the firmware of a kind of platform.

Spec: specs/intel-tdx-sgx.md, section 9; Intel PCS API version 4, TCB info version 3.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Literal, TypeAlias

from attest.evidence.intel.json_members import JsonObject, read_object
from attest.evidence.intel.status import COMPONENT_STATUSES, PLATFORM_STATUSES, TcbStatus

MAX_LEVELS = 256
"""The longest TCB info seen has 19 levels."""
MAX_MODULE_IDENTITIES = 256
"""One for each major version that TEE_TCB_SVN can name."""
MAX_EVALUATION_NUMBER = 0xFFFF_FFFF
COMPONENTS = 16
_MAX_SVN = 0xFF
_MAX_WIDE_SVN = 0xFFFF
_REMEMBERED = 64
"""Few, because the Attester chooses the input, and a document read into objects takes ten times its bytes."""

Tee: TypeAlias = Literal["sgx", "tdx"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbLevel:
    """One level of a platform: it applies from these security version numbers up.

    Attributes:
        sgx_components: 16 numbers, compared with the components in the PCK certificate.
        pce_svn: compared with PCESVN in the PCK certificate.
        tdx_components: 16 numbers, compared with TEE_TCB_SVN; empty in a TCB info of SGX.
    """

    sgx_components: tuple[int, ...]
    pce_svn: int
    tdx_components: tuple[int, ...]
    tcb_date: datetime
    status: TcbStatus
    advisory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ComponentLevel:
    """One level of the TDX module or of the quoting enclave: it applies from this ISVSVN up."""

    isv_svn: int
    tcb_date: datetime
    status: TcbStatus
    advisory_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxModule:
    """Required signer and attributes of the TDX module.

    Attributes:
        mr_signer: 48 bytes, zero for Intel's own.
        attributes: 8 bytes.
        attributes_mask: 8 bytes; which bits of the attributes count.
    """

    mr_signer: bytes
    attributes: bytes
    attributes_mask: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxModuleIdentity:
    """The same for one major version of the TDX module, with its levels.

    Attributes:
        id: ``TDX_01``, in capitals.
        levels: highest ISVSVN first.
    """

    id: str
    module: TdxModule
    levels: tuple[ComponentLevel, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbInfo:
    """A readable TCB info; nothing in it is trusted before its signature is verified.

    Attributes:
        issue_date: first moment at which it counts, included.
        next_update: last moment at which it counts, included.
        fmspc: 6 bytes.
        pce_id: 2 bytes, in the order written.
        levels: highest first, whatever their order in the file.
        module: for TDX; None for SGX.
        module_identities: for TDX since 2023; empty otherwise.
    """

    tee: Tee
    issue_date: datetime
    next_update: datetime
    fmspc: bytes
    pce_id: bytes
    evaluation_data_number: int
    levels: tuple[TcbLevel, ...]
    module: TdxModule | None
    module_identities: tuple[TdxModuleIdentity, ...]

    def module_identity(self, major_version: int) -> TdxModuleIdentity | None:
        """Return the identity ``TDX_%02X`` of a major version of the TDX module."""
        wanted = f"TDX_{major_version:02X}"
        return next((identity for identity in self.module_identities if identity.id == wanted), None)


@lru_cache(maxsize=_REMEMBERED)
def parse_tcb_info(raw: bytes) -> TcbInfo:
    """Read a TCB info: the inner JSON value exactly as served, without ``{"tcbInfo": …}`` around it.

    Raises:
        EvidenceError: ``json-invalid``, ``collateral-malformed``, ``hex-invalid`` or ``time-invalid``, with the path.
        UnsupportedError: ``collateral-unsupported``, another version than 3 or another tcbType than 0.
    """
    info = read_object(raw, path="tcbInfo")
    info.constant("version", 3)
    info.constant("tcbType", 0)
    is_tdx = info.choice("id", ("SGX", "TDX")) == "TDX"
    levels = [_level(level, is_tdx=is_tdx) for level in info.objects("tcbLevels", limit=MAX_LEVELS)]
    levels.sort(key=lambda level: (level.sgx_components, level.pce_svn, level.tdx_components), reverse=True)
    return TcbInfo(
        tee="tdx" if is_tdx else "sgx",
        issue_date=info.moment("issueDate"),
        next_update=info.moment("nextUpdate"),
        fmspc=info.hex("fmspc", length=6),
        pce_id=info.hex("pceId", length=2),
        evaluation_data_number=info.integer("tcbEvaluationDataNumber", maximum=MAX_EVALUATION_NUMBER),
        levels=tuple(levels),
        module=_module(info.object("tdxModule")) if is_tdx else None,
        module_identities=tuple(_module_identities(info)) if is_tdx else (),
    )


def _level(level: JsonObject, *, is_tdx: bool) -> TcbLevel:
    tcb = level.object("tcb")
    return TcbLevel(
        sgx_components=tcb.integers("sgxtcbcomponents", "svn", count=COMPONENTS, maximum=_MAX_SVN),
        pce_svn=tcb.integer("pcesvn", maximum=_MAX_WIDE_SVN),
        tdx_components=tcb.integers("tdxtcbcomponents", "svn", count=COMPONENTS, maximum=_MAX_SVN) if is_tdx else (),
        tcb_date=level.moment("tcbDate"),
        status=level.choice("tcbStatus", PLATFORM_STATUSES),
        advisory_ids=level.words("advisoryIDs"),
    )


def _module(value: JsonObject) -> TdxModule:
    return TdxModule(
        mr_signer=value.hex("mrsigner", length=48),
        attributes=value.hex("attributes", length=8),
        attributes_mask=value.hex("attributesMask", length=8),
    )


def _module_identities(info: JsonObject) -> Iterator[TdxModuleIdentity]:
    if not info.has("tdxModuleIdentities"):
        return
    seen: set[str] = set()
    for identity in info.objects("tdxModuleIdentities", limit=MAX_MODULE_IDENTITIES, at_least=0):
        name = identity.word("id").upper()
        if name in seen:  # two readers could pick one each
            raise identity.refuse("id", "no identity twice", name)
        seen.add(name)
        yield TdxModuleIdentity(id=name, module=_module(identity), levels=read_component_levels(identity))


def read_component_levels(owner: JsonObject) -> tuple[ComponentLevel, ...]:
    """Read the ``tcbLevels`` of a TDX module identity or a QE identity, highest ISVSVN first.

    Raises:
        EvidenceError: as ``JsonObject``.
    """
    levels = [
        ComponentLevel(
            isv_svn=level.object("tcb").integer("isvsvn", maximum=_MAX_WIDE_SVN),
            tcb_date=level.moment("tcbDate"),
            status=level.choice("tcbStatus", COMPONENT_STATUSES),
            advisory_ids=level.words("advisoryIDs"),
        )
        for level in owner.objects("tcbLevels", limit=MAX_LEVELS)
    ]
    return tuple(sorted(levels, key=lambda level: level.isv_svn, reverse=True))

"""TCB info and QE identity in Intel's form: members in its order, without blanks.

Values are unchecked: an unknown status, fifteen components and past dates are possible. ``collateral.py`` has the
default machine's values.

Spec: Intel PCS API v4, TCB Info V3 and Enclave Identity V2; specs/intel-tdx-sgx.md, sections 9 and 10.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from attest.evidence.intel.quote import Tee
from attest_simulator.intel.keys import IntelAuthority, authority_key, sign_raw

QeKind = Literal["QE", "TD_QE", "QVE"]
_Object = dict[str, object]


def json_time(moment: datetime) -> str:
    """Format an aware moment as RFC 3339 in UTC, whole seconds, with ``Z``."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def compact_json(value: object) -> str:
    """Format JSON without blanks, as PCS does."""
    return json.dumps(value, separators=(",", ":"), ensure_ascii=True)


def signature_of(text: str) -> str:
    """Return the TCB Signing key's ECDSA signature over a text: r and s, 64 bytes, lower-case hex."""
    return sign_raw(authority_key(IntelAuthority.TCB_SIGNING), text.encode("utf-8")).hex()


def signed_document(member: str, text: str, *, signature: str | None = None) -> bytes:
    """Return the body of a PCS answer: the text under its member's name, and a signature over exactly that text.

    Args:
        member: ``tcbInfo``, ``enclaveIdentity`` or ``tcbEvaluationDataNumbers``.
        text: the signed text.
        signature: hex; None signs the text.
    """
    return f'{{"{member}":{text},"signature":"{signature or signature_of(text)}"}}'.encode()


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbComponent:
    """One entry of ``sgxtcbcomponents`` or ``tdxtcbcomponents``.

    Attributes:
        svn: 0 to 255.
        category: ``BIOS`` or ``OS/VMM``; None omits it.
        kind: the member ``type``, free text; None omits it.
    """

    svn: int
    category: str | None = None
    kind: str | None = None

    def to_object(self) -> _Object:
        """Return the JSON object."""
        texts = (("category", self.category), ("type", self.kind))
        return {"svn": self.svn} | {name: text for name, text in texts if text is not None}


def components(
    svns: tuple[int, ...], labels: tuple[tuple[str | None, str | None], ...] = ()
) -> tuple[TcbComponent, ...]:
    """Return components of SVNs with (category, type); surplus components have none."""
    padded = (*labels, *((None, None) for _ in svns))
    return tuple(
        TcbComponent(svn=svn, category=category, kind=kind)
        for svn, (category, kind) in zip(svns, padded[: len(svns)], strict=True)
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbLevel:
    """One entry of ``tcbLevels`` of a TCB info.

    Attributes:
        sgx: 16 SGX components.
        pce_svn: 0 to 65535.
        tdx: 16 TDX components; None omits them, as in a TCB info for SGX.
        date: ``tcbDate``.
        status: ``tcbStatus``, any text.
        advisory_ids: ``advisoryIDs``; an empty tuple omits the member.
    """

    sgx: tuple[TcbComponent, ...]
    pce_svn: int
    date: datetime
    status: str = "UpToDate"
    tdx: tuple[TcbComponent, ...] | None = None
    advisory_ids: tuple[str, ...] = ()

    def to_object(self) -> _Object:
        """Return the JSON object."""
        tcb: _Object = {"sgxtcbcomponents": [part.to_object() for part in self.sgx], "pcesvn": self.pce_svn}
        if self.tdx is not None:
            tcb["tdxtcbcomponents"] = [part.to_object() for part in self.tdx]
        return _level(tcb, self.date, self.status, self.advisory_ids)


@dataclass(frozen=True, slots=True, kw_only=True)
class SvnLevel:
    """One entry of ``tcbLevels`` of a QE identity or of a TDX module identity."""

    isv_svn: int
    date: datetime
    status: str = "UpToDate"
    advisory_ids: tuple[str, ...] = ()

    def to_object(self) -> _Object:
        """Return the JSON object."""
        return _level({"isvsvn": self.isv_svn}, self.date, self.status, self.advisory_ids)


def _level(tcb: _Object, date: datetime, status: str, advisory_ids: tuple[str, ...]) -> _Object:
    level: _Object = {"tcb": tcb, "tcbDate": json_time(date), "tcbStatus": status}
    return level | ({"advisoryIDs": list(advisory_ids)} if advisory_ids else {})


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxModule:
    """``tdxModule`` of a TCB info, for module version 0.

    Attributes:
        mr_signer: 48 bytes, zero for Intel's module.
        attributes: 8 bytes, in JSON order.
        attributes_mask: 8 bytes, in JSON order.
    """

    mr_signer: bytes = bytes(48)
    attributes: bytes = bytes(8)
    attributes_mask: bytes = b"\xff" * 8

    def to_object(self) -> _Object:
        """Return the JSON object."""
        return {
            "mrsigner": self.mr_signer.hex().upper(),
            "attributes": self.attributes.hex().upper(),
            "attributesMask": self.attributes_mask.hex().upper(),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class TdxModuleIdentity:
    """One entry of ``tdxModuleIdentities``, for another module version.

    Attributes:
        name: the member ``id``: ``TDX_`` and the module version, two hex digits.
        levels: by ISVSVN of the module.
        module: MRSIGNER and attributes.
    """

    name: str
    levels: tuple[SvnLevel, ...]
    module: TdxModule = TdxModule()

    def to_object(self) -> _Object:
        """Return the JSON object."""
        return {"id": self.name, **self.module.to_object(), "tcbLevels": [level.to_object() for level in self.levels]}


@dataclass(frozen=True, slots=True, kw_only=True)
class TcbInfo:
    """An unsigned TCB info.

    Attributes:
        tee: the member ``id``, in capitals.
        fmspc: 12 hex digits in either case.
        pce_id: 4 hex digits in either case.
        issue_date: ``issueDate``, aware.
        next_update: ``nextUpdate``, aware.
        evaluation_data_number: ``tcbEvaluationDataNumber``.
        levels: ``tcbLevels``, in order.
        module: ``tdxModule``; None omits it, as for SGX.
        module_identities: ``tdxModuleIdentities``; None omits the list, as before the middle of 2023.
        tcb_type: ``tcbType``.
        version: ``version``.
    """

    tee: Tee
    fmspc: str
    pce_id: str
    issue_date: datetime
    next_update: datetime
    evaluation_data_number: int
    levels: tuple[TcbLevel, ...]
    module: TdxModule | None = None
    module_identities: tuple[TdxModuleIdentity, ...] | None = None
    tcb_type: int = 0
    version: int = 3

    def text(self) -> str:
        """Return the JSON to sign."""
        value: _Object = {
            "id": self.tee.upper(),
            "version": self.version,
            "issueDate": json_time(self.issue_date),
            "nextUpdate": json_time(self.next_update),
            "fmspc": self.fmspc,
            "pceId": self.pce_id,
            "tcbType": self.tcb_type,
            "tcbEvaluationDataNumber": self.evaluation_data_number,
        }
        if self.module is not None:
            value["tdxModule"] = self.module.to_object()
        if self.module_identities is not None:
            value["tdxModuleIdentities"] = [identity.to_object() for identity in self.module_identities]
        return compact_json(value | {"tcbLevels": [level.to_object() for level in self.levels]})

    def document(self) -> bytes:
        """Return the whole answer of PCS, signed."""
        return signed_document("tcbInfo", self.text())


@dataclass(frozen=True, slots=True, kw_only=True)
class QeIdentity:
    """An unsigned QE identity.

    Attributes:
        kind: the member ``id``.
        issue_date: ``issueDate``, aware.
        next_update: ``nextUpdate``, aware.
        evaluation_data_number: ``tcbEvaluationDataNumber``.
        misc_select: 32 bits.
        misc_select_mask: 32 bits.
        attributes: 16 bytes, in the order of the enclave report.
        attributes_mask: 16 bytes, in the same order.
        mr_signer: 32 bytes.
        isv_prod_id: 1 for the QE of SGX, 2 for that of TDX.
        levels: ``tcbLevels``, in order.
        version: ``version``.
    """

    kind: QeKind
    issue_date: datetime
    next_update: datetime
    evaluation_data_number: int
    mr_signer: bytes
    isv_prod_id: int
    levels: tuple[SvnLevel, ...]
    misc_select: int = 0
    misc_select_mask: int = 0xFFFFFFFF
    attributes: bytes = bytes.fromhex("11000000000000000000000000000000")
    attributes_mask: bytes = bytes.fromhex("fbffffffffffffff0000000000000000")
    version: int = 2

    def text(self) -> str:
        """Return the JSON to sign."""
        return compact_json(
            {
                "id": self.kind,
                "version": self.version,
                "issueDate": json_time(self.issue_date),
                "nextUpdate": json_time(self.next_update),
                "tcbEvaluationDataNumber": self.evaluation_data_number,
                "miscselect": f"{self.misc_select:08X}",
                "miscselectMask": f"{self.misc_select_mask:08X}",
                "attributes": self.attributes.hex().upper(),
                "attributesMask": self.attributes_mask.hex().upper(),
                "mrsigner": self.mr_signer.hex().upper(),
                "isvprodid": self.isv_prod_id,
                "tcbLevels": [level.to_object() for level in self.levels],
            }
        )

    def document(self) -> bytes:
        """Return the whole answer of PCS, signed."""
        return signed_document("enclaveIdentity", self.text())

"""Recorded quotes reduced to the facts that collateral judges, and the collateral that was recorded with them."""

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Certificate, Issuer, parse_certificate, pem_blocks
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.intel.evaluation import PlatformFacts
from attest.evidence.intel.judgement import CollateralAtHand, VerifiedCollateral
from attest.evidence.intel.verify import judge_collateral, procedure_of
from attest.evidence.sgx.structure import ENCLAVE_REPORT_BYTES, ParsedEnclaveReport, parse_enclave_report
from attest.evidence.tdx.structure import parse_td_report
from tests.conftest import vectors_root

AT = datetime(2026, 3, 20, tzinfo=UTC)


BLANK_QE = parse_enclave_report(bytes(ENCLAVE_REPORT_BYTES))
BLANK_TD = parse_td_report(bytes(584), body_type=2)
"""Reports of zeros, in which a test replaces what is compared."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """One recorded quote: what it says about its platform, and the certificates in it."""

    platform: PlatformFacts
    qe: ParsedEnclaveReport
    pck: Certificate
    ca: Certificate

    def judge(
        self,
        endorsements: Endorsements,
        *,
        at: datetime,
        unchecked: tuple[Unchecked, ...] = (),
        root: Issuer | None = None,
        platform: PlatformFacts | None = None,
        qe: ParsedEnclaveReport | None = None,
    ) -> VerifiedCollateral:
        at_hand = CollateralAtHand(
            platform=platform or self.platform,
            qe=qe or self.qe,
            pck=self.pck,
            ca=self.ca,
            root=root or intel_root(),
            endorsements=endorsements,
            at=at,
        )
        return judge_collateral(procedure_of(at_hand.platform.tee), at_hand, unchecked=unchecked)


def intel_root() -> Issuer:
    (anchor,) = TrustAnchors.vendors().of_role("intel-sgx-root")
    issuer = anchor.held_issuer()
    assert issuer is not None
    return issuer


def folder() -> Path:
    root = vectors_root()
    assert root is not None
    return root


def manifest(tee: Literal["tdx", "sgx", "collateral"]) -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((folder() / tee / "MANIFEST.json").read_bytes())
    return loaded


def case(tee: Literal["tdx", "sgx"], name: str) -> Case:
    """Read a case out of a manifest; only the certificates come from the quote itself."""
    vector = next(v for v in manifest(tee)["vectors"] if v["id"] == name)
    body, qe, pck = vector["body"], vector["qe_report"], vector["pck"]
    data = (folder() / tee / vector["file"]["path"]).read_bytes()
    quote = bytes.fromhex(data.decode().removeprefix("0x")) if vector["encoding"] == "hex" else data
    leaf, ca, _ = (parse_certificate(der) for _, der in pem_blocks(quote))
    second = body.get("tee_tcb_svn_2")
    module = (
        replace(
            BLANK_TD,
            tee_tcb_svn=bytes.fromhex(body["tee_tcb_svn"]),
            tee_tcb_svn_2=None if second is None else bytes.fromhex(second),
            mr_signer_seam=bytes.fromhex(body["mr_signer_seam"]),
            seam_attributes=bytes.fromhex(body["seam_attributes"]),
        )
        if tee == "tdx"
        else None
    )
    return Case(
        platform=PlatformFacts(
            tee=tee,
            fmspc=bytes.fromhex(pck["fmspc"]),
            pce_id=bytes.fromhex(pck["pceid"]),
            component_svns=tuple(pck["comp_svns"]),
            pce_svn=pck["pce_svn"],
            module=module,
        ),
        qe=replace(
            BLANK_QE,
            misc_select=int.from_bytes(bytes.fromhex(qe["misc_select"]), "little"),
            attributes=bytes.fromhex(qe["attributes"]),
            mr_signer=bytes.fromhex(qe["mr_signer"]),
            isv_prod_id=qe["isv_prod_id"],
            isv_svn=qe["isv_svn"],
        ),
        pck=leaf,
        ca=ca,
    )


def bundle(name: str) -> dict[str, str]:
    loaded: dict[str, str] = json.loads((folder() / "collateral" / name).read_bytes())
    return loaded


def pool(*contents: bytes | dict[str, str]) -> Endorsements:
    """Read endorsements as the command line would."""
    files = [(f"file{i}", c if isinstance(c, bytes) else json.dumps(c).encode()) for i, c in enumerate(contents)]
    return read_endorsements(files, at=AT).endorsements


def everything() -> Endorsements:
    """Return what a directory with all recorded evidence gives."""
    files = [(str(path), path.read_bytes()) for path in sorted(folder().rglob("*")) if path.is_file()]
    return read_endorsements(files, at=AT).endorsements

"""Recorded GPU evidence as both verifiers take it, and what this verifier says of it."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from attest.checks import Check, Outcome, Unchecked
from attest.encoding import rfc3339
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.rims import RimDocument
from attest.errors import AttestError, EvidenceError
from attest.evidence.gpu.evidence import device_json, parse_nvidia_device, parse_nvidia_report
from attest.evidence.gpu.measurements import MeasurementSource
from attest.evidence.gpu.verify import verify_gpu_evidence
from attest.nvsdk import SdkDevice

ROLES: tuple[MeasurementSource, ...] = ("driver", "vbios")
REVOCATION = (Unchecked(check="revocation", reason="no OCSP answer of NVIDIA's responder was ever recorded"),)


@dataclass(frozen=True, kw_only=True)
class NvidiaCase:
    """One device with its RIMs in slots, as NVIDIA's functions take them; this verifier looks into no slot.

    Attributes:
        rims: role to XML.
        recorded: what NVIDIA's Python verifier said when the vectors were collected; None for a case made here.
    """

    name: str
    report: bytes
    chain: bytes
    rims: Mapping[MeasurementSource, bytes] = field(default_factory=dict)
    nonce: bytes
    at: datetime
    recorded: Mapping[str, Any] | None = None

    def device(self) -> SdkDevice:
        return SdkDevice(
            kind="nvidia-gpu",
            architecture="hopper",
            report=self.report,
            chain_pem=self.chain.decode(),
            rims=self.rims,
        )


def recorded_cases(folder: Path) -> list[NvidiaCase]:
    """Read every case about one GPU."""
    manifest = json.loads((folder / "MANIFEST.json").read_text())
    return [_recorded(folder, case) for case in manifest["cases"] if "report" in case["files"]]


def _recorded(folder: Path, case: Mapping[str, Any]) -> NvidiaCase:
    files = case["files"]
    return NvidiaCase(
        name=case["id"],
        report=bytes.fromhex((folder / files["report"]).read_text()),
        chain=(folder / files["chain"]).read_bytes(),
        rims={role: (folder / files[f"{role}_rim"]).read_bytes() for role in ROLES if f"{role}_rim" in files},
        nonce=bytes.fromhex(case["expected_nonce"]),
        at=rfc3339(case["at"], what="at"),
        recorded=case.get("nvidia_python_2_7_3"),
    )


def our_checks(case: NvidiaCase) -> tuple[tuple[Check, ...], AttestError | None]:
    """Verify with revocation left out, and judge the nonce, as ``attest verify`` does."""
    pool = Endorsements(rims=tuple(RimDocument(xml=xml) for xml in case.rims.values()))
    try:
        parsed = parse_nvidia_device(device_json(case.report, case.chain, "HOPPER"))
        verified = verify_gpu_evidence(
            parsed, endorsements=pool, anchors=TrustAnchors.vendors(), at=case.at, unchecked=REVOCATION
        )
    except AttestError as exc:
        return (*_told(exc), *_freshness(case)), exc
    return (*verified.checks, *_freshness(case)), None


def _told(exc: AttestError) -> tuple[Check, ...]:
    """Return the checks of a refusal; evidence that cannot be read has one."""
    if exc.checks or not isinstance(exc, EvidenceError):
        return exc.checks
    return (_check("nvidia.format", Outcome.FAIL),)


def _freshness(case: NvidiaCase) -> tuple[Check, ...]:
    try:
        same = parse_nvidia_report(case.report).report.nonce == case.nonce
    except AttestError:
        return ()
    return (_check("freshness", Outcome.PASS if same else Outcome.FAIL),)


def _check(name: str, outcome: Outcome) -> Check:
    return Check(id=name, outcome=outcome, expected="", got="", clause="")

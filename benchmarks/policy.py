"""A policy with 40 checks."""

from __future__ import annotations

import json
from datetime import UTC, datetime

from attest.appraisal import appraise
from attest.endorsements.anchors import TrustAnchors
from attest.evidence.envelope import MEDIA_SNP_REPORT, Evidence, EvidenceItem
from attest.evidence.snp.structure import GUEST_POLICY_BITS, PLATFORM_INFO_BITS
from attest.evidence.snp.tcb import SnpProduct
from attest.policy import load_policy
from attest.verification import ExpectedFreshness, verify
from attest_simulator import SimulatedChip, SimulatedGuest
from benchmarks.measure import Figure, median_seconds

__all__ = ["forty_checks"]

_AT = datetime(2026, 6, 1, tzinfo=UTC)
_CHECKS = 40


def _policy(measurement: str, chip_id: str) -> bytes:
    tcb = {"Genoa": {"bootloader": 1, "tee": 0, "snp": 1, "microcode": 1}}
    snp = {
        "products": ["Genoa", "Turin"],
        "measurement": ["image"],
        "minimum_tcb": tcb,
        "minimum_committed_tcb": tcb,
        "minimum_launch_tcb": tcb,
        "guest_policy": {name: name == "smt" for name, _ in GUEST_POLICY_BITS},
        "platform_info": {name: name in {"smt_en", "ecc_en", "alias_check_complete"} for name, _ in PLATFORM_INFO_BITS},
        "chip_ids": [chip_id],
        "denied_chip_ids": ["00" * 64],
        "host_data": ["00" * 32],
        "id_key_digests": ["00" * 48],
        "author_key_digests": ["00" * 48],
        "family_ids": ["00" * 16],
        "image_ids": ["00" * 16],
        "csp_ids": {"unchecked": "a VCEK has none"},
        "minimum_guest_svn": 0,
        "mitigations_at_launch": 3,
        "mitigations_now": 3,
    }
    document = {
        "schema": "attest.policy/1",
        "name": "benchmark",
        "version": 1,
        "simulated": {"unchecked": "a benchmark"},
        "reference_values": {"image": {"values": [measurement], "origin": "the simulator"}},
        "snp": snp,
    }
    return json.dumps(document).encode()


def forty_checks() -> Figure:
    """Measure one appraisal, its result with all checks included, scaled to 40 checks."""
    chip = SimulatedChip.of(SnpProduct.GENOA)
    guest = SimulatedGuest(chip=chip)
    item = EvidenceItem(name="cpu", media_type=MEDIA_SNP_REPORT, value=guest.report(bytes(64)))
    verified = verify(
        Evidence(items=(item,)),
        endorsements=chip.endorsements(at=_AT),
        anchors=TrustAnchors.simulation(),
        at=_AT,
        expected=ExpectedFreshness(report_data=bytes(64)),
    )
    policy = load_policy(_policy(guest.measurement.hex(), chip.chip_id.hex()))
    result = appraise(verified, policy=policy, at=_AT)
    result.require()
    checks = len(result.policy_checks)
    seconds = median_seconds(lambda: appraise(verified, policy=policy, at=_AT), times=100)
    detail = f"{checks} checks in {seconds * 1e6:.1f} us; the figure is {_CHECKS} of them"
    return Figure(
        id="policy-40-checks-us", value=seconds * 1e6 * _CHECKS / checks, bar=100, better="lower", detail=detail
    )

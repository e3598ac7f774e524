"""BadRAM, CVE-2024-21944, AMD-SB-3015: aliased memory. Demanded by default: the alias check ran (must-check 6)."""

from attest.appraisal import appraise
from attest.checks import Outcome
from attest.endorsements.anchors import TrustAnchors
from attest.verification import ExpectedFreshness, verify
from tests.policy.documents import document, policy_of
from tests.samples import AT, report_evidence, scene


def test_mc_6_a_machine_without_the_alias_check_is_refused_although_nobody_mentioned_it() -> None:
    aliased = scene(platform_info=0x05)  # SMT and ECC, no ALIAS_CHECK_COMPLETE
    verified = verify(
        report_evidence(aliased.report),
        endorsements=aliased.endorsements,
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=ExpectedFreshness(report_data=bytes(64)),
    )
    result = appraise(verified, policy=policy_of(document()), at=AT)
    assert [check.id for check in result.failed] == ["policy.snp.platform_info.alias_check_complete"]
    assert result.failed[0].outcome is Outcome.FAIL

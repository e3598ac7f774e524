"""A step that was left out on request judged nothing, and says so in a refusal, too."""

from typing import Literal

import pytest

from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import NO_ENDORSEMENTS
from attest.errors import AttestError
from attest.evidence.intel.quote import parse_quote
from attest.evidence.intel.verify import verify_intel_quote
from tests.simulator_intel.test_quote_template import AT, HONEST, changed, qe


@pytest.mark.parametrize(
    ("unchecked", "failed"),
    [({"revocation"}, {"tcb_info", "qe_identity"}), ({"revocation", "tcb"}, {"qe_identity"})],
)
def test_what_was_left_out_on_request_is_not_said_to_have_passed_in_a_refusal(
    unchecked: set[Literal["revocation", "tcb"]], failed: set[str]
) -> None:
    with pytest.raises(AttestError) as caught:
        verify_intel_quote(
            parse_quote(changed(qe_fields=qe(mr_signer=bytes(32)))),
            endorsements=NO_ENDORSEMENTS,
            anchors=TrustAnchors.simulation(),
            at=AT,
            unchecked=tuple(Unchecked(check=name, reason="a test") for name in sorted(unchecked)),
        )
    outcomes = {check.id.split(".")[1]: check.outcome for check in caught.value.checks}
    assert {name for name, outcome in outcomes.items() if outcome is Outcome.FAIL} == failed
    left = {"revocation", "tcb_info", "module", "tcb"} - failed
    assert {name for name, outcome in outcomes.items() if outcome is Outcome.NOT_EVALUATED} == left


def test_each_step_that_was_left_out_on_request_shows_the_reason() -> None:
    verified = verify_intel_quote(
        parse_quote(HONEST["tdx-4"]),
        endorsements=NO_ENDORSEMENTS,
        anchors=TrustAnchors.simulation(),
        at=AT,
        unchecked=tuple(Unchecked(check=name, reason=f"{name}: a test") for name in ("revocation", "tcb")),
    )
    shown = {check.id.split(".")[1]: check for check in verified.checks}
    for name, step in (("revocation", "revocation"), *(("tcb", s) for s in ("tcb_info", "module", "tcb"))):
        assert shown[step].outcome is Outcome.NOT_EVALUATED
        assert shown[step].expected
        assert f"{name}: a test" in shown[step].got
    assert shown["qe_identity"].outcome is Outcome.PASS
    assert "tcb: a test" in shown["qe_identity"].got


def test_of_an_enclave_no_module_is_said_to_have_passed() -> None:
    with pytest.raises(AttestError) as caught:
        verify_intel_quote(
            parse_quote(HONEST["sgx-3"]), endorsements=NO_ENDORSEMENTS, anchors=TrustAnchors.simulation(), at=AT
        )
    assert {check.id: check.outcome for check in caught.value.checks}["sgx.module"] is Outcome.NOT_EVALUATED

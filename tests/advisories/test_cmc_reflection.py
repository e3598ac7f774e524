"""CMC pull request 406: a peer's own proof reflected to it. The role is part of what is hashed (must-check 2)."""

import pytest

from attest.endorsements.anchors import TrustAnchors
from attest.errors import BindingError
from attest.evidence.binding import ExpectedBinding
from attest.verification import verify
from tests.samples import AT, NONCE, binding, bound_evidence, scene


def test_a_proof_by_the_other_side_is_refused() -> None:
    honest = scene()
    reflected = bound_evidence(honest.guest, binding(role="service"))
    mine = ExpectedBinding(context="kms-release/v1", role="workload", audience=binding().audience, nonce=NONCE)
    with pytest.raises(BindingError) as outcome:
        verify(reflected, endorsements=honest.endorsements, anchors=TrustAnchors.simulation(), at=AT, expected=mine)
    assert outcome.value.code == "binding-role-mismatch"

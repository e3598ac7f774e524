"""What a caller tolerates of a device."""

import pytest

from attest.evidence.tolerances import WaivedMeasurement


@pytest.mark.parametrize(("index", "known"), [(-1, False), (0, True), (63, True), (64, False)])
def test_a_waived_measurement_is_one_of_the_sixty_four(index: int, *, known: bool) -> None:
    if known:
        assert WaivedMeasurement(index=index, reason="x").index == index
        return
    with pytest.raises(ValueError, match="0 to 63"):
        WaivedMeasurement(index=index, reason="x")


@pytest.mark.parametrize("reason", ["", " ", "\t"])
def test_a_waived_measurement_needs_a_reason(reason: str) -> None:
    with pytest.raises(ValueError, match="reason"):
        WaivedMeasurement(index=1, reason=reason)

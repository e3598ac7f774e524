"""The benchmarks of the channel measure what they say. No time is judged."""

import pytest

from attest.release.sealed_key import KEM_HYBRID, KEM_X25519
from benchmarks.channel import round_trip


@pytest.mark.parametrize("kem", [KEM_HYBRID, KEM_X25519])
def test_a_round_trip_returns_what_was_asked(kem: int) -> None:
    answer = round_trip(kem)()
    assert b"/v1/ask" in answer
    assert len(answer) == 512

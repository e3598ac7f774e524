"""Trustee compared HWID only when the CN contained "VCEK" spelled otherwise than AMD does: the check never ran.

A genuine certificate of another chip, for which the attacker holds nothing, must be refused by name of the chip; and
a report whose CHIP_ID was replaced must not verify either.
"""

import pytest

from attest.errors import BindingError
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip
from tests.samples import AT, scene


def test_a_genuine_certificate_of_another_chip_is_refused_for_the_chip() -> None:
    honest = scene()
    other = SimulatedChip.of(SnpProduct.GENOA, name="other")
    with pytest.raises(BindingError) as outcome:
        honest.verify(endorsements=other.endorsements(at=AT))
    assert outcome.value.code == "snp-chip-id-mismatch"


def test_hwid_is_compared_in_full_and_never_as_a_prefix() -> None:
    honest = scene()
    almost = honest.guest.chip.chip_id[:63] + bytes([honest.guest.chip.chip_id[63] ^ 1])
    with pytest.raises(BindingError):
        honest.verify(honest.guest.report(bytes(64), override={"chip_id": almost}))

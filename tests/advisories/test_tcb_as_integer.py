"""Several verifiers compare TCB_VERSION as one 64-bit integer: the last byte decides and the others are ignored.

A machine with new microcode and an ancient boot loader then passes a minimum that it does not meet.
"""

from attest.evidence.snp.tcb import SnpTcbVersion

MINIMUM = SnpTcbVersion(bootloader=10, tee=0, snp=27, microcode=84)
LOPSIDED = SnpTcbVersion(bootloader=1, tee=0, snp=1, microcode=85)


def test_newer_microcode_does_not_make_up_for_an_old_boot_loader() -> None:
    as_integers = [int.from_bytes(tcb.to_bytes(), "little") for tcb in (LOPSIDED, MINIMUM)]
    assert as_integers[0] > as_integers[1]  # what the flawed comparison sees
    assert not LOPSIDED.covers(MINIMUM)
    assert not MINIMUM.covers(LOPSIDED)

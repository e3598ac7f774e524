"""Candidates for the signer of a report: the best fitting first, whichever order they came in."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import permutations, product
from typing import Any

import pytest

from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import Certificate, parse_certificate
from attest.evidence.snp.certificates import LeafKind, SnpLeaf
from attest.evidence.snp.evidence import parse_snp_evidence
from attest.evidence.snp.leaves import candidates
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import SimulatedChip
from attest_simulator.keys import CaRole, simulated_ca_key
from tests.samples import AT, scene

HONEST = scene()
OTHER_CHIP = SimulatedChip.of(SnpProduct.GENOA, name="another chip")
OTHER_TCB = replace(HONEST.guest.chip.reported_tcb, microcode=1)


def leaf(*, other_chip: bool = False, other_tcb: bool = False, at: dict[str, datetime] | None = None) -> Certificate:
    chip = OTHER_CHIP if other_chip else HONEST.guest.chip
    changes: dict[str, Any] = dict(at or {})
    template = replace(chip, reported_tcb=OTHER_TCB if other_tcb else chip.reported_tcb).leaf_template()
    return parse_certificate(replace(template, **changes).issue(simulated_ca_key(SnpProduct.GENOA, CaRole.ASK)))


def order(*certificates: Certificate) -> tuple[Certificate, ...]:
    evidence = parse_snp_evidence(HONEST.report)
    found = candidates(evidence, LeafKind.VCEK, Endorsements(certificates=certificates), AT)
    assert all(isinstance(one, SnpLeaf) for one in found)
    return tuple(one.certificate for one in found if isinstance(one, SnpLeaf))


def test_the_chip_counts_before_the_tcb_and_the_tcb_before_the_dates() -> None:
    expired = {"not_after": AT - timedelta(seconds=1)}
    best_first = tuple(
        leaf(other_chip=chip, other_tcb=tcb, at=expired if late else {})
        for chip, tcb, late in product((False, True), repeat=3)
    )
    assert order(*best_first) == best_first
    assert order(*best_first[::-1]) == best_first


@pytest.mark.parametrize("bound", ["not_before", "not_after"])
def test_a_leaf_fits_in_its_first_and_in_its_last_second(bound: str) -> None:
    step = timedelta(seconds=1 if bound == "not_before" else -1)
    outside, last, inside = (leaf(at={bound: AT + change * step}) for change in (1, 0, -1))
    for given in permutations((outside, last, inside)):
        fitting = [one for one in given if one is not outside]
        assert order(*given)[-1] is outside
        assert set(order(*given)) == {outside, *fitting}

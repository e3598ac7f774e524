"""Vault CVE-2020-16250 and its kind: a document may not select who verifies it (must-check 3, 14).

The attack in full: a complete, self-consistent chain under the attacker's own root, with AMD's names, presented with
the evidence and as an endorsement file.
"""

from dataclasses import replace

import pytest

from attest.endorsements.anchors import TrustAnchors, amd_name
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate, parse_crl
from attest.errors import ChainError
from attest.evidence.snp.tcb import SnpProduct
from attest_simulator import CaRole, SimulatedChip, SimulatedGuest, ca_template, simulated_ca_key, simulated_crl
from tests.samples import AT, Scene

PRODUCT = SnpProduct.GENOA


def attackers_chain(chip: SimulatedChip) -> Endorsements:
    """AMD's names throughout, the attacker's keys."""
    ark_key, ask_key = simulated_ca_key(PRODUCT, CaRole.ARK), simulated_ca_key(PRODUCT, CaRole.ASK)
    ark_name, ask_name = amd_name("ARK-Genoa"), amd_name("SEV-Genoa")
    ark = replace(ca_template(PRODUCT, CaRole.ARK), issuer=ark_name, subject=ark_name).issue(ark_key)
    ask = replace(ca_template(PRODUCT, CaRole.ASK), issuer=ark_name, subject=ask_name).issue(ark_key)
    leaf = replace(chip.leaf_template(), issuer=ask_name, subject=amd_name("SEV-VCEK")).issue(ask_key)
    crl = parse_crl(simulated_crl(PRODUCT, at=AT))
    return Endorsements(certificates=tuple(map(parse_certificate, (leaf, ask, ark))), crls=(crl,))


def test_a_root_with_the_vendors_name_and_another_key_is_no_anchor() -> None:
    chip = SimulatedChip.of(PRODUCT)
    attack = Scene(guest=SimulatedGuest(chip=chip), endorsements=attackers_chain(chip))
    with pytest.raises(ChainError) as outcome:
        attack.verify(anchors=TrustAnchors.vendors())
    assert outcome.value.check == "snp.root"

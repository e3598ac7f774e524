"""Policy documents that tests start from."""

import copy
import json
from typing import Any

from attest.evidence.snp.tcb import SnpProduct
from attest.policy import Policy, load_policy
from attest_simulator import SimulatedChip, SimulatedGuest

MEASUREMENT = SimulatedGuest(chip=SimulatedChip.of(SnpProduct.GENOA)).measurement.hex()

STRICT: dict[str, Any] = {
    "schema": "attest.policy/1",
    "name": "test",
    "version": 1,
    "simulated": {"unchecked": "the tests have no hardware"},
    "reference_values": {"image": {"values": [MEASUREMENT], "origin": "the simulator"}},
    "snp": {
        "products": ["Genoa"],
        "measurement": ["image"],
        "minimum_tcb": {"Genoa": {"bootloader": 10, "tee": 0, "snp": 27, "microcode": 84}},
    },
}


def document(**snp: Any) -> dict[str, Any]:  # noqa: ANN401  any JSON
    """The strict document with some keys of ``snp`` changed; None removes one."""
    changed = copy.deepcopy(STRICT)
    for name, value in snp.items():
        if value is None:
            del changed["snp"][name]
        else:
            changed["snp"][name] = value
    return changed


def policy_of(policy: dict[str, Any]) -> Policy:
    """Load a document."""
    return load_policy(json.dumps(policy).encode())

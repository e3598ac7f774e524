"""The numbers of the endorsements, each with its value: one that is changed is changed here too, on purpose.

A number of a specification that is changed by mistake passes every test of which both sides use its name.
"""

import importlib

import pytest

from tests.constants import plain, plain_constants

CONSTANTS: dict[str, dict[str, object]] = {
    "attest.endorsements.bundle_reader": {
        "_SIGNATURE_BYTES": 64,
        "_KEY_ID_BYTES": 32,
    },
    "attest.endorsements.chains": {
        "_KEY_CERT_SIGN": 5,
    },
    "attest.endorsements.cose": {
        "_EDDSA": (-8, -19),
    },
    "attest.endorsements.intel": {
        "_SIGNATURE_BYTES": 64,
        "_COORDINATE_BYTES": 32,
    },
    "attest.endorsements.intel_answers": {
        "_OVERHEAD_BYTES": 64,
    },
    "attest.endorsements.ocsp": {
        "_UNDERSTOOD_CRITICAL": frozenset(
            (
                "2.5.29.15",
                "2.5.29.19",
                "2.5.29.37",
            )
        ),
        "_DIGITAL_SIGNATURE": 0,
    },
    "attest.endorsements.ocsp_answers": {
        "_REFUSALS": {1: "malformedRequest", 2: "internalError", 3: "tryLater", 5: "sigRequired", 6: "unauthorized"},
    },
    "attest.endorsements.signatures": {
        "_LARGE_BYTES": 0x4000,
        "_RSA_BITS": range(2048, 8193),
    },
    "attest.endorsements.tagged_cbor": {
        "_SIMPLE": {20: False, 21: True, 22: None},
        "_BREAK": 255,
    },
    "attest.endorsements.x509": {
        "_LONG_FORM": 128,
        "_SHORT_CRL_BYTES": 512,
    },
}


@pytest.mark.parametrize("module", CONSTANTS)
def test_a_constant_has_the_value_that_is_written_down(module: str) -> None:
    found = importlib.import_module(module)
    assert {name: plain(getattr(found, name)) for name in CONSTANTS[module]} == CONSTANTS[module]


def test_every_number_of_a_module_is_written_down() -> None:
    written = {(module, name) for module, names in CONSTANTS.items() for name in names}
    assert plain_constants("attest/endorsements") <= written

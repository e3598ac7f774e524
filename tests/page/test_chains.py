"""The chains in the page are the certificates on which a machine rests, as another reader of X.509 sees them."""

from datetime import datetime
from hashlib import sha256
from itertools import pairwise
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID

from attest.encoding import rfc3339_text
from attest.endorsements.anchors import TrustAnchors
from attest_simulator.machines import MachineKind, SimulatedMachine
from tests.page.browser import Question, Verifier
from tests.page.test_machines import AT, BINDING, EXPECTED

# AMD numbers every VCEK 0.
pytestmark = [pytest.mark.loopback, pytest.mark.filterwarnings("ignore:Parsed a serial number")]
# Certificates from the one that speaks for an item up to its root.
LENGTHS: dict[MachineKind, dict[str, int]] = {
    "snp": {"cpu": 3, "gpu0": 5},
    "tdx": {"cpu": 3, "gpu0": 5},
    "azure-snp": {"cpu": 3, "gpu0": 5},
    "azure-tdx": {"cpu": 3, "gpu0": 5},
}


def _asked(in_browser: Verifier, kind: MachineKind, anchors: str = "simulation") -> dict[str, Any]:
    machine = SimulatedMachine.of(kind, gpus=1)
    evidence = f"chains of {kind}"
    files = {f"{evidence} {name}": data for name, data in machine.endorsement_files(at=AT).items()}
    in_browser.hold({evidence: machine(BINDING).to_json(), **files})
    at = rfc3339_text(AT)
    return in_browser.ask(
        Question(input=[evidence], at=at, endorsements=list(files), anchors=anchors, binding=EXPECTED),
    )


@pytest.mark.parametrize("kind", LENGTHS)
def test_each_item_shows_its_certificates_up_to_the_pinned_root(kind: MachineKind, in_browser: Verifier) -> None:
    shown = _asked(in_browser, kind)["certificates"]
    pins = {anchor.spki_sha256.hex() for anchor in TrustAnchors.simulation().anchors}
    chains = {item: [each for each in shown if each["item"] == item] for item in LENGTHS[kind]}
    assert {item: len(chain) for item, chain in chains.items()} == LENGTHS[kind]
    assert sum(LENGTHS[kind].values()) == len(shown)
    for chain in chains.values():
        assert [each["pinned"] for each in chain] == [each["key_sha256"] in pins for each in chain]
        assert [each["pinned"] for each in chain] == [False] * (len(chain) - 1) + [True]
        read = [(_same(each), each) for each in chain if "pem" in each]
        assert len(read) >= len(chain) - 1
        for (child, _), (issuer, _) in pairwise(read):
            child.verify_directly_issued_by(issuer)
        if "pem" not in chain[-1]:
            assert set(chain[-1]) == {"item", "subject", "key_sha256", "pinned"}


def _same(shown: dict[str, Any]) -> x509.Certificate:
    """Read the certificate from its PEM, and require that all that is told of it is true."""
    certificate = x509.load_pem_x509_certificate(shown["pem"].encode())
    spki = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    assert shown["key_sha256"] == sha256(spki).hexdigest()
    assert shown["sha256"] == sha256(certificate.public_bytes(Encoding.DER)).hexdigest()
    assert shown["serial"] == f"{certificate.serial_number:x}"
    assert datetime.fromisoformat(shown["not_before"]) == certificate.not_valid_before_utc
    assert datetime.fromisoformat(shown["not_after"]) == certificate.not_valid_after_utc
    for name, others in (("subject", certificate.subject), ("issuer", certificate.issuer)):
        assert [shown[name]] == [other.value for other in others.get_attributes_for_oid(NameOID.COMMON_NAME)]
    return certificate


def test_evidence_that_is_refused_shows_no_chain(in_browser: Verifier) -> None:
    got = _asked(in_browser, "snp", anchors="vendors")
    assert (got["outcome"], got.get("certificates")) == ("refused", None)

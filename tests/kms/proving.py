"""A service that proves itself, and clients that demand it."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from attest import Binding, Endorsements, Evidence, TrustAnchors, load_policy
from attest.encoding import base64url_bytes
from attest.endorsements.x509 import parse_crl
from attest.evidence.snp.tcb import SnpProduct
from attest.release.identity import ServiceAttestation
from attest.release.mutual_attestation import AttestationAnswer, MutualAttestation, ServiceExpectation
from attest_simulator import simulated_crl
from attest_simulator.service import simulated_snp, simulated_tdx
from kms.running.self_evidence import open_attestation
from kms.running.self_evidence.sources import EvidenceSource
from tests.kms.support import AT, GUEST, TD, FakeRandom, Harness, policy_text, tdx_policy_text

TLS_KEY = b"\x51" * 32

SOURCES: dict[str, EvidenceSource] = {
    "snp": lambda binding: simulated_snp(GUEST, binding),
    "tdx": lambda binding: simulated_tdx(TD, binding),
}
POLICIES = {"snp": policy_text(name="service"), "tdx": tdx_policy_text(name="service")}


def endorsements(at: datetime = AT) -> Endorsements:
    crl = Endorsements(crls=(parse_crl(simulated_crl(SnpProduct.GENOA, at=at)),))
    return crl.merged(TD.platform.collateral("tdx", at=at).endorsements())


class FakeMaterial:
    spki_sha256 = TLS_KEY


class FakeTls:
    """The one thing of a TLS listener that the statement needs."""

    material = FakeMaterial()


@dataclass
class Proving:
    """A service, seen over a channel; what is wrong with either is a field."""

    harness: Harness
    tee: str = "snp"
    change: Callable[[Binding], Binding] = lambda binding: binding
    answered: Callable[[ServiceAttestation], ServiceAttestation] = lambda answer: answer
    seen: bytes | None = TLS_KEY
    tls: Any = field(default_factory=FakeTls)
    asked: list[str] = field(default_factory=list)
    status: int = 200

    def __post_init__(self) -> None:
        self.self_evidence = open_attestation(
            self.harness.settings, self.harness.services, tls=self.tls, evidence=self.collect
        )

    def collect(self, binding: Binding) -> Evidence:
        return SOURCES[self.tee](self.change(binding))

    def ask(self, path: str) -> AttestationAnswer:
        self.asked.append(path)
        parts = urlsplit(path)
        query = parse_qs(parts.query)
        nonce = base64url_bytes(query["nonce"][0], what="nonce")
        made = self.answered(self.self_evidence.answer(nonce=nonce, audience=query["audience"][0]))
        return AttestationAnswer(status=self.status, document=made.to_json(), tls_key=self.seen)

    def expecting(self, **changes: Any) -> MutualAttestation:  # noqa: ANN401  fields of an expectation
        return MutualAttestation(
            self.expectation(**changes), service=changes.pop("service", self.harness.services.identity.public)
        )

    def expectation(self, **changes: Any) -> ServiceExpectation:  # noqa: ANN401  as above
        changes.pop("service", None)
        base = ServiceExpectation(
            policy=load_policy(POLICIES[self.tee]),
            anchors=TrustAnchors.simulation(),
            endorsements=endorsements(),
            clock=self.harness.clock,
            random=FakeRandom("nonces"),
            audience="unit/test client",
        )
        return replace(base, **changes)


def require_proof(mutual: MutualAttestation, ask: Callable[[str], AttestationAnswer]) -> None:
    """Ask the service as a client does: only when its last proof is no longer recent."""
    question = mutual.question()
    if question is not None:
        mutual.answered(question, ask(question.path))

"""The workload's side against a service that lies in every way it can."""

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.errors import AttestError, BindingError, EndorsementError, EvidenceError, SignatureError
from attest.evidence.binding import Binding, parse_binding
from attest.evidence.envelope import Evidence
from attest.release import (
    KEM_X25519,
    Challenge,
    Release,
    ReleaseRequest,
    SealedKey,
    release_info,
    seal,
    sign_note,
    verifier_key,
)
from attest.release.client import MAX_ANSWER_BYTES, KeyReleaseClient, ReleasedKey, ReleaseRefusedError
from attest.release.wire import receipt_text
from tests.samples import AT, NONCE, bound_evidence, scene

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SERVICE = verifier_key("kms.example/prod", KEY.public_key())
GUEST = scene().guest
MATERIAL = b"0123456789abcdef0123456789abcdef"


class Service:
    """An honest service in memory; a test changes one of its answers."""

    def __init__(self) -> None:
        self.challenge = Challenge(
            token="token",
            nonce=NONCE,
            audience=SERVICE.text,
            expires_at=AT + timedelta(minutes=5),
        )
        self.change_release: Callable[[Release], Release] = lambda release: release
        self.change_facts: Callable[[dict[str, Any]], dict[str, Any]] = lambda facts: facts
        self.answers: dict[str, httpx.Response] = {}

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path in self.answers:
            return self.answers[request.url.path]
        if request.url.path == "/v1/challenges":
            return httpx.Response(200, json=self.challenge.to_json())
        return httpx.Response(200, json=self.release(ReleaseRequest.from_json(json.loads(request.content))).to_json())

    def release(self, request: ReleaseRequest) -> Release:
        """Seal every key to the binding's key and sign a receipt."""
        item = request.evidence.item("binding")
        assert item is not None
        binding = parse_binding(item.value)
        exchange = {
            "audience": SERVICE.text,
            "nonce": NONCE,
            "evidence_digest": request.evidence.digest,
            "decision_digest": bytes(32),
        }
        keys = tuple(
            SealedKey(
                key_id=key_id,
                version=1,
                purpose="model-key",
                policy_digest=bytes(32),
                sealed=seal(
                    MATERIAL,
                    recipient=binding.key,
                    info=release_info(
                        **exchange,  # type: ignore[arg-type]  # named as the function names them
                        key_id=key_id,
                        version=1,
                        purpose="model-key",
                        policy_digest=bytes(32),
                    ),
                ),
            )
            for key_id in request.key_ids
        )
        facts = self.change_facts({**exchange, "keys": keys, "released_at": AT, "simulated": True})
        receipt = sign_note(receipt_text(**facts), name=SERVICE.name, key=KEY)
        return self.change_release(Release(keys=keys, receipt=receipt))


def attester(binding: Binding) -> Evidence:
    """Collect evidence of the simulated guest."""
    return bound_evidence(GUEST, binding)


def obtain(service: Service, *keys: str, **options: Any) -> tuple[ReleasedKey, ...]:  # noqa: ANN401  the client's own
    """Ask the service for keys."""
    with httpx.Client(transport=httpx.MockTransport(service), base_url="http://kms.invalid") as http:
        client = KeyReleaseClient(http, service=SERVICE)
        return client.release(keys or ("model",), attester=attester, **options)


@pytest.mark.parametrize("options", [{}, {"kem": KEM_X25519}])
def test_an_honest_service_releases_what_was_asked_for(options: dict[str, int]) -> None:
    first, second = obtain(Service(), "a", "b", **options)
    assert (first.key_id, second.key_id) == ("a", "b")
    assert first.material == MATERIAL
    assert MATERIAL.decode() not in repr(first)


def test_another_service_is_refused_before_anything_is_proved_to_it() -> None:
    service = Service()
    other = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key()
    service.challenge = replace(service.challenge, audience=verifier_key("kms.example/prod", other).text)
    with pytest.raises(BindingError) as outcome:
        obtain(service)
    assert outcome.value.code == "service-identity-mismatch"


@pytest.mark.parametrize(
    "change",
    [
        {"audience": "another"},
        {"nonce": bytes(32)},
        {"evidence_digest": bytes(48)},
        {"keys": ()},
        {"decision_digest": b""},
        {"decision_digest": bytes(31)},
    ],
)
def test_a_receipt_of_another_exchange_is_refused(change: dict[str, Any]) -> None:
    service = Service()
    service.change_facts = lambda facts: facts | change
    with pytest.raises(BindingError) as outcome:
        obtain(service)
    assert outcome.value.code == "receipt-mismatch"


def test_a_receipt_that_the_service_did_not_sign_is_refused() -> None:
    service = Service()
    stranger = Ed25519PrivateKey.from_private_bytes(bytes(32))
    service.change_release = lambda release: replace(
        release, receipt=sign_note(SERVICE.verify(release.receipt), name=SERVICE.name, key=stranger)
    )
    with pytest.raises(SignatureError):
        obtain(service)


def test_sealed_keys_that_the_receipt_does_not_cover_are_never_opened() -> None:
    """AWS 2026-08, wrapped-key substitution: every fact of a sealed key is in the receipt."""
    for change in (
        {"sealed": b"x"},
        {"version": 2},
        {"purpose": "prompt-key"},
        {"policy_digest": b"\x01" * 32},
        {"key_id": "other"},
    ):
        service = Service()
        service.change_release = lambda release, change=change: replace(  # type: ignore[misc]
            release,
            keys=(replace(release.keys[0], **change),),
        )
        with pytest.raises(BindingError):
            obtain(service)


def test_two_keys_cannot_be_swapped() -> None:
    service = Service()
    service.change_release = lambda release: replace(release, keys=release.keys[::-1])
    with pytest.raises(BindingError):
        obtain(service, "a", "b")


def test_other_keys_than_those_asked_for_are_refused() -> None:
    service = Service()
    honest = service.release

    def more(request: ReleaseRequest) -> Release:
        return honest(replace(request, key_ids=("another",)))

    service.release = more  # type: ignore[method-assign]
    with pytest.raises(BindingError) as outcome:
        obtain(service)
    assert outcome.value.code == "receipt-mismatch"


def test_a_refusal_is_told_with_its_code_and_failed_checks() -> None:
    service = Service()
    problem = {"code": "policy-not-met", "detail": "no", "failed_checks": [{"id": "policy.snp.measurement"}]}
    service.answers["/v1/releases"] = httpx.Response(403, json=problem)
    with pytest.raises(ReleaseRefusedError) as outcome:
        obtain(service)
    assert (outcome.value.code, outcome.value.status, outcome.value.message) == ("policy-not-met", 403, "no")
    assert len(outcome.value.failed_checks) == 1


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(500, json=[]),
        httpx.Response(403, json={"failed_checks": "none"}),
        httpx.Response(200, content=b"<html>"),
        httpx.Response(200, content=b""),
        httpx.Response(200, json={}),
        httpx.Response(200, content=b" " * (MAX_ANSWER_BYTES + 1)),
        httpx.Response(302, headers={"location": "http://elsewhere.invalid/"}, json={}),
    ],
)
@pytest.mark.parametrize("path", ["/v1/challenges", "/v1/releases"])
def test_an_answer_that_is_none_gives_a_documented_error(path: str, answer: httpx.Response) -> None:
    service = Service()
    service.answers[path] = answer
    with pytest.raises(AttestError):
        obtain(service)


def test_a_service_that_cannot_be_reached_is_worth_another_try() -> None:
    def dead(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused", request=request)

    with (
        httpx.Client(transport=httpx.MockTransport(dead), base_url="http://kms.invalid") as http,
        pytest.raises(EndorsementError) as outcome,
    ):
        KeyReleaseClient(http, service=SERVICE).challenge()
    assert (outcome.value.code, outcome.value.retryable) == ("service-unreachable", True)


def test_a_challenge_with_a_short_nonce_is_refused() -> None:
    """must-check 1: 32 bytes, or no proof is made under it."""
    service = Service()
    service.challenge = replace(service.challenge, nonce=b"short")
    with pytest.raises(EvidenceError) as outcome:
        obtain(service)
    assert outcome.value.code == "wire-invalid"

"""The workload's side against a service that lies in every way it can."""

import json
from base64 import b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.errors import (
    AttestError,
    BindingError,
    ConfigurationError,
    EndorsementError,
    EvidenceError,
    LogForkedError,
    ReleaseRefusedError,
    SignatureError,
    VerificationError,
)
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
from attest.release.client import KeyReleaseClient, driven
from attest.release.exchange import Exchange
from attest.release.log_monitor import FileMemory, LogWatch, ProcessMemory
from attest.release.receipts import receipt_text
from attest.release.released_key import ReleasedKey
from attest.release.tlog import LogProof, WitnessKey, WitnessPolicy, cosign, leaf_hash, read_checkpoint, sign_checkpoint
from attest.release.transport import MAX_ANSWER_BYTES
from tests.release.test_tlog import path_of, proof_of, root_of
from tests.samples import AT, NONCE, bound_evidence, scene

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
SERVICE = verifier_key("kms.example/prod", KEY.public_key())
GUEST = scene().guest
MATERIAL = b"0123456789abcdef0123456789abcdef"


class Log:
    """A log in memory; the definitions of RFC 9162 word for word."""

    def __init__(self) -> None:
        self.leaves: list[bytes] = []
        self.cosigners: tuple[Ed25519PrivateKey, ...] = ()

    def add(self, entry: bytes) -> int:
        self.leaves.append(leaf_hash(entry))
        return len(self.leaves) - 1

    def checkpoint(self) -> str:
        note = sign_checkpoint(origin=SERVICE.name, size=len(self.leaves), root=root_of(self.leaves), key=KEY)
        return note + "".join(cosign(note, name=f"w{n}", key=key, at=1) for n, key in enumerate(self.cosigners))

    def proof(self, index: int) -> str:
        hashes = tuple(path_of(index, self.leaves))
        return LogProof(index=index, hashes=hashes, checkpoint=self.checkpoint()).to_text()

    def consistency(self, old: int, new: int) -> list[bytes]:
        return proof_of(old, self.leaves[:new])


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
        self.change_entry: Callable[[dict[str, Any]], bytes] = lambda entry: json.dumps(entry).encode()
        self.answers: dict[str, httpx.Response] = {}
        self.log = Log()
        self.carries = False
        """Whether it is new enough to send a consistency proof with a release."""
        self.asked = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        if request.url.path in self.answers:
            return self.answers[request.url.path]
        if request.url.path == "/v1/log/proof/consistency":
            self.asked += 1
            proof = self.log.consistency(int(request.url.params["old"]), int(request.url.params["new"]))
            return httpx.Response(200, json={"proof": [b64encode(one).decode() for one in proof]})
        if request.url.path == "/v1/challenges":
            return httpx.Response(200, json=self.challenge.to_json())
        release = self.release(ReleaseRequest.from_json(json.loads(request.content)))
        if self.carries and "log_size" in request.url.params:
            size = int(request.url.params["log_size"])
            if size > len(self.log.leaves) - 1:
                self.log.leaves.pop()
                return httpx.Response(404, json={"code": "log-tile-unknown", "detail": "no"})
            carried = tuple(self.log.consistency(size, len(self.log.leaves)))
            release = self.change_release(replace(release, consistency=carried))
        return httpx.Response(200, json=release.to_json())

    def release(self, request: ReleaseRequest) -> Release:
        """Seal every key to the binding's key and sign a receipt."""
        item = request.evidence.item("binding")
        assert item is not None
        binding = parse_binding(item.value)
        entry = self.change_entry(
            {
                "kind": "decision",
                "outcome": "allow",
                "nonce_sha256": sha256(NONCE).hexdigest(),
                "evidence_sha384": request.evidence.digest.hex(),
                "requested": list(request.key_ids),
            }
        )
        index = self.log.add(entry)
        exchange = {
            "audience": SERVICE.text,
            "nonce": NONCE,
            "evidence_digest": request.evidence.digest,
            "decision_digest": leaf_hash(entry),
        }
        keys = tuple(
            SealedKey(
                tenant="default",
                key_id=key_id,
                version=1,
                purpose="model-key",
                policy_digest=bytes(32),
                sealed=seal(
                    MATERIAL,
                    recipient=binding.key,
                    info=release_info(
                        **exchange,  # type: ignore[arg-type]  # named as the function names them
                        tenant="default",
                        key_id=key_id,
                        version=1,
                        purpose="model-key",
                        policy_digest=bytes(32),
                    ),
                ),
                lease_id=sha256(key_id.encode()).hexdigest()[:32],
                expires_at=AT + timedelta(days=1),
            )
            for key_id in request.key_ids
        )
        facts = self.change_facts({**exchange, "keys": keys, "released_at": AT, "simulated": True})
        receipt = sign_note(receipt_text(**facts), name=SERVICE.name, key=KEY)
        release = Release(keys=keys, receipt=receipt, entry=entry, proof=self.log.proof(index))
        return self.change_release(release)


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


@pytest.mark.parametrize("decision", ["z" * 64, "AB" * 32, "0" * 63, "0" * 65, "\uff10" * 64, "", " " * 64])
def test_a_signed_receipt_whose_decision_is_no_digest_is_refused(decision: str) -> None:
    service = Service()

    def altered(release: Release) -> Release:
        kind, facts = SERVICE.verify(release.receipt).split("\n", 1)
        text = f"{kind}\n{json.dumps(json.loads(facts) | {'decision': decision})}\n"
        return replace(release, receipt=sign_note(text, name=SERVICE.name, key=KEY))

    service.change_release = altered
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
        {"tenant": "other"},
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
        driven(Exchange(service=SERVICE).challenge(), http)
    assert (outcome.value.code, outcome.value.retryable) == ("service-unreachable", True)


def test_a_challenge_with_a_short_nonce_is_refused() -> None:
    """must-check 1: 32 bytes, or no proof is made under it."""
    service = Service()
    service.challenge = replace(service.challenge, nonce=b"short")
    with pytest.raises(EvidenceError) as outcome:
        obtain(service)
    assert outcome.value.code == "wire-invalid"


# -- the log


def client_of(service: Service, *, watch: LogWatch | None = None) -> KeyReleaseClient:
    http = httpx.Client(transport=httpx.MockTransport(service), base_url="http://kms.invalid")
    return KeyReleaseClient(http, service=SERVICE, watch=watch)


def test_a_released_key_comes_with_the_entry_and_the_proof_that_it_is_logged() -> None:
    service = Service()
    (key,) = obtain(service)
    assert json.loads(key.entry)["outcome"] == "allow"
    assert LogProof.parse(key.proof).index == 0


@pytest.mark.parametrize(
    "change",
    [
        {"kind": "key-created"},
        {"outcome": "deny"},
        {"nonce_sha256": "00" * 32},
        {"evidence_sha384": "00" * 48},
        {"requested": ["other"]},
    ],
)
def test_a_log_that_says_something_else_of_the_exchange_is_refused(change: dict[str, Any]) -> None:
    service = Service()
    service.change_entry = lambda entry: json.dumps(entry | change).encode()
    with pytest.raises(BindingError) as outcome:
        obtain(service)
    assert (outcome.value.code, outcome.value.field) == ("receipt-mismatch", next(iter(change)))


@pytest.mark.parametrize("entry", [b"", b"[]", b"{", b"\xff"])
def test_an_entry_that_is_none_is_refused(entry: bytes) -> None:
    service = Service()
    service.change_entry = lambda _: entry
    with pytest.raises(AttestError):
        obtain(service)


def test_an_entry_that_the_receipt_does_not_name_is_refused() -> None:
    service = Service()
    service.change_facts = lambda facts: facts | {"decision_digest": bytes(32)}
    with pytest.raises(BindingError) as outcome:
        obtain(service)
    assert (outcome.value.code, outcome.value.field) == ("receipt-mismatch", "decision")


def test_an_entry_that_is_not_in_the_log_opens_nothing() -> None:
    service = Service()
    for number in range(3):
        service.log.add(bytes([number]))
    service.change_release = lambda release: replace(release, proof=service.log.proof(1))
    with pytest.raises(VerificationError) as outcome:
        obtain(service)
    assert outcome.value.code == "log-inclusion-invalid"


def test_a_log_that_grows_is_followed() -> None:
    service = Service()
    client = client_of(service)
    for number in range(5):
        client.release(("model",), attester=attester)
        service.log.add(bytes([number]))
    assert service.asked == 4


def test_a_log_that_grows_is_followed_without_a_request_where_the_release_carries_the_proof() -> None:
    service = Service()
    service.carries = True
    client = client_of(service)
    for number in range(5):
        client.release(("model",), attester=attester)
        service.log.add(bytes([number]))
    assert service.asked == 0


def test_what_another_thread_remembers_meanwhile_takes_a_request() -> None:
    service, memory = Service(), ProcessMemory()
    service.carries = True
    client = client_of(service, watch=LogWatch(SERVICE, memory=memory))
    client.release(("model",), attester=attester)

    def change(release: Release) -> Release:
        if release.consistency is not None:
            service.log.add(b"more")
            memory.remember(service.log.checkpoint())
        return release

    service.change_release = change
    client.release(("model",), attester=attester)
    assert service.asked == 1


@pytest.mark.parametrize("hashes", [(), (bytes(32),), (b"",)])
def test_a_carried_proof_that_does_not_hold_opens_nothing_and_nothing_else_is_tried(hashes: tuple[bytes, ...]) -> None:
    service = Service()
    service.carries = True
    client = client_of(service)
    client.release(("model",), attester=attester)
    service.change_release = lambda release: replace(release, consistency=hashes)
    with pytest.raises(LogForkedError):
        client.release(("model",), attester=attester)
    assert service.asked == 0


def test_a_service_whose_log_became_shorter_is_found_out_with_both_checkpoints() -> None:
    service, memory = Service(), ProcessMemory()
    service.carries = True
    client = client_of(service, watch=LogWatch(SERVICE, memory=memory))
    for number in range(3):
        service.log.add(bytes([number]))
    client.release(("model",), attester=attester)
    service.log.leaves = []
    service.answers["/v1/log/proof/consistency"] = httpx.Response(404, json={"code": "log-tile-unknown"})
    with pytest.raises(LogForkedError) as outcome:
        client.release(("model",), attester=attester)
    assert outcome.value.expected == memory.recall()
    assert SERVICE.verify(outcome.value.got or "").split("\n")[1] == "1"


def test_an_older_checkpoint_of_the_same_log_is_no_fork_and_is_not_remembered() -> None:
    """Answers overtake each other, and replicas lag."""
    log, memory = Log(), ProcessMemory()
    watch = LogWatch(SERVICE, memory=memory)
    notes = [log.checkpoint() for n in range(9) if log.add(bytes([n])) == n]
    for size in (9, 3, 9, 1):
        watch.follow(
            read_checkpoint(notes[size - 1], log=SERVICE), fetch=lambda old, new: tuple(log.consistency(old, new))
        )
    assert memory.recall() == notes[8]


def test_a_log_that_was_empty_when_it_was_seen_may_have_any_entries() -> None:
    log, memory = Log(), ProcessMemory()
    memory.remember(log.checkpoint())
    log.add(b"first")
    LogWatch(SERVICE, memory=memory).follow(read_checkpoint(log.checkpoint(), log=SERVICE), fetch=lambda *_: (b"",))
    assert memory.recall() == log.checkpoint()


def test_two_empty_logs_with_different_roots_are_two_logs() -> None:
    log, memory = Log(), ProcessMemory()
    memory.remember(log.checkpoint())
    other = sign_checkpoint(origin=SERVICE.name, size=0, root=bytes(32), key=KEY)
    with pytest.raises(LogForkedError):
        LogWatch(SERVICE, memory=memory).follow(read_checkpoint(other, log=SERVICE), fetch=lambda *_: ())


@pytest.mark.parametrize("grow", [0, 1, 7])
def test_a_service_that_shows_two_logs_is_found_out_with_both_checkpoints(grow: int) -> None:
    memory, service = ProcessMemory(), Service()
    service.log.add(b"one history")
    client = client_of(service, watch=LogWatch(SERVICE, memory=memory))
    client.release(("model",), attester=attester)
    seen = memory.recall()
    service.log.leaves = [leaf_hash(b"another")] + [leaf_hash(bytes([n])) for n in range(grow)]
    with pytest.raises(LogForkedError) as outcome:
        client.release(("model",), attester=attester)
    assert outcome.value.code == "log-forked"
    assert outcome.value.expected == seen
    assert SERVICE.verify(outcome.value.got or "").split("\n")[1] == str(grow + 2)
    assert memory.recall() == seen


@pytest.mark.parametrize(
    ("answer", "kind", "code"),
    [
        (httpx.Response(404, json={"code": "log-tile-unknown", "detail": "no"}), LogForkedError, "log-forked"),
        (httpx.Response(503, json={"code": "store-busy"}), ReleaseRefusedError, "store-busy"),
        (httpx.Response(200, json={"proof": "AAAA"}), BindingError, "service-answer-invalid"),
        (httpx.Response(200, json={"proof": [1]}), LogForkedError, "log-forked"),
        (httpx.Response(200, json={"proof": ["!"]}), BindingError, "service-answer-invalid"),
        (httpx.Response(200, json={"proof": ["AAAA"] * 64}), BindingError, "service-answer-invalid"),
        (httpx.Response(200, json={"proof": []}), LogForkedError, "log-forked"),
        (httpx.Response(200, json=[]), BindingError, "service-answer-invalid"),
    ],
)
def test_a_service_without_a_proof_that_its_log_is_the_same_opens_nothing(
    answer: httpx.Response, kind: type[AttestError], code: str
) -> None:
    service = Service()
    client = client_of(service)
    client.release(("model",), attester=attester)
    service.answers["/v1/log/proof/consistency"] = answer
    with pytest.raises(kind) as outcome:
        client.release(("model",), attester=attester)
    assert outcome.value.code == code


def test_a_file_remembers_for_the_next_process(tmp_path: Path) -> None:
    service = Service()
    for _ in range(2):
        watch = LogWatch(SERVICE, memory=FileMemory(tmp_path / "kms.checkpoint"))
        client_of(service, watch=watch).release(("model",), attester=attester)
    assert service.asked == 1
    assert [path.name for path in tmp_path.iterdir()] == ["kms.checkpoint"]
    assert (tmp_path / "kms.checkpoint").read_text() == service.log.checkpoint()
    service.log.leaves = []
    with pytest.raises(LogForkedError):
        client_of(service, watch=LogWatch(SERVICE, memory=FileMemory(tmp_path / "kms.checkpoint"))).release(
            ("model",), attester=attester
        )


def test_a_memory_that_cannot_be_used_opens_nothing(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("nonsense")
    (tmp_path / "bytes").write_bytes(b"\xff")
    for path in (tmp_path / "text", tmp_path / "bytes", tmp_path, tmp_path / "none" / "file"):
        with pytest.raises(ConfigurationError) as outcome:
            client_of(Service(), watch=LogWatch(SERVICE, memory=FileMemory(path))).release(
                ("model",), attester=attester
            )
        assert outcome.value.code == "log-memory-unusable"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bytes", "text"]
    (tmp_path / "directory").mkdir()
    with pytest.raises(ConfigurationError):
        FileMemory(tmp_path / "directory").remember("note")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["bytes", "directory", "text"]


def test_a_client_gets_nothing_unless_enough_witnesses_saw_the_log() -> None:
    keys = tuple(Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
    known = tuple(WitnessKey(name=f"w{n}", public=key.public_key().public_bytes_raw()) for n, key in enumerate(keys))
    for cosigners, quorum, enough in ((keys, 2, True), (keys[:1], 1, True), (keys[:1], 2, False), ((), 1, False)):
        service = Service()
        service.log.cosigners = cosigners
        watch = LogWatch(SERVICE, witnesses=WitnessPolicy(witnesses=known, quorum=quorum))
        client = client_of(service, watch=watch)
        if enough:
            assert client.release(("model",), attester=attester)[0].material == MATERIAL
            continue
        with pytest.raises(VerificationError) as outcome:
            client.release(("model",), attester=attester)
        assert outcome.value.code == "log-witnesses-missing"

"""What others see of the log: routes, proofs in releases, and witnesses that cosign, or do not."""

import socket
import threading
from base64 import b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from http import HTTPStatus
from pathlib import Path

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from fastapi.testclient import TestClient

from attest.errors import ConfigurationError
from attest.release import Release, VerifierKey
from attest.release.tlog import (
    LogProof,
    WitnessKey,
    WitnessPolicy,
    cosign,
    leaf_hash,
    read_checkpoint,
    verify_consistency,
    verify_inclusion,
    verify_logged,
)
from kms.api.app import create_app
from kms.domain.errors import UnavailableError
from kms.log.publisher import LogPublisher
from kms.log.witness_client import (
    MAX_ANSWER_BYTES,
    MAX_WITNESSES,
    PAUSE_SECONDS,
    Witness,
    WitnessAnswer,
    WitnessPanel,
    poster,
    read_witnesses,
)
from kms.operations.services import open_services
from tests.kms.support import FakeRandom, Harness, Workload, settings_for

ADDRESS = "https://witness.example/log"

ON_BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


@dataclass
class FakeWitness:
    """A witness as C2SP tlog-witness describes it; what is wrong with it is a field."""

    number: int
    log: VerifierKey
    size: int = 0
    root: bytes = b""
    change: Callable[[WitnessAnswer], WitnessAnswer] = lambda answer: answer
    asked: int = 0
    key: Ed25519PrivateKey = field(init=False)

    def __post_init__(self) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(bytes([self.number + 1]) * 32)

    @property
    def witness(self) -> Witness:
        public = self.key.public_key().public_bytes_raw()
        return Witness(key=WitnessKey(name=f"witness{self.number}", public=public), url=f"{ADDRESS}/{self.number}")

    def __call__(self, body: bytes) -> WitnessAnswer:
        self.asked += 1
        return self.change(self._answer(body.decode()))

    def _answer(self, body: str) -> WitnessAnswer:
        head, _, note = body.partition("\n\n")
        old, *proof = head.split("\n")
        checkpoint = read_checkpoint(note, log=self.log)
        if old != f"old {self.size}":
            return WitnessAnswer(status=409, content=f"{self.size}\n".encode())
        hashes = [b64decode(line) for line in proof]
        roots = {"old_root": self.root, "new_root": checkpoint.root}
        if self.size:
            verify_consistency(hashes, old_size=self.size, new_size=checkpoint.size, **roots)
        self.size, self.root = checkpoint.size, checkpoint.root
        line = cosign(note, name=self.witness.key.name, key=self.key, at=1_700_000_000 + self.asked)
        return WitnessAnswer(status=200, content=line.encode())


@dataclass
class Panel:
    """A service whose log some witnesses watch."""

    harness: Harness
    witnesses: list[FakeWitness]
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.harness.services = replace(self.harness.services, log=self.publisher())
        self.harness = replace(self.harness)

    def publisher(self, *, seconds: float = 30) -> LogPublisher:
        panel = WitnessPanel(
            tuple(one.witness for one in self.witnesses),
            clock=self.harness.clock,
            report=self.said.append,
            post=self.post,
            seconds=seconds,
        )
        return LogPublisher(store=self.harness.services.store, signer=self.harness.services.identity, panel=panel)

    def post(self, url: str, body: bytes) -> WitnessAnswer:
        (asked,) = (one for one in self.witnesses if url == f"{one.witness.url}/add-checkpoint")
        return asked(body)

    def release(self) -> Release:
        return self.harness.releases.release(Workload().request(self.harness.releases.challenge(), "model"))

    def cosigned(self, note: str) -> list[int]:
        return [one.number for one in self.witnesses if one.witness.key.cosigned_at(note) is not None]


@pytest.fixture
def panel(harness: Harness) -> Panel:
    harness.add_key("model")
    return Panel(harness=harness, witnesses=[FakeWitness(n, harness.services.identity.public) for n in range(3)])


# -- in a release


@ON_BOTH
def test_mc_25_a_release_proves_that_its_decision_is_in_the_log(harness: Harness) -> None:
    harness.add_key("model")
    log = harness.services.identity.public
    for _ in range(3):
        release = harness.releases.release(Workload().request(harness.releases.challenge(), "model"))
        proof = LogProof.parse(release.proof)
        checkpoint = verify_logged(release.entry, proof, log=log)
        assert proof.index == checkpoint.size - 1
        with harness.services.store.reading() as tx:
            assert checkpoint.size == tx.log.size()


@ON_BOTH
def test_a_release_carries_the_proof_from_every_size_that_the_workload_may_have_seen(harness: Harness) -> None:
    harness.add_key("model")
    log, roots = harness.services.identity.public, dict[int, bytes]()
    with TestClient(create_app(harness.settings, harness.services)) as web:
        for _ in range(3):
            for size in (None, *roots):
                asked = {} if size is None else {"log_size": size}
                request = Workload().request(harness.releases.challenge(), "model").to_json()
                release = Release.from_json(web.post("/v1/releases", json=request, params=asked).json())
                found = verify_logged(release.entry, LogProof.parse(release.proof), log=log)
                roots[found.size] = found.root
                assert (release.consistency is None) == (size is None)
                if size is not None:
                    verify_consistency(
                        release.consistency or (),
                        old_size=size,
                        old_root=roots[size],
                        new_size=found.size,
                        new_root=found.root,
                    )


def test_a_size_that_the_log_does_not_have_is_refused_and_nothing_is_decided(harness: Harness) -> None:
    harness.add_key("model")
    with TestClient(create_app(harness.settings, harness.services)) as web:
        with harness.services.store.reading() as tx:
            size = tx.log.size()
        request = Workload().request(harness.releases.challenge(), "model").to_json()
        for wrong, status, code in (
            (size + 1, 404, "log-tile-unknown"),
            (0, 422, "request-schema"),
            (-1, 422, "request-schema"),
            (2**63, 422, "request-schema"),
            ("x", 422, "request-schema"),
            ("", 422, "request-schema"),
        ):
            answer = web.post("/v1/releases", json=request, params={"log_size": wrong})
            assert (answer.status_code, answer.json()["code"]) == (status, code)
        assert harness.decisions() == []
        answer = web.post("/v1/releases", json=request, params={"log_size": size})
        assert answer.status_code == 200, "the same challenge still counts"


def test_every_witness_that_answers_is_in_the_release(panel: Panel) -> None:
    policy = WitnessPolicy(witnesses=tuple(one.witness.key for one in panel.witnesses), quorum=3)
    log = panel.harness.services.identity.public
    for _ in range(3):
        release = panel.release()
        verify_logged(release.entry, LogProof.parse(release.proof), log=log, witnesses=policy)
    assert [one.asked for one in panel.witnesses] == [3, 3, 3]
    assert panel.said == []


def test_a_restarted_service_learns_from_a_witness_what_it_has_seen(panel: Panel) -> None:
    panel.release()
    panel.harness.services.log.checkpoint()
    again = panel.publisher()
    panel.harness.add_key("another")
    assert panel.cosigned(again.checkpoint().note) == [0, 1, 2]
    assert panel.said == []


@ON_BOTH
def test_requests_that_wait_together_share_one_round(panel: Panel) -> None:
    panel.release()
    with panel.harness.services.store.reading() as tx:
        size = tx.log.size()
    fresh = panel.publisher()
    before = panel.witnesses[0].asked
    with ThreadPoolExecutor(8) as pool:
        proofs = list(pool.map(fresh.proof, [size - n % 3 for n in range(16)]))
    assert len({proof.inclusion.checkpoint for proof in proofs}) == 1
    assert panel.witnesses[0].asked <= before + 2  # once to learn its size, once to cosign


def raising(error: Exception) -> Callable[[WitnessAnswer], WitnessAnswer]:
    def change(_: WitnessAnswer) -> WitnessAnswer:
        raise error

    return change


@pytest.mark.parametrize(
    "change",
    [
        raising(OSError("unreachable")),
        lambda _: WitnessAnswer(status=403, content=b""),
        lambda _: WitnessAnswer(status=422, content=b""),
        lambda _: WitnessAnswer(status=409, content=b"x\n"),
        lambda _: WitnessAnswer(status=409, content=b"\xff"),
        lambda _: WitnessAnswer(status=409, content=b"1\n"),
        lambda _: WitnessAnswer(status=200, content=b""),
        lambda _: WitnessAnswer(status=200, content=b"\xff"),
        lambda _: WitnessAnswer(status=200, content=b"nonsense\n"),
        lambda answer: WitnessAnswer(status=200, content=answer.content.replace(b"witness1", b"witness0")),
        lambda answer: WitnessAnswer(status=200, content=answer.content[:-6] + b"AAAA=\n"),
    ],
)
def test_a_witness_that_fails_is_left_out_told_of_and_given_a_pause(
    panel: Panel, change: Callable[[WitnessAnswer], WitnessAnswer]
) -> None:
    panel.witnesses[1].change = change
    release = panel.release()
    assert panel.cosigned(LogProof.parse(release.proof).checkpoint) == [0, 2]
    assert len(panel.said) == 1
    assert panel.said[0].startswith("warning: the witness witness1 did not cosign")
    asked = panel.witnesses[1].asked
    panel.harness.clock.forward(seconds=PAUSE_SECONDS - 1)
    panel.release()
    assert panel.witnesses[1].asked == asked
    panel.harness.clock.forward(seconds=1)
    panel.witnesses[1].change = lambda answer: answer
    assert panel.cosigned(LogProof.parse(panel.release().proof).checkpoint) == [0, 1, 2]


def test_a_witness_that_does_not_answer_in_time_is_not_waited_for(panel: Panel) -> None:
    held = threading.Event()

    def slow(answer: WitnessAnswer) -> WitnessAnswer:
        held.wait(30)
        return answer

    panel.witnesses[1].change = slow
    note = panel.publisher(seconds=2).checkpoint().note
    held.set()
    assert 1 not in panel.cosigned(note)
    assert ["did not cosign: no answer in time" in line for line in panel.said] == [True]


def test_a_witness_that_saw_another_replica_go_ahead_gets_the_longer_log(panel: Panel) -> None:
    panel.release()
    lagging, log = panel.publisher(), panel.harness.services.log
    log.checkpoint()
    grew: list[int] = []

    def grow(answer: WitnessAnswer) -> WitnessAnswer:
        """The other replica appends and asks between this one's look at the log and its question."""
        if not grew:
            grew.append(1)
            panel.harness.add_key("another")
            log.checkpoint()
            return WitnessAnswer(status=409, content=f"{panel.witnesses[0].size}\n".encode())
        return answer

    panel.witnesses[0].change = grow
    assert panel.cosigned(lagging.checkpoint().note) == [0, 1, 2]
    assert lagging.checkpoint().size == 4


def test_a_log_that_is_shorter_than_what_a_witness_saw_is_not_cosigned(panel: Panel) -> None:
    """A database that was restored from an old copy: the witness has seen more."""
    panel.witnesses[0].change = lambda _: WitnessAnswer(status=409, content=b"1000\n")
    assert panel.cosigned(panel.harness.services.log.checkpoint().note) == [1, 2]


def test_a_replica_that_never_catches_up_publishes_without_the_witness(panel: Panel) -> None:
    count: list[int] = []

    def ahead(_: WitnessAnswer) -> WitnessAnswer:
        count.append(1)
        panel.harness.add_key(f"key{len(count)}")
        return WitnessAnswer(status=409, content=b"1000\n")

    panel.witnesses[0].change = ahead
    note = panel.publisher().checkpoint().note
    assert 0 not in panel.cosigned(note)
    assert len(count) <= 6


# -- the file of witnesses


def test_a_file_of_witnesses_names_a_key_and_an_address_a_line(panel: Panel) -> None:
    lines = [f"{one.witness.key.text} {one.witness.url}/  # {one.number}\n" for one in panel.witnesses]
    assert read_witnesses("".join(["# all\n", "\n", *lines]).encode()) == tuple(one.witness for one in panel.witnesses)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "# nobody\n",
        "{key}\n",
        "{key} https://a.example more\n",
        "{key} ftp://a.example\n",
        "{key} https://\n",
        "{key} https://a.example/?x\n",
        "{key} https://a.example\n{key} https://b.example\n",
        "{log} https://a.example\n",
        "\udcff",
    ],
)
def test_a_file_that_names_no_witnesses_is_refused(panel: Panel, content: str) -> None:
    key, log = panel.witnesses[0].witness.key.text, panel.harness.audience
    with pytest.raises(ConfigurationError) as caught:
        read_witnesses(content.format(key=key, log=log).encode("utf-8", "surrogateescape"))
    assert caught.value.code in {"witnesses-invalid", "verifier-key-invalid"}


def test_there_are_as_many_witnesses_as_are_asked_and_not_one_more() -> None:
    def lines(count: int) -> bytes:
        keys = (WitnessKey(name=f"w{n}", public=bytes([n]) * 32).text for n in range(count))
        return "".join(f"{key} https://a.example\n" for key in keys).encode()

    assert len(read_witnesses(lines(MAX_WITNESSES))) == MAX_WITNESSES
    with pytest.raises(ConfigurationError):
        read_witnesses(lines(MAX_WITNESSES + 1))


@pytest.mark.loopback
def test_the_service_asks_the_witnesses_of_its_settings(panel: Panel, tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))  # and nobody listens there
        address = f"http://127.0.0.1:{nobody.getsockname()[1]}/log"
        (tmp_path / "witnesses").write_text(f"{panel.witnesses[0].witness.key.text} {address}\n")
        settings = settings_for(tmp_path, witnesses_file=tmp_path / "witnesses")
        said: list[str] = []
        services = open_services(settings, clock=panel.harness.clock, random=FakeRandom(), report=said.append)
        assert services.log.checkpoint().size == 2
        services.store.close()
    assert any(line.startswith("warning: the witness witness0 did not cosign: ") for line in said)
    with pytest.raises(ConfigurationError) as caught:
        panel.harness.reopened(witnesses_file=tmp_path / "none")
    assert caught.value.code == "file-unreadable"


def test_an_answer_of_a_witness_is_bounded() -> None:
    def answers(request: httpx.Request) -> httpx.Response:
        if request.url.path == "/dead":
            raise httpx.ConnectError("refused", request=request)
        return httpx.Response(200, content=b"x" * int(request.url.path[1:]))

    with httpx.Client(transport=httpx.MockTransport(answers)) as http:
        post = poster(http)
        assert post(f"http://w.invalid/{MAX_ANSWER_BYTES}", b"").content == b"x" * MAX_ANSWER_BYTES
        for url in (f"http://w.invalid/{MAX_ANSWER_BYTES + 1}", "http://w.invalid/dead", "http://[::/"):
            with pytest.raises(OSError, match=r"."):
                post(url, b"")


# -- routes


@pytest.fixture
def client(harness: Harness) -> Iterator[TestClient]:
    for number in range(3):
        harness.add_key(f"key{number}")
    with TestClient(create_app(harness.settings, harness.services), raise_server_exceptions=False) as made:
        yield made


@ON_BOTH
def test_the_checkpoint_is_a_note_that_is_asked_for_anew(client: TestClient, harness: Harness) -> None:
    answer = client.get("/v1/log/checkpoint")
    assert (answer.status_code, answer.headers["content-type"]) == (HTTPStatus.OK, "text/plain; charset=utf-8")
    assert answer.headers["cache-control"] == "no-cache"
    assert read_checkpoint(answer.text, log=harness.services.identity.public).size == 4
    harness.add_key("more")
    again = client.get("/v1/log/checkpoint").text
    assert read_checkpoint(again, log=harness.services.identity.public).size == 5


@ON_BOTH
def test_tiles_are_kept_for_ever_and_entries_are_the_operators_to_publish(client: TestClient, harness: Harness) -> None:
    answer = client.get("/v1/log/tile/0/000.p/4")
    assert (answer.status_code, answer.headers["content-type"]) == (HTTPStatus.OK, "application/octet-stream")
    assert "immutable" in answer.headers["cache-control"]
    with harness.services.store.reading() as tx:
        raws = [entry.raw for entry in tx.log.entries()]
    assert answer.content == b"".join(map(leaf_hash, raws))
    for path, code in (
        ("0/000", "log-tile-unknown"),
        ("0/000.p/5", "log-tile-unknown"),
        ("0/000%0a", "log-tile-unknown"),
        ("entries/000.p/4", "log-entries-private"),
    ):
        refused = client.get(f"/v1/log/tile/{path}")
        assert (refused.status_code, refused.json()["code"]) == (HTTPStatus.NOT_FOUND, code)
        assert refused.headers["cache-control"] == "no-store"
    public = harness.settings.model_copy(update={"publish_entries": True})
    with TestClient(create_app(public, harness.services)) as reading:
        bundle = reading.get("/v1/log/tile/entries/000.p/4").content
    assert bundle == b"".join(len(raw).to_bytes(2, "big") + raw for raw in raws)


@ON_BOTH
def test_ready_proofs_lead_to_the_checkpoint(client: TestClient, harness: Harness) -> None:
    with harness.services.store.reading() as tx:
        leaves = [entry.leaf_hash for entry in tx.log.entries()]
    root = read_checkpoint(client.get("/v1/log/checkpoint").text, log=harness.services.identity.public).root
    for index, leaf in enumerate(leaves):
        proof = client.get("/v1/log/proof/inclusion", params={"index": index, "size": 4}).json()["proof"]
        verify_inclusion([b64decode(one) for one in proof], index=index, size=4, leaf=leaf, root=root)
    answer = client.get("/v1/log/proof/consistency", params={"old": 0, "new": 4}).json()
    assert answer == {"old": 0, "new": 4, "proof": []}
    assert len(client.get("/v1/log/proof/consistency", params={"old": 3, "new": 4}).json()["proof"]) == 3


@pytest.mark.parametrize(
    ("path", "status", "code"),
    [
        ("inclusion?index=4&size=4", 404, "log-tile-unknown"),
        ("inclusion?index=0&size=5", 404, "log-tile-unknown"),
        ("inclusion?index=0", 422, "request-schema"),
        ("inclusion?index=-1&size=4", 422, "request-schema"),
        ("consistency?old=3&new=2", 404, "log-tile-unknown"),
        ("consistency?old=3&new=5", 404, "log-tile-unknown"),
        ("consistency?old=x&new=5", 422, "request-schema"),
        (f"consistency?old=0&new={2**63}", 422, "request-schema"),
        (f"consistency?old=0&new={'9' * 1000}", 422, "request-schema"),
        (f"consistency?old=0&new={'9' * 5000}", 414, "url-too-long"),
    ],
)
def test_a_proof_that_cannot_be_is_refused(client: TestClient, path: str, status: int, code: str) -> None:
    answer = client.get(f"/v1/log/proof/{path}")
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_a_checkpoint_is_not_given_while_the_database_is_away(harness: Harness) -> None:
    class Away:
        def checkpoint(self) -> None:
            raise UnavailableError("no", code="store-busy")

    away = replace(harness.services, log=Away())  # type: ignore[arg-type]
    with TestClient(create_app(harness.settings, away), raise_server_exceptions=False) as client:
        assert client.get("/v1/log/checkpoint").json()["code"] == "store-busy"

"""The client: what it sends, to whom, and what it makes of every answer that is not the one it wanted."""

import json
import os
import socket
import threading
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest

from attest.channel import ChannelKey
from attest.clock import system_clock
from attest.errors import (
    AppraisalError,
    AttestError,
    ChainError,
    ChannelRefusedError,
    ChannelTamperError,
    ConfigurationError,
    EndorsementError,
    VerificationError,
)
from attest.policy import load_policy
from rag_demo.client import (
    AnswerText,
    Passage,
    RagAnswerError,
    RagClient,
    RagRefusedError,
    RagUnreachableError,
    Sent,
    ServiceState,
    UploadProgress,
    UserToken,
    Watch,
)
from tests.rag_demo.client.site import ANSWER, CITATION, DOCUMENT, PASSAGE, STATE, WRITER, Site

pytestmark = pytest.mark.loopback
SECRET = "the lease of the mill ends in March"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    file = tmp_path / "lease one&two.txt"
    file.write_text(SECRET * 5000)
    return file


# -- what is sent, and to whom


def test_a_document_and_a_question_reach_the_service_and_nothing_of_them_the_wire(site: Site, file: Path) -> None:
    steps: list[Sent | UploadProgress] = []
    with site.client() as client:
        stored = client.upload(file, progress=steps.append)
        asking = client.ask(SECRET)
        replies = list(asking)
    assert stored.document.id == DOCUMENT["id"]
    assert stored.document.pages == 1
    assert asking.answer.text == ANSWER["text"]
    assert [(one.number, one.page) for one in asking.answer.citations] == [(1, 3)]
    assert isinstance(replies[0], Passage)
    assert (replies[0].page, replies[0].sentences) == (3, ("The lease ends in March.",))
    (_, target, bearer, body), (_, _, _, question) = site.heard
    assert target == "/v1/documents?name=lease+one%26two.txt"
    assert bearer == UserToken(bytes(range(32))).header("rag.example")
    assert body == file.read_bytes()
    assert json.loads(question) == {"question": SECRET}
    assert steps[-1] == UploadProgress(pages=1, of=2, passages=2, of_passages=5)
    assert steps[-2] == Sent(sent=len(body), of=len(body))
    for word in (SECRET.encode(), b"lease", b"AAECAwQF", bearer.encode()[-9:], b"March", b"/v1/"):
        assert word not in site.wire


def test_every_message_says_to_which_key_it_went(site: Site, file: Path) -> None:
    with site.client() as client:
        asking = client.ask("where?")
        assert asking.answer.known
        stored = client.upload(file)
        assert asking.sent_to == stored.sent_to == client.standing.sent_to
    assert asking.sent_to.digest == site.key.document.digest
    assert asking.sent_to.key_id == site.key.document.configs[0].key_id
    assert site.key.document.digest.hex()[:16] in str(asking.sent_to)


def test_documents_are_listed_and_deleted(site: Site) -> None:
    with site.client() as client:
        assert [one.name for one in client.documents()] == ["lease.txt"]
        client.delete(str(DOCUMENT["id"]))
        client.delete_all()
        for wrong in ("", "../state", "x" * 32, f"{DOCUMENT['id']}\n"):
            with pytest.raises(ConfigurationError):
                client.delete(wrong)
    assert [one[:2] for one in site.heard] == [
        ("GET", "/v1/documents"),
        ("DELETE", f"/v1/documents/{DOCUMENT['id']}"),
        ("DELETE", "/v1/documents"),
    ]


# -- when the machine has to prove itself


def test_one_proof_is_enough_for_questions_and_each_upload_takes_a_new_one(site: Site, file: Path) -> None:
    with site.client() as client:
        for _ in range(3):
            client.ask("where?").close()
        assert site.offers == 1
        client.upload(file)
        assert site.offers == 2
        client.upload(file)
        assert site.offers == 3
        client.check()
        assert site.offers == 4


def test_a_proof_ends(site: Site) -> None:
    off = timedelta(0)
    demands = site.demands(max_age=timedelta(seconds=10))
    with site.client(demands=demands, clock=lambda: system_clock() + off) as client:
        client.state()
        off = timedelta(seconds=9)
        client.state()
        assert site.offers == 1
        off = timedelta(seconds=11)
        client.state()
    assert site.offers == 2


def test_a_policy_that_is_tightened_counts_at_once(site: Site, file: Path) -> None:
    with site.client() as client:
        assert client.ask("where?").answer.known
        heard = len(site.heard)
        site.tighten()
        for act in (lambda: client.ask(SECRET), lambda: client.upload(file), client.documents, client.check):
            with pytest.raises(AppraisalError) as refused:
                act()
            assert refused.value.code == "not-affirmed"
            assert (refused.value.hint or "").startswith("nothing was sent")
            assert "minimum_tcb" in refused.value.message
        assert not client.standing.affirmed
        assert client.standing.error is not None
        assert any(one.id == "policy.snp.minimum_tcb" for one in client.standing.error.checks)
    assert len(site.heard) == heard


@pytest.mark.parametrize("noticed", ["by the watch", "by the upload", "that it is gone"])
def test_an_upload_under_way_is_broken_off_when_the_machine_is_trusted_no_more(
    site: Site, tmp_path: Path, noticed: str
) -> None:
    file, heard = tmp_path / "long.txt", len(site.heard)
    file.write_bytes(os.urandom(4 * 1024 * 1024))
    turned: list[int] = []

    def turn(step: Sent | UploadProgress) -> None:
        if isinstance(step, Sent) and step.sent >= 1024 * 1024 and not turned:
            turned.append(step.sent)
            if noticed == "that it is gone":
                site.policy.unlink()
                return
            site.tighten()
            if noticed == "by the watch":
                with pytest.raises(AppraisalError):
                    client.check()

    with site.client() as client:
        with pytest.raises(AttestError) as refused:
            client.upload(file, progress=turn)
        assert refused.value.code == ("file-unreadable" if noticed == "that it is gone" else "rag-trust-lost")
        assert not client.standing.affirmed
    assert len(site.wire) < 2 * 1024 * 1024  # with what was on its way in buffers
    assert [one for one in site.heard[heard:] if one[0] == "POST"] == []


def test_a_policy_that_is_gone_or_wrong_accepts_nobody(site: Site) -> None:
    with site.client() as client:
        client.state()
        good = site.policy.read_bytes()
        site.policy.unlink()
        with pytest.raises(ConfigurationError):
            client.state()
        assert not client.standing.affirmed
        site.policy.write_bytes(b"{}")
        with pytest.raises(AttestError):
            client.state()
        site.policy.write_bytes(good)
        assert client.state().state == "ready"
        assert client.standing.affirmed


def test_a_machine_that_runs_something_else_is_sent_nothing(site: Site, file: Path) -> None:
    site.machine = site.machine.with_other_image()
    with site.client() as client:
        for act in (lambda: client.ask(SECRET), lambda: client.upload(file), client.state):
            with pytest.raises(AppraisalError):
                act()
        assert client.standing.error is not None
    assert site.heard == []
    assert SECRET.encode() not in site.wire


def test_a_simulated_machine_is_refused_unless_it_is_allowed(site: Site) -> None:
    strict = replace(site.demands(), anchors=type(site.demands().anchors).vendors())
    with site.client(demands=strict) as client, pytest.raises(ChainError) as refused:
        client.state()
    assert refused.value.code == "simulated-root-refused"
    with site.client() as client:
        client.state()
        assert client.standing.simulated


def test_what_vendors_do_not_say_is_not_taken_for_granted(site: Site) -> None:
    empty = replace(site.demands(), endorsements=type(site.demands().endorsements)())
    with site.client(demands=empty) as client, pytest.raises(EndorsementError) as refused:
        client.state()
    assert refused.value.hint


def test_evidence_of_another_service_or_under_another_nonce_is_refused(site: Site) -> None:
    with site.client(demands=site.demands(audience="other.example")) as client:
        with pytest.raises(VerificationError) as refused:
            client.state()
        assert refused.value.code == "binding-audience-mismatch"
    recorded = site.offer(site.key.document, os.urandom(32))
    site.offer = lambda document, nonce: recorded  # type: ignore[method-assign]  # somebody replays old evidence
    with site.client() as client:
        with pytest.raises(VerificationError) as refused:
            client.state()
        assert refused.value.code == "nonce-mismatch"
        assert refused.value.hint
    assert site.heard == []


def test_keys_that_the_evidence_does_not_commit_to_are_refused(site: Site) -> None:
    other = ChannelKey.born(random=os.urandom, at=system_clock())
    honest = site.offer
    site.offer = lambda document, nonce: replace(  # type: ignore[method-assign]  # a relay with keys of its own
        honest(document, nonce), keys=other.document.to_bytes()
    )
    with site.client() as client:
        with pytest.raises(VerificationError) as refused:
            client.ask(SECRET)
        assert refused.value.code == "channel-keys-mismatch"
        assert client.standing.sent_to is None


def test_a_service_that_forgot_the_proof_is_asked_for_another_one(site: Site, file: Path) -> None:
    site.restart(forgets=1)
    with site.client() as client:
        assert client.ask("where?").answer.known
        assert site.offers == 2
    assert len(site.heard) == 1
    site.restart(forgets=1)
    with site.client() as client:
        assert client.upload(file).document.name == "lease.txt"
        assert site.offers == 4
    assert site.heard[1][3] == file.read_bytes()
    assert len(site.heard) == 2


def test_a_service_that_forgets_every_proof_is_asked_twice_and_no_more(site: Site, file: Path) -> None:
    site.restart(forgets=99)
    with site.client() as client:
        for act in (lambda: client.upload(file), lambda: client.ask("where?")):
            before = site.offers
            with pytest.raises(RagRefusedError) as refused:
                act()
            assert refused.value.code == "evidence-stale"
            assert site.offers - before <= 2
    assert site.heard == []


def test_an_unknown_key_ends_trust_and_the_next_message_asks_anew(site: Site) -> None:
    with site.client() as client:
        client.state()
        site.restart()
        with pytest.raises(ChannelRefusedError) as refused:
            client.state()
        assert refused.value.code == "channel-keys-refused"
        assert not client.standing.affirmed
        assert client.state().state == "ready"
        assert client.standing.sent_to is not None
        assert client.standing.sent_to.digest == site.key.document.digest


# -- answers that are not as they should be


@pytest.mark.parametrize(
    "answered",
    [
        [("passage", PASSAGE)],
        [],
        [("answer", ANSWER), ("answer", ANSWER)],
        [("answer", ANSWER), ("passage", PASSAGE)],
        [("shell", {"run": "rm"})],
        [("answer", {**ANSWER, "known": "yes"})],
        [("answer", {**ANSWER, "known": 1})],
        [("answer", {**ANSWER, "kind": "model"})],
        [("answer", {**ANSWER, "kind": "written"})],
        [("answer", {**ANSWER, "model": WRITER})],
        [("answer", {**ANSWER, "kind": "written", "model": {**WRITER, "weights": 1}})],
        [("answer", {**ANSWER, "kind": "written", "model": "small"})],
        [("answer", {**ANSWER, "citations": [{**CITATION, "number": 0}]})],
        [("answer", {**ANSWER, "citations": [1]})],
        [("answer", {name: value for name, value in ANSWER.items() if name != "text"})],
        [("passage", {**PASSAGE, "page": 0})],
        [("passage", {**PASSAGE, "page": 1.5})],
        [("passage", {**PASSAGE, "score": "1"})],
        [("passage", {**PASSAGE, "sentences": [1]})],
        [("text", {"delta": 1})],
        [("answer", [1])],
        [b"event: answer\ndata: {\n\n"],
        [b'event: answer\ndata: {"known": true, "known": false}\n\n'],
        [b"event: \xff\ndata: {}\n\n"],
        [b"event: answer\ndata: {}\n"],
        [b"event: answer\ndata: {}"],
        [b"data: " + b"x" * 1_100_000 + b"\n\n"],
    ],
)
def test_an_answer_that_is_none_is_an_error_and_no_answer(site: Site, answered: list[Any]) -> None:
    site.answered = answered
    with site.client() as client, pytest.raises(RagAnswerError) as refused:
        _ = client.ask("where?").answer
    assert refused.value.code in {"rag-answer-malformed", "rag-answer-incomplete"}


def test_whoever_leaves_before_the_end_has_no_answer(site: Site) -> None:
    with site.client() as client:
        with client.ask("where?") as asking:
            assert isinstance(next(iter(asking)), Passage)
        with pytest.raises(RagAnswerError) as refused:
            _ = asking.answer
        assert refused.value.code == "rag-answer-incomplete"
        assert client.ask("where?").answer.known


def test_a_text_that_is_being_written_comes_in_pieces(site: Site) -> None:
    generated = {**ANSWER, "kind": "written", "model": WRITER}
    site.answered = [
        ("passage", PASSAGE),
        ("text", {"delta": "The le"}),
        ("text", {"delta": "ase"}),
        ("answer", generated),
    ]
    with site.client() as client:
        replies = list(client.ask("where?"))
    assert [one.delta for one in replies if isinstance(one, AnswerText)] == ["The le", "ase"]


def test_an_answer_that_is_cut_is_never_taken_for_whole(site: Site, file: Path) -> None:
    site.cut = True
    site.answered = [("passage", {**PASSAGE, "text": "x" * 100_000})]
    with site.client() as client:
        with pytest.raises(ChannelTamperError) as cut:
            _ = client.ask("where?").answer
        assert cut.value.code == "channel-truncated"
        assert cut.value.hint
        with pytest.raises(ChannelTamperError):
            client.upload(file)


@pytest.mark.parametrize(
    "uploaded",
    [
        [],
        [("progress", {"pages": 1, "of": None, "passages": 1})],
        [("stored", {})],
        [("stored", {"document": {**DOCUMENT, "id": "../../x"}})],
        [("stored", {"document": {**DOCUMENT, "size": -1}})],
        [("stored", {"document": {**DOCUMENT, "added": "yesterday"}})],
        [("stored", {"document": DOCUMENT}), ("stored", {"document": DOCUMENT})],
        [("progress", {"pages": "1", "of": 1, "passages": 1})],
        [("surprise", {})],
    ],
)
def test_an_upload_counts_once_the_service_says_that_it_is_stored(site: Site, file: Path, uploaded: list[Any]) -> None:
    site.uploaded = uploaded
    with site.client() as client, pytest.raises(RagAnswerError):
        client.upload(file)


def test_what_the_service_refuses_is_told_with_its_code(site: Site, file: Path) -> None:
    problem = {"code": "document-encrypted", "detail": "the PDF has a password", "status": 422, "hint": "remove it"}
    site.uploaded = [("refused", {"problem": problem})]
    with site.client() as client:
        with pytest.raises(RagRefusedError) as refused:
            client.upload(file)
        assert (refused.value.code, refused.value.hint, refused.value.status) == (
            "document-encrypted",
            "remove it",
            422,
        )
        site.refusal = (503, {"code": "rag-locked", "detail": "no key yet"})
        with pytest.raises(RagRefusedError) as refused:
            client.ask("where?")
        assert refused.value.code == "rag-locked"
        assert refused.value.retryable
        for body in ([1], "x", {"detail": 5, "code": None}):
            site.refusal = (400, body)
            with pytest.raises(RagRefusedError) as refused:
                client.documents()
            assert (refused.value.code, refused.value.status) == ("rag-refused", 400)


@pytest.mark.parametrize(
    "state",
    [{}, [], {**STATE, "schema": "rag.state/2"}, {**STATE, "simulated": "no"}, {**STATE, "state": 1}],
)
def test_a_state_that_is_none_is_refused(site: Site, state: Any) -> None:  # noqa: ANN401  JSON
    site.state = state
    with site.client() as client, pytest.raises(RagAnswerError):
        client.state()


# -- no network, wrong addresses, wrong files


def test_a_service_that_is_away_is_told_as_such(site: Site) -> None:
    with socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
    with RagClient(f"http://127.0.0.1:{port}", demands=site.demands(), token=UserToken(bytes(32))) as away:
        with pytest.raises(RagUnreachableError) as refused:
            away.state()
        assert refused.value.retryable
        assert refused.value.hint
        assert isinstance(away.standing.error, RagUnreachableError)


def test_something_else_that_answers_is_not_believed(site: Site) -> None:
    def other(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200, text="trust me")

    with site.client(transport=httpx.MockTransport(other)) as client:
        with pytest.raises(AttestError) as refused:
            client.ask(SECRET)
        assert "trust me" not in str(refused.value)
        assert not client.standing.affirmed


@pytest.mark.parametrize(
    "url", ["", "rag.example", "ftp://x", "http://", "http://x/y", "http://x?y", "http://u@x", "http://\x00"]
)
def test_an_address_that_is_none_is_refused(site: Site, url: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        RagClient(url, demands=site.demands(), token=UserToken(bytes(32)))
    assert refused.value.code == "url-invalid"


@pytest.mark.parametrize(
    "name", ["", "/", "a b", "RAG.example", "rag.example:x", "x:999999", "[::1", "a\n", "ü", "u@x", "a?b"]
)
def test_a_name_that_no_service_has_is_refused(site: Site, name: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        site.client(demands=site.demands(audience=name))
    assert refused.value.code == "rag-service-name-invalid"


@pytest.mark.parametrize("name", ["rag.example/prod", "rag.example:8460", "[::1]:1", "127.0.0.1"])
def test_names_that_services_have_are_taken(site: Site, name: str) -> None:
    with site.client(demands=site.demands(audience=name)) as client, pytest.raises(VerificationError):
        client.state()


def test_a_file_that_cannot_be_read_is_refused_before_anything_is_sent(site: Site, tmp_path: Path) -> None:
    unnamed = tmp_path / os.fsdecode(b"caf\xe9.txt")
    unnamed.write_bytes(b"x")
    with site.client() as client:
        for file in (tmp_path / "none", tmp_path, unnamed):
            with pytest.raises(ConfigurationError):
                client.upload(file)
        assert client.upload(unnamed, name="cafe.txt").document.name
    assert len(site.heard) == 1


# -- the clock


def test_a_machine_that_changes_is_noticed_without_anybody_asking(site: Site) -> None:
    seen: list[ServiceState | AttestError] = []
    good, bad = threading.Event(), threading.Event()

    def heard(found: ServiceState | AttestError) -> None:
        seen.append(found)
        (bad if isinstance(found, AttestError) else good).set()

    with site.client() as client, Watch(client, seconds=0.02, heard=heard):
        assert good.wait(60)
        site.tighten()
        assert bad.wait(60)
        assert not client.standing.affirmed
    assert isinstance(seen[0], ServiceState)
    assert isinstance(seen[-1], AppraisalError)


def test_evidence_that_cannot_even_be_judged_ends_trust_and_the_watch_goes_on(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[ServiceState | AttestError] = []
    told = threading.Semaphore(0)

    def heard(found: ServiceState | AttestError) -> None:
        seen.append(found)
        told.release()

    def fail(*_: object, **__: object) -> None:
        raise ValueError("a defect that evidence of somebody's choice finds")

    with site.client() as client, Watch(client, seconds=0.02, heard=heard):
        assert told.acquire(timeout=60)
        assert client.standing.affirmed
        monkeypatch.setattr("rag_demo.client.trust.verify_offer", fail)
        while len(seen) < 3 or isinstance(seen[-1], ServiceState) or isinstance(seen[-2], ServiceState):
            assert told.acquire(timeout=60)
        assert not client.standing.affirmed
        monkeypatch.undo()
        while not isinstance(seen[-1], ServiceState):
            assert told.acquire(timeout=60)
        assert client.standing.affirmed
    assert {one.code for one in seen if isinstance(one, AttestError)} == {"rag-proof-unjudged"}


def test_several_threads_ask_while_the_machine_proves_itself(site: Site) -> None:
    failed: list[BaseException] = []
    with site.client() as client:

        def work() -> None:
            try:
                for _ in range(4):
                    client.check()
                    assert client.ask("where?").answer.known
            except BaseException as exc:  # noqa: BLE001  told below
                failed.append(exc)

        threads = [threading.Thread(target=work) for _ in range(3)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()
    assert failed == []


def test_demands_can_be_a_policy_in_memory(site: Site) -> None:
    with site.client(demands=site.demands(policy=load_policy(site.machine.policy()))) as client:
        assert client.state().state == "ready"

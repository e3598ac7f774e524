"""``--script``: the guarantees for two owners who trust neither each other nor the operator, shown step by step."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from attest.errors import AppraisalError, AttestError
from rag_demo.client import AnswerText, Passage, RagClient, RagRefusedError, ReplyStream, token_in
from rag_demo.demo.document import ANSWER_HAS, DOCUMENT_NAME, DOCUMENT_TEXT, QUESTION, SENTENCES, UNRELATED_QUESTION
from rag_demo.demo.narrator import Narrator
from rag_demo.demo.parties import NAME, Stage
from rag_demo.demo.refusals import show_refusals
from rag_demo.demo.search import Haystack, Hit, Searcher, process_haystacks
from rag_demo.demo.secret_forms import Needle, bytes_needles, text_needles
from rag_demo.demo.weights import weight_needles

READY_SECONDS: Final = 45.0
_POLL_SECONDS: Final = 0.2


def tell(out: Narrator, stage: Stage) -> None:
    """Play the story. The narrator counts unexpected outcomes."""
    with stage.client() as owner, stage.client(token="another-token") as other:  # noqa: S106  a file's name
        ready(out, stage, owner)
        show_refusals(out, stage)
        _ask_before(out, owner)
        _upload(out, stage, owner)
        _ask(out, owner)
        _another_user(out, other)
        _operator(out, stage)
        _apart(out, stage)
        _exchanged(out, stage, owner)
        _tightened(out, stage, owner)
        _still_nothing(out, stage)


# -- the steps


def ready(out: Narrator, stage: Stage, owner: RagClient) -> None:
    """Wait until the service serves, and say what it took."""
    out.title(
        "The machine attests to both owners, and to the client",
        proves="each owner's service releases its key only after the machine meets that owner's policy",
    )
    for role, owned in (("model", "the key of the sealed model"), ("documents", "the key of the database")):
        out.tell(f"{owned} is with {stage.facts[role]['identity'].partition('+')[0]}")
    found = _wait(lambda: _state(owner) == "ready", READY_SECONDS)
    out.expect("both services released their keys to it; it opened model and database", holds=found, got=_state(owner))
    standing = owner.standing
    if standing.result is not None:
        out.expect(
            f"the document owner's client verified {len(standing.result.checks)} checks of its evidence",
            holds=standing.affirmed,
        )
    if standing.sent_to is not None:
        out.tell(f"messages are sealed to {standing.sent_to}, to which the evidence commits")


def _ask_before(out: Narrator, owner: RagClient) -> None:
    out.title("A question, before there are documents", proves="it invents nothing")
    out.tell(f"asked: {QUESTION}")
    _expect_unknown(out, "it does not know", owner, QUESTION)


def _expect_unknown(out: Narrator, text: str, client: RagClient, question: str) -> None:
    answer = client.ask(question).answer
    out.expect(text, holds=not answer.known, got=answer.text)


def _upload(out: Narrator, stage: Stage, owner: RagClient) -> None:
    out.title("The documents' owner uploads a document", proves="it is sealed before it leaves the owner's computer")
    file = stage.document_owner / DOCUMENT_NAME
    file.write_text(DOCUMENT_TEXT)
    stored = owner.upload(file)
    out.good(f"stored {stored.document.name}: {stored.document.passages} passages, sealed to {stored.sent_to}")


def _ask(out: Narrator, owner: RagClient) -> None:
    out.title("The same question again", proves="answers name the passages of the documents that they rest on")
    asking = owner.ask(QUESTION)
    replies = list(asking)
    passages = [reply for reply in replies if isinstance(reply, Passage)]
    answer = asking.answer
    quoted = answer.model is None and ANSWER_HAS in answer.text
    written = answer.model is not None and any(isinstance(reply, AnswerText) for reply in replies)
    out.expect(f"answered: {' '.join(answer.text.split())}", holds=answer.known and (quoted or written))
    out.tell(answer.source)
    cited = [f"[{one.number}] {one.name} {one.place}".rstrip() for one in answer.citations]
    rests = any(ANSWER_HAS in one.text for one in passages)
    out.expect(f"cites {', '.join(cited)}", holds=bool(cited) and rests and DOCUMENT_NAME in cited[0])
    _expect_unknown(out, "asked about something else, it does not know", owner, UNRELATED_QUESTION)


def _another_user(out: Narrator, other: RagClient) -> None:
    out.title("Another user asks the same question", proves="users share no documents and no index")
    _expect_unknown(out, "it does not know", other, QUESTION)
    out.expect("and lists no document", holds=not other.documents())


def _operator(out: Narrator, stage: Stage) -> None:
    out.title(
        "Everything that the operator can see is searched",
        proves="all traffic, disks, logs and databases together hold no word of it in any of two dozen encodings",
    )
    searcher = Searcher(document_needles(stage))
    hits, count = _searched(searcher, operator_haystacks(stage))
    out.expect(
        f"{count} places, {_megabytes(searcher)} searched for {len(searcher.needles)} forms of document, questions, "
        "answer and tokens: nothing",
        holds=not hits,
        got=_shown(hits),
    )
    weights = Searcher(weight_needles())
    hits, count = _searched(weights, operator_haystacks(stage))
    out.expect(
        f"the same for {len(weights.needles)} forms of the model's weights: nothing", holds=not hits, got=_shown(hits)
    )


def _apart(out: Narrator, stage: Stage) -> None:
    out.title("Each owner's data is searched for the other's", proves="neither owner needs to trust the other")
    hits, _ = _searched(Searcher(document_needles(stage)), Haystack.files(stage.model_owner))
    out.expect("the model owner has nothing of the documents", holds=not hits, got=_shown(hits))
    key = (stage.model_owner / "model.key").read_bytes()
    secrets = (*weight_needles(), *bytes_needles("the model's key", key))
    hits, _ = _searched(Searcher(secrets), Haystack.files(stage.document_owner))
    out.expect("the documents' owner has nothing of the model, and not its key", holds=not hits, got=_shown(hits))
    hits, _ = _searched(Searcher(bytes_needles("the model's key", key)), operator_haystacks(stage))
    out.expect("and the operator does not have the model's key", holds=not hits, got=_shown(hits))


def _exchanged(out: Narrator, stage: Stage, owner: RagClient) -> None:
    out.title(
        "The operator puts older firmware on the machine",
        proves="the client notices before it sends anything, and goes on once the firmware is as it was",
    )
    stage.change_machine("older-firmware")
    out.expect("at its next look the client refuses the machine", holds=not _affirmed(owner))
    before = stage.sealed_requests()
    _refused(out, owner)
    sent = stage.sealed_requests() - before
    out.expect("the record of the traffic has no sealed message since", holds=sent == 0, got=f"{sent} messages")
    stage.change_machine(None)
    back = _wait(lambda: _affirmed(owner) and _state(owner) == "ready", READY_SECONDS)
    out.expect("the firmware is back, and the client affirms the machine again", holds=back, got=_state(owner))


def _tightened(out: Narrator, stage: Stage, owner: RagClient) -> None:
    lease = stage.options.lease_seconds
    out.title(
        "The documents' owner demands newer firmware",
        proves=f"after one owner's change, the service stops within the lease of {lease} s, and no client continues",
    )
    (stage.document_owner / "policy-1.json").write_bytes((stage.document_owner / "policy.json").read_bytes())
    with stage.client(policy="policy-1.json") as unaware:  # a client that does not know the new rule
        began = time.monotonic()
        rule = stage.tighten()
        out.tell(f"new rule, for the client and for the key of the database: {rule}")
        _refused(out, owner)
        stopped = _wait(lambda: _state(unaware) == "stopped", lease + 10.0)
        took = time.monotonic() - began
        out.expect(f"the service was refused its next lease and stopped, {took:.1f} s later", holds=stopped)
        out.tell(f"its answer: {_why(unaware)}")
        try:
            unaware.ask(QUESTION).close()
        except RagRefusedError as exc:
            out.expect(f"it refuses every request: {exc.code}", holds=exc.code in {"rag-stopped", "rag-locked"})
        else:
            out.bad("it still answers")


def _still_nothing(out: Narrator, stage: Stage) -> None:
    out.title("Everything that the operator can see is searched once more", proves="the stop left nothing behind")
    searcher = Searcher((*document_needles(stage), *weight_needles()))
    hits, count = _searched(searcher, operator_haystacks(stage))
    out.expect(f"{count} places, {_megabytes(searcher)}: nothing", holds=not hits, got=_shown(hits))


def _refused(out: Narrator, owner: RagClient) -> None:
    """Require that a client with the new policy sends nothing."""
    try:
        asking: ReplyStream = owner.ask(QUESTION)
    except AppraisalError as exc:
        failed = ", ".join(one.id for one in exc.checks if one.outcome == "fail")
        out.good(f"the client sends nothing more: {failed}")
    else:
        asking.close()
        out.bad("the client still sends")


# -- the search


def document_needles(stage: Stage) -> tuple[Needle, ...]:
    """Return every form of the secrets that only the document owner and the machine may read."""
    found = [
        *text_needles("the document", SENTENCES),
        *text_needles("a question", (QUESTION, UNRELATED_QUESTION)),
        *text_needles("the document's name", (DOCUMENT_NAME,)),
    ]
    for name in ("token", "another-token"):
        file = stage.document_owner / name
        shown = token_in(file, random=os.urandom).header(NAME).removeprefix("Bearer ")
        found += text_needles("a user's token", (file.read_text().strip(), shown))
    return tuple(found)


def operator_haystacks(stage: Stage) -> Iterator[Haystack]:
    """Yield everything that the operator sees: its folder with all traffic, and how every process was started."""
    yield from Haystack.files(stage.operator)
    yield from process_haystacks(one.process.pid for one in stage.programs.values())


def _searched(searcher: Searcher, haystacks: Iterable[Haystack]) -> tuple[list[Hit], int]:
    hits: list[Hit] = []
    count = 0
    for haystack in haystacks:
        count += 1
        hits += searcher.search(haystack)
    return hits, count


def _shown(hits: list[Hit]) -> str:
    return "; ".join(str(hit) for hit in hits[:5])


def _megabytes(searcher: Searcher) -> str:
    return f"{searcher.searched_bytes / 1e6:.0f} MB"


# -- waiting


def _affirmed(client: RagClient) -> bool:
    """Let the client verify the machine again."""
    try:
        client.check()
    except AttestError:
        return False
    return True


def _state(client: RagClient) -> str:
    try:
        return client.state().state
    except AttestError as exc:
        return exc.code


def _why(client: RagClient) -> str:
    try:
        return client.state().why
    except AttestError as exc:
        return exc.message


def _wait(holds: Callable[[], bool], seconds: float) -> bool:
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(_POLL_SECONDS)
    return True

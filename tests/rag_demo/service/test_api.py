"""Every route, with what it wants and with what an attacker sends; two users never meet; nothing stays of an upload."""

import asyncio
import io
import json
import logging
import re
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, replace
from hashlib import sha256
from typing import Any

import httpx
import pytest

from rag_demo.enclave.documents.kinds import SUFFIXES
from rag_demo.enclave.service.logs import JsonLines
from rag_demo.enclave.service.settings import ServiceLimits
from rag_demo.enclave.service.users import collection_of
from tests.rag_demo.service.parts import WRITER
from tests.rag_demo.service.support import Site, ask, events, token, upload

pytestmark = pytest.mark.loopback
LEASE = b"The lease ends in March.\n\nThe landlord pays the heating.\fThe garden belongs to nobody."
SECRET = "zebra-meridian-secret"


def problem_of(answer: httpx.Response) -> tuple[int, str]:
    assert answer.headers["content-type"] == "application/problem+json", answer.text
    document = answer.json()
    assert document["status"] == answer.status_code
    assert document["type"] == f"tag:attest,2026:rag/{document['code']}"
    assert answer.headers["cache-control"] == "no-store"
    return answer.status_code, document["code"]


# -- as it is meant


def test_a_document_is_stored_listed_asked_about_and_deleted(site: Site) -> None:
    with site.client("anna") as client:
        sent = client.post(
            "/v1/documents", params={"name": "lease é.txt"}, content=LEASE, headers={"content-type": "Text/Plain; x=y"}
        )
        told = events(sent.text)
        assert sent.headers["content-type"].startswith("text/event-stream")
        assert [kind for kind, _ in told[:-1]] == ["progress"] * (len(told) - 1)
        assert told[-2][1] == {"pages": 2, "of": 2, "passages": 3, "of_passages": 3}
        stored = told[-1][1]["document"]
        assert (stored["name"], stored["media_type"], stored["size"]) == ("lease é.txt", "text/plain", len(LEASE))
        assert (stored["pages"], stored["passages"], stored["language"]) == (2, 3, "en")
        assert re.fullmatch("[0-9a-f]{32}", stored["id"])
        assert client.get("/v1/documents").json() == {"schema": "rag.documents/1", "documents": [stored]}
        replies = ask(client, "Whose is the garden?")
        assert [kind for kind, _ in replies] == ["passage", "answer"]
        passage, answer = replies[0][1], replies[1][1]
        assert (passage["number"], passage["page"], passage["name"]) == (1, 2, "lease é.txt")
        assert passage["sentences"] == [passage["text"]] == ["The garden belongs to nobody."]
        assert (answer["known"], answer["kind"], answer["text"]) == (True, "quoted", "The garden belongs to nobody.")
        cited = {"number": 1, "document": stored["id"], "name": "lease é.txt", "page": 2, "section": ""}
        assert answer["citations"] == [cited]
        assert client.delete(f"/v1/documents/{stored['id']}").status_code == 204
        assert problem_of(client.delete(f"/v1/documents/{stored['id']}")) == (404, "rag-document-unknown")
        assert ask(client, "Whose is the garden?") == [
            ("answer", {"known": False, "kind": "quoted", "model": None, "text": "Found nothing.", "citations": []})
        ]


def test_an_answer_that_is_worded_comes_as_it_is_made_and_cites_only_what_was_given(site: Site) -> None:
    site.workshop.answers.writer = WRITER
    with site.client("anna") as client:
        upload(client, "lease.txt", LEASE)
        replies = ask(client, "Who pays the heating?")
        assert [kind for kind, _ in replies] == ["passage", "text", "text", "text", "answer"]
        answer = replies[-1][1]
        assert "".join(one["delta"] for kind, one in replies if kind == "text") == answer["text"]
        assert answer["text"] == "It is so [1] and [7]."
        assert [one["number"] for one in answer["citations"]] == [1]
        assert (answer["kind"], answer["model"]) == ("written", asdict(WRITER))
        assert {one["kind"] for kind, one in replies if kind == "text"} == {"written"}
        # Where nothing is known, nothing is worded.
        assert ask(client, "Who won?")[-1][1]["kind"] == "quoted"


def test_two_users_never_meet(site: Site) -> None:
    with site.client("anna") as anna, site.client("bert") as bert:
        mine = upload(anna, "lease.txt", LEASE)
        assert bert.get("/v1/documents").json()["documents"] == []
        assert ask(bert, "When ends the lease?")[-1][1]["known"] is False
        assert problem_of(bert.delete(f"/v1/documents/{mine['id']}")) == (404, "rag-document-unknown")
        assert bert.delete("/v1/documents").status_code == 204
        assert anna.get("/v1/documents").json()["documents"] == [mine]
        assert anna.delete("/v1/documents").status_code == 204
        assert anna.get("/v1/documents").json()["documents"] == []


def test_the_state_is_the_same_inside_and_outside_and_holds_no_secret(site: Site) -> None:
    with site.client() as client:
        inside = client.get("/v1/state").json()
    assert inside == site.state()
    assert inside["schema"] == "rag.state/1"
    assert (inside["state"], inside["why"], inside["simulated"], inside["answers"]) == ("ready", None, True, "quoted")
    assert inside["model"] == {"name": "words", "dimensions": 64, "languages": ["en"]}
    assert [sorted(one) for one in inside["leases"]] == [["key", "until"]] * 2
    assert inside["limits"]["document_bytes"] == 1024 * 1024


def test_the_state_names_the_kinds_of_documents_that_are_read(site: Site) -> None:
    kinds = {one["media_type"]: one["suffixes"] for one in site.state()["limits"]["document_kinds"]}
    assert kinds["application/pdf"] == [".pdf"]
    assert kinds["text/html"] == [".html", ".htm", ".xhtml"]
    assert sorted(suffix for suffixes in kinds.values() for suffix in suffixes) == sorted(SUFFIXES)


# -- who asks


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "Bearer",
        "Bearer ",
        f"Basic {token('anna')}",
        f"Bearer {token('anna')[:-2]}",
        f"Bearer {token('anna')}AA",
        f"Bearer {token('anna')}=",
        f"Bearer {token('anna')[:-1]}!",
        f"Bearer {token('anna')} {token('anna')}",
        "Bearer " + "A" * 43,
        "Bearer " + "ä" * 43,
        "Bearer " + "A" * 8000,
    ],
)
def test_who_shows_no_token_gets_nothing(site: Site, header: str | None) -> None:
    headers = [] if header is None else [(b"authorization", header.encode().strip(b" "))]
    with site.client() as client:
        for method, path in (
            ("GET", "/v1/documents"),
            ("DELETE", "/v1/documents"),
            ("DELETE", "/v1/documents/" + "0" * 32),
            ("POST", "/v1/documents?name=x"),
            ("POST", "/v1/questions"),
        ):
            answer = client.request(method, path, headers=headers, content=b"x" if method == "POST" else None)
            assert problem_of(answer) == (401, "rag-token-invalid")
            assert answer.headers["www-authenticate"].startswith("Bearer")
            assert token("anna")[:20] not in answer.text


def test_two_tokens_are_none(site: Site) -> None:
    lines = [("authorization", f"Bearer {token(user)}") for user in ("anna", "bert")]
    with site.client() as client:
        assert problem_of(client.get("/v1/documents", headers=lines)) == (401, "rag-token-invalid")


def test_a_collection_follows_from_the_token_alone_and_each_bit_of_it_counts() -> None:
    first = collection_of([f"Bearer {token('anna')}"])
    assert first == collection_of([f"bearer {token('anna')}"])
    assert len({collection_of([f"Bearer {token(chr(97 + n))}"]) for n in range(20)} | {first}) == 21
    raw = b"anna".ljust(32, b"\1")
    assert first == sha256(b"rag collection v1\0" + raw).digest()


# -- a document that is sent again


def send(client: httpx.Client, data: bytes, upload_id: str, name: str = "lease.txt") -> dict[str, Any]:
    answer = client.post("/v1/documents", params={"name": name, "id": upload_id}, content=data)
    assert answer.status_code == 200, answer.text
    kind, last = events(answer.text)[-1]
    found: dict[str, Any] = last["document" if kind == "stored" else "problem"]
    return found


FIRST_ID, SECOND_ID = "0a" * 16, "0b" * 16


def test_an_upload_that_is_repeated_under_its_id_is_stored_once(site: Site) -> None:
    with site.client("anna") as client:
        stored = send(client, LEASE, FIRST_ID)
        assert re.fullmatch("[0-9a-f]{32}", stored["id"])
        # The name is not part of what is compared: the first one stays.
        assert send(client, LEASE, FIRST_ID, name="other.txt") == stored
        assert client.get("/v1/documents").json()["documents"] == [stored]
        other = send(client, LEASE, SECOND_ID)
        assert other["id"] != stored["id"]
    with site.client("bert") as client:
        assert send(client, LEASE, FIRST_ID)["id"] not in {stored["id"], other["id"]}


def test_an_id_of_an_upload_with_other_bytes_is_refused_while_the_document_is_stored(site: Site) -> None:
    with site.client("anna") as client:
        stored = send(client, LEASE, FIRST_ID)
        refused = send(client, LEASE + b" More.", FIRST_ID)
        assert (refused["code"], refused["status"]) == ("rag-upload-id-reused", 409)
        assert client.get("/v1/documents").json()["documents"] == [stored]
        assert client.delete(f"/v1/documents/{stored['id']}").status_code == 204
        assert send(client, LEASE + b" More.", FIRST_ID)["name"] == "lease.txt"


def test_an_upload_whose_connection_ends_after_the_body_is_stored_once(site: Site) -> None:
    with site.client("anna") as client:
        # The answer is not read: its reader leaves when the service may have stored the document.
        with client.stream("POST", f"/v1/documents?name=lease.txt&id={FIRST_ID}", content=LEASE) as cut:
            assert cut.status_code == 200
        found: dict[str, Any] = {"code": "rag-too-busy"}
        end = time.monotonic() + 30
        while found.get("code") == "rag-too-busy":
            assert time.monotonic() < end
            found = repeated(client)
        assert client.get("/v1/documents").json()["documents"] == [found]


def repeated(client: httpx.Client) -> dict[str, Any]:
    """Send it again; the turn of the first try may last a moment longer."""
    answer = client.post("/v1/documents", params={"name": "lease.txt", "id": FIRST_ID}, content=LEASE)
    if answer.status_code == 503:
        return {"code": "rag-too-busy"}
    kind, last = events(answer.text)[-1]
    found: dict[str, Any] = last["document" if kind == "stored" else "problem"]
    return found


# -- what is sent


@pytest.mark.parametrize(
    ("query", "headers", "body", "wanted"),
    [
        ("", {}, b"x", (422, "rag-request-invalid")),
        ("?name=", {}, b"x", (422, "rag-request-invalid")),
        ("?name=%20", {}, b"x", (422, "rag-request-invalid")),
        ("?name=a&name=b", {}, b"x", (422, "rag-request-invalid")),
        ("?name=a&more=b", {}, b"x", (422, "rag-request-invalid")),
        ("?id=" + "0a" * 16, {}, b"x", (422, "rag-request-invalid")),
        ("?name=a&id=", {}, b"x", (422, "rag-request-invalid")),
        ("?name=a&id=" + "0A" * 16, {}, b"x", (422, "rag-request-invalid")),
        ("?name=a&id=" + "0a" * 17, {}, b"x", (422, "rag-request-invalid")),
        ("?name=a" + "&id=0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a" * 2, {}, b"x", (422, "rag-request-invalid")),
        ("?name=" + "a" * 256, {}, b"x", (422, "rag-request-invalid")),
        ("?name=a%00b", {}, b"x", (422, "rag-request-invalid")),
        ("?name=a%0Ab", {}, b"x", (422, "rag-request-invalid")),
        ("?name=a%E2%80%AEb", {}, b"x", (422, "rag-request-invalid")),
        ("?name=..%2F..%2Fetc%2Fpasswd", {}, b"x", (422, "rag-request-invalid")),
        ("?name=a%5Cb", {}, b"x", (422, "rag-request-invalid")),
        ("?name=a", {}, b"", (422, "rag-request-invalid")),
        ("?name=a", {"content-type": "text"}, b"x", (415, "rag-media-type-invalid")),
        ("?name=a", {"content-type": "text/plain\x00"}, b"x", None),
        ("?name=a", {"content-type": "<script>/x"}, b"x", (415, "rag-media-type-invalid")),
        ("?name=a", {"content-type": "a/" + "b" * 200}, b"x", (415, "rag-media-type-invalid")),
    ],
)
def test_an_upload_of_another_shape_is_refused_before_it_is_read(
    site: Site, query: str, headers: dict[str, str], body: bytes, wanted: tuple[int, str] | None
) -> None:
    with site.client("anna") as client:
        if wanted is None:
            with pytest.raises(Exception, match="field value"):  # the channel's client refuses it already
                client.post(f"/v1/documents{query}", content=body, headers=headers)
            return
        assert problem_of(client.post(f"/v1/documents{query}", content=body, headers=headers)) == wanted
        assert client.get("/v1/documents").json()["documents"] == []


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{}",
        b"[]",
        b"null",
        b'"when?"',
        b'{"question": 5}',
        b'{"question": null}',
        b'{"question": ""}',
        b'{"question": "   "}',
        b'{"question": "a", "more": 1}',
        b'{"question": "a", "question": "b"}',
        b'{"question": "a\\u0000b"}',
        b'{"question": "\\ud800"}',
        b'{"question": "\\u202e"}',
        b'{"question": "' + b"a" * 2001 + b'"}',
        b"[" * 100_000,
        b'{"question": NaN}',
        b"\xff\xfe",
    ],
)
def test_a_question_of_another_shape_is_refused(site: Site, body: bytes) -> None:
    with site.client("anna") as client:
        status, code = problem_of(client.post("/v1/questions", content=body))
        assert (status, code) in {(422, "rag-request-invalid"), (413, "rag-body-too-large")}


def test_a_question_without_a_word_is_called_so(site: Site) -> None:
    with site.client("anna") as client:
        told = client.post("/v1/questions", content=b'{"question": ""}').json()
    assert told["detail"] == "question: expected 1 to 2000 printable characters, got 0 characters"


def test_a_question_may_be_as_long_as_the_service_says_and_in_any_language(site: Site) -> None:
    with site.client("anna") as client:
        assert ask(client, "ä" * 2000)[-1][0] == "answer"
        assert ask(client, "誰が\n暖房費を払いますか 🏠")[-1][0] == "answer"
        joined = "\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 \U0001f468\u200d\U0001f469 a\u00a0b\u2028c?"
        assert ask(client, joined)[-1][0] == "answer"
        assert ask(client, "'\" OR 1=1; DROP TABLE documents; --* NEAR(a b)")[-1][0] == "answer"


@pytest.mark.parametrize(
    ("method", "path", "wanted"),
    [
        ("GET", "/", (404, "rag-route-unknown")),
        ("GET", "/v1", (404, "rag-route-unknown")),
        ("GET", "/v1/documents/", (404, "rag-route-unknown")),
        ("GET", "/v1/documents/" + "0" * 32, (405, "rag-method-not-allowed")),
        ("PUT", "/v1/documents", (405, "rag-method-not-allowed")),
        ("GET", "/v1/questions", (405, "rag-method-not-allowed")),
        ("POST", "/v1/state", (405, "rag-method-not-allowed")),
        ("GET", "/healthz", (404, "rag-route-unknown")),
        ("GET", "/v1/state?x=1", (422, "rag-request-invalid")),
        ("GET", "/v1/documents?x=1", (422, "rag-request-invalid")),
        ("DELETE", "/v1/documents?all=1", (422, "rag-request-invalid")),
        ("DELETE", "/v1/documents/" + "0" * 31, (404, "rag-document-unknown")),
        ("DELETE", "/v1/documents/" + "A" * 32, (404, "rag-document-unknown")),
        ("DELETE", "/v1/documents/%27%20OR%201%3D1", (404, "rag-document-unknown")),
        ("DELETE", "/v1/documents/..%2F" + "0" * 32, (404, "rag-route-unknown")),
    ],
)
def test_what_is_not_there_is_a_problem_and_never_a_page(
    site: Site, method: str, path: str, wanted: tuple[int, str]
) -> None:
    with site.client("anna") as client:
        assert problem_of(client.request(method, path)) == wanted


def test_a_document_is_as_large_as_the_service_says_and_not_a_byte_larger(site: Site) -> None:
    with site.client("anna") as client:
        most = site.service.settings.limits.document_bytes
        assert upload(client, "a.txt", b"word\n\n" + b"x" * (most - 6))["size"] == most
        refused = client.post("/v1/documents?name=b.txt", content=b"x" * (most + 1))
        assert (refused.status_code, refused.json()["code"]) == (413, "body-too-large")  # the gateway's own word


def test_spaces_that_a_system_puts_into_names_are_spaces(site: Site) -> None:
    with site.client("anna") as client:
        assert upload(client, "Scan at 1.00\u202fPM\u00a0.txt", b"word")["name"] == "Scan at 1.00 PM .txt"


# -- documents that do not become any


def test_what_cannot_be_read_is_told_as_an_event_and_leaves_nothing(site: Site) -> None:
    with site.client("anna") as client:
        assert upload(client, "a.txt", b"%BAD")["code"] == "document-malformed"
        assert upload(client, "a.txt", b"   \n\n \f ")["code"] == "rag-document-empty"
        assert upload(client, "a.txt", b"\n\n".join(b"p%d" % n for n in range(201)))["code"] == "rag-document-too-long"
        assert upload(client, "a.txt", b"\n\n".join(b"p%d" % n for n in range(200)))["passages"] == 200
        assert len(client.get("/v1/documents").json()["documents"]) == 1


def test_a_user_has_so_many_documents_and_no_more(site: Site) -> None:
    with site.client("anna") as client:
        stored = [upload(client, f"{n}.txt", b"word")["id"] for n in range(5)]
        assert upload(client, "6.txt", b"word")["code"] == "rag-documents-full"
        client.delete(f"/v1/documents/{stored[2]}")
        assert "id" in upload(client, "6.txt", b"word")


def test_neither_the_user_nor_the_log_is_told_what_a_defect_stumbled_over(site: Site, written: io.StringIO) -> None:
    with site.client("anna") as client:
        problem = upload(client, f"{SECRET}.txt", b"%BUG" + SECRET.encode())
        assert (problem["code"], problem["status"]) == ("rag-defect", 500)
        assert SECRET not in json.dumps(problem)
        ask(client, SECRET)
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    (found,) = [one for one in lines if one["message"] == "an upload ended with an internal error"]
    assert found["exception"][0] == "ValueError"
    assert any("ingest.py" in place for place in found["exception"])
    for hidden in (SECRET, token("anna"), "/v1/questions"):
        assert hidden not in written.getvalue()


@pytest.fixture
def written() -> Iterator[io.StringIO]:
    """What the service writes down, without what the test's own client does in the same process."""
    text = io.StringIO()
    handler = logging.StreamHandler(text)
    handler.setFormatter(JsonLines())
    handler.addFilter(lambda record: not record.name.startswith(("httpx", "httpcore")))
    root, level = logging.getLogger(), logging.getLogger().level
    root.addHandler(handler)
    root.setLevel(logging.DEBUG)
    yield text
    root.removeHandler(handler)
    root.setLevel(level)


def test_whoever_leaves_in_the_middle_of_an_upload_leaves_nothing(site: Site, written: io.StringIO) -> None:
    site.workshop.reader.before_page = lambda _: time.sleep(0.01)
    site.workshop.reader.ended.clear()
    with site.client("anna") as client:
        # It would take half a minute, if it went on.
        with client.stream("POST", "/v1/documents?name=a.txt", content=b"word" + b"\f" * 3000) as answer:
            assert b"progress" in next(answer.iter_raw())
        assert site.workshop.reader.ended.wait(60)
        wait_until(lambda: "id" in upload_or_busy(client))
        assert [one["name"] for one in client.get("/v1/documents").json()["documents"]] == ["b.txt"]
    assert "an upload was aborted: its user disconnected" in written.getvalue()
    assert "internal error" not in written.getvalue()


def upload_or_busy(client: httpx.Client) -> dict[str, Any]:
    answer = client.post("/v1/documents?name=b.txt", content=b"word")
    if answer.status_code == 503:
        return {}
    found: dict[str, Any] = events(answer.text)[-1][1]["document"]
    return found


def wait_until(true: Any) -> None:  # noqa: ANN401  any function
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


# -- too much


def test_while_one_document_is_read_questions_are_answered_and_a_second_upload_waits(site: Site) -> None:
    reached, go_on = threading.Event(), threading.Event()
    with site.client("anna") as client, site.client("anna") as same, ThreadPoolExecutor(1) as threads:
        upload(same, "lease.txt", LEASE)

        def before_page(_: int) -> None:
            reached.set()
            assert go_on.wait(30)

        site.workshop.reader.before_page = before_page
        coming = threads.submit(upload, client, "slow.txt", b"slow")
        assert reached.wait(30)
        assert ask(same, "When ends the lease?")[-1][1]["known"] is True
        busy = same.post("/v1/documents?name=b.txt", content=b"word")
        assert problem_of(busy) == (503, "rag-too-busy")
        assert int(busy.headers["retry-after"]) > 0
        go_on.set()
        assert coming.result(30)["name"] == "slow.txt"


def test_a_user_asks_only_so_much_at_a_time(site: Site) -> None:
    site.workshop.answers.writer = WRITER
    with site.client("anna") as client, site.client("bert") as other:
        upload(client, "lease.txt", LEASE)
        site.workshop.answers.pause = asyncio.Event()
        streams = [client.stream("POST", "/v1/questions", json={"question": "the lease?"}) for _ in range(4)]
        for one in streams:
            one.__enter__()
        assert problem_of(client.post("/v1/questions", json={"question": "x"})) == (503, "rag-too-busy")
        assert ask(other, "anything?")[-1][0] == "answer"
        for one in streams:
            one.__exit__(None, None, None)
        wait_until(lambda: client.post("/v1/questions", json={"question": "x"}).status_code == 200)


def test_limits_have_defaults_that_a_machine_bears() -> None:
    limits = ServiceLimits()
    assert limits.document_bytes == 64 * 1024 * 1024
    assert limits.uploads * limits.document_bytes <= limits.waiting_bytes
    assert replace(limits, uploads=1).uploads_per_user <= 1


# -- in the clear


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/documents"),
        ("POST", "/v1/documents?name=a"),
        ("DELETE", "/v1/documents"),
        ("DELETE", "/v1/documents/" + "0" * 32),
        ("POST", "/v1/questions"),
        ("GET", "/"),
        ("GET", "/v1/state/"),
        ("GET", "//v1/state"),
        ("GET", "/docs"),
        ("GET", "/openapi.json"),
    ],
)
def test_no_route_of_the_api_answers_in_the_clear(site: Site, method: str, path: str) -> None:
    headers = {"authorization": f"Bearer {token('anna')}"}
    answer = httpx.request(
        method, site.url + path, headers=headers, content=b"x" if method == "POST" else None, trust_env=False
    )
    assert problem_of(answer) == (404, "rag-route-unknown")

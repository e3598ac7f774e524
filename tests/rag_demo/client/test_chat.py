"""The conversation in the terminal: the machine's standing is always there, and strangers' text does nothing to it."""

import io
import os
import pty
import re
import select
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from rag_demo.client.chat import Chat
from rag_demo.client.screen import Screen
from tests.rag_demo.client.site import ANSWER, CITATION, DOCUMENT, PASSAGE, STATE, Site

pytestmark = pytest.mark.loopback
HOSTILE = "\x1b[2J\x1b]0;owned\x07\r\x9b31m\u202egnp.exe\x00\u2028AFFIRMED"
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")


def talk(site: Site, *lines: str, **options: Any) -> str:  # noqa: ANN401  arguments of the client
    out = io.StringIO()
    with site.client(**options) as client:
        Chat(client, Screen(out), io.StringIO("".join(f"{line}\n" for line in lines)), watch_seconds=3600).run()
    return out.getvalue()


def test_a_question_is_answered_with_its_sources_and_the_key(site: Site) -> None:
    said = talk(site, "when does it end?")
    assert "The lease ends in March. [1]\n" in said
    assert "[1] lease.txt p. 3" in said
    assert "sentences of your documents" in said
    assert f"sealed to key {site.key.document.configs[0].key_id} of {site.key.document.digest.hex()[:16]}" in said


def test_the_standing_is_told_before_anything_is_asked_and_at_every_prompt(site: Site) -> None:
    said = talk(site, "when?", "and then?")
    assert said.startswith(("+ AFFIRMED, SIMULATED\n", "✓ AFFIRMED, SIMULATED\n"))
    assert "nothing here is proven about hardware" in said
    assert said.count("AFFIRMED, SIMULATED >") == 3


def test_a_machine_that_does_not_meet_the_policy_is_told_with_why_and_asked_nothing(site: Site) -> None:
    site.tighten()
    said = talk(site, "my secret question", "/why", "/upload /etc/hostname", "/evidence")
    assert "NOT AFFIRMED" in said
    assert "policy.snp.minimum_tcb" in said
    assert "expected" in said
    assert "\n+ AFFIRMED" not in said
    assert site.heard == []


def test_documents_are_uploaded_listed_and_deleted_by_number(site: Site, tmp_path: Path) -> None:
    file = tmp_path / "my lease.txt"
    file.write_text("it ends")
    said = talk(site, f"/upload '{file}'", "/documents", "/delete 1", f"/delete {DOCUMENT['id']}", "/delete all")
    assert "stored lease.txt: 1 pages, 2 passages" in said
    assert f"1. lease.txt  (1 pages, 2 passages, 42 bytes)  {DOCUMENT['id']}" in said
    assert [one[:2] for one in site.heard[1:]] == [
        ("POST", "/v1/documents?name=my+lease.txt"),
        ("GET", "/v1/documents"),
        ("DELETE", f"/v1/documents/{DOCUMENT['id']}"),
        ("DELETE", f"/v1/documents/{DOCUMENT['id']}"),
        ("DELETE", "/v1/documents"),
    ]


@pytest.mark.parametrize(
    "line", ["/delete 7", "/delete", "/delete 0", "/upload", "/upload a b", "/upload 'a", "/nothing", "/", "/delete x"]
)
def test_a_command_that_is_none_is_explained_and_the_conversation_goes_on(site: Site, line: str) -> None:
    said = talk(site, line, "when?")
    assert "error: " in said or "there is no command" in said
    assert "The lease ends in March." in said
    assert len(site.heard) == 2


def test_policy_and_evidence_are_shown_in_full(site: Site) -> None:
    said = talk(site, "/policy", "/evidence", "/why", "/check", "/help")
    with site.client() as client:
        digest = client.demands.reader()().policy.digest.hex()
    assert digest in said
    assert "snp: policy.snp.minimum_tcb" in said
    assert "cpu: sev-snp" in said
    assert re.search(r"measurement +[0-9a-f]{96}", said)
    assert site.key.document.digest.hex() in said
    assert "pass  snp.signature" in said
    assert "the service is ready" in said
    assert "/upload FILE" in said


def test_a_service_that_is_locked_says_why(site: Site) -> None:
    why = {"code": "policy-not-met", "detail": "the release is refused", "failed_checks": ["policy.snp.measurement"]}
    site.state = {**STATE, "state": "locked", "why": why}
    assert "the service is locked: the release is refused (policy-not-met: policy.snp.measurement)" in talk(site)


def test_why_a_service_is_locked_is_said_once(site: Site) -> None:
    why = {"code": "key-disabled", "detail": "the release is refused: key-disabled", "failed_checks": []}
    site.state = {**STATE, "state": "locked", "why": why}
    assert "the service is locked: the release is refused: key-disabled\n" in talk(site)


def test_what_is_not_known_is_said_and_nothing_else(site: Site) -> None:
    site.answered = [("answer", {**ANSWER, "known": False, "text": "perhaps?", "citations": []})]
    said = talk(site, "when?")
    assert "Found nothing near enough to the question in your documents." in said
    assert "perhaps" not in said


def test_words_of_a_language_model_are_shown_as_such_while_they_come(site: Site) -> None:
    generated = {**ANSWER, "kind": "generated", "text": "In March [1]."}
    site.answered = [
        ("passage", PASSAGE),
        ("text", {"delta": "In Ma"}),
        ("text", {"delta": "rch [1]."}),
        ("answer", generated),
    ]
    said = talk(site, "when?")
    assert said.count("In March [1].") == 1
    assert "written by a language model" in said
    assert "[1] lease.txt p. 3" in said


def test_nothing_that_a_stranger_writes_reaches_the_terminal_raw(site: Site, tmp_path: Path) -> None:
    document = {**DOCUMENT, "name": HOSTILE, "media_type": HOSTILE}
    site.listed = {"documents": [document]}
    site.uploaded = [("stored", {"document": document})]
    why = {"code": HOSTILE, "detail": HOSTILE, "failed_checks": [HOSTILE]}
    site.state = {**STATE, "state": HOSTILE, "why": why}
    citation = {**CITATION, "name": HOSTILE}
    hostile = {**ANSWER, "text": f"{HOSTILE}\nx", "citations": [citation]}
    site.answered = [("passage", PASSAGE), ("text", {"delta": HOSTILE}), ("answer", {**hostile, "kind": "generated"})]
    file = tmp_path / "x"
    file.write_bytes(b"x")
    said = talk(site, "when?", "/documents", f"/upload {file}", "/check", "/" + HOSTILE)
    site.answered = [("answer", hostile)]
    said += talk(site, "when?")
    site.refusal = (400, {"code": HOSTILE, "detail": HOSTILE, "hint": HOSTILE})
    said += talk(site, "when?")
    site.refusal, site.answered = None, [(HOSTILE.replace("\r", "").replace("\x00", ""), {})]
    said += talk(site, "when?")
    assert "owned" in said
    assert CONTROL.findall(said) == []


def test_a_service_that_goes_away_ends_no_conversation(site: Site) -> None:
    import httpx

    def gone(request: httpx.Request) -> httpx.Response:
        raise httpx.ConnectError("refused")

    said = talk(site, "when?", "/documents", transport=httpx.MockTransport(gone))
    assert said.count("(rag-unreachable)") >= 3
    assert "hint: " in said


def test_a_change_is_told_while_nobody_asks(site: Site) -> None:
    out = io.StringIO()
    reading, writing = os.pipe()
    with site.client() as client, os.fdopen(reading) as lines, os.fdopen(writing, "w") as person:
        import threading

        chat = Chat(client, Screen(out), lines, watch_seconds=0.02)
        thread = threading.Thread(target=chat.run)
        thread.start()
        end = time.monotonic() + 60
        while "ask, or /help" not in out.getvalue():
            assert time.monotonic() < end
            time.sleep(0.01)
        site.tighten()
        while "NOT AFFIRMED" not in out.getvalue():
            assert time.monotonic() < end
            time.sleep(0.01)
        person.write("/quit\n")
        person.flush()
        thread.join(10)
        assert not thread.is_alive()


def test_on_a_terminal_the_prompt_has_sign_word_and_colour(site: Site) -> None:
    near, far = pty.openpty()
    env = dict(os.environ) | {"TERM": "xterm", "PYTHONIOENCODING": "utf-8"}
    env.pop("NO_COLOR", None)
    process = subprocess.Popen(
        [sys.executable, "-m", "rag_demo.client", site.url, *site.options], stdin=far, stdout=far, stderr=far, env=env
    )
    os.close(far)
    seen = b""
    try:
        seen = _until(near, b" > ", seen)
        os.write(near, b"when?\n")
        seen = _until(near, b"sealed to", seen)
        os.write(near, b"\x04")
        seen = _until(near, b"> \r\n", seen)
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
        os.close(near)
    text = seen.decode()
    assert "\x1b[33m✓ AFFIRMED, SIMULATED\x1b[0m > " in text
    assert "The lease ends in March." in text


def _until(descriptor: int, mark: bytes, seen: bytes) -> bytes:
    # The mark may begin in what was read before, and not lie there whole.
    end, begin = time.monotonic() + 30, max(0, len(seen) - len(mark) + 1)
    while mark not in seen[begin:]:
        assert time.monotonic() < end, seen
        if select.select([descriptor], [], [], 1)[0]:
            seen += os.read(descriptor, 4096)
    return seen

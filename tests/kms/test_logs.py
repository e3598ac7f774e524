"""Request ids, lines and JSON documents about requests; no body, no secret."""

import io
import json
import logging
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient
from hypothesis import given
from hypothesis import strategies as st

from kms.api.app import create_app
from kms.api.observation import Watching
from kms.config.model import LogFormat
from kms.running.logs import report_to_log, request_id, set_up_logs
from tests.kms.support import MATERIAL, FakeRandom, Harness, Workload


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers, root.level
    monkeypatch.setattr(logging.getLogger("httpx2"), "disabled", True)  # of the test's own client
    yield io.StringIO()
    root.handlers = handlers
    root.setLevel(level)


def client_of(harness: Harness, written: io.StringIO, form: LogFormat) -> TestClient:
    set_up_logs(form, stream=written)
    return TestClient(
        create_app(harness.settings, harness.services, watching=Watching(random=FakeRandom("ids"))),
        raise_server_exceptions=False,
    )


@pytest.mark.parametrize("given_id", ["12345678", "a" * 64, "0b9e.C-f_1", "550e8400-e29b-41d4-a716-446655440000"])
def test_an_id_of_the_right_form_is_taken(given_id: str) -> None:
    assert request_id(given_id, random=FakeRandom()) == given_id


@pytest.mark.parametrize(
    "given_id", [None, "", "1234567", "a" * 65, "-2345678", "1234 5678", "1234\n5678", "ä2345678", "12345678\n"]
)
def test_mc_34_an_id_of_another_form_is_replaced(given_id: str | None) -> None:
    made = request_id(given_id, random=FakeRandom())
    assert made != given_id
    assert len(made) == 32
    assert request_id(made, random=FakeRandom("other")) == made


@given(st.text())
def test_whatever_is_sent_the_id_that_is_used_has_the_form(text: str) -> None:
    used = request_id(text, random=FakeRandom())
    assert used.isascii()
    assert used.isprintable()
    assert " " not in used
    assert 8 <= len(used) <= 64


def test_the_id_is_in_the_answer_the_problem_and_every_line(harness: Harness, written: io.StringIO) -> None:
    with client_of(harness, written, "json") as client:
        good = client.get("/v1/identity", headers={"X-Request-Id": "given-to-us"})
        bad = client.get("/nothing", headers={"X-Request-Id": "not one"})
    assert good.headers["x-request-id"] == "given-to-us"
    made = bad.headers["x-request-id"]
    assert bad.json()["request_id"] == made != "not one"
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    of_access = [line for line in lines if line["logger"] == "kms.access"]
    assert [(one["request_id"], one["path"], one["status"]) for one in of_access] == [
        ("given-to-us", "/v1/identity", 200),
        (made, "/nothing", 404),
    ]


def test_a_bug_is_a_json_document_with_the_id_that_its_caller_got(harness: Harness, written: io.StringIO) -> None:
    from dataclasses import replace

    class Broken:
        def issue(self, *, at: object) -> None:
            raise RuntimeError("a text of ours")

    broken = Harness(
        folder=harness.folder,
        settings=harness.settings,
        services=replace(harness.services, challenges=Broken()),  # type: ignore[arg-type]
        clock=harness.clock,
        random=harness.random,
    )
    with client_of(broken, written, "json") as client:
        answer = client.post("/v1/challenges", json={})
    assert answer.status_code == 500
    lines = [json.loads(line) for line in written.getvalue().splitlines()]
    found = [line for line in lines if line["level"] == "error"]
    assert found[0]["request_id"] == answer.json()["request_id"] == answer.headers["x-request-id"]
    assert "a text of ours" in found[0]["exception"]


def test_what_a_caller_writes_into_the_path_makes_no_line_of_its_own(harness: Harness, written: io.StringIO) -> None:
    with client_of(harness, written, "text") as client:
        client.get("/a%0Aerror: forged%1b[31m")
    lines = [line for line in written.getvalue().splitlines() if "kms.access" in line]
    assert len(lines) == 1
    assert "%0Aerror:" in lines[0]
    assert "\x1b" not in lines[0]


@pytest.mark.parametrize("form", ["text", "json"])
def test_mc_33_neither_bodies_nor_tokens_nor_keys_are_in_the_logs(
    harness: Harness, written: io.StringIO, form: LogFormat
) -> None:
    harness.add_key("model")
    with client_of(harness, written, form) as client:
        challenge = client.post("/v1/challenges", json={}).json()
        from attest.release import Challenge

        request = Workload().request(Challenge.from_json(challenge), "model").to_json()
        answer = client.post("/v1/releases?token=in-the-query", json=request)
    assert answer.status_code == 200
    text = written.getvalue()
    assert "/v1/releases" in text
    for secret in (challenge["challenge"], challenge["nonce"], "in-the-query", MATERIAL.hex(), "model"):
        assert secret not in text


def test_probes_that_are_answered_well_are_no_lines(harness: Harness, written: io.StringIO) -> None:
    with client_of(harness, written, "json") as client:
        assert client.get("/healthz").status_code == client.get("/readyz").status_code == 200
        assert "kms.access" not in written.getvalue()
        assert client.post("/healthz").status_code == 405
    assert "/healthz" in written.getvalue()


def test_lines_for_the_operator_have_their_level_in_json(written: io.StringIO) -> None:
    set_up_logs("json", stream=written)
    for line in ("error: it broke", "warning: endorsements: old", "WARNING: plain", "endorsements were reloaded"):
        report_to_log(line)
    found = [(one["level"], one["message"]) for one in map(json.loads, written.getvalue().splitlines())]
    assert found == [
        ("error", "it broke"),
        ("warning", "endorsements: old"),
        ("warning", "plain"),
        ("info", "endorsements were reloaded"),
    ]

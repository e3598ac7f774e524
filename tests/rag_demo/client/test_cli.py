"""The commands for scripts: one document on standard output, and an exit code that says what came of it."""

import json
import os
import sys
from pathlib import Path
from typing import Any

import click
import pytest

from rag_demo.client.cli import cli, main
from rag_demo.client.token import token_in
from rag_demo.demo.cli import demo
from tests.rag_demo.client.site import ANSWER, DOCUMENT, NAME, PASSAGE, STATE, Site

pytestmark = pytest.mark.loopback


def run(site: Site, capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> tuple[str, str]:
    command, *rest = words
    assert main([command, site.url, *rest, *site.options]) == code, capsys.readouterr()
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    return out, err


def document(text: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    assert text.count("\n") == 1
    return found


def test_one_question_as_json(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(run(site, capsys, "ask", "when?", "--json")[0])
    assert found["schema"] == "rag.client.answer/1"
    assert (found["known"], found["text"]) == (True, ANSWER["text"])
    assert found["citations"] == ANSWER["citations"]
    assert found["passages"][0]["sentences"] == ["The lease ends in March."]
    digest = site.key.document.digest.hex()
    assert found["sent_to"]["digest"] == found["machine"]["key"]["digest"] == digest
    assert (found["machine"]["affirmed"], found["machine"]["simulated"]) == (True, True)


def test_one_upload_and_the_list(site: Site, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    file = tmp_path / "x.txt"
    file.write_text("words")
    found = document(run(site, capsys, "upload", str(file), "--name", "y.txt", "--json")[0])
    assert (found["schema"], found["document"]["id"]) == ("rag.client.upload/1", DOCUMENT["id"])
    assert site.heard[0][1] == "/v1/documents?name=y.txt"
    assert document(run(site, capsys, "documents", "--json")[0])["documents"][0]["added"] == DOCUMENT["added"]
    assert document(run(site, capsys, "delete", "all", "--json")[0])["deleted"] == "all"
    assert "lease.txt" in run(site, capsys, "documents")[0]
    assert "stored lease.txt" in run(site, capsys, "upload", str(file))[0]
    assert run(site, capsys, "delete", str(DOCUMENT["id"]))[0] == "deleted\n"


def test_a_check_tells_how_machine_and_service_are(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    found = document(run(site, capsys, "check", "--json")[0])
    assert (found["schema"], found["state"], found["machine"]["policy"]) == ("rag.client.check/1", "ready", "simulated")
    out, _ = run(site, capsys, "check")
    assert "AFFIRMED, SIMULATED" in out
    assert "the service is ready" in out


def test_a_question_for_people(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = run(site, capsys, "ask", "when?")
    assert "AFFIRMED, SIMULATED" in out.splitlines()[0]
    assert "[1] lease.txt p. 3" in out


def test_the_same_token_serves_from_one_command_to_the_next(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    run(site, capsys, "documents")
    run(site, capsys, "documents")
    assert site.heard[0][2] == site.heard[1][2]
    file = site.folder / "token"
    assert file.stat().st_mode & 0o777 == 0o600
    token = site.heard[0][2].removeprefix("Bearer ")
    assert f"Bearer {token}" == token_in(file, random=os.urandom).header(NAME)
    assert file.read_text().strip() not in {token, *(one[2] for one in site.heard)}
    assert token.encode() not in site.wire


def test_a_machine_that_does_not_meet_the_policy_exits_with_1(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    site.tighten()
    for words in (("ask", "when?"), ("ask", "when?", "--json"), ("check", "--json"), ("upload", "/etc/hostname")):
        out, err = run(site, capsys, *words, code=1)
        assert out == ""
        assert err.startswith("error: ")
        assert "minimum_tcb" in err
    out, err = run(site, capsys, "check", code=1)
    assert "NOT AFFIRMED" in out
    assert "fail  policy.snp.minimum_tcb" in out
    assert "pass  snp.signature" in out
    assert "hint: nothing was sent" in err
    assert site.heard == []


def test_refusals_and_failures_have_their_exit_codes(
    site: Site, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run(site, capsys, "upload", str(tmp_path / "none"), code=2)
    run(site, capsys, "delete", "17", code=2)
    run(site, capsys, "ask", code=2)
    run(site, capsys, "upload", "a", "b", code=2)
    site.answered = [("answer", {**ANSWER, "known": 1})]
    assert "rag" not in run(site, capsys, "ask", "when?", code=3)[0]
    site.cut, site.answered = True, [("passage", {**PASSAGE, "text": "x" * 100_000})]
    run(site, capsys, "ask", "when?", code=4)
    site.state = {**STATE, "schema": "rag.state/9"}
    run(site, capsys, "check", code=3)
    site.refusal = (503, {"code": "rag-locked", "detail": "no key", "hint": "wait"})
    assert "hint: wait" in run(site, capsys, "ask", "when?", code=1)[1]
    port, site.port = site.port, 1
    run(site, capsys, "check", code=5)
    site.port = port


@pytest.mark.parametrize(
    "words",
    [
        ["http://127.0.0.1:1"],
        ["ask", "http://127.0.0.1:1"],
        ["nonsense", "--policy", "x"],
        ["check", "http://127.0.0.1:1", "--policy", "/nonexistent"],
        ["check", "http://127.0.0.1:1", "--policy", "/dev/null"],
        ["check", "http://[::1", "--policy", "POLICY"],
        ["check", "http://127.0.0.1:1", "--policy", "POLICY", "--record-seconds", "0"],
        ["check", "http://127.0.0.1:1", "--policy", "POLICY", "--record-seconds", "301"],
        ["check", "http://127.0.0.1:1", "--policy", "POLICY", "--endorsements", "/nonexistent"],
        ["check", "http://127.0.0.1:1", "--policy", "POLICY", "--anchors", "/nonexistent"],
    ],
)
def test_wrong_use_is_told_in_two_lines(
    site: Site, capsys: pytest.CaptureFixture[str], words: list[str], tmp_path: Path
) -> None:
    words = [str(site.policy) if word == "POLICY" else word for word in words]
    token = ["--token", str(tmp_path / "token")] if len(words) > 1 else []
    assert main([*words, *token]) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("error: ")
    assert "Traceback" not in err


def test_a_command_that_is_written_wrongly_is_no_address(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["uplod", "http://127.0.0.1:1", "x"]) == 2
    assert "no such command 'uplod'" in capsys.readouterr().err
    assert main(["127.0.0.1:8460", "--policy", "/nonexistent"]) == 2
    told = capsys.readouterr().err
    assert "not the address of a service" in told
    assert "hint: write it as https://" in told


def test_why_nothing_answers_is_told_in_the_systems_words(site: Site, capsys: pytest.CaptureFixture[str]) -> None:
    port, site.port = site.port, 1
    assert "cannot be reached: Connection refused\n" in run(site, capsys, "check", code=5)[1]
    site.port = port


@pytest.mark.parametrize("words", [("check",), ("check", "--json"), ("documents",), ("ask", "when?", "--json")])
def test_a_reader_who_goes_away_is_no_verdict(
    site: Site, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    command, *rest = words
    with os.fdopen(writing, "w") as out, monkeypatch.context() as patched:
        patched.setattr(sys, "stdout", out)
        assert main([command, site.url, *rest, *site.options]) == 141
    assert capsys.readouterr().err == ""


def test_help_begins_with_examples(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert capsys.readouterr().out.startswith("Examples:\n  python -m rag_demo.client https://")
    for command in ("ask", "chat", "check", "delete", "documents", "upload"):
        assert main([command, "--help"]) == 0
        assert "--policy" in capsys.readouterr().out


def test_every_command_and_option_is_documented() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs/rag-demo.md").read_text()
    for command in (*cli.commands.values(), demo):
        for parameter in command.params:
            if isinstance(parameter, click.Option) and parameter.opts[0] not in {"--name", "--tls-ca", "--no-colour"}:
                assert parameter.opts[0] in page, (command.name, parameter.opts)
    for name in cli.commands:
        assert f"`{name}`" in page or name == "chat"

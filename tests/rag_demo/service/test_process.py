"""The program itself, with the real model, store and reader: what it tells, what it keeps, and what a kill leaves."""

import json
import os
import re
import signal
import threading
from contextlib import suppress
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from rag_demo.enclave.cli import serving
from tests.rag_demo.service.program import Program, operator_folder, running
from tests.rag_demo.service.support import Owner, ask, token, upload

pytestmark = pytest.mark.loopback
SENTENCE = "The quorum of the beekeepers is seven members."
QUESTION = "How many members are the quorum of the beekeepers?"


@pytest.fixture(scope="module")
def folder(model_owner: Owner, document_owner: Owner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What its operator has."""
    return operator_folder(tmp_path_factory.mktemp("operator"), model_owner, document_owner)


def text_of(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


def test_a_life_from_its_first_line_to_its_last_and_a_kill_in_the_middle_of_an_upload(folder: Path) -> None:
    with running(folder) as first:
        # (1) It says that it is simulated, where it listens, and nothing else.
        assert first.told[0].startswith("SIMULATED")
        assert first.told[1] == "name: rag.example"
        assert first.told[2].startswith("listening: http://127.0.0.1:")
        # (2) Nobody looks into it, and it leaves no core.
        status = Path(f"/proc/{first.process.pid}/limits").read_text()
        assert re.search(r"Max core file size\s+0\s+0", status)
        if os.geteuid() != 0:
            with pytest.raises(PermissionError):
                Path(f"/proc/{first.process.pid}/environ").read_bytes()
        assert Path(f"/proc/{first.process.pid}").stat().st_uid == 0  # of a process that is not dumpable, root's
        # (3) Documents are found by what they mean.
        with first.site.client("anna") as client:
            stored = upload(client, "bees.md", f"# Rules\n\n{SENTENCE}\n".encode(), "text/markdown")
            assert stored["passages"] >= 1
            replies = ask(client, QUESTION)
            assert SENTENCE in replies[-1][1]["text"]
            assert replies[-1][1]["citations"][0]["document"] == stored["id"]
            assert ask(client, "What is the capital of Mongolia?")[-1][1]["known"] is False
            assert upload(client, "x.pdf", b"%PDF-1.4 no", "application/pdf")["code"] == "document-malformed"
            # (4) Killed in the middle of a document, it leaves nothing of it.
            killed_in_the_middle(first, client)
        assert first.process.wait(30) == -signal.SIGKILL
    with running(folder) as second:
        with second.site.client("anna") as client:
            assert [one["name"] for one in client.get("/v1/documents").json()["documents"]] == ["bees.md"]
            assert ask(client, "What do the meridian zebras do?")[-1][1]["known"] is False
        # (5) Asked to, it ends in order.
        second.process.send_signal(signal.SIGTERM)
        assert second.process.wait(30) == 0
    # (6) Nothing that its operator has says what was in the documents, or who asked.
    held = text_of(folder)
    for secret in (SENTENCE, QUESTION, "bees.md", "meridian", token("anna"), "beekeepers"):
        assert secret.encode() not in held
    lines = [json.loads(line) for line in (folder / "enclave.log").read_text().splitlines()]
    assert {"listening", "ready", "ended"} <= {one["message"] for one in lines}
    assert any(one["message"].startswith("relaxed: machine.simulate = ") for one in lines)
    assert not [one for one in lines if "exception" in one]


def killed_in_the_middle(program: Program, client: httpx.Client) -> None:
    """Upload something long, and kill the program when a part of it has been worked on."""
    long = "\n\n".join(f"The meridian zebras of herd {n} walk to pond {n * 7} in the evening." for n in range(20_000))
    killer: list[threading.Thread] = []
    with suppress(Exception), client.stream("POST", "/v1/documents?name=zebras.txt", content=long.encode()) as answer:
        for line in answer.iter_lines():
            if line.startswith("data: ") and json.loads(line[6:]).get("passages", 0) > 32 and not killer:
                killer.append(threading.Thread(target=program.process.kill))
                killer[0].start()
    assert killer, "it was over before it could be killed"
    killer[0].join()


@pytest.mark.parametrize(
    ("text", "code"), [(None, "file-unreadable"), ("name = 5", "rag-config-invalid"), ("[", "rag-config-invalid")]
)
def test_what_is_wrong_with_its_file_is_told_in_a_line(
    tmp_path: Path, text: str | None, code: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # What is asked of the kernel, and where logs go, would stay for the tests behind this one.
    monkeypatch.setattr("rag_demo.enclave.cli.prepare", lambda: None)
    if text is not None:
        (tmp_path / "enclave.toml").write_text(text)
    done = CliRunner().invoke(serving, ["--config", str(tmp_path / "enclave.toml")])
    assert (done.exit_code, f"[{code}]" in done.stderr, "Traceback" in done.output) == (2, True, False)

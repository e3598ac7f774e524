"""The program itself, with the real model, store and reader: what it tells, what it keeps, and what a kill leaves."""

import json
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.release.names import KeyReference
from attest.sealed import SealingNames
from kms.clock import system_clock
from rag_demo.enclave.__main__ import main
from rag_demo.enclave.embedding import installed_model, seal_model
from tests.kms.process import REPOSITORY
from tests.kms.proving import POLICIES, endorsements
from tests.rag_demo.service.support import MODEL_KEY, Owner, Site, ask, remote, token, upload

pytestmark = pytest.mark.loopback
SENTENCE = "The quorum of the beekeepers is seven members."
QUESTION = "How many members are the quorum of the beekeepers?"


@dataclass
class Program:
    """One life of it."""

    process: subprocess.Popen[str]
    told: list[str]
    site: Site


@pytest.fixture(scope="module")
def folder(model_owner: Owner, document_owner: Owner, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What its operator has."""
    made = tmp_path_factory.mktemp("operator")
    owner = ec.generate_private_key(ec.SECP384R1())
    names = SealingNames(key=KeyReference.parse("real@1"))
    place = made / "minilm.sealed"
    seal_model(installed_model(), place, key=MODEL_KEY, names=names, signer=owner, random=os.urandom, at=None)
    (made / "owner.pub").write_bytes(owner.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo))
    keys = {
        table: f'name = "real"\nurl = "http://127.0.0.1:{one.process.port}"\nkey = "{one.process.identity}"\n'
        for table, one in (("model", model_owner), ("database", document_owner))
    }
    # The documents' owner wants its own service to prove its machine to the enclave first.
    (made / "kms-policy.json").write_bytes(POLICIES["snp"])
    for number, crl in enumerate(endorsements(system_clock()).crls):
        (made / f"crl{number}.der").write_bytes(crl.der)
    keys["database"] += (
        'policy = "kms-policy.json"\nendorsements = ["crl0.der"]\nallow_simulated = true\noffline = true\n'
        'unchecked_tls = "a test over plain HTTP"\nlog_memory = "log"\n'
    )
    (made / "enclave.toml").write_text(
        'name = "rag.example"\n[listen]\nport = 0\n[machine]\nsimulate = "snp"\n'
        f'[model]\nplace = "minilm.sealed"\ntrust = ["owner.pub"]\n[model.key]\n{keys["model"]}'
        f'[database]\nfile = "documents.db"\n[database.key]\n{keys["database"]}'
    )
    return made


@contextmanager
def running(folder: Path) -> Iterator[Program]:
    words = [sys.executable, "-m", "rag_demo.enclave", "--config", "enclave.toml"]
    env = {"PATH": os.environ.get("PATH", ""), "PYTHONPATH": str(REPOSITORY)}
    with (folder / "enclave.log").open("ab") as log:
        process = subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.PIPE, stderr=log, text=True)
    try:
        assert process.stdout is not None
        told = [process.stdout.readline().strip() for _ in range(3)]
        assert told[-1].startswith("listening: "), (folder / "enclave.log").read_text()
        site = remote(int(told[-1].rpartition(":")[2]))
        site.wait_for("ready", 60)
        yield Program(process, told, site)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


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
    monkeypatch.setattr("rag_demo.enclave.__main__.prepare", lambda: None)
    if text is not None:
        (tmp_path / "enclave.toml").write_text(text)
    done = CliRunner().invoke(main, ["--config", str(tmp_path / "enclave.toml")])
    assert (done.exit_code, f"[{code}]" in done.stderr, "Traceback" in done.output) == (2, True, False)

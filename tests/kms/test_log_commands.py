"""Handing the log out: tail, checkpoint, export, and a witness that cosigns."""

import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import click
import httpx
import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from fastapi.testclient import TestClient

from attest.errors import (
    AttestError,
    ConfigurationError,
    EndorsementError,
    LogForkedError,
    SignatureError,
    VerificationError,
)
from attest.release.tlog import Checkpoint, WitnessKey, read_checkpoint
from kms.api.app import create_app
from kms.cli.main import cli
from kms.domain.errors import LogBrokenError
from kms.domain.log_tiles import tiles_of
from kms.log.cosigner import MAX_ANSWER_BYTES, LogAtUrl, cosign_next, read_witness_key
from kms.log.static_export import export_log
from tests.kms.process import command, environment
from tests.kms.support import AT, Harness
from tests.kms.warm import run_warm

ON_BOTH = pytest.mark.parametrize("kind", ["sqlite", "postgresql"])


def run(harness: Harness, *arguments: str) -> str:
    options = ["--database", harness.settings.database, "--kek-file", str(harness.settings.kek_file)]
    done = CliRunner().invoke(cli, [*arguments, *options, "--origin", harness.settings.origin])
    if done.exception is not None and not isinstance(done.exception, click.exceptions.Exit | SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


def files(directory: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(directory)): path.read_bytes() for path in sorted(directory.rglob("*")) if path.is_file()
    }


# -- tail, checkpoint


@ON_BOTH
def test_the_tail_is_the_newest_entries(harness: Harness) -> None:
    for number in range(12):
        harness.add_key(f"key{number}")
    lines = [json.loads(line) for line in run(harness, "log", "tail", "--json").splitlines()]
    assert [line["entry"]["seq"] for line in lines] == list(range(4, 14))
    assert len(run(harness, "log", "tail", "-n", "100").splitlines()) == 13
    assert run(harness, "log", "tail", "-n", "0") == ""


def test_the_tail_goes_on_with_what_is_added(harness: Harness) -> None:
    settings = harness.settings
    options = ["--database", settings.database, "--kek-file", str(settings.kek_file), "--origin", settings.origin]
    process = subprocess.Popen(
        command("log", "tail", "--follow", "-n", "1", *options),
        stdout=subprocess.PIPE,
        text=True,
        env=environment() | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        assert "initialised" in process.stdout.readline()
        harness.add_key("added")
        assert "key-imported  added" in process.stdout.readline()
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


@ON_BOTH
def test_a_printed_checkpoint_is_what_verify_takes(harness: Harness, tmp_path: Path) -> None:
    note = run(harness, "log", "checkpoint")
    assert read_checkpoint(note, log=harness.services.identity.public).size == 1
    (tmp_path / "noted").write_text(note)
    harness.add_key("model")
    assert run(harness, "log", "verify", "--checkpoint", str(tmp_path / "noted")).startswith("2 entries, unbroken\n")
    (tmp_path / "noted").write_text(note.replace("kms.test", "kms.best"))
    with pytest.raises(SignatureError):
        run(harness, "log", "verify", "--checkpoint", str(tmp_path / "noted"))


# -- export


@ON_BOTH
def test_an_export_has_what_the_checkpoint_implies_and_grows(harness: Harness, tmp_path: Path) -> None:
    directory = tmp_path / "public" / "log"
    done = json.loads(run(harness, "log", "export", str(directory), "--json"))
    assert done == {"schema": "kms.log-export/1", "size": 1, "before": 0, "files": 2}
    assert set(files(directory)) == {"checkpoint", "tile/0/000.p/1", "tile/entries/000.p/1"}
    assert {path.stat().st_mode & 0o777 for path in directory.rglob("*") if path.is_file()} == {0o644}
    with harness.services.store.writing() as tx:
        for number in range(299):
            tx.log.add(kind="test", at=AT, body={"number": number})
    assert "300 entries" in run(harness, "log", "export", str(directory))
    written = files(directory)
    assert {f"tile/{tile.path}" for tile in tiles_of(300)} <= set(written)
    assert read_checkpoint(written["checkpoint"].decode(), log=harness.services.identity.public).size == 300
    run(harness, "log", "export", str(directory))
    assert files(directory) == written


def test_an_export_never_goes_over_another_log(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    other = Harness.make(tmp_path / "other", seed="other")
    run(harness, "log", "export", str(tmp_path / "log"))
    with pytest.raises(SignatureError):
        run(other, "log", "export", str(tmp_path / "log"))
    other.close()
    identity = harness.services.identity
    before = files(tmp_path / "log")
    shown = harness.services.log.checkpoint()
    harness.add_key("model")
    run(harness, "log", "export", str(tmp_path / "later"))
    with harness.services.store.reading() as tx:
        for checkpoint, directory in ((shown, "later"), (replace(shown, size=0), "log")):
            with pytest.raises(LogBrokenError) as caught:
                export_log(tx.log, tmp_path / directory, checkpoint=checkpoint, log=identity.public)
            assert caught.value.code == "log-forked"
    assert files(tmp_path / "log") == before


def test_a_directory_that_cannot_be_written_is_an_error(harness: Harness, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "half").mkdir()
    (tmp_path / "half" / "tile").write_bytes(b"")
    for directory in (tmp_path / "file" / "log", tmp_path / "half"):
        with pytest.raises(ConfigurationError) as caught:
            run(harness, "log", "export", str(directory))
        assert caught.value.code == "directory-unusable"
    (tmp_path / "taken" / "checkpoint").mkdir(parents=True)
    with pytest.raises(ConfigurationError):
        run(harness, "log", "export", str(tmp_path / "taken"))
    (tmp_path / "blocked" / "tile" / "0" / "000.p" / "1").mkdir(parents=True)
    with pytest.raises(ConfigurationError):
        run(harness, "log", "export", str(tmp_path / "blocked"))
    assert list((tmp_path / "blocked").rglob(".*")) == []


# -- a witness

KEY = Ed25519PrivateKey.from_private_bytes(bytes(range(32)))
WITNESS = WitnessKey(name="witness.example/a", public=KEY.public_key().public_bytes_raw())


def pem(key: Ed25519PrivateKey) -> bytes:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


def asked(harness: Harness, note: str, memory: Path) -> tuple[Checkpoint, str]:
    return cosign_next(
        note=note,
        log=harness.services.identity.public,
        name=WITNESS.name,
        key=KEY,
        memory=memory,
        fetch=harness.services.log.consistency,
        at=AT,
    )


def test_a_witness_cosigns_what_extends_what_it_has_seen(harness: Harness, tmp_path: Path) -> None:
    memory = tmp_path / "seen"
    for number in range(3):
        harness.add_key(f"key{number}")
        for _ in range(2):
            checkpoint, line = asked(harness, harness.services.log.checkpoint().note, memory)
            assert WITNESS.cosigned_at(checkpoint.note + line) == int(AT.timestamp())
    assert read_checkpoint(memory.read_text(), log=harness.services.identity.public).size == 4


def test_a_witness_cosigns_neither_an_older_log_nor_another(harness: Harness, tmp_path: Path) -> None:
    memory, old = tmp_path / "seen", harness.services.log.checkpoint().note
    harness.add_key("model")
    new = harness.services.log.checkpoint().note
    asked(harness, new, memory)
    with pytest.raises(VerificationError) as caught:
        asked(harness, old, memory)
    assert caught.value.code == "checkpoint-older"
    twin = tmp_path / "twin"
    twin.mkdir()
    other = Harness.make(twin)  # made of the same random bytes: the same key, and another log
    assert other.audience == harness.audience
    other.add_key("another")
    with pytest.raises(LogForkedError):
        asked(other, other.services.log.checkpoint().note, memory)
    other.close()
    assert memory.read_text() == new


def test_a_witness_asks_the_service_over_http(harness: Harness, tmp_path: Path) -> None:
    with TestClient(create_app(harness.settings, harness.services)) as client:
        served = LogAtUrl("http://testserver/", http=client)  # type: ignore[arg-type]  # a client all the same
        for number in range(3):
            harness.add_key(f"key{number}")
            cosign_next(
                note=served.checkpoint(),
                log=harness.services.identity.public,
                name=WITNESS.name,
                key=KEY,
                memory=tmp_path / "seen",
                fetch=served.consistency,
                at=AT,
            )
        with pytest.raises(VerificationError):
            served.consistency(1, 1000)


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (lambda _: httpx.Response(200, content=b"x" * (MAX_ANSWER_BYTES + 1)), EndorsementError),
        (lambda _: httpx.Response(503), EndorsementError),
        (lambda _: httpx.Response(404), VerificationError),
        (lambda _: httpx.Response(200, content=b"x"), VerificationError),
        (lambda _: httpx.Response(200, json=[]), VerificationError),
        (lambda _: httpx.Response(200, json={}), VerificationError),
        (lambda _: httpx.Response(200, json={"proof": ["!"]}), VerificationError),
        (lambda _: httpx.Response(200, json={"proof": [1]}), VerificationError),
        (lambda _: httpx.Response(200, json={"proof": ["AAAA"] * 64}), VerificationError),
    ],
)
def test_a_service_that_answers_nonsense_is_a_documented_error(
    answer: Callable[[httpx.Request], httpx.Response], kind: type[AttestError]
) -> None:
    http = httpx.Client(transport=httpx.MockTransport(answer))
    with LogAtUrl("http://kms.invalid", http=http) as served, pytest.raises(kind):
        served.consistency(1, 2)


def test_the_key_of_a_witness_is_ed25519() -> None:
    key, public = read_witness_key(pem(KEY), name=WITNESS.name)
    assert (key.private_bytes_raw(), public) == (KEY.private_bytes_raw(), WITNESS)
    other = generate_private_key(SECP256R1()).private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    for content, name in ((other, "w"), (b"", "w"), (b"nonsense", "w"), (pem(KEY), "two words")):
        with pytest.raises(ConfigurationError) as caught:
            read_witness_key(content, name=name)
        assert caught.value.code in {"witness-key-invalid", "verifier-key-invalid"}


@pytest.mark.loopback
def test_the_command_of_a_witness_says_when_nobody_answers(tmp_path: Path, harness: Harness) -> None:
    key = tmp_path / "key.pem"
    key.write_bytes(pem(KEY))
    options = ["--log", harness.audience, "--name", "w", "--key", str(key)]
    exposed = run_warm("log", "cosign", "http://[::1", *options, "--memory", str(tmp_path / "seen"))
    assert (exposed.returncode, "[secret-file-exposed]" in exposed.stderr) == (2, True)
    key.chmod(0o600)
    done = run_warm("log", "cosign", "http://[::1", *options, "--memory", str(tmp_path / "seen"))
    assert (done.returncode, done.stdout) == (1, "")
    assert "[service-unreachable]" in done.stderr

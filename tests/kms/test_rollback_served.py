"""MC-36 with real processes: a service whose database was put back does not start, and commands say what to do."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest

from attest.clock import system_clock
from attest.encoding import JsonValue
from attest_simulator import simulated_crl
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key, set_enabled
from kms.operations.guards.opening import open_local_guards
from kms.operations.guards.remote import ReplicaGuard
from kms.operations.services import initialise, open_services, open_vault
from kms.release.services import Services
from tests.kms.postgres import Server
from tests.kms.process import ServedProcess
from tests.kms.support import ACTOR, CHIP, MATERIAL, MODEL, FakeRandom, policy_text
from tests.kms.test_cli import Shell, shell
from tests.kms.test_kill import workload
from tests.kms.test_publisher import FakeWitness
from tests.kms.test_rollback_guard import Copies, refused

__all__ = ["shell"]


class Service:
    """Settings of a service with one key, and a copy of its database from before it served."""

    def __init__(self, folder: Path, server: Server | None) -> None:
        self.config = prepare_directory(folder, origin="kms.test/guard", allow_simulated=True)
        text = self.config.read_text(encoding="utf-8")
        if server is not None:
            text = text.replace('"kms.db"', f'"{server.fresh()}"')
        (folder / "endorsements").mkdir()
        (folder / "endorsements" / "crl.der").write_bytes(simulated_crl(CHIP.product, at=system_clock()))
        self.config.write_text(f'endorsements = ["endorsements"]\n{text}', encoding="utf-8")
        self.settings = load_settings(flags={}, environ={}, config=self.config).settings
        self.identity = initialise(self.settings, clock=system_clock, random=FakeRandom())
        vault = open_vault(self.settings, random=FakeRandom("wrap"))
        add_key(
            vault.store,
            vault.kek,
            name=MODEL,
            material=SecretBytes(MATERIAL),
            policy=policy_text(),
            kind=KEY_IMPORTED,
            actor=ACTOR,
            at=system_clock(),
        )
        vault.store.close()
        self.copies = Copies(database=self.settings.database, folder=folder / "copies", server=server)
        self.copies.make()


@pytest.fixture(params=["sqlite", "postgresql"])
def service(request: pytest.FixtureRequest, tmp_path: Path) -> Service:
    server = request.getfixturevalue("postgres") if request.param == "postgresql" else None
    return Service(tmp_path / "svc", server)


def released(process: ServedProcess, document: JsonValue) -> int:
    answer = process.post("/v1/releases", document)
    assert answer is not None
    return answer[0]


@pytest.mark.loopback
def test_mc_36_a_service_with_a_copy_put_back_does_not_start(service: Service) -> None:
    process = ServedProcess.start(service.config)
    document = workload().request(process.challenge(), "model").to_json()
    assert released(process, document) == 200
    assert process.terminate() == 0
    service.copies.put_back()
    with pytest.raises(AssertionError, match=r"\[state-rolled-back\]"):
        ServedProcess.start(service.config)
    (guard,) = open_local_guards(service.settings)
    (service.config.parent / "guard" / "kms.json").unlink()
    with pytest.raises(AssertionError, match=r"\[rollback-guard-missing\]"):
        ServedProcess.start(service.config)
    refused(guard.read, "rollback-guard-missing")


@pytest.mark.loopback
def test_mc_36_challenges_from_before_a_start_are_refused(service: Service) -> None:
    first = ServedProcess.start(service.config)
    unused = workload().request(first.challenge(), "model").to_json()
    first.kill()
    second = ServedProcess.start(service.config, "--workers", "2")
    try:
        assert released(second, unused) == 410
        for _ in range(4):  # of both workers, each accepts the challenges of the other
            assert released(second, workload().request(second.challenge(), "model").to_json()) == 200
    finally:
        assert second.terminate() == 0


@pytest.mark.loopback
def test_mc_36_a_replica_that_runs_refuses_an_older_copy(service: Service) -> None:
    process = ServedProcess.start(service.config)
    try:
        guard = ReplicaGuard(url=f"http://127.0.0.1:{process.port}", log=service.identity)
        assert released(process, workload().request(process.challenge(), "model").to_json()) == 200
        remembered = guard.read()
        assert remembered is not None
        (local,) = open_local_guards(service.settings)
        kept = local.read()
        assert kept is not None
        assert remembered.log_size >= kept.log_size
        service.copies.put_back()
        named = service.settings.model_copy(update={"rollback_guard": (guard.name,)})
        refused(lambda: open_services(named, clock=system_clock, random=FakeRandom("x")), "state-rolled-back")
        other = replace(guard, log=replace(service.identity, public=b"\x01" * 32))
        refused(other.read, "rollback-guard-missing")
    finally:
        process.terminate()
    refused(guard.read, "rollback-guard-missing")


@contextmanager
def serving(fake: FakeWitness) -> Iterator[str]:
    """Serve a witness over HTTP; yield its address."""

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:  # the name is that of the method
            answer = fake(self.rfile.read(int(self.headers["Content-Length"])))
            self.send_response(answer.status)
            self.end_headers()
            self.wfile.write(answer.content)

        def log_message(self, *_: object) -> None: ...

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest.mark.loopback
def test_mc_36_a_witness_that_the_settings_name_refuses_an_older_copy(service: Service) -> None:
    fake = FakeWitness(0, service.identity)
    named = {"witnesses_file": service.config.parent / "witnesses", "rollback_guard": ("witness:witness0",)}
    settings = service.settings.model_copy(update=named)
    with serving(fake) as url:
        (service.config.parent / "witnesses").write_text(f"{fake.witness.key.text} {url}\n")

        def opened() -> Services:
            return open_services(settings, clock=system_clock, random=FakeRandom("x"))

        refused(opened, "rollback-guard-missing")  # it has cosigned nothing of this log, and does now
        services = opened()
        set_enabled(services.store, MODEL, enabled=False, actor=ACTOR, at=system_clock())
        services.log.checkpoint()
        services.store.close()
        service.copies.put_back()
        refused(opened, "state-rolled-back")
    refused(opened, "rollback-guard-missing")


# -- commands


def test_a_dry_run_of_an_acceptance_shows_both_positions_and_changes_nothing(shell: Shell) -> None:
    shell.init()
    path = shell.folder / "svc" / "guard" / "kms.json"
    copies = Copies(database=str(shell.folder / "svc" / "kms.db"), folder=shell.folder / "copies", server=None)
    copies.make()
    shell.add_key()
    copies.put_back()
    kept = path.read_bytes()
    out, err = shell.with_config("guard", "accept", "--because", "the disk died", "--dry-run")
    would, remembered = out.splitlines()
    assert would.startswith("would accept: the database at counter 1, log 1:")
    assert remembered.startswith(f"file:{path}: counter 2, log 2:")
    assert err == "note: dry run; nothing was changed\n"
    dry = json.loads(shell.with_config("guard", "accept", "--because", "the disk died", "--dry-run", "--json")[0])
    assert (dry["done"], dry["details"]["counter"], dry["details"]["guards"]) == (None, 1, [f"file:{path}"])
    assert path.read_bytes() == kept
    assert "[state-rolled-back]" in shell.with_config("key", "list", code=1)[1]
    path.unlink()
    out, _ = shell.with_config("guard", "accept", "--because", "the disk died", "--dry-run")
    assert out.splitlines()[1] == f"file:{path}: nothing"
    assert not path.exists()


def test_a_guard_is_shown_made_and_accepted(shell: Shell) -> None:
    shell.init()
    path = shell.folder / "svc" / "guard" / "kms.json"
    copies = Copies(database=str(shell.folder / "svc" / "kms.db"), folder=shell.folder / "copies", server=None)
    copies.make()
    assert f"file:{path}\n  counter 1, log 1:" in shell.with_config("guard", "show")[0]
    shell.add_key()
    copies.put_back()
    _, err = shell.with_config("key", "list", code=1)
    assert "[state-rolled-back]" in err
    out, err = shell.with_config("guard", "show", "--json", code=1)
    (row,) = json.loads(out)["guards"]
    assert row["remembers"].startswith("counter 2, log 2:")
    assert "[state-rolled-back]" in row["problem"]
    assert "[rollback-guard-refuses]" in err
    assert "rollback-guard" in shell.with_config("fsck", code=1)[0]
    assert "rollback-guard       failed" in shell.with_config("config", "check", code=1)[0]
    assert "[rollback-reason-invalid]" in shell.with_config("guard", "accept", "--because", " ", code=2)[1]
    done = json.loads(shell.with_config("guard", "accept", "--because", "the disk died", "--json")[0])
    assert (done["action"], done["details"]["counter"]) == ("guard-accept", 2)
    entry = last_entry(shell)
    assert (entry["kind"], entry["reason"]) == ("rollback-accepted", "the disk died")
    assert entry["rollback_guards"][f"file:{path}"].startswith("counter 2, log 2:")
    shell.with_config("fsck")
    path.unlink()
    _, err = shell.with_config("key", "list", code=2)
    assert "[rollback-guard-missing]" in err
    assert "kms guard init" in err
    assert shell.with_config("guard", "init")[0] == f"made: file:{path}\n"
    assert last_entry(shell)["kind"] == "rollback-guard-made"
    assert "exists already" in shell.with_config("guard", "init")[1]
    shell.add_key()
    assert "is on the same disk as the database" in shell.with_config("config", "check")[0]


def last_entry(shell: Shell) -> dict[str, Any]:  # JSON
    line = shell.with_config("log", "list", "--json")[0].splitlines()[-1]
    found: dict[str, Any] = json.loads(line)["entry"]
    return found


def test_without_a_guard_commands_say_so(shell: Shell) -> None:
    shell.init()
    with shell.config.open("a", encoding="utf-8") as file:
        file.write("allow_no_rollback_guard = true\n")
    assert "there is no guard" in shell.with_config("guard", "show")[1]
    out = shell.with_config("config", "check")[0]
    assert "rollback-guard       ok       no guard is configured" in out
    assert "profile              warning  allow_no_rollback_guard" in out


def test_mc_36_a_backup_that_is_older_than_the_guard_is_restored_for_a_reason_alone(shell: Shell) -> None:
    shell.init()
    file, database = str(shell.folder / "kms.backup"), shell.folder / "svc" / "kms.db"
    shell.with_config("backup", file)
    shell.add_key()
    for path in database.parent.glob("kms.db*"):
        path.unlink()
    assert "[log-rolled-back]" in shell.with_config("restore", file, code=1)[1]
    shell.with_config("restore", file, "--accept-rollback", "the disk died", "--dry-run")
    assert "[log-rolled-back]" in shell.with_config("restore", file, code=1)[1]
    shell.with_config("restore", file, "--accept-rollback", "the disk died")
    (position,) = last_entry(shell)["rollback_guards"].values()
    assert position.startswith("counter 2, log 2:")
    shell.add_key()

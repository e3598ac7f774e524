"""Several workers on one socket: they share the work, die alone, and end together."""

import http.client
import json
import os
import secrets
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from pathlib import Path

import pytest

from attest.clock import system_clock
from attest_simulator import simulated_crl
from kms.config.settings import load_settings
from kms.config.settings_file import prepare_directory
from kms.domain.secret import SecretBytes
from kms.keys.admin import KEY_IMPORTED, add_key
from kms.operations.services import initialise, open_vault
from kms.running.workers import FIRST_DELAY_SECONDS, LONGEST_DELAY_SECONDS, restart_delay
from tests.kms.postgres import Server
from tests.kms.process import START_SECONDS, ServedProcess, command, connections_of, environment
from tests.kms.support import ACTOR, CHIP, MATERIAL, MODEL, policy_text
from tests.kms.test_replicas import workload_of_today

WORKERS = ("--workers", "2")
MANY = 1000


def test_a_worker_that_dies_again_and_again_is_started_ever_later_up_to_a_bound() -> None:
    delays = [restart_delay(deaths) for deaths in range(1, 100)]
    assert delays[0] == FIRST_DELAY_SECONDS
    assert delays[1] == 2 * FIRST_DELAY_SECONDS
    assert delays == sorted(delays)
    assert delays[-1] == LONGEST_DELAY_SECONDS


def test_a_signal_that_comes_while_a_worker_is_born_ends_it() -> None:
    program = """
import os, signal
os.register_at_fork(after_in_child=lambda: os.kill(os.getpid(), signal.SIGTERM))
from kms.running.workers import Worker, supervise
found = supervise(1, drain_seconds=1, announce=print, report=print)
print("a worker that nobody can end" if isinstance(found, Worker) else f"ended with {found}")
"""
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True, env=environment()
    )
    assert done.stdout == "ended with 1\n"


def test_the_first_worker_serves_before_the_others_start() -> None:
    program = """
import os, signal, sys, time
from kms.running.workers import Worker, supervise
def tell(line):
    os.write(1, line.encode() + b"\\n")  # a line at once, since several processes write
found = supervise(3, drain_seconds=1, announce=lambda one: tell(f"{one} is announced"), report=tell)
if not isinstance(found, Worker):
    sys.exit(found)
tell(f"{found.number} begins")
if found.number == 1:
    time.sleep(0.5)  # others that do not wait would begin meanwhile
found.ready(f"worker {found.number}")
signal.pause()
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=environment()) as ran:
        assert ran.stdout is not None
        lines = [ran.stdout.readline().strip() for _ in range(4)]
        ran.terminate()
        assert ran.wait(START_SECONDS) == 0
    assert lines[:2] == ["1 begins", "worker 1 is announced"]
    assert sorted(lines[2:]) == ["2 begins", "3 begins"]


def prepared(folder: Path, *, database: str | None = None) -> Path:
    config = prepare_directory(folder / "svc", origin="kms.test/workers", allow_simulated=True)
    endorsements = folder / "svc" / "endorsements"
    endorsements.mkdir()
    (endorsements / "crl.der").write_bytes(simulated_crl(CHIP.product, at=system_clock()))
    text = config.read_text(encoding="utf-8") + 'endorsements = ["endorsements"]\n'
    text += "client_connections_per_second = 0\n"  # one address opens all of them here
    if database is not None:
        text = text.replace('database = "kms.db"', f'database = "{database}"')
    config.write_text(text, encoding="utf-8")
    settings = load_settings(flags={}, environ={}, config=config).settings
    initialise(settings, clock=system_clock, random=secrets.token_bytes)
    vault = open_vault(settings, random=secrets.token_bytes)
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
    return config


@pytest.fixture
def config(tmp_path: Path) -> Path:
    return prepared(tmp_path)


@pytest.fixture
def service(config: Path) -> Iterator[ServedProcess]:
    made = ServedProcess.start(config, *WORKERS, "--drain-seconds", "2", cold=True)
    made.wait_for_workers(2)
    yield made
    if made.process.poll() is None:
        made.kill()


def log_of(config: Path) -> str:
    return (config.parent / "serve.log").read_text(encoding="utf-8")


def wait_for_drain(config: Path) -> None:
    """Wait until every server that has started is ending; a worker that never served says nothing."""
    end = time.monotonic() + START_SECONDS
    while (log := log_of(config)).count("Shutting down") < log.count("Started server process"):
        assert time.monotonic() < end, log
        time.sleep(0.02)


def wait_until(config: Path, text: str, *, times: int) -> None:
    end = time.monotonic() + START_SECONDS
    while log_of(config).count(text) < times:
        assert time.monotonic() < end, log_of(config)
        time.sleep(0.02)


@pytest.mark.loopback
def test_workers_share_connections_and_used_challenges_and_end_with_0(config: Path, service: ServedProcess) -> None:
    wait_until(config, "Started server process", times=2)
    workers = service.wait_for_workers(2)
    idle = [connections_of(pid) or 0 for pid in workers]
    with ExitStack() as held:
        for _ in range(MANY):  # whom the system wakes is its own affair; nobody is passed over for ever
            held.enter_context(socket.create_connection(("127.0.0.1", service.port)))
            time.sleep(0.005)
            if all((connections_of(pid) or 0) > before for pid, before in zip(workers, idle, strict=True)):
                break
        else:
            pytest.fail("one worker took everything")
    document = workload_of_today().request(service.challenge(), "model").to_json()
    with ThreadPoolExecutor(6) as threads:
        answers = [one.result() for one in [threads.submit(service.post, "/v1/releases", document) for _ in range(6)]]
    assert sorted(answer[0] for answer in answers if answer is not None) == [200, *[409] * 5]
    assert service.terminate() == 0
    assert all(connections_of(pid) is None for pid in workers)


@pytest.mark.loopback
@pytest.mark.slow
def test_mc_37_workers_of_two_services_on_postgresql_release_once(postgres: Server, tmp_path: Path) -> None:
    config = prepared(tmp_path, database=postgres.fresh())
    services = [ServedProcess.start(config, *WORKERS, "--database-connections", "3", cold=True) for _ in range(2)]
    try:
        for _ in range(3):
            document = workload_of_today().request(services[0].challenge(), "model").to_json()
            with ThreadPoolExecutor(4) as threads:
                sent = [threads.submit(one.post, "/v1/releases", document) for one in services * 2]
                statuses = sorted(answer[0] for answer in (one.result() for one in sent) if answer is not None)
            assert statuses == [200, 409, 409, 409]
    finally:
        assert [one.terminate() for one in services] == [0, 0]


@pytest.mark.loopback
def test_a_dead_worker_is_replaced_while_the_other_answers(config: Path, service: ServedProcess) -> None:
    first, second = service.workers
    os.kill(first, signal.SIGKILL)
    service.challenge()
    assert service.wait_for_workers(2, other_than=[first])[0] == second
    assert "was killed by signal 9; restarting in 0.1 s" in log_of(config)
    assert service.terminate() == 0


@pytest.mark.loopback
def test_connections_wait_while_every_worker_is_dead(config: Path, service: ServedProcess) -> None:
    for pid in service.workers:
        os.kill(pid, signal.SIGKILL)
    service.challenge()
    assert service.terminate() == 0


@pytest.mark.loopback
def test_workers_do_not_outlive_the_process_that_watches_them(config: Path, service: ServedProcess) -> None:
    wait_until(config, "Started server process", times=2)
    workers = service.workers
    service.kill()
    end = time.monotonic() + START_SECONDS
    while any(connections_of(pid) is not None for pid in workers):
        assert time.monotonic() < end, log_of(config)
        time.sleep(0.02)


@pytest.mark.loopback
def test_sighup_reaches_every_worker(config: Path, service: ServedProcess) -> None:
    wait_until(config, "Started server process", times=2)
    service.process.send_signal(signal.SIGHUP)
    wait_until(config, "endorsements were reloaded", times=2)
    assert service.terminate() == 0


@pytest.mark.loopback
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_request_that_has_begun_is_finished_and_one_that_never_ends_is_not_waited_for(
    config: Path, workers: str
) -> None:
    slow = ("--request-seconds", "300", "--drain-seconds", "2")
    service = ServedProcess.start(config, "--workers", workers, *slow, cold=workers != "1")
    head = (
        b"POST /v1/challenges HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 2\r\n"
        b"Expect: 100-continue\r\n\r\n"
    )
    place = ("127.0.0.1", service.port)
    with socket.create_connection(place) as begun, socket.create_connection(place) as never:
        for connection in (begun, never):
            connection.sendall(head)
            assert connection.recv(1000).startswith(b"HTTP/1.1 100"), "a handler waits for the body"
        begun.sendall(b"{")
        service.process.send_signal(signal.SIGTERM)
        wait_for_drain(config)
        begun.sendall(b"}")
        assert begun.recv(1000).startswith(b"HTTP/1.1 200")
        assert service.terminate() == 0, "a request may take 300 s, and 2 s are given to those that have begun"


@pytest.mark.loopback
def test_a_service_whose_first_worker_cannot_start_says_why_once_and_ends_with_its_code(config: Path) -> None:
    (config.parent / "kek").unlink()
    done = subprocess.run(
        command("serve", "--config", str(config), "--port", "0", "--workers", "3"),
        capture_output=True,
        env=environment(),
        timeout=START_SECONDS,
        check=False,
    )
    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.count(b"error:") == 1


@pytest.mark.loopback
def test_a_worker_that_cannot_start_again_is_tried_until_it_can(config: Path, service: ServedProcess) -> None:
    kek = config.parent / "kek"
    kept = kek.read_bytes()
    kek.unlink()
    for pid in service.workers:
        os.kill(pid, signal.SIGKILL)
    wait_until(config, "ended with code 2", times=2)
    started = log_of(config).count("Started server process")
    kek.touch(mode=0o600)
    kek.write_bytes(kept)
    wait_until(config, "Started server process", times=started + 2)
    service.challenge()
    assert service.terminate() == 0


@pytest.mark.loopback
def test_every_worker_is_not_ready_while_the_state_differs_from_the_log(config: Path) -> None:
    with closing(sqlite3.connect(config.parent / "kms.db")) as database, database:
        database.execute("UPDATE keys SET enabled = 0")
    served = ServedProcess.start(config, *WORKERS, "--drain-seconds", "2")
    wait_until(config, "the service is not ready", times=1)
    served.wait_for_workers(2)
    assert {readiness(served.port) for _ in range(20)} == {(500, "state-differs-from-log")}
    assert served.terminate() == 0
    assert log_of(config).count("release disabled in the database, enabled since entry") == 1, "one worker examines"


def readiness(port: int) -> tuple[int, str]:
    with closing(http.client.HTTPConnection("127.0.0.1", port, timeout=30)) as connection:
        connection.request("GET", "/readyz")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())["code"]

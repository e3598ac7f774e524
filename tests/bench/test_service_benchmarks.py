"""The benchmarks of the key-release service, with tiny numbers: what they count, send and print. No time is judged."""

import hashlib
import re
import threading
import time
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import ClassVar

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec, ed25519

from benchmarks import attack, attackers
from benchmarks.load import kms_throughput
from benchmarks.many import million_keys
from benchmarks.measure import Figure
from benchmarks.release import release_vs_signatures
from benchmarks.sending import post, send_all
from benchmarks.service import KEY_ID, benched_service, every_signature, forgetting
from benchmarks.signing import bare_work, describe, verifications
from benchmarks.stages import where_time_goes


@pytest.mark.parametrize(
    "kinds", [{"secp384r1": 2}, {"secp256r1": 1, "rsa-2048": 1, "ed25519": 3}, {}], ids=["usual", "others", "none"]
)
def test_bare_work_verifies_what_it_is_told_and_nothing_else(kinds: dict[str, int]) -> None:
    assert verifications(bare_work(Counter(kinds))) == Counter(kinds)


def test_what_is_no_signature_is_not_counted_as_one() -> None:
    key = ec.generate_private_key(ec.SECP384R1())
    signature = key.sign(b"a", ec.ECDSA(hashes.SHA384()))
    other = ed25519.Ed25519PrivateKey.generate()

    def work() -> None:
        hashlib.sha384(b"a")
        key.public_key().verify(signature, b"a", ec.ECDSA(hashes.SHA384()))
        other.sign(b"a")

    assert describe(verifications(work)) == "1 secp384r1"
    assert describe(Counter()) == "none"


def test_a_release_of_a_machine_seen_before_verifies_two_reports_and_nothing_else() -> None:
    with benched_service(in_memory=True) as service:
        service.answer(service.body())
        assert verifications(lambda: service.answer(service.body())) == {"secp384r1": 2}
        assert KEY_ID.encode() in service.answer(service.body())


def test_the_measure_of_a_release_is_every_signature_that_it_rests_on() -> None:
    with benched_service(in_memory=True) as service:
        found = every_signature(service)
        forgetting()()
        assert verifications(lambda: service.answer(service.body())) == found
    assert found == {"rsa-4096": 4, "secp384r1": 25}


def test_where_time_goes_names_the_part_that_took_it() -> None:
    with benched_service(in_memory=True) as service:
        bodies = [service.body() for _ in range(20)]
        told = where_time_goes(lambda: [service.answer(body) for body in bodies])
    assert "database" in told
    assert "verification" in told
    assert where_time_goes(lambda: time.sleep(0.02)) == "the rest 100%"


@pytest.mark.parametrize(
    ("measure", "name"),
    [
        (lambda: release_vs_signatures(rounds=1, times=1), "release-vs-signatures"),
        (lambda: million_keys(number=30, rounds=2, times=1), "kms-million-keys"),
    ],
)
def test_benchmarks_in_process_print_their_line(measure: Callable[[], Figure], name: str) -> None:
    figure = measure()
    assert figure.line().startswith(f"{name} ")


@pytest.mark.loopback
@pytest.mark.slow
def test_the_load_is_sent_with_each_number_of_connections_without_an_error() -> None:
    figure = kms_throughput(rounds=1, requests=16, bare_seconds=0.01)
    lines = figure.detail.splitlines()
    assert [line.split()[1] for line in lines[1:4]] == ["1", "8", "64"]
    assert all(", 0 errors of" in line for line in lines[1:4])


class _Answers(BaseHTTPRequestHandler):
    """Answers 200 or 500, as the body says, or hangs up."""

    protocol_version = "HTTP/1.1"
    seen: ClassVar[Counter[bytes]] = Counter()

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.seen[body] += 1
        if body == b"hang up":
            self.close_connection = True
            return
        self.send_response(500 if body == b"fail" else 200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *args: object) -> None:
        del args


@pytest.mark.loopback
def test_every_request_is_sent_once_and_every_failure_is_counted() -> None:
    bodies = [b"%d" % number for number in range(50)] + [b"fail", b"hang up"]
    with ThreadingHTTPServer(("127.0.0.1", 0), _Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        _Answers.seen.clear()
        load = send_all([post("/x", body) for body in bodies], port=server.server_address[1], connections=4)
        server.shutdown()
        thread.join()
    assert _Answers.seen == Counter(bodies)
    assert load.statuses == {200: 50, 500: 1, 0: 1}
    assert load.errors == 2
    assert load.rate == 50 / load.seconds
    assert len(load.times) == 51
    assert load.percentile(0) <= load.percentile(0.5) <= load.percentile(1)


@pytest.mark.loopback
def test_the_attacked_service_is_measured_where_the_attacker_is_and_told_to_end_under_attack(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(attack, "ATTACKS", [attackers.POLICIES])
    monkeypatch.setattr(attackers, "_READY_SECONDS", 0.0)
    figure = attack.kms_under_attack(requests=4, rounds=1)
    head, *attacks, last = figure.detail.split("\n# ")
    assert re.fullmatch(r"\d+ processors, load average [0-9.]+ at the start", head)
    assert attacks
    for line in attacks:
        assert re.search(r"ratio [0-9.]+, 0 errors of 4; .* attacker on .*processors.*, memory \d+ MiB", line)
    assert re.search(r"SIGTERM under .*: ended after [0-9.]+ s, bar 15 s", last)
    assert figure.line().startswith("kms-under-attack ")

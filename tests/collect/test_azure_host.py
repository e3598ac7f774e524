"""The services of an Azure host: what they say, and everything that can answer in their place."""

import json
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from attest.collect.azure_host import HOST, MAX_THIM_BYTES, MAX_WAITS_SECONDS, AzureHost, HostPatience
from attest.encoding import JsonValue, base64url_bytes, base64url_text
from attest.errors import CollectionError
from tests.collect.azure_vm import SNP, TDX

pytestmark = pytest.mark.loopback

Answer = tuple[int, bytes]
REPORT = TDX.hardware_report(bytes(64))


@dataclass
class Server:
    """Answers what is queued, the last of it again and again, and keeps what it was asked."""

    answers: list[Answer] = field(default_factory=list)
    asked: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    hold: threading.Event = field(default_factory=threading.Event)
    dribble: bool = False
    port: int = 0

    def answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture
def server() -> Iterator[Server]:
    found = Server()

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
            found.asked.append((self.command, self.path, dict(self.headers.items()), body))
            status, data = found.answer()
            self.send_response(status)
            for name, value in {"Content-Length": str(len(data)), **found.headers}.items():
                self.send_header(name, value)
            self.end_headers()
            if found.dribble:
                found.hold.wait(30)
                return
            self.wfile.write(data)

        do_GET = do_POST = _any  # noqa: N815

        def log_message(self, *_: object) -> None:
            """Keep the test's output clean."""

    httpd = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    httpd.daemon_threads = True
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    found.port = httpd.server_address[1]
    try:
        yield found
    finally:
        found.hold.set()
        httpd.shutdown()
        httpd.server_close()
        thread.join(10)


@dataclass
class Patience:
    """Waits for nothing, and keeps how long it would have waited."""

    waits: list[float] = field(default_factory=list)
    chance: int = 0

    def __call__(self, **changes: object) -> HostPatience:
        return HostPatience(random=lambda size: bytes([self.chance]) * size, sleep=self.waits.append, **changes)  # type: ignore[arg-type]


@pytest.fixture
def patience() -> Patience:
    return Patience()


def at(server: Server) -> AzureHost:
    return AzureHost(address=("127.0.0.1", server.port))


def certification(**changes: JsonValue) -> bytes:
    document = json.loads(SNP.certification()) | changes
    return json.dumps({name: value for name, value in document.items() if value is not None}).encode()


def refused(call: Callable[[], object]) -> CollectionError:
    with pytest.raises(CollectionError) as caught:
        call()
    assert caught.value.hint
    return caught.value


# -- what they say


def test_the_address_is_the_same_on_every_vm() -> None:
    assert AzureHost().address == HOST == ("169.254.169.254", 80)


def test_the_certificates_of_the_chip_are_read(server: Server, patience: Patience) -> None:
    server.answers = [(200, SNP.certification())]
    found = at(server).certificates(patience())
    assert found.vcek == SNP.vcek()
    assert found.tcb == SNP.guest.chip.current_tcb.to_bytes()
    assert found.chain_pem.count(b"BEGIN CERTIFICATE") == 2
    ((method, path, headers, _),) = server.asked
    assert (method, path, headers["Metadata"]) == ("GET", "/metadata/THIM/amd/certification", "true")
    assert patience.waits == []


def test_unknown_members_and_missing_issuers_are_no_defect(server: Server, patience: Patience) -> None:
    server.answers = [(200, certification(certificateChain=None, cacheControl=86400, new=[1]))]
    assert at(server).certificates(patience()).chain_pem == b""


def test_a_quote_is_made_of_a_report(server: Server, patience: Patience) -> None:
    quote = TDX.quote(REPORT)
    server.answers = [(200, json.dumps({"quote": base64url_text(quote) + "="}).encode())]
    assert at(server).td_quote(REPORT, patience()) == quote
    ((method, path, headers, body),) = server.asked
    assert (method, path, headers["Content-Type"]) == ("POST", "/acc/tdquote", "application/json")
    assert base64url_bytes(json.loads(body)["report"], what="report") == REPORT


# -- patience


@pytest.mark.parametrize("status", [429, 500, 502, 503, 504, 408, 410])
def test_a_busy_host_is_asked_again_after_a_while(status: int, server: Server, patience: Patience) -> None:
    server.answers = [(status, b""), (status, b""), (200, SNP.certification())]
    assert at(server).certificates(patience()).vcek == SNP.vcek()
    assert patience.waits == [0.5, 1.0]


def test_chance_makes_waiting_longer_and_never_twice_as_long(server: Server, patience: Patience) -> None:
    server.answers = [(429, b"")]
    patience.chance = 255
    error = refused(lambda: at(server).certificates(patience()))
    assert (error.code, error.retryable, len(server.asked)) == ("azure-host-busy", True, 5)
    assert [round(wait, 2) for wait in patience.waits] == [1.0, 2.0, 3.99, 7.98]


@pytest.mark.parametrize(
    ("told", "waited"), [("3", 3.0), ("0", 0.5), ("86400", MAX_WAITS_SECONDS), ("9" * 400, 0.5), ("soon", 0.5)]
)
def test_a_host_that_says_how_long_to_wait_is_believed(
    told: str, waited: float, server: Server, patience: Patience
) -> None:
    server.answers = [(429, b""), (200, SNP.certification())]
    server.headers["Retry-After"] = told
    assert at(server).certificates(patience()).vcek
    assert patience.waits == [waited]


def test_waiting_has_a_limit(server: Server, patience: Patience) -> None:
    server.answers = [(503, b"")]
    refused(lambda: at(server).certificates(patience(first_wait=20.0, attempts=3)))
    assert patience.waits == [20.0, MAX_WAITS_SECONDS]


def test_a_host_that_is_not_there_is_asked_again_and_then_told(patience: Patience) -> None:
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        host = AzureHost(address=("127.0.0.1", unused.getsockname()[1]))
        error = refused(lambda: host.certificates(patience()))
    assert (error.code, error.retryable, len(patience.waits)) == ("azure-host-unreachable", True, 4)


def test_a_question_that_is_never_sent_is_a_mistake(patience: Patience) -> None:
    with pytest.raises(ValueError, match="once at least"):
        AzureHost().certificates(patience(attempts=0))


@pytest.mark.parametrize("declared", ["5", "100000"])
def test_a_host_that_stops_in_the_middle_is_given_up_on(declared: str, server: Server, patience: Patience) -> None:
    server.answers = [(200, b"{}")]
    server.headers["Content-Length"] = declared
    server.dribble = True
    error = refused(lambda: at(server).certificates(patience(attempts=1, seconds=0.2)))
    assert error.code == "azure-host-unreachable"


def test_an_answer_that_ends_too_soon_is_not_taken(server: Server, patience: Patience) -> None:
    server.answers = [(200, SNP.certification())]
    server.headers["Content-Length"] = str(len(SNP.certification()) + 1)
    error = refused(lambda: at(server).certificates(patience(attempts=1)))
    assert error.code == "azure-host-unreachable"


def test_a_host_that_says_a_byte_now_and_then_is_given_up_on(patience: Patience) -> None:
    stop = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def dribble() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                try:
                    connection.sendall(b"HTTP/1.1 200 OK\r\n")
                    while not stop.wait(0.05):
                        connection.sendall(b"X-Slow: 1\r\n")
                except OSError:
                    return

        thread = threading.Thread(target=dribble, daemon=True)
        thread.start()
        host = AzureHost(address=("127.0.0.1", listening.getsockname()[1]))
        error = refused(lambda: host.certificates(patience(attempts=1, seconds=0.4)))
        stop.set()
        thread.join(10)
    assert error.code == "azure-host-unreachable"


def test_what_speaks_no_http_is_told(patience: Patience) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def speak() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(4096)
                connection.sendall(b"SSH-2.0-nonsense\r\n")

        thread = threading.Thread(target=speak, daemon=True)
        thread.start()
        host = AzureHost(address=("127.0.0.1", listening.getsockname()[1]))
        error = refused(lambda: host.certificates(patience(attempts=1)))
        thread.join(10)
    assert error.code == "azure-host-unreachable"


# -- what is not theirs


@pytest.mark.parametrize("status", [204, 301, 302, 307, 400, 403, 404])
def test_other_answers_end_it_and_redirects_are_not_followed(status: int, server: Server, patience: Patience) -> None:
    server.answers = [(status, b"")]
    server.headers["Location"] = "/elsewhere"
    error = refused(lambda: at(server).certificates(patience()))
    assert (error.code, error.got, len(server.asked)) == ("azure-host-answer-invalid", f"status {status}", 1)


def test_no_proxy_is_asked(server: Server, patience: Patience, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    server.answers = [(200, SNP.certification())]
    assert at(server).certificates(patience()).vcek


PEM = json.loads(SNP.certification())


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"[]",
        b"{}",
        certification(vcekCert=None),
        certification(vcekCert=""),
        certification(vcekCert=1),
        certification(vcekCert=PEM["certificateChain"]),
        certification(vcekCert="-----BEGIN CERTIFICATE-----\n!\n-----END CERTIFICATE-----\n"),
        certification(vcekCert="-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"),
        certification(vcekCert=PEM["vcekCert"].replace("CERTIFICATE", "X509 CRL")),
        certification(tcbm=None),
        certification(tcbm=""),
        certification(tcbm="DB1800000000000"),
        certification(tcbm="DB1800000000000x"),
        certification(tcbm="DB18000000000004 "),
        certification(certificateChain=PEM["vcekCert"]),
        certification(certificateChain=PEM["certificateChain"] * 2),
        certification(certificateChain=["x"]),
        certification(certificateChain="x"),
        certification(vcekCert="\ud800"),
        b" " * (MAX_THIM_BYTES + 1),
    ],
)
def test_certificates_that_are_none_are_refused(body: bytes, server: Server, patience: Patience) -> None:
    server.answers = [(200, body)]
    error = refused(lambda: at(server).certificates(patience()))
    assert (error.code, len(server.asked)) == ("azure-host-answer-invalid", 1)


def test_the_longest_answer_is_read(server: Server, patience: Patience) -> None:
    server.answers = [(200, SNP.certification().ljust(MAX_THIM_BYTES))]
    assert at(server).certificates(patience()).vcek


@pytest.mark.parametrize("body", [b"{}", b'{"quote": 1}', b'{"quote": "*"}', b'{"quote": "AB", "quote": "AB"}'])
def test_quotes_that_are_none_are_refused(body: bytes, server: Server, patience: Patience) -> None:
    server.answers = [(200, body)]
    assert refused(lambda: at(server).td_quote(REPORT, patience())).code == "azure-host-answer-invalid"


# -- for the doctor


@pytest.mark.parametrize("status", [200, 404, 429])
def test_any_answer_shows_that_there_is_a_host(status: int, server: Server, patience: Patience) -> None:
    server.answers = [(status, b"x")]
    assert at(server).answers(patience()) == status
    assert len(server.asked) == 1

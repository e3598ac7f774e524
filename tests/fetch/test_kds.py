"""The client of AMD's key distribution service: patient with a busy one, suspicious of a strange one."""

import socket
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest

from attest.endorsements.requests import AmdChainRequest, AmdCrlRequest, AmdVcekRequest
from attest.errors import ConfigurationError, EndorsementError
from attest.fetch import KDS_URL, FetchClocks, KdsClient
from attest.fetch.client import (
    FIRST_WAIT_SECONDS,
    MAX_ATTEMPTS,
    MAX_TOTAL_WAIT_SECONDS,
    MAX_WAIT_SECONDS,
    TRANSFER_SECONDS,
)
from tests.fetch.conftest import AT, Reply, Server, Watch

CHAIN = AmdChainRequest(product="Milan", kind="vcek")
CRL = AmdCrlRequest(product="Milan", kind="vcek")
VCEK = AmdVcekRequest(
    product="Milan",
    hwid=bytes.fromhex("ab" * 64),
    spls=(("blSPL", 4), ("teeSPL", 0), ("snpSPL", 24), ("ucodeSPL", 219)),
)
TURIN = AmdVcekRequest(
    product="Turin",
    hwid=bytes(7) + b"\1",
    spls=(("fmcSPL", 1), ("blSPL", 2), ("teeSPL", 0), ("snpSPL", 3), ("ucodeSPL", 77)),
)
OK = Reply(body=b"body")


def quiet(_: str) -> None:
    """Say nothing."""


def refused(client: KdsClient, request: AmdChainRequest | AmdCrlRequest | AmdVcekRequest = CHAIN) -> EndorsementError:
    with pytest.raises(EndorsementError) as raised:
        client.get(request, progress=quiet)
    assert raised.value.exit_code == 5
    assert raised.value.hint
    return raised.value


def client_of(**arguments: object) -> KdsClient:
    return KdsClient(timing=FetchClocks(now=lambda: AT), **arguments)  # type: ignore[arg-type]  # the test's keywords


# -- addresses


def test_addresses_are_those_of_the_service_and_its_configured_host() -> None:
    client = client_of()
    chip = "ab" * 64
    assert client.url_of(VCEK) == f"{KDS_URL}/vcek/v1/Milan/{chip}?blSPL=04&teeSPL=00&snpSPL=24&ucodeSPL=219"
    assert client.url_of(TURIN) == (
        f"{KDS_URL}/vcek/v1/Turin/0000000000000001?fmcSPL=01&blSPL=02&teeSPL=00&snpSPL=03&ucodeSPL=77"
    )
    assert client.url_of(CHAIN) == f"{KDS_URL}/vcek/v1/Milan/cert_chain"
    assert client.url_of(AmdChainRequest(product="Genoa", kind="vlek")) == f"{KDS_URL}/vlek/v1/Genoa/cert_chain"
    assert client.url_of(AmdCrlRequest(product="Genoa", kind="vlek")) == f"{KDS_URL}/vlek/v1/Genoa/crl"
    assert client_of(base_url="https://mirror.example:8443/amd/").url_of(CRL) == (
        "https://mirror.example:8443/amd/vcek/v1/Milan/crl"
    )


@pytest.mark.parametrize("product", ["", "../x", "Milan?x", "Milan/..", "a" * 17])
def test_a_product_that_is_no_word_makes_no_address(product: str) -> None:
    with pytest.raises(ValueError, match="not a product line"):
        client_of().url_of(AmdChainRequest(product=product, kind="vcek"))


@pytest.mark.parametrize(
    "url", ["https://kds.example", "http://127.0.0.1:8080", "http://[::1]", "http://localhost/kds"]
)
def test_an_address_with_protection_or_on_this_machine_is_accepted(url: str) -> None:
    assert client_of(base_url=url).service == url


@pytest.mark.parametrize(
    "url",
    [
        "",
        "kds.example",
        "http://kds.example",
        "http://127.0.0.1.example",
        "ftp://kds.example",
        "file:///etc",
        "https://",
        "https://user:word@kds.example",
        "https://kds.example?x=1",
        "https://kds.example#x",
        "https://kds.example:port",
        "https://[::1",
        "https://kds.exämple",
        "https://kds .example",
        "https://kds.example/\x01",
    ],
)
def test_an_address_that_leads_elsewhere_or_is_unprotected_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        client_of(base_url=url)
    assert raised.value.code == "kds-url-invalid"


def test_a_host_that_cannot_be_is_refused_when_it_is_used() -> None:
    with client_of(base_url="https://1.2.3.400", trust_env=False) as client:
        with pytest.raises(ConfigurationError) as raised:
            client.get(CHAIN, progress=quiet)
        assert raised.value.code == "kds-url-invalid"


# -- good answers


@pytest.mark.loopback
def test_the_body_comes_back_as_it_was_sent(server: Server, kds: KdsClient, watch: Watch) -> None:
    server.queue = [OK]
    told: list[str] = []
    assert kds.get(VCEK, progress=told.append) == b"body"
    assert server.requests == [kds.url_of(VCEK).removeprefix(server.url)]
    assert server.headers[0]["Accept-Encoding"] == "identity"
    assert watch.slept == []
    assert len(told) == 1
    assert VCEK.hwid.hex() in told[0]


@pytest.mark.loopback
def test_a_client_can_be_used_again_after_it_was_closed(server: Server, kds: KdsClient) -> None:
    server.queue = [OK, OK]
    kds.close()
    assert kds.get(CHAIN, progress=quiet) == b"body"
    kds.close()
    kds.close()
    assert kds.get(CHAIN, progress=quiet) == b"body"


# -- a busy service


@pytest.mark.loopback
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_waited_for_as_long_as_it_says(
    server: Server, kds: KdsClient, watch: Watch, status: int
) -> None:
    server.queue = [Reply(status=status, headers=(("Retry-After", "7"),)), OK]
    told: list[str] = []
    assert kds.get(CHAIN, progress=told.append) == b"body"
    assert watch.slept == [7.0]
    assert len(server.requests) == 2
    assert any("waiting 7 s" in line for line in told)


@pytest.mark.loopback
@pytest.mark.parametrize(
    ("value", "slept"),
    [
        ("0", 1.0),
        (" 3 ", 3.0),
        (format_datetime(AT + timedelta(seconds=9), usegmt=True), 9.0),
        (format_datetime(AT.replace(tzinfo=None) + timedelta(seconds=9)), 9.0),  # "-0000"
        (format_datetime(AT - timedelta(days=9), usegmt=True), 1.0),
        ("soon", FIRST_WAIT_SECONDS),
        ("-1", FIRST_WAIT_SECONDS),
        ("Thu, 99 Foo 2026 99:99:99 GMT", FIRST_WAIT_SECONDS),
    ],
)
def test_retry_after_is_seconds_or_a_date_and_anything_else_is_ignored(
    server: Server, kds: KdsClient, watch: Watch, value: str, slept: float
) -> None:
    server.queue = [Reply(status=429, headers=(("Retry-After", value),)), OK]
    assert kds.get(CHAIN, progress=quiet) == b"body"
    assert watch.slept == [slept]


@pytest.mark.loopback
def test_endless_throttling_ends_in_an_error_that_may_be_retried(server: Server, kds: KdsClient, watch: Watch) -> None:
    server.answering = lambda path, query: Reply(status=429)
    error = refused(kds)
    assert (error.code, error.retryable) == ("kds-throttled", True)
    assert len(server.requests) == MAX_ATTEMPTS
    assert watch.slept == [1.0, 2.0, 4.0, 8.0]


@pytest.mark.loopback
def test_a_service_that_asks_for_more_than_our_patience_is_not_asked_again(
    server: Server, kds: KdsClient, watch: Watch
) -> None:
    server.answering = lambda path, query: Reply(status=429, headers=(("Retry-After", str(int(MAX_WAIT_SECONDS) + 1)),))
    error = refused(kds)
    assert (error.code, error.retryable, watch.slept) == ("kds-throttled", True, [])
    assert "asks to wait 61 s" in error.message
    assert len(server.requests) == 1


@pytest.mark.loopback
def test_all_waits_together_are_bounded(server: Server, kds: KdsClient, watch: Watch) -> None:
    server.answering = lambda path, query: Reply(status=429, headers=(("Retry-After", str(int(MAX_WAIT_SECONDS))),))
    assert refused(kds).code == "kds-throttled"
    assert sum(watch.slept) == MAX_TOTAL_WAIT_SECONDS
    assert len(server.requests) == 3


@pytest.mark.loopback
@pytest.mark.parametrize("status", [500, 502, 504])
def test_an_unwell_service_is_tried_again_and_then_out_of_reach(
    server: Server, kds: KdsClient, watch: Watch, status: int
) -> None:
    server.queue = [Reply(status=status), OK]
    assert kds.get(CHAIN, progress=quiet) == b"body"
    server.answering = lambda path, query: Reply(status=status)
    error = refused(kds)
    assert (error.code, error.retryable) == ("kds-unreachable", True)


# -- refusals and strange answers


@pytest.mark.loopback
@pytest.mark.parametrize("status", [400, 404])
def test_what_the_service_does_not_know_is_not_found_at_once(
    server: Server, kds: KdsClient, watch: Watch, status: int
) -> None:
    server.queue = [Reply(status=status)]
    error = refused(kds)
    assert (error.code, error.retryable) == ("kds-not-found", False)
    assert (len(server.requests), watch.slept) == (1, [])


@pytest.mark.loopback
@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_not_followed(server: Server, kds: KdsClient, status: int) -> None:
    server.queue = [Reply(status=status, headers=(("Location", f"{server.url}/elsewhere"),))]
    error = refused(kds)
    assert (error.code, error.retryable) == ("kds-answer-invalid", False)
    assert "redirect" in error.message
    assert len(server.requests) == 1


@pytest.mark.loopback
@pytest.mark.parametrize("status", [201, 204, 206, 401, 403, 407, 410, 501])
def test_any_other_status_is_no_answer(server: Server, kds: KdsClient, status: int) -> None:
    server.queue = [Reply(status=status)]
    assert refused(kds).code == "kds-answer-invalid"


@pytest.mark.loopback
def test_an_answer_with_content_coding_is_refused(server: Server, kds: KdsClient) -> None:
    server.queue = [Reply(body=b"x", headers=(("Content-Encoding", "gzip"),))]
    assert refused(kds).code == "kds-answer-invalid"


@pytest.mark.loopback
def test_an_answer_may_be_as_long_as_its_kind_allows_and_no_byte_longer(server: Server, kds: KdsClient) -> None:
    limit = 64 * 1024
    server.queue = [Reply(body=bytes(limit)), Reply(body=bytes(limit + 1))]
    assert len(kds.get(CHAIN, progress=quiet)) == limit
    error = refused(kds)
    assert (error.code, error.retryable) == ("kds-answer-invalid", False)


@pytest.mark.loopback
def test_an_answer_that_breaks_off_is_fetched_again(server: Server, kds: KdsClient, watch: Watch) -> None:
    server.queue = [Reply(body=b"half", declared=100), OK]
    assert kds.get(CHAIN, progress=quiet) == b"body"
    assert watch.slept == [1.0]


@pytest.mark.loopback
def test_an_answer_that_always_breaks_off_is_none(server: Server, kds: KdsClient) -> None:
    server.answering = lambda path, query: Reply(body=b"half", declared=100)
    error = refused(kds)
    assert (error.code, error.retryable) == ("kds-unreachable", True)
    assert len(server.requests) == MAX_ATTEMPTS


@pytest.mark.loopback
def test_an_answer_that_takes_for_ever_is_given_up(server: Server, kds: KdsClient, watch: Watch) -> None:
    watch.ticks = [0.0, TRANSFER_SECONDS, 0.0, TRANSFER_SECONDS + 1]
    server.queue = [OK, OK, OK]
    assert kds.get(CHAIN, progress=quiet) == b"body"
    assert kds.get(CHAIN, progress=quiet) == b"body"
    assert watch.slept == [1.0]


# -- no service


@pytest.mark.loopback
def test_a_refused_connection_is_out_of_reach_at_once(watch: Watch) -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    with KdsClient(timing=watch.timing(), base_url=f"http://127.0.0.1:{port}", trust_env=False) as client:
        error = refused(client)
    assert (error.code, error.retryable, watch.slept) == ("kds-unreachable", True, [])


# -- the environment


@pytest.mark.loopback
def test_a_proxy_of_the_environment_is_used_unless_told_otherwise(
    server: Server, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "http_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HTTP_PROXY", server.url)
    server.queue = [OK]
    with KdsClient(timing=watch.timing(), base_url="http://127.0.0.1:9") as client:
        assert client.get(CHAIN, progress=quiet) == b"body"
    assert server.requests == ["http://127.0.0.1:9/vcek/v1/Milan/cert_chain"]
    with KdsClient(timing=watch.timing(), base_url="http://127.0.0.1:9", trust_env=False) as client:
        assert refused(client).code == "kds-unreachable"


@pytest.mark.parametrize(
    ("name", "value"), [("ALL_PROXY", "gopher://proxy.example"), ("SSL_CERT_FILE", "/nowhere/at/all.pem")]
)
def test_settings_of_the_environment_that_cannot_be_used_are_named(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    for other in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy", "all_proxy"):
        monkeypatch.delenv(other, raising=False)
    monkeypatch.setenv(name, value)
    with KdsClient(timing=watch.timing()) as client, pytest.raises(ConfigurationError) as raised:
        client.get(CHAIN, progress=quiet)
    assert raised.value.code == "network-settings-invalid"


def test_importing_the_package_does_not_import_the_http_library() -> None:
    script = "import sys, attest.fetch; print('httpx' in sys.modules)"
    listing = subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
    assert listing.stdout.strip() == b"False"


def test_the_clocks_have_defaults_but_for_the_time_of_day() -> None:
    timing = FetchClocks(now=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    assert timing.monotonic() <= timing.monotonic()
    timing.sleep(0)

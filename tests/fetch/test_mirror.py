"""A mirror answers on the vendors' own paths what it has, and nothing else."""

import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from urllib.parse import unquote

import pytest
from cryptography.hazmat.primitives.hashes import SHA256, SHA384
from cryptography.hazmat.primitives.serialization import Encoding
from cryptography.x509 import OCSPNonce, ocsp
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.bundle_records import BundleEntry, EntryKind
from attest.endorsements.intel_answers import body_and_chain
from attest.endorsements.ocsp_answers import parse_ocsp
from attest.endorsements.requests import EndorsementRequest, IntelQeIdentityRequest, NvidiaRimRequest
from attest.errors import ConfigurationError, EndorsementError
from attest.fetch import FetchClocks, KdsClient, PcsClient, RimServiceClient, mirror_server
from attest.fetch.answers import CheckedAnswer, read_answer
from attest.fetch.mirror import MAX_OCSP_REQUEST_BYTES, Mirror
from attest.fetch.mirror_paths import read_path
from tests.fetch.conftest import AT
from tests.fetch.mirror_entries import (
    AMD,
    INTEL,
    PLATFORM,
    VCEKS,
    all_entries,
    intel_entries,
    kds_answer,
    rim_requests,
)

ENTRIES = all_entries(AT)
FMSPC = PLATFORM.sgx.fmspc.hex()
STATUSES = [entry.data for entry in ENTRIES if entry.kind == "nvidia-ocsp"]
pytestmark = pytest.mark.loopback


@dataclass(frozen=True)
class Answer:
    """What the mirror answered."""

    status: int
    headers: dict[str, str]
    body: bytes


@contextmanager
def serving(mirror: Mirror) -> Iterator[int]:
    """Serve a mirror; gives its port."""
    server = mirror_server.mirror_server(mirror, host="127.0.0.1", port=0)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server.server_port
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """A mirror of everything."""
    with serving(Mirror(ENTRIES)) as found:
        yield found


def ask(port: int, path: str, *, method: str = "GET", body: bytes | None = None, **headers: str) -> Answer:
    """Send one request."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body=body, headers=named)
        found = connection.getresponse()
        return Answer(found.status, {name.lower(): value for name, value in found.getheaders()}, found.read())
    finally:
        connection.close()


def ocsp_request(der: bytes, *, nonce: bytes | None = b"n" * 32, other_digest: bool = False) -> bytes:
    """Ask about the certificate of an answer."""
    found = parse_ocsp(der)
    digest = SHA256() if other_digest else SHA384()
    size = digest.digest_size
    name, key = found.issuer_name_hash[:size], found.issuer_key_hash[:size]
    builder = ocsp.OCSPRequestBuilder().add_certificate_by_hash(name, key, found.serial, digest)
    if nonce is not None:
        builder = builder.add_extension(OCSPNonce(nonce), critical=False)
    return builder.build().public_bytes(Encoding.DER)


POST = {"Content_Type": "application/ocsp-request"}


@pytest.mark.parametrize("request_", [*AMD, *INTEL, *rim_requests(AT)], ids=lambda one: type(one).__name__)
def test_our_own_clients_get_from_a_mirror_what_is_in_the_bundle(port: int, request_: EndorsementRequest) -> None:
    timing, url = FetchClocks(now=lambda: AT), f"http://127.0.0.1:{port}"
    made = KdsClient if request_ in AMD else PcsClient if request_ in INTEL else RimServiceClient
    with made(timing=timing, base_url=url, trust_env=False) as client:
        got = client.get(request_, progress=lambda _: None)
    assert got in [entry.data for entry in ENTRIES]
    read_answer(request_, got, source=url)


def test_the_chain_of_intels_signer_is_in_its_header(port: int) -> None:
    for path, header in (
        (f"/tdx/certification/v4/tcb?fmspc={FMSPC.upper()}", "tcb-info-issuer-chain"),
        ("/tdx/certification/v4/qe/identity?update=standard", "sgx-enclave-identity-issuer-chain"),
        ("/sgx/certification/v4/pckcrl?ca=platform&encoding=der", "sgx-pck-crl-issuer-chain"),
    ):
        found = ask(port, path)
        assert found.status == 200
        parts = [body_and_chain(entry.data) for entry in ENTRIES if entry.kind.startswith("intel-")]
        assert (found.body, unquote(found.headers[header]).encode()) in parts
        assert "\n" not in found.headers[header]


def test_a_list_of_intels_is_hex_as_from_a_pccs_or_der_or_pem(port: int) -> None:
    path = "/sgx/certification/v4/pckcrl?ca=processor"
    der = ask(port, f"{path}&encoding=der").body
    assert bytes.fromhex(ask(port, path).body.decode()) == der
    assert ask(port, f"{path}&encoding=pem").body.startswith(b"-----BEGIN X509 CRL-----")
    assert bytes.fromhex(ask(port, "/sgx/certification/v4/rootcacrl").body.decode())[:1] == b"0"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/nosuch",
        "/vcek/v1/Milan",
        "/vcek/v1/Naples/cert_chain",
        "/vcek/v1/Milan/cert_chain?x=1",
        "/vlek/v1/Milan/cert_chain",
        "/vcek/v1/Genoa/" + "00" * 64 + "?blSPL=01&teeSPL=00&snpSPL=01&ucodeSPL=01",
        "/vcek/v1/Genoa/" + "00" * 63 + "0",
        "/vcek/v1/Genoa/" + "00" * 64 + "?blSPL=x",
        "/vcek/v1/Genoa/" + "00" * 64 + "?nosuch=1",
        "/vlek/v1/Genoa/" + "00" * 64,
        "/sgx/certification/v4/tcb",
        "/sgx/certification/v4/tcb?fmspc=000000000000",
        f"/tdx/certification/v4/tcb?fmspc={FMSPC}&fmspc={FMSPC}",
        f"/tdx/certification/v4/tcb?fmspc={FMSPC}&update=early",
        f"/tdx/certification/v4/tcb?fmspc={FMSPC}&tcbEvaluationDataNumber=17",
        f"/tdx/certification/v3/tcb?fmspc={FMSPC}",
        "/tdx/certification/v4/qe/identity?x",
        "/tdx/certification/v4/pckcrl?ca=platform",
        "/tdx/certification/v4/rootcacrl",
        "/sgx/certification/v4/pckcrl",
        "/sgx/certification/v4/pckcrl?ca=nosuch",
        "/sgx/certification/v4/pckcrl?ca=platform&encoding=nosuch",
        "/sgx/certification/v4/rootcacrl?x=1",
        "/v1/rim/NV_GPU_DRIVER_GH100_1.2.3",
        "/v1/rim/ids",
        "/v1/rim/../../etc/passwd",
        "/v1/rim/" + "N" * 3000,
        "/%2e%2e/%2e%2e/etc/passwd",
        "/vcek/v1/Milan/crl?" + "&".join(f"a{n}=1" for n in range(40)),
    ],
)
def test_what_is_not_there_is_404(port: int, path: str) -> None:
    found = ask(port, path)
    assert (found.status, found.headers["content-type"]) == (404, "text/plain; charset=utf-8")


def test_an_answer_that_the_client_has_is_304(port: int) -> None:
    found = ask(port, "/vcek/v1/Milan/crl")
    tag = found.headers["etag"]
    for sent in (tag, f'"x", {tag}', f"W/{tag}"):
        again = ask(port, "/vcek/v1/Milan/crl", If_None_Match=sent)
        assert (again.status, again.body, again.headers["etag"]) == (304, b"", tag)
    assert ask(port, "/vcek/v1/Milan/crl", If_None_Match='"x"').status == 200
    assert ask(port, "/vcek/v1/Genoa/crl").headers["etag"] != tag


def test_head_gives_the_headers_of_get(port: int) -> None:
    get, head = ask(port, "/vcek/v1/Milan/crl"), ask(port, "/vcek/v1/Milan/crl", method="HEAD")
    assert (head.status, head.body, head.headers["content-length"]) == (200, b"", str(len(get.body)))


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "CONNECT"])
def test_a_mirror_takes_no_other_method(port: int, method: str) -> None:
    assert ask(port, "/vcek/v1/Milan/crl", method=method).status == 501


def test_an_ocsp_answer_is_found_by_the_certificate(port: int) -> None:
    for der in STATUSES:
        for nonce in (None, b"n" * 32):
            found = ask(port, "/", method="POST", body=ocsp_request(der, nonce=nonce), **POST)
            assert (found.status, found.body, found.headers["content-type"]) == (200, der, "application/ocsp-response")


def test_an_ocsp_request_about_another_certificate_is_404(port: int) -> None:
    assert ask(port, "/", method="POST", body=ocsp_request(STATUSES[0], other_digest=True), **POST).status == 404
    assert ask(port, "/other", method="POST", body=ocsp_request(STATUSES[0]), **POST).status == 404


@pytest.mark.parametrize(
    ("body", "headers", "status"),
    [
        (b"", POST, 400),
        (b"0\x03\x02\x01\x05", POST, 400),
        (b"x" * (MAX_OCSP_REQUEST_BYTES + 1), POST, 413),
        (b"x", {"Content_Type": "text/plain"}, 415),
        (b"x", {**POST, "Content_Length": "-1"}, 411),
        (b"x", {**POST, "Content_Length": "9" * 30}, 413),
        (b"x", {**POST, "Transfer_Encoding": "chunked"}, 411),
    ],
)
def test_a_post_that_is_no_ocsp_request_is_refused(
    port: int, body: bytes, headers: dict[str, str], status: int
) -> None:
    assert ask(port, "/", method="POST", body=body, **headers).status == status


def test_a_connection_is_kept_for_several_requests_and_answers_at_once(port: int) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    taken = []
    for _ in range(10):
        start = time.monotonic()
        connection.request("GET", "/vcek/v1/Milan/crl")
        assert connection.getresponse().read()
        taken.append(time.monotonic() - start)
    connection.close()
    assert sorted(taken)[5] < 0.035  # a delayed acknowledgement takes 40 ms


def test_a_request_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_server, "REQUEST_SECONDS", 0.5)
    with serving(Mirror(ENTRIES)) as found, socket.create_connection(("127.0.0.1", found), timeout=20) as slow:
        start = time.monotonic()
        with suppress(OSError):
            while time.monotonic() - start < 10:
                slow.sendall(b"GET /")
                time.sleep(0.1)
        assert time.monotonic() - start < 9
        assert ask(found, "/vcek/v1/Milan/crl").status == 200


def test_more_connections_than_one_address_may_have_are_reset(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mirror_server, "CONNECTIONS_EACH", 3)
    with serving(Mirror(ENTRIES)) as found:
        held = [socket.create_connection(("127.0.0.1", found), timeout=20) for _ in range(3)]
        time.sleep(0.3)
        with pytest.raises((ConnectionError, http.client.BadStatusLine)):
            ask(found, "/vcek/v1/Milan/crl")
        for one in held:
            one.close()
        time.sleep(0.3)
        assert ask(found, "/vcek/v1/Milan/crl").status == 200


def test_a_port_that_is_taken_is_an_error(port: int) -> None:
    with pytest.raises(ConfigurationError) as caught:
        mirror_server.mirror_server(Mirror(()), host="127.0.0.1", port=port)
    assert (caught.value.code, caught.value.field) == ("address-in-use", "--port")


# -- the content


def test_entries_that_are_none_of_their_kind_are_counted_and_not_served() -> None:
    kinds: tuple[EntryKind, ...] = (
        "amd-vcek",
        "amd-chain",
        "amd-crl",
        "intel-tcb-info",
        "intel-crl",
        "nvidia-rim",
        "nvidia-ocsp",
    )
    bad = [BundleEntry(kind=kind, source="x", data=data) for kind in kinds for data in (b"", b"x", ENTRIES[0].data[:9])]
    swapped = replace(next(entry for entry in ENTRIES if entry.kind == "amd-crl"), kind="intel-crl")
    mirror = Mirror([*bad, swapped])
    assert (mirror.unusable, len(mirror)) == (len(bad) + 1, 0)


def test_of_two_answers_the_one_issued_last_is_served_whatever_the_order() -> None:
    old, new = (intel_entries(at, INTEL[2:3])[0] for at in (AT - timedelta(days=40), AT))
    assert old.data != new.data
    for entries in ((old, new), (new, old)):
        path = read_path("/tdx/certification/v4/qe/identity")
        assert path is not None
        found = Mirror(entries).answer(path)
        assert found is not None
        assert found.body == body_and_chain(new.data)[0]


def test_nothing_is_fetched_by_itself_and_what_is_missing_is_fetched_on_request() -> None:
    asked: list[EndorsementRequest] = []

    def obtain(request: EndorsementRequest, found: CheckedAnswer | None) -> CheckedAnswer | None:
        asked.append(request)
        if found is not None:
            return None
        if isinstance(request, NvidiaRimRequest):
            raise EndorsementError("no such RIM", code="rim-not-found")
        if isinstance(request, IntelQeIdentityRequest):
            raise EndorsementError("away", code="pcs-unreachable")
        return read_answer(request, kds_answer(request, AT), source="x")

    paths = {
        "/vcek/v1/Milan/crl": 200,
        "/v1/rim/NV_GPU_DRIVER_GH100_1.2": 404,
        "/tdx/certification/v4/qe/identity": 503,
    }
    for fetching, wanted in ((None, dict.fromkeys(paths, 404)), (obtain, paths)):
        with serving(Mirror((), obtain=fetching)) as found:
            assert {path: ask(found, path).status for path in paths} == wanted
    assert len(asked) == 3


@given(st.text(max_size=80))
def test_any_path_names_one_request_or_none(text: str) -> None:
    for target in (text, "/" + text, "/vcek/v1/Milan/" + text, "/sgx/certification/v4/" + text, "/v1/rim/" + text):
        read_path(target)


def test_the_levels_of_a_vcek_may_come_in_any_order() -> None:
    for request_ in VCEKS:
        pairs = [f"{name}={level}" for name, level in request_.spls]
        for query in ("&".join(pairs), "&".join(reversed(pairs))):
            found = read_path(f"/vcek/v1/{request_.product}/{request_.hwid.hex()}?{query}")
            assert found is not None
            assert found.request == request_


def test_a_rim_is_the_json_of_the_service(port: int) -> None:
    name = rim_requests(AT)[0]
    assert isinstance(name, NvidiaRimRequest)
    assert json.loads(ask(port, f"/v1/rim/{name.id}").body)["id"] == name.id

"""The client of NVIDIA's OCSP responder: one certificate, one nonce, and an answer to this very question."""

from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from cryptography import x509
from cryptography.x509 import ocsp as library

from attest.endorsements.ocsp_answers import MAX_OCSP_BYTES, OcspStatus, cert_id, parse_ocsp
from attest.endorsements.requests import EndorsementRequest, IntelRootCrlRequest, NvidiaOcspRequest, NvidiaRimRequest
from attest.endorsements.x509 import Issuer
from attest.errors import ConfigurationError, EndorsementError
from attest.fetch import OCSP_URL, EndorsementCache, FetchClocks, OcspClient, gather_endorsements, read_service_key
from attest.fetch.answers import describe, read_answer
from attest.fetch.client import MAX_ATTEMPTS, TRANSFER_SECONDS
from attest.fetch.ocsp import NONCE_BYTES
from tests.endorsements import made
from tests.endorsements.made_ocsp import ISSUER, SUBJECT, Made, refusal, response
from tests.fetch.conftest import AT, AnsweringPost, Dice, Reply, Server, Watch

REQUEST = NvidiaOcspRequest(name="Made Other", serial=SUBJECT.serial, issuer=ISSUER)
DAY = timedelta(days=1)
SECOND = timedelta(seconds=1)
NONCE = bytes(NONCE_BYTES)
GOOD = replace(Made(), this_update=AT - DAY, next_update=AT + DAY)


def quiet(_: str) -> None:
    """Say nothing."""


def client_of(**arguments: object) -> OcspClient:
    arguments = {"random": Dice(), **arguments}
    return OcspClient(timing=FetchClocks(now=lambda: AT), **arguments)  # type: ignore[arg-type]  # the test's keywords


def refused(client: OcspClient, request: EndorsementRequest = REQUEST) -> EndorsementError:
    with pytest.raises(EndorsementError) as raised:
        client.get(request, progress=quiet)
    assert raised.value.exit_code == 5
    return raised.value


def reply(body: bytes, media_type: str = "application/ocsp-response") -> Reply:
    return Reply(body=body, headers=(("Content-Type", media_type),))


def answering(template: Made) -> AnsweringPost:
    """Answer every question with this, under the question's nonce."""

    def answer(body: bytes) -> Reply:
        asked = library.load_der_ocsp_request(body)
        nonce = asked.extensions.get_extension_for_class(x509.OCSPNonce).value.nonce
        return reply(replace(template, nonce=nonce, hash_algorithm="sha384").der())

    return answer


@pytest.fixture
def cache(tmp_path: Path) -> EndorsementCache:
    return EndorsementCache(tmp_path)


@pytest.fixture(autouse=True)
def _good(server: Server) -> None:
    server.answering_post = answering(GOOD)


pytestmark = pytest.mark.loopback


# -- asking


def test_the_question_names_the_certificate_and_carries_a_new_nonce(
    server: Server, ocsp: OcspClient, dice: Dice
) -> None:
    told: list[str] = []
    ocsp.get(REQUEST, progress=told.append)
    data = ocsp.get(REQUEST, progress=told.append)
    assert dice.thrown == [bytes(32), b"\1" * 32]
    assert parse_ocsp(data).nonce == b"\1" * 32
    assert told == [f"fetching the {describe(REQUEST)} from {server.url}"] * 2
    assert server.headers[0]["Content-Type"] == "application/ocsp-request"
    assert server.headers[0]["Accept"] == "application/ocsp-response"
    assert "Authorization" not in server.headers[0]
    asked = library.load_der_ocsp_request(server.bodies[1])
    assert (asked.serial_number, asked.hash_algorithm.name) == (77, "sha384")
    assert (asked.issuer_name_hash, asked.issuer_key_hash) == cert_id(ISSUER, "sha384")
    assert asked.extensions.get_extension_for_class(x509.OCSPNonce).value.nonce == b"\1" * 32


def test_the_same_question_is_repeated_while_the_responder_is_busy(server: Server, ocsp: OcspClient) -> None:
    server.queue = [Reply(status=503), Reply(status=500)]
    ocsp.get(REQUEST, progress=quiet)
    assert len(set(server.bodies)) == 1
    assert len(server.bodies) == 3


def test_a_service_key_goes_into_one_header(server: Server, watch: Watch) -> None:
    with OcspClient(
        timing=watch.timing(), random=Dice(), base_url=server.url, service_key=read_service_key(b"k"), trust_env=False
    ) as client:
        client.get(REQUEST, progress=quiet)
    assert server.headers[0]["Authorization"] == "Bearer k"


def test_every_certificate_has_the_same_address() -> None:
    assert client_of().url_of(REQUEST) == client_of().service == OCSP_URL
    assert client_of(base_url="https://relay.example/ocsp/").url_of(REQUEST) == "https://relay.example/ocsp"
    for request in (IntelRootCrlRequest(), NvidiaRimRequest(id="NV_X")):
        for ask in (client_of().url_of, lambda one: client_of().get(one, progress=quiet)):
            with pytest.raises(TypeError, match=type(request).__name__):
                ask(request)


@pytest.mark.parametrize("url", ["", "http://ocsp.example", "https://user@ocsp.example", "https://x?y"])
def test_an_address_that_leads_elsewhere_or_is_unprotected_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError) as raised:
        client_of(base_url=url)
    assert raised.value.code == "ocsp-url-invalid"


@pytest.mark.parametrize(
    "request_",
    [
        replace(REQUEST, serial=0),
        replace(REQUEST, serial=-1),
        replace(REQUEST, serial=1 << 4000),
        replace(REQUEST, issuer=Issuer(name="x", subject=b"", spki=b"")),
    ],
    ids=["zero", "negative", "long", "no key"],
)
def test_what_nobody_can_be_asked_about_is_a_failure_and_no_crash(
    server: Server, ocsp: OcspClient, request_: NvidiaOcspRequest, cache: EndorsementCache
) -> None:
    found = gather_endorsements([request_], at=AT, source=ocsp, cache=cache)
    assert [failure.code for failure in found.failures] in (["ocsp-not-found"], ["ocsp-answer-invalid"])
    assert found.entries == ()


# -- answers


@pytest.mark.parametrize(
    ("sent", "code", "asked"),
    [
        (reply(GOOD.der()), "ocsp-answer-invalid", 1),
        (reply(replace(GOOD, nonce=b"x" * 32).der()), "ocsp-answer-invalid", 1),
        (reply(replace(GOOD, nonce=NONCE[:-1]).der()), "ocsp-answer-invalid", 1),
        (reply(replace(GOOD, nonce=NONCE + b"\0").der()), "ocsp-answer-invalid", 1),
        (reply(replace(GOOD, nonce=NONCE).der(), "text/html"), "ocsp-answer-invalid", 1),
        (Reply(body=replace(GOOD, nonce=NONCE).der()), "ocsp-answer-invalid", 1),
        (reply(replace(GOOD, nonce=NONCE).der()[:-1]), "ocsp-answer-invalid", 1),
        (reply(b""), "ocsp-answer-invalid", 1),
        (reply(b"<html>welcome</html>"), "ocsp-answer-invalid", 1),
        (reply(bytes(MAX_OCSP_BYTES + 1)), "ocsp-answer-invalid", 1),
        (reply(response(GOOD.basic(), kind="1.2.3")), "ocsp-answer-invalid", 1),
        (reply(refusal(1)), "ocsp-not-found", 1),
        (reply(refusal(6)), "ocsp-not-found", 1),
        (reply(refusal(2)), "ocsp-throttled", 1),
        (reply(refusal(3)), "ocsp-throttled", 1),
        (Reply(status=404), "ocsp-not-found", 1),
        (Reply(status=403), "ocsp-answer-invalid", 1),
        (Reply(status=307, headers=(("Location", "https://elsewhere.example/"),)), "ocsp-answer-invalid", 1),
        (Reply(status=429), "ocsp-throttled", MAX_ATTEMPTS),
        (Reply(status=429, headers=(("Retry-After", "3600"),)), "ocsp-throttled", 1),
        (Reply(status=500), "ocsp-unreachable", MAX_ATTEMPTS),
        (Reply(body=b"0", declared=99), "ocsp-unreachable", MAX_ATTEMPTS),
    ],
    ids=[
        "no nonce", "another nonce", "short nonce", "long nonce", "another type", "no type", "cut off", "empty", "page",
        "huge", "not basic", "malformed request", "unauthorized", "internal error", "try later", "404", "403",
        "redirect", "429", "429 for long", "500", "broken off",
    ],
)  # fmt: skip
def test_a_responder_that_does_not_answer_this_question_is_refused_by_name(
    server: Server, ocsp: OcspClient, sent: Reply, code: str, asked: int
) -> None:
    server.queue = [sent] * MAX_ATTEMPTS
    error = refused(ocsp)
    assert (error.code, error.retryable) == (code, code in {"ocsp-throttled", "ocsp-unreachable"})
    assert len(server.requests) == asked


def test_a_media_type_may_have_parameters_and_any_case(server: Server, ocsp: OcspClient) -> None:
    server.queue = [reply(replace(GOOD, nonce=NONCE).der(), "Application/OCSP-Response; charset=x")]
    assert ocsp.get(REQUEST, progress=quiet)


def test_a_responder_that_is_slow_or_gone_is_unreachable(server: Server, ocsp: OcspClient, watch: Watch) -> None:
    watch.ticks = [0.0, TRANSFER_SECONDS + 1] * MAX_ATTEMPTS
    assert refused(ocsp).code == "ocsp-unreachable"
    assert refused(client_of(base_url="http://127.0.0.1:1", trust_env=False)).code == "ocsp-unreachable"


@pytest.mark.parametrize(
    "template",
    [
        replace(GOOD, serial=78),
        replace(GOOD, name_hash=bytes(48)),
        replace(GOOD, key_hash=bytes(48)),
        replace(GOOD, issuer=ISSUER._replace(subject=made.OTHER_NAME)),
    ],
    ids=["serial", "name", "key", "issuer"],
)
def test_an_answer_about_another_certificate_is_neither_used_nor_kept(
    server: Server, ocsp: OcspClient, cache: EndorsementCache, template: Made
) -> None:
    server.answering_post = answering(template)
    found = gather_endorsements([REQUEST], at=AT, source=ocsp, cache=cache)
    assert [failure.code for failure in found.failures] == ["ocsp-answer-invalid"]
    assert gather_endorsements([REQUEST], at=AT, source=ocsp, cache=cache, offline=True).entries == ()


@pytest.mark.parametrize("name", ["sha1", "sha256", "sha384"])
def test_whatever_hash_the_responder_names_the_issuer_with_is_taken(name: str) -> None:
    answer = read_answer(REQUEST, replace(GOOD, hash_algorithm=name).der(), source="x")
    assert (answer.issued, answer.entry().kind) == (AT - DAY, "nvidia-ocsp")
    assert answer.is_current(AT)


def test_a_status_that_is_too_long_is_none() -> None:
    with pytest.raises(EndorsementError) as raised:
        read_answer(REQUEST, bytes(MAX_OCSP_BYTES + 1), source="x")
    assert raised.value.code == "ocsp-answer-invalid"


# -- the cache


@pytest.mark.parametrize(("later", "asked"), [(timedelta(0), 0), (DAY - SECOND, 0), (DAY, 1), (-DAY - SECOND, 1)])
def test_mc_9_a_good_answer_is_kept_until_its_next_update(
    server: Server, ocsp: OcspClient, cache: EndorsementCache, later: timedelta, asked: int
) -> None:
    request = replace(REQUEST, serial=(1 << 159) + 1)
    server.answering_post = answering(replace(GOOD, serial=request.serial))
    gather_endorsements([request], at=AT, source=ocsp, cache=cache).require()
    server.requests.clear()
    found = gather_endorsements([replace(request, name="known otherwise")], at=AT + later, source=ocsp, cache=cache)
    assert len(server.requests) == asked
    assert found.failures == ()


@pytest.mark.parametrize("status", ["revoked", "unknown"])
def test_any_other_answer_is_asked_for_again_and_a_negative_is_not_forgotten(
    server: Server, ocsp: OcspClient, cache: EndorsementCache, status: str
) -> None:
    server.answering_post = answering(replace(GOOD, status=status, reason=6))
    gather_endorsements([REQUEST], at=AT, source=ocsp, cache=cache).require()
    server.answering_post = answering(replace(GOOD, this_update=AT))
    found = gather_endorsements([REQUEST], at=AT, source=ocsp, cache=cache)
    assert len(server.requests) == 2
    assert {answer.status for answer in found.endorsements.ocsp} == {OcspStatus.GOOD, status}


def test_an_older_answer_does_not_replace_a_newer_one(
    server: Server, ocsp: OcspClient, cache: EndorsementCache
) -> None:
    gather_endorsements([REQUEST], at=AT, source=ocsp, cache=cache).require()
    older = replace(GOOD, this_update=AT - 2 * DAY, next_update=AT + 9 * DAY)
    server.answering_post = answering(older)
    assert len(gather_endorsements([REQUEST], at=AT + DAY, source=ocsp, cache=cache).endorsements.ocsp) == 2
    kept = gather_endorsements([REQUEST], at=AT + DAY, source=ocsp, cache=cache, offline=True)
    assert [answer.this_update for answer in kept.endorsements.ocsp] == [AT - DAY]

"""Services that lie, break off or speak something else: the client gets nothing from them, and says why."""

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import httpx
import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from attest.errors import (
    AttestError,
    BindingError,
    EndorsementError,
    PolicyNotMetError,
    ReleaseRefusedError,
    ServiceUnreachableError,
    UnsupportedError,
    VerificationError,
)
from attest.kbs import GuestKey, KbsClient, SampleGuest
from attest.results import read_public_keys
from attest.session import SessionTiming
from tests.kbs.fake_service import SECRET, SIGNER, FakeKbs, Json, Lie, b64url, ec_jwk, encrypted, refusal, unb64url

ADDRESS = "kbs:///default/key/1"
URL = "https://kbs.test"
KINDS = ("p256", "p521", "rsa")
WAITS: list[float] = []


def pem(private: ec.EllipticCurvePrivateKey) -> bytes:
    return private.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)


def client(fake: FakeKbs, **more: Any) -> KbsClient:  # noqa: ANN401  passed on
    http = httpx.Client(transport=httpx.MockTransport(fake), base_url=URL)
    timing = SessionTiming(pause=WAITS.append)
    return KbsClient(URL, guest=SampleGuest(), http=http, timing=timing, **more)


def refused(fake: FakeKbs, **more: Any) -> AttestError:  # noqa: ANN401  passed on
    with client(fake, **more) as found, pytest.raises(AttestError) as caught:
        found.resource(ADDRESS)
    assert SECRET.decode() not in str(caught.value)
    return caught.value


def other(**members: Any) -> Lie:  # noqa: ANN401  JSON
    """Replace members of an answer's document."""
    return lambda honest: httpx.Response(
        200,
        json={name: value for name, value in {**honest.json(), **members}.items() if value is not ...},
        headers=[one for one in honest.headers.multi_items() if one[0] == "set-cookie"],
    )


def cookies(*values: str) -> Lie:
    return lambda honest: httpx.Response(200, json=honest.json(), headers=[("Set-Cookie", one) for one in values])


def instead(answer: httpx.Response) -> Lie:
    return lambda _: answer


# -- an honest service


@pytest.mark.parametrize("kind", KINDS)
def test_an_honest_service_is_understood(kind: str) -> None:
    fake = FakeKbs()
    with client(fake, key=kind) as found, found.resource(ADDRESS) as key:
        assert key.export() == SECRET
    paths = [request.url.path for request in fake.asked]
    assert paths == ["/kbs/v0/auth", "/kbs/v0/attest", "/kbs/v0/resource/default/key/1"]


def test_a_key_pair_is_used_for_one_handshake() -> None:
    fake = FakeKbs()
    with client(fake) as found:
        found.resource(ADDRESS)
        first = fake.key
        found.resource(ADDRESS)
    assert fake.key != first


def test_what_is_sent_has_the_members_of_the_protocol_and_no_others() -> None:
    fake = FakeKbs()
    with client(fake) as found:
        found.resource(ADDRESS)
    auth, attest = (json.loads(request.content) for request in fake.asked[:2])
    assert auth == {
        "version": "0.4.0",
        "tee": "sample",
        "extra-params": {"supported-hash-algorithms": ["sha384"]},
    }
    assert list(attest) == ["init-data", "runtime-data", "tee-evidence"]
    assert attest["init-data"] is None
    assert set(attest["runtime-data"]) == {"nonce", "tee-pubkey"}
    assert attest["tee-evidence"]["additional_evidence"] == ""
    assert all(request.headers["accept-encoding"] == "identity" for request in fake.asked)


def test_a_key_in_the_clear_is_overwritten_shows_nothing_and_stays_here() -> None:
    with client(FakeKbs()) as found:
        key = found.resource(ADDRESS)
    view = key.material
    assert repr(key) == f"OpenedKey(name='{ADDRESS}')"
    with pytest.raises(TypeError, match="does not leave its process"):
        key.__reduce__()
    key.close()
    assert view.tobytes() != SECRET
    with pytest.raises(ValueError, match="closed"):
        key.export()


def test_a_private_key_shows_nothing_stays_here_and_opens_nothing_after_its_end() -> None:
    key = GuestKey.generate()
    assert repr(key) == "GuestKey(alg='ECDH-ES+A256KW')"
    with pytest.raises(TypeError, match="does not leave its process"):
        key.__reduce__()
    answer = json.dumps(encrypted(key.jwk)).encode()
    assert key.open(answer) == SECRET
    key.close()
    with pytest.raises(ValueError, match="closed"):
        key.open(answer)


# -- the encrypted answer


@pytest.mark.parametrize("kind", ["p256", "rsa"])
def test_an_answer_with_any_byte_changed_is_refused(kind: str) -> None:
    key = GuestKey.generate(kind)  # type: ignore[arg-type]
    honest = json.dumps(encrypted(key.jwk), separators=(",", ":")).encode()
    assert key.open(honest) == SECRET
    for place in range(len(honest)):
        changed = bytearray(honest)
        changed[place] ^= 1
        with pytest.raises(VerificationError) as caught:
            key.open(bytes(changed))
        assert caught.value.code in {"kbs-answer-malformed", "kbs-answer-not-opened"}


@pytest.mark.parametrize("name", ["protected", "encrypted_key", "iv", "ciphertext", "tag"])
def test_every_part_of_an_answer_with_any_bit_changed_is_refused(name: str) -> None:
    key = GuestKey.generate()
    honest = encrypted(key.jwk)
    raw = unb64url(honest[name])
    for place in range(len(raw)):
        changed = bytearray(raw)
        changed[place] ^= 1 << place % 8
        with pytest.raises(VerificationError):
            key.open(json.dumps({**honest, name: b64url(bytes(changed))}).encode())


def own_epk(key: Json) -> Json:
    return encrypted(key, epk={name: key[name] for name in ("crv", "kty", "x", "y")})


WRONG_HEADERS: dict[str, tuple[Callable[[Json], Json], str]] = {
    "another algorithm": (lambda key: encrypted(key, alg="dir"), "protected.alg"),
    "the algorithm of the other kind": (lambda key: encrypted(key, alg="ECDH-ES"), "protected.alg"),
    "another encryption": (lambda key: encrypted(key, enc="A128GCM"), "protected.enc"),
    "a name of the key": (lambda key: encrypted(key, kid="x"), "protected"),
    "compression": (lambda key: encrypted(key, zip="DEF"), "protected"),
    "critical members": (lambda key: encrypted(key, crit=["exp"]), "protected"),
    "a party": (lambda key: encrypted(key, apu="eA"), "protected"),
    "an ephemeral key on another curve": (
        lambda key: encrypted(key, epk=ec_jwk(ec.generate_private_key(ec.SECP521R1()).public_key())),
        "protected.epk",
    ),
    "an ephemeral key off the curve": (
        lambda key: encrypted(key, epk={"crv": "P-256", "kty": "EC", "x": key["x"], "y": key["x"]}),
        "protected.epk",
    ),
    "an ephemeral key with a name": (
        lambda key: encrypted(key, epk=ec_jwk(ec.generate_private_key(ec.SECP256R1()).public_key(), kid="x")),
        "protected.epk",
    ),
    "an ephemeral key that is no object": (lambda key: encrypted(key, epk="x"), "protected.epk"),
    "the guest's own key as ephemeral key": (own_epk, "protected.epk"),
    "a short vector": (lambda key: {**encrypted(key), "iv": b64url(bytes(8))}, "iv"),
    "a short tag": (lambda key: {**encrypted(key), "tag": b64url(bytes(12))}, "tag"),
    "padding": (lambda key: {**encrypted(key), "iv": "AAAA===="}, "iv"),
    "an unprotected header": (lambda key: {**encrypted(key), "header": {}}, "answer"),
    "additional data": (lambda key: {**encrypted(key), "aad": ""}, "answer"),
    "a number": (lambda key: {**encrypted(key), "tag": 1}, "answer"),
    "a list": (lambda _: [1], "answer"),  # type: ignore[dict-item, return-value]
    "a header that is no JSON": (lambda key: {**encrypted(key), "protected": b64url(b"{")}, "protected"),
    "a header that is no object": (lambda key: {**encrypted(key), "protected": b64url(b"[]")}, "protected"),
}


@pytest.mark.parametrize("name", WRONG_HEADERS)
def test_an_answer_of_another_form_is_refused_with_its_place(name: str) -> None:
    answer, place = WRONG_HEADERS[name]
    error = refused(FakeKbs(answer=answer))
    assert (type(error), error.code, error.field) == (VerificationError, "kbs-answer-malformed", place)


@pytest.mark.parametrize("kind", KINDS)
def test_an_answer_to_another_key_does_not_open(kind: str) -> None:
    someone = GuestKey.generate(kind)  # type: ignore[arg-type]
    error = refused(FakeKbs(answer=lambda _: encrypted(someone.jwk)), key=kind)
    assert (type(error), error.code) == (VerificationError, "kbs-answer-not-opened")


# -- the handshake

WRONG_ANSWERS: dict[str, tuple[str, Lie, type[AttestError], str]] = {
    "a redirect of the session": (
        "auth",
        instead(httpx.Response(307, headers={"Location": "https://other.test/kbs/v0/auth"})),
        BindingError,
        "service-answer-invalid",
    ),
    "a redirect of the resource": (
        "resource",
        instead(httpx.Response(302, headers={"Location": "https://other.test/"})),
        BindingError,
        "service-answer-invalid",
    ),
    "another success": ("auth", instead(httpx.Response(204)), BindingError, "service-answer-invalid"),
    "no JSON": ("auth", instead(httpx.Response(200, text="<html>")), BindingError, "service-answer-invalid"),
    "a list": ("attest", instead(httpx.Response(200, json=[])), BindingError, "service-answer-invalid"),
    "no nonce": ("auth", other(nonce=...), BindingError, "service-answer-invalid"),
    "a number as nonce": ("auth", other(nonce=1), BindingError, "service-answer-invalid"),
    "a huge nonce": ("auth", other(nonce="a" * 5000), BindingError, "service-answer-invalid"),
    "no extra parameters": ("auth", other(**{"extra-params": ...}), BindingError, "service-answer-invalid"),
    "another hash": (
        "auth",
        other(**{"extra-params": {"selected-hash-algorithm": "sha256"}}),
        UnsupportedError,
        "kbs-hash-unsupported",
    ),
    "a hash that is no text": (
        "auth",
        other(**{"extra-params": {"selected-hash-algorithm": 1}}),
        UnsupportedError,
        "kbs-hash-unsupported",
    ),
    "no token": ("attest", other(token=...), BindingError, "service-answer-invalid"),
    "no cookie": ("auth", cookies(), BindingError, "kbs-cookie-invalid"),
    "another cookie": ("auth", cookies("session=first"), BindingError, "kbs-cookie-invalid"),
    "two cookies": ("auth", cookies("kbs-session-id=a", "kbs-session-id=b"), BindingError, "kbs-cookie-invalid"),
    "an empty cookie": ("auth", cookies("kbs-session-id=; Path=/"), BindingError, "kbs-cookie-invalid"),
    "a cookie with a blank": ("auth", cookies("kbs-session-id=a b"), BindingError, "kbs-cookie-invalid"),
    "another cookie after the evidence": ("attest", cookies("id=x"), BindingError, "kbs-cookie-invalid"),
    "a compressed answer": (
        "resource",
        instead(httpx.Response(200, content=b"", headers={"Content-Encoding": "gzip"})),
        BindingError,
        "service-answer-invalid",
    ),
    "a huge answer": (
        "resource",
        instead(httpx.Response(200, content=b" " * (4 * 1024 * 1024 + 1))),
        BindingError,
        "service-answer-invalid",
    ),
    "a failure of the service": (
        "resource",
        instead(httpx.Response(500, text="oops")),
        ReleaseRefusedError,
        "kbs-service-failed",
    ),
    "an older service": (
        "auth",
        instead(
            refusal(
                401,
                "AttestationError",
                "RCAR: KBS Client Protocol Version Mismatch: expect =0.2.0 while the request is 0.4.0",
            )
        ),
        ReleaseRefusedError,
        "kbs-version-refused",
    ),
    "a policy that denies, as Trustee says it": (
        "resource",
        instead(refusal(401, "PolicyDeny", "Access denied by policy")),
        PolicyNotMetError,
        "kbs-policy-denied",
    ),
    "no reason": ("resource", instead(httpx.Response(401)), ReleaseRefusedError, "kbs-resource-refused"),
    "a reason that is no text": (
        "attest",
        instead(httpx.Response(403, json={"type": 1, "detail": []})),
        ReleaseRefusedError,
        "kbs-attestation-refused",
    ),
}


@pytest.mark.parametrize("name", WRONG_ANSWERS)
def test_an_answer_outside_of_the_protocol_is_refused(name: str) -> None:
    step, lie, kind, code = WRONG_ANSWERS[name]
    fake = FakeKbs(lies={step: lie})
    error = refused(fake)
    assert (type(error), error.code) == (kind, code), error
    assert fake.asked[-1].url.path.startswith(f"/kbs/v0/{step}")
    assert all(request.url.host == "kbs.test" for request in fake.asked)


def test_the_cookie_of_the_session_is_kept_where_the_second_answer_sets_none() -> None:
    def attest(honest: httpx.Response) -> httpx.Response:
        return httpx.Response(200, json=honest.json())

    fake = FakeKbs(lies={"attest": attest})
    with client(fake) as found, pytest.raises(AssertionError):
        found.resource(ADDRESS)  # the service expects its second cookie
    assert fake.asked[-1].headers["cookie"] == "kbs-session-id=first"


def test_words_of_a_service_have_no_control_characters_and_an_end() -> None:
    detail = "\x1b[2Jgone\n" + "x" * 10_000
    error = refused(FakeKbs(lies={"attest": instead(refusal(401, "AttestationError", detail))}))
    assert error.message.isprintable()
    assert len(error.message) < 1000


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_busy_service_is_asked_again_with_a_fresh_handshake(status: int) -> None:
    busy = [httpx.Response(status, headers={"Retry-After": "1"})]
    fake = FakeKbs(lies={"resource": lambda honest: busy.pop() if busy else honest})
    WAITS.clear()
    with client(fake) as found:
        assert found.resource(ADDRESS).export() == SECRET
    assert len(fake.asked) == 6
    assert len(WAITS) == 1
    assert WAITS[0] >= 1


def test_a_service_that_stays_busy_is_unreachable() -> None:
    fake = FakeKbs(lies={"auth": instead(httpx.Response(503, headers={"Retry-After": "60"}))})
    error = refused(fake)
    assert (type(error), error.exit_code) == (ServiceUnreachableError, 5)


# -- the token


def claims(**more: Any) -> Callable[[Json], Json]:  # noqa: ANN401  JSON
    return lambda honest: {name: value for name, value in {**honest, **more}.items() if value is not ...}


WRONG_TOKENS = {
    "expired": (claims(exp=1_000_000_000), "token-expired"),
    "not valid yet": (claims(nbf=4_000_000_000), "token-not-yet-valid"),
    "not valid before a number beyond all others": (claims(nbf=10**400), "token-not-yet-valid"),
    "without an end": (claims(exp=...), "token-malformed"),
    "with an end in words": (claims(exp=True), "token-malformed"),
}


@pytest.mark.parametrize("name", WRONG_TOKENS)
def test_a_token_outside_of_its_time_is_refused(name: str) -> None:
    lie, code = WRONG_TOKENS[name]
    for trusted in ((), read_public_keys(pem(SIGNER))):
        assert refused(FakeKbs(claims=lie), trusted=trusted).code == code


@pytest.mark.parametrize("token", ["", "a.b", "a.b.c", "..", "e30.W10.x"])
def test_what_is_no_token_is_refused(token: str) -> None:
    error = refused(FakeKbs(lies={"attest": other(token=token)}))
    assert error.exit_code == 3


def test_a_token_of_a_trusted_key_about_this_guest_is_accepted() -> None:
    with client(FakeKbs(), trusted=read_public_keys(pem(SIGNER))) as found:
        assert found.resource(ADDRESS).export() == SECRET


def test_a_token_of_another_key_is_refused() -> None:
    trusted = read_public_keys(pem(ec.generate_private_key(ec.SECP256R1())))
    error = refused(FakeKbs(), trusted=trusted)
    assert (type(error), error.code) == (EndorsementError, "token-key-unknown")


def about(**members: Any) -> Callable[[Json], Json]:  # noqa: ANN401  JSON
    def lie(honest: Json) -> Json:
        honest["submods"]["cpu0"]["ear.veraison.annotated-evidence"]["runtime_data_claims"] |= members
        return honest

    return lie


@pytest.mark.parametrize(
    "lie", [about(nonce="another"), about(**{"tee-pubkey": {}}), claims(submods={}), claims(submods=[])]
)
def test_a_token_about_another_guest_is_refused(lie: Callable[[Json], Json]) -> None:
    error = refused(FakeKbs(claims=lie), trusted=read_public_keys(pem(SIGNER)))
    assert (type(error), error.code) == (BindingError, "kbs-token-mismatch")


# -- the connection


class Endless(BaseHTTPRequestHandler):
    """Answers every request with a body that never ends."""

    def do_POST(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        try:
            while not self.server.ended.wait(0.05):  # type: ignore[attr-defined]
                self.wfile.write(b" ")
                self.wfile.flush()
        except OSError:
            pass

    def log_message(self, *_: object) -> None:
        """Say nothing."""


@pytest.fixture
def endless() -> Iterator[str]:
    """The address of a service that never ends its answers."""
    server = HTTPServer(("127.0.0.1", 0), Endless)
    server.ended = threading.Event()  # type: ignore[attr-defined]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.ended.set()  # type: ignore[attr-defined]
    server.shutdown()
    server.server_close()
    thread.join()


@pytest.mark.loopback
def test_an_answer_without_an_end_ends_with_the_time(endless: str) -> None:
    with (
        KbsClient(endless, guest=SampleGuest(), timeout=0.5) as found,
        pytest.raises(ServiceUnreachableError) as caught,
    ):
        found.resource(ADDRESS)
    assert "the time for it is over" in caught.value.tried[0]

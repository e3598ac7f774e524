"""A client written from the specification alone, against the running service over real connections."""

import secrets

import httpx
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, rsa

from attest.clock import system_clock
from tests.compat.conftest import Step
from tests.compat.kbs.client import Guest, PrivateKey, b64url
from tests.kms.kbs.face import ADMINISTRATOR

pytestmark = pytest.mark.loopback
CLIENT = "independent client"
PATH = "default/test/key"
ALLOW_ALL = b'package policy\ndefault allow = false\nallow if data.plugin == "resource"\n'
KEYS = {
    "P-256": ec.generate_private_key(ec.SECP256R1()),
    "P-521": ec.generate_private_key(ec.SECP521R1()),
    "RSA": rsa.generate_private_key(public_exponent=65537, key_size=2048),
}


def administer(http: httpx.Client, method: str, path: str, body: bytes) -> httpx.Response:
    token = jwt.encode({"exp": int(system_clock().timestamp()) + 600, "role": "admin"}, ADMINISTRATOR, "EdDSA")
    headers = {"Authorization": f"Bearer {token}"}
    return http.request(method, f"/kbs/v0/{path}", content=body, headers=headers)


@pytest.fixture(scope="module")
def stored(http: httpx.Client) -> bytes:
    """Upload a value, and let every guest pass the resource policy."""
    content = secrets.token_bytes(32)
    assert administer(http, "POST", f"resource/{PATH}", content).status_code == 200
    policy = b'{"policy":"' + b64url(ALLOW_ALL).encode() + b'"}'
    assert administer(http, "POST", "resource-policy", policy).status_code == 200
    return content


@pytest.mark.parametrize("name", KEYS)
def test_a_guest_gets_its_resource_on_one_connection(http: httpx.Client, stored: bytes, step: Step, name: str) -> None:
    step(CLIENT, f"GET 401, auth, attest, GET 200 with {name}")
    key: PrivateKey = KEYS[name]
    guest = Guest(http, key=key)
    assert guest.open(guest.get(PATH)) == stored
    assert guest.requests == 4


def test_an_older_guest_gets_its_resource(http: httpx.Client, stored: bytes, step: Step) -> None:
    step(CLIENT, "version 0.2.0")
    guest = Guest(http, version="0.2.0")
    assert guest.open(guest.get(PATH)) == stored


def test_a_token_is_a_passport(http: httpx.Client, stored: bytes, step: Step) -> None:
    step(CLIENT, "passport: token of another connection")
    guest = Guest(http)
    guest.attest()
    answer = Guest(http).send("GET", f"resource/{PATH}", Authorization=f"Bearer {guest.token}")
    assert guest.open(answer) == stored


def test_a_large_bearer_is_read_and_a_larger_one_refused_in_the_protocols_form(http: httpx.Client, step: Step) -> None:
    step(CLIENT, "bearer of 126 KiB read, 130 KiB 431, body of 2 MiB and a byte 413")
    path = f"/kbs/v0/resource/{PATH}"
    for size, status in ((126, 401), (130, 431)):
        answer = http.get(path, headers={"Authorization": "Bearer " + "a" * (size * 1024 - 7)})
        assert answer.status_code == status
        assert set(answer.json()) == {"type", "detail"}
    answer = http.post("/kbs/v0/attest", content=bytes(2 * 1024 * 1024 + 1))
    assert answer.status_code == 413
    assert set(answer.json()) == {"type", "detail"}


def test_a_refusal_by_policy_costs_four_requests(http: httpx.Client, stored: bytes, step: Step) -> None:
    step(CLIENT, "refused by policy: 403 after four requests")
    assert stored
    deny = b'{"policy":"' + b64url(b"package policy\ndefault allow = false\n").encode() + b'"}'
    allow = b'{"policy":"' + b64url(ALLOW_ALL).encode() + b'"}'
    assert administer(http, "POST", "resource-policy", deny).status_code == 200
    try:
        guest = Guest(http)
        assert guest.get(PATH).status_code == 403
        assert guest.requests == 4
    finally:
        assert administer(http, "POST", "resource-policy", allow).status_code == 200

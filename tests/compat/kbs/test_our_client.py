"""This project's client against the running service, as a program in a guest uses it."""

import secrets

import httpx
import pytest

from attest.kbs import KbsClient, SampleGuest
from attest.kbs.guest_key import KEY_KINDS, KeyKind
from tests.compat.conftest import Step
from tests.compat.kbs.client import b64url
from tests.compat.kbs.test_client import ALLOW_ALL, administer

pytestmark = pytest.mark.loopback
CLIENT = "attest.kbs.KbsClient"
PATH = "default/test/ours"


@pytest.mark.parametrize("kind", KEY_KINDS)
def test_our_client_gets_a_resource(http: httpx.Client, address: str, step: Step, kind: KeyKind) -> None:
    step(CLIENT, f"auth, attest, GET 200 with {kind}, also with a device")
    content = secrets.token_bytes(100)
    assert administer(http, "POST", f"resource/{PATH}", content).status_code == 200
    policy = b'{"policy":"' + b64url(ALLOW_ALL).encode() + b'"}'
    assert administer(http, "POST", "resource-policy", policy).status_code == 200
    for guest in (SampleGuest(), SampleGuest(with_device=True)):
        with KbsClient(address, guest=guest, key=kind) as client, client.resource(f"kbs:///{PATH}") as found:
            assert found.export() == content

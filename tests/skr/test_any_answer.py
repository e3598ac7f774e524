"""Whatever a vault signs is a result or a documented error."""

import base64
import json
from contextlib import suppress
from typing import Any

import jwt
from hypothesis import given
from hypothesis import strategies as st

from attest.clock import system_clock
from attest.errors import AttestError
from attest.release.transport import HttpAnswer
from attest.results.token_roots import read_token_roots
from attest.skr import VaultKey
from attest.skr.encryption_key import EncryptionKey
from attest.skr.problems import refusal_text, vault_refusal
from attest.skr.released_key import ReleaseTerms, open_release
from tests.kbs.test_any_answer import JSON
from tests.skr.conftest import PKI
from tests.skr.fake_vault import KEYS, POLICY, SIGNER, VERSION, b64url, der, material, pem, public_members, wrapped

KEK = EncryptionKey.generate(2048)
KEY = VaultKey.parse("https://localhost/keys/model")
TERMS = ReleaseTerms(key=KEY, nonce="n", roots=read_token_roots(pem(PKI.root)), policy=None, at=system_clock())
HEADER = {"x5c": [der(PKI.leaf(SIGNER.public_key(), "localhost")), der(PKI.root)]}
HSM = {
    "schema_version": "1.0",
    "header": {"kid": KEK.kid, "alg": "dir", "enc": "RSA_AES_KEY_WRAP_256"},
    "ciphertext": b64url(wrapped(dict(KEK.jwk), material(KEYS["p256"]))),
}
PLACES = (
    *("request", "request.nonce", "request.kid", "request.enc", "response", "response.key", "response.key.key"),
    *("response.key.key.kid", "response.key.key.kty", "response.key.key.crv", "response.key.key.x"),
    "response.key.key.key_hsm",
)


def payload() -> dict[str, Any]:  # Any: JSON
    key = {**public_members(KEYS["p256"]), "kid": f"https://localhost/keys/model/{VERSION}"}
    key["key_hsm"] = b64url(json.dumps(HSM).encode())
    policy = {"data": base64.urlsafe_b64encode(POLICY).decode()}
    request = {"nonce": "n", "kid": str(KEY), "enc": "RSA_AES_KEY_WRAP_256"}
    return {"request": request, "response": {"key": {"key": key, "release_policy": policy}}}


def opened(document: object) -> bytes | None:
    value = jwt.encode(document, SIGNER, "RS256", headers=HEADER)  # type: ignore[arg-type]
    with suppress(AttestError):
        return open_release(value, terms=TERMS, kek=KEK).export()
    return None


def test_the_honest_payload_is_one() -> None:
    assert opened(payload()) == material(KEYS["p256"])


@given(place=st.sampled_from(PLACES), value=JSON)
def test_any_member_of_a_payload_is_accepted_or_refused(place: str, value: object) -> None:
    document = payload()
    *before, last = place.split(".")
    found = document
    for name in before:
        found = found[name]
    found[last] = value
    opened(document)


@given(inner=JSON | st.dictionaries(st.sampled_from(sorted(HSM)), JSON))
def test_any_envelope_is_refused(inner: object) -> None:
    document = payload()
    document["response"]["key"]["key"]["key_hsm"] = b64url(json.dumps(inner).encode())
    assert opened(document) is None


@given(value=st.text() | st.binary().map(b64url), header=JSON)
def test_any_text_is_refused(value: str, header: object) -> None:
    for text in (value, f"{value}.{value}.{value}", f"{b64url(json.dumps(header).encode())}.{value}.{value}"):
        try:
            open_release(text, terms=TERMS, kek=KEK)
        except AttestError:
            continue
        raise AssertionError(text)


@given(
    content=st.binary() | JSON.map(lambda error: json.dumps({"error": error}).encode()), status=st.integers(400, 599)
)
def test_any_refusal_has_words_for_people(content: bytes, status: int) -> None:
    answer = HttpAnswer(status=status, headers=(), content=content, tls_key=None)
    assert refusal_text(answer).isprintable()
    assert vault_refusal(answer).exit_code == 1

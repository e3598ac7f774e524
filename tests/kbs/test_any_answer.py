"""Whatever a service sends is a result or a documented error."""

import json
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime

from hypothesis import given
from hypothesis import strategies as st

from attest.errors import AttestError
from attest.kbs import GuestKey
from attest.kbs.handshake import read_challenge, read_token, session_cookie
from attest.kbs.result_token import require_token
from attest.release.transport import HttpAnswer
from tests.kbs.fake_service import b64url, encrypted

KEY = GuestKey.generate()
AT = datetime(2026, 6, 1, tzinfo=UTC)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=8), below, max_size=4),
    max_leaves=12,
)
MEMBERS = ("protected", "encrypted_key", "iv", "ciphertext", "tag")


def answer(content: bytes, status: int = 200, *cookies: str) -> HttpAnswer:
    headers = tuple(("set-cookie", one) for one in cookies)
    return HttpAnswer(status=status, headers=headers, content=content, tls_key=None)


def refused(call: Callable[..., object], *arguments: object, **more: object) -> None:
    """Call, and let no error through but the documented ones."""
    with suppress(AttestError):
        call(*arguments, **more)


@given(content=st.binary() | JSON.map(lambda value: json.dumps(value).encode()), status=st.integers(200, 599))
def test_any_answer_of_the_handshake_is_read_or_refused(content: bytes, status: int) -> None:
    refused(read_challenge, answer(content, status))
    refused(read_token, answer(content, status))
    refused(KEY.open, content)


@given(cookies=st.lists(st.text(), max_size=3), held=st.none() | st.text())
def test_any_cookie_is_kept_or_refused(cookies: list[str], held: str | None) -> None:
    refused(session_cookie, answer(b"", 200, *cookies), held=held)


@given(name=st.sampled_from(MEMBERS), value=JSON | st.binary().map(b64url))
def test_any_member_of_an_encrypted_answer_is_refused(name: str, value: object) -> None:
    refused(KEY.open, json.dumps({**encrypted(KEY.jwk), name: value}).encode())


@given(header=JSON)
def test_any_header_of_an_encrypted_answer_is_refused(header: object) -> None:
    protected = b64url(json.dumps(header).encode())
    refused(KEY.open, json.dumps({**encrypted(KEY.jwk), "protected": protected}).encode())


@given(epk=JSON | st.dictionaries(st.sampled_from(["crv", "kty", "x", "y"]), JSON))
def test_any_ephemeral_key_is_refused(epk: object) -> None:
    refused(KEY.open, json.dumps(encrypted(KEY.jwk, epk=epk)).encode())


@given(token=st.text() | JSON.map(lambda claims: f"e30.{b64url(json.dumps(claims).encode())}.e30"))
def test_any_token_is_accepted_or_refused(token: str) -> None:
    refused(require_token, token, trusted=(), jwk=KEY.jwk, nonce="n", at=AT)

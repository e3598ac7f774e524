"""Challenges authenticate themselves and count within their bounds."""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.release import Challenge
from kms.domain.errors import ChallengeError, ChallengeExpiredError
from kms.domain.secret import SecretBytes
from kms.release.challenges import TOKEN_CHARACTERS, ChallengeIssuer
from tests.kms.support import AT, FakeRandom

AUDIENCE = "kms.test/unit+00000000+AAAA"
TICK = timedelta(milliseconds=1)


def issuer(**changes: object) -> ChallengeIssuer:
    values: dict[str, object] = {
        "mac_key": SecretBytes(bytes(32)),
        "audience": AUDIENCE,
        "lifetime_seconds": 300,
        "simulated": False,
        "random": FakeRandom(),
    }
    return ChallengeIssuer(**(values | changes))  # type: ignore[arg-type]


def issued() -> Challenge:
    return issuer().issue(at=AT)


def test_a_challenge_comes_back_as_it_was_issued() -> None:
    challenge = issued()
    opened = issuer().open(challenge.token, at=AT)
    assert opened.nonce == challenge.nonce
    assert len(opened.nonce) == 32
    assert opened.expires_at == challenge.expires_at == AT + timedelta(seconds=300)
    assert challenge.audience == AUDIENCE
    assert len(challenge.token) == TOKEN_CHARACTERS


def test_no_two_challenges_have_one_nonce() -> None:
    one = issuer()
    assert len({one.issue(at=AT).nonce for _ in range(100)}) == 100


def test_a_challenge_begins_in_the_millisecond_of_its_issue() -> None:
    at = AT + timedelta(microseconds=1999)
    opened = issuer().open(issuer().issue(at=at).token, at=at)
    assert opened.expires_at == AT + TICK + timedelta(seconds=300)


@pytest.mark.parametrize("late", [timedelta(0), TICK, timedelta(seconds=300) - timedelta(microseconds=1)])
def test_a_challenge_counts_from_its_issue_to_just_before_its_end(late: timedelta) -> None:
    issuer().open(issued().token, at=AT + late)


@pytest.mark.parametrize("late", [timedelta(seconds=300), timedelta(seconds=300) + TICK, timedelta(days=400)])
def test_a_challenge_does_not_count_at_its_end_or_after(late: timedelta) -> None:
    with pytest.raises(ChallengeExpiredError) as caught:
        issuer().open(issued().token, at=AT + late)
    assert caught.value.code == "challenge-expired"


@pytest.mark.parametrize("early", [timedelta(microseconds=1), TICK, timedelta(days=1)])
def test_a_challenge_from_the_future_is_refused(early: timedelta) -> None:
    with pytest.raises(ChallengeError) as caught:
        issuer().open(issued().token, at=AT - early)
    assert caught.value.code == "challenge-from-the-future"


def test_the_lifetime_is_that_of_the_issue() -> None:
    with pytest.raises(ChallengeExpiredError):
        issuer(lifetime_seconds=3600).open(issued().token, at=AT + timedelta(seconds=300))


@pytest.mark.parametrize("mask", [0x01, 0x80, 0xFF])
def test_every_altered_byte_is_refused(mask: int) -> None:
    content = urlsafe_b64decode(issued().token)
    assert len(content) == 78
    for index in range(len(content)):
        altered = bytearray(content)
        altered[index] ^= mask
        with pytest.raises(ChallengeError) as caught:
            issuer().open(urlsafe_b64encode(altered).decode().rstrip("="), at=AT)
        assert caught.value.code == "challenge-invalid", index


def test_every_shorter_and_longer_token_is_refused() -> None:
    token = issued().token
    for text in [
        *(token[:length] for length in range(len(token))),
        token + "A",
        token + token,
        token + "=",
        " " + token,
    ]:
        with pytest.raises(ChallengeError) as caught:
            issuer().open(text, at=AT)
        assert caught.value.code == "challenge-invalid"


@pytest.mark.parametrize(
    "changes",
    [
        {"mac_key": SecretBytes(b"\x01" * 32)},
        {"audience": "kms.test/other+00000000+AAAA"},
        {"simulated": True},
    ],
)
def test_a_challenge_of_another_service_or_setting_is_refused(changes: dict[str, object]) -> None:
    with pytest.raises(ChallengeError) as caught:
        issuer(**changes).open(issued().token, at=AT)
    assert caught.value.code == "challenge-invalid"


def test_a_token_says_whether_simulated_evidence_is_accepted() -> None:
    assert urlsafe_b64decode(issued().token)[:2] == b"\x01\x00"
    assert urlsafe_b64decode(issuer(simulated=True).issue(at=AT).token)[:2] == b"\x01\x01"


@given(st.text(max_size=200) | st.binary(min_size=78, max_size=78).map(lambda b: urlsafe_b64encode(b).decode()))
def test_any_text_at_all_is_refused(text: str) -> None:
    with pytest.raises(ChallengeError):
        issuer().open(text, at=AT)


def test_an_authentic_token_of_another_version_is_refused() -> None:
    one = issuer()
    body = bytearray(urlsafe_b64decode(issued().token)[:46])
    body[0] = 2
    mac = one._mac(bytes(body))  # noqa: SLF001  what a later version of this service would issue
    with pytest.raises(ChallengeError) as caught:
        one.open(urlsafe_b64encode(bytes(body) + mac).decode(), at=AT)
    assert caught.value.code == "challenge-invalid"

"""Bearer tokens: what is accepted of an issuer that the operator named, and everything that is not."""

import base64
import hmac
import json
from collections.abc import Iterator
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from hypothesis import given
from hypothesis import strategies as st

from attest.errors import ConfigurationError
from kms.auth.authentication import Authenticator
from kms.auth.issuers import read_issuers
from kms.auth.keysets import KeySets, read_key_set
from kms.domain.actors import Actor, Means
from kms.domain.errors import ChallengeUsedError, UnauthenticatedError, UnavailableError
from tests.kms.oidc import AUDIENCE, ISSUER, KIDS, Json, OidcIssuer, jwk, serving
from tests.kms.pki import authority, server_context
from tests.kms.support import AT, FakeClock, Harness, Workload

LOGIN = OidcIssuer()
OTHER = OidcIssuer(name="https://other.test", seed="other")
ALICE = Actor(name=f"{ISSUER}|alice", means=Means.JWT)
P256 = LOGIN.keys["p256"]
PERSON = authority().issue("alice")


def authenticator(harness: Harness, text: str, *, names: str | None = None) -> Authenticator:
    path = harness.folder / "issuers.toml"
    path.write_text(text, encoding="utf-8")
    said: list[str] = []
    sets = KeySets(read_issuers(path), fetch=read_key_set, clock=harness.clock, report=said.append)
    sets.refresh(everything=True)
    return Authenticator(store=harness.services.store, key_sets=sets, certificate_names=names, clock=harness.clock)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Authenticator]:
    """One that accepts tokens of LOGIN; its clock stands still."""
    harness = Harness.make(tmp_path_factory.mktemp("desk"))
    yield authenticator(harness, LOGIN.table(harness.folder))
    harness.close()


def known(desk: Authenticator, token: str, certificate: bytes | None = None) -> Actor:
    return desk.identify(authorization=[f"Bearer {token}"], certificate=certificate)


def refused(desk: Authenticator, token: str, certificate: bytes | None = None) -> str:
    with pytest.raises(UnauthenticatedError) as caught:
        known(desk, token, certificate)
    assert token not in caught.value.message
    return caught.value.code


# -- what is accepted


@pytest.mark.parametrize("algorithm", ["RS256", "PS256", "ES256", "ES384", "EdDSA"])
def test_a_token_of_a_named_issuer_says_who_it_is(desk: Authenticator, algorithm: str) -> None:
    assert known(desk, LOGIN.token(algorithm=algorithm)) == ALICE


@pytest.mark.parametrize("typ", ["JWT", "jwt", "at+jwt", "application/at+jwt", None])
def test_the_kinds_of_tokens_that_issuers_send_are_accepted(desk: Authenticator, typ: str | None) -> None:
    assert known(desk, LOGIN.token(header={"typ": typ})) == ALICE


def test_the_scheme_is_read_without_regard_to_case(desk: Authenticator) -> None:
    assert desk.identify(authorization=[f"bEARER {LOGIN.token()}"], certificate=None) == ALICE


def test_an_audience_of_one_may_stand_in_a_list(desk: Authenticator) -> None:
    assert known(desk, LOGIN.token(aud=[AUDIENCE])) == ALICE


# -- MC-20, each check


@pytest.mark.parametrize(
    "aud", [None, "", "https://kms.test", AUDIENCE + "/", AUDIENCE.upper(), [], [AUDIENCE, "other"], ["other"], 1, {}]
)
def test_mc_20_a_token_for_another_or_a_further_audience_is_refused(desk: Authenticator, aud: object) -> None:
    token = jwt.encode(
        LOGIN.claims() | {"aud": aud},
        LOGIN.keys["p256"],
        algorithm="ES256",
        headers={"kid": "p256"},
    )
    assert refused(desk, token) == "token-audience-mismatch"


@pytest.mark.parametrize("iss", [ISSUER + "/", ISSUER.upper(), "https://other.test", "", 1, None, [ISSUER]])
def test_mc_20_a_token_of_another_issuer_is_refused(desk: Authenticator, iss: object) -> None:
    claims = LOGIN.claims() | {"iss": iss}
    words = [json.dumps(one).encode() for one in ({"alg": "ES256", "kid": "p256"}, claims)]
    message = b".".join(base64.urlsafe_b64encode(word).rstrip(b"=") for word in words)
    assert refused(desk, message.decode() + ".AAAA") == "token-issuer-unknown"


def test_mc_20_an_issuers_key_signs_for_that_issuer_alone(harness: Harness) -> None:
    desk = authenticator(harness, LOGIN.table(harness.folder) + OTHER.table(harness.folder))
    assert known(desk, OTHER.token()).name == "https://other.test|alice"
    assert refused(desk, replace(OTHER, name=ISSUER).token()) == "token-signature-invalid"


@pytest.mark.parametrize(
    ("changes", "code"),
    [
        ({"exp": 0}, None),
        ({"exp": -29}, None),
        ({"exp": -30}, "token-expired"),
        ({"exp": -31}, "token-expired"),
        ({"iat": 30}, None),
        ({"iat": 31}, "token-not-yet-valid"),
        ({"nbf": 30}, None),
        ({"nbf": 31}, "token-not-yet-valid"),
        ({"nbf": -500}, None),
        ({"iat": -3300}, None),
        ({"iat": -3301}, "token-lifetime-refused"),
        ({"iat": 20, "exp": 20}, "token-lifetime-refused"),
        ({"iat": 20, "exp": 21}, None),
        ({"exp": 10**9}, "token-lifetime-refused"),
    ],
)
def test_mc_20_a_token_counts_in_its_time_and_not_for_long(
    desk: Authenticator, changes: Json, code: str | None
) -> None:
    now = int(AT.timestamp())
    start: Json = {} if "iat" in changes or changes.get("exp", 0) >= 0 else {"iat": now - 100}
    token = LOGIN.token(
        **({"iat": now - 60} if changes == {"exp": 0} else start), **{n: now + v for n, v in changes.items()}
    )
    if code is None:
        assert known(desk, token) == ALICE
    else:
        assert refused(desk, token) == code


@pytest.mark.parametrize("claim", ["exp", "iat"])
@pytest.mark.parametrize("value", [None, "1780315200", 1780315200.5, True, -(10**18), 10**30, []])
def test_mc_20_a_token_without_its_times_is_refused(desk: Authenticator, claim: str, value: object) -> None:
    claims = {name: one for name, one in (LOGIN.claims() | {claim: value}).items() if one is not None}
    words = [json.dumps(one).encode() for one in ({"alg": "ES256", "kid": "p256"}, claims)]
    message = b".".join(base64.urlsafe_b64encode(word).rstrip(b"=") for word in words)
    from jwt.algorithms import ECAlgorithm

    assert isinstance(P256, EllipticCurvePrivateKey)
    signature = ECAlgorithm(ECAlgorithm.SHA256).sign(message, P256)
    token = b".".join([message, base64.urlsafe_b64encode(signature).rstrip(b"=")]).decode()
    assert refused(desk, token) in {"token-claim-missing", "token-malformed", "token-expired", "token-not-yet-valid"}


@pytest.mark.parametrize("sub", [None, "", " alice", "a\nb", "a" * 256, 1, ["alice"]])
def test_a_token_that_names_nobody_is_refused(desk: Authenticator, sub: object) -> None:
    claims = {name: one for name, one in (LOGIN.claims() | {"sub": sub}).items() if one is not None}
    signed = jwt.api_jws.encode(json.dumps(claims).encode(), LOGIN.keys["p256"], "ES256", {"kid": "p256"})
    assert refused(desk, signed) == "token-claim-missing"


def test_mc_20_an_algorithm_that_the_operator_did_not_name_is_refused(harness: Harness) -> None:
    desk = authenticator(harness, LOGIN.table(harness.folder, algorithms=["ES256"]))
    assert known(desk, LOGIN.token()) == ALICE
    assert refused(desk, LOGIN.token(algorithm="RS256")) == "token-algorithm-refused"


def test_mc_20_a_public_key_is_no_shared_secret(desk: Authenticator) -> None:
    public = LOGIN.keys["rsa"].public_key()
    words = [json.dumps(one).encode() for one in ({"alg": "HS256", "kid": "rsa"}, LOGIN.claims())]
    message = b".".join(base64.urlsafe_b64encode(word).rstrip(b"=") for word in words)
    for encoding in (Encoding.DER, Encoding.PEM):
        secret = public.public_bytes(encoding, PublicFormat.SubjectPublicKeyInfo)
        signature = base64.urlsafe_b64encode(hmac.digest(secret, message, "sha256")).rstrip(b"=")
        assert refused(desk, b".".join([message, signature]).decode()) == "token-algorithm-refused"


def test_mc_20_an_unsigned_token_is_refused(desk: Authenticator) -> None:
    unsigned = jwt.encode(LOGIN.claims(), "", algorithm="none", headers={"kid": "p256"})
    assert refused(desk, unsigned) == "token-algorithm-refused"
    stripped = LOGIN.token().rpartition(".")[0] + "."
    assert refused(desk, stripped) == "token-signature-invalid"


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "ES384", "EdDSA"])
@pytest.mark.parametrize("kid", ["rsa", "p256", "p384", "ed"])
def test_mc_20_a_key_of_another_kind_verifies_nothing(desk: Authenticator, algorithm: str, kid: str) -> None:
    if KIDS[algorithm] == kid:
        assert known(desk, LOGIN.token(algorithm=algorithm)) == ALICE
    else:
        assert refused(desk, LOGIN.token(algorithm=algorithm, header={"kid": kid})) == "token-signature-invalid"


def test_mc_20_a_key_that_is_for_one_algorithm_signs_with_no_other(harness: Harness) -> None:
    table = LOGIN.table(harness.folder)
    key = jwk(LOGIN.keys["rsa"], "rsa", alg="PS256")
    (harness.folder / "login.jwks").write_text(json.dumps({"keys": [key]}), encoding="utf-8")
    desk = authenticator(harness, table)
    assert known(desk, LOGIN.token(algorithm="PS256")) == ALICE
    assert refused(desk, LOGIN.token(algorithm="RS256")) in {"token-algorithm-refused", "token-signature-invalid"}


@pytest.mark.parametrize(
    "kid", ["", "../../etc/passwd", "x' OR '1'='1", "P256", "p256\x00", "a" * 600, 1, ["p256"], None]
)
def test_mc_20_a_kid_only_finds_a_key(desk: Authenticator, kid: object) -> None:
    header = {"alg": "ES256"} | ({} if kid is None else {"kid": kid})
    words = [json.dumps(one).encode() for one in (header, LOGIN.claims())]
    message = b".".join(base64.urlsafe_b64encode(word).rstrip(b"=") for word in words)
    assert refused(desk, message.decode() + ".AAAA") == "token-key-unknown"


@pytest.mark.parametrize(
    "member",
    [
        {"crit": ["exp"]},
        {"crit": []},
        {"jku": "https://evil.test/jwks"},
        {"x5u": "https://evil.test/chain"},
        {"x5c": ["AAAA"]},
        {"jwk": jwk(OTHER.keys["p256"], "p256")},
        {"b64": False},
        {"zip": "DEF"},
    ],
)
def test_mc_14_a_header_that_brings_a_key_an_address_or_a_demand_is_refused(desk: Authenticator, member: Json) -> None:
    words = [json.dumps(one).encode() for one in ({"alg": "ES256", "kid": "p256"} | member, LOGIN.claims())]
    message = b".".join(base64.urlsafe_b64encode(word).rstrip(b"=") for word in words)
    assert refused(desk, message.decode() + ".AAAA") == "token-malformed"


@pytest.mark.parametrize("typ", ["logout+jwt", "dpop+jwt", "eat+jwt", "JOSE"])
def test_mc_20_a_token_of_another_purpose_is_refused(desk: Authenticator, typ: str) -> None:
    assert refused(desk, LOGIN.token(header={"typ": typ})) == "token-type-refused"


@pytest.mark.parametrize("place", [0, 1])
def test_mc_20_members_that_stand_twice_are_refused(desk: Authenticator, place: int) -> None:
    words = LOGIN.token().split(".")
    text = base64.urlsafe_b64decode(words[place] + "==")
    doubled = text[:-1] + b', "aud": "x", "aud": "y", "alg": "ES256"}'
    words[place] = base64.urlsafe_b64encode(doubled).rstrip(b"=").decode()
    assert refused(desk, ".".join(words)) == "token-malformed"


@pytest.mark.parametrize("extra", ["A" * 16_384, "=", "\n", ".x", "é"])
def test_mc_13_what_is_no_token_or_too_long_is_refused(desk: Authenticator, extra: str) -> None:
    codes = {"token-malformed", "authentication-malformed", "token-signature-invalid"}
    assert refused(desk, LOGIN.token() + extra) in codes


def test_mc_13_the_longest_token_is_read_and_one_character_more_is_not(desk: Authenticator) -> None:
    for size, code in ((16_384, "token-issuer-unknown"), (16_385, "token-malformed")):
        claims = base64.urlsafe_b64encode(b'{"iss":"x","pad":"' + b"a" * 12_255 + b'"}').rstrip(b"=").decode()
        head = "A" * (size - len(claims) - 2 - 10)
        token = f"{head}.{claims}.{'A' * 10}"
        assert len(token) == size
        assert refused(desk, token) == code


@pytest.mark.parametrize(
    "headers", [["Basic YTpi"], ["Bearer"], ["Bearer "], ["Bearer a b"], ["Bearer a", "Bearer a"], [""]]
)
def test_a_header_that_is_none_is_refused(desk: Authenticator, headers: list[str]) -> None:
    with pytest.raises(UnauthenticatedError) as caught:
        desk.identify(authorization=headers, certificate=PERSON.der)
    assert caught.value.code == "authentication-malformed"


def test_a_request_from_nobody_is_refused(desk: Authenticator) -> None:
    for certificate in (None, PERSON.der):  # none is asked for here, so none says anything
        with pytest.raises(UnauthenticatedError) as caught:
            desk.identify(authorization=[], certificate=certificate)
        assert caught.value.code == "authentication-required"


def test_every_byte_of_a_token_counts(desk: Authenticator) -> None:
    token = LOGIN.token()
    for index, character in enumerate(token):
        changed = token[:index] + ("A" if character != "A" else "B") + token[index + 1 :]
        last_bits = index == len(token) - 1  # the last character has bits that mean nothing, and must be zero
        assert refused(desk, changed) or last_bits


@given(
    text=st.text(max_size=60)
    | st.binary(max_size=60).map(lambda raw: "a." + base64.urlsafe_b64encode(raw).decode() + ".b")
)
def test_any_text_at_all_is_refused_by_a_code(text: str) -> None:
    desk = Authenticator(
        store=None,  # type: ignore[arg-type]  # it is never reached
        key_sets=KeySets((), fetch=read_key_set, clock=FakeClock(), report=print),
        certificate_names=None,
        clock=FakeClock(),
    )
    with pytest.raises(UnauthenticatedError):
        desk.identify(authorization=["Bearer " + text], certificate=None)


# -- demands of the operator


@pytest.mark.parametrize(
    ("claims", "accepted"),
    [
        ({"groups": "kms", "mfa": True, "level": 2}, True),
        ({"groups": ["a", "kms"], "mfa": True, "level": 2}, True),
        ({"groups": ["a"], "mfa": True, "level": 2}, False),
        ({"groups": [], "mfa": True, "level": 2}, False),
        ({"groups": "KMS", "mfa": True, "level": 2}, False),
        ({"mfa": True, "level": 2}, False),
        ({"groups": "kms", "mfa": 1, "level": 2}, False),
        ({"groups": "kms", "mfa": "true", "level": 2}, False),
        ({"groups": "kms", "mfa": True, "level": "2"}, False),
        ({"groups": "kms", "mfa": True, "level": 2.0}, False),
        ({"groups": {"kms": 1}, "mfa": True, "level": 2}, False),
    ],
)
def test_mc_41_required_claims_are_equal_in_kind_and_value(harness: Harness, claims: Json, accepted: bool) -> None:
    wanted = {"groups": "kms", "mfa": True, "level": 2}
    desk = authenticator(harness, LOGIN.table(harness.folder, required_claims=wanted))
    if accepted:
        assert known(desk, LOGIN.token(**claims)) == ALICE
    else:
        assert refused(desk, LOGIN.token(**claims)) == "token-claim-refused"


def test_mc_20_an_id_may_be_demanded(harness: Harness) -> None:
    desk = authenticator(harness, LOGIN.table(harness.folder, jti="required"))
    assert known(desk, LOGIN.token(jti="1")) == ALICE
    assert known(desk, LOGIN.token(jti="1")) == ALICE
    for bad in (None, "", 1, "a" * 256):
        claims = {name: one for name, one in (LOGIN.claims() | {"jti": bad}).items() if one is not None}
        token = jwt.api_jws.encode(json.dumps(claims).encode(), LOGIN.keys["p256"], "ES256", {"kid": "p256"})
        assert refused(desk, token) == "token-claim-missing"


def test_mc_37_a_token_that_counts_once_is_refused_at_every_replica_afterwards(harness: Harness) -> None:
    desk = authenticator(harness, LOGIN.table(harness.folder, jti="single-use"))
    replica = harness.reopened()
    other = replace(desk, store=replica.services.store)
    assert known(desk, LOGIN.token(jti="1")) == ALICE
    assert refused(other, LOGIN.token(jti="1")) == "token-used"
    assert refused(desk, LOGIN.token(jti="1", exp=int(AT.timestamp()) + 200)) == "token-used"
    assert known(other, LOGIN.token(jti="2")) == ALICE
    harness.clock.forward(seconds=329)  # the last second at which it is in time
    assert refused(desk, LOGIN.token(jti="1")) == "token-used"
    harness.clock.forward(seconds=1)
    assert refused(desk, LOGIN.token(jti="1")) == "token-expired"
    replica.close()


ORDERS = {
    "ES256": 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551,
    "ES384": int("f" * 48 + "c7634d81f4372ddf581a0db248b0a77aecec196accc52973", 16),
}
"""Of the curves (FIPS 186-5; SP 800-186, section 3.2.1)."""


def other_form(token: str, algorithm: str) -> str:
    """The same token with s replaced by n - s, which verifies as well."""
    signed, _, last = token.rpartition(".")
    signature = base64.urlsafe_b64decode(last + "==")
    half = len(signature) // 2
    s = ORDERS[algorithm] - int.from_bytes(signature[half:], "big")
    changed = signature[:half] + s.to_bytes(half, "big")
    return f"{signed}.{base64.urlsafe_b64encode(changed).rstrip(b'=').decode()}"


def is_high(token: str, algorithm: str) -> bool:
    signature = base64.urlsafe_b64decode(token.rpartition(".")[2] + "==")
    return int.from_bytes(signature[len(signature) // 2 :], "big") > ORDERS[algorithm] // 2


@pytest.mark.parametrize("algorithm", ORDERS)
def test_a_token_with_its_signature_in_the_other_form_is_the_same_token(harness: Harness, algorithm: str) -> None:
    desk = authenticator(harness, LOGIN.table(harness.folder, jti="single-use"))
    for number in range(4):
        first = LOGIN.token(jti=str(number), algorithm=algorithm)
        second = other_form(first, algorithm)
        assert first != second
        assert known(desk, second) == ALICE, "it verifies, as RFC 7518 says no more of s"
        assert refused(desk, first) == "token-used"


def test_issuers_make_signatures_of_both_forms(desk: Authenticator) -> None:
    """Why a high s is not refused: half of the honest tokens have one."""
    made = {is_high(token, "ES256"): token for token in (LOGIN.token(nonce=str(one)) for one in range(64))}
    assert made.keys() == {True, False}
    assert [known(desk, token) for token in made.values()] == [ALICE, ALICE]


def test_mc_35_a_clock_that_was_ahead_while_somebody_logged_in_revives_no_challenge(harness: Harness) -> None:
    """Logging in writes no entry of the log, so nothing would say afterwards that the clock was ahead."""
    harness.add_key("model")
    request = Workload().request(harness.releases.challenge(), "model")
    harness.releases.release(request)
    harness.clock.forward(days=1)
    desk = authenticator(harness, LOGIN.table(harness.folder, jti="single-use"))
    later = int(harness.clock().timestamp())
    assert known(desk, LOGIN.token(jti="1", iat=later, exp=later + 300)) == ALICE
    harness.clock.forward(days=-1)
    with pytest.raises(ChallengeUsedError):
        harness.releases.release(request)


def test_a_refused_token_is_not_used_up(harness: Harness) -> None:
    desk = authenticator(harness, LOGIN.table(harness.folder, jti="single-use", required_claims={"a": "b"}))
    assert refused(desk, LOGIN.token(jti="1")) == "token-claim-refused"
    assert known(desk, LOGIN.token(jti="1", a="b")) == ALICE


def test_mc_20_a_token_that_is_bound_to_a_certificate_comes_with_it(desk: Authenticator) -> None:
    digest = base64.urlsafe_b64encode(sha256(PERSON.der).digest()).rstrip(b"=").decode()
    bound = LOGIN.token(cnf={"x5t#S256": digest})
    assert known(desk, bound, PERSON.der) == ALICE
    assert refused(desk, bound) == "token-binding-mismatch"
    assert refused(desk, bound, authority().issue("mallory").der) == "token-binding-mismatch"
    bad: tuple[object, ...] = (
        {},
        {"jkt": "x"},
        {"x5t#S256": digest, "jkt": "x"},
        {"x5t#S256": 1},
        {"x5t#S256": "é"},
        "x",
        [],
        False,
    )
    for cnf in bad:
        assert refused(desk, LOGIN.token(cnf=cnf), PERSON.der) == "token-binding-mismatch"


# -- certificates


def test_a_certificate_is_known_by_the_one_name_that_the_operator_chose(harness: Harness) -> None:
    person = authority().issue("alice", uris=("spiffe://team/alice",))
    names = {"sha256": f"sha256:{person.pin}", "uri": "uri:spiffe://team/alice", "subject": "subject:CN=alice"}
    for kind, name in names.items():
        desk = authenticator(harness, LOGIN.table(harness.folder), names=kind)
        assert desk.identify(authorization=[], certificate=person.der) == Actor(name=name, means=Means.MTLS)
        assert known(desk, LOGIN.token(), person.der) == ALICE
    nameless = {"uri": authority().issue("a", uris=("spiffe://a", "spiffe://b")), "subject": authority().issue("")}
    for kind, issued in nameless.items():
        desk = authenticator(harness, LOGIN.table(harness.folder), names=kind)
        with pytest.raises(UnauthenticatedError) as caught:
            desk.identify(authorization=[], certificate=issued.der)
        assert caught.value.code == "authentication-required"
        with pytest.raises(UnauthenticatedError):
            desk.identify(authorization=[], certificate=b"\x30\x00")


# -- key sets


def test_keys_that_were_not_read_lately_enough_count_no_more(harness: Harness) -> None:
    table = LOGIN.table(harness.folder, max_age_seconds=600, refresh_seconds=100)
    desk = authenticator(harness, table)
    (harness.folder / "login.jwks").unlink()
    harness.clock.forward(seconds=600)
    desk.key_sets.refresh()
    assert known(desk, LOGIN.token(at=harness.clock())) == ALICE
    harness.clock.forward(seconds=1)
    with pytest.raises(UnavailableError) as caught:
        known(desk, LOGIN.token(at=harness.clock()))
    assert caught.value.code == "token-keys-stale"
    LOGIN.table(harness.folder)
    harness.clock.forward(seconds=100)
    desk.key_sets.refresh()
    assert known(desk, LOGIN.token(at=harness.clock())) == ALICE
    harness.clock.forward(seconds=-61)
    with pytest.raises(UnavailableError):
        known(desk, LOGIN.token(at=harness.clock()))


def test_a_new_key_counts_from_the_next_reading_and_a_withdrawn_one_no_more(harness: Harness) -> None:
    desk = authenticator(harness, LOGIN.table(harness.folder, refresh_seconds=100))
    newer = replace(LOGIN, seed="newer")
    (harness.folder / "login.jwks").write_bytes(newer.jwks())
    harness.clock.forward(seconds=99)
    desk.key_sets.refresh()
    assert known(desk, LOGIN.token()) == ALICE
    harness.clock.forward(seconds=1)
    desk.key_sets.refresh()
    assert refused(desk, LOGIN.token()) == "token-signature-invalid"
    assert known(desk, newer.token()) == ALICE


@pytest.mark.parametrize(
    "content", [b"", b"{}", b'{"keys": []}', b"<html>", b'{"keys": [{"kty": "oct", "k": "AA", "kid": "a"}]}']
)
def test_a_key_set_that_is_none_changes_nothing_and_is_reported(harness: Harness, content: bytes) -> None:
    path = harness.folder / "issuers.toml"
    path.write_text(LOGIN.table(harness.folder), encoding="utf-8")
    said: list[str] = []
    sets = KeySets(read_issuers(path), fetch=read_key_set, clock=harness.clock, report=said.append)
    sets.refresh()
    assert said == []
    (harness.folder / "login.jwks").write_bytes(content)
    sets.refresh(everything=True)
    assert said[0].startswith(f"error: the key set of {ISSUER} was not read: ")
    desk = Authenticator(store=harness.services.store, key_sets=sets, certificate_names=None, clock=harness.clock)
    assert known(desk, LOGIN.token()) == ALICE


@pytest.mark.parametrize("member", [{"use": "enc"}, {"alg": "RSA-OAEP"}, {"key_ops": ["encrypt"]}, {"alg": ["ES256"]}])
def test_a_key_that_is_for_something_else_signs_nothing(harness: Harness, member: Json) -> None:
    table = LOGIN.table(harness.folder)
    (harness.folder / "login.jwks").write_bytes(LOGIN.jwks(**member))
    desk = authenticator(harness, table)
    with pytest.raises(UnavailableError):
        known(desk, LOGIN.token())


@pytest.mark.loopback
def test_mc_14_a_key_set_is_read_from_the_configured_address_alone(harness: Harness) -> None:
    answers: dict[str, tuple[int, bytes, dict[str, str]]] = {"/jwks": (200, LOGIN.jwks(), {})}
    ca = authority().write(harness.folder)
    with serving(answers, server_context(harness.folder)) as port:
        table = LOGIN.table(
            harness.folder,
            jwks_file=None,
            jwks_url=f"https://127.0.0.1:{port}/jwks",
            ca_file=str(ca),
            refresh_seconds=10,
        )
        desk = authenticator(harness, table)
        assert known(desk, LOGIN.token()) == ALICE
        said: list[str] = []
        sets = KeySets(desk.key_sets.issuers, fetch=read_key_set, clock=harness.clock, report=said.append)
        for answer in (
            (302, b"", {"Location": f"https://127.0.0.1:{port}/elsewhere"}),
            (500, LOGIN.jwks(), {}),
            (200, b" " * (256 * 1024 + 1), {}),
        ):
            answers["/jwks"] = answer
            answers["/elsewhere"] = (200, LOGIN.jwks(), {})
            sets.refresh(everything=True)
        assert len(said) == 3
        answers["/jwks"] = (200, LOGIN.jwks(), {})
        other = authenticator(
            harness, table.replace(str(ca), str(authority("another CA").write(harness.folder, "other")))
        )
        with pytest.raises(UnavailableError):
            known(other, LOGIN.token())
    harness.clock.forward(seconds=10)
    desk.key_sets.refresh()  # nobody is there any more
    assert known(desk, LOGIN.token()) == ALICE


def test_keys_are_read_again_in_a_thread_of_their_own(harness: Harness) -> None:
    import threading

    path = harness.folder / "issuers.toml"
    path.write_text(LOGIN.table(harness.folder), encoding="utf-8")
    names: list[str] = []

    def fetch(issuer: object) -> bytes:
        names.append(threading.current_thread().name)
        return LOGIN.jwks()

    with KeySets(read_issuers(path), fetch=fetch, clock=harness.clock, report=print):
        pass
    assert names == ["MainThread"]


# -- the issuers file


@pytest.mark.parametrize(
    "changes",
    [
        {"issuer": None},
        {"issuer": ""},
        {"issuer": "a|b"},
        {"issuer": "a b"},
        {"audience": None},
        {"audience": ""},
        {"algorithms": None},
        {"algorithms": []},
        {"algorithms": ["HS256"]},
        {"algorithms": ["none"]},
        {"algorithms": "ES256"},
        {"jwks_file": None},
        {"jwks_url": "https://login.test/jwks"},
        {"jwks_file": None, "jwks_url": "http://login.test/jwks"},
        {"jwks_file": None, "jwks_url": "https://u:p@login.test/jwks"},
        {"jwks_file": None, "jwks_url": "file:///etc/passwd"},
        {"ca_file": "ca.crt"},
        {"refresh_seconds": 9},
        {"refresh_seconds": 601, "max_age_seconds": 600},
        {"max_lifetime_seconds": 86401},
        {"max_lifetime_seconds": "3600"},
        {"skew_seconds": -1},
        {"skew_seconds": 121},
        {"jti": "always"},
        {"required_claims": {"a": ["b"]}},
        {"unknown": 1},
    ],
)
def test_an_issuer_that_is_not_told_right_is_refused(tmp_path: Path, changes: Json) -> None:
    path = tmp_path / "issuers.toml"
    path.write_text(LOGIN.table(tmp_path, **changes), encoding="utf-8")
    with pytest.raises(ConfigurationError) as caught:
        read_issuers(path)
    assert caught.value.code == "issuers-invalid"


@pytest.mark.parametrize("text", ["", "issuer = 1", "issuer = [1]", "issuer = []", "x = 1", "[[", "\x00"])
def test_a_file_without_issuers_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "issuers.toml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigurationError):
        read_issuers(path)


def test_the_number_of_issuers_and_their_names_are_bounded(tmp_path: Path) -> None:
    path = tmp_path / "issuers.toml"
    tables = [LOGIN.table(tmp_path, issuer=f"https://{number}.test") for number in range(17)]
    path.write_text("".join(tables[:16]), encoding="utf-8")
    assert len(read_issuers(path)) == 16
    for text in ("".join(tables), tables[0] * 2, tables[0] + "[other]\n"):
        path.write_text(text, encoding="utf-8")
        with pytest.raises(ConfigurationError):
            read_issuers(path)
    with pytest.raises(ConfigurationError):
        read_issuers(tmp_path / "absent")

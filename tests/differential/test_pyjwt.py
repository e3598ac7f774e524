"""Tokens of services beside PyJWT: wherever it refuses, so do we; where only we do, the reason is one of a list."""

from __future__ import annotations

import json
from collections.abc import Iterator

import jwt
import pytest

from attest.errors import AttestError
from attest.results.service_token import verify_service_token
from tests.results.services import AT, ISSUERS, NOW, SAMPLES, SERVICE, Service, b64url, google, ita_tdx, maa_snp

AUDIENCE = "https://kms.example"
ALGORITHMS = {"maa": ["RS256"], "google": ["RS256"], "ita": ["PS384", "RS256"]}
TRUSTED = {str(claims["iss"]): SERVICE.keys() for claims in SAMPLES.values()}


def theirs(token: bytes, service: str, issuer: str) -> bool:
    """Whether PyJWT accepts a token; the moment of these tests stands in for its clock, which it takes from nowhere."""
    try:
        found = jwt.decode(
            token,
            key=SERVICE.key.public_key(),
            algorithms=ALGORITHMS[service],
            issuer=issuer,
            audience=AUDIENCE if service == "google" else None,
            options={"require": ["exp", "iat", "nbf"], "verify_exp": False, "verify_nbf": False, "verify_iat": False},
        )
    except jwt.PyJWTError:
        return False
    times = [found[name] for name in ("iat", "nbf", "exp")]
    if not all(type(moment) is int for moment in times):
        return False
    issued, begins, ends = times
    return bool(max(issued, begins) - 60 <= NOW < ends)


def ours(token: bytes, service: str) -> str | None:
    """Why we refuse a token, or None when we accept it."""
    audience = AUDIENCE if service == "google" else None
    try:
        verify_service_token(token, trusted=TRUSTED, at=AT, audience=audience)
    except AttestError as error:
        return error.code
    return None


@pytest.mark.parametrize("name", SAMPLES)
def test_genuine_tokens_are_genuine_to_both(name: str) -> None:
    service, claims = name.partition(" ")[0], SAMPLES[name]
    for alg in ALGORITHMS[service]:
        token = SERVICE.sign(claims, alg=alg)
        assert theirs(token, service, claims["iss"])
        assert ours(token, service) is None


def altered() -> Iterator[tuple[str, str, bytes]]:
    """Service, what was done, and the token."""
    for service, make in (("maa", maa_snp), ("ita", ita_tdx), ("google", google)):
        for name in ("iat", "nbf", "exp", "iss"):
            good = make()
            yield service, f"no {name}", SERVICE.sign({key: value for key, value in good.items() if key != name})
        for offset in (-1, 0, 1):
            yield service, f"exp {offset}", SERVICE.sign(make(exp=NOW + offset))
            yield service, f"nbf {offset}", SERVICE.sign(make(nbf=NOW + 60 + offset))
            yield service, f"iat {offset}", SERVICE.sign(make(iat=NOW + 60 + offset))
        moments: tuple[object, ...] = ("x", None, 0.5, [], -1, True)
        for value in moments:
            yield service, f"exp {value}", SERVICE.sign(make(exp=value))
        audiences: tuple[object, ...] = (AUDIENCE, [AUDIENCE], "x", [], ["x", AUDIENCE])
        for value in audiences:
            yield service, f"aud {value}", SERVICE.sign(make(aud=value))
        yield service, "another issuer", SERVICE.sign(make(iss="https://x.example"))
        yield service, "another key", Service(number=1).sign(make())
        yield service, "another algorithm", SERVICE.sign(make(), alg="RS512")
        yield service, "another type", SERVICE.sign(make(), typ="other")
        yield service, "something critical", SERVICE.sign(make(), crit=["x"], x=1)
        head, payload, signature = SERVICE.sign(make()).decode().split(".")
        for alg in ("none", "HS256", "RS384"):
            yield service, alg, f"{b64url(json.dumps({'alg': alg}).encode())}.{payload}.{signature}".encode()
        yield service, "padding", f"{head}.{payload}.{signature}=".encode()
        yield service, "cut short", f"{head}.{payload}.{signature[:-4]}".encode()
        yield service, "a word more", f"{head}.{payload}.{signature}.x".encode()
        twice = json.dumps(make())[:-1] + ', "jti": "x"}'
        yield service, "a member twice", SERVICE.sign(twice)
        yield service, "no object", SERVICE.sign("[]")


STRICTER = {
    "another type": "PyJWT leaves typ to its caller",
    "a member twice": "PyJWT takes the last of two members",
    "aud []": "PyJWT takes an empty list for no audience",
    "padding": "PyJWT accepts padding, a second spelling",
}
"""What we refuse and PyJWT does not, and why that is right."""


def test_whatever_pyjwt_refuses_is_refused() -> None:
    differences: dict[str, set[str]] = {}
    count = 0
    for service, what, token in altered():
        count += 1
        their, our = theirs(token, service, ISSUERS[service]), ours(token, service)
        assert their or our is not None, (service, what)
        if their and our is not None:
            differences.setdefault(what, set()).add(our)
    assert count > 90
    unexplained = {what: codes for what, codes in differences.items() if what not in STRICTER}
    assert not unexplained


def test_what_pyjwt_writes_is_accepted() -> None:
    written = jwt.encode(maa_snp(), SERVICE.key, algorithm="RS256", headers={"kid": SERVICE.kid})
    assert ours(written.encode(), "maa") is None

"""Passports by tokens of Azure, Intel and Google: each opens a key for the machine that committed to the bound keys."""

import base64
import hmac
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from attest.errors import AttestError
from attest.release import Challenge
from attest.release.client import KeyReleaseClient
from attest.release.passports import PassportKey, PassportRequest
from kms.domain.errors import ReleaseDeniedError
from kms.domain.keys import KeyName
from kms.domain.leases import LeaseFilter
from kms.keys.tenants import create_tenant
from kms.leases.affected import below, lists_advisory
from kms.leases.search import find_leases
from tests.kms.service_tokens import Claims, Kind, issued, kinds, trust
from tests.kms.support import ACTOR, MATERIAL, Harness, Workload, live_leases, open_sealed
from tests.kms.test_api import challenge_of, client_of
from tests.results.services import GOOGLE, ITA, MAA, SERVICE, Service

KEY = PassportKey.generate()
NAMES = tuple(kinds("x"))


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Harness]:
    first = Harness.make(tmp_path)
    first.close()
    harness = first.reopened(verifiers_file=trust(tmp_path, MAA, ITA, GOOGLE), allow_simulated=False)
    yield harness
    harness.close()


def kind_of(service: Harness, name: str = "maa sevsnpvm") -> Kind:
    return kinds(service.audience)[name]


def token_of(
    service: Harness,
    kind: Kind,
    *,
    bound: PassportKey = KEY,
    claims: Claims | None = None,
    **more: Any,  # noqa: ANN401  a header
) -> bytes:
    stated = {**kind.claims(bound.bound), **(claims or {})}
    return issued(stated, at=int(service.clock().timestamp()), **{"alg": kind.alg, **more})


def asking(
    service: Harness, token: bytes, *key_ids: str, key: PassportKey = KEY, challenge: Challenge | None = None
) -> PassportRequest:
    challenge = challenge or service.releases.challenge()
    asked = key_ids or ("model",)
    passport = key.passport(token, audience=service.audience, nonce=challenge.nonce, key_ids=asked)
    return PassportRequest(challenge=challenge.token, passport=passport, key_ids=asked)


def refused(service: Harness, request: PassportRequest) -> AttestError:
    """Be refused, and find that in the log; no lease is left behind."""
    before = len(service.decisions())
    with pytest.raises(AttestError) as caught:
        service.releases.release(request)
    assert [one["outcome"] for one in service.decisions()[before:]] == ["deny"]
    with service.services.store.reading() as tx:
        assert live_leases(tx, KeyName(key_id="model"), at=service.clock()) == ()
    return caught.value


# -- what opens a key


@pytest.mark.parametrize("name", NAMES)
def test_a_token_of_each_kind_opens_a_key_for_the_machine_that_it_is_about(service: Harness, name: str) -> None:
    kind = kind_of(service, name)
    service.add_key("model", policy=kind.policy)
    token = token_of(service, kind)
    request = asking(service, token)
    release = service.releases.release(request)
    opened = open_sealed(Workload(key=KEY.recipient), request, release, service.services.identity.public)  # type: ignore[arg-type]  # its digest counts
    assert opened == {"model": MATERIAL}
    (entry,) = service.decisions()
    passport = entry["passport"]
    assert (entry["outcome"], entry["simulated"], entry["via"]) == ("allow", False, "native")
    assert (passport["issuer"], passport["fresh_by"]) == (kind.issuer, "signed-request")  # type: ignore[index]  # JSON
    assert (passport["token_id"], passport["service"]) == ("b65da1", name.split(maxsplit=1)[0])  # type: ignore[index]  # JSON
    assert token.decode() not in str(service.entries())


@pytest.mark.parametrize("name", NAMES)
def test_the_same_token_for_other_keys_is_refused_with_its_reason(service: Harness, name: str) -> None:
    kind = kind_of(service, name)
    service.add_key("model", policy=kind.policy)
    with client_of(service) as web:
        challenge = challenge_of(web)
        other = asking(service, token_of(service, kind), key=PassportKey.generate(), challenge=challenge)
        answer = web.post("/v1/releases", json=other.to_json())
        assert (answer.status_code, answer.json()["code"]) == (403, "token-key-mismatch")
        mine = asking(service, token_of(service, kind), challenge=challenge_of(web))
        assert web.post("/v1/releases", json=mine.to_json()).status_code == 200


def test_a_client_sends_a_token_as_it_sends_an_ear_and_renews_its_lease(service: Harness) -> None:
    kind = kind_of(service)
    service.add_key("model", policy=kind.policy)
    with client_of(service) as web:
        client = KeyReleaseClient(web, service=service.services.identity.public)  # type: ignore[arg-type]  # a client all the same
        (first,) = client.release_with_passport(("model",), verifier=lambda _: token_of(service, kind), key=KEY)
        (again,) = client.release_with_passport(
            ("model",), verifier=lambda _: token_of(service, kind), key=KEY, renews=(first.lease_id,)
        )
    assert (first.material, again.material) == (MATERIAL, MATERIAL)
    with service.services.store.reading() as tx:
        (lease,) = live_leases(tx, KeyName(key_id="model"), at=service.clock())
    assert (lease.lease_id, lease.renewed_from) == (again.lease_id, first.lease_id)


def test_a_lease_by_intels_token_keeps_the_advisories_that_it_states(service: Harness) -> None:
    kind = kind_of(service, "ita tdx")
    service.add_key("model", policy=kind.policy)
    service.releases.release(asking(service, token_of(service, kind)))
    with service.services.store.reading() as tx:
        for concern, concerned in (
            (lists_advisory("INTEL-SA-01192"), True),
            (lists_advisory("INTEL-SA-00001"), False),
            (below("Genoa", "snp", 1), True),
        ):
            found = [one for one in find_leases(tx, LeaseFilter(), concerns=[concern], at=service.clock()) if one.why]
            assert bool(found) is concerned


# -- what does not


def test_a_signature_of_the_bound_key_is_for_one_challenge(service: Harness) -> None:
    kind = kind_of(service)
    service.add_key("model", policy=kind.policy)
    request = asking(service, token_of(service, kind))
    moved = replace(request, challenge=service.releases.challenge().token)
    assert refused(service, moved).code == "passport-signature-invalid"


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("claims", "header", "code"),
    [
        ({}, {"at": -3600}, "token-expired"),
        ({}, {"at": 61}, "token-not-yet-valid"),
        ({"aud": "https://another.example"}, {}, "token-audience-mismatch"),
        ({}, {"kid": "another"}, "token-key-unknown"),
        ({}, {"of": Service(number=1)}, "token-signature-invalid"),
    ],
    ids=["expired", "not yet valid", "another audience", "an unknown kid", "another key"],
)
def test_a_token_that_is_not_for_now_and_here_or_not_genuine_gets_403(
    service: Harness, name: str, claims: Claims, header: Claims, code: str
) -> None:
    kind = kind_of(service, name)
    service.add_key("model", policy=kind.policy)
    moved = {**header, "at": int(service.clock().timestamp()) + header.get("at", 0)}
    token = issued({**kind.claims(KEY.bound), **claims}, **{"alg": kind.alg, **moved})
    with client_of(service) as web:
        answer = web.post("/v1/releases", json=asking(service, token, challenge=challenge_of(web)).to_json())
        assert (answer.status_code, answer.json()["code"]) == (403, code)
    assert service.decisions()[-1]["reasons"][0]["code"] == code  # type: ignore[index]  # JSON


@pytest.mark.parametrize("issuer", ["https://another.eus.attest.azure.net", "https://ours.example"])
def test_a_token_of_an_issuer_that_the_operator_does_not_trust_gets_403(service: Harness, issuer: str) -> None:
    kind = kind_of(service)
    service.add_key("model", policy=kind.policy)
    token = token_of(service, kind, claims={"iss": issuer})
    assert refused(service, asking(service, token)).code == "token-issuer-untrusted"


def test_a_trusted_issuer_that_the_keys_policy_does_not_name_is_refused(service: Harness) -> None:
    service.add_key("model", policy=kind_of(service, "ita tdx").policy)
    error = refused(service, asking(service, token_of(service, kind_of(service, "maa tdxvm"))))
    assert isinstance(error, ReleaseDeniedError)
    assert [check.id for check in error.checks][:1] == ["policy.verifier"]


def test_hs256_with_the_public_key_as_its_secret_gets_403(service: Harness) -> None:
    kind = kind_of(service)
    service.add_key("model", policy=kind.policy)
    head, claims, _ = token_of(service, kind).decode().split(".")
    header = json.loads(base64.urlsafe_b64decode(head + "==")) | {"alg": "HS256"}
    message = f"{_b64(json.dumps(header).encode())}.{claims}"
    for secret in (json.dumps(SERVICE.jwk()).encode(), SERVICE.jwk()["n"].encode()):
        forged = f"{message}.{_b64(hmac.digest(secret, message.encode(), 'sha256'))}".encode()
        with client_of(service) as web:
            answer = web.post("/v1/releases", json=asking(service, forged, challenge=challenge_of(web)).to_json())
            assert (answer.status_code, answer.json()["code"]) == (403, "token-algorithm-refused")


def _b64(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def test_an_issuer_is_trusted_for_the_tenants_that_it_is_named_for(service: Harness, tmp_path: Path) -> None:
    kind = kind_of(service)
    create_tenant(service.services.store, "acme", actor=ACTOR, at=service.clock())
    service.add_key("model", policy=kind.policy)
    service.add_key("acme/model", policy=kind.policy)
    limited = service.reopened(verifiers_file=trust(tmp_path, MAA, more='tenants = ["acme"]\n'))
    token = token_of(limited, kind)
    limited.releases.release(asking(limited, token, "acme/model"))
    assert refused(limited, asking(limited, token)).code == "token-issuer-untrusted"
    limited.close()


@pytest.mark.parametrize("name", NAMES)
def test_every_byte_of_a_token_counts(service: Harness, name: str) -> None:
    kind = kind_of(service, name)
    token, challenge = token_of(service, kind), service.releases.challenge()

    def verified(content: bytes) -> None:
        request = asking(service, content, challenge=challenge)
        service.services.passports.verify(request, nonce=challenge.nonce, tenants={"default"}, at=service.clock())

    verified(token)
    for index in range(len(token)):
        flipped = bytes((*token[:index], token[index] ^ 1, *token[index + 1 :]))
        with pytest.raises(AttestError):
            verified(flipped)

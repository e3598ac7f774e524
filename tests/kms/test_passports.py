"""Passports: another Verifier's word opens keys whose policy says so, for the workload that it is about alone."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from hashlib import sha384
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest import Binding, ExpectedBinding, TrustAnchors, appraise, load_policy, verify
from attest.encoding import base64url_bytes, base64url_text, cbor_bytes
from attest.errors import AttestError, ConfigurationError
from attest.policy import Policy
from attest.release import CONTEXT, Challenge, Release, WorkloadKey
from attest.release.client import KeyReleaseClient
from attest.release.passports import MAX_EAR_BYTES, Passport, PassportKey, PassportRequest, read_bound_keys
from attest.release.wire import ROLE
from attest.results import IssuerKey, SigningKey, SigningKeyState, TokenIssuer, VerifierId
from kms.controls.admin import freeze
from kms.domain.errors import ChallengeUsedError, ReleaseDeniedError
from kms.domain.freezes import target
from kms.domain.keys import KeyName
from kms.domain.leases import LeaseFilter
from kms.keys.tenants import create_tenant
from kms.leases.admin import resume_renewals, stop_renewals
from kms.leases.affected import below, conforming_to, lists_advisory
from kms.leases.search import find_leases
from kms.release.verifiers import read_verifiers
from tests.kms.support import (
    ACTOR,
    AT,
    CHIP,
    MATERIAL,
    Harness,
    Workload,
    live_leases,
    open_sealed,
    policy_text,
)
from tests.kms.test_api import challenge_of, client_of

ISSUER = "https://verifier.example"
SIGNING = SigningKey.of(Ed25519PrivateKey.from_private_bytes(b"\x0d" * 32))
STRANGER = SigningKey.of(Ed25519PrivateKey.from_private_bytes(b"\x0e" * 32))
TAKES = f"verifiers:\n  - issuer: {ISSUER}\n"
KEY = PassportKey.generate()
ASKED = b"v" * 32
"""The nonce of the Verifier's own challenge."""


def issuer_of(key: SigningKey = SIGNING, name: str = ISSUER) -> TokenIssuer:
    return TokenIssuer(
        issuer=name,
        verifier=VerifierId(developer="attest-kms", build="test"),
        keys=(IssuerKey(key=key, state=SigningKeyState.CURRENT),),
    )


def passport_policy(**more: object) -> bytes:
    return policy_text(more=TAKES, **more)  # type: ignore[arg-type]  # a name, a measurement


@pytest.fixture(params=["sqlite", "postgresql"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def trusting(harness: Harness) -> Iterator[Callable[..., Harness]]:
    """Open the same service with a Verifier that it trusts."""
    opened: list[Harness] = []

    def again(*, tenants: str = "", **changes: object) -> Harness:
        (harness.folder / "jwks.json").write_bytes(issuer_of().jwks(AT))
        path = harness.folder / "verifiers.toml"
        path.write_text(f'[[verifier]]\nissuer = "{ISSUER}"\nkeys = "jwks.json"\n{tenants}')
        opened.append(harness.reopened(verifiers_file=path, **changes))
        return opened[-1]

    yield again
    for one in opened:
        one.close()


@pytest.fixture
def service(harness: Harness, trusting: Callable[..., Harness]) -> Harness:
    harness.add_key("model", policy=passport_policy())
    return trusting()


@dataclass(frozen=True)
class Judged:
    """A workload that a Verifier judges; what is wrong with it is a field."""

    workload: Workload = field(default_factory=Workload)
    key: PassportKey = KEY
    bound: bytes | None = None
    context: str = CONTEXT
    role: str = ROLE
    audience: str | None = None
    policy: bytes = passport_policy()
    fresh: bool = True
    simulated: bool | None = None

    def result(self, service: Harness, at: datetime) -> Any:  # noqa: ANN401  of an appraisal
        binding = Binding(
            context=self.context,
            role=self.role,
            audience=self.audience or service.audience,
            nonce=ASKED,
            key=self.key.bound if self.bound is None else self.bound,
        )
        expected = ExpectedBinding(
            context=binding.context, role=binding.role, audience=binding.audience, nonce=binding.nonce
        )
        verified = verify(
            self.workload.attest(binding),
            endorsements=CHIP.endorsements(at=at),
            anchors=TrustAnchors.simulation(),
            at=at,
            expected=expected if self.fresh else None,
        )
        return appraise(verified, policy=load_policy(self.policy), at=at)

    def ear(self, service: Harness, *, at: datetime | None = None, of: TokenIssuer | None = None, **more: Any) -> bytes:  # noqa: ANN401
        options: dict[str, Any] = {"audience": (service.audience,), "token_id": bytes(16)} | more
        return (of or issuer_of()).issue(self.result(service, at or service.clock()), **options)


def asking(
    service: Harness,
    ear: bytes,
    *key_ids: str,
    key: PassportKey = KEY,
    challenge: Challenge | None = None,
    **more: Any,  # noqa: ANN401
) -> PassportRequest:
    """A request by the workload whose key it is."""
    challenge = challenge or service.releases.challenge()
    asked = key_ids or ("model",)
    passport = key.passport(
        ear, audience=service.audience, nonce=challenge.nonce, key_ids=asked, renews=more.get("renews", ())
    )
    return PassportRequest(challenge=challenge.token, passport=passport, key_ids=asked, **more)


def released(service: Harness, ear: bytes, *key_ids: str, **more: Any) -> tuple[PassportRequest, Release]:  # noqa: ANN401
    request = asking(service, ear, *key_ids, **more)
    return request, service.releases.release(request)


def refused(service: Harness, request: PassportRequest) -> AttestError:
    """Be refused, and find that in the log; no lease is left behind."""
    before = len(service.decisions())
    with pytest.raises(AttestError) as caught:
        service.releases.release(request)
    assert [one["outcome"] for one in service.decisions()[before:]] == ["deny"]
    with service.services.store.reading() as tx:
        assert live_leases(tx, KeyName(key_id="model"), at=service.clock()) == ()
    return caught.value


def failed(service: Harness, ear: bytes) -> list[str]:
    """The checks that failed when the key's policy refused a passport."""
    error = refused(service, asking(service, ear))
    assert isinstance(error, ReleaseDeniedError)
    assert error.code == "policy-not-met"
    return [check.id for check in error.checks]


# -- what is taken


@pytest.mark.parametrize("form", ["jwt", "cwt"])
def test_a_verifiers_word_opens_a_key_whose_policy_takes_it(service: Harness, form: str) -> None:
    ear = Judged().ear(service, form=form)
    request, release = released(service, ear)
    opened = open_sealed(Workload(key=KEY.recipient), request, release, service.services.identity.public)  # type: ignore[arg-type]  # its digest counts
    assert opened == {"model": MATERIAL}
    decision = service.decisions()[-1]
    assert (decision["outcome"], decision["simulated"]) == ("allow", True)
    assert decision["evidence_sha384"] == sha384(ear).hexdigest()
    told = decision["passport"]
    assert (told["issuer"], told["signed_by"], told["token_id"]) == (ISSUER, SIGNING.kid, base64url_text(bytes(16)))  # type: ignore[index]
    assert ear.decode("latin-1") not in str(service.entries())


def test_a_client_gets_its_keys_by_a_passport_and_renews_them(service: Harness) -> None:
    with client_of(service) as web:
        client = KeyReleaseClient(web, service=service.services.identity.public)  # type: ignore[arg-type]  # a client all the same
        (first,) = client.release_with_passport(("model",), verifier=lambda _: Judged().ear(service), key=KEY)
        assert first.material == MATERIAL
        (again,) = client.release_with_passport(
            ("model",),
            verifier=lambda challenge: Judged().ear(service, nonce=challenge.nonce),
            key=KEY,
            renews=(first.lease_id,),
        )
    with service.services.store.reading() as tx:
        (lease,) = live_leases(tx, KeyName(key_id="model"), at=service.clock())
    assert (lease.lease_id, lease.renewed_from) == (again.lease_id, first.lease_id)
    assert (lease.tee, lease.chip, lease.product, lease.gpus, lease.simulated) == ("ear", None, None, 0, True)


def test_a_policy_may_name_the_policies_of_its_verifier_instead(
    harness: Harness, trusting: Callable[..., Harness]
) -> None:
    theirs = policy_text(name="theirs")
    named = f"theirs/1#sha256:{load_policy(theirs).digest.hex()}"
    more = f'verifiers:\n  - issuer: {ISSUER}\n    policy_ids: ["{named}"]\n'
    harness.add_key("model", policy=policy_text(more=more))
    service = trusting()
    # Simulated evidence is never affirming in an EAR, so that another policy than this very one cannot vouch for it.
    assert failed(service, Judged(policy=theirs).ear(service)) == ["policy.token.status", "policy.token.submodule"]
    other = Judged(policy=policy_text(name="unnamed")).ear(service)
    assert "policy.verifier.policy_ids" in failed(service, other)


# -- whose word


def test_mc_20_without_a_trusted_verifier_no_passport_is_taken(harness: Harness) -> None:
    harness.add_key("model", policy=passport_policy())
    assert refused(harness, asking(harness, Judged().ear(harness))).code == "token-issuer-untrusted"


def test_mc_20_another_issuer_is_refused_even_with_a_trusted_name_in_its_token(service: Harness) -> None:
    other = issuer_of(STRANGER, "https://other.example")
    assert refused(service, asking(service, Judged().ear(service, of=other))).code == "token-issuer-untrusted"
    forged = issuer_of(STRANGER)
    assert refused(service, asking(service, Judged().ear(service, of=forged))).code == "token-key-unknown"


def test_mc_20_a_policy_that_names_no_verifier_takes_no_passport(
    harness: Harness, trusting: Callable[..., Harness]
) -> None:
    harness.add_key("model")
    service = trusting()
    assert failed(service, Judged(policy=policy_text()).ear(service)) == ["policy.verifier"]


def test_mc_20_a_verifier_is_trusted_for_the_tenants_that_it_is_named_for(
    harness: Harness, trusting: Callable[..., Harness]
) -> None:
    create_tenant(harness.services.store, "acme", actor=ACTOR, at=harness.clock())
    harness.add_key("model", policy=passport_policy())
    harness.add_key("acme/model", policy=passport_policy())
    service = trusting(tenants='tenants = ["acme"]\n')
    ear = Judged().ear(service)
    released(service, ear, "acme/model")
    for asked in (("model",), ("acme/model", "model")):
        assert refused(service, asking(service, ear, *asked)).code == "token-issuer-untrusted"


@pytest.mark.parametrize(
    ("judged", "checks"),
    [
        (Judged(policy=policy_text(name="lax", more=TAKES)), {"policy.verifier.applied", "policy.token.status"}),
        (Judged(workload=Workload().with_measurement(b"\x01" * 48)), {"policy.verifier.affirmed"}),
    ],
    ids=["another policy", "not affirmed"],
)
def test_mc_19_a_verifiers_word_counts_for_this_policy_and_as_a_yes(
    service: Harness, judged: Judged, checks: set[str]
) -> None:
    assert checks <= set(failed(service, judged.ear(service)))


def test_mc_19_a_policy_that_was_tightened_since_takes_the_old_word_no_more(
    harness: Harness, trusting: Callable[..., Harness]
) -> None:
    harness.add_key("model", policy=passport_policy().replace(b"snp: 26", b"snp: 27"))
    service = trusting()
    assert "policy.verifier.applied" in failed(service, Judged().ear(service))


@pytest.mark.parametrize(("seconds", "taken"), [(300, True), (301, False)])
def test_mc_20_an_ear_is_as_old_as_the_policy_lets_it_be(service: Harness, *, seconds: int, taken: bool) -> None:
    ear = Judged().ear(service, lifetime=timedelta(hours=1))
    service.clock.forward(seconds=seconds)
    if taken:
        released(service, ear)
    else:
        assert failed(service, ear) == ["policy.verifier.age"]


@pytest.mark.parametrize(("seconds", "taken"), [(119.999, True), (120, False)])
def test_mc_20_an_ear_counts_until_it_expires(service: Harness, *, seconds: float, taken: bool) -> None:
    ear = Judged().ear(service, lifetime=timedelta(minutes=2))
    service.clock.forward(seconds=seconds)
    if taken:
        released(service, ear)
    else:
        assert refused(service, asking(service, ear)).code == "token-expired"


def test_mc_17_a_passport_on_simulated_evidence_needs_both_to_allow_it(
    harness: Harness, trusting: Callable[..., Harness]
) -> None:
    real = passport_policy().replace(b'simulated: {unchecked: "a test on the simulator"}\n', b"")
    harness.add_key("real", policy=real)
    harness.add_key("model", policy=passport_policy())
    service = trusting()
    error = refused(service, asking(service, Judged(policy=real).ear(service), "real"))
    assert "policy.not_simulated" in {check.id for check in error.checks}
    strict = trusting(allow_simulated=False)
    assert refused(strict, asking(strict, Judged().ear(strict))).code == "simulated"


# -- about whom


def test_mc_20_a_stolen_ear_is_worthless(service: Harness) -> None:
    ear = Judged().ear(service)
    thief = PassportKey.generate()
    assert refused(service, asking(service, ear, key=thief)).code == "ear-key-mismatch"
    challenge = service.releases.challenge()
    signed = asking(service, ear, key=thief, challenge=challenge).passport
    mixed = replace(asking(service, ear, challenge=challenge), passport=replace(signed, key=KEY.bound))
    assert refused(service, mixed).code == "passport-signature-invalid"


def test_mc_18_a_key_of_ones_own_beside_the_vouched_one_is_refused(service: Harness) -> None:
    """The HPKE key is inside what the EAR vouches for; another one there is another bound key."""
    mine = replace(read_bound_keys(KEY.bound), recipient=WorkloadKey.generate().public)
    request = asking(service, Judged().ear(service))
    swapped = replace(request, passport=replace(request.passport, key=mine.to_bytes()))
    assert refused(service, swapped).code == "ear-key-mismatch"


Change = Callable[[PassportRequest, Harness], PassportRequest]


@pytest.mark.parametrize(
    "change",
    [
        lambda r, _: replace(r, key_ids=("model", "other")),
        lambda r, _: replace(r, key_ids=("other",)),
        lambda r, _: replace(r, renews=("0" * 32,)),
        lambda r, s: replace(r, challenge=s.releases.challenge().token),
        lambda r, s: replace(r, passport=replace(r.passport, ear=Judged().ear(s, token_id=b"\x01" * 16))),
        lambda r, _: replace(r, passport=replace(r.passport, signature=bytes(64))),
    ],
    ids=["one key more", "another key", "a lease", "another challenge", "another EAR", "no signature"],
)
def test_mc_20_a_signature_is_of_one_request(service: Harness, change: Change) -> None:
    service.add_key("other", policy=passport_policy())
    request = asking(service, Judged().ear(service))
    assert refused(service, change(request, service)).code == "passport-signature-invalid"


def test_mc_20_a_signature_for_another_service_is_none_for_this_one(service: Harness) -> None:
    challenge, ear = service.releases.challenge(), Judged().ear(service)
    passport = KEY.passport(ear, audience="kms.test/other+00", nonce=challenge.nonce, key_ids=("model",))
    request = PassportRequest(challenge=challenge.token, passport=passport, key_ids=("model",))
    assert refused(service, request).code == "passport-signature-invalid"


@pytest.mark.parametrize("audience", [(), ("kms.test/other+00",), ("anybody", "else")])
def test_mc_20_an_ear_for_another_party_or_for_anybody_is_refused(service: Harness, audience: tuple[str, ...]) -> None:
    ear = Judged().ear(service, audience=audience)
    assert refused(service, asking(service, ear)).code == "token-audience-mismatch"


@pytest.mark.parametrize(
    ("judged", "code"),
    [
        (Judged(audience="kms.test/other+00"), "binding-audience-mismatch"),
        (Judged(context="channel/v1"), "binding-context-mismatch"),
        (Judged(role="service"), "binding-role-mismatch"),
        (
            Judged(fresh=False, policy=passport_policy() + b'unchecked: {freshness: "x"}\n'),
            "passport-evidence-not-fresh",
        ),
    ],
)
def test_mc_2_evidence_that_was_made_for_something_else_is_refused(service: Harness, judged: Judged, code: str) -> None:
    assert refused(service, asking(service, judged.ear(service))).code == code


def test_mc_1_an_ear_that_answers_another_challenge_is_refused(service: Harness) -> None:
    first, second = service.releases.challenge(), service.releases.challenge()
    ear = Judged().ear(service, nonce=first.nonce)
    assert refused(service, asking(service, ear, challenge=second)).code == "nonce-mismatch"
    released(service, ear, challenge=first)


def test_mc_1_a_request_counts_once(service: Harness) -> None:
    request, _ = released(service, Judged().ear(service))
    with pytest.raises(ChallengeUsedError):
        service.releases.release(request)


# -- forged tokens


def parts(ear: bytes) -> tuple[dict[str, Any], dict[str, Any], str]:
    head, claims, signature = ear.decode().split(".")
    return json.loads(base64url_bytes(head, what="x")), json.loads(base64url_bytes(claims, what="x")), signature


def word(document: object) -> str:
    return base64url_text((document if isinstance(document, str) else json.dumps(document)).encode())


def signed(head: object, claims: object) -> bytes:
    message = f"{word(head)}.{word(claims)}"
    return f"{message}.{base64url_text(SIGNING.sign(message.encode()))}".encode()


@pytest.mark.parametrize("algorithm", ["none", "HS256", "RS256"])
def test_mc_20_an_algorithm_that_the_issuer_does_not_sign_with_is_refused(service: Harness, algorithm: str) -> None:
    head, claims, signature = parts(Judged().ear(service))
    for end in ("", signature):
        forged = f"{word({**head, 'alg': algorithm})}.{word(claims)}.{end}".encode()
        error = refused(service, asking(service, forged))
        assert error.code in {"token-algorithm-refused", "token-signature-invalid", "token-malformed"}


def test_mc_20_members_that_stand_twice_are_refused(service: Harness) -> None:
    head, claims, _ = parts(Judged().ear(service))
    twice = json.dumps(claims)[:-1] + ', "aud": ["another"]}'
    assert refused(service, asking(service, signed(head, twice))).code == "json-invalid"


@pytest.mark.parametrize("more", [{"crit": ["x"]}, {"jku": "https://x"}, {"jwk": {}}, {"x5c": []}])
def test_mc_20_a_header_brings_nothing_along(service: Harness, more: dict[str, object]) -> None:
    head, claims, _ = parts(Judged().ear(service))
    assert refused(service, asking(service, signed({**head, **more}, claims))).code.startswith("token-")


@pytest.mark.parametrize("member", ["attest_kms_result", "submods", "iat"])
def test_an_ear_without_what_is_needed_is_refused(service: Harness, member: str) -> None:
    head, claims, _ = parts(Judged().ear(service))
    del claims[member]
    error = refused(service, asking(service, signed(head, claims)))
    assert error.code == ("ear-key-mismatch" if member == "attest_kms_result" else "ear-malformed")


def test_every_byte_of_a_passport_counts(service: Harness) -> None:
    ear = Judged().ear(service)
    for index in range(0, len(ear), 97):
        flipped = bytes((*ear[:index], ear[index] ^ 1, *ear[index + 1 :]))
        refused(service, asking(service, flipped))


# -- what stands beside it


def test_a_frozen_product_stands_against_every_passport(service: Harness) -> None:
    freeze(service.services.store, target("product", "hopper"), reason="x", actor=ACTOR, at=service.clock())
    assert refused(service, asking(service, Judged().ear(service))).code == "product-frozen"
    service.releases.release(Workload().request(service.releases.challenge(), "model"))  # evidence says what it is of


def test_a_machine_that_was_stopped_does_not_come_back_with_a_passport(service: Harness) -> None:
    """An EAR does not say on which machine: as long as one is stopped, it may be that one."""
    service.add_key("other", policy=passport_policy())
    service.releases.release(Workload().request(service.releases.challenge(), "model"))
    stopped = stop_renewals(
        service.services.store, LeaseFilter(), concerns=(), reason="x", actor=ACTOR, at=service.clock()
    )
    ear = Judged().ear(service)
    with pytest.raises(ReleaseDeniedError) as caught:
        service.releases.release(asking(service, ear))
    assert caught.value.code == "lease-stopped"
    released(service, ear, "other")
    ids = [one.state.lease.lease_id for one in stopped]
    resume_renewals(service.services.store, ids, reason="x", actor=ACTOR, at=service.clock())
    released(service, ear)


def test_leases_by_passport_are_concerned_by_every_piece_of_news(service: Harness) -> None:
    released(service, Judged().ear(service))
    policy: Policy = load_policy(passport_policy())
    with service.services.store.reading() as tx:
        for concern in (
            below("Genoa", "snp", 1),
            lists_advisory("INTEL-SA-00001"),
            conforming_to(policy, at=service.clock()),
        ):
            (found,) = find_leases(tx, LeaseFilter(), concerns=[concern], at=service.clock())
            assert found.why != ()


def test_a_passport_lease_is_renewed_by_its_own_key_alone(service: Harness) -> None:
    _, release = released(service, Judged().ear(service))
    (lease,) = release.keys
    other = PassportKey.generate()
    ear = Judged(key=other).ear(service)
    with pytest.raises(ReleaseDeniedError) as caught:
        released(service, ear, key=other, renews=(lease.lease_id,))
    assert caught.value.code == "lease-of-another-holder"
    released(service, ear, key=other)
    evidence = replace(Workload().request(service.releases.challenge(), "model"), renews=(lease.lease_id,))
    with pytest.raises(ReleaseDeniedError):
        service.releases.release(evidence)


# -- the wire


def test_a_request_reads_back_as_it_was_written(service: Harness) -> None:
    request = replace(asking(service, Judged().ear(service)), renews=("0a" * 16,))
    assert PassportRequest.from_json(json.loads(json.dumps(request.to_json()))) == request


@pytest.mark.parametrize(
    "change",
    [
        {"ear": ""},
        {"ear": "A" * (MAX_EAR_BYTES * 4 // 3 + 8)},
        {"signature": "AA"},
        {"signature": None},
        {"key": "AA=="},
        {"extra": "x"},
    ],
)
def test_a_passport_of_another_shape_is_refused(change: dict[str, Any]) -> None:
    good = Passport(ear=b"e", key=KEY.bound, signature=bytes(64)).to_json()
    assert Passport.from_json(good).ear == b"e"
    wrong: tuple[Any, ...] = ({**good, **change}, [], None)
    for document in wrong:
        with pytest.raises(AttestError) as caught:
            Passport.from_json(document)
        assert caught.value.code in {"passport-malformed", "base64-invalid"}


@pytest.mark.parametrize(
    "key",
    [
        b"",
        b"\xff",
        cbor_bytes(("attest-passport-key/v1", b"r")),
        cbor_bytes(("attest-passport-key/v2", b"r", bytes(32))),
        cbor_bytes(("attest-passport-key/v1", b"r", bytes(31))),
        cbor_bytes(("attest-passport-key/v1", b"r" * 5000, bytes(32))),
        cbor_bytes({"a": 1}),
    ],
)
def test_something_else_than_bound_keys_is_refused(service: Harness, key: bytes) -> None:
    request = asking(service, Judged().ear(service))
    error = refused(service, replace(request, passport=replace(request.passport, key=key)))
    assert error.code in {"passport-malformed", "cbor-invalid"}


def test_evidence_and_a_passport_are_never_sent_together(service: Harness) -> None:
    with client_of(service) as web:
        passport = asking(service, Judged().ear(service), challenge=challenge_of(web)).to_json()
        evidence = Workload().request(challenge_of(web), "model").to_json()
        assert web.post("/v1/releases", json=passport).status_code == 200
        for wrong in (
            {**evidence, "passport": passport["passport"]},
            {k: v for k, v in evidence.items() if k != "evidence"},
        ):
            answer = web.post("/v1/releases", json=wrong)
            assert (answer.status_code, answer.json()["code"]) == (422, "request-schema")
        assert web.post("/v1/releases", json={**evidence, "passport": None}).status_code in {400, 422}


def test_a_passport_key_shows_and_gives_nothing_away() -> None:
    assert "PrivateKey" not in repr(KEY)
    with pytest.raises(TypeError):
        KEY.__reduce__()


# -- the operator's file


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "verifiers-invalid"),
        ("verifier = 1", "verifiers-invalid"),
        ("[[verifier]]\n", "verifiers-invalid"),
        ('[[verifier]]\nissuer = "a"\nkeys = "jwks.json"\nextra = 1\n', "verifiers-invalid"),
        ('[[verifier]]\nissuer = ""\nkeys = "jwks.json"\n', "verifiers-invalid"),
        ('[[verifier]]\nissuer = "a"\nkeys = "jwks.json"\ntenants = []\n', "verifiers-invalid"),
        ('[[verifier]]\nissuer = "a"\nkeys = "jwks.json"\ntenants = ["No"]\n', "verifiers-invalid"),
        ('[[verifier]]\nissuer = "a"\nkeys = "jwks.json"\n' * 2, "verifiers-invalid"),
        ('[[verifier]]\nissuer = "a"\nkeys = "absent.json"\n', "file-unreadable"),
        ('[[verifier]]\nissuer = "a"\nkeys = "verifiers.toml"\n', "jwks-invalid"),
        ("#" * 70_000, "verifiers-invalid"),
        ("not toml", "verifiers-invalid"),
    ],
)
def test_a_file_of_verifiers_that_is_wrong_is_refused(tmp_path: Path, text: str, code: str) -> None:
    (tmp_path / "jwks.json").write_bytes(issuer_of().jwks(AT))
    path = tmp_path / "verifiers.toml"
    path.write_text(text)
    with pytest.raises(ConfigurationError) as caught:
        read_verifiers(path)
    assert caught.value.code == code
    with pytest.raises(ConfigurationError):
        read_verifiers(tmp_path / "absent.toml")

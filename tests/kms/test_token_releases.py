"""Keys for tokens of other Verifiers through the port of foreign protocols: the same decision, one log entry."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from attest.errors import AttestError, BindingError, VerificationError
from attest.results import VerifiedServiceToken
from kms.controls.admin import freeze
from kms.domain.errors import KeyUnknownError, ReleaseDeniedError
from kms.domain.freezes import target
from kms.domain.keys import Disclosure, KeyReference
from kms.domain.lease_claims import read_claims
from kms.domain.passports import FreshBy
from kms.domain.wires import Wire
from kms.keys.release_settings import ReleaseSettings, set_release_settings
from kms.leases.affected import below
from kms.release.foreign import ForeignRelease, ForeignReleases, TokenProof, TokenTerms
from tests.kms.service_tokens import Claims, Kind, issued, kinds, trust
from tests.kms.support import ACTOR, MATERIAL, MODEL, Harness, live_leases
from tests.results.services import GOOGLE, ITA, MAA, Service

VAULT = "https://vault.example"
KEK = b"the key that a token confirms"
KINDS = kinds(VAULT)
SNP = KINDS["maa sevsnpvm"]
Read = Callable[[VerifiedServiceToken], TokenTerms]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Harness]:
    first = Harness.make(tmp_path)
    first.close()
    harness = first.reopened(
        verifiers_file=trust(tmp_path, MAA, ITA, GOOGLE, "https://ours.example"), allow_simulated=False
    )
    yield harness
    harness.close()


def encrypted(material: bytes | memoryview) -> bytes:
    return b"encrypted " + bytes(material)


def terms(token: VerifiedServiceToken, *, fresh_by: FreshBy | None = FreshBy.BOUND_RECIPIENT) -> TokenTerms:
    """Terms that a protocol reads of a token: here, that its machine committed to one key."""
    assert token.claims["iss"] == token.frame.issuer
    return TokenTerms(key=KEK, fresh_by=fresh_by, denial=None, encrypt=encrypted)


def add(service: Harness, kind: Kind = SNP, *, via: frozenset[Wire] = frozenset(Wire), **more: Disclosure) -> None:
    service.add_key("model", policy=kind.policy)
    settings = ReleaseSettings(disclosure=more.get("disclosure", Disclosure.FULL), lease_seconds=None, via=via)
    set_release_settings(service.services.store, MODEL, settings, actor=ACTOR, at=service.clock())


def token_of(service: Harness, kind: Kind = SNP, **more: Any) -> bytes:  # noqa: ANN401  a header
    return issued(kind.claims(KEK), at=int(service.clock().timestamp()), alg=kind.alg, **more)


def asked(service: Harness, token: bytes, *, key: str = "model", read: Read = terms) -> ForeignRelease:
    proof = TokenProof(
        token=token, context="a protocol/v1", role="workload", nonce=b"n" * 32, audience=VAULT, read=read
    )
    port = ForeignReleases(service.services, service.releases, via=Wire.KBS)
    return port.release_on_token(KeyReference.parse(key), proof, at=service.clock())


def refused(service: Harness, token: bytes, *, read: Read = terms) -> AttestError:
    """Be refused, and find that in the log."""
    before = len(service.decisions())
    with pytest.raises(AttestError) as caught:
        asked(service, token, read=read)
    (entry,) = service.decisions()[before:]
    assert (entry["outcome"], entry["via"]) == ("deny", "kbs")
    assert caught.value.code in {one["code"] for one in entry["reasons"]}  # type: ignore[attr-defined]  # JSON
    with service.services.store.reading() as tx:
        assert live_leases(tx, MODEL, at=service.clock()) == ()
    return caught.value


# -- what opens a key


@pytest.mark.parametrize("kind", KINDS.values(), ids=KINDS)
def test_a_token_of_each_service_opens_a_key_whose_policy_accepts_it(service: Harness, kind: Kind) -> None:
    add(service, kind)
    token = token_of(service, kind)
    found = asked(service, token)
    assert found == ForeignRelease(encrypted=b"encrypted " + MATERIAL, version=1, purpose="model-key")
    (entry,) = service.decisions()
    assert (entry["outcome"], entry["via"], entry["simulated"]) == ("allow", "kbs", False)
    passport = entry["passport"]
    assert passport["issuer"] == kind.issuer  # type: ignore[index]  # JSON
    assert passport["fresh_by"] == "bound-recipient"  # type: ignore[index]  # JSON
    assert token.decode() not in str(service.entries())


@pytest.mark.parametrize("name", KINDS)
def test_a_release_on_a_token_grants_a_lease_of_its_verifier(service: Harness, name: str) -> None:
    add(service, KINDS[name])
    asked(service, token_of(service, KINDS[name]))
    with service.services.store.reading() as tx:
        (lease,) = live_leases(tx, MODEL, at=service.clock())
        claims = tx.leases.claims(lease.claims_digest)
    tee = f"{name.partition(' ')[0]}-token"
    assert (lease.tee, lease.chip, lease.product, lease.simulated) == (tee, None, None, False)
    assert claims is not None
    why = [*below("genoa", "snp", 99)(lease, read_claims(claims))]
    assert why == ["snp: not stated in the Verifier's Attestation Result"]


def test_one_version_of_a_key_is_released_by_its_number(service: Harness) -> None:
    add(service)
    assert asked(service, token_of(service), key="model@1").version == 1
    with pytest.raises(KeyUnknownError):
        asked(service, token_of(service), key="model@2")


# -- what the decision refuses


def test_a_key_that_is_not_released_through_the_protocol_stays_closed(service: Harness) -> None:
    add(service, via=frozenset({Wire.NATIVE}))
    assert refused(service, token_of(service)).code == "via-not-allowed"


def test_a_policy_that_names_another_verifier_refuses(service: Harness) -> None:
    add(service, KINDS["ita tdx"])
    error = refused(service, token_of(service))
    assert isinstance(error, ReleaseDeniedError)
    assert error.code == "policy-not-met"
    assert "policy.verifier" in {check.id for check in error.checks}


def test_what_a_token_does_not_state_counts_against_it(service: Harness) -> None:
    strict = SNP.policy.replace(b'"signing_key": {"unchecked": "the Verifier does not state it"}, ', b"")
    assert strict != SNP.policy
    add(service, Kind(SNP.issuer, SNP.claims, strict))
    error = refused(service, token_of(service))
    assert [check.id for check in error.checks] == ["policy.snp.signing_key"]


def test_a_token_older_than_the_policy_allows_is_refused(service: Harness) -> None:
    add(service)
    token = token_of(service)
    service.clock.forward(seconds=300)
    asked(service, token)
    service.clock.forward(seconds=1)
    with pytest.raises(ReleaseDeniedError) as caught:
        asked(service, token)
    assert [check.id for check in caught.value.checks] == ["policy.verifier.age"]


def test_a_protocol_that_states_no_reason_for_freshness_gets_no_key(service: Harness) -> None:
    add(service)

    def stale(token: VerifiedServiceToken) -> TokenTerms:
        return terms(token, fresh_by=None)

    codes = {check.id for check in refused(service, token_of(service), read=stale).checks}
    assert codes == {"freshness"}
    assert {"not-fresh"} < {one["code"] for one in service.decisions()[-1]["reasons"]}  # type: ignore[attr-defined]  # JSON


def test_a_protocol_can_refuse_what_the_policy_allows(service: Harness) -> None:
    add(service)

    def denying(token: VerifiedServiceToken) -> TokenTerms:
        return TokenTerms(key=KEK, fresh_by=FreshBy.BOUND_RECIPIENT, denial="its own policy", encrypt=encrypted)

    error = refused(service, token_of(service), read=denying)
    assert (error.code, "its own policy" in error.message) == ("release-policy", True)


def test_a_token_that_lacks_what_the_protocol_reads_is_refused_and_logged(service: Harness) -> None:
    add(service)

    def lacking(_token: VerifiedServiceToken) -> TokenTerms:
        raise BindingError("the token has no key", code="test-key-missing")

    assert refused(service, token_of(service), read=lacking).code == "test-key-missing"


def test_a_freeze_holds_for_tokens(service: Harness) -> None:
    add(service)
    freeze(service.services.store, target("product", "milan"), reason="x", actor=ACTOR, at=service.clock())
    assert refused(service, token_of(service)).code == "product-frozen"


def test_a_key_that_discloses_nothing_stays_unknown(service: Harness) -> None:
    add(service, KINDS["ita tdx"], disclosure=Disclosure.NONE)
    with pytest.raises(KeyUnknownError):
        asked(service, token_of(service))


def test_simulated_evidence_behind_a_token_is_refused_though_its_policy_tolerates_it(service: Harness) -> None:
    tolerant = json.dumps({**json.loads(SNP.policy), "simulated": {"unchecked": "a test"}}).encode()
    add(service, Kind(SNP.issuer, SNP.claims, tolerant))
    claims = {**SNP.claims(KEK), "simulated": True}
    assert refused(service, issued(claims, at=int(service.clock().timestamp()))).code == "simulated"
    honest = {**claims, "simulated": False}
    asked(service, issued(honest, at=int(service.clock().timestamp())))


@pytest.mark.parametrize(("stated", "opens"), [({}, False), ({"simulated": True}, False), ({"simulated": False}, True)])
def test_an_issuer_of_the_operators_own_has_to_state_that_evidence_is_not_simulated(
    service: Harness, stated: Claims, *, opens: bool
) -> None:
    issuer = "https://ours.example"
    add(service, Kind(issuer, SNP.claims, SNP.policy.replace(MAA.encode(), issuer.encode())))
    token = issued({**SNP.claims(KEK), "iss": issuer, **stated}, at=int(service.clock().timestamp()))
    if opens:
        asked(service, token)
    else:
        assert "policy.not_simulated" in {check.id for check in refused(service, token).checks}


# -- tokens that are not genuine


def test_a_token_of_an_issuer_without_trust_is_refused_and_never_retried(service: Harness) -> None:
    add(service)
    other = {**SNP.claims(KEK), "iss": "https://other.eus.attest.azure.net"}
    error = refused(service, issued(other, at=int(service.clock().timestamp())))
    assert (error.code, type(error)) == ("token-issuer-untrusted", VerificationError)


@pytest.mark.parametrize(
    ("header", "codes"),
    [
        ({"kid": "another"}, {"token-key-unknown"}),
        ({"crit": ["x"]}, {"token-malformed"}),
        ({"of": Service(number=1)}, {"token-signature-invalid"}),
    ],
)
def test_a_token_of_another_key_or_with_a_header_of_its_own_is_refused(
    service: Harness, header: Claims, codes: set[str]
) -> None:
    add(service)
    assert refused(service, token_of(service, **header)).code in codes


def test_an_expired_token_and_one_of_the_future_are_refused(service: Harness) -> None:
    add(service)
    now = int(service.clock().timestamp())
    for issued_at, code in ((now - 3600, "token-expired"), (now + 61, "token-not-yet-valid")):
        assert refused(service, issued(SNP.claims(KEK), at=issued_at)).code == code


def test_a_token_for_another_party_is_refused(service: Harness) -> None:
    google = KINDS["google"]
    add(service, google)
    claims = {**google.claims(KEK), "aud": "https://another.example"}
    assert refused(service, issued(claims, at=int(service.clock().timestamp()))).code == "token-audience-mismatch"

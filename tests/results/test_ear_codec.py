"""EARs in JSON and CBOR: the known answers bit by bit, conversion both ways, and everything that is no EAR."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.checks import Tier
from attest.encoding import base64url_text
from attest.errors import AttestError, EvidenceError, UnsupportedError
from attest.results.cbor import claims_bytes, claims_value
from attest.results.ear import (
    EAR_PROFILE,
    LEGACY_PROFILES,
    VECTOR_LABELS,
    Ear,
    EarAppraisal,
    TrustVector,
    VerifierId,
    tier_of_value,
    worst,
)
from attest.results.ear_codec import ear_from_cbor, ear_from_json, ear_to_cbor, ear_to_json
from attest.results.ear_details import BoundKey, CheckRef, EarDetails, PolicyRef, Relaxation, ReliedOn, TcbState
from tests.results.ear_vectors import EAR, NONCE, PAYLOAD_HEX

VERAISON, DRAFT_2, TRUSTEE = LEGACY_PROFILES
DETAILS = EarDetails(
    simulated=True,
    affirmed=False,
    freshness="matched",
    evidence=bytes(48),
    policies=(PolicyRef(name="p", version=3, digest=bytes(32), references=bytes(range(32))),),
    endorsements=(ReliedOn(kind="crl", item="cpu0", sha256=bytes(32), begins=1, ends=2, number=3),),
    binding=BoundKey(context="kms-release/v1", role="workload", audience="kms", key=bytes(32)),
    failed=(CheckRef(check="policy.kind", item="cpu0"), CheckRef(check="freshness")),
    not_evaluated=(CheckRef(check="snp.revocation", item="cpu0"),),
    relaxed=(Relaxation(check="revocation", reason="no network"),),
    tcb=(TcbState(item="cpu0", status="OutOfDate", date=5, advisories=("INTEL-SA-00001",)),),
    ignored_items=("odd",),
)
FULL = replace(
    EAR,
    issuer="https://verifier.example",
    subject="machine 1",
    audience=("kms-a", "kms-b"),
    not_before=EAR.issued_at,
    token_id=base64url_text(bytes(16)),
    raw_evidence=b"evidence",
    details=DETAILS,
    submods={**EAR.submods, "cpu0": replace(EAR.submods["cpu0"], nonce=(NONCE,), profile="x", key_attestation=b"spki")},
)
JSON: dict[str, Any] = dict(ear_to_json(FULL))


def json_refusal(claims: Any) -> AttestError:  # noqa: ANN401  claims of any shape
    with pytest.raises(EvidenceError) as outcome:
        ear_from_json(claims)
    return outcome.value


def changed(path: str, value: object) -> dict[str, Any]:
    claims: dict[str, Any] = copy.deepcopy(JSON)
    *parents, last = path.split("/")
    target = claims
    for parent in parents:
        target = target[parent]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return claims


# -- known answers


def test_the_known_payload_comes_out_bit_by_bit() -> None:
    assert claims_bytes(ear_to_cbor(EAR)).hex() == PAYLOAD_HEX


def test_the_known_payload_reads_as_the_same_ear() -> None:
    claims = claims_value(bytes.fromhex(PAYLOAD_HEX), what="payload")
    assert isinstance(claims, dict)
    assert ear_from_cbor(claims) == EAR == ear_from_json(ear_to_json(EAR))


def test_an_ear_with_every_member_survives_both_encodings() -> None:
    claims = claims_value(claims_bytes(ear_to_cbor(FULL)), what="payload")
    assert isinstance(claims, dict)
    assert ear_from_cbor(claims) == FULL == ear_from_json(JSON)


# -- tiers


@pytest.mark.parametrize(
    ("values", "tier"),
    [
        ((-1, 0, 1), Tier.NONE),
        ((2, 31, -2, -32), Tier.AFFIRMING),
        ((32, 95, -33, -96), Tier.WARNING),
        ((96, 127, -97, -128), Tier.CONTRAINDICATED),
    ],
)
def test_each_tier_has_its_values_to_the_bounds(values: tuple[int, ...], tier: Tier) -> None:
    assert {tier_of_value(value) for value in values} == {tier}


def test_none_is_not_hidden_behind_affirming() -> None:
    assert worst([Tier.AFFIRMING, Tier.NONE]) is Tier.NONE
    assert worst([]) is Tier.NONE
    assert TrustVector(hardware=2, executables=1).tier is Tier.NONE
    assert TrustVector(hardware=2, executables=-1).tier is Tier.NONE
    assert TrustVector(hardware=0).tier is Tier.NONE


def test_a_claim_of_value_zero_is_the_same_as_an_absent_one() -> None:
    assert TrustVector(hardware=2, executables=0).tier is Tier.AFFIRMING


# -- what is no EAR

REQUIRED = (
    "eat_profile",
    "iat",
    "ear_verifier_id",
    "submods",
    "submods/cpu0/ear_status",
    "ear_verifier_id/developer",
    "ear_verifier_id/build",
    "attest_kms_result/version",
    "attest_kms_result/simulated",
    "attest_kms_result/affirmed",
    "attest_kms_result/freshness",
    "attest_kms_result/evidence",
    "attest_kms_result/policies",
    "attest_kms_result/binding/key",
)


@pytest.mark.parametrize("path", REQUIRED)
def test_each_mandatory_member_is_missed(path: str) -> None:
    error = json_refusal(changed(path, ...))
    assert error.code == "ear-malformed"
    assert path.rpartition("/")[2] in error.message


PATHS = [
    *JSON,
    *(f"submods/cpu0/{name}" for name in JSON["submods"]["cpu0"]),
    *(f"attest_kms_result/{name}" for name in JSON["attest_kms_result"]),
    *(f"attest_kms_result/binding/{name}" for name in ("context", "role", "audience", "key")),
    "submods/cpu0",
    "submods/cpu0/ear_trustworthiness_vector/hardware",
    "submods/cpu0/ear_veraison_key_attestation/akpub",
    "ear_verifier_id/build",
]


@pytest.mark.parametrize("value", [None, True, 1.5, {"x": 1}, [[]], [1], "", "\n", -1, {}], ids=repr)
@pytest.mark.parametrize("path", PATHS)
def test_each_member_of_another_type_is_refused(path: str, value: object) -> None:
    details = "attest_kms_result"
    fits: set[str] = set()
    if value == 1:
        fits = {f"{details}/version"}
    if value is True:
        fits = {f"{details}/simulated", f"{details}/affirmed"}
    if value in ("", "\n"):
        fits = {f"{details}/freshness", *(f"{details}/binding/{name}" for name in ("context", "role", "audience"))}
    if value == "":
        fits |= {"ear_raw_evidence", "submods/cpu0/ear_veraison_key_attestation/akpub"}
    if value == -1:
        fits = {"submods/cpu0/ear_trustworthiness_vector/hardware"}
    if path in fits:
        return
    assert json_refusal(changed(path, value)).code in {"ear-malformed", "ear-profile-unknown"}


def test_an_empty_vector_is_refused_as_it_must_be_left_out() -> None:
    assert json_refusal(changed("submods/cpu0/ear_trustworthiness_vector", {})).code == "ear-malformed"
    left_out = ear_from_json(changed("submods/cpu0/ear_trustworthiness_vector", ...))
    assert left_out.submods["cpu0"].founded is Tier.NONE


@pytest.mark.parametrize("moment", [1767225600.0, 1.7e9, "1767225600", True, -1, 10**12])
@pytest.mark.parametrize("name", ["iat", "exp", "nbf"])
def test_a_time_is_whole_seconds(name: str, moment: object) -> None:
    assert json_refusal(changed(name, moment)).code == "ear-malformed"


@pytest.mark.parametrize(
    "profile", ["tag:ietf.org,2026:rats/ear#04", "tag:ietf.org,2026:rats/ear", "", 3, ["tag:ietf.org,2026:rats/ear#03"]]
)
def test_an_unknown_profile_is_refused(profile: object) -> None:
    error = json_refusal(changed("eat_profile", profile))
    assert (type(error), error.code) == (UnsupportedError, "ear-profile-unknown")
    with pytest.raises(UnsupportedError):
        ear_from_cbor({**ear_to_cbor(EAR), 265: str(profile)})


@pytest.mark.parametrize("size", [7, 65, 0])
def test_a_nonce_of_seven_or_sixty_five_bytes_is_refused(size: int) -> None:
    assert json_refusal(changed("eat_nonce", base64url_text(bytes(size)))).code == "ear-malformed"
    assert json_refusal(changed("submods/cpu0/eat_nonce", base64url_text(bytes(size)))).code == "ear-malformed"
    with pytest.raises(EvidenceError):
        ear_from_cbor({**ear_to_cbor(EAR), 10: bytes(size)})


@pytest.mark.parametrize("size", [8, 64])
def test_a_nonce_of_eight_or_sixty_four_bytes_is_read(size: int) -> None:
    assert ear_from_json(changed("eat_nonce", base64url_text(bytes(size)))).nonce == (bytes(size),)


def test_an_array_of_nonces_has_two_at_least() -> None:
    nonce = base64url_text(NONCE)
    assert ear_from_json(changed("eat_nonce", [nonce, nonce])).nonce == (NONCE, NONCE)
    assert json_refusal(changed("eat_nonce", [nonce])).code == "ear-malformed"
    assert json_refusal(changed("eat_nonce", [nonce] * 17)).code == "ear-malformed"


@pytest.mark.parametrize("value", [-129, 128, 2.0, "2", None, True])
def test_a_claim_of_the_vector_is_a_signed_byte(value: object) -> None:
    assert json_refusal(changed("submods/cpu0/ear_trustworthiness_vector/hardware", value)).code == "ear-malformed"


@pytest.mark.parametrize(
    "path",
    ["ear_verifier_id/extra", "submods/cpu0/ear_trustworthiness_vector/firmware", "attest_kms_result/extra",
     "attest_kms_result/binding/extra", "submods/cpu0/ear_veraison_key_attestation/extra"],
)  # fmt: skip
def test_closed_maps_refuse_unknown_members(path: str) -> None:
    assert json_refusal(changed(path, 2)).code == "ear-malformed"


def test_claims_that_are_not_understood_are_passed_over_and_told() -> None:
    claims = changed("x-other", {"a": 1})
    claims["submods"]["cpu0"]["y-other"] = 1
    assert ear_from_json(claims) == FULL
    assert set(ear_from_json(claims).ignored) == {"x-other", "submods.cpu0.y-other"}


@pytest.mark.parametrize("label", [8, -1, True, "hardware"])
def test_a_label_of_the_vector_is_one_of_eight_numbers_in_cbor(label: object) -> None:
    claims: dict[Any, Any] = dict(ear_to_cbor(EAR))
    claims[266] = {"cpu0": {1000: 2, 1001: {label: 2}}}
    with pytest.raises(EvidenceError):
        ear_from_cbor(claims)


@pytest.mark.parametrize("tier", [1, 3, 33, "affirming", True, None])
def test_a_tier_is_one_of_four_numbers_in_cbor(tier: object) -> None:
    claims: dict[Any, Any] = {**ear_to_cbor(EAR), 1000: tier}
    with pytest.raises(EvidenceError):
        ear_from_cbor(claims)


def test_another_version_of_our_extension_is_refused_rather_than_half_understood() -> None:
    assert json_refusal(changed("attest_kms_result/version", 2)).code == "ear-malformed"


# -- older profiles


def old_claims(profile: str = VERAISON) -> dict[str, Any]:
    return {
        "eat_profile": profile,
        "iat": 1767225600,
        "ear.verifier-id": {"developer": "https://veraison-project.org", "build": "rrtrap-v1.0.0"},
        "submods": {
            "CCA_SSD_PLATFORM": {
                "ear.status": "affirming",
                "ear.trustworthiness-vector": {
                    "instance-identity": 2,
                    "executables": 2,
                    "hardware": 2,
                    "file-system": 0,
                },
                "ear.appraisal-policy-id": "policy://test/01234",
                "ear.veraison.key-attestation": {"akpub": "AAAA"},
                "ear.veraison.annotated-evidence": {"a": 1.5},
            }
        },
    }


@pytest.mark.parametrize("profile", LEGACY_PROFILES)
def test_names_of_older_profiles_are_translated_and_the_profile_remembered(profile: str) -> None:
    ear = ear_from_json(old_claims(profile))
    one = ear.submods["CCA_SSD_PLATFORM"]
    assert ear.profile == profile
    assert ear.verifier == VerifierId(developer="https://veraison-project.org", build="rrtrap-v1.0.0")
    assert one.vector == TrustVector(instance_identity=2, executables=2, hardware=2, file_system=0)
    assert (one.policy_ids, one.key_attestation, one.founded) == (("policy://test/01234",), b"\0\0\0", Tier.AFFIRMING)
    assert ear.ignored == ("submods.CCA_SSD_PLATFORM.ear_veraison_annotated_evidence",)


def test_the_single_policy_id_of_older_profiles_is_read_in_cbor_under_those_only() -> None:
    claims: dict[Any, Any] = {**ear_to_cbor(EAR), 265: VERAISON, 266: {"cpu0": {1000: 2, 1001: {4: 2}, 1003: "p"}}}
    assert ear_from_cbor(claims).submods["cpu0"].policy_ids == ("p",)
    with pytest.raises(EvidenceError):
        ear_from_cbor({**claims, 265: EAR_PROFILE})


def test_old_names_under_the_new_profile_are_refused() -> None:
    claims = old_claims(EAR_PROFILE)
    assert json_refusal(claims).code == "ear-malformed"
    assert json_refusal({**JSON, "ear.status": "warning"}).code == "ear-malformed"
    assert json_refusal(changed("submods/cpu0/ear.appraisal-policy-id", "x")).code == "ear-malformed"


def test_new_names_under_an_old_profile_are_refused() -> None:
    assert json_refusal({**old_claims(), "ear_status": "none"}).code == "ear-malformed"
    assert json_refusal({**JSON, "eat_profile": VERAISON}).code == "ear-malformed"


def test_one_claim_under_two_old_names_is_refused() -> None:
    claims = old_claims(DRAFT_2)
    claims["submods"]["CCA_SSD_PLATFORM"]["ear.appraisal-policy-ids"] = ["other"]
    assert json_refusal(claims).code == "ear-malformed"


def test_an_ear_of_an_older_profile_is_never_written() -> None:
    old = ear_from_json(old_claims(TRUSTEE))
    for write in (ear_to_json, ear_to_cbor):
        with pytest.raises(ValueError, match="read only"):
            write(old)


def test_a_token_id_that_is_no_base64url_has_no_cti() -> None:
    with pytest.raises(ValueError, match="jti"):
        ear_to_cbor(replace(EAR, token_id="no base64!"))


# -- the model refuses what no encoding may carry


@pytest.mark.parametrize(
    "build",
    [
        TrustVector,
        lambda: TrustVector(hardware=128),
        lambda: TrustVector.of({"firmware": 2}),
        lambda: VerifierId(developer="", build="x"),
        lambda: VerifierId(developer="x", build="\x00"),
        lambda: replace(EAR, submods={}),
        lambda: replace(EAR, submods={f"d{i}": EarAppraisal(status=Tier.NONE) for i in range(65)}),
        lambda: replace(EAR, submods={"": EarAppraisal(status=Tier.NONE)}),
        lambda: replace(EAR, profile="mine"),
        lambda: replace(EAR, issued_at=-1),
        lambda: replace(EAR, nonce=(bytes(7),)),
        lambda: replace(EAR, audience=tuple(map(str, range(17)))),
        lambda: EarAppraisal(status=Tier.NONE, policy_ids=("x",) * 33),
    ],
)
def test_the_model_refuses_what_no_ear_may_say(build: Any) -> None:  # noqa: ANN401
    with pytest.raises(ValueError, match=r"."):
        build()


# -- properties

WORDS = st.text(st.characters(categories=("L", "N", "P")), min_size=1, max_size=20)
NONCES = st.lists(st.binary(min_size=8, max_size=64), max_size=3).map(tuple)
VECTORS = st.dictionaries(st.sampled_from(VECTOR_LABELS), st.integers(-128, 127), min_size=1).map(TrustVector.of)
MOMENTS = st.integers(0, 253402300799)
APPRAISALS = st.builds(
    EarAppraisal,
    status=st.sampled_from(Tier),
    vector=st.none() | VECTORS,
    policy_ids=st.lists(WORDS, max_size=3).map(tuple),
    profile=st.none() | WORDS,
    nonce=NONCES,
    key_attestation=st.none() | st.binary(max_size=40),
)
EARS = st.builds(
    Ear,
    issued_at=MOMENTS,
    verifier=st.builds(VerifierId, developer=WORDS, build=WORDS),
    submods=st.dictionaries(WORDS, APPRAISALS, min_size=1, max_size=3),
    profile=st.just(EAR_PROFILE),
    status=st.none() | st.sampled_from(Tier),
    issuer=st.none() | WORDS,
    subject=st.none() | WORDS,
    audience=st.lists(WORDS, max_size=3).map(tuple),
    expires=st.none() | MOMENTS,
    not_before=st.none() | MOMENTS,
    token_id=st.none() | st.binary(min_size=1, max_size=24).map(base64url_text),
    nonce=NONCES,
    raw_evidence=st.none() | st.binary(max_size=40),
    details=st.none() | st.just(DETAILS),
    ignored=st.just(()),
)


@given(ear=EARS)
def test_an_ear_converted_both_ways_comes_out_equal(ear: Ear) -> None:
    cbor = claims_bytes(ear_to_cbor(ear_from_json(ear_to_json(ear))))
    claims = claims_value(cbor, what="payload")
    assert isinstance(claims, dict)
    assert ear_from_cbor(claims) == ear
    assert claims_bytes(ear_to_cbor(ear_from_cbor(claims))) == cbor


@given(tiers=st.lists(st.sampled_from(Tier), min_size=1), more=st.sampled_from(Tier))
def test_one_more_tier_never_makes_a_set_better(tiers: list[Tier], more: Tier) -> None:
    order = [Tier.CONTRAINDICATED, Tier.NONE, Tier.WARNING, Tier.AFFIRMING]
    assert order.index(worst([*tiers, more])) <= order.index(worst(tiers))


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5) | st.sampled_from([*JSON]), inner),
    max_leaves=8,
)


def codes_of(read: Callable[[], Ear]) -> set[str]:
    try:
        read()
    except AttestError as exc:
        return {exc.code}
    return set()


DOCUMENTED = {"ear-malformed", "ear-profile-unknown"}


@given(path=st.sampled_from(PATHS), value=ANYTHING)
def test_any_value_anywhere_is_read_or_refused_with_a_documented_error(path: str, value: object) -> None:
    assert codes_of(lambda: ear_from_json(changed(path, value))) <= DOCUMENTED


@given(key=st.integers(-80000, 2000), value=ANYTHING)
def test_any_cbor_claim_is_read_or_refused_with_a_documented_error(key: int, value: Any) -> None:  # noqa: ANN401
    assert codes_of(lambda: ear_from_cbor({**ear_to_cbor(FULL), key: value})) <= DOCUMENTED

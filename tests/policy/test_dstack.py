"""Demands on what dstack measured: reading, rules, findings, drafts and differences."""

import json
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from attest.appraisal import AttestationResult, appraise
from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.errors import ConfigurationError
from attest.evidence.dstack.facts import DstackFacts, KeyProvider
from attest.evidence.envelope import MEDIA_DSTACK_LOG, EvidenceItem
from attest.policy.authoring.comparison import Effect
from attest.policy.authoring.draft_sections import dstack_sections
from attest.policy.authoring.explanation import explanation_text
from attest.policy.authoring.lint import lint_policy
from attest.policy.authoring.lint_findings import Severity
from attest.policy.authoring.policy_diff import diff_policies
from attest.policy.loader import load_policy
from attest.policy.model import PolicyDocument, decode_policy
from attest.verification import VerifiedEvidence, verify
from attest_simulator.intel import SimulatedTd
from attest_simulator.intel.eventlog import LogEntry, MeasuredEvent
from tests.evidence.dstack.made import APP_ID, COMPOSE_HASH, GUEST, IMAGE, KEY_ID, Guest, event
from tests.policy.intel_documents import AT, FRESH, PLATFORM, REPORT_DATA, collateral, quote_evidence, tdx_document

OTHER = "ee" * 32
DEMANDS: dict[str, Any] = {
    "compose_hashes": [OTHER, COMPOSE_HASH.hex().upper()],
    "os_images": [IMAGE.hex()],
    "app_ids": [APP_ID.hex()],
    "key_providers": [{"name": "tpm"}, {"name": "kms", "id": KEY_ID.hex().upper()}],
}


def text(**dstack: object) -> bytes:
    """Return a policy with demands on registers and on dstack."""
    document = tdx_document(rtmr1={"unchecked": "not here"}, rtmr2={"unchecked": "not here"})
    return json.dumps({**document, "dstack": dstack}).encode()


def decoded(**dstack: object) -> PolicyDocument:
    return decode_policy(json.loads(text(**dstack)))


def refused(data: bytes) -> ConfigurationError:
    with pytest.raises(ConfigurationError) as caught:
        load_policy(data)
    assert caught.value.code == "policy-invalid"
    return caught.value


def verified(guest: Guest = GUEST, *, log: str | None = "dstack") -> VerifiedEvidence:
    """Verify a fresh quote of a made guest, with its log."""
    entries = tuple(
        LogEntry(
            index=entry["imr"] + 1,
            event=MeasuredEvent(kind=entry["event_type"], data=b"", digest=bytes.fromhex(entry["digest"])),
        )
        for entry in guest.entries
    )
    plain = SimulatedTd(platform=PLATFORM)
    td = replace(plain, log=entries, mr_config_id=guest.mr_config_id) if log == "dstack" else plain
    evidence = quote_evidence(td.quote(REPORT_DATA, version=5), plain.event_log() if log == "ccel" else None)
    if log == "dstack":
        value = json.dumps(guest.entries).encode()
        item = EvidenceItem(name="eventlog", media_type=MEDIA_DSTACK_LOG, value=value)
        evidence = replace(evidence, items=(*evidence.items, item))
    return verify(
        evidence,
        endorsements=collateral("tdx"),
        anchors=TrustAnchors.simulation(),
        at=AT,
        expected=FRESH,
        unchecked=(Unchecked(check="eventlog", reason="a test"),) if log is None else (),
    )


def outcomes(result: AttestationResult) -> Mapping[str, Outcome]:
    return {
        check.id.removeprefix("policy.dstack."): check.outcome
        for check in result.checks
        if check.id.startswith("policy.dstack.")
    }


def test_what_a_policy_names_is_accepted() -> None:
    result = appraise(verified(), policy=load_policy(text(**DEMANDS)), at=AT)
    assert outcomes(result) == dict.fromkeys(DEMANDS, Outcome.PASS)
    result.require()


@pytest.mark.parametrize(
    ("key", "accepted"),
    [
        ("compose_hashes", [OTHER]),
        ("os_images", [OTHER]),
        ("app_ids", ["ee" * 20]),
        ("key_providers", [{"name": "tpm"}]),
        ("key_providers", [{"name": "kms", "id": "3059"}]),
        ("key_providers", [{"name": "km", "id": KEY_ID.hex()}]),
    ],
)
def test_what_it_does_not_name_is_refused(key: str, accepted: object) -> None:
    result = appraise(verified(), policy=load_policy(text(**{**DEMANDS, key: accepted})), at=AT)
    assert [name for name, outcome in outcomes(result).items() if outcome is Outcome.FAIL] == [key]


def test_a_provider_without_an_id_accepts_any_of_its_name() -> None:
    result = appraise(verified(), policy=load_policy(text(key_providers=[{"name": "kms"}])), at=AT)
    assert outcomes(result) == {"key_providers": Outcome.PASS}


def with_provider(name: str) -> Guest:
    """Return a guest whose log names this provider of its keys."""
    stated = event("key-provider", json.dumps({"name": name, "id": KEY_ID.hex()}).encode())
    events = tuple(stated if one["event"] == "key-provider" else one for one in GUEST.runtime)
    return replace(GUEST, runtime=events, mr_config_id=bytes(48))


@pytest.mark.parametrize("name", ["kms:", "kms:more", "kms-2", "KMS", ""])
def test_a_provider_whose_name_only_begins_alike_is_another(name: str) -> None:
    policy = load_policy(text(key_providers=[{"name": "kms"}]))
    assert outcomes(appraise(verified(with_provider(name)), policy=policy, at=AT)) == {"key_providers": Outcome.FAIL}


@pytest.mark.parametrize("name", ["compose-hash", "os-image-hash", "app-id", "key-provider"])
def test_a_fact_that_the_log_does_not_state_fails_its_list(name: str) -> None:
    guest = replace(GUEST.without(name), mr_config_id=bytes(48))
    result = appraise(verified(guest), policy=load_policy(text(**DEMANDS)), at=AT)
    assert list(outcomes(result).values()).count(Outcome.FAIL) == 1


def test_without_a_log_every_demand_fails_unless_the_log_is_unchecked() -> None:
    policy = load_policy(text(**DEMANDS))
    none = verified(log=None)
    assert set(outcomes(appraise(none, policy=policy, at=AT)).values()) == {Outcome.NOT_EVALUATED}
    strict = appraise(none._replace(unchecked=()), policy=policy, at=AT)
    assert set(outcomes(strict).values()) == {Outcome.FAIL}


def test_a_log_of_another_kind_states_nothing_and_excuses_nothing() -> None:
    relaxed = verified(log="ccel")._replace(unchecked=(Unchecked(check="eventlog", reason="a test"),))
    result = appraise(relaxed, policy=load_policy(text(**DEMANDS)), at=AT)
    assert set(outcomes(result).values()) == {Outcome.FAIL}


def test_a_relaxed_demand_shows_its_reason() -> None:
    result = appraise(verified(), policy=load_policy(text(compose_hashes={"unchecked": "a trial"})), at=AT)
    (check,) = [check for check in result.checks if check.id == "policy.dstack.compose_hashes"]
    assert (check.outcome, check.expected) == (Outcome.NOT_EVALUATED, "unchecked: a trial")


@pytest.mark.parametrize(
    "dstack",
    [
        {},
        {"compose_hashes": []},
        {"compose_hashes": ["00"]},
        {"compose_hashes": [OTHER], "compose_hash": [OTHER]},
        {"app_ids": ["00" * 32]},
        {"os_images": "x"},
        {"key_providers": [{"id": "00"}]},
        {"key_providers": [{"name": "K M S"}]},
        {"key_providers": [{"name": "kms", "id": ""}]},
        {"key_providers": [{"name": "kms", "id": "zz"}]},
        {"key_providers": ["kms"]},
    ],
)
def test_another_content_of_the_section_does_not_load(dstack: dict[str, Any]) -> None:
    assert (refused(text(**dstack)).field or "").startswith("dstack")


def test_the_section_needs_demands_on_kernel_and_root_file_system_beside_it() -> None:
    whole = json.loads(text(**DEMANDS))
    without: list[dict[str, Any]] = [{name: value for name, value in whole.items() if name != "tdx"}]
    without += [{**whole, "tdx": {k: v for k, v in whole["tdx"].items() if k != left}} for left in ("rtmr1", "rtmr2")]
    for document in without:
        assert refused(json.dumps(document).encode()).field == "dstack"
    azure = {**whole, "azure": {"pcr4": {"unchecked": "not here"}}}
    assert refused(json.dumps(azure).encode()).field == "dstack"
    assert load_policy(json.dumps({**_head(whole), "any_of": [_body(whole)]}).encode()).kinds == ("tdx",)


def _head(whole: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in whole.items() if name not in ("tdx", "dstack")}


def _body(whole: dict[str, Any]) -> dict[str, Any]:
    return {name: whole[name] for name in ("tdx", "dstack")}


# -- around it


def findings(**dstack: object) -> list[tuple[str, Severity]]:
    document = replace(decoded(**dstack), simulated=decode_policy(_real()).simulated)
    found = lint_policy(document, at=datetime(2026, 6, 1, tzinfo=UTC))
    return [(finding.rule, finding.severity) for finding in found if finding.path.startswith("dstack")]


def _real() -> dict[str, Any]:
    return {name: value for name, value in json.loads(text(**DEMANDS)).items() if name != "simulated"}


def test_lint_names_a_policy_that_accepts_any_app_compose() -> None:
    assert findings(**DEMANDS) == []
    assert findings(app_ids=[APP_ID.hex()]) == [("compose-not-demanded", Severity.ERROR)]


def test_lint_names_a_kms_without_an_id() -> None:
    assert findings(**{**DEMANDS, "key_providers": [{"name": "tpm"}, {"name": "kms"}]}) == [
        ("over-broad", Severity.WARNING)
    ]


def test_explain_says_each_demand_in_words() -> None:
    policy = load_policy(text(**DEMANDS))
    told = explanation_text(policy, {})
    assert f"The hash of the app-compose that dstack started must be one of {OTHER}, {COMPOSE_HASH.hex()}." in told
    assert f"The provider of the guest's keys must be one of tpm with any id, kms {KEY_ID.hex()}." in told


def test_a_draft_demands_what_the_log_states() -> None:
    facts = DstackFacts(compose_hash=COMPOSE_HASH, key_provider=KeyProvider(name="kms", id=KEY_ID))
    (section,) = dstack_sections(facts)
    assert section.demands == {
        "compose_hashes": [COMPOSE_HASH.hex()],
        "key_providers": [{"name": "kms", "id": KEY_ID.hex()}],
    }
    (nobody,) = dstack_sections(DstackFacts(os_image_hash=IMAGE, key_provider=KeyProvider(name="none", id=b"")))
    assert nobody.demands["key_providers"] == [{"name": "none"}]
    assert dstack_sections(DstackFacts()) == []


def test_a_difference_has_its_direction() -> None:
    one, two = decoded(compose_hashes=[OTHER]), decoded(compose_hashes=[OTHER, COMPOSE_HASH.hex()])
    without = replace(one, dstack=None)
    assert diff_policies(one, two).effect is Effect.LOOSER
    assert diff_policies(without, one).effect is Effect.STRICTER
    assert diff_policies(one, without).effect is Effect.LOOSER

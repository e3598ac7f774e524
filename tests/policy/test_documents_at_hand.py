"""Policies that name documents of reference values: read, linted, compared and signed, with and without them."""

import dataclasses
import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from attest.errors import ConfigurationError
from attest.policy.authoring.lint import lint_policy
from attest.policy.authoring.lint_findings import LintFinding
from attest.policy.authoring.policy_cases import load_tests
from attest.policy.authoring.policy_diff import diff_policies
from attest.policy.model import decode_policy
from attest.policy.reference_values.reference_documents import ReferenceDocument, decode_reference_document
from attest.policy.signatures import identity_of, sign_policy
from attest.policy.signed_documents import read_signed_document
from attest.policy.signing_keys import key_id
from tests.policy.documents import MEASUREMENT, STRICT

Json = dict[str, Any]
AT = datetime(2026, 6, 1, tzinfo=UTC)
ALICE, BOB, STRANGER = (Ed25519PrivateKey.from_private_bytes(seed * 32) for seed in (b"a", b"b", b"s"))
OTHER = "ab" * 48
IMAGES: Json = {
    "schema": "attest.references/1",
    "name": "images",
    "version": 3,
    "origin": "the build",
    "issued": "2026-01-01T00:00:00Z",
    "expires": "2027-01-01T00:00:00Z",
    "values": {"image": {"kind": "snp-measurement", "values": [MEASUREMENT]}},
}


def images(**changes: Any) -> ReferenceDocument:  # noqa: ANN401  any JSON
    return decode_reference_document(IMAGES | changes)


def by_signers(*keys: Ed25519PrivateKey, **more: Any) -> Json:  # noqa: ANN401  any JSON
    return {"document": "images", "signers": [key_id(key.public_key()).hex() for key in keys], **more}


def by_digest(document: ReferenceDocument) -> Json:
    return {"document": "images", "sha256": document.digest.hex()}


def policy(*rows: Json, own: Json | None = None, **snp: Any) -> Json:  # noqa: ANN401  any JSON
    changed = {name: value for name, value in STRICT.items() if name != "reference_values"}
    changed["references"] = list(rows) or [by_digest(images())]
    changed["snp"] = STRICT["snp"] | snp
    return changed | ({} if own is None else {"reference_values": own})


def lint(document: Json, *given: ReferenceDocument, at: datetime = AT) -> list[LintFinding]:
    documents = {one.name: one for one in given}
    hardware = {name: value for name, value in document.items() if name != "simulated"}
    decoded = decode_policy(hardware, documents=documents, incomplete=True)
    return [one for one in lint_policy(decoded, at=at, documents=documents) if one.rule.startswith("reference")]


def found(document: Json, *given: ReferenceDocument, at: datetime = AT) -> list[tuple[str, str, str]]:
    return [(one.rule, str(one.severity), one.path) for one in lint(document, *given, at=at)]


# -- linting


def test_a_document_that_was_not_given_is_told_and_the_rest_is_linted() -> None:
    assert found(policy()) == [("references-missing", "warning", "references[0]")]
    own = {"unused": {"values": [OTHER], "origin": "x", "expires": "2027-01-01T00:00:00Z"}}
    assert ("reference-unused", "warning", "reference_values.unused") in found(policy(own=own))


def test_a_name_of_the_policys_own_must_still_fit() -> None:
    short = {"image": {"values": ["cd" * 32], "origin": "x"}}
    for names in (["image"], ["image", "elsewhere"]):
        with pytest.raises(ConfigurationError) as caught:
            decode_policy(policy(own=short, measurement=names), incomplete=True)
        assert caught.value.code == "policy-invalid"
    long = {"image": {"values": [OTHER], "origin": "x"}}
    decode_policy(policy(own=long, measurement=["image", "elsewhere"]), incomplete=True)


def test_a_current_document_is_nothing_to_speak_of() -> None:
    assert found(policy(), images()) == []


def test_a_document_that_is_another_too_old_or_signed_by_too_few_is_an_error() -> None:
    refused = [("references-not-accepted", "error", "references[0]")]
    assert found(policy(), images(version=4)) == refused
    assert found(policy(by_signers(ALICE)), images()) == refused
    two = policy(by_signers(ALICE, BOB, at_least=2))
    one = images().signed_by([key_id(ALICE.public_key())])
    assert found(two, one) == refused
    (told,) = lint(two, one)
    assert "2 of 2 signers" in told.why
    old = policy(by_signers(ALICE, minimum_version=4))
    (told,) = lint(old, one)
    assert (told.rule, "version 4 or newer" in told.why) == ("references-not-accepted", True)


@pytest.mark.parametrize(
    ("ends", "finding"),
    [
        (AT - timedelta(seconds=1), ("references-expired", "error", "references[0].expires")),
        (AT, ("references-expires-soon", "warning", "references[0].expires")),
        (AT + timedelta(days=30), ("references-expires-soon", "warning", "references[0].expires")),
        (AT + timedelta(days=31), None),
    ],
)
def test_the_end_of_a_document_is_told_once(ends: datetime, finding: tuple[str, str, str] | None) -> None:
    document = images(expires=ends.isoformat().replace("+00:00", "Z"))
    assert found(policy(by_digest(document)), document) == ([finding] if finding else [])


def test_a_value_that_ends_before_its_document_is_told_where_it_is_used() -> None:
    entry = {"kind": "snp-measurement", "expires": "2026-05-01T00:00:00Z"}
    values = {"image": {**entry, "values": [MEASUREMENT]}, "other": {**entry, "values": [OTHER]}}
    for expires in ("2027-01-01T00:00:00Z", {"unchecked": "rebuilt daily"}):
        document = images(values=values, expires=expires)
        told = found(policy(by_digest(document)), document)
        assert [one for one in told if one[1] == "error"] == [
            ("reference-expired", "error", "references.images.image.expires")
        ]
        assert ("references-unused", "note", "references[0]") in told
        assert (("references-without-end", "note", "references[0]") in told) is isinstance(expires, dict)


def test_a_document_that_is_still_to_be_issued_is_told() -> None:
    assert found(policy(), images(), at=datetime(2025, 12, 31, tzinfo=UTC)) == [
        ("references-not-issued", "warning", "references[0]")
    ]


def test_names_that_nobody_speaks_of() -> None:
    own = {"mine": {"values": [OTHER], "origin": "x", "expires": "2027-01-01T00:00:00Z"}}
    none = policy(own=own, measurement=["mine"])
    assert found(none, images()) == [("references-unused", "warning", "references[0]")]
    revoking = images(revoked=[{"value": "cd" * 48, "reason": "CVE-1"}])
    assert found(none | {"references": [by_digest(revoking)]}, revoking) == [
        ("references-unused", "note", "references[0]")
    ]


def test_a_revoked_value_is_told_wherever_it_stands() -> None:
    own = {"mine": {"values": [OTHER], "origin": "x", "expires": "2027-01-01T00:00:00Z"}}
    document = images(revoked=[{"value": OTHER, "reason": "CVE-1"}])
    told = lint(policy(by_digest(document), own=own, measurement=["image", "mine"]), document)
    assert [(one.rule, one.severity, one.path) for one in told] == [
        ("reference-revoked", "error", "reference_values.mine")
    ]
    assert "CVE-1" in told[0].why
    both = {"image": {"kind": "snp-measurement", "values": [MEASUREMENT, OTHER]}}
    document = images(values=both, revoked=[{"value": OTHER, "reason": "CVE-1"}])
    assert found(policy(by_digest(document)), document) == [("reference-revoked", "warning", "references.images.image")]


def test_a_document_that_the_policy_does_not_name_is_told() -> None:
    assert found(policy(), images(), images(name="others")) == [("references-not-named", "warning", "references")]


# -- comparing


def effects(old: Json, new: Json, *, before: ReferenceDocument, after: ReferenceDocument) -> list[tuple[str, str]]:
    first, second = (
        decode_policy(each, documents={"images": document}) for each, document in ((old, before), (new, after))
    )
    return [(one.path, str(one.effect)) for one in diff_policies(first, second).changes if one.path != "version"]


def test_what_a_new_version_of_a_document_adds_and_removes() -> None:
    signed = {key_id(ALICE.public_key())}
    more = images(version=4, values={"image": {"kind": "snp-measurement", "values": [MEASUREMENT, OTHER]}})
    rows = policy(by_signers(ALICE))
    old, new = images().signed_by(signed), more.signed_by(signed)
    label = ("reference_values.image", "label")
    assert effects(rows, rows, before=old, after=new) == [label, ("snp.measurement", "looser")]
    assert effects(rows, rows, before=new, after=old) == [label, ("snp.measurement", "stricter")]
    without = dataclasses.replace(new, revoked=images(revoked=[{"value": OTHER, "reason": "CVE-1"}]).revoked)
    assert ("snp.measurement", "stricter") in effects(rows, rows, before=new, after=without)


def test_a_new_version_of_a_document_is_no_change_of_the_policy() -> None:
    signed = {key_id(ALICE.public_key())}
    old, new = images().signed_by(signed), images(version=4).signed_by(signed)
    rows = policy(by_signers(ALICE))
    first, second = (decode_policy(rows, documents={"images": one}) for one in (old, new))
    assert [one.path for one in diff_policies(first, second).changes] == ["reference_values.image"]
    other = decode_policy(rows | {"description": "x"}, documents={"images": new})
    assert "version" in [one.path for one in diff_policies(first, other).changes]


def test_who_may_vouch_for_a_document() -> None:
    document = images().signed_by({key_id(ALICE.public_key()), key_id(BOB.public_key())})

    def told(old: Json, new: Json) -> list[str]:
        return [
            effect
            for path, effect in effects(policy(old), policy(new), before=document, after=document)
            if path == "references"
        ]

    digest, one, two = by_digest(document), by_signers(ALICE), by_signers(ALICE, BOB)
    assert told(digest, digest) == told(one, one) == []
    assert (told(digest, one), told(one, digest)) == (["looser"], ["stricter"])
    assert (told(one, two), told(two, one)) == (["looser"], ["stricter"])
    both = by_signers(ALICE, BOB, at_least=2)
    assert (told(two, both), told(both, two)) == (["stricter"], ["looser"])
    assert told(one, by_signers(ALICE, minimum_version=2)) == ["stricter"]


def test_another_digest_and_another_document_are_labels() -> None:
    first, second = images(), images(version=4)
    assert ("references", "label") in effects(
        policy(by_digest(first)), policy(by_digest(second)), before=first, after=second
    )
    assert ("references", "label") in effects(STRICT, policy(), before=first, after=first)
    assert ("references", "label") in effects(policy(), STRICT, before=first, after=first)


def test_who_may_say_from_now_on_what_the_values_are_is_no_label() -> None:
    signed = images().signed_by({key_id(ALICE.public_key())})
    row = policy(by_signers(ALICE))
    assert ("references", "looser") in effects(STRICT, row, before=signed, after=signed)
    assert ("references", "stricter") in effects(row, STRICT, before=signed, after=signed)


# -- signing, and who signed


def test_a_policy_is_signed_without_its_documents() -> None:
    assert identity_of(policy()).name == "test"
    with pytest.raises(ConfigurationError):
        identity_of(policy(minimum_tcb=None))


def test_signatures_of_strangers_and_over_other_documents_count_for_nothing() -> None:
    data = json.dumps(IMAGES).encode()
    signatures = [sign_policy(IMAGES, key=key, at=AT) for key in (ALICE, STRANGER)]
    other = sign_policy(IMAGES | {"version": 4}, key=ALICE, at=AT)

    def signers(given: list[Any], *keys: Ed25519PrivateKey) -> set[bytes]:
        publics = [key.public_key() for key in keys]
        return set(read_signed_document(data, signatures=given, keys=publics, name="images").signers)

    alice = key_id(ALICE.public_key())
    assert signers(signatures, ALICE, BOB) == {alice}
    assert signers(signatures, BOB) == signers([other], ALICE) == signers(signatures) == signers([], ALICE) == set()
    broken = dataclasses.replace(signatures[0], signature=bytes(64))
    with pytest.raises(ConfigurationError) as caught:
        signers([broken], ALICE)
    assert caught.value.code == "references-not-accepted"


def test_a_document_that_is_none_is_refused_with_its_place() -> None:
    with pytest.raises(ConfigurationError) as caught:
        read_signed_document(b'{"schema": "attest.policy/1"}', signatures=(), keys=(), name="images.json")
    assert "images.json:1:" in caught.value.message


# -- cases


def cases(*rows: Json) -> bytes:
    case = {"name": "x", "evidence": "e", "at": "2026-06-01T00:00:00Z", "expect": "affirmed"}
    return json.dumps({"schema": "attest.policy-tests/1", "references": list(rows), "cases": [case]}).encode()


def test_cases_name_documents_with_signatures_and_keys() -> None:
    (row,) = load_tests(cases({"document": "i.json", "signatures": ["i.sig"], "keys": ["a.pem"]})).references
    assert (row.document, row.signatures, row.keys) == ("i.json", ("i.sig",), ("a.pem",))
    assert load_tests(cases({"document": "i.json"})).references[0].keys == ()


@pytest.mark.parametrize(
    "row",
    [{}, {"document": ""}, {"document": "i", "keys": ["a"]}, {"document": "i", "signatures": ["a"]}, {"file": "i"}],
)
def test_cases_whose_documents_make_no_sense_are_refused(row: Json) -> None:
    with pytest.raises(ConfigurationError) as caught:
        load_tests(cases(row))
    assert caught.value.code == "policy-invalid"
    assert "references[0]" in caught.value.message

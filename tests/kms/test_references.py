"""Keys whose policies take their values from documents: taken in once, judged at the moment of each release."""

import dataclasses
import json
import sqlite3
from contextlib import closing
from datetime import timedelta
from http import HTTPStatus

import pytest
from fastapi.testclient import TestClient

from attest.errors import AttestError, ConfigurationError
from attest.policy.document import read_document
from attest.policy.signatures import identity_of
from attest.release import KeyName
from kms.api.app import create_app
from kms.domain.actors import local_actor
from kms.domain.errors import IntegrityError, KeyConflictError, ReleaseDeniedError
from kms.domain.log_verification import verify_log
from kms.domain.references import StoredDocument
from kms.keys.admin import find_key
from kms.references.intake import Intake, add_document, list_documents, read_given
from kms.references.resolution import find_guard
from tests.kms.references import (
    ALICE,
    BOB,
    GOOD,
    OTHER,
    STRANGER,
    Json,
    by_digest,
    by_signers,
    document_file,
    fingerprint,
    given,
    images,
    key_file,
    naming,
    signature_file,
)
from tests.kms.support import MATERIAL, MODEL, Harness, Workload, open_release

SIGNED = naming(by_signers(ALICE))


def add(harness: Harness, document: StoredDocument) -> Intake:
    return add_document(harness.services.store, document, actor=local_actor(), at=harness.clock())


def released(harness: Harness, *key_ids: str) -> None:
    challenge = harness.releases.challenge()
    request = Workload().request(challenge, *key_ids)
    release = harness.releases.release(request)
    opened = open_release(Workload(), challenge, request, release, harness)
    assert opened == dict.fromkeys(key_ids, MATERIAL)


def denied(harness: Harness, *key_ids: str) -> AttestError:
    with pytest.raises(ReleaseDeniedError) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), *key_ids))
    return caught.value


def forged(harness: Harness, key_id: str) -> AttestError:
    with pytest.raises(IntegrityError) as caught:
        harness.releases.release(Workload().request(harness.releases.challenge(), key_id))
    return caught.value


def decided_on(harness: Harness) -> list[Json]:
    """The documents in the newest decision of the log, of its first key."""
    keys = harness.decisions()[-1]["keys"]
    assert isinstance(keys, list)
    found: list[Json] = keys[0]["references"]
    return found


def refused_to_add(harness: Harness, document: StoredDocument) -> AttestError:
    before = len(harness.entries())
    with pytest.raises(AttestError) as caught:
        add(harness, document)
    assert len(harness.entries()) == before
    return caught.value


def refused_at_set_up(harness: Harness, policy: bytes, *documents: StoredDocument) -> AttestError:
    """A key is not added, and nothing of the attempt stays."""
    before = len(harness.entries())
    with pytest.raises(AttestError) as caught:
        harness.add_key("refused", policy=policy, references=documents)
    with harness.services.store.reading() as tx:
        assert tx.keys.find(KeyName(key_id="refused")) is None
    assert len(harness.entries()) == before
    return caught.value


# -- accepting


@pytest.mark.parametrize("row", [by_signers(ALICE), by_digest(images())], ids=["signed", "pinned"])
def test_a_value_of_a_document_in_force_releases_the_key(harness: Harness, row: Json) -> None:
    document = given(images(), ALICE)
    harness.add_key("model", policy=naming(row), references=(document,))
    released(harness, "model")
    told = {"name": "images", "version": 1, "sha256": document.digest.hex()}
    assert decided_on(harness) == [told]
    added, imported = harness.entries()[1:3]
    assert (added["kind"], added["references"], added["signers"]) == ("references-added", [told], [fingerprint(ALICE)])
    assert (added["in_force_for"], added["blocked"]) == (["model"], [])
    assert (imported["kind"], imported["references"]) == ("key-imported", [told])
    with harness.services.store.reading() as tx:
        verify_log(tx.log)


def test_the_digest_of_the_keys_policy_is_that_of_the_policy(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    before, _ = find_key(harness.services.store, MODEL)
    add(harness, given(images(2), ALICE))
    after, _ = find_key(harness.services.store, MODEL)
    assert (before.policy_digest, before.wrapped) == (after.policy_digest, after.wrapped)
    assert harness.entries()[2]["policy_sha256"] == before.policy_digest.hex()


def test_a_document_that_is_in_force_need_not_be_given_again(harness: Harness) -> None:
    harness.add_key("first", policy=SIGNED, references=(given(images(), ALICE),))
    harness.add_key("second", policy=naming(by_signers(ALICE), name="other"))
    released(harness, "first", "second")
    assert [entry["kind"] for entry in harness.entries()].count("references-added") == 1


def test_a_key_whose_policy_names_no_document_goes_on_as_before(harness: Harness) -> None:
    harness.add_key("model")
    released(harness, "model")
    assert decided_on(harness) == []


def test_through_the_web(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    client = TestClient(create_app(harness.settings, harness.services), base_url="http://127.0.0.1")

    def ask() -> tuple[int, Json]:
        request = Workload().request(harness.releases.challenge(), "model").to_json()
        answer = client.post("/v1/releases", json=request)
        return answer.status_code, answer.json()

    assert ask()[0] == HTTPStatus.OK
    add(harness, given(images(2, revoked=[{"value": GOOD, "reason": "CVE-1"}]), ALICE))
    status, problem = ask()
    assert (status, problem["code"]) == (HTTPStatus.FORBIDDEN, "references-unusable")


# -- newer documents


def test_a_newer_document_counts_from_the_next_request_on(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(values=(OTHER,)), ALICE),))
    assert [check.id for check in denied(harness, "model").checks] == ["policy.snp.measurement"]
    done = add(harness, given(images(2, values=(OTHER, GOOD)), ALICE))
    assert (done.new, done.keys, done.blocked) == (True, ("model",), {})
    released(harness, "model")
    assert [one["version"] for one in decided_on(harness)] == [2]


def test_a_value_that_a_newer_document_revokes_is_refused(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(values=(GOOD, OTHER)), ALICE),))
    released(harness, "model")
    revoking = images(2, values=(GOOD, OTHER), revoked=[{"value": GOOD, "reason": "CVE-1"}])
    assert add(harness, given(revoking, ALICE)).blocked == {}
    error = denied(harness, "model")
    assert (error.code, [check.id for check in error.checks]) == ("policy-not-met", ["policy.snp.measurement"])
    assert [one["version"] for one in decided_on(harness)] == [2]


@pytest.mark.parametrize(
    "newer",
    [
        images(2, revoked=[{"value": GOOD, "reason": "CVE-1"}]),
        images(2, values=(OTHER,)) | {"values": {"renamed": {"kind": "snp-measurement", "values": [OTHER]}}},
    ],
    ids=["all-revoked", "name-gone"],
)
def test_a_document_that_leaves_a_policy_without_values_stops_its_keys(harness: Harness, newer: Json) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    harness.add_key("own", material=MATERIAL)
    done = add(harness, given(newer, ALICE))
    assert list(done.blocked) == ["model"]
    assert harness.entries()[-1]["blocked"] == ["model"]
    error = denied(harness, "model")
    assert error.code == "references-unusable"
    decision = harness.decisions()[-1]
    assert [one["code"] for one in decision["reasons"]] == ["references-unusable", "not-appraised"]  # type: ignore[attr-defined]
    assert [one["version"] for one in decided_on(harness)] == [2]
    assert denied(harness, "own", "model").code == "references-unusable"
    released(harness, "own")
    add(harness, given(images(3), ALICE))
    released(harness, "model")


def test_mc_23_an_older_document_and_another_one_of_the_same_version_are_refused(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(2, values=(OTHER,)), ALICE),))
    for version in (1, 2):
        error = refused_to_add(harness, given(images(version), ALICE))
        assert (error.code, error.expected, error.got) == ("references-rolled-back", "above 2", str(version))
        policy = naming(by_signers(ALICE), name="other")
        assert refused_at_set_up(harness, policy, given(images(version), ALICE)).code == "references-rolled-back"
    denied(harness, "model")


def test_a_policy_that_pins_a_digest_stays_with_it(harness: Harness) -> None:
    harness.add_key("signed", policy=SIGNED, references=(given(images(3), ALICE),))
    old = images(2)
    harness.add_key("pinned", policy=naming(by_digest(old), name="pinned"), references=(given(old, ALICE),))
    add(harness, given(images(4, values=(OTHER,)), ALICE))
    released(harness, "pinned")
    assert [one["version"] for one in decided_on(harness)] == [2]
    denied(harness, "signed")
    assert [one["version"] for one in decided_on(harness)] == [4]


def test_a_document_again_changes_nothing_and_is_no_entry(harness: Harness) -> None:
    document = given(images(), ALICE)
    harness.add_key("model", policy=SIGNED, references=(document,))
    before = len(harness.entries())
    assert add(harness, document).new is False
    assert len(harness.entries()) == before
    assert add(harness, given(images(), ALICE, BOB)).new is True
    harness.add_key("both", policy=naming(by_signers(ALICE, BOB, at_least=2), name="both"))
    released(harness, "both")


def test_mc_19_a_newer_document_while_a_release_is_decided_is_not_passed_over(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    added: list[Intake] = []
    provider = harness.services.endorsements

    class Provider:
        """Endorsements during whose lookup the operator adds a document."""

        def current(self, **arguments: object) -> object:
            if not added:
                added.append(add(harness, given(images(2, values=(OTHER,)), ALICE)))
            return provider.current(**arguments)  # type: ignore[arg-type]

        def fetched(self, *arguments: object, **more: object) -> None:
            return None

    services = dataclasses.replace(harness.services, endorsements=Provider())  # type: ignore[arg-type]
    from kms.release.service import ReleaseService

    releases = ReleaseService(services)
    with pytest.raises(ReleaseDeniedError):
        releases.release(Workload().request(releases.challenge(), "model"))
    assert [one["version"] for one in decided_on(harness)] == [2]


# -- ends


def test_mc_19_an_expired_value_stops_counting_at_release_time(harness: Harness) -> None:
    ends = (harness.clock() + timedelta(hours=1)).isoformat().replace("+00:00", "Z")
    harness.add_key("model", policy=SIGNED, references=(given(images(expires=ends), ALICE),))
    harness.clock.forward(hours=1)
    released(harness, "model")
    harness.clock.forward(seconds=1)
    assert [check.id for check in denied(harness, "model").checks] == ["policy.snp.measurement"]
    add(harness, given(images(2), ALICE))
    released(harness, "model")


@pytest.mark.parametrize(
    "dates",
    [
        {"expires": "2026-05-31T00:00:00Z"},
        {"issued": "2026-06-02T00:00:00Z"},
        {"issued": "2026-06-02T00:00:00Z", "expires": {"unchecked": "x"}},
    ],
)
def test_a_document_that_does_not_count_now_is_not_taken_in(harness: Harness, dates: Json) -> None:
    stale = given(images(2, **dates), ALICE)
    assert refused_at_set_up(harness, SIGNED, stale).code == "references-not-current"
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    assert refused_to_add(harness, stale).code == "references-not-current"
    released(harness, "model")


def test_a_new_key_does_not_rest_on_a_document_that_has_ended(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    harness.clock.forward(days=90)
    assert refused_at_set_up(harness, naming(by_signers(ALICE), name="late")).code == "references-not-current"


# -- what is not accepted


def test_a_missing_document_is_refused_at_set_up_with_its_name(harness: Harness) -> None:
    error = refused_at_set_up(harness, SIGNED)
    assert (type(error), error.code) == (ConfigurationError, "references-missing")
    assert "images" in error.message
    assert "--references" in (error.hint or "")


@pytest.mark.parametrize(
    "row",
    [
        by_signers(BOB),
        by_signers(ALICE, BOB, at_least=2),
        by_signers(ALICE, minimum_version=2),
        by_digest(images(2)),
    ],
    ids=["stranger", "too-few", "too-old", "another"],
)
def test_a_document_that_a_policy_does_not_accept_is_refused_at_set_up(harness: Harness, row: Json) -> None:
    error = refused_at_set_up(harness, naming(row), given(images(), ALICE))
    assert (type(error), error.code) == (ConfigurationError, "references-not-accepted")


def test_a_strangers_newer_document_is_refused(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(values=(OTHER,)), ALICE),))
    for document in (given(images(2), STRANGER), given(images(2))):
        assert refused_to_add(harness, document).code == "references-not-accepted"
    denied(harness, "model")


def test_a_document_that_no_policy_names_is_refused(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    other = given(images(name="others"), ALICE)
    error = refused_to_add(harness, other)
    assert (type(error), error.code) == (KeyConflictError, "references-not-named")
    assert refused_at_set_up(harness, naming(by_signers(ALICE), name="x"), other).code == "references-not-named"


def test_what_is_no_policy_is_refused_with_its_place(harness: Harness) -> None:
    error = refused_at_set_up(harness, naming(by_signers(ALICE), vmpl=0))
    assert (error.code, "policy:1:" in error.message) == ("policy-invalid", True)


def test_every_signature_that_is_given_has_to_be_about_something() -> None:
    document = images()
    files = [document_file(document)]
    signature, key = signature_file(document, ALICE), key_file(ALICE)
    assert read_given(files, signatures=[], keys=[key])[0].proofs == ()
    for signatures, keys in (
        ([signature], []),
        ([signature], [key_file(BOB)]),
        ([signature, signature_file(images(2), ALICE)], [key]),
        ([signature, signature_file(document, STRANGER)], [key]),
    ):
        with pytest.raises(ConfigurationError) as caught:
            read_given(files, signatures=signatures, keys=keys)
        assert caught.value.code == "references-not-accepted"


# -- whoever can write to the database


def tamper(harness: Harness, *statements: str) -> None:
    with closing(sqlite3.connect(harness.folder / "kms.db", isolation_level=None)) as database:
        for table in ("reference_documents", "reference_signatures"):
            for verb in ("update", "delete"):
                database.execute(f"DROP TRIGGER {table}_no_{verb}")
        for statement in statements:
            database.execute(statement)


@pytest.mark.parametrize("verb", ["UPDATE reference_{} SET added_at = ''", "DELETE FROM reference_{}"])
@pytest.mark.parametrize("table", ["documents", "signatures"])
def test_mc_24_what_was_taken_in_is_not_rewritten(harness: Harness, verb: str, table: str) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    path = harness.folder / "kms.db"
    with closing(sqlite3.connect(path)) as database, pytest.raises(sqlite3.IntegrityError, match="append-only"):
        database.execute(verb.format(table))


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE reference_documents SET document = CAST(replace(document, '0d', '0e') AS BLOB)",
        "UPDATE reference_documents SET document = x'00'",
        "UPDATE reference_documents SET document = 'text'",
        "UPDATE reference_documents SET version = 2",
        "UPDATE reference_documents SET version = 'x'",
        "UPDATE reference_signatures SET signature = x'00'",
        "UPDATE reference_signatures SET public_key = x'00'",
    ],
)
def test_a_stored_document_that_was_altered_releases_nothing(harness: Harness, statement: str) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(values=(OTHER,)), ALICE),))
    tamper(harness, statement)
    assert forged(harness, "model").code == ("references-altered" if "SET document" in statement else "state-forged")


def test_a_document_that_somebody_put_into_the_database_does_not_count(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(values=(OTHER,)), ALICE),))
    forged = given(images(2), STRANGER)
    with harness.services.store.writing() as tx:
        tx.references.add(forged, at=harness.clock())
    assert denied(harness, "model").code == "policy-not-met"
    assert [one["version"] for one in decided_on(harness)] == [1]


def test_mc_22_without_its_documents_a_policy_judges_nobody(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    harness.add_key("pinned", policy=naming(by_digest(images()), name="pinned"))
    tamper(harness, "DELETE FROM reference_signatures")
    restarted = harness.reopened()
    for key in ("model", "pinned"):
        assert forged(restarted, key).code == "state-forged"
    restarted.close()
    with closing(sqlite3.connect(harness.folder / "kms.db", isolation_level=None)) as database:
        database.execute("DELETE FROM reference_documents")
    assert forged(harness, "model").code == "state-forged"
    assert harness.decisions() == []
    assert denied(harness, "pinned").code == "references-unusable"
    assert decided_on(harness) == []


def test_a_policy_that_is_gone_or_never_loaded_is_damage_and_no_refusal(harness: Harness) -> None:
    rim = {"waived_measurements": {"1": "x"}}
    gpu = {"architectures": ["hopper"], "driver_versions": {"below": "9"}, "vbios_versions": {"below": "9"}}
    conflict = {"any_of": [{"gpu": gpu}, {"gpu": gpu | rim}]}
    text = json.dumps({"schema": "attest.policy/1", "name": "x", "version": 1, **conflict}).encode()
    digest = identity_of(read_document(text)).digest
    with harness.services.store.writing() as tx:
        tx.policies.add(digest=digest, name="x", version=1, document=text, at=harness.clock())
    with harness.services.store.reading() as tx:
        for wanted, code in ((digest, "policy-altered"), (bytes(32), "policy-missing")):
            with pytest.raises(IntegrityError) as caught:
                find_guard(tx, wanted)
            assert caught.value.code == code


def test_a_version_below_the_least_is_not_even_looked_at(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    assert (
        refused_at_set_up(harness, naming(by_signers(ALICE, minimum_version=2), name="n")).code == "references-missing"
    )


# -- looking


def test_documents_are_listed_with_the_keys_that_they_are_in_force_for(harness: Harness) -> None:
    harness.add_key("model", policy=SIGNED, references=(given(images(), ALICE),))
    harness.add_key("pinned", policy=naming(by_digest(images()), name="pinned"))
    add(harness, given(images(2), ALICE))
    with harness.services.store.reading() as tx:
        found = list_documents(tx)
        assert [(one.document.version, one.keys) for one in found] == [(2, ("model",)), (1, ("pinned",))]
        record, _ = find_key(harness.services.store, MODEL)
        guard = find_guard(tx, record.policy_digest)
    assert guard.problem is None
    assert guard.policy is not None
    assert [document.version for document in guard.documents] == [2]

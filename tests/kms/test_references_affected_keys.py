"""A key that is made over the network brings documents for itself, and changes nothing for the keys of others."""

import json
from collections.abc import Iterator

import pytest

from attest.encoding import JsonValue
from attest.release import KeyName
from kms.domain.permissions import Role
from kms.keys.tenants import create_tenant
from kms.quorum.key_policy import KeyPolicySet
from kms.references.intake import list_documents
from tests.kms.admins import ROOT, AdminClient, admin_client
from tests.kms.references import (
    ALICE,
    BOB,
    Json,
    by_digest,
    by_signers,
    given,
    images,
    key_file,
    naming,
    signature_file,
)
from tests.kms.support import Harness


@pytest.fixture
def admin(harness: Harness) -> Iterator[AdminClient]:
    for tenant in ("here", "there"):
        create_tenant(harness.services.store, tenant, actor=ROOT, at=harness.clock())
    harness.add_key("there/model", policy=naming(by_signers(ALICE)), references=(given(images(), ALICE),))
    with admin_client(harness) as client:
        client.give("owner", Role.KEY_OWNER, "here")
        yield client


def make(admin: AdminClient, document: Json, *rows: Json, key_id: str, signed: bool = True) -> tuple[int, str]:
    name = ALICE if document["name"] == "images" and signed else BOB
    proofs: dict[str, JsonValue] = {"signatures": [], "keys": []}
    if signed:
        proofs = {
            "signatures": [signature_file(document, name).data.decode()],
            "keys": [key_file(name).data.decode()],
        }
    body = {
        "tenant": "here",
        "key_id": key_id,
        "policy": naming(*rows).decode(),
        "references": [{"document": json.dumps(document), **proofs}],
    }
    answer = admin.http.post("/v1/keys", headers=admin.bearer("owner"), json=body)
    return answer.status_code, str(answer.json().get("code"))


def known(admin: AdminClient) -> list[tuple[str, int]]:
    with admin.harness.services.store.reading() as tx:
        return [(one.document.name, one.document.version) for one in list_documents(tx)]


def test_mc_21_a_document_that_counts_for_another_key_does_not_come_in_with_ones_own(admin: AdminClient) -> None:
    newer = images(2, values=("0e" * 48, "0d" * 48))
    assert make(admin, newer, by_signers(ALICE), key_id="mine") == (403, "not-permitted")
    assert known(admin) == [("images", 1)]
    admin.give("owner", Role.POLICY_OWNER, "here")
    assert make(admin, newer, by_signers(ALICE), key_id="mine") == (403, "not-permitted"), "it is service-wide"
    admin.give("owner", Role.POLICY_OWNER)
    assert make(admin, newer, by_signers(ALICE), key_id="mine")[0] == 200
    assert known(admin) == [("images", 2), ("images", 1)]


def test_a_document_that_no_other_key_accepts_comes_in_with_its_key(admin: AdminClient) -> None:
    own = images(name="own")
    row = by_signers(BOB) | {"document": "own"}
    assert make(admin, own, row, key_id="mine")[0] == 200
    unsigned = images(3)
    assert make(admin, unsigned, by_digest(unsigned), key_id="pinned", signed=False)[0] == 200
    assert make(admin, images(), by_signers(ALICE), key_id="same")[0] == 200, "it is there already"


def test_mc_21_a_signature_that_makes_a_document_count_for_another_key_does_not_come_in_either(
    admin: AdminClient,
) -> None:
    unsigned = images(3)
    assert make(admin, unsigned, by_digest(unsigned), key_id="pinned", signed=False)[0] == 200
    assert make(admin, unsigned, by_digest(unsigned), key_id="again") == (403, "not-permitted")


@pytest.mark.parametrize("propose", [False, True])
def test_mc_21_nor_with_another_policy_for_ones_own_key(admin: AdminClient, propose: bool) -> None:
    own = images(name="own")
    assert make(admin, own, by_signers(BOB) | {"document": "own"}, key_id="mine")[0] == 200
    admin.give("owner", Role.POLICY_OWNER, "here")

    def change(document: Json, *rows: Json, by: str) -> tuple[int, str]:
        policy = naming(*rows, version=2)
        key = {"images": ALICE}.get(str(document["name"]), BOB)
        arguments = KeyPolicySet(
            name=KeyName(tenant="here", key_id="mine"), policy=policy, references=(given(document, key),)
        ).arguments()
        body = {"action": "key-policy-set", "arguments": arguments, "reason": "a test", "propose": propose}
        answer = admin.http.post("/v1/changes", headers=admin.bearer(by), json=body)
        return answer.status_code, str(answer.json().get("code"))

    newer = images(2, values=("0e" * 48, "0d" * 48))
    assert change(newer, by_signers(ALICE), by="owner") == (403, "not-permitted")
    assert ("images", 2) not in known(admin)
    assert change(images(2, name="own"), by_signers(BOB) | {"document": "own"}, by="owner")[0] == 200

"""The documents about receipts: the same facts as the objects, and what a result does not show."""

import json

from attest.checks import Outcome
from attest.receipts import OpenedModel
from attest.receipts.document import unverified_receipt_document, verified_receipt_document
from tests.receipts.machine import ISSUER, Machine, checked, opened, sealed_model
from tests.receipts.test_verification import noted, with_release


def test_the_document_of_a_receipt_is_json_with_every_check() -> None:
    verified = checked(Machine().file())
    document = json.loads(json.dumps(verified_receipt_document(verified)))
    assert [one["id"] for one in document["checks"]] == [one.id for one in verified.checks]
    assert document["receipt"]["claims"]["iss"] == ISSUER
    assert document["receipt"]["statement"]["digest"] == verified.statement.digest.hex()
    assert [one["code"] for one in document["warnings"]] == ["freshness-not-evaluated"]


def test_gaps_of_a_result_are_warnings() -> None:
    machine = Machine(models=(OpenedModel(directory=opened(sealed_model(service=False), whole=False)),))
    verified = checked(machine.file(events=(b"x",), complete=False), request=None, response=b"x", allow_incomplete=True)
    document = verified_receipt_document(verified)
    assert isinstance(document["warnings"], list)
    assert [one["code"] for one in document["warnings"] if isinstance(one, dict)] == [
        "freshness-not-evaluated",
        "answer-incomplete",
        "model-partly-decrypted",
        "body-not-compared",
    ]
    outcomes = {check.id: check.outcome for check in verified.checks}
    assert outcomes["receipt.release"] is Outcome.NOT_EVALUATED


def test_the_content_of_a_compact_file_has_digests_and_no_sizes() -> None:
    file = Machine().file()
    whole, compact = unverified_receipt_document(file), unverified_receipt_document(file.compact())
    assert json.dumps(whole)
    assert compact["statement"] != whole["statement"]
    assert isinstance(compact["evidence"], dict)
    assert isinstance(whole["evidence"], dict)
    assert compact["evidence"]["sha256"] == whole["evidence"]["sha256"]
    assert compact["evidence"]["size"] is None


def test_a_release_outside_of_its_policy_is_a_warning_of_the_document() -> None:
    verified = checked(with_release(receipt=noted(break_glass=True))[1])
    warnings = verified_receipt_document(verified)["warnings"]
    assert isinstance(warnings, list)
    assert "release-break-glass" in [one["code"] for one in warnings if isinstance(one, dict)]

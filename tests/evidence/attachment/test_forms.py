"""Every form of evidence that wraps a quote or a report: recognised by content, verified with all that it binds."""

import pytest

from attest.checks import Outcome
from attest.evidence.input_files import read_evidence
from attest.verification import VerifiedEvidence
from tests.evidence.attachment.wild import FORMS, verified


def checks_of(found: VerifiedEvidence) -> dict[str, Outcome]:
    return {check.id: check.outcome for check in found.checks}


@pytest.mark.parametrize("name", FORMS)
def test_a_form_is_recognised_by_its_content(name: str) -> None:
    wild = FORMS[name]
    assert read_evidence([("file", wild.data)], form=wild.form).forms == (wild.label,)


@pytest.mark.parametrize("name", FORMS)
def test_a_form_verifies_with_its_own_checks_and_claims(name: str) -> None:
    wild = FORMS[name]
    found = verified(wild.data)
    (item,) = found.items
    assert (item.kind, found.simulated) == (wild.kind, True)
    checks = checks_of(found)
    vendors = tuple(f"{tee}." for tee in ("snp", "tdx", "sgx"))
    added = [check.id for check in found.checks if not check.id.startswith(vendors) and check.id != "freshness"]
    assert added == list(wild.checks)
    assert {checks[name] for name in added} <= {Outcome.PASS}
    others = {"eventlog", "certificate", "committed_data", "uvm"} & set(item.claims)
    assert (wild.attached in others) if wild.attached else not others

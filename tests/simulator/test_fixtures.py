"""The fixtures are what their generator writes, every file has its entry, and every case ends as the manifest says."""

import json
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from attest.checks import Unchecked
from attest.encoding import JsonValue, rfc3339
from attest.endorsements.anchors import TrustAnchors
from attest.errors import AttestError
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import MEDIA_EVENT_LOG, EvidenceItem
from attest.evidence.input_files import read_evidence
from attest.verification import VerifiedEvidence, verify
from fixtures import generate
from fixtures.catalogue import FixtureCase, FixtureFile, manifest

MANIFEST: dict[str, Any] = json.loads((generate.FOLDER / generate.MANIFEST).read_bytes())  # a document of our own
FILES = {entry["path"]: entry for entry in MANIFEST["files"]}
CASES = {case["id"]: case for case in MANIFEST["cases"]}
ANCHORS = {"simulation": TrustAnchors.simulation(), "vendors": TrustAnchors.vendors()}
MAX_BYTES = 1_200_000


def read(path: str) -> bytes:
    return (generate.FOLDER / path).read_bytes()


def verified(case: dict[str, Any]) -> VerifiedEvidence:
    """Verify as everybody does: files are recognised by content."""
    evidence = read_evidence([(case["evidence"], read(case["evidence"]))]).evidence
    if case["eventlog"]:
        log = EvidenceItem(name="eventlog", media_type=MEDIA_EVENT_LOG, value=read(case["eventlog"]))
        evidence = replace(evidence, items=(*evidence.items, log))
    at = rfc3339(case["at"], what="at")
    found = read_endorsements([(path, read(path)) for path in case["endorsements"]], at=at)
    assert (found.warnings, found.notes) == ((), ())
    return verify(
        evidence,
        endorsements=found.endorsements,
        anchors=ANCHORS[case["anchors"]],
        at=at,
        unchecked=tuple(Unchecked(check=name, reason="the case says so") for name in case["unchecked"]),
    )


def outcome_of(case: dict[str, Any]) -> str:
    try:
        verified(case)
    except AttestError as refusal:
        return refusal.code
    return "verified"


def claim_of(claims: JsonValue, path: str) -> JsonValue:
    """Return a claim by its path; None when it is absent."""
    for name in path.split("."):
        claims = claims.get(name) if isinstance(claims, dict) else None
    return claims


def test_the_files_are_what_the_generator_writes(tmp_path: Path) -> None:
    generate.write(tmp_path)
    assert generate.present(tmp_path) == generate.present(generate.FOLDER)


def test_every_file_has_an_entry_and_every_entry_a_file() -> None:
    assert generate.present(generate.FOLDER).keys() - {generate.MANIFEST} == FILES.keys()


@pytest.mark.parametrize("path", FILES)
def test_an_entry_describes_its_file(path: str) -> None:
    entry, data = FILES[path], read(path)
    assert (entry["sha256"], entry["size"]) == (sha256(data).hexdigest(), len(data))
    assert all(entry[name] for name in ("origin", "licence", "exercises", "not_before", "not_after"))


@pytest.mark.parametrize("name", CASES)
def test_a_case_ends_as_the_manifest_says(name: str) -> None:
    assert outcome_of(CASES[name]) == CASES[name]["expected"]


@pytest.mark.parametrize("name", [name for name, case in CASES.items() if case["claims"]])
def test_verified_evidence_states_what_the_manifest_says(name: str) -> None:
    (item,) = verified(CASES[name]).items
    wanted = CASES[name]["claims"]
    assert {path: claim_of(item.claims, path) for path in wanted} == wanted


def test_every_file_is_used_by_a_case() -> None:
    used = {path for case in CASES.values() for path in (case["evidence"], case["eventlog"], *case["endorsements"])}
    assert used - {None} == FILES.keys()


def test_nothing_simulated_verifies_under_the_vendors_anchors() -> None:
    outcomes = {name: outcome_of({**case, "anchors": "vendors"}) for name, case in CASES.items()}
    assert "verified" not in outcomes.values()
    assert {outcomes[name] for name, case in CASES.items() if case["expected"] == "verified"} == {
        "simulated-root-refused"
    }


def test_the_collection_is_small() -> None:
    assert sum(map(len, generate.present(generate.FOLDER).values())) < MAX_BYTES


def test_check_names_what_is_missing_changed_or_of_unknown_origin(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert generate.main(["--output", str(tmp_path)]) == 0
    assert generate.main(["--check", "--output", str(tmp_path)]) == 0
    capsys.readouterr()
    crls = tmp_path / "sev-snp" / "crls"
    (crls / "milan.der").unlink()
    (crls / "genoa.der").write_bytes(b"changed")
    (crls / "unknown.der").write_bytes(b"")
    assert generate.main(["--check", "--output", str(tmp_path)]) == 1
    named = capsys.readouterr().err
    assert [name for name in ("genoa.der", "milan.der", "unknown.der") if f"crls/{name}" in named] == [
        "genoa.der",
        "milan.der",
        "unknown.der",
    ]
    assert len(named.splitlines()) == 3


def test_a_manifest_with_a_doubled_name_or_a_missing_file_is_not_written() -> None:
    file = FixtureFile(path="a", data=b"", exercises="nothing", valid=None)
    case = FixtureCase(
        id="c",
        exercises="nothing",
        evidence="a",
        endorsements=(),
        at=rfc3339("2026-01-01T00:00:00Z", what="at"),
        expected="verified",
    )
    assert json.loads(manifest((file,), (case,), about=""))["files"][0]["not_before"] is None
    for files, cases in (((file, file), (case,)), ((file,), (case, case)), ((), (case,))):
        with pytest.raises(ValueError, match="names are not unique"):
            manifest(files, cases, about="")

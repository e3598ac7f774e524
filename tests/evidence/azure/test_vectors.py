"""Recorded evidence of Azure VMs, as the manifest judges it, and every bit of it changed."""

import json
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from attest.appraisal import appraise
from attest.checks import Outcome, Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate
from attest.errors import AttestError
from attest.evidence.azure.forms import azure_json, parse_azure_evidence
from attest.evidence.endorsement_files import read_endorsements
from attest.evidence.envelope import Evidence
from attest.evidence.input_files import read_evidence
from attest.evidence.snp.evidence import ParsedSnpEvidence
from attest.verification import ExpectedFreshness, VerifiedEvidence, verify
from tests.evidence.azure.made import item
from tests.policy.documents import policy_of
from tests.policy.drafts import drafted

NO_CRL = (Unchecked(check="revocation", reason="recorded evidence, no CRL of its time"),)
IDS = ("az-snp-milan-v3", "az-snp-milan-v2", "az-snp-coco-v0", "az-tdx-v4", "raw-snp")


@cache
def manifest(root: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((root / "azure/MANIFEST.json").read_text())
    return {vector["id"]: vector for vector in document["vectors"]}


def evidence_of(root: Path, vector: dict[str, Any]) -> Evidence:
    parts = vector["files"] if "files" in vector else [vector["file"]]
    files = [(part["path"], (root / "azure" / part["path"]).read_bytes()) for part in parts]
    return read_evidence(files).evidence


@cache
def endorsements(root: Path, name: str | None, at: datetime) -> Endorsements:
    if name is None:
        files = [(path.name, path.read_bytes()) for path in sorted((root / "sev-snp/certs/milan").glob("a*.der"))]
    else:
        files = [(name, (root / "collateral" / name).read_bytes())]
    return read_endorsements(files, at=at).endorsements


def judge(root: Path, vector: dict[str, Any], evidence: Evidence, nonce: bytes | None = None) -> VerifiedEvidence:
    at = datetime.fromisoformat(vector["verify_time"])
    return verify(
        evidence,
        endorsements=endorsements(root, vector.get("collateral"), at),
        anchors=TrustAnchors.vendors(),
        at=at,
        expected=ExpectedFreshness(nonce=vector["nonce_utf8"].encode() if nonce is None else nonce),
        unchecked=() if "collateral" in vector else NO_CRL,
    )


@pytest.mark.parametrize("name", IDS)
def test_recorded_evidence_is_genuine_and_says_what_the_manifest_says(name: str, vectors_dir: Path) -> None:
    vector = manifest(vectors_dir)[name]
    verified = judge(vectors_dir, vector, evidence_of(vectors_dir, vector))
    (one,) = verified.items
    claims: Any = one.claims
    assert not verified.simulated
    assert Outcome.FAIL not in {check.outcome for check in verified.checks}
    assert list(claims["pcrs"].values()) == vector["tpm"]["pcrs"]
    assert claims["tpm"]["extra_data"] == vector["tpm"]["extra_data"]
    if "vm_configuration" in vector:
        assert claims["vm_configuration"]["vm_unique_id"] == vector["vm_configuration"]["vmUniqueId"]
        assert claims["user_data"] == vector["user_data"]
        assert claims["tpm"]["clock"] == vector["tpm"]["clock"]
    inner, told = (claims["tdx"], vector["tdx"]["body"]) if "tdx" in vector else (claims["snp"], vector["snp"])
    assert inner["report_data"] == told["report_data"]
    assert "unknown_claims" not in claims


def test_the_certificates_beside_the_machine_are_those_in_the_evidence(vectors_dir: Path) -> None:
    root, vector = vectors_dir / "azure", manifest(vectors_dir)["az-snp-milan-v3"]
    found = parse_azure_evidence((root / vector["file"]["path"]).read_bytes()).cpu
    assert isinstance(found, ParsedSnpEvidence)
    vcek, ask, ark = ((root / f["path"]).read_bytes() for f in vector["imds_chain"]["files"])
    assert found.leaves == (vcek,)
    assert [parse_certificate(der).common_name for der in (ask, ark)] == ["SEV-Milan", "ARK-Milan"]


@pytest.mark.parametrize("name", ["az-snp-milan-v3", "az-tdx-v4"])
def test_no_part_may_be_of_another_vm(name: str, vectors_dir: Path) -> None:
    known = manifest(vectors_dir)
    this, other = (
        parse_azure_evidence(evidence_of(vectors_dir, known[i]).items[0].value) for i in (name, "az-snp-milan-v2")
    )
    quote = None if isinstance(this.cpu, ParsedSnpEvidence) else this.cpu.raw
    spliced = (
        azure_json(hcl=this.hcl.raw, tpm=other.tpm, td_quote=quote),
        azure_json(hcl=other.hcl.raw, tpm=this.tpm),
    )
    for data in spliced:
        with pytest.raises(AttestError) as outcome:
            judge(vectors_dir, known[name], Evidence(items=(item(data),)))
        assert outcome.value.exit_code == 4


@pytest.mark.parametrize("name", ["az-snp-milan-v3", "az-tdx-v4"])
@pytest.mark.parametrize("part", ["hcl", "signature", "message", "pcrs"])
def test_recorded_evidence_with_any_byte_changed_is_refused(name: str, part: str, vectors_dir: Path) -> None:
    vector = manifest(vectors_dir)[name]
    honest = parse_azure_evidence(evidence_of(vectors_dir, vector).items[0].value)
    parts = {"hcl": honest.hcl.raw, "signature": honest.tpm.signature, "message": honest.tpm.message}
    parts["pcrs"] = b"".join(honest.tpm.pcrs)
    quote, leaf = (None, honest.cpu.leaves[0]) if isinstance(honest.cpu, ParsedSnpEvidence) else (honest.cpu.raw, None)
    data = parts[part]
    if part == "hcl" and quote is not None:
        # The MAC structure and other heads of a TDREPORT: no signature of this evidence covers them, and the quote,
        # which one does cover, has all that is used (azure-cvm.md 4).
        unsigned = set(range(0x020, 0x220)) - set(range(0x0A0, 0x0E0)) | set(range(0x220 + 400, 0x420))
    else:
        unsigned = set()
    for at in range(0, len(data), 1 if part != "hcl" else 3):
        if at in unsigned or (part == "hcl" and at == 4):  # the version, 1 or 2, which nothing depends on
            continue
        changed = parts | {part: data[:at] + bytes([data[at] ^ 1 << at % 8]) + data[at + 1 :]}
        pcrs = tuple(changed["pcrs"][i : i + 32] for i in range(0, len(changed["pcrs"]), 32))
        tpm = honest.tpm._replace(signature=changed["signature"], message=changed["message"], pcrs=pcrs)
        altered = azure_json(hcl=changed["hcl"], tpm=tpm, td_quote=quote, vcek=leaf)
        with pytest.raises(AttestError) as outcome:
            judge(vectors_dir, vector, Evidence(items=(item(altered),)))
        assert outcome.value.exit_code in (3, 4), hex(at)


def negatives(root: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((root / "azure/MANIFEST.json").read_text())["negatives"]
    return found


def test_relabelled_evidence_is_refused_for_its_type(vectors_dir: Path) -> None:
    relabelled = [n for n in negatives(vectors_dir) if "platform" in n]
    assert len(relabelled) == 2
    for negative in relabelled:
        document = json.loads((vectors_dir / "azure" / negative["base"] / "evidence.json").read_text())
        data = json.dumps({"platform": negative["platform"], "evidence": document.get("evidence", document)}).encode()
        with pytest.raises(AttestError) as outcome:
            parse_azure_evidence(data)
        assert outcome.value.code == "hcl-report-type-mismatch"


@pytest.mark.parametrize("name", IDS)
def test_a_policy_drafted_from_recorded_evidence_affirms_it_and_no_other_boot(name: str, vectors_dir: Path) -> None:
    vector = manifest(vectors_dir)[name]
    verified = judge(vectors_dir, vector, evidence_of(vectors_dir, vector))
    draft = drafted(verified).draft
    assert appraise(verified, policy=draft.policy, at=verified.at).affirmed
    assert "azure.vm_configuration.console_enabled" in dict(draft.weak)  # Azure enables it on every VM seen
    document: Any = json.loads(json.dumps(draft.document))
    (register,) = document["azure"]["pcr4"]
    document["reference_values"][register]["values"] = ["ab" * 32]
    other = appraise(verified, policy=policy_of(document), at=verified.at)
    assert [check.id for check in other.failed] == ["policy.azure.pcr4"]
    only: Any = drafted(verified, exactly=["azure.vm"]).draft.document["azure"]
    item_claims: Any = verified.items[0].claims
    assert only["vm_unique_ids"] == [item_claims["vm_configuration"]["vm_unique_id"]]

"""The recorded SEV-SNP evidence: what the command line's conformance run leaves to the project's own tests.

Cases that need a policy document, and chains without a report. The rest of the manifest runs through the command line.
"""

import json
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from attest.appraisal import AttestationResult, appraise
from attest.checks import Unchecked
from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.chains import require_ca, require_current_crl, require_issued, require_valid
from attest.endorsements.pool import Endorsements
from attest.endorsements.signatures import SignatureAlgorithm
from attest.endorsements.x509 import Issuer, parse_certificate, parse_crl
from attest.errors import RevokedError
from attest.evidence.snp.certificates import LeafKind, read_leaf
from attest.evidence.snp.tcb import SnpProduct, SnpTcbVersion
from attest.verification import verify
from tests.policy.documents import policy_of
from tests.samples import report_evidence

RECORDED = (
    Unchecked(check="revocation", reason="recorded evidence"),
    Unchecked(check="freshness", reason="recorded evidence"),
)


@pytest.fixture(scope="module")
def manifest(vectors_dir: Path) -> dict[str, Any]:
    """The manifest of the set."""
    document: dict[str, Any] = json.loads((vectors_dir / "sev-snp/MANIFEST.json").read_text())
    return document


def vendor_key(product: str) -> Issuer:
    """The held root key of a product line."""
    (anchor,) = [anchor for anchor in TrustAnchors.vendors().anchors if anchor.product == product]
    issuer = anchor.held_issuer()
    assert issuer is not None
    return issuer


def appraised(root: Path, vector: dict[str, Any], **snp: Any) -> AttestationResult:  # noqa: ANN401  demands by name
    """Appraise one recorded report by a policy that relaxes everything but what is named."""
    line, kind = vector["product_line"], vector["endorsement_role"]
    files = (vector["endorsement_cert"], f"certs/{line.lower()}/{'ask' if kind == 'VCEK' else 'asvk'}.der")
    at = datetime.fromisoformat(vector["verify_time"])
    verified = verify(
        report_evidence((root / vector["report"]).read_bytes()),
        endorsements=Endorsements(certificates=tuple(parse_certificate((root / f).read_bytes()) for f in files)),
        anchors=TrustAnchors.vendors(),
        at=at,
        unchecked=RECORDED,
    )
    relaxed = {"unchecked": "not what this case is about"}
    demands = {
        "products": relaxed,
        "measurement": relaxed,
        "minimum_tcb": relaxed,
        "vmpl": relaxed,
        "provisional_firmware": relaxed,
        "rollback_protection": relaxed,
        "rolled_back_since_launch": relaxed,
        "masked_chip_id": relaxed,
        "guest_policy": {"debug": relaxed, "migrate_ma": relaxed},
        "platform_info": {"alias_check_complete": relaxed},
    }
    document: dict[str, Any] = {"schema": "attest.policy/1", "name": "recorded", "version": 1, "snp": demands | snp}
    if isinstance(snp.get("measurement"), list):
        document["reference_values"] = {"wanted": {"values": ["00" * 48], "origin": "the manifest"}}
    return appraise(verified, policy=policy_of(document), at=at)


TCB = {"bl": "bootloader", "tee": "tee", "snp": "snp", "ucode": "microcode", "fmc": "fmc"}


def demand_of(policy: dict[str, Any], line: str) -> dict[str, Any]:
    """Say the manifest's short policy in the policy language."""
    ((name, value),) = policy.items()
    match name:
        case "vmpl":
            return {"vmpl": [value]}
        case "min_reported_tcb":
            return {"minimum_tcb": {line: {TCB[part]: level for part, level in value.items()}}}
        case "measurement":
            return {"measurement": ["wanted"]}
        case "require_committed_equals_current":
            return {"provisional_firmware": False}
        case "require_current_mitigation_bits":
            return {"mitigations_now": value}
        case "chip_id":
            return {"chip_ids": [value]}
        case _:
            pytest.fail(f"the manifest has a policy that this test does not know: {name}")


POLICY_CASES = (
    "snp-vmpl",
    "snp-min-tcb",
    "snp-measurement",
    "snp-committed-below-current",
    "snp-mitigation",
    "snp-masked-chip-id",
)


@pytest.mark.parametrize("case", POLICY_CASES)
def test_a_policy_case_is_verified_and_not_affirmed(case: str, vectors_dir: Path, manifest: dict[str, Any]) -> None:
    root = vectors_dir / "sev-snp"
    (negative,) = [n for n in manifest["negatives"] if n["id"] == case]
    (vector,) = [v for v in manifest["vectors"] if v["id"] == negative["base"]]
    assert appraised(root, vector).affirmed  # so that what fails below is the demand and nothing else
    result = appraised(root, vector, **demand_of(negative["policy"], vector["product_line"]))
    assert len(result.failed) == 1


def test_no_policy_case_of_the_manifest_is_left_out(manifest: dict[str, Any]) -> None:
    with_policy = {n["id"] for n in manifest["negatives"] if n.get("policy") and "report_data" not in n["policy"]}
    assert with_policy == set(POLICY_CASES)


def test_the_recorded_turin_chain_verifies_and_states_its_extensions(
    vectors_dir: Path, manifest: dict[str, Any]
) -> None:
    (vector,) = [v for v in manifest["vectors"] if v["id"] == "turin-chain"]
    root, at = vectors_dir / "sev-snp", datetime.fromisoformat(vector["verify_time"])
    leaf = read_leaf(parse_certificate((root / vector["endorsement_cert"]).read_bytes()))
    ask = parse_certificate((root / "certs/turin/ask.der").read_bytes())
    require_issued(leaf.certificate, ask.as_issuer(), algorithm=SignatureAlgorithm.RSA_PSS_SHA384)
    require_ca(ask)
    require_issued(ask, vendor_key("Turin"), algorithm=SignatureAlgorithm.RSA_PSS_SHA384)
    require_valid(leaf.certificate, at=at)
    assert (leaf.product, leaf.kind, leaf.struct_version) == (SnpProduct.TURIN, LeafKind.VCEK, 1)
    assert leaf.hwid is not None
    assert leaf.hwid.hex() == vector["cert"]["extensions"]["4"]
    assert leaf.tcb == SnpTcbVersion(fmc=0, bootloader=0, tee=0, snp=0, microcode=9)


def test_the_recorded_crls_revoke_the_first_genoa_ask_and_not_the_milan_one(vectors_dir: Path) -> None:
    root, at = vectors_dir / "sev-snp", datetime.fromisoformat("2023-01-15T00:00:00Z")
    revoked = parse_certificate((root / "certs/genoa/ask-revoked.der").read_bytes())
    genoa = parse_crl((root / "crl/genoa-2022-10.der").read_bytes())
    require_issued(revoked, vendor_key("Genoa"), algorithm=SignatureAlgorithm.RSA_PSS_SHA384)
    with pytest.raises(RevokedError):
        require_current_crl((genoa,), vendor_key("Genoa"), serials=(revoked.serial,), at=at)
    ask = parse_certificate((root / "certs/milan/ask.der").read_bytes())
    milan = parse_crl((root / "crl/milan-2022-05.der").read_bytes())
    assert require_current_crl((milan,), vendor_key("Milan"), serials=(ask.serial,), at=at) is milan


def test_every_certificate_of_the_set_is_what_its_manifest_says(vectors_dir: Path, manifest: dict[str, Any]) -> None:
    for entry in manifest["ca"]:
        certificate = parse_certificate((vectors_dir / "sev-snp" / entry["path"]).read_bytes())
        assert certificate.serial == entry["serial"]
        assert certificate.spki_sha256.hex() == entry["spki_sha256"]
        assert certificate.common_name == entry["subject_cn"]
        require_issued(certificate, vendor_key(entry["product"]), algorithm=SignatureAlgorithm.RSA_PSS_SHA384)

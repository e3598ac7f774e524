"""Every recorded quote comes out as its manifest says, and no byte of its collateral may change."""

import json
import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

import pytest
from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import rfc3339, rfc3339_text
from attest.endorsements.intel import IntelDocument
from attest.endorsements.pool import Endorsements
from attest.endorsements.x509 import parse_certificate, parse_crl, pem_blocks
from attest.errors import AttestError, EndorsementError, EvidenceError, VerificationError
from attest.evidence.intel.collateral import TCB_SIGNING_NAME
from attest.evidence.intel.judgement import VerifiedCollateral
from attest.evidence.intel.qe_identity import parse_qe_identity
from attest.evidence.intel.tcb_info import parse_tcb_info
from tests.conftest import vectors_root
from tests.endorsements import made
from tests.evidence.intel_collateral import made_intel, recorded

pytestmark = pytest.mark.usefixtures("vectors_dir")

SECOND = timedelta(seconds=1)
HERE = vectors_root() is not None


def evaluations() -> list[Any]:
    if not HERE:
        return []
    return [
        pytest.param(tee, vector["id"], evaluation, id=f"{vector['id']} {evaluation['collateral']}")
        for tee in ("tdx", "sgx")
        for vector in recorded.manifest(tee)["vectors"]
        for evaluation in vector["evaluations"]
    ]


def bundles() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = recorded.manifest("collateral")["bundles"] if HERE else []
    return found


def as_told(judged: VerifiedCollateral) -> dict[str, Any]:
    evaluation = judged.evaluation
    assert evaluation is not None
    return {
        "status": evaluation.tcb_status,
        "platform_status": evaluation.platform_status,
        "tdx_module_status": evaluation.tdx_module_status,
        "qe_status": evaluation.qe_status,
        "tcb_date": rfc3339_text(evaluation.tcb_date),
        "advisory_ids": list(evaluation.advisory_ids),
        "tcb_evaluation_data_number": evaluation.tcb_evaluation_data_number,
        "qe_identity_evaluation_data_number": evaluation.qe_identity_evaluation_data_number,
    }


@pytest.fixture(scope="module")
def everything(vectors_dir: Path) -> Endorsements:
    return recorded.everything()


@pytest.mark.parametrize("source", ["its own bundle", "everything"])
@pytest.mark.parametrize(("tee", "name", "evaluation"), evaluations())
def test_a_recorded_quote_comes_out_as_its_manifest_says(
    tee: Literal["tdx", "sgx"], name: str, evaluation: dict[str, Any], source: str, everything: Endorsements
) -> None:
    case = recorded.case(tee, name)
    at = rfc3339(evaluation["verify_time"], what="at")
    pool = everything if source == "everything" else recorded.pool(recorded.bundle(evaluation["collateral"]))
    expected = evaluation["expected"]
    if expected["status"] == "TCB_NOT_SUPPORTED":
        with pytest.raises(VerificationError) as refusal:
            case.judge(pool, at=at)
        assert refusal.value.code == "tcb-not-supported"
        assert refusal.value.check == f"{tee}.tcb"
        return
    told = as_told(case.judge(pool, at=at))
    assert {key: told[key] for key in expected} == expected
    assert (told["tdx_module_status"] is None) == (tee == "sgx")


@pytest.mark.parametrize("facts", bundles(), ids=lambda facts: facts["path"])
def test_a_bundle_is_read_as_its_manifest_says(facts: dict[str, Any]) -> None:
    found = recorded.pool(recorded.bundle(facts["path"]))
    (info_document,) = (document for document in found.documents if document.kind == "tcb-info")
    (identity_document,) = (document for document in found.documents if document.kind == "qe-identity")
    info, identity = parse_tcb_info(info_document.body), parse_qe_identity(identity_document.body)
    assert (info.tee.upper(), info.fmspc.hex()) == (facts["tee"], facts["fmspc"])
    assert info.evaluation_data_number == facts["tcb_evaluation_data_number"]
    assert rfc3339_text(info.issue_date) == facts["tcb_info_issue"]
    assert rfc3339_text(info.next_update) == facts["tcb_info_next_update"]
    assert identity.id == facts["qe_identity"]["id"]
    assert identity.evaluation_data_number == facts["qe_identity"]["tcb_evaluation_data_number"]
    assert rfc3339_text(identity.issue_date) == facts["qe_identity_issue"]
    assert rfc3339_text(identity.next_update) == facts["qe_identity_next_update"]
    crls = {crl.issuer_common_name: crl for crl in found.crls}
    assert len(crls[facts["pck_crl"]["issuer"]].revoked) == facts["pck_crl"]["revoked"]
    assert rfc3339_text(crls["Intel SGX Root CA"].next_update) == facts["root_ca_crl"]["next_update"]
    assert [
        {"id": identity.id, "levels": [[level.isv_svn, level.status] for level in identity.levels]}
        for identity in info.module_identities
    ] == facts["tdx_module_identities"]


@pytest.mark.parametrize(("tee", "name", "evaluation"), evaluations())
def test_collateral_counts_from_its_first_to_its_last_second(
    tee: Literal["tdx", "sgx"], name: str, evaluation: dict[str, Any]
) -> None:
    case, pool = recorded.case(tee, name), recorded.pool(recorded.bundle(evaluation["collateral"]))
    facts = next(b for b in bundles() if b["path"] == evaluation["collateral"])
    first, last = (rfc3339(facts[key], what=key) for key in ("usable_from", "usable_until"))
    unsupported = evaluation["expected"]["status"] == "TCB_NOT_SUPPORTED"
    for at in (first, last):
        if unsupported:
            with pytest.raises(VerificationError):
                case.judge(pool, at=at)
        else:
            assert case.judge(pool, at=at).tcb_info is not None
    for at in (first - SECOND, last + SECOND):
        with pytest.raises(AttestError) as refusal:
            case.judge(pool, at=at)
        assert refusal.value.exit_code == 5 or unsupported


# -- what must be refused

GOOD = "tdx-b0c06f000000-2025-06.json"
JUNE = datetime(2025, 6, 20, tzinfo=UTC)
QUOTES = {
    GOOD: ("tdx", "v4-b0c06f000000-uptodate"),
    "tdx-50806f000000-2026-03.json": ("tdx", "v4-debug"),
    "sgx-00606a000000-2025-08.json": ("tdx", "v4-00806f050000-outofdate"),
}
CODES = {
    "coll-expired": (EndorsementError, "crl-expired"),
    "coll-future": (EndorsementError, "crl-not-yet-valid"),
    "coll-tcbinfo-edit": (VerificationError, "collateral-signature-invalid"),
    "coll-qe-edit": (VerificationError, "collateral-signature-invalid"),
    "coll-whitespace": (VerificationError, "collateral-signature-invalid"),
    "coll-wrong-pck-crl": (EndorsementError, "crl-missing"),
    "coll-old-root-crl": (EndorsementError, "crl-expired"),
    "coll-issuer-chain-root-swapped": (VerificationError, "certificate-signature-invalid"),
    "coll-sgx-for-tdx": (EndorsementError, "tcb-info-missing"),
}


def negatives() -> list[Any]:
    found = recorded.manifest("collateral")["negatives"] if HERE else []
    return [pytest.param(negative, id=negative["id"]) for negative in found]


def changed(negative: dict[str, Any]) -> dict[str, str]:
    whole, mutation = recorded.bundle(negative["base"]), negative.get("mutate")
    if isinstance(mutation, str):
        return with_another_root(whole)
    if mutation is not None:
        key = mutation["key"]
        if "take_from" in mutation:
            return {**whole, key: recorded.bundle(mutation["take_from"])[key]}
        old, new, count = mutation["replace"]
        assert old in whole[key]
        return {**whole, key: whole[key].replace(old, new, count)}
    return whole


def with_another_root(whole: dict[str, str]) -> dict[str, str]:
    """Both issuer chains again: the same signing key, certified by a root of the same name."""
    chain = [parse_certificate(der) for _, der in pem_blocks(whole["tcb_info_issuer_chain"].encode())]
    key = ec.derive_private_key(77, ec.SECP256R1())
    names = (chain[0].subject, chain[0].issuer)
    forged = b"".join(
        made.pem(
            "CERTIFICATE", made_intel.resigned(c, key, spki=None if c.subject == names[0] else made_intel.spki(key))
        )
        for c in chain
    )
    return {**whole, "tcb_info_issuer_chain": forged.decode(), "qe_identity_issuer_chain": forged.decode()}


@pytest.mark.parametrize("negative", negatives())
def test_a_recorded_negative_is_refused_with_its_code(negative: dict[str, Any]) -> None:
    tee, name = QUOTES[negative["base"]]
    at = rfc3339(negative["time"], what="at") if "time" in negative else None
    facts = next(b for b in bundles() if b["path"] == negative["base"])
    when = at or rfc3339(facts["usable_from"], what="at")
    kind, code = CODES[negative["id"]]
    with pytest.raises(kind) as refusal:
        recorded.case(tee, name).judge(recorded.pool(changed(negative)), at=when)  # type: ignore[arg-type]
    assert refusal.value.code == code


# -- no byte may change


def good() -> tuple[recorded.Case, Endorsements]:
    return recorded.case("tdx", "v4-b0c06f000000-uptodate"), recorded.pool(recorded.bundle(GOOD))


def every_flip(data: bytes) -> list[bytes]:
    return [data[:i] + bytes([data[i] ^ 1]) + data[i + 1 :] for i in range(len(data))]


@pytest.mark.parametrize("which", ["tcb-info", "qe-identity"])
def test_every_flipped_byte_of_a_document_or_its_signature_is_refused(which: str) -> None:
    case, pool = good()
    whole, other = sorted(pool.documents, key=lambda document: document.kind != which)
    flipped = [IntelDocument(kind=whole.kind, body=b, signature=whole.signature) for b in every_flip(whole.body)]
    flipped += [IntelDocument(kind=whole.kind, body=whole.body, signature=s) for s in every_flip(whole.signature)]
    for document in flipped:
        with pytest.raises(AttestError) as refusal:
            case.judge(replace_in(pool, documents=(document, other)), at=JUNE)
        assert refusal.value.exit_code in {4, 5}
    case.judge(replace_in(pool, documents=(other, whole)), at=JUNE)


@pytest.mark.parametrize("issuer", ["Intel SGX Root CA", "Intel SGX PCK Platform CA"])
def test_every_flipped_byte_of_a_list_is_refused(issuer: str) -> None:
    case, pool = good()
    (whole,) = (crl for crl in pool.crls if crl.issuer_common_name == issuer)
    others = tuple(crl for crl in pool.crls if crl is not whole)
    for der in every_flip(whole.der):
        try:
            crl = parse_crl(der)
        except EvidenceError:
            continue
        with pytest.raises(AttestError) as refusal:
            case.judge(replace_in(pool, crls=(*others, crl)), at=JUNE)
        assert refusal.value.exit_code in {4, 5}


def test_every_flipped_byte_of_the_signing_certificate_is_refused() -> None:
    case, pool = good()
    (whole,) = pool.with_common_name(TCB_SIGNING_NAME)
    for der in every_flip(whole.der):
        try:
            certificate = parse_certificate(der)
        except EvidenceError:
            continue
        with pytest.raises(AttestError) as refusal:
            case.judge(replace_in(pool, certificates=(certificate,)), at=JUNE)
        assert refusal.value.exit_code in {4, 5}


def replace_in(pool: Endorsements, **changes: object) -> Endorsements:
    parts = {"certificates": pool.certificates, "crls": pool.crls, "documents": pool.documents, **changes}
    return Endorsements(**parts)  # type: ignore[arg-type]  # the keywords of the caller


def info_body(path: str) -> bytes:
    (document,) = (d for d in recorded.pool(recorded.bundle(path)).documents if d.kind == "tcb-info")
    return document.body


# -- what makes no difference


def test_the_order_of_levels_in_the_file_makes_no_difference() -> None:
    for facts in bundles():
        body = info_body(facts["path"])
        value = json.loads(body)
        for holder in (value, *value.get("tdxModuleIdentities", ())):
            holder["tcbLevels"].reverse()
        info = parse_tcb_info(json.dumps(value).encode())
        assert info == parse_tcb_info(body)


def test_the_case_of_hex_and_of_module_ids_makes_no_difference() -> None:
    body = info_body(GOOD)
    lower = re.sub(rb'"(fmspc|pceId)":"(\w+)"', lambda m: m[0].lower().replace(b"pceid", b"pceId"), body)
    lower = lower.replace(b"TDX_0", b"tdx_0")
    assert lower != body
    assert parse_tcb_info(lower) == parse_tcb_info(body)


def test_another_component_in_the_certificate_changes_the_level() -> None:
    case, pool = good()
    lower = replace(case.platform, component_svns=tuple(max(0, svn - 1) for svn in case.platform.component_svns))
    with pytest.raises(VerificationError) as refusal:
        case.judge(pool, at=JUNE, platform=lower)
    assert refusal.value.code == "tcb-not-supported"

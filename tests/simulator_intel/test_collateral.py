"""TCB info and QE identity in Intel's words and bytes, signed, and current when they are asked for."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.endorsements.intel import parse_pcs_answer
from attest.endorsements.x509 import parse_crl
from attest.evidence.intel.qe_identity import parse_qe_identity
from attest.evidence.intel.quote import Tee
from attest.evidence.intel.tcb_info import parse_tcb_info
from attest_simulator.intel import (
    IntelAuthority,
    IntelCollateral,
    Period,
    QeIdentity,
    SimulatedPlatform,
    SvnLevel,
    TcbInfo,
    TcbLevel,
    TdxModule,
    TdxModuleIdentity,
    intel_collateral,
)
from attest_simulator.intel.collateral import current_period, default_qe_identity
from attest_simulator.intel.keys import authority_key
from attest_simulator.intel.tcb import TcbComponent, components, json_time, signed_document

AT = datetime(2026, 11, 21, 12, tzinfo=UTC)
PLATFORM = SimulatedPlatform.of()
GENUINE = (
    "sgx-00606a000000-2025-08.json",
    "sgx-00a067110000-2025-06.json",
    "tdx-00806f050000-2025-06.json",
    "tdx-50806f000000-2023-06.json",
    "tdx-50806f000000-2026-03.json",
    "tdx-90c06f000000-2025-06.json",
    "tdx-90c06f000000-2026-03.json",
    "tdx-b0c06f000000-2025-06.json",
)
Json = dict[str, Any]  # Any: the recorded documents are read as they are


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text)


def parts(rows: list[Json]) -> tuple[TcbComponent, ...]:
    return tuple(TcbComponent(svn=r["svn"], category=r.get("category"), kind=r.get("type")) for r in rows)


def svn_level(row: Json) -> SvnLevel:
    return SvnLevel(
        isv_svn=row["tcb"]["isvsvn"],
        date=moment(row["tcbDate"]),
        status=row["tcbStatus"],
        advisory_ids=tuple(row.get("advisoryIDs", ())),
    )


def tcb_level(row: Json) -> TcbLevel:
    return TcbLevel(
        sgx=parts(row["tcb"]["sgxtcbcomponents"]),
        pce_svn=row["tcb"]["pcesvn"],
        tdx=parts(row["tcb"]["tdxtcbcomponents"]) if "tdxtcbcomponents" in row["tcb"] else None,
        date=moment(row["tcbDate"]),
        status=row["tcbStatus"],
        advisory_ids=tuple(row.get("advisoryIDs", ())),
    )


def module(row: Json) -> TdxModule:
    return TdxModule(
        mr_signer=bytes.fromhex(row["mrsigner"]),
        attributes=bytes.fromhex(row["attributes"]),
        attributes_mask=bytes.fromhex(row["attributesMask"]),
    )


def tcb_info(row: Json) -> TcbInfo:
    identities = row.get("tdxModuleIdentities")
    return TcbInfo(
        tee="tdx" if row["id"] == "TDX" else "sgx",
        fmspc=row["fmspc"],
        pce_id=row["pceId"],
        issue_date=moment(row["issueDate"]),
        next_update=moment(row["nextUpdate"]),
        evaluation_data_number=row["tcbEvaluationDataNumber"],
        levels=tuple(map(tcb_level, row["tcbLevels"])),
        module=module(row["tdxModule"]) if "tdxModule" in row else None,
        module_identities=None
        if identities is None
        else tuple(
            TdxModuleIdentity(name=i["id"], module=module(i), levels=tuple(map(svn_level, i["tcbLevels"])))
            for i in identities
        ),
        tcb_type=row["tcbType"],
        version=row["version"],
    )


def qe_identity(row: Json) -> QeIdentity:
    return QeIdentity(
        kind=row["id"],
        issue_date=moment(row["issueDate"]),
        next_update=moment(row["nextUpdate"]),
        evaluation_data_number=row["tcbEvaluationDataNumber"],
        misc_select=int(row["miscselect"], 16),
        misc_select_mask=int(row["miscselectMask"], 16),
        attributes=bytes.fromhex(row["attributes"]),
        attributes_mask=bytes.fromhex(row["attributesMask"]),
        mr_signer=bytes.fromhex(row["mrsigner"]),
        isv_prod_id=row["isvprodid"],
        levels=tuple(map(svn_level, row["tcbLevels"])),
        version=row["version"],
    )


def require_signed(text: str, signature: str) -> None:
    raw = bytes.fromhex(signature)
    encoded = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    key = authority_key(IntelAuthority.TCB_SIGNING).public_key()
    key.verify(encoded, text.encode(), ec.ECDSA(hashes.SHA256()))


@pytest.mark.parametrize("name", GENUINE)
def test_the_writers_give_intels_documents_byte_by_byte(vectors_dir: Path, name: str) -> None:
    genuine = json.loads((vectors_dir / "collateral" / name).read_text())
    assert tcb_info(json.loads(genuine["tcb_info"])).text() == genuine["tcb_info"]
    assert qe_identity(json.loads(genuine["qe_identity"])).text() == genuine["qe_identity"]


@pytest.mark.parametrize(
    ("name", "member"), [("tcb_info_90c06f000000.json", "tcbInfo"), ("td_qe_identity.json", "enclaveIdentity")]
)
def test_an_answer_is_intels_byte_by_byte(vectors_dir: Path, name: str, member: str) -> None:
    raw = (vectors_dir / "collateral" / "pcs-raw" / name).read_bytes()
    genuine = json.loads(raw)
    text = tcb_info(genuine[member]).text() if member == "tcbInfo" else qe_identity(genuine[member]).text()
    assert signed_document(member, text, signature=genuine["signature"]) == raw.rstrip()


@pytest.mark.parametrize("name", GENUINE)
def test_a_bundle_has_the_members_of_the_recorded_ones(vectors_dir: Path, name: str) -> None:
    genuine = json.loads((vectors_dir / "collateral" / name).read_text())
    ours = json.loads(PLATFORM.collateral("sgx" if name.startswith("sgx") else "tdx", at=AT).to_json())
    assert set(ours) == set(genuine) - {"pck_certificate_chain"}
    assert all(type(ours[member]) is type(genuine[member]) for member in ours)


@pytest.mark.parametrize("tee", ["sgx", "tdx"])
def test_collateral_is_signed_current_and_readable(tee: Tee) -> None:
    collateral = PLATFORM.collateral(tee, at=AT)
    require_signed(collateral.tcb_info, collateral.tcb_info_signature)
    require_signed(collateral.qe_identity, collateral.qe_identity_signature)
    info = parse_tcb_info(collateral.tcb_info.encode())
    identity = parse_qe_identity(collateral.qe_identity.encode())
    assert (info.fmspc, info.pce_id) == (PLATFORM.sgx.fmspc, PLATFORM.sgx.pce_id)
    for begins, ends in (
        (info.issue_date, info.next_update),
        (identity.issue_date, identity.next_update),
        *((crl.this_update, crl.next_update) for crl in collateral.endorsements().crls),
    ):
        assert begins <= AT <= ends


def test_a_verifier_takes_every_part() -> None:
    collateral = replace(PLATFORM.collateral("tdx", at=AT), pck_certificate_chain=PLATFORM.pck_chain())
    endorsements = collateral.endorsements()
    names = {certificate.common_name for certificate in endorsements.certificates}
    assert names == {"Intel SGX PCK Certificate", *(a for a in IntelAuthority if a is not IntelAuthority.PROCESSOR)}
    assert {document.kind for document in endorsements.documents} == {"tcb-info", "qe-identity"}
    assert json.loads(collateral.to_json())["pck_certificate_chain"] == PLATFORM.pck_chain()


def test_files_are_raw_answers() -> None:
    collateral = PLATFORM.collateral("tdx", at=AT)
    files = collateral.files()
    for name, text in (("tcb_info.json", collateral.tcb_info), ("qe_identity.json", collateral.qe_identity)):
        assert parse_pcs_answer(files[name]).body == text.encode()
    assert parse_crl(files["root_ca_crl.der"]).issuer_common_name == IntelAuthority.ROOT
    assert parse_crl(files["pck_crl.der"]).issuer_common_name == IntelAuthority.PLATFORM
    assert len(files) == 7


def test_the_current_period_covers_the_month_and_two_weeks() -> None:
    start, end = current_period(datetime(2026, 1, 31, 23, 59, 59, tzinfo=UTC))
    assert (start, end) == (datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 2, 15, tzinfo=UTC))
    eastern = datetime.fromisoformat("2026-02-01T01:00:00+02:00")
    assert current_period(eastern).start == start


def test_every_choice_reaches_the_bundle() -> None:
    period = Period(AT, AT + timedelta(days=30))
    root = Period(AT - timedelta(days=1), AT + timedelta(days=400))
    info = replace(PLATFORM.tcb_info("tdx", at=AT), evaluation_data_number=21, tcb_type=1, module_identities=None)
    identity = default_qe_identity("tdx", period=period, evaluation_data_number=20)
    collateral = intel_collateral(
        tcb_info=info,
        qe_identity=identity,
        crl_period=period,
        root_crl_period=root,
        ca=IntelAuthority.PROCESSOR,
        revoked=(7,),
        root_revoked=(8,),
        pck_certificate_chain="chain",
    )
    assert json.loads(collateral.tcb_info)["tcbEvaluationDataNumber"] == 21
    assert json.loads(collateral.tcb_info)["tcbType"] == 1
    assert "tdxModuleIdentities" not in json.loads(collateral.tcb_info)
    assert json.loads(collateral.qe_identity)["tcbEvaluationDataNumber"] == 20
    assert json.loads(collateral.qe_identity)["issueDate"] == json_time(AT)
    processor, of_root = parse_crl(collateral.pck_crl), parse_crl(collateral.root_ca_crl)
    assert processor.issuer_common_name == IntelAuthority.PROCESSOR
    assert processor.revoked == {7}
    assert of_root.revoked == {8}
    assert (of_root.this_update, of_root.next_update) == root
    assert collateral.pck_certificate_chain == "chain"


def test_a_platforms_collateral_takes_parts_and_revocations() -> None:
    info, identity = PLATFORM.tcb_info("sgx", at=AT), default_qe_identity("sgx", period=current_period(AT))
    collateral = PLATFORM.collateral(
        "sgx",
        at=AT,
        tcb_info=replace(info, fmspc="00606a000000"),
        qe_identity=replace(identity, kind="QVE"),
        revoked=(5,),
        root_revoked=(6,),
    )
    assert json.loads(collateral.tcb_info)["fmspc"] == "00606a000000"
    assert json.loads(collateral.qe_identity)["id"] == "QVE"
    assert parse_crl(collateral.pck_crl).revoked == {5}
    assert parse_crl(collateral.root_ca_crl).revoked == {6}


def test_components_take_labels_as_far_as_they_go() -> None:
    made = components((1, 2, 3), (("BIOS", None), ("OS/VMM", "TXT SINIT")))
    assert [part.to_object() for part in made] == [
        {"svn": 1, "category": "BIOS"},
        {"svn": 2, "category": "OS/VMM", "type": "TXT SINIT"},
        {"svn": 3},
    ]


def test_the_same_inputs_give_the_same_bytes() -> None:
    first = PLATFORM.collateral("tdx", at=AT).to_json()
    later = SimulatedPlatform.of().collateral("tdx", at=AT + timedelta(days=3)).to_json()
    assert first == later
    assert isinstance(PLATFORM.collateral("tdx", at=AT), IntelCollateral)

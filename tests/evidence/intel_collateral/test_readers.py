"""TCB info and QE identity are read strictly, and every refusal names its path."""

import contextlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.endorsements.intel import (
    MAX_DOCUMENT_BYTES,
    IntelDocument,
    intel_document,
    parse_pcs_answer,
)
from attest.errors import EvidenceError, UnsupportedError
from attest.evidence.intel.qe_identity import parse_qe_identity
from attest.evidence.intel.tcb_info import parse_tcb_info
from tests.evidence.intel_collateral import made_intel as made

Path_ = tuple[str | int, ...]


def with_changed(members: Any, path: Path_, change: Callable[[Any, Any], None]) -> bytes:  # noqa: ANN401
    value = json.loads(json.dumps(members))
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    change(holder, path[-1])
    return json.dumps(value).encode()


def assign(value: object) -> Callable[[Any, Any], None]:
    return lambda holder, key: holder.__setitem__(key, value)


def remove(holder: Any, key: Any) -> None:  # noqa: ANN401
    del holder[key]


def leaves(value: Any, path: Path_ = ()) -> list[Path_]:  # noqa: ANN401
    if isinstance(value, dict):
        found = [leaf for key, member in value.items() for leaf in leaves(member, (*path, key))]
    elif isinstance(value, list):
        found = [leaf for i, member in enumerate(value) for leaf in leaves(member, (*path, i))]
    else:
        return [path]
    return [path, *found] if path else found


def told(path: Path_, root: str) -> str:
    return root + "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path)


INFO = made.tcb_info(made.platform_level(5, 11, 5, "OutOfDate", "INTEL-SA-1"), made.platform_level(3))
IDENTITY = made.qe_identity()
OPTIONAL = {"category", "type", "advisoryIDs", "tdxModuleIdentities"}
DOCUMENTS: list[Any] = [
    pytest.param(parse_tcb_info, INFO, "tcbInfo", id="TCB info"),
    pytest.param(parse_qe_identity, IDENTITY, "enclaveIdentity", id="QE identity"),
]


@pytest.mark.parametrize(("parse", "members", "root"), DOCUMENTS)
def test_every_member_that_is_taken_away_or_of_another_type_is_refused_by_its_path(
    parse: Callable[[bytes], Any],
    members: Any,  # noqa: ANN401
    root: str,
) -> None:
    parse(made.raw(members))
    for path in leaves(members):
        if path[-1] not in OPTIONAL and isinstance(path[-1], str):
            with pytest.raises(EvidenceError) as refusal:
                parse(with_changed(members, path, remove))
            assert refusal.value.field == told(path, root)
            assert str(refusal.value).endswith("expected a member of this name, got none")
        if path[-1] in {"category", "type"}:
            continue
        others: tuple[Any, ...] = (None, 1.5, True, -1, {}, [], ["x", 1], "x y", "", [{}], 10**30)
        for other in others:
            if other == [] and path[-1] in OPTIONAL:
                continue
            with pytest.raises(EvidenceError) as refusal:
                parse(with_changed(members, path, assign(other)))
            assert (refusal.value.field or "").startswith(told(path, root)[:60])


def test_a_refusal_reads_as_the_house_style_shows_it() -> None:
    changed = with_changed(INFO, ("tcbLevels", 1, "tcb", "pcesvn"), assign("11"))
    with pytest.raises(EvidenceError, match=r"^tcbInfo\.tcbLevels\[1\]\.tcb\.pcesvn: expected integer, got string$"):
        parse_tcb_info(changed)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("tcbLevels", 0, "tcb", "sgxtcbcomponents", 3, "svn"), 256),
        (("tcbLevels", 0, "tcb", "pcesvn"), 65536),
        (("tcbLevels", 0, "tcb", "sgxtcbcomponents"), [{"svn": 0}] * 15),
        (("tcbLevels", 0, "tcb", "sgxtcbcomponents"), [{"svn": 0}] * 17),
        (("tcbLevels", 0, "tcbStatus"), "uptodate"),
        (("tcbLevels", 0, "tcbStatus"), "TDRelaunchAdvised"),
        (("tcbLevels", 0, "tcbDate"), "2025-01-01"),
        (("tcbLevels", 0, "advisoryIDs"), ["x"] * 257),
        (("tcbLevels", 0, "advisoryIDs"), ["x" * 65]),
        (("tcbLevels",), [INFO["tcbLevels"][0]] * 257),
        (("tdxModuleIdentities", 0, "tcbLevels", 0, "tcbStatus"), "SWHardeningNeeded"),
        (("tdxModuleIdentities", 1, "id"), "tdx_01"),
        (("tdxModuleIdentities", 0, "tcbLevels"), []),
        (("id",), "QE"),
        (("fmspc",), "50806F0000"),
        (("pceId",), "000"),
    ],
)
def test_what_is_out_of_bounds_is_refused(path: Path_, value: object) -> None:
    with pytest.raises(EvidenceError):
        parse_tcb_info(with_changed(INFO, path, assign(value)))


def test_the_bounds_themselves_are_accepted() -> None:
    top = made.platform_level(255, 65535, 255, "Revoked", *(["x" * 64] * 256), unknown={"a": [1]})
    levels = [made.platform_level()] * 255
    info = parse_tcb_info(made.raw(made.tcb_info(*levels, top, tcbEvaluationDataNumber=0xFFFF_FFFF, more=None)))
    assert len(info.levels) == 256
    assert info.levels[0].pce_svn == 65535


@pytest.mark.parametrize(
    ("parse", "raw"),
    [
        (parse_tcb_info, made.raw(made.tcb_info(version=2))),
        (parse_tcb_info, made.raw(made.tcb_info(tcbType=1))),
        (parse_qe_identity, made.raw(made.qe_identity(version=1))),
    ],
)
def test_other_versions_and_types_are_unsupported(parse: Callable[[bytes], Any], raw: bytes) -> None:
    with pytest.raises(UnsupportedError) as refusal:
        parse(raw)
    assert refusal.value.code == "collateral-unsupported"


@pytest.mark.parametrize(
    "raw", [b"", b"[]", b"{}", b"null", b"\xff", b'{"a":1,"a":1}', b" " * (MAX_DOCUMENT_BYTES + 1)]
)
def test_what_is_no_such_object_is_refused(raw: bytes) -> None:
    for parse in (parse_tcb_info, parse_qe_identity, parse_pcs_answer):
        with pytest.raises(EvidenceError):
            parse(raw)


def test_a_duplicate_member_deep_inside_is_refused() -> None:
    doubled = made.raw(INFO).replace(b'"pcesvn":11', b'"pcesvn":11,"pcesvn":1')
    with pytest.raises(EvidenceError) as refusal:
        parse_tcb_info(doubled)
    assert refusal.value.code == "json-invalid"


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.parametrize(("parse", "members", "root"), DOCUMENTS)
@given(data=st.data())
def test_any_value_anywhere_is_read_or_refused(
    parse: Callable[[bytes], Any],
    members: Any,  # noqa: ANN401
    root: str,
    data: st.DataObject,
) -> None:
    path = data.draw(st.sampled_from(leaves(members)))
    changed = with_changed(members, path, assign(data.draw(json_values)))
    with contextlib.suppress(EvidenceError):
        parse(changed)


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(raw: bytes) -> None:
    for parse in (parse_tcb_info, parse_qe_identity, parse_pcs_answer):
        with pytest.raises(EvidenceError):
            parse(raw)


# -- answers of the PCS

SIGNATURE = "ab" * 64


def test_the_signed_bytes_are_cut_out_exactly_as_they_were_served() -> None:
    for body in (b'{"a": [1,2 ,{"b":"}\\"]"}] , "\\u0074":"\xc3\xa9"}', b"{}", b'"text"', b"-1.50e1", b"[ ]", b"null"):
        for answer in (
            b'{"tcbInfo":%s,"signature":"%s"}',
            b' \n{\t"tcbInfo" :\r\n %s ,"signature": "%s" } \n',
            b'{"more":{"tcbInfo":1},"tcbInfo":%s,"signature":"%s"}',
            b'{"tcb\\u0049nfo":%s,"signature":"%s","last":[]}',
        ):
            document = parse_pcs_answer(answer % (body, SIGNATURE.encode()))
            assert (document.kind, document.body) == ("tcb-info", body)
            assert document.signature == bytes.fromhex(SIGNATURE)
    answer = b'{"signature":"%s","enclaveIdentity":{"id":1}}' % SIGNATURE.upper().encode()
    assert parse_pcs_answer(answer).kind == "qe-identity"


@given(st.dictionaries(st.text(max_size=4), json_values, max_size=4), json_values, st.integers(0, 4))
def test_whatever_stands_around_it_the_value_is_cut_out_exactly(around: Any, value: Any, place: int) -> None:  # noqa: ANN401
    around = {key: member for key, member in around.items() if key not in {"tcbInfo", "enclaveIdentity", "signature"}}
    body = json.dumps(value, indent=1)
    members = [f"{json.dumps(key)}: {json.dumps(member)}" for key, member in around.items()]
    members.insert(place, f'"enclaveIdentity" : {body}')
    answer = "{" + " ,".join([*members, f'"signature":"{SIGNATURE}"']) + "}"
    assert parse_pcs_answer(answer.encode()).body == body.encode()


@pytest.mark.parametrize(
    "answer",
    [
        b'{"signature":"%s"}' % SIGNATURE.encode(),
        b'{"tcbInfo":{}}',
        b'{"tcbInfo":{},"signature":1}',
        b'{"tcbInfo":{},"signature":"ab"}',
        b'{"tcbInfo":{},"signature":"%s"}' % (b"zz" * 64),
        b'{"tcbInfo":{},"enclaveIdentity":{},"signature":"%s"}' % SIGNATURE.encode(),
        b'{"tcbInfo":{},"tcbInfo":{},"signature":"%s"}' % SIGNATURE.encode(),
    ],
)
def test_an_answer_without_one_document_and_one_signature_is_refused(answer: bytes) -> None:
    with pytest.raises(EvidenceError):
        parse_pcs_answer(answer)


def test_a_document_that_is_too_large_is_refused() -> None:
    intel_document("tcb-info", b"x" * MAX_DOCUMENT_BYTES, SIGNATURE)
    with pytest.raises(EvidenceError):
        intel_document("tcb-info", b"x" * (MAX_DOCUMENT_BYTES + 1), SIGNATURE)


def test_a_signature_of_zeros_and_a_key_that_is_none_hold_nothing() -> None:
    document = IntelDocument(kind="tcb-info", body=b"x", signature=bytes(64))
    assert not document.is_signed_by(made.spki(made.SIGNING_KEY))
    assert not document.is_signed_by(b"")
    assert made.INFO.is_signed_by(made.spki(made.SIGNING_KEY))


def test_the_raw_answers_hold_what_the_bundles_hold(vectors_dir: Path) -> None:
    folder = vectors_dir / "collateral"
    for fmspc in ("90c06f000000", "50806f000000"):
        answer = parse_pcs_answer((folder / "pcs-raw" / f"tcb_info_{fmspc}.json").read_bytes())
        bundle = json.loads((folder / f"tdx-{fmspc}-2026-03.json").read_bytes())
        assert answer.body == bundle["tcb_info"].encode()
        assert answer.signature.hex() == bundle["tcb_info_signature"]


def test_a_product_number_has_sixteen_bits() -> None:
    assert parse_qe_identity(made.raw(made.qe_identity(isvprodid=0xFFFF))).isv_prod_id == 0xFFFF
    for number in (0x10000, -1):
        with pytest.raises(EvidenceError) as caught:
            parse_qe_identity(made.raw(made.qe_identity(isvprodid=number)))
        assert "isvprodid" in caught.value.message

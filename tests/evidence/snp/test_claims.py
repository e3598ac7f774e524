"""Claims: one registry, read by people, programs and policies alike."""

import json
from typing import Any

import pytest

from attest.evidence.claims import Claim, ClaimType, Origin, claims_document, value_text
from attest.evidence.snp.claims import SNP_CLAIMS, snp_claim
from attest.evidence.snp.tcb import SnpProduct
from tests.samples import scene

PROMISED = [
    "version",
    "product",
    "guest_svn",
    "vmpl",
    "policy",
    "platform_info",
    "report_data",
    "measurement",
    "host_data",
    "id_key_digest",
    "author_key_digest",
    "report_id",
    "chip_id",
    "reported_tcb",
    "current_tcb",
    "committed_tcb",
    "launch_tcb",
    "signing_key",
    "provisional_firmware",
]


def claims(**chip: object) -> dict[str, Any]:
    """The claims of an honest report as programs read them."""
    document: dict[str, Any] = json.loads(json.dumps(claims_document(SNP_CLAIMS, scene(**chip).verify())))  # type: ignore[arg-type]  # fields of the chip
    return document


def test_every_promised_claim_is_there() -> None:
    assert set(PROMISED) <= set(claims())


def test_a_claim_that_the_report_does_not_carry_is_absent_and_never_null() -> None:
    old, new = claims(report_version=2), claims(report_version=5)
    assert {"cpuid", "launch_mit_vector", "current_mit_vector"} <= set(new) - set(old)
    assert None not in old.values()


@pytest.mark.parametrize("masked", [False, True])
def test_a_chip_id_of_zeros_is_masked(masked: bool) -> None:
    found = claims(mask_chip_id=masked)
    assert (found["chip_id_masked"], any(bytes.fromhex(found["chip_id"]))) == (masked, not masked)


def test_the_tcb_has_the_components_of_its_product_line() -> None:
    genoa = claims_document(SNP_CLAIMS, scene(SnpProduct.GENOA).verify())["reported_tcb"]
    turin = claims_document(SNP_CLAIMS, scene(SnpProduct.TURIN).verify())["reported_tcb"]
    assert isinstance(genoa, dict)
    assert isinstance(turin, dict)
    assert set(turin) - set(genoa) == {"fmc"}


def test_names_are_unique_and_values_have_the_type_they_claim() -> None:
    assert len({claim.name for claim in SNP_CLAIMS}) == len(SNP_CLAIMS)
    verified = scene().verify()
    types = {
        ClaimType.BOOLEAN: bool,
        ClaimType.INTEGER: int,
        ClaimType.TEXT: str,
        ClaimType.BYTES: bytes,
        ClaimType.TCB: dict,
    }
    for claim in SNP_CLAIMS:
        value = claim.get(verified)
        assert value is None or type(value) is types[claim.type], claim.name
        assert claim.clause


def test_what_the_guest_or_the_host_chooses_is_marked_as_such() -> None:
    """must-check 40."""
    assert snp_claim("report_data").origin is Origin.GUEST
    assert snp_claim("host_data").origin is Origin.HOST
    assert snp_claim("measurement").origin is Origin.HARDWARE


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "absent"),
        (True, "true"),
        (False, "false"),
        (0, "0"),
        (b"\x00\xff", "00ff"),
        ("x", "x"),
        ({"snp": 1, "tee": 2}, "snp 1 tee 2"),
        (("INTEL-SA-00001", "INTEL-SA-00002"), "INTEL-SA-00001, INTEL-SA-00002"),
        ((), "none"),
        (({"index": 7, "got": b"\x01"}, {"index": 9, "expected": ("a", "b")}), "index 7 got 01, index 9 expected a, b"),
    ],
)
def test_values_are_written_in_full(value: Any, text: str) -> None:  # noqa: ANN401  a claim value
    assert value_text(value) == text


def test_a_list_is_a_list_in_the_document() -> None:
    claim = Claim(name="a.b", type=ClaimType.LIST, origin=Origin.CERTIFICATE, clause="x", get=lambda v: (v, "y"))
    assert claims_document([claim], "x") == {"a": {"b": ["x", "y"]}}


def test_a_nested_value_is_an_object_in_the_document_with_bytes_in_hex() -> None:
    claim = Claim(name="a", type=ClaimType.OBJECT, origin=Origin.HARDWARE, clause="x", get=lambda v: {"b": (v, 1)})
    assert claims_document([claim], b"\xff") == {"a": {"b": ["ff", 1]}}

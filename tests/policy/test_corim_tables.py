"""CoRIM, each number that is known: fields, kinds of triples, AMD's keys and Intel's registers, and the limits."""

from datetime import UTC, datetime
from typing import Any

import pytest
from cbor2 import CBORTag

from attest.errors import EvidenceError
from attest.policy.reference_values.corim import parse_corim
from attest.policy.reference_values.corim_import import MAX_TRIPLES, ImportedCorim, references_from_corim
from tests.policy.corim_made import CLASS, INTEL, TDX, amd, comid, corim, intel, launch_measurement

AT = datetime(2026, 6, 1, tzinfo=UTC)
A, B, C = bytes([1]) * 48, bytes([2]) * 48, bytes([3]) * 32
MEASUREMENT = launch_measurement(A)
DIGESTS_AND_RAW_VALUE = {2, 4}


def imported(data: bytes, **options: Any) -> ImportedCorim:  # noqa: ANN401  the arguments of `references_from_corim`
    """Read a CoRIM and carry it over."""
    return references_from_corim(parse_corim(data), at=AT, **options)


def entries(data: bytes) -> dict[str, tuple[str, tuple[bytes, ...]]]:
    """Return kind and values by name."""
    return {name: (entry.kind, entry.values) for name, entry in imported(data).document.entries.items()}


def fields_left_out(data: bytes) -> tuple[str, ...]:
    """Carry a CoRIM over that keeps its value, and return what it leaves out."""
    found = imported(data)
    assert [entry.values for entry in found.document.entries.values()] == [(A,)]
    return found.left_out


# -- fields of a measurement


@pytest.mark.parametrize("number", sorted(set(range(16)) - {12} - DIGESTS_AND_RAW_VALUE))
def test_every_field_of_the_specification_may_stand_beside_a_value(number: int) -> None:
    place = "comid[0].reference[0].measurement[0]"
    assert fields_left_out(amd({0: 641, 1: {2: [[7, A]], number: 0}})) == (f"{place}: field {number} of mkey 641",)


@pytest.mark.parametrize("number", [-86, -83, -73, -1, 12, 16])
def test_a_field_that_amds_profile_lacks_voids_its_triple(number: int) -> None:
    with pytest.raises(EvidenceError, match=f"{number} is not known") as caught:
        imported(amd({0: 641, 1: {2: [[7, A]], number: 0}}))
    assert caught.value.code == "corim-empty"


@pytest.mark.parametrize("number", [-73, -82, -85, -86])
def test_every_field_of_intels_profile_may_stand_beside_a_value(number: int) -> None:
    place = "comid[0].reference[0].measurement[0]"
    assert fields_left_out(intel({-83: [7, A], number: 0})) == (f"{place}: field {number}",)


@pytest.mark.parametrize("number", [-87, -81, -74, -72, 12, 16])
def test_a_field_that_intels_profile_lacks_voids_its_triple(number: int) -> None:
    with pytest.raises(EvidenceError, match=f"{number} is not known") as caught:
        imported(intel({-83: [7, A], number: 0}))
    assert caught.value.code == "corim-empty"


# -- kinds of triples, and AMD's keys


@pytest.mark.parametrize(
    ("number", "meaning"),
    [
        (1, "endorsed values"),
        (2, "identity keys"),
        (3, "attestation keys"),
        (4, "dependencies"),
        (5, "memberships"),
        (6, "CoSWID tags"),
        (7, "triples 7"),
        (8, "conditional endorsement series"),
        (9, "triples 9"),
        (10, "conditional endorsements"),
        (11, "triples 11"),
        (-1, "triples -1"),
        ("other", "triples other"),
    ],
)
def test_every_other_kind_of_triples_is_named(number: int | str, meaning: str) -> None:
    others: dict[Any, Any] = {number: []}
    assert fields_left_out(corim(comid([CLASS, [MEASUREMENT]], others=others))) == (f"comid[0]: {meaning}",)


@pytest.mark.parametrize(
    ("number", "meaning"),
    [
        (1, "field 1"),
        (2, "policy"),
        (6, "current TCB"),
        (7, "platform info"),
        (640, "report data"),
        (642, "field 1"),
        (645, "report id"),
        (646, "report id of the migration agent"),
        (647, "reported TCB"),
        (648, "field 1"),
        (3328, "chip id"),
        (3329, "committed TCB"),
        (3330, "current version"),
        (3936, "committed version"),
        (3968, "launch TCB"),
        (3969, "field 1"),
    ],
)
def test_every_value_of_amds_report_is_named(number: int, meaning: str) -> None:
    place = "comid[0].reference[0].measurement[1]"
    left_out = fields_left_out(amd(MEASUREMENT, {0: number, 1: {1: 5}}))
    assert left_out == (f"{place}: {meaning} of mkey {number}",)


def test_amds_keys_mean_nothing_under_intels_profile() -> None:
    triple = [TDX, [{1: {-83: [7, A]}}, {0: 647, 1: {1: 5}}]]
    assert fields_left_out(corim(comid(triple), profile=INTEL)) == (
        "comid[0].reference[0].measurement[1]: field 1 of mkey 647",
    )


# -- values


@pytest.mark.parametrize("number", [1, 2])
def test_values_of_one_instance_and_of_one_group_are_left_out(number: int) -> None:
    data = corim(comid([CLASS, [MEASUREMENT]], [CLASS | {number: CBORTag(560, b"chip")}, [launch_measurement(B)]]))
    assert entries(data) == {"image": ("snp-measurement", (A,))}
    assert imported(data).left_out == ("comid[0].reference[1]: values of one instance or group",)


@pytest.mark.parametrize(
    ("index", "kind"),
    [
        (0, "tdx-rtmr0"),
        (1, "tdx-rtmr1"),
        (2, "tdx-rtmr2"),
        (3, "tdx-rtmr3"),
        ("rtmr0", "tdx-rtmr0"),
        ("RTMR2", "tdx-rtmr2"),
        ("rtmr3", "tdx-rtmr3"),
        ("1", "tdx-rtmr1"),
    ],
)
def test_every_register_is_carried_by_number_or_by_name(index: int | str, kind: str) -> None:
    assert entries(intel({14: {index: [[7, A]]}})) == {"image": (kind, (A,))}


@pytest.mark.parametrize("index", [-1, 4, "rtmr4", "rtmr", "", "tmr1"])
def test_a_register_that_a_td_lacks_voids_its_triple(index: int | str) -> None:
    with pytest.raises(EvidenceError, match="which a TD does not have"):
        imported(intel({-83: [7, A], 14: {index: [[7, A]]}}))


def test_the_longer_digest_of_a_list_is_the_one_that_evidence_has() -> None:
    for digests in ([[7, A], [1, C]], [[1, C], [7, A]]):
        assert entries(intel({-83: digests})) == {"image": ("tdx-mr-td", (A,))}


def test_of_signers_only_those_of_an_enclave_are_carried() -> None:
    signers = CBORTag(60020, [6, [[7, A], [1, C]]])
    assert entries(intel({-84: signers})) == {"image": ("sgx-mr-signer", (C,))}


@pytest.mark.parametrize(
    ("environment", "kind"),
    [
        ({0: {1: "TDX SEAM"}}, "tdx-mr-seam"),
        ({0: {2: "tdx seam"}}, "tdx-mr-seam"),
        ({0: {1: "Intel", 2: "TDX SEAM"}}, "tdx-mr-seam"),
        ({0: {3: "TDX SEAM"}}, "tdx-mr-td"),
        ({0: {1: 5, 2: "TDX"}}, "tdx-mr-td"),
    ],
)
def test_vendor_and_model_of_a_class_separate_the_tdx_module_from_a_td(environment: dict[int, Any], kind: str) -> None:
    assert entries(intel({-83: [7, A]}, environment)) == {"image": (kind, (A,))}


@pytest.mark.parametrize("environment", [{0: {1: "Intel QE"}}, {0: {2: "tdx qe"}}])
def test_the_quoting_enclave_is_left_out_by_vendor_or_model(environment: dict[int, Any]) -> None:
    with pytest.raises(EvidenceError, match="field -83"):
        imported(intel({-83: [1, C]}, environment))


def test_equal_values_are_carried_once_and_every_measurement_of_a_triple_counts() -> None:
    data = corim(comid([CLASS, [MEASUREMENT, launch_measurement(B)]], [CLASS, [MEASUREMENT]]))
    assert entries(data) == {"image": ("snp-measurement", (A, B))}


# -- limits and options


def test_as_many_triples_as_the_limit_are_carried_in_all_tags_together() -> None:
    half = [[CLASS, [MEASUREMENT]]] * (MAX_TRIPLES // 2)
    assert entries(corim(comid(*half), comid(*half))) == {"image": ("snp-measurement", (A,))}
    with pytest.raises(EvidenceError) as caught:
        imported(corim(comid(*half), comid(*half, [CLASS, [MEASUREMENT]])))
    assert caught.value.code == "corim-malformed"


def test_name_version_and_proof_of_origin_are_the_callers() -> None:
    usual = imported(amd(MEASUREMENT)).document
    assert (usual.name, usual.version, usual.origin) == ("test", 1, "CoRIM test")
    chosen = imported(amd(MEASUREMENT), name="mine", version=7, how="signed by a known key").document
    assert (chosen.name, chosen.version) == ("mine", 7)
    assert chosen.origin == "CoRIM test, signed by a known key"

"""Drafted sections, key by key: each states the claim of the machine that it was drafted from."""

from datetime import timedelta
from typing import Any

import pytest

from attest.encoding import rfc3339_text
from attest.evidence.snp.tcb import SnpProduct
from attest.policy.authoring.draft_sections import snp_section
from tests.policy.drafts import drafted, verified_fixture
from tests.samples import scene

Json = dict[str, Any]


def section(case: str, key: str, **choices: Any) -> Json:  # noqa: ANN401  the arguments of ``choose``
    """Draft a policy from a fixture, and return one section."""
    document: Json = dict(drafted(verified_fixture(case), **choices).draft.document)
    found: Json = document[key]
    return found


def claims(case: str) -> Json:
    return dict(verified_fixture(case).items[0].claims)


# -- SEV-SNP


@pytest.mark.parametrize("case", ["milan-v5-extended", "genoa-v5-vcek", "turin-v5-vcek", "genoa-v3-vlek"])
def test_a_section_of_snp_states_the_machine(case: str) -> None:
    written, seen = section(case, "snp", default="or-newer"), claims(case)
    assert written["products"] == [seen["product"]]
    assert written["vmpl"] == [seen["vmpl"]]
    assert written["signing_key"] == [seen["signing_key"]]
    assert written["guest_policy"].items() <= seen["policy"].items()
    assert set(written["guest_policy"]) == set(seen["policy"]) - {"abi_major", "abi_minor"}
    assert written["platform_info"].items() <= {**seen["platform_info"], "alias_check_complete": True}.items()
    for key, claim in (
        ("minimum_tcb", "reported_tcb"),
        ("minimum_committed_tcb", "committed_tcb"),
        ("minimum_launch_tcb", "launch_tcb"),
    ):
        assert written[key] == {seen["product"]: dict(seen[claim])}
    for key, claim in (("mitigations_at_launch", "launch_mit_vector"), ("mitigations_now", "current_mit_vector")):
        assert written.get(key) == (seen[claim] or None if claim in seen else None)


ANY_CHIP = {"snp.tcb": "exactly", "snp.chip": "any"}
OWNED = {
    "host_data": ("host_data", 32),
    "id_key_digests": ("id_key_digest", 48),
    "author_key_digests": ("author_key_digest", 48),
    "family_ids": ("family_id", 16),
    "image_ids": ("image_id", 16),
}


@pytest.mark.parametrize("key", OWNED)
def test_a_value_that_the_owner_chose_is_demanded_and_zeros_are_not(key: str) -> None:
    honest, (field, size) = scene(), OWNED[key]
    chosen = honest.verify(honest.guest.report(bytes(64), override={field: bytes(size - 1) + b"\1"}))
    demands = snp_section(chosen, "image", ANY_CHIP).demands
    assert {name: demands[name] for name in OWNED if name in demands} == {key: ["00" * (size - 1) + "01"]}


def test_the_number_that_the_owner_counts_up_is_demanded() -> None:
    honest = scene()
    counted = honest.verify(honest.guest.report(bytes(64), override={"guest_svn": 1}))
    assert snp_section(counted, "image", ANY_CHIP).demands["minimum_guest_svn"] == 1
    assert "minimum_guest_svn" not in snp_section(honest.verify(), "image", ANY_CHIP).demands


@pytest.mark.parametrize("product", SnpProduct)
def test_a_product_whose_reports_can_be_forged_is_named_as_such(product: SnpProduct) -> None:
    comments = snp_section(scene(product).verify(), "image", ANY_CHIP).comments
    assert (("products",) in comments) is (product is SnpProduct.MILAN)


# -- Intel


@pytest.mark.parametrize("case", ["td-v4", "td-v5-1.5", "td-v4-out-of-date"])
def test_a_section_of_tdx_states_the_machine(case: str) -> None:
    written, seen = section(case, "tdx"), claims(case)
    for key in ("mr_config_id", "mr_owner", "mr_owner_config", "mr_seam"):
        assert written[key] == [seen[key]]
    assert written["td_attributes"].items() <= seen["td_attributes"].items()
    assert set(written["td_attributes"]) >= {"debug", "sept_ve_disable", "migratable", "pks", "kl", "perfmon"}
    assert [written[f"rtmr{number}"] for number in range(4)] == [[f"seen-rtmr{number}"] for number in range(4)]
    module = seen["tdx_module"]
    assert written["minimum_tdx_module_svn"] == {str(module["major_version"]): module["svn"]}
    assert "mr_seam" not in section(case, "tdx", or_newer=["tdx.module"])


def test_a_section_of_sgx_states_the_enclave() -> None:
    written, seen = section("enclave-v3", "sgx"), claims("enclave-v3")
    for key, claim in (("mr_signer", "mr_signer"), ("isv_prod_id", "isv_prod_id"), ("config_id", "config_id")):
        assert written[key] == [seen[claim]]
    assert written["minimum_isv_svn"] == seen["isv_svn"]
    assert written["attributes"].items() <= seen["attributes"].items()
    assert written["mr_enclave"] == ["seen"]
    assert set(section("enclave-v3", "sgx", or_newer=["sgx.enclave"])["mr_enclave"]) == {"unchecked"}


@pytest.mark.parametrize(("case", "key"), [("td-v4", "tdx"), ("td-v4-out-of-date", "tdx"), ("enclave-v3", "sgx")])
def test_a_section_of_intel_states_status_age_and_platform(case: str, key: str) -> None:
    written, seen = section(case, key), claims(case)
    assert written["tcb_status"] == [seen["tcb_status"]]
    assert written["fmspcs"] == [seen["fmspc"]]
    numbers = seen["tcb_evaluation_data_number"], seen["qe_identity_evaluation_data_number"]
    assert written["minimum_tcb_evaluation_data_number"] == min(numbers)
    switches = ("dynamic_platform", "cached_keys", "smt_enabled")
    assert written["platform"] == {name: seen["platform"][name] for name in switches}


def test_open_advisories_are_accepted_by_name_until_a_day_in_ninety_days() -> None:
    verified = verified_fixture("td-v4-out-of-date")
    accepted = section("td-v4-out-of-date", "tdx")["accepted_advisories"]
    assert list(accepted) == list(claims("td-v4-out-of-date")["advisory_ids"])
    assert {one["expires"] for one in accepted.values()} == {rfc3339_text(verified.at + timedelta(days=90))}
    assert "accepted_advisories" not in section("td-v4", "tdx")


@pytest.mark.parametrize("case", ["td-v4-tcb-unchecked"])
def test_without_a_status_no_demand_on_it_is_written(case: str) -> None:
    written = section(case, "tdx")
    assert not {"tcb_status", "accepted_advisories", "minimum_tcb_evaluation_data_number"} & set(written)


@pytest.mark.parametrize(
    ("case", "demanded"),
    [
        ("td-v4-eventlog", {"required": True, "secure_boot": True}),
        ("td-v4-no-secure-boot", {"required": True}),
        ("td-v4", None),
    ],
)
def test_a_log_that_came_along_is_demanded_and_secure_boot_where_it_shows_it(case: str, demanded: Json | None) -> None:
    assert section(case, "tdx").get("event_log") == demanded


# -- NVIDIA


@pytest.mark.parametrize("case", ["nvidia-hopper", "nvidia-blackwell"])
def test_a_section_of_gpus_states_the_device(case: str) -> None:
    written, seen = section(case, "gpu"), claims(case)
    for key, claim in (
        ("architectures", "architecture"),
        ("modes", "mode"),
        ("projects", "project"),
        ("project_skus", "project_sku"),
        ("chip_skus", "chip_sku"),
        ("fwids", "fwid"),
    ):
        assert written.get(key) == ([seen[claim]] if seen.get(claim) else None), key
    for key, claim in (("driver_versions", "driver_version"), ("vbios_versions", "vbios_version")):
        assert written[key] == [{"exactly": seen[claim]}]
    newer = section(case, "gpu", default="or-newer")
    assert newer["driver_versions"] == [{"at_least": seen["driver_version"]}]
    assert "fwids" not in newer


def test_a_section_of_switches_states_the_device_and_all_are_counted() -> None:
    written, seen = section("nvidia-switch", "nvswitch"), claims("nvidia-switch")
    assert written == {"vbios_versions": [{"exactly": seen["vbios_version"]}], "fwids": [seen["fwid"]]}
    assert "fwids" not in section("nvidia-switch", "nvswitch", default="or-newer")
    assert section("nvidia-switch", "devices")["switches"] == 1
    board = section("nvidia-board", "devices")
    assert (board["gpus"], board["switches"]) == (8, 4)
    assert "switches" not in section("nvidia-hopper", "devices")


# -- Azure


@pytest.mark.parametrize("case", ["azure-snp-v1", "azure-tdx-v2"])
def test_a_section_of_azure_demands_the_registers_that_the_system_extends(case: str) -> None:
    written, seen = section(case, "azure"), claims(case)
    drafted_ones = [*range(10), *range(11, 16)]
    extended = {f"pcr{index}" for index in drafted_ones if set(seen["pcrs"][str(index)]) != {"0"}}
    assert {key for key in written if key.startswith("pcr")} == extended
    assert written["vm_configuration"]["secure_boot"] is True
    assert "vm_unique_ids" not in written
    (identity,) = section(case, "azure", exactly=["azure.vm"])["vm_unique_ids"]
    assert identity == seen["vm_configuration"]["vm_unique_id"]

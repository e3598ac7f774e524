"""Floors: levels of named products; what is not stated is below them, and nothing else is judged."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.appraisal import appraise, judge_items
from attest.checks import Outcome
from attest.errors import ConfigurationError
from attest.evidence.azure.structure import HclReportType
from attest.evidence.claims import ClaimValue, StatedClaims, StatedItem
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.snp.tcb import SnpProduct
from attest.policy import FloorDemand, Policy, floor_policy, read_floor_demand
from attest.policy.floors import FLOOR_COMPONENTS
from attest.verification import VerifiedEvidence
from tests.evidence.azure.made import AzureVm
from tests.evidence.azure.made import judged as azure_verified
from tests.policy.gpu_documents import BLACKWELL, SWITCH, set_of
from tests.policy.gpu_documents import verified as device
from tests.policy.intel_documents import AT, PLATFORM, collateral, verified_enclave, verified_td, without_tcb
from tests.samples import scene
from tests.test_appraisal import verified_of
from tests.test_appraisal_intel import NO_TCB

ADVISORY = "INTEL-SA-00837"
MINIMUM = "policy.snp.minimum_tcb"


def demand(text: str) -> FloorDemand:
    product, _, rest = text.partition(":")
    component, _, value = rest.partition("=")
    return read_floor_demand(product, component, value)


def floor(*texts: str) -> Policy:
    return floor_policy("floor", 3, bytes(32), map(demand, texts))


def below(verified: VerifiedEvidence, *texts: str) -> set[str]:
    result = appraise(verified, policy=floor(*texts), at=verified.at)
    return {check.id for check in result.failed if check.id != "freshness"}


def failed(policy: Policy, gpu: VerifiedGpu) -> set[str]:
    checks = [rule.judge(gpu, at=AT, item="gpu0") for rule in policy.rules.get(gpu.kind, ())]
    return {check.id.split(".", 2)[2] for check in checks if check.outcome is Outcome.FAIL}


# -- SEV-SNP


@pytest.mark.parametrize(
    ("text", "meets"),
    [
        ("Genoa:snp=27", True),
        ("Genoa:snp=28", False),
        ("genoa:bootloader=255", False),
        ("genoa:microcode=84", True),
        ("genoa:microcode=85", False),
        ("Milan:snp=255", True),
        ("turin:fmc=255", True),
        ("tdx:tcb_status=UpToDate", True),
        ("hopper:driver=999", True),
    ],
)
def test_a_floor_judges_the_components_of_the_products_that_it_names(text: str, meets: bool) -> None:
    assert below(verified_of(scene()), text) == (set() if meets else {MINIMUM})


@pytest.mark.parametrize(
    ("component", "good", "bad"),
    [
        ("genoa:snp", ("0", "255", "000000255"), ("256", "-1", "0000000255", "\u0661", "1.0", "")),
        (
            "tdx:tcb_evaluation_data_number",
            ("1", "2147483648", "0000000001"),
            ("0", "2147483649", "02147483648", "-1", "\u0661", ""),
        ),
    ],
)
def test_a_level_is_a_decimal_number_within_its_bounds(
    component: str, good: tuple[str, ...], bad: tuple[str, ...]
) -> None:
    for text in good:
        assert demand(f"{component}={text}").value == int(text)
    for text in bad:
        with pytest.raises(ConfigurationError):
            demand(f"{component}={text}")


def test_a_floor_demands_nothing_but_its_levels() -> None:
    """A simulated guest of any measurement meets it: the key's own policy judges the rest."""
    result = appraise(verified_of(scene()), policy=floor("genoa:snp=27"), at=AT)
    assert result.affirmed
    assert [check.id for check in result.policy_checks] == ["freshness", "policy.not_simulated", MINIMUM]
    assert (result.policy.digest, result.policy.version, result.policy.production) == (bytes(32), 3, True)


def test_of_several_levels_the_highest_counts() -> None:
    assert below(verified_of(scene()), "genoa:snp=28", "genoa:snp=1") == {MINIMUM}
    assert below(verified_of(scene()), "genoa:snp=1", "genoa:snp=28") == {MINIMUM}


def test_a_floor_tells_what_is_too_low() -> None:
    check = appraise(verified_of(scene()), policy=floor("genoa:snp=28", "milan:tee=1"), at=AT).failed[0]
    assert check.expected == "at least tee 1 on Milan; at least snp 28 on Genoa"
    assert "snp 27 is below 28" in check.got


def test_every_product_line_has_its_own_layout() -> None:
    assert below(verified_of(scene(SnpProduct.TURIN)), "turin:fmc=255") == {MINIMUM}
    assert below(verified_of(scene(SnpProduct.TURIN)), "genoa:snp=255") == set()
    with pytest.raises(ConfigurationError, match="one of bootloader"):
        demand("genoa:fmc=1")


def test_a_tcb_without_a_product_is_below_every_floor() -> None:
    """Kept claims, and what another Verifier states, can lack the product line."""
    levels = {"bootloader": 255, "tee": 255, "snp": 255, "microcode": 255}
    (rule,) = floor("genoa:snp=1").rules["sev-snp"]
    stated: tuple[tuple[dict[str, ClaimValue], Outcome], ...] = (
        ({"reported_tcb": levels, "product": "Genoa"}, Outcome.PASS),
        ({"reported_tcb": levels}, Outcome.FAIL),
        ({"product": "Genoa"}, Outcome.FAIL),
        ({}, Outcome.FAIL),
    )
    for values, outcome in stated:
        assert rule.judge(StatedClaims(values=values), at=AT, item="cpu").outcome is outcome


# -- Intel


@pytest.mark.parametrize(
    ("text", "check"),
    [
        ("tdx:tcb_status=UpToDate", None),
        ("tdx:tcb_status=SWHardeningNeeded", "tcb_status"),
        ("tdx:tcb_date=2020-01-01T00:00:00Z", None),
        ("tdx:tcb_date=2099-01-01T00:00:00Z", "minimum_tcb_date"),
        ("tdx:tcb_evaluation_data_number=1", None),
        (f"tdx:advisory={ADVISORY}", None),
        ("sgx:tcb_status=OutOfDate", None),
    ],
)
def test_a_floor_judges_what_intel_says_of_a_platform(text: str, check: str | None) -> None:
    assert below(verified_td(), text) == ({f"policy.tdx.{check}"} if check else set())


def test_a_number_of_evaluation_data_is_that_of_both_documents() -> None:
    both = {f"policy.tdx.minimum_{one}tcb_evaluation_data_number" for one in ("",)}
    both |= {"policy.tdx.minimum_qe_identity_evaluation_data_number"}
    assert below(verified_td(), "tdx:tcb_evaluation_data_number=2147483648") == both


def test_a_floor_of_tdx_is_none_of_sgx() -> None:
    assert below(verified_enclave(), "tdx:tcb_status=OutOfDate") == set()
    assert below(verified_enclave(), "sgx:tcb_status=OutOfDate") == {"policy.sgx.tcb_status"}


def test_a_platform_for_which_a_named_advisory_is_listed_is_refused() -> None:
    verified = verified_td(endorsements=collateral("tdx", PLATFORM, "SWHardeningNeeded", advisories=(ADVISORY,)))
    assert below(verified, f"tdx:advisory={ADVISORY}") == {"policy.tdx.refused_advisories"}
    assert below(verified, "tdx:advisory=INTEL-SA-00001", f"tdx:advisory={ADVISORY}") != set()
    assert below(verified, "tdx:advisory=INTEL-SA-00001") == set()


def test_statuses_of_several_entries_are_those_that_all_accept() -> None:
    verified = verified_td(endorsements=collateral("tdx", PLATFORM, "SWHardeningNeeded"))
    both = "tdx:tcb_status=SWHardeningNeeded+UpToDate"
    assert below(verified, both) == set()
    assert below(verified, both, "tdx:tcb_status=UpToDate") == {"policy.tdx.tcb_status"}


@pytest.mark.parametrize(
    "text",
    [
        "tdx:tcb_status=UpToDate",
        "tdx:tcb_date=2020-01-01T00:00:00Z",
        "tdx:tcb_evaluation_data_number=1",
        f"tdx:advisory={ADVISORY}",
    ],
)
def test_a_tcb_that_a_policy_left_unchecked_is_below_every_floor(text: str) -> None:
    """A key's policy cannot relax its way around a floor."""
    verified = verified_td(endorsements=without_tcb("tdx"), unchecked=NO_TCB)
    assert len(below(verified, text)) >= 1


# -- within an Azure VM


def test_a_floor_judges_the_report_within_an_azure_vm() -> None:
    snp, tdx = (azure_verified(AzureVm(kind=kind)) for kind in HclReportType)
    line = str(next(item.silicon for item in snp.items).product).lower()  # type: ignore[attr-defined]  # a report
    assert below(snp, f"{line}:snp=255") == {MINIMUM}
    assert below(snp, f"{line}:snp=0") == set()
    assert below(tdx, "tdx:tcb_date=2099-01-01T00:00:00Z") == {"policy.tdx.minimum_tcb_date"}
    assert below(tdx, f"{line}:snp=255") == set()


# -- NVIDIA


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("hopper:driver=580.95.05", set()),
        ("hopper:driver=580.95.06", {"driver_versions"}),
        ("hopper:vbios=96.00.9F.00.01", set()),
        ("hopper:vbios=96.00.FF.00.01", {"vbios_versions"}),
        ("blackwell:driver=999", set()),
        ("ls10:vbios=ff.00", set()),
    ],
)
def test_a_floor_judges_the_versions_of_a_gpu(text: str, names: set[str]) -> None:
    assert failed(floor(text), device()) == names


def test_each_architecture_has_its_own_versions() -> None:
    both = floor("hopper:driver=1", "blackwell:driver=999")
    assert failed(both, device()) == set()
    assert failed(both, device(BLACKWELL)) == {"driver_versions"}


def test_a_floor_judges_switches_as_such() -> None:
    assert failed(floor("ls10:vbios=ff.00"), device(SWITCH)) == {"vbios_versions"}
    assert failed(floor("ls10:vbios=1"), device(SWITCH)) == set()
    assert failed(floor("hopper:vbios=ff.00"), device(SWITCH)) == set()


@pytest.mark.parametrize(
    ("values", "outcome"),
    [
        ({"architecture": "hopper", "driver_version": "570"}, Outcome.PASS),
        ({"architecture": "hopper", "driver_version": "570 beta"}, Outcome.FAIL),
        ({"architecture": "hopper"}, Outcome.FAIL),
        ({"driver_version": "570"}, Outcome.FAIL),
        ({"architecture": "blackwell"}, Outcome.PASS),
    ],
)
def test_a_device_that_does_not_state_its_architecture_or_version_is_below(
    values: dict[str, str], outcome: Outcome
) -> None:
    (rule,) = floor("hopper:driver=1").rules["nvidia-gpu"]
    assert rule.judge(StatedClaims(values=dict(values)), at=AT, item="gpu0").outcome is outcome


def test_a_kind_of_device_that_no_floor_knows_is_refused() -> None:
    policy = floor("genoa:snp=0")
    other = StatedItem(name="cpu", kind="cca", verified=StatedClaims(values={}))
    checks, _ = judge_items([other], devices=lambda: set_of([]), policy=policy, at=AT, reasons={})
    assert [(check.id, check.outcome) for check in checks] == [("policy.kind", Outcome.FAIL)]


# -- demands


@pytest.mark.parametrize(
    "text",
    [
        "epyc:snp=1",
        "genoa:reported=1",
        "genoa:snp=256",
        "genoa:snp=0000000255",
        "genoa:snp=-1",
        "genoa:snp=1.0",
        "genoa:snp=9999999999999999999999",
        "genoa:snp=",
        "genoa:snp=\N{ARABIC-INDIC DIGIT ONE}",
        "tdx:tcb_status=",
        "tdx:tcb_status=Revoked",
        "tdx:tcb_status=UpToDate+",
        "tdx:tcb_date=2025",
        "tdx:tcb_evaluation_data_number=0",
        "tdx:tcb_evaluation_data_number=x",
        "tdx:tcb_evaluation_data_number=00000000001",
        "tdx:tcb_evaluation_data_number=2147483649",
        "tdx:advisory=CVE-2025-1",
        "hopper:driver=new",
        "hopper:vbios=96.00.GG",
        "ls10:driver=1",
        "",
    ],
)
def test_what_is_no_demand_is_refused(text: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        demand(text)
    assert refused.value.code == "policy-invalid"


@pytest.mark.parametrize(
    ("given_text", "text"),
    [
        ("Genoa:snp=007", "genoa:snp=7"),
        ("genoa:snp=000000255", "genoa:snp=255"),
        ("genoa:snp=0", "genoa:snp=0"),
        ("tdx:tcb_evaluation_data_number=0000000001", "tdx:tcb_evaluation_data_number=1"),
        ("tdx:tcb_evaluation_data_number=2147483648", "tdx:tcb_evaluation_data_number=2147483648"),
        ("TDX:tcb_status=UpToDate+SWHardeningNeeded+UpToDate", "tdx:tcb_status=SWHardeningNeeded+UpToDate"),
        ("tdx:tcb_date=2026-01-01T01:00:00+01:00", "tdx:tcb_date=2026-01-01T00:00:00Z"),
        ("hopper:driver=570.086", "hopper:driver=570.086"),
    ],
)
def test_a_demand_has_one_spelling(given_text: str, text: str) -> None:
    assert str(demand(given_text)) == text
    assert demand(text) == demand(given_text)


@pytest.mark.parametrize(
    ("more", "less"),
    [
        ("genoa:snp=28", "genoa:snp=27"),
        ("tdx:tcb_status=UpToDate", "tdx:tcb_status=SWHardeningNeeded+UpToDate"),
        ("tdx:tcb_date=2026-01-02T00:00:00Z", "tdx:tcb_date=2026-01-01T00:00:00Z"),
        ("tdx:tcb_evaluation_data_number=10", "tdx:tcb_evaluation_data_number=9"),
        ("hopper:driver=570.10", "hopper:driver=570.9"),
        ("hopper:vbios=96.00.a0", "hopper:vbios=96.00.9F"),
    ],
)
def test_the_higher_demand_covers_the_lower_one(more: str, less: str) -> None:
    assert demand(more).covers(demand(less))
    assert not demand(less).covers(demand(more))
    assert demand(more).covers(demand(more))
    assert demand("hopper:driver=570").covers(demand("hopper:driver=570.0"))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("genoa:snp=28", "milan:snp=1"),
        ("genoa:snp=28", "genoa:tee=1"),
        ("tdx:tcb_date=2099-01-01T00:00:00Z", "sgx:tcb_date=2020-01-01T00:00:00Z"),
        ("tdx:advisory=INTEL-SA-00001", "tdx:advisory=INTEL-SA-00002"),
        ("tdx:tcb_status=UpToDate", "tdx:tcb_status=SWHardeningNeeded"),
    ],
)
def test_demands_on_different_things_do_not_cover_each_other(one: str, other: str) -> None:
    assert not demand(one).covers(demand(other))


@given(
    level=st.integers(0, 255),
    more=st.integers(0, 255),
    line=st.sampled_from(list(SnpProduct)),
    part=st.sampled_from(["bootloader", "tee", "snp", "microcode"]),
)
def test_a_higher_floor_never_accepts_what_a_lower_one_refuses(
    level: int, more: int, line: SnpProduct, part: str
) -> None:
    verified = verified_of(scene())
    low, high = sorted((level, more))
    assert below(verified, f"{line}:{part}={low}") <= below(verified, f"{line}:{part}={high}")


def test_every_component_can_be_written_down() -> None:
    values = {"tcb_status": "UpToDate", "tcb_date": "2026-01-01T00:00:00Z", "advisory": ADVISORY}
    texts = [
        f"{product}:{name}={values.get(name, '1')}" for product, named in FLOOR_COMPONENTS.items() for name in named
    ]
    assert {str(one) for one in map(demand, texts)} == set(texts)
    assert {leaf.kind for leaf in floor(*texts).tree.members} == {  # type: ignore[union-attr]  # leaves
        *("sev-snp", "tdx", "sgx", "azure-snp", "azure-tdx", "nvidia-gpu", "nvidia-switch", "sample", "sample-device")
    }
    assert datetime(2026, 1, 1, tzinfo=UTC) == demand("tdx:tcb_date=2026-01-01T00:00:00Z").value

"""Conversions: what is carried, what is lost, and that nothing is lost in silence."""

import json
from collections.abc import Callable, Mapping
from dataclasses import fields, replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attest.appraisal import appraise
from attest.checks import Outcome
from attest.errors import ConfigurationError
from attest.policy import Policy, load_policy
from attest.policy.foreign.conversion import Loss, finish_policy
from attest.policy.foreign.convert import Conversion, convert_nvidia, convert_skr, export_skr, recognised
from attest.policy.foreign.nvidia_json import leaves, parse_nvidia
from attest.policy.foreign.skr import claim_tests, parse_skr
from attest.policy.model import decode_policy
from attest.policy.reference_values.accepted_documents import decode_accepted_document
from attest.policy.snp import SnpDemands
from tests.policy.documents import document as snp_document
from tests.policy.gpu_documents import BLACKWELL, HOPPER, SWITCH, failed, gpu_document, verified
from tests.policy.intel_documents import sgx_document, tdx_document
from tests.policy.mixed import mixed, snp_cpu
from tests.policy.nvidia_documents import gpu_claims, nvidia, switch_claims
from tests.policy.skr_documents import ISSUER, MEASUREMENT, OPERATORS, Json, azure_claims, equals, skr
from tests.policy.skr_evaluator import evaluate_skr
from tests.samples import AT, scene

TEE = "x-ms-isolation-tee."
SNP, TDX = f"{TEE}x-ms-sevsnpvm-", f"{TEE}tdx_"
IS_SNP = equals(f"{TEE}x-ms-attestation-type", "sevsnpvm")
IS_TDX = equals(f"{TEE}x-ms-attestation-type", "tdxvm")
HOPPER_DRIVER, HOPPER_VBIOS = verified(HOPPER).driver_version, verified(HOPPER).vbios_version
SWITCH_BIOS = verified(SWITCH).vbios_version
ACCEPT = {"authority": "we verify ourselves"}


def from_skr(*conditions: Json, accept: Mapping[str, str] = ACCEPT, group: str = "allOf") -> Conversion:
    return convert_skr(parse_skr(skr(*conditions, group=group), extended=True), name="converted", accept=accept)


def from_nvidia(detached: Json, overall: Json | None = None, *, version: str = "4.0", **accept: str) -> Conversion:
    policy = parse_nvidia(nvidia(detached, overall, version=version))
    return convert_nvidia(policy, name="converted", accept={k.replace("_", "-"): v for k, v in accept.items()})


def losses(conversion: Conversion) -> list[str]:
    return [loss.name for loss in conversion.losses if loss.name != "authority"]


def outcome(conversion: Conversion) -> tuple[Json, Policy]:
    """The document, which loads."""
    document = conversion.document
    assert document is not None
    return document, load_policy(json.dumps(document).encode())


def refusal(code: str) -> Any:  # noqa: ANN401  pytest's own
    return pytest.raises(ConfigurationError, check=lambda exc: exc.code == code)


# -- from Azure


def test_what_azure_says_of_an_snp_report_is_carried() -> None:
    conversion = from_skr(
        IS_SNP,
        {"anyOf": [equals(f"{SNP}launchmeasurement", "ab" * 48), equals(f"{SNP}launchmeasurement", "cd" * 48)]},
        equals(f"{SNP}hostdata", "01" * 32),
        equals(f"{SNP}authorkeydigest", "02" * 48),
        equals(f"{SNP}idkeydigest", "03" * 48),
        equals(f"{SNP}familyId", "04" * 16),
        equals(f"{SNP}imageId", "05" * 16),
        equals(f"{SNP}vmpl", "0"),
        equals(f"{SNP}is-debuggable", "false"),
        equals(f"{SNP}migration-allowed", False),
        equals(f"{SNP}smt-allowed", "true"),
        {"claim": f"{SNP}guestsvn", "greater": 6},
        {"claim": f"{SNP}snpfw-svn", "greaterOrEquals": "8"},
        {"claim": f"{SNP}snpfw-svn", "greaterOrEquals": 7},
        {"claim": f"{SNP}microcode-svn", "greaterOrEquals": 115},
    )
    document, _ = outcome(conversion)
    assert losses(conversion) == []
    level = {"bootloader": 0, "tee": 0, "snp": 8, "microcode": 115}
    snp = document["snp"]
    assert set(snp.pop("products")) == {"unchecked"}
    assert snp == {
        "measurement": ["converted-measurement"],
        "minimum_tcb": {"Milan": level, "Genoa": level},
        "host_data": ["01" * 32],
        "author_key_digests": ["02" * 48],
        "id_key_digests": ["03" * 48],
        "family_ids": ["04" * 16],
        "image_ids": ["05" * 16],
        "vmpl": [0],
        "guest_policy": {"debug": False, "migrate_ma": False, "smt": True},
        "minimum_guest_svn": 7,
    }
    assert document["reference_values"]["converted-measurement"]["values"] == ["ab" * 48, "cd" * 48]
    stricter = "\n".join(conversion.stricter)
    assert "snp.firmware_rollback_protected: true" in stricter
    assert "Turin is refused" in stricter
    assert "guest_policy.debug" not in stricter


def test_what_azure_says_of_a_td_report_is_carried_wherever_it_stands() -> None:
    for prefix in (TEE, ""):
        facts = ("mrtd", "rtmr0", "rtmr3", "mrseam", "mrconfigid", "mrowner", "mrownerconfig")
        bits = {"debug": False, "key_locker": False, "perfmon": True, "protection_keys": False, "septve_disable": True}
        conversion = from_skr(
            equals("eat_profile", "https://aka.ms/maa-eat-profile-tdxvm"),
            *(equals(f"{prefix}tdx_{name}", f"{index:02x}" * 48) for index, name in enumerate(facts)),
            *(equals(f"{prefix}tdx_td_attributes_{name}", value) for name, value in bits.items()),
            equals(f"{prefix}attester_tcb_status", "UpToDate"),
        )
        document, _ = outcome(conversion)
        assert losses(conversion) == []
        assert document["tdx"] == {
            "mr_td": ["converted-mr-td"],
            "rtmr1": {"unchecked": "not demanded by the Azure release policy from which this policy was converted"},
            "rtmr0": ["converted-rtmr0"],
            "rtmr3": ["converted-rtmr3"],
            "mr_seam": ["03" * 48],
            "mr_config_id": ["04" * 48],
            "mr_owner": ["05" * 48],
            "mr_owner_config": ["06" * 48],
            "tcb_status": ["UpToDate"],
            "td_attributes": {"debug": False, "kl": False, "perfmon": True, "pks": False, "sept_ve_disable": True},
        }


def test_what_the_source_does_not_demand_is_left_unchecked_with_that_reason() -> None:
    document, policy = outcome(from_skr(IS_TDX))
    relaxed = {"unchecked": "not demanded by the Azure release policy from which this policy was converted"}
    assert document["tdx"] == {"mr_td": relaxed, "rtmr1": relaxed}
    assert policy.name == "converted"
    assert policy.simulated is None
    assert "not carried: authority (we verify ourselves)" in document["description"]


# Every kind of claim that has no place in ours, with a word of why (azure-skr.md, 12).
LOST = [
    (equals(f"{TEE}x-ms-compliance-status", "azure-compliant-cvm"), "judgement"),
    (equals(f"{SNP}reportdata", "00" * 64), "every exchange"),
    (equals("tdx_report_data", "00" * 64), "every exchange"),
    (equals(f"{SNP}reportid", "00" * 32), "every start"),
    (equals("nonce", "x"), "guest chooses"),
    (equals("x-ms-runtime.client-payload.nonce", "x"), "guest chooses"),
    (equals("x-ms-inittime.a", "x"), "HOSTDATA"),
    (equals(f"{TEE}x-ms-runtime.vm-configuration.secure-boot", True), "paravisor"),
    (equals("secureboot", True), "virtual TPM"),
    (equals("x-ms-azurevm-testsigning-enabled", False), "virtual TPM"),
    (equals("x-ms-policy-hash", "x"), "concerns the token"),
    (equals(f"{TDX}seamsvn", 3), "version of the TDX module"),
    (equals(f"{TDX}xfam", "e718060000000000"), "bits"),
    (equals("my-own-claim", "x"), "no claim of attest"),
    (equals("x-ms-attestation-type", "azurevm"), "hardware"),
    (equals("eat_profile", "x"), "profile"),
    (equals(f"{SNP}launchmeasurement", MEASUREMENT.upper()), "never be met there"),
    (equals(f"{SNP}launchmeasurement", "ab"), "never be met there"),
    (equals(f"{SNP}launchmeasurement", 7), "never be met there"),
    (equals(f"{SNP}is-debuggable", True), "never demand true"),
    (equals(f"{SNP}is-debuggable", "x"), "truth"),
    (equals(f"{SNP}vmpl", 4), "0 to 3"),
    (equals(f"{SNP}vmpl", "01"), "0 to 3"),
    (equals(f"{SNP}guestsvn", 2**33), "from 0 to"),
    ({"claim": f"{SNP}guestsvn", "greater": "x"}, "from 0 to"),
    ({"claim": f"{SNP}guestsvn", "less": 7}, "no less"),
    ({"claim": f"{SNP}launchmeasurement", "notEquals": MEASUREMENT}, "no notEquals"),
    ({"claim": f"{SNP}hostdata", "exists": True}, "no exists"),
]


@pytest.mark.parametrize(("condition", "why"), LOST)
def test_a_claim_that_has_no_place_is_named_and_refused_until_accepted(condition: Json, why: str) -> None:
    # must-check 40 for what the guest chooses.
    conversion = from_skr(IS_SNP, condition)
    (loss,) = conversion.open_losses
    assert conversion.document is None
    assert loss.name == condition["claim"]
    assert why in loss.why
    assert loss.remedy
    accepted = from_skr(IS_SNP, condition, accept={**ACCEPT, loss.name: "we know"})
    document, _ = outcome(accepted)
    assert f"{loss.name} (we know)" in document["description"]


def test_a_status_that_no_policy_of_ours_accepts_is_lost() -> None:
    conversion = from_skr(IS_TDX, equals("attester_tcb_status", "Revoked"))
    assert losses(conversion) == ["attester_tcb_status"]


def test_an_exact_number_becomes_a_minimum_and_says_so() -> None:
    conversion = from_skr(equals(f"{SNP}guestsvn", 7), accept={**ACCEPT, f"{SNP}guestsvn": "newer is fine"})
    document, _ = outcome(conversion)
    assert document["snp"]["minimum_guest_svn"] == 7
    assert losses(conversion) == [f"{SNP}guestsvn"]
    assert "at least 7" in conversion.losses[1].why


def test_nesting_that_says_nothing_more_is_seen_through() -> None:
    value = equals(f"{SNP}vmpl", 0)
    nested = {"anyOf": [{"allOf": [{"anyOf": [value, {"allOf": [equals(f"{SNP}vmpl", 1)]}]}]}]}
    document, _ = outcome(from_skr(nested, equals(f"{SNP}vmpl", 1), {"anyOf": [{"anyOf": [IS_SNP]}]}))
    assert document["snp"]["vmpl"] == [1]
    assert outcome(from_skr(IS_SNP, group="anyOf"))


@pytest.mark.parametrize(
    ("conditions", "problem"),
    [
        ([equals(f"{SNP}vmpl", 0), equals(f"{SNP}vmpl", 1)], "no value of snp.vmpl"),
        ([equals(f"{SNP}smt-allowed", True), equals(f"{SNP}smt-allowed", False)], "true and false"),
        ([IS_SNP, IS_TDX], "two kinds"),
        ([IS_TDX, {"claim": f"{SNP}snpfw-svn", "greater": 1}], "two kinds"),
        ([equals("secureboot", True)], "no kind"),
    ],
)
def test_a_policy_that_never_holds_or_names_no_machine_is_not_converted(conditions: list[Json], problem: str) -> None:
    with refusal("policy-conversion-impossible") as caught:
        from_skr(*conditions)
    assert problem in caught.value.message


def test_of_several_authorities_one_is_chosen_or_all_say_the_same() -> None:
    def policy(*urls_and_kinds: tuple[str, Json]) -> bytes:
        listed = [{"authority": url, "allOf": [kind]} for url, kind in urls_and_kinds]
        return json.dumps({"version": "1.0.0", "anyOf": listed}).encode()

    east, west = "https://east.example", "https://west.example/"
    same = convert_skr(parse_skr(policy((east, IS_SNP), (west, IS_SNP))), name="x", accept=ACCEPT)
    assert "snp" in outcome(same)[0]
    differing = parse_skr(policy((east, IS_SNP), (west, IS_TDX)))
    assert convert_skr(differing, name="x", accept=ACCEPT).document is None
    chosen = convert_skr(differing, name="x", accept=ACCEPT, authority="https://WEST.example")
    assert "tdx" in outcome(chosen)[0]
    assert chosen.losses[0].demand == "a token of https://west.example"
    with refusal("policy-conversion-impossible"):
        convert_skr(differing, name="x", accept=ACCEPT, authority="https://north.example")


@pytest.mark.parametrize(
    ("accept", "problem"),
    [
        ({**ACCEPT, "authorty": "x"}, "'authorty' is not the name of a loss"),
        ({"authority": " "}, "authority: a reason is needed"),
        ({**ACCEPT, "jti": "x"}, "'jti' is not the name of a loss"),
    ],
)
def test_an_accepted_loss_that_is_none_or_has_no_reason_is_refused(accept: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        from_skr(IS_SNP, accept=accept)
    assert caught.value.code == "loss-unknown"
    assert caught.value.message == f"accepted loss: {problem}"


def test_a_name_that_our_policies_do_not_take_is_refused() -> None:
    with refusal("policy-invalid"):
        convert_skr(parse_skr(skr(IS_SNP)), name="No Name", accept=ACCEPT)


def test_reasons_that_fill_no_description_are_counted() -> None:
    document, _ = outcome(from_skr(IS_SNP, accept={"authority": "x" * 4090}))
    assert "1 demands were not carried" in document["description"]


# -- laws over conversions from Azure

_CONDITIONS = st.one_of(
    st.sampled_from([IS_SNP, equals(f"{SNP}vmpl", 0), equals(f"{SNP}vmpl", "1"), equals(f"{SNP}smt-allowed", True)]),
    st.sampled_from([equals(f"{SNP}is-debuggable", False), equals(f"{SNP}hostdata", "00" * 32)]),
    st.builds(
        lambda name, word, number: {"claim": f"{SNP}{name}", word: number},
        st.sampled_from(["guestsvn", "snpfw-svn", "microcode-svn"]),
        st.sampled_from(OPERATORS),
        st.integers(0, 130),
    ),
    st.sampled_from([condition for condition, _ in LOST]),
)
_TREES: st.SearchStrategy[Json] = st.recursive(
    _CONDITIONS,
    lambda below: st.builds(
        lambda name, members: {name: members},
        st.sampled_from(["allOf", "anyOf"]),
        st.lists(below, min_size=1, max_size=3),
    ),
    max_leaves=6,
)


@given(conditions=st.lists(_TREES, max_size=4))
def test_every_claim_of_a_source_is_carried_or_listed_as_lost(conditions: list[Json]) -> None:
    policy = parse_skr(skr(IS_SNP, *conditions), extended=True)
    try:
        conversion = convert_skr(policy, name="x")
    except ConfigurationError as exc:
        if exc.code != "policy-conversion-impossible":
            raise
        return
    told = {one.source for one in conversion.carried} | {one.name for one in conversion.losses}
    assert {test.path for test in claim_tests(policy.authorities[0].conditions)} <= told
    assert conversion.document is None  # the authority, at least
    accepted = convert_skr(policy, name="x", accept={loss.name: "a test" for loss in conversion.losses})
    assert outcome(accepted)


REPORT = scene().verify()


CLAIMED = azure_claims(snp_cpu().claims)
FACTS = {path: value for path, value in CLAIMED["x-ms-isolation-tee"].items() if path != "x-ms-attestation-type"}


def _values(value: object) -> list[object]:
    """The value, and some that are not it."""
    if isinstance(value, bool):
        return [value, not value, str(value).lower()]
    if isinstance(value, int):
        return [value, value + 1, max(value - 1, 0), str(value)]
    assert isinstance(value, str)
    return [value, "0" * len(value), "1" * len(value)]


_ABOUT_REPORTS = st.sampled_from(sorted(FACTS)).flatmap(
    lambda path: st.builds(
        lambda word, value: {"claim": TEE + path, word: value},
        st.sampled_from(["equals", "equals", "greater", "greaterOrEquals", "less"]),
        st.sampled_from(_values(FACTS[path])),
    )
)


@given(
    conditions=st.lists(
        st.recursive(
            _ABOUT_REPORTS,
            lambda one: st.builds(lambda m: {"anyOf": m}, st.lists(one, min_size=1, max_size=2)),
            max_leaves=3,
        ),
        max_size=4,
    )
)
def test_what_is_carried_whole_never_accepts_what_its_source_refuses(conditions: list[Json]) -> None:
    policy = parse_skr(skr(IS_SNP, *conditions), extended=True)
    try:
        conversion = convert_skr(policy, name="x", accept=ACCEPT)
    except ConfigurationError as exc:
        if exc.code == "policy-conversion-impossible" and "can be carried" not in exc.message:
            assert not evaluate_skr(policy, CLAIMED).holds
        return
    if conversion.document is None:
        return
    _, ours = outcome(conversion)
    result = appraise(mixed(snp_cpu()), policy=ours, at=AT)
    affirmed = {check.id for check in result.failed} <= {"policy.not_simulated"}
    released = evaluate_skr(policy, CLAIMED).holds
    assert released or not affirmed
    strict = {line.split(":")[0] for line in conversion.stricter}
    failing: dict[str | None, set[str]] = {}
    for placed in (one for one in ours.all_rules() if one.kind == "sev-snp"):
        found = failing.setdefault(placed.path or None, set())
        if placed.rule.judge(REPORT, at=AT, item="cpu").outcome is Outcome.FAIL:
            found.add(placed.rule.id.removeprefix("policy."))
    # What refuses beyond the source is announced: in the policy itself, and in one of its alternatives.
    whole = failing.pop(None, set())
    assert not released or (whole <= strict and (not failing or any(one <= strict for one in failing.values())))


# -- from NVIDIA


@pytest.mark.parametrize("version", ["3.0", "4.0"])
def test_what_the_tools_list_of_a_gpu_is_carried_whole(version: str) -> None:
    claims = gpu_claims(version={"3.0": "2.0", "4.0": "3.0"}[version])
    extra = {"x-nvidia-device-type": "gpu", "x-nvidia-gpu-driver-version": HOPPER_DRIVER}
    conversion = from_nvidia({**claims, **extra, "x-nvidia-gpu-vbios-version": HOPPER_VBIOS}, version=version)
    document, policy = outcome(conversion)
    assert conversion.losses == ()
    listed = [".".join(names) for names, _ in leaves(claims)]
    assert {one.source for one in conversion.carried} >= {*listed, *extra, "overall-claims.x-nvidia-overall-att-result"}
    gpu = document["gpu"]
    assert set(gpu.pop("architectures")) == {"unchecked"}
    assert gpu == {
        "rim": True,
        "fwid_required": True,
        "held_rim_signers": False,
        "driver_versions": {"exactly": HOPPER_DRIVER},
        "vbios_versions": {"exactly": HOPPER_VBIOS},
    }
    assert failed(policy, verified(HOPPER)) == set()
    assert "vbios_versions" in failed(policy, verified(BLACKWELL))
    assert {line.split(":")[0] for line in conversion.stricter} >= {"devices.bound", "gpu.cc_mode", "gpu.environment"}


def test_what_the_tools_list_of_a_switch_is_carried_whole() -> None:
    conversion = from_nvidia({**switch_claims(), "x-nvidia-switch-bios-version": SWITCH_BIOS})
    document, policy = outcome(conversion)
    assert conversion.losses == ()
    assert document["nvswitch"] == {
        "vbios_versions": {"exactly": SWITCH_BIOS},
        "rim": True,
        "held_rim_signers": False,
    }
    assert failed(policy, verified(SWITCH)) == set()


GPU = {"x-nvidia-gpu-arch-check": True}


def test_the_overall_result_alone_stands_for_all_that_is_strict_of_its_kind_of_device() -> None:
    strict = {"rim": True, "fwid_required": True}
    for kind, expected in (("gpu", strict), ("nvswitch", {"rim": True})):
        detached = {"x-nvidia-device-type": kind}
        document, _ = outcome(from_nvidia(detached, {"x-nvidia-overall-att-result": True}))
        assert {key: document[kind].get(key) for key in strict} == {key: expected.get(key) for key in strict}


@pytest.mark.parametrize(
    ("detached", "overall", "name", "why"),
    [
        ({**GPU, "hwmodel": "GH100 A01 GSP BROM"}, {}, "hwmodel", "models"),
        ({**GPU, "ueid": "1"}, {}, "ueid", "names no device"),
        ({**GPU, "eat_nonce": "00"}, {}, "eat_nonce", "one exchange"),
        ({**GPU, "measres": "fail"}, {}, "measres", "demand only 'success' of it"),
        ({**GPU, "secboot": 1}, {}, "secboot", "True of it"),
        ({**GPU, "x-nvidia-gpu-driver-version": "570.x"}, {}, "x-nvidia-gpu-driver-version", "a version is"),
        ({**GPU, "x-nvidia-gpu-vbios-version": 96}, {}, "x-nvidia-gpu-vbios-version", "a version is"),
        ({**GPU, "x-nvidia-device-type": 7}, {}, "x-nvidia-device-type", "no device"),
        ({**GPU, "my-claim": ["x"]}, {}, "my-claim", "no claim of attest"),
        ({**GPU, "x-nvidia-attestation-warning": None}, {}, "x-nvidia-attestation-warning", "no such text"),
        (GPU, {"iss": "https://nras.attestation.nvidia.com"}, "overall-claims.iss", "verifies the evidence itself"),
        (GPU, {"x-nvidia-ver": "3.0"}, "overall-claims.x-nvidia-ver", "concerns the token"),
        (GPU, {"x-nvidia-overall-att-result": False}, "overall-claims.x-nvidia-overall-att-result", "corresponds"),
        (
            {"x-nvidia-gpu-driver-rim-cert-chain": {"x-nvidia-cert-ocsp-status": "revoked"}},
            {},
            "x-nvidia-gpu-driver-rim-cert-chain.x-nvidia-cert-ocsp-status",
            "'good' of it",
        ),
        (
            {"x-nvidia-gpu-driver-rim-cert-chain": {"x-nvidia-cert-expiration-date": "x"}},
            {},
            "x-nvidia-gpu-driver-rim-cert-chain.x-nvidia-cert-expiration-date",
            "valid now",
        ),
        (
            {"x-nvidia-gpu-vbios-rim-cert-chain": {"x-nvidia-cert-ocsp-nonce-matches": True}},
            {},
            "x-nvidia-gpu-vbios-rim-cert-chain.x-nvidia-cert-ocsp-nonce-matches",
            "without a nonce",
        ),
        # The flat booleans are of claims version 2.0; a policy 4.0 is about 3.0, which has none.
        (
            {"x-nvidia-gpu-driver-rim-cert-validated": True},
            {},
            "x-nvidia-gpu-driver-rim-cert-validated",
            "corresponds",
        ),
        (
            {"x-nvidia-switch-attestation-report-cert-chain-fwid-match": True},
            {},
            "x-nvidia-switch-attestation-report-cert-chain-fwid-match",
            "need not state",
        ),
    ],
)
def test_a_claim_of_nvidia_that_has_no_place_is_named(detached: Json, overall: Json, name: str, why: str) -> None:
    policy = parse_nvidia(nvidia(detached, overall))
    conversion = convert_nvidia(policy, name="x")
    (loss,) = conversion.open_losses
    assert (loss.name, conversion.document) == (name, None)
    assert why in loss.why
    assert loss.remedy
    assert outcome(convert_nvidia(policy, name="x", accept={name: "we know"}))


@pytest.mark.parametrize(
    ("detached", "problem"),
    [
        ({"measres": "success"}, "names no device"),
        ({"measres": "success", "x-nvidia-device-type": "dpu"}, "names no device"),
        ({**GPU, "x-nvidia-switch-arch-check": True}, "GPUs and of NVSwitches"),
        ({**GPU, "x-nvidia-device-type": "nvswitch"}, "GPUs and of NVSwitches"),
    ],
)
def test_a_policy_of_no_device_or_of_two_kinds_is_not_converted(detached: Json, problem: str) -> None:
    with refusal("policy-conversion-impossible") as caught:
        from_nvidia(detached)
    assert problem in caught.value.message


@given(
    detached=st.dictionaries(
        st.sampled_from([*gpu_claims(), "hwmodel", "x", "x-nvidia-gpu-driver-version"]),
        st.sampled_from([True, False, "success", "570.1", None, {"x-nvidia-cert-status": "valid", "y": [1]}]),
    ),
    overall=st.dictionaries(st.sampled_from(["iss", "x-nvidia-overall-att-result"]), st.booleans()),
)
def test_every_claim_of_nvidia_is_carried_or_lost(detached: Json, overall: Json) -> None:
    policy = parse_nvidia(nvidia({**detached, **GPU}, overall))
    conversion = convert_nvidia(policy, name="x")
    listed = sorted(
        [".".join(names) for names, _ in leaves(policy.detached)]
        + ["overall-claims." + ".".join(names) for names, _ in leaves(policy.overall)]
    )
    assert sorted([one.source for one in conversion.carried] + [one.name for one in conversion.losses]) == listed
    assert outcome(convert_nvidia(policy, name="x", accept={loss.name: "a test" for loss in conversion.losses}))


# -- to Azure


def exported(document: Json, *, accept: bool = True, **options: Any) -> Conversion:  # noqa: ANN401  of the export
    policy = decode_policy(document)
    conversion = export_skr(policy, authority=ISSUER, **options)
    reasons = {loss.name: "a test" for loss in conversion.losses}
    return export_skr(policy, authority=ISSUER, accept=reasons, **options) if accept else conversion


def written(conversion: Conversion) -> list[Json]:
    document: Any = conversion.document
    found: list[Json] = document["anyOf"][0]["allOf"]
    return found


def test_documents_of_reference_values_are_lost_by_name() -> None:
    row = decode_accepted_document({"document": "kata", "sha256": "ab" * 32}, "references[0]")
    conversion = export_skr(replace(decode_policy(snp_document()), references=(row,)), authority=ISSUER)
    assert "references.kata" in {loss.name for loss in conversion.losses}
    assert conversion.document is None


def test_a_policy_that_our_language_refuses_is_not_written() -> None:
    bodies: tuple[Json, ...] = ({}, {"snp": {}}, {"colour": "blue"})
    for body in bodies:
        with pytest.raises(ConfigurationError) as caught:
            finish_policy(body, name="x", source="a test", parts=(), carried=(), losses=())
        assert caught.value.code == "policy-invalid"


@pytest.mark.parametrize(("length", "whole"), [(4096, True), (4097, False)])
def test_a_long_list_of_losses_is_counted(length: int, *, whole: bool) -> None:
    def description(reason: str) -> str:
        loss = Loss(name="x", demand="y", why="z", remedy="w", accepted=reason)
        body = {name: value for name, value in snp_document().items() if name not in ("schema", "name", "version")}
        conversion = finish_policy(body, name="x", source="a", parts=(), carried=(), losses=(loss,))
        assert conversion.document is not None
        return str(conversion.document["description"])

    more = length - len(description("r")) + 1
    assert (len(description("r" * more)) == length) is whole
    assert ("1 demands were not carried" in description("r" * more)) is not whole


def of_many_issuers() -> Conversion:
    listed = [{"authority": f"https://{'x' * 60}{n}.example", "allOf": [IS_SNP]} for n in range(20)]
    return convert_skr(parse_skr(json.dumps({"version": "1.0.0", "anyOf": listed}).encode()), name="x")


@pytest.mark.parametrize(
    ("conversion", "name", "begins"),
    [
        (of_many_issuers, "authority", "a token of https://xxx"),
        (lambda: from_nvidia({**gpu_claims(), "unknown-claim": "u" * 2000}), "unknown-claim", "'uuu"),
        (lambda: exported(snp_document(chip_ids=[f"{n:02x}" * 64 for n in range(1, 10)])), "snp.chip_ids", ""),
    ],
)
def test_of_a_long_demand_that_is_lost_the_first_thousand_characters_are_shown(
    conversion: Callable[[], Conversion], name: str, begins: str
) -> None:
    (lost,) = [loss for loss in conversion().losses if loss.name == name]
    assert lost.demand.startswith(begins)
    assert len(lost.demand) == 1000


def test_what_azure_can_say_of_our_policy_is_written() -> None:
    document = snp_document(host_data=["01" * 32, "02" * 32], vmpl=[0, 1], guest_policy={"smt": True})
    document["reference_values"]["image"]["values"].append("cd" * 48)
    conversion = exported(document)
    measurement = document["reference_values"]["image"]["values"]
    conditions = written(conversion)
    assert conditions[0] == IS_SNP
    assert {"anyOf": [equals(f"{SNP}launchmeasurement", value) for value in measurement]} in conditions
    assert {"anyOf": [equals(f"{SNP}hostdata", "01" * 32), equals(f"{SNP}hostdata", "02" * 32)]} in conditions
    assert {"anyOf": [equals(f"{SNP}vmpl", 0), equals(f"{SNP}vmpl", 1)]} in conditions
    assert equals(f"{SNP}is-debuggable", "false") in conditions
    assert equals(f"{SNP}smt-allowed", "true") in conditions
    assert parse_skr(json.dumps(conversion.document).encode()).authorities
    container = written(exported(document, layout="container"))
    assert container[0] == equals("x-ms-attestation-type", "sevsnpvm")


def test_what_azure_cannot_say_is_named_strict_defaults_included() -> None:
    conversion = exported(snp_document(minimum_guest_svn=3, csp_ids=["aws"]), accept=False)
    assert conversion.document is None
    names = {loss.name for loss in conversion.open_losses}
    assert names >= {
        "freshness",
        "snp.products",
        "snp.minimum_tcb",
        "snp.rollback_protection",
        "snp.provisional_firmware",
        "snp.masked_chip_id",
        "snp.platform_info.alias_check_complete",
        "snp.minimum_guest_svn",
        "snp.csp_ids",
    }
    assert "snp.signing_key" not in names  # both keys are accepted, which excludes nothing
    assert "snp.signing_key" in {loss.name for loss in exported(snp_document(signing_key=["vlek"])).losses}


def test_minimums_are_written_for_a_service_that_knows_more_operators() -> None:
    conditions = written(exported(snp_document(minimum_guest_svn=3), extended=True))
    assert {"claim": f"{SNP}guestsvn", "greaterOrEquals": 3} in conditions
    assert {"claim": f"{SNP}snpfw-svn", "greaterOrEquals": 27} in conditions
    turin = {"fmc": 1, "bootloader": 1, "tee": 1, "snp": 4, "microcode": 72}
    genoa = {"bootloader": 1, "tee": 1, "snp": 4, "microcode": 72}
    for minimums in (
        {"Turin": turin},
        {"Genoa": genoa, "Milan": {**genoa, "snp": 5}},
        {"Genoa": genoa, "Turin": turin},
    ):
        conversion = exported(snp_document(minimum_tcb=minimums), extended=True)
        assert "snp.minimum_tcb" in {loss.name for loss in conversion.losses}
    two = exported(snp_document(minimum_tcb={"Genoa": genoa, "Milan": genoa}), extended=True)
    assert "snp.minimum_tcb" not in {loss.name for loss in two.losses}


GENOA = snp_document()["snp"]["minimum_tcb"]["Genoa"]


def test_product_lines_that_only_a_tcb_refuses_are_a_loss() -> None:
    products = {"unchecked": "a test"}
    for demands in ({}, {"minimum_tcb": None, "exact_tcb": {"Genoa": [GENOA]}}):
        conversion = exported(snp_document(products=products, **demands), extended=True)
        (loss,) = [one for one in conversion.losses if one.name == "snp.products"]
        assert loss.demand == "Genoa"
    open_to_all = snp_document(products=products, minimum_tcb={"unchecked": "a test"})
    assert "snp.products" not in {one.name for one in exported(open_to_all).losses}


def test_exact_tcbs_are_written_for_azure_itself() -> None:
    def tcb(levels: Json) -> Json:
        names = {"bootloader": "bootloader-svn", "tee": "tee-svn", "snp": "snpfw-svn", "microcode": "microcode-svn"}
        return {"allOf": [equals(SNP + names[part], level) for part, level in levels.items()]}

    newer = GENOA | {"snp": 28}
    conditions = written(exported(snp_document(minimum_tcb=None, exact_tcb={"Genoa": [GENOA]})))
    assert all(one in conditions for one in tcb(GENOA)["allOf"])
    lines = {"Genoa": [GENOA, newer], "Milan": [newer, GENOA]}
    conversion = exported(snp_document(minimum_tcb=None, exact_tcb=lines))
    assert {"anyOf": [tcb(newer), tcb(GENOA)]} in written(conversion)
    assert "snp.exact_tcb" not in {loss.name for loss in conversion.losses}
    for other in ({"Genoa": [GENOA], "Milan": [newer]}, {"Turin": [GENOA | {"fmc": 0}]}):
        conversion = exported(snp_document(minimum_tcb=None, exact_tcb=other))
        assert "snp.exact_tcb" in {loss.name for loss in conversion.losses}


def test_a_td_is_written_too_and_either_kind_as_two_branches() -> None:
    document = tdx_document(
        rtmr1=["other"], td_attributes={"kl": False}, event_log={"secure_boot": True}, mr_seam=["03" * 48]
    )
    conversion = exported(document)
    conditions = written(conversion)
    assert equals(f"{TDX}rtmr1", "01" * 48) in conditions
    assert equals(f"{TDX}td_attributes_key_locker", "false") in conditions
    assert equals(f"{TEE}attester_tcb_status", "UpToDate") in conditions
    assert {loss.name for loss in conversion.losses} >= {"tdx.accepted_advisories", "tdx.event_log", "tdx.service_td"}
    both = exported(
        {
            **snp_document(),
            **{k: v for k, v in document.items() if k in ("tdx", "reference_values")},
            "snp": {**snp_document()["snp"], "measurement": ["other"]},
        }
    )
    branches = json.loads(json.dumps(both.document))["anyOf"][0]["anyOf"]
    assert [branch["allOf"][0] for branch in branches] == [IS_SNP, IS_TDX]


def test_what_is_left_unchecked_here_is_no_loss_there_and_announced_when_stricter() -> None:
    document = snp_document(measurement={"unchecked": "x"}, rollback_protection={"unchecked": "x"})
    document["unchecked"] = {"freshness": "x", "revocation": "x"}
    conversion = exported(document)
    names = {loss.name for loss in conversion.losses}
    assert not names & {"freshness", "snp.measurement", "snp.rollback_protection"}
    assert conversion.stricter == ("freshness: not left unchecked by Azure", "revocation: not left unchecked by Azure")


def test_devices_beside_the_cpu_and_ends_of_reference_values_are_lost() -> None:
    document = {**gpu_document(), **snp_document(), "sgx": sgx_document()["sgx"]}
    document["reference_values"] = {
        **sgx_document()["reference_values"],
        "image": {**snp_document()["reference_values"]["image"], "expires": "2027-01-01T00:00:00Z"},
    }
    names = {loss.name for loss in exported(document).losses}
    assert names >= {"gpu", "nvswitch", "devices", "sgx", "reference_values.image.expires"}
    with refusal("policy-conversion-impossible"):
        exported(gpu_document())


def test_a_section_that_is_written_is_no_loss() -> None:
    names = {loss.name for loss in exported(snp_document()).losses}
    assert not names & {"snp", "tdx", "sgx", "gpu", "nvswitch", "azure", "any_of", "all_of", "name", "version"}


def test_branches_of_ours_are_written() -> None:
    def branch(byte: str) -> Json:
        return {"snp": snp_document(host_data=[byte * 32])["snp"]}

    def host(conditions: Json) -> list[str]:
        return [one["equals"] for one in conditions["allOf"] if one.get("claim") == f"{SNP}hostdata"]

    head = {name: value for name, value in snp_document().items() if name != "snp"}
    one, two, three = (branch(byte) for byte in ("01", "02", "03"))
    conversion = exported({**head, "any_of": [one, two]})
    (authority,) = json.loads(json.dumps(conversion.document))["anyOf"]
    assert [host(alternative) for alternative in authority["anyOf"]] == [["01" * 32], ["02" * 32]]
    (every,) = json.loads(json.dumps(exported({**head, **one, "all_of": [two, three]}).document))["anyOf"]
    assert host(every) == ["01" * 32, "02" * 32, "03" * 32]
    some = exported({**head, "at_least": {"count": 2, "of": [one, two, three]}})
    (authority,) = json.loads(json.dumps(some.document))["anyOf"]
    assert [host(pair) for pair in authority["anyOf"]] == [
        ["01" * 32, "02" * 32],
        ["01" * 32, "03" * 32],
        ["02" * 32, "03" * 32],
    ]
    names = [(loss.name, loss.demand) for loss in conversion.losses]
    assert len(names) == len(set(names))


def test_a_branch_of_which_nothing_can_be_written_does_not_count_as_met() -> None:
    head = {name: value for name, value in snp_document().items() if name != "snp"}
    snp, gpu = {"snp": snp_document()["snp"]}, {"gpu": gpu_document()["gpu"]}
    conversion = exported({**head, "any_of": [snp, gpu]})
    assert "allOf" in json.loads(json.dumps(conversion.document))["anyOf"][0]
    assert conversion.stricter == ("any_of[1]: Azure's tokens have no claims for it; it is left out",)
    lost = exported({**head, **snp, "any_of": [gpu], "all_of": [gpu, {"at_least": {"count": 2, "of": [snp, gpu]}}]})
    assert {loss.name for loss in lost.losses} >= {"any_of", "gpu", "devices", "all_of[1].at_least"}
    many = exported({**head, **snp, "at_least": {"count": 4, "of": [snp] * 8}})
    assert {loss.name: loss.why for loss in many.losses}["at_least"] == "too many combinations"
    assert {loss.name: loss.why for loss in lost.losses}["any_of"] == "too few of them are about Azure's guests"
    most = exported({**head, "at_least": {"count": 1, "of": [snp] * 64}})
    assert "at_least" not in {loss.name for loss in most.losses}
    with refusal("policy-conversion-impossible"):
        exported({**head, "any_of": [gpu]})


def test_an_authority_that_is_none_is_refused() -> None:
    for url in ("http://a.example", "a.example", ""):
        with refusal("skr-policy-invalid"):
            export_skr(decode_policy(snp_document()), authority=url)


def test_every_key_of_ours_is_written_or_lost() -> None:
    # A key that is new in our language must not be forgotten: each is looked at whatever it is called.
    document = snp_document(
        minimum_committed_tcb=snp_document()["snp"]["minimum_tcb"],
        minimum_launch_tcb=snp_document()["snp"]["minimum_tcb"],
        exact_tcb={"Genoa": [GENOA]},
        exact_committed_tcb={"Genoa": [GENOA]},
        exact_launch_tcb={"Genoa": [GENOA]},
        chip_ids=["00" * 64],
        denied_chip_ids=["01" * 64],
        host_data=["00" * 32],
        id_key_digests=["00" * 48],
        author_key_digests=["00" * 48],
        family_ids=["00" * 16],
        image_ids=["00" * 16],
        csp_ids=["x"],
        minimum_abi={"major": 1, "minor": 51},
        minimum_guest_svn=1,
        mitigations_at_launch=1,
        mitigations_now=1,
        signing_key=["vcek"],
        accepted_spls={"spl4:1": "a new component"},
    )
    conversion = exported(document)
    told = {one.source for one in conversion.carried} | {loss.name for loss in conversion.losses}
    keys = {name.split(".")[1] for name in told if name.startswith("snp.")}
    assert keys == {field.name for field in fields(SnpDemands)}


def test_an_export_reads_back_as_what_was_carried() -> None:
    document = snp_document(host_data=["01" * 32], vmpl=[0, 1], guest_policy={"smt": False}, minimum_guest_svn=3)
    out = exported(document, extended=True)
    carried = {one.source for one in out.carried}
    assert carried >= {f"snp.{name}" for name in ("host_data", "vmpl", "guest_policy.smt", "minimum_guest_svn")}
    again = convert_skr(parse_skr(json.dumps(out.document).encode(), extended=True), name="x", accept=ACCEPT)
    back, _ = outcome(again)
    snp = document["snp"]
    assert back["snp"]["host_data"] == snp["host_data"]
    assert back["snp"]["vmpl"] == snp["vmpl"]
    assert back["snp"]["minimum_guest_svn"] == 3
    assert back["snp"]["minimum_tcb"]["Genoa"] == snp["minimum_tcb"]["Genoa"]
    assert back["snp"]["guest_policy"] == {"smt": False, "debug": False, "migrate_ma": False}
    assert (
        back["reference_values"]["converted-measurement"]["values"] == document["reference_values"]["image"]["values"]
    )


# -- which language


@pytest.mark.parametrize(
    ("data", "language"),
    [
        (skr(IS_SNP), "skr"),
        (b'{"version": "1.0.0", "allOf": []}', "skr"),
        (nvidia(), "nvidia"),
        (json.dumps(snp_document()).encode(), "attest"),
        (b'{"schema": "attest.policy/1", "anyOf": []}', "attest"),
        (b"schema: attest.policy/1", "attest"),
        (b"{}", "attest"),
        (b"[]", "attest"),
        (b"\xff", "attest"),
    ],
)
def test_the_language_is_recognised_by_the_members_at_the_top(data: bytes, language: str) -> None:
    assert recognised(data) == language

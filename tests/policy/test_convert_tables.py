"""Conversions, claim by claim: where each is carried to, the values that it takes, and those next to them."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from attest.errors import ConfigurationError
from attest.policy.foreign.convert import Conversion, convert_nvidia, convert_skr
from attest.policy.foreign.nvidia_json import parse_nvidia
from attest.policy.foreign.skr import parse_skr
from tests.policy.nvidia_documents import STEPS, nvidia
from tests.policy.skr_documents import TEE, Json, equals, skr

SNP, TDX = f"{TEE}.x-ms-sevsnpvm-", f"{TEE}.tdx_"
IS_SNP = equals(f"{TEE}.x-ms-attestation-type", "sevsnpvm")
IS_TDX = equals(f"{TEE}.x-ms-attestation-type", "tdxvm")
PARTS = {"bootloader-svn": "bootloader", "tee-svn": "tee", "snpfw-svn": "snp", "microcode-svn": "microcode"}
HIGHEST_LEVEL, HIGHEST_SVN = 255, 2**32 - 1


def from_skr(*conditions: Json, **accept: str) -> Conversion:
    """Convert conditions, the loss of the authority accepted."""
    policy = parse_skr(skr(*conditions), extended=True)
    return convert_skr(policy, name="converted", accept={"authority": "we verify ourselves", **accept})


def section(conversion: Conversion, kind: str) -> Json:
    """Return a section of the outcome."""
    assert conversion.document is not None
    found: Json = json.loads(json.dumps(conversion.document))[kind]
    return found


def open_losses(conversion: Conversion) -> list[str]:
    return [loss.name for loss in conversion.open_losses]


# -- from Azure


@pytest.mark.parametrize(
    ("claim", "key", "size"),
    [
        (f"{SNP}hostdata", "snp.host_data", 32),
        (f"{SNP}authorkeydigest", "snp.author_key_digests", 48),
        (f"{SNP}idkeydigest", "snp.id_key_digests", 48),
        (f"{SNP}familyId", "snp.family_ids", 16),
        (f"{SNP}imageId", "snp.image_ids", 16),
        (f"{TDX}mrseam", "tdx.mr_seam", 48),
        (f"{TDX}mrconfigid", "tdx.mr_config_id", 48),
        (f"{TDX}mrowner", "tdx.mr_owner", 48),
        (f"{TDX}mrownerconfig", "tdx.mr_owner_config", 48),
    ],
)
def test_a_digest_of_its_size_is_carried_and_no_other(claim: str, key: str, size: int) -> None:
    kind, name = key.split(".")
    value = "0f" * size
    conversion = from_skr(equals(claim, value))
    assert section(conversion, kind)[name] == [value]
    assert (claim, key) in {(one.source, one.target) for one in conversion.carried}
    for other in (value[2:], value[1:], f"{value}0", f"{value}00", value.upper(), f"{value[:-1]}g"):
        assert open_losses(from_skr(IS_SNP if kind == "snp" else IS_TDX, equals(claim, other))) == [claim]


@pytest.mark.parametrize(
    ("claim", "kind", "key"),
    [(f"{SNP}launchmeasurement", "snp", "measurement"), (f"{TDX}mrtd", "tdx", "mr_td")]
    + [(f"{TDX}rtmr{number}", "tdx", f"rtmr{number}") for number in range(4)],
)
def test_a_measurement_becomes_a_reference_value(claim: str, kind: str, key: str) -> None:
    conversion = from_skr(equals(claim, "0f" * 48))
    name = f"converted-{key.replace('_', '-')}"
    assert section(conversion, kind)[key] == [name]
    assert section(conversion, "reference_values")[name]["values"] == ["0f" * 48]
    for size in (47, 49):
        with pytest.raises(ConfigurationError):
            _ = section(from_skr(equals(claim, "0f" * size), **{claim: "x"}), kind)


@pytest.mark.parametrize(
    ("claim", "group", "bit", "carried"),
    [
        (f"{SNP}is-debuggable", "snp.guest_policy", "debug", [False]),
        (f"{SNP}migration-allowed", "snp.guest_policy", "migrate_ma", [False]),
        (f"{SNP}smt-allowed", "snp.guest_policy", "smt", [False, True]),
        (f"{TDX}td_attributes_debug", "tdx.td_attributes", "debug", [False]),
        (f"{TDX}td_attributes_key_locker", "tdx.td_attributes", "kl", [False, True]),
        (f"{TDX}td_attributes_perfmon", "tdx.td_attributes", "perfmon", [False, True]),
        (f"{TDX}td_attributes_protection_keys", "tdx.td_attributes", "pks", [False, True]),
        (f"{TDX}td_attributes_septve_disable", "tdx.td_attributes", "sept_ve_disable", [True]),
    ],
)
def test_a_bit_is_carried_as_what_our_policies_can_demand_of_it(
    claim: str, group: str, bit: str, carried: list[bool]
) -> None:
    kind, name = group.split(".")
    machine = IS_SNP if kind == "snp" else IS_TDX
    for truth in (False, True):
        for value in (truth, str(truth).lower()):
            conversion = from_skr(machine, equals(claim, value))
            if truth in carried:
                assert section(conversion, kind)[name] == {bit: truth}
                assert (claim, f"{group}.{bit}") in {(one.source, one.target) for one in conversion.carried}
            else:
                assert open_losses(conversion) == [claim]


@pytest.mark.parametrize("number", range(4))
def test_every_vmpl_is_carried(number: int) -> None:
    for value in (number, str(number)):
        assert section(from_skr(equals(f"{SNP}vmpl", value)), "snp")["vmpl"] == [number]


@pytest.mark.parametrize("value", [-1, 4, "4", "x"])
def test_a_vmpl_that_is_none_is_lost(value: object) -> None:
    assert open_losses(from_skr(IS_SNP, equals(f"{SNP}vmpl", value))) == [f"{SNP}vmpl"]


@pytest.mark.parametrize(
    "status",
    [
        "UpToDate",
        "SWHardeningNeeded",
        "ConfigurationNeeded",
        "ConfigurationAndSWHardeningNeeded",
        "OutOfDate",
        "OutOfDateConfigurationNeeded",
        "TDRelaunchAdvised",
        "TDRelaunchAdvisedConfigurationNeeded",
    ],
)
def test_every_status_that_can_be_accepted_is_carried(status: str) -> None:
    claim = f"{TEE}.attester_tcb_status"
    assert section(from_skr(equals(claim, status)), "tdx")["tcb_status"] == [status]
    assert open_losses(from_skr(IS_TDX, equals(claim, status.lower()))) == [claim]


@pytest.mark.parametrize(
    ("operator", "value", "minimum"),
    [
        ("greaterOrEquals", 0, 0),
        ("greaterOrEquals", HIGHEST_SVN, HIGHEST_SVN),
        ("greaterOrEquals", HIGHEST_SVN + 1, None),
        ("greater", 0, 1),
        ("greater", HIGHEST_SVN - 1, HIGHEST_SVN),
        ("greater", HIGHEST_SVN, None),
        ("greater", -1, 0),
        ("greater", -2, None),
        ("greaterOrEquals", -1, None),
        ("lessOrEquals", 7, None),
        ("less", 7, None),
        ("notEquals", 7, None),
    ],
)
def test_a_minimum_lies_between_zero_and_the_highest_number(operator: str, value: int, minimum: int | None) -> None:
    conversion = from_skr(IS_SNP, {"claim": f"{SNP}guestsvn", operator: value})
    if minimum is None:
        assert open_losses(conversion) == [f"{SNP}guestsvn"]
    else:
        assert section(conversion, "snp")["minimum_guest_svn"] == minimum


@pytest.mark.parametrize(("claim", "part"), PARTS.items())
def test_each_part_of_the_tcb_becomes_a_minimum_of_both_product_lines(claim: str, part: str) -> None:
    for value, level in ((HIGHEST_LEVEL, HIGHEST_LEVEL), (1, 1), (0, 0)):
        conversion = from_skr({"claim": SNP + claim, "greaterOrEquals": value})
        expected = dict.fromkeys(PARTS.values(), 0) | {part: level}
        assert section(conversion, "snp")["minimum_tcb"] == {"Milan": expected, "Genoa": expected}
    above = from_skr(IS_SNP, {"claim": SNP + claim, "greaterOrEquals": HIGHEST_LEVEL + 1})
    assert open_losses(above) == [SNP + claim]


def test_of_two_minimums_the_higher_counts_in_either_order() -> None:
    tests = [{"claim": f"{SNP}guestsvn", "greaterOrEquals": number} for number in (7, 9)]
    for order in (tests, tests[::-1]):
        assert section(from_skr(*order), "snp")["minimum_guest_svn"] == 9


@pytest.mark.parametrize("missing", PARTS)
def test_a_tcb_is_exact_only_where_all_parts_are(missing: str) -> None:
    every = {SNP + claim: equals(SNP + claim, number) for number, claim in enumerate(PARTS, 1)}
    levels = {part: number for number, part in enumerate(PARTS.values(), 1)}
    exact = from_skr(*every.values())
    assert open_losses(exact) == []
    assert section(exact, "snp")["exact_tcb"] == {"Milan": [levels], "Genoa": [levels]}
    assert "minimum_tcb" not in section(exact, "snp")
    others = [condition for claim, condition in every.items() if claim != SNP + missing]
    assert sorted(open_losses(from_skr(*others))) == sorted(set(every) - {SNP + missing})


# -- from NVIDIA

REPORT = "x-nvidia-gpu-attestation-report"
SWITCH_REPORT = "x-nvidia-switch-attestation-report"
STATED = {"gpu": {"x-nvidia-device-type": "gpu"}, "nvswitch": {"x-nvidia-device-type": "nvswitch"}}


def from_nvidia(
    kind: str, claims: Json, *, version: str = "4.0", accept: Mapping[str, str] | None = None
) -> Conversion:
    """Convert claims of a kind of device, the overall result left out."""
    policy = parse_nvidia(nvidia({**STATED[kind], **claims}, {}, version=version))
    return convert_nvidia(policy, name="converted", accept=accept or {})


def carried(conversion: Conversion) -> dict[str, str]:
    return {one.source: one.target for one in conversion.carried if one.source != "x-nvidia-device-type"}


GPU_CLAIMS: list[tuple[str, Any, str, Json]] = [
    ("measres", "success", "gpu.rim", {"rim": True}),
    ("secboot", True, "gpu.rim", {"rim": True}),
    ("dbgstat", "disabled", "gpu.rim", {"rim": True}),
    ("x-nvidia-gpu-arch-check", True, "verification", {}),
    (f"{REPORT}-parsed", True, "verification", {}),
    (f"{REPORT}-signature-verified", True, "verification", {}),
    (f"{REPORT}-nonce-match", True, "verification (freshness)", {}),
    (f"{REPORT}-cert-chain-fwid-match", True, "gpu.fwid_required", {"fwid_required": True}),
    ("x-nvidia-gpu-vbios-index-no-conflict", True, "gpu.rim", {"rim": True}),
    *(
        (f"x-nvidia-gpu-{rim}-rim-{step}", True, "gpu.rim", {"rim": True})
        for rim in ("driver", "vbios")
        for step in STEPS
    ),
]
SWITCH_CLAIMS: list[tuple[str, Any, str, Json]] = [
    ("measres", "success", "nvswitch.rim", {"rim": True}),
    ("x-nvidia-switch-arch-check", True, "verification", {}),
    (f"{SWITCH_REPORT}-parsed", True, "verification", {}),
    (f"{SWITCH_REPORT}-nonce-match", True, "verification (freshness)", {}),
    *((f"x-nvidia-switch-bios-rim-{step}", True, "nvswitch.rim", {"rim": True}) for step in STEPS),
]
CASES = [("gpu", *row) for row in GPU_CLAIMS] + [("nvswitch", *row) for row in SWITCH_CLAIMS]


def required(kind: str) -> set[str]:
    return {"architectures", "driver_versions", "vbios_versions"} if kind == "gpu" else {"vbios_versions"}


@pytest.mark.parametrize(("kind", "claim", "value", "target", "keys"), CASES)
def test_each_claim_is_carried_by_its_step_or_key_with_one_value(
    kind: str,
    claim: str,
    value: Any,  # noqa: ANN401  any JSON
    target: str,
    keys: Json,
) -> None:
    conversion = from_nvidia(kind, {claim: value})
    assert carried(conversion) == {claim: target}
    written = section(conversion, kind)
    assert {key: written[key] for key in keys} == keys
    assert set(written) == required(kind) | set(keys)
    for other in (False, 1, "x", None):
        assert open_losses(from_nvidia(kind, {claim: other})) == [claim]


@pytest.mark.parametrize(
    ("kind", "chain", "target"),
    [
        ("gpu", f"{REPORT}-cert-chain", "verification (revocation)"),
        ("gpu", "x-nvidia-gpu-driver-rim-cert-chain", "gpu.held_rim_signers"),
        ("gpu", "x-nvidia-gpu-vbios-rim-cert-chain", "gpu.held_rim_signers"),
        ("nvswitch", f"{SWITCH_REPORT}-cert-chain", "verification (revocation)"),
        ("nvswitch", "x-nvidia-switch-bios-rim-cert-chain", "nvswitch.held_rim_signers"),
    ],
)
def test_each_fact_of_a_chain_is_carried_with_one_value(kind: str, chain: str, target: str) -> None:
    for name, value in (
        ("x-nvidia-cert-status", "valid"),
        ("x-nvidia-cert-ocsp-status", "good"),
        ("x-nvidia-cert-ocsp-response-valid", True),
        ("x-nvidia-cert-revocation-reason", None),
    ):
        conversion = from_nvidia(kind, {chain: {name: value}})
        assert carried(conversion) == {f"{chain}.{name}": target}
        held = {"held_rim_signers": False} if target.endswith("held_rim_signers") else {}
        written = section(conversion, kind)
        assert {key: written[key] for key in set(written) - required(kind)} == held
        assert open_losses(from_nvidia(kind, {chain: {name: "other"}})) == [f"{chain}.{name}"]
    for name in ("x-nvidia-cert-expiration-date", "x-nvidia-cert-ocsp-nonce-matches", "x-nvidia-cert-other"):
        assert open_losses(from_nvidia(kind, {chain: {name: True}})) == [f"{chain}.{name}"]


@pytest.mark.parametrize(
    ("kind", "claim", "key", "version", "none"),
    [
        ("gpu", "x-nvidia-gpu-driver-version", "driver_versions", "590.12", "590.1A"),
        ("gpu", "x-nvidia-gpu-vbios-version", "vbios_versions", "96.00.74.00.1A", "96.00.74.00.1G"),
        ("nvswitch", "x-nvidia-switch-bios-version", "vbios_versions", "96.10.73.00.1A", "x"),
    ],
)
def test_a_version_is_demanded_exactly(kind: str, claim: str, key: str, version: str, none: str) -> None:
    conversion = from_nvidia(kind, {claim: version})
    assert carried(conversion) == {claim: f"{kind}.{key}"}
    assert section(conversion, kind)[key] == {"exactly": version}
    for other in (none, 590, True, None):
        assert open_losses(from_nvidia(kind, {claim: other})) == [claim]


@pytest.mark.parametrize(
    ("kind", "others"),
    [("gpu", {"rim", "fwid_required", "held_rim_signers"}), ("nvswitch", {"rim", "held_rim_signers"})],
)
def test_the_overall_result_is_carried_by_all_strict_keys(kind: str, others: set[str]) -> None:
    def overall(value: object) -> Conversion:
        policy = parse_nvidia(nvidia(STATED[kind], {"x-nvidia-overall-att-result": value}))
        return convert_nvidia(policy, name="converted")

    written = section(overall(True), kind)
    assert set(written) == required(kind) | others
    assert {key: written[key] for key in others} == {key: key != "held_rim_signers" for key in others}
    assert open_losses(overall(False)) == ["overall-claims.x-nvidia-overall-att-result"]

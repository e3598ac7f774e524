"""Random policies, and evidence of every kind to judge by them; both from a seed, without randomness of their own."""

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache
from hashlib import sha256
from random import Random
from typing import Any

from attest.checks import Unchecked
from attest.evidence.azure.structure import HclReportType
from attest.evidence.gpu.verify import VerifiedGpu
from attest.evidence.snp.format import SNP
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.tolerances import GpuTolerances, WaivedMeasurement
from attest.evidence.tpm.structure import SHA256, PcrSelection, bitmap_of
from attest.verification import Freshness, VerifiedEvidence, VerifiedItem
from attest_simulator.nvidia import SimulatedGpu
from attest_simulator.tpm_log import replayed_pcrs, typical_tpm_boot
from tests.evidence.azure.made import PCRS, AzureVm, judged, quote
from tests.policy.azure_logs import BY_GRUB, BY_STUB, GRUB, LINE, UKI, verified_boot
from tests.policy.gpu_documents import BLACKWELL, HOPPER, SWITCH, verified, without_rims, without_settings
from tests.policy.intel_documents import (
    ENCLAVE,
    TD,
    collateral,
    firmware_lists,
    verified_enclave,
    verified_td,
    without_tcb,
)
from tests.policy.mixed import GENOA_TCB, HEAD, HIGH_TCB, LOW_TCB, azure, gpu, mixed, sgx, snp, snp_cpu, tdx
from tests.policy.slow import Seen
from tests.samples import scene

WAIVER: dict[str, Any] = {"unchecked": "because"}
NONE48, ZERO48 = "01" * 48, "00" * 48
ADVISORY = "INTEL-SA-00837"
FIRMWARE = firmware_lists()
NO_TCB = (Unchecked(check="tcb", reason="a test"),)


# -- evidence


def few_registers() -> VerifiedItem:
    """An Azure VM whose quote covers three registers."""
    selected, values = (0, 4, 9), (PCRS[0], PCRS[4], PCRS[9])
    tpm = quote(
        selections=(PcrSelection(algorithm=SHA256, bitmap=bitmap_of(selected)),),
        pcr_digest=sha256(b"".join(values)).digest(),
    )
    return judged(AzureVm(tpm=tpm, pcrs=values)).items[0]


def _cpus() -> dict[str, VerifiedItem]:
    vlek = scene(csp_id="CN=cloud.invalid", mask_chip_id=True, product_name="Genoa")
    masked = scene(mask_chip_id=True)
    weak = collateral("tdx", TD.platform, "SWHardeningNeeded", (ADVISORY,))
    return {
        "genoa": snp_cpu(),
        "turin": snp_cpu(SnpProduct.TURIN),
        "milan": snp_cpu(SnpProduct.MILAN),
        "debug": snp_cpu(policy=0xB0000),
        "vmpl 1": snp_cpu(vmpl=1),
        "other image": snp_cpu(measurement=bytes(48)),
        "abi 1.51": snp_cpu(policy=0x30133),
        "host data": snp_cpu(host_data=b"\x02" * 32, guest_svn=3, id_key_digest=b"\x03" * 48),
        "vlek": VerifiedItem(name="cpu", format=SNP, verified=vlek.verify()),
        "masked": VerifiedItem(name="cpu", format=SNP, verified=masked.verify()),
        "version 2": VerifiedItem(name="cpu", format=SNP, verified=scene(report_version=2).verify()),
        "td": verified_td().items[0],
        "td with log": verified_td(log=True).items[0],
        "td of 1.0": verified_td(version=4).items[0],
        "td under debug": verified_td(replace(TD, td_attributes=TD.td_attributes | 1)).items[0],
        "td with service td": verified_td(replace(TD, mr_service_td=b"\x02" * 48)).items[0],
        "td with advisory": verified_td(endorsements=weak).items[0],
        "td without tcb": verified_td(endorsements=without_tcb("tdx"), unchecked=NO_TCB).items[0],
        "enclave": verified_enclave().items[0],
        "azure snp": judged(AzureVm()).items[0],
        "azure snp with console": judged(AzureVm(claims={"vm-configuration": {"console-enabled": True}})).items[0],
        "azure snp with few registers": few_registers(),
        "azure snp resumed": judged(AzureVm(tpm=quote(restart_count=3, safe=False))).items[0],
        "azure tdx": judged(AzureVm(kind=HclReportType.TDX)).items[0],
        "azure snp with log": verified_boot().items[0],
        "azure snp with log without PCR9": verified_boot(grown=(9,)).items[0],
        "azure snp with log without PCR7": verified_boot(selected=(4, *range(8, 15))).items[0],
        "azure snp without secure boot": verified_boot(typical_tpm_boot(secure_boot=False)).items[0],
        "azure tdx with log": verified_boot(UKI, kind=HclReportType.TDX).items[0],
        "enclave out of date": verified_enclave(endorsements=collateral("sgx", ENCLAVE.platform, "OutOfDate")).items[0],
    }


def _device_sets() -> dict[str, tuple[VerifiedGpu, ...]]:
    hopper, blackwell, switch = verified(HOPPER), verified(BLACKWELL), verified(SWITCH)
    other = verified(SimulatedGpu.of("gpu 1"))
    waived = GpuTolerances(waived_measurements=(WaivedMeasurement(index=7, reason="known"),))
    changed = verified(SimulatedGpu.of("gpu 2", changed={7: bytes(48)}), tolerances=waived)
    return {
        "no device": (),
        "one": (hopper,),
        "two": (hopper, other),
        "two kinds": (hopper, blackwell),
        "blackwell": (blackwell,),
        "with switch": (hopper, other, switch),
        "switch": (switch,),
        "no rims": (without_rims(),),
        "no settings": (without_settings(hopper),),
        "developer tools": (verified(SimulatedGpu.of("gpu 3", dev_tools_mode=True)),),
        "waived": (changed,),
    }


@cache
def pool() -> tuple[tuple[str, VerifiedEvidence, Seen], ...]:
    """Every CPU with few devices, and few CPUs with every device; bound and not."""
    cpus, sets = _cpus(), _device_sets()
    chosen = [(name, "no device") for name in cpus] + [
        (cpu, devices)
        for cpu in ("genoa", "td with log", "debug", "azure snp")
        for devices in sets
        if devices != "no device"
    ]
    found = [(f"{cpu}, {devices}", mixed(cpus[cpu], *sets[devices], bound=True)) for cpu, devices in chosen]
    found += [(f"{devices} alone", mixed(*sets[devices], bound=False)) for devices in sets if devices != "no device"]
    found.append(("unbound", mixed(cpus["genoa"], *sets["one"], bound=False)))
    found.append(("not fresh", mixed(cpus["genoa"], freshness=Freshness.NOT_EVALUATED)))
    return tuple((name, verified, seen_of(verified)) for name, verified in found)


def seen_of(verified: VerifiedEvidence) -> Seen:
    """What verification found, as plain data."""
    return Seen(
        items=tuple((item.name, item.kind, item.claims) for item in verified.items),
        bound=verified.binding is not None,
        fresh=verified.freshness is Freshness.MATCHED,
        simulated=verified.simulated,
        at=verified.at,
        unchecked=frozenset(entry.check for entry in verified.unchecked),
    )


# -- policies

Choices = Mapping[str, tuple[object, ...]]
REFERENCES: dict[str, Any] = HEAD["reference_values"] | {
    "expired": {**HEAD["reference_values"]["image"], "expires": "2026-05-31T23:59:59Z"},
    "ends now": {**HEAD["reference_values"]["image"], "expires": "2026-06-01T00:00:00Z"},
}
REFERENCES |= {
    name: {**REFERENCES[name], "values": [*REFERENCES[name]["values"], replayed_pcrs(GRUB)[index].hex()]}
    for name, index in (("pcr4", 4), ("pcr7", 7))
}
REFERENCES = {name.replace(" ", "-"): value for name, value in REFERENCES.items()}
TURIN = {"fmc": 0, "bootloader": 0, "tee": 0, "snp": 0, "microcode": 0}

SNP_KEYS: Choices = {
    "products": (["Genoa"], ["Genoa", "Turin", "Milan"], ["Turin"], WAIVER),
    "measurement": (["image"], ["other", "image"], ["other"], ["ends-now"], ["expired"], ["expired", "image"], WAIVER),
    "minimum_tcb": (
        {"Genoa": GENOA_TCB},
        {"Genoa": LOW_TCB, "Turin": TURIN, "Milan": LOW_TCB},
        {"Genoa": HIGH_TCB},
        {"Genoa": LOW_TCB | {"tee": 1}},
        {"Turin": TURIN},
        WAIVER,
    ),
    "minimum_committed_tcb": ({"Genoa": LOW_TCB}, {"Genoa": HIGH_TCB}, WAIVER),
    "minimum_launch_tcb": ({"Genoa": LOW_TCB}, {"Genoa": HIGH_TCB}),
    "exact_tcb": (
        {"Genoa": [GENOA_TCB]},
        {"Genoa": [LOW_TCB, GENOA_TCB], "Turin": [TURIN]},
        {"Genoa": [LOW_TCB, GENOA_TCB | {"tee": 1}]},
        {"Turin": [TURIN]},
        WAIVER,
    ),
    "exact_committed_tcb": ({"Genoa": [GENOA_TCB]}, {"Genoa": [HIGH_TCB], "Milan": [GENOA_TCB]}, WAIVER),
    "exact_launch_tcb": ({"Genoa": [HIGH_TCB, GENOA_TCB]}, {"Genoa": [LOW_TCB]}),
    "vmpl": ([0, 1], [1], WAIVER),
    "signing_key": (["vcek"], ["vlek"], WAIVER),
    "guest_policy": ({"smt": True}, {"smt": False}, {"debug": WAIVER}, {"cxl_allow": False, "migrate_ma": False}),
    "platform_info": ({"smt_en": True}, {"ecc_en": False}, {"alias_check_complete": WAIVER}),
    "provisional_firmware": (False, WAIVER),
    "rollback_protection": (True, WAIVER),
    "rolled_back_since_launch": (False, WAIVER),
    "masked_chip_id": (False, WAIVER),
    "denied_chip_ids": (["00" * 64], ["11" * 64]),
    "host_data": (["00" * 32], ["02" * 32], WAIVER),
    "id_key_digests": ([ZERO48], ["03" * 48, ZERO48]),
    "family_ids": (["00" * 16], ["01" * 16]),
    "csp_ids": (["CN=cloud.invalid"], WAIVER),
    "minimum_abi": ({"major": 0, "minor": 0}, {"major": 0, "minor": 1}, {"major": 1, "minor": 0}, WAIVER),
    "minimum_guest_svn": (0, 3),
    "mitigations_at_launch": (1, 3, 4),
    "mitigations_now": (8, 16),
}
TCB_KEYS: Choices = {
    "tcb_status": (["UpToDate"], ["UpToDate", "SWHardeningNeeded"], ["OutOfDate"], WAIVER),
    "accepted_advisories": (
        {ADVISORY: {"reason": "x", "expires": "2026-06-01T00:00:00Z"}},
        {ADVISORY: {"reason": "x", "expires": "2026-05-31T00:00:00Z"}},
        WAIVER,
    ),
    "minimum_tcb_date": ("2024-11-13T00:00:00Z", "2024-11-13T00:00:01Z", "2024-11-13T02:00:00+01:00", WAIVER),
    "minimum_tcb_evaluation_data_number": (18, 19),
    "fmspcs": (["53494d000000"], ["000000000000"], WAIVER),
    "denied_ppids": (["00" * 16],),
    "platform": ({"smt_enabled": True}, {"cached_keys": False}, {"dynamic_platform": WAIVER}),
}
TDX_KEYS: Choices = {
    "mr_td": (["td"], ["other", "td"], ["other"], WAIVER),
    "rtmr3": (["other"], WAIVER),
    "td_attributes": ({"debug": WAIVER}, {"pks": False}, {"perfmon": True}),
    "unnamed_attributes": (False, WAIVER),
    "unknown_xfam": (False, WAIVER),
    "service_td": (False, WAIVER),
    "mr_service_td": (["02" * 48], [NONE48], WAIVER),
    "mr_config_id": ([ZERO48], [NONE48]),
    "tcb_status_current": (["UpToDate"], ["OutOfDate", "UpToDate"], WAIVER),
    "minimum_tdx_module_svn": ({"1": 6}, {"1": 7}, {"0": 1}, WAIVER),
    "rtmr1": (["boot"], ["other", "boot"], ["other"], WAIVER),
    "event_log": (
        {},
        {"secure_boot": True},
        {"required": WAIVER},
        FIRMWARE,
        FIRMWARE | {"boot_variables": WAIVER},
        {"boot_variables": ["0000"], "other_firmware_events": WAIVER},
        {
            "kernel_command_lines": ["/vmlinuz root=/dev/vda1 ro console=ttyS0"],
            "grub_commands": ["linux /vmlinuz root=/dev/vda1 ro console=ttyS0"],
        },
        {"kernel_command_lines": ["/vmlinuz root=/dev/vda1 ro console=ttyS0"]},
        {"grub_commands": WAIVER, "kernel_command_lines": ["quiet"]},
        {"boot_variables": ["0000"]},
        {"boot_variables": ["0001"]},
        {"application_events": [{"domain": "a", "operation": "b"}]},
        {"other_runtime_events": WAIVER},
    ),
    **TCB_KEYS,
}
SGX_KEYS: Choices = {
    "mr_enclave": (["enclave"], ["other-enclave"], WAIVER),
    "isv_prod_id": ([1], [2, 3]),
    "minimum_isv_svn": (1, 2),
    "attributes": ({"debug": WAIVER}, {"kss": True}, {"mode64bit": True}),
    **TCB_KEYS,
}
AZURE_KEYS: Choices = {
    "pcr4": (["pcr4"], ["pcr7", "pcr4"], ["pcr7"], WAIVER),
    "pcr7": (["pcr7"], ["pcr4"], WAIVER),
    "pcr23": (["pcr7"], WAIVER),
    "vm_configuration": ({"console_enabled": WAIVER}, {"tpm_persisted": True}, {"secure_boot": WAIVER}),
    "vm_unique_ids": (["x"], ["X", "Y"], ["Y"], WAIVER),
    "root_cert_thumbprints": (["x"], WAIVER),
    "user_data": (["00" * 64], ["01" * 64], WAIVER),
    "tpm_clock_safe": (True, WAIVER),
    "maximum_restart_count": (1, 0, 3),
    "event_log": (
        BY_GRUB,
        {},
        {"secure_boot": True},
        {"required": WAIVER},
        BY_GRUB | {"other_loader_events": WAIVER},
        BY_GRUB | {"initrds": ["00" * 32]},
        BY_STUB,
        {"kernel_command_lines": [LINE]},
        {"boot_variables": ["0000"], "signature_stores": {"db": [sha256(b"simulated allowed signers").hexdigest()]}},
        {"signature_stores": {"dbx": ["00" * 32]}},
    ),
}
GPU_KEYS: Choices = {
    "architectures": (["hopper"], ["hopper", "blackwell"], ["blackwell"], WAIVER),
    "driver_versions": (
        {"at_least": "570.86"},
        [{"exactly": "570.124.6"}, {"at_least": "600"}],
        {"below": "570.100"},
        WAIVER,
    ),
    "vbios_versions": (
        {"at_least": "96.00.5E.00.01"},
        [{"at_least": "96.00.9f.00.01", "below": "97"}, {"at_least": "97"}],
        {"at_least": "96.00.A0"},
        WAIVER,
    ),
    "rim": (True, WAIVER),
    "fwid_required": (True, WAIVER),
    "environment": ("production", WAIVER),
    "cc_mode": (True, WAIVER),
    "dev_tools_mode": (False, WAIVER),
    "modes": (["spt"], ["protected-pcie"], WAIVER),
    "denied_device_identities": (["00" * 9],),
    "project_skus": (["0200"], ["0201"]),
}
SWITCH_KEYS: Choices = {
    "vbios_versions": ({"at_least": "96.10"}, {"below": "96"}, WAIVER),
    "rim": (True, WAIVER),
    "locked": (True, WAIVER),
}
DEVICE_KEYS: Choices = {
    "gpus": (1, 2, {"at_least": 1}, {"at_least": 0, "at_most": 1}, WAIVER),
    "bound": (True, WAIVER),
    "same_architecture": (True, WAIVER),
    "same_driver_version": (True, WAIVER),
}
SECTIONS: Mapping[str, tuple[Callable[[], dict[str, Any]], Choices]] = {
    "snp": (snp, SNP_KEYS),
    "tdx": (tdx, TDX_KEYS),
    "sgx": (sgx, SGX_KEYS),
    "azure": (azure, AZURE_KEYS),
    "gpu": (gpu, GPU_KEYS),
    "nvswitch": (lambda: {"vbios_versions": {"at_least": "96.10"}}, SWITCH_KEYS),
}
USUAL: tuple[tuple[str, ...], ...] = (
    ("snp",),
    ("snp",),
    ("tdx",),
    ("sgx",),
    ("snp", "tdx"),
    ("snp", "tdx", "sgx"),
    ("azure", "snp"),
    ("azure", "snp"),
    ("azure", "tdx"),
    ("azure", "snp", "tdx", "sgx"),
    ("azure", "snp", "gpu"),
    ("snp", "gpu"),
    ("snp", "gpu"),
    ("tdx", "gpu"),
    ("snp", "tdx", "gpu", "nvswitch"),
    ("gpu",),
)


USUAL_EVIDENCE = (
    "azure snp, no device",
    "azure tdx, no device",
    "azure snp, one",
    "azure snp with log, no device",
    "genoa, no device",
    "td with log, no device",
    "enclave, no device",
    "genoa, one",
    "td with log, one",
)


def random_evidence(random: Random, number: int, *, kinds: Iterable[str]) -> list[tuple[str, VerifiedEvidence, Seen]]:
    """Some of the pool; most of it with nothing wrong, and of kinds that a policy speaks of."""
    spoken = set(kinds)
    usual = [one for one in pool() if one[0] in USUAL_EVIDENCE and spoken.issuperset(k for _, k, _ in one[2].items)]
    return [random.choice(usual if usual and random.random() < 0.6 else pool()) for _ in range(number)]


def random_policy(random: Random) -> dict[str, Any]:
    """A policy that loads; half of its choices are what the usual evidence meets."""
    document: dict[str, Any] = copy.deepcopy(HEAD) | {"reference_values": REFERENCES}
    if random.random() < 0.1:
        del document["simulated"]
    if random.random() < 0.2:
        document["unchecked"] = dict.fromkeys(random.sample(("freshness", "tcb", "eventlog", "rim"), 2), "because")
    waivers: dict[str, Any] = {"7": "known"} if random.random() < 0.3 else {}
    return document | _body(random, depth=0, waivers=waivers)


def _body(random: Random, *, depth: int, waivers: dict[str, Any]) -> dict[str, Any]:
    body: dict[str, Any] = {}
    branches = depth < 3 and random.random() < (0.5, 0.25, 0.15)[depth]
    if not branches or random.random() < 0.5:
        chosen = random.choice(USUAL)
        for name in chosen:
            body[name] = _section(random, name)
            if name == "tdx" and "azure" in chosen:
                for key in ("event_log", "rtmr1"):
                    body[name].pop(key, None)
            if name == "gpu" and waivers:
                body[name]["waived_measurements"] = waivers
        if "gpu" in body and random.random() < 0.5:
            body["devices"] = _some(random, DEVICE_KEYS, chance=0.4)
    if branches:
        for word in random.sample(("any_of", "all_of", "at_least"), random.choice((1, 1, 2))):
            of = [_body(random, depth=depth + 1, waivers=waivers) for _ in range(random.choice((1, 2, 2, 3)))]
            if random.random() < 0.3:
                of[0]["name"] = "first"
            body[word] = {"count": random.randint(1, len(of)), "of": of} if word == "at_least" else of
    return body


def _section(random: Random, name: str) -> dict[str, Any]:
    make, keys = SECTIONS[name]
    section = make() | _some(random, keys, chance=random.choice((0.0, 0.0, 0.05, 0.1, 0.3)))
    if name == "azure":
        if random.random() < 0.3:
            section["event_log"] = copy.deepcopy(random.choice(AZURE_KEYS["event_log"]))
        if "kernel_command_lines" in section.get("event_log", ()) and random.random() < 0.5:
            del section["pcr4"]
    if "exact_tcb" in section and random.random() < 0.5:
        del section["minimum_tcb"]
    return section


def _some(random: Random, keys: Choices, *, chance: float) -> dict[str, Any]:
    chosen = [name for name in keys if random.random() < chance]
    return {
        name: copy.deepcopy(keys[name][0] if random.random() < 0.7 else random.choice(keys[name])) for name in chosen
    }

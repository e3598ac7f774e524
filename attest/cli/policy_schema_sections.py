"""JSON Schemas of the sections of a policy, one for each kind of Attester."""

from __future__ import annotations

from attest.cli.json_schema import (
    JsonSchema,
    array,
    bit_table,
    demanded,
    hex_text,
    integer,
    mapping,
    named_table,
    table,
)
from attest.evidence.intel.status import TcbStatus
from attest.evidence.sgx.structure import ATTRIBUTE_BITS
from attest.evidence.snp.structure import GUEST_POLICY_BITS, PLATFORM_INFO_BITS
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS
from attest.policy.accepted_values import OPAQUE_NAME, SPL_NAME
from attest.policy.azure import PCR_KEYS, VM_SWITCHES
from attest.policy.devices import MAX_DEVICES
from attest.policy.dstack import APP_ID_BYTES, COMPOSE_HASH_BYTES, OS_IMAGE_BYTES
from attest.policy.eventlog import AZURE_LOG, LOADER_LISTS, TDX_LOG, EventLogKey
from attest.policy.gpu import (
    ARCHITECTURES,
    GPU_MEASUREMENTS,
    MODES,
    SWITCH_MEASUREMENTS,
)
from attest.policy.gpu_references import FWID_BYTES, IDENTITY_BYTES
from attest.policy.intel import BOOT_REGISTERS
from attest.policy.versions import Numbering

_STRICT = "demanded when left out"
_NAMES = demanded(array({"type": "string"}), "names under reference_values")
_TEXT: JsonSchema = {"type": "string", "minLength": 1}
_MOMENT: JsonSchema = {"type": "string", "format": "date-time"}


def _fixed(value: bool | str, description: str = _STRICT) -> JsonSchema:
    """Return the schema of the one value that may be demanded."""
    return demanded({"const": value}, description)


def _ranges(numbering: Numbering) -> JsonSchema:
    version: JsonSchema = {"type": "string", "pattern": f"^{numbering.grammar.pattern}$"}
    bounds = table({"at_least": version, "below": version})
    exactly = mapping({"exactly": version}, required=["exactly"])
    return {"anyOf": [bounds, exactly, array({"anyOf": [bounds, exactly]})]}


_EXPIRES: JsonSchema = {**_MOMENT, "description": "last valid moment"}
_ADVISORIES: JsonSchema = {
    "type": "object",
    "minProperties": 1,
    "propertyNames": {"pattern": "^INTEL-SA-[0-9]{5}$"},
    "additionalProperties": mapping({"reason": _TEXT, "expires": _EXPIRES}, required=["reason", "expires"]),
}
_PLATFORM_SWITCHES = tuple((name, 0) for name in ("dynamic_platform", "cached_keys", "smt_enabled"))
_STATUSES = tuple(str(status) for status in TcbStatus if status is not TcbStatus.REVOKED)


def _intel_tcb() -> dict[str, JsonSchema]:
    """Return the keys that TDX and SGX share."""
    return {
        "tcb_status": demanded(array({"enum": [*_STATUSES]}), "statuses that are accepted; UpToDate when left out"),
        "accepted_advisories": demanded(_ADVISORIES, "advisories that are tolerated; none when left out"),
        "minimum_tcb_date": demanded(_MOMENT, "minimum date of the TCB level that the platform reaches"),
        "minimum_tcb_evaluation_data_number": integer(1, 2**31, "of TCB info and of QE identity"),
        "fmspcs": demanded(array(hex_text(6)), "platform families that are accepted"),
        "ppids": demanded(array(hex_text(16)), "machines that are accepted"),
        "denied_ppids": array(hex_text(16)),
        "platform": bit_table(_PLATFORM_SWITCHES, "facts of the PCK certificate about the platform"),
    }


def _event_log(key: EventLogKey) -> JsonSchema:
    others = "; together with the other lists of its register it must name every event there"
    digests, hashed = array(hex_text(key.digest_bytes)), f"SHA-{8 * key.digest_bytes} of the value"
    stores = table({name: demanded(digests, hashed) for name in ("pk", "kek", "db", "dbx")})
    word: JsonSchema = {"type": "string", "pattern": r"^\S+$"}
    application = mapping(
        {"domain": word, "operation": word, "contents": array({"type": "string"})}, required=["domain", "operation"]
    )
    texts = array(_TEXT)
    runtime: dict[str, JsonSchema] = {
        "application_events": demanded(array(application), "required and permitted entries" + others),
        "other_runtime_events": demanded(digests, "digests" + others),
    }
    return mapping(
        {
            "required": _fixed(True),
            "secure_boot": _fixed(True, "the firmware's variable SecureBoot"),
            "signature_stores": stores,
            "boot_variables": demanded(
                array({"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"}), "values in hex" + others
            ),
            "other_firmware_events": demanded(digests, "digests" + others),
            "kernel_command_lines": demanded(texts, "of the boot loader" + others),
            "grub_commands": demanded(texts, "of GRUB" + others),
            "load_options": demanded(digests, "digests" + others),
            "initrds": demanded(digests, "digests" + others),
            "other_loader_events": demanded(digests, "digests" + others),
            **(runtime if key.runtime else {}),
        },
        required=[],
    )


def _tcb(product: SnpProduct) -> JsonSchema:
    parts = ["bootloader", "tee", "snp", "microcode"]
    names = ["fmc", *parts] if product.has_fmc else parts
    return mapping({name: integer(0, 255) for name in names}, required=names)


def _nvidia_device(measurements: int) -> dict[str, JsonSchema]:
    """Return the keys that GPUs and NVSwitches share."""
    identities = array(hex_text(IDENTITY_BYTES))
    waivers = table({str(index): _TEXT for index in range(measurements)})
    return {
        "vbios_versions": demanded(_ranges(Numbering.HEX), "one range, or several, one of which must hold"),
        "rim": _fixed(True, "every measurement equals a reference value; demanded when left out"),
        "fwids": demanded(array(hex_text(FWID_BYTES)), "firmware ids that are accepted"),
        "device_identities": demanded(identities, "devices that are accepted"),
        "denied_device_identities": identities,
        "waived_measurements": {**waivers, "description": "RIM index to the reason why its measurement may differ"},
        "accepted_opaque": named_table(
            OPAQUE_NAME, _TEXT, "type and bytes of a value without a known meaning to the reason why it is accepted"
        ),
        "held_rim_signers": _fixed(False, "signers of RIMs that are on hold; refused when left out"),
    }


_REGISTER_STATED: list[JsonSchema] = [{"required": [key]} for key in PCR_KEYS]
_LOADER_STATED: JsonSchema = {
    "required": ["event_log"],
    "properties": {"event_log": {"anyOf": [{"required": [name]} for name in LOADER_LISTS]}},
}
AZURE: JsonSchema = {
    **mapping(
        {
            **dict.fromkeys(PCR_KEYS, _NAMES),
            "vm_configuration": bit_table(
                VM_SWITCHES,
                "settings that the paravisor states; secure_boot and tpm_enabled true, "
                "console_enabled false when left out",
            ),
            "vm_unique_ids": demanded(array(_TEXT), "VMs that are accepted"),
            "root_cert_thumbprints": demanded(array(_TEXT), "thumbprints that are accepted"),
            "user_data": demanded(array(hex_text(64)), "value that the guest wrote before it requested the report"),
            "tpm_clock_safe": _fixed(True, "the virtual TPM kept track of its clock"),
            "maximum_restart_count": integer(0, 2**32 - 1, "times that the VM was resumed since its last reset"),
            "event_log": _event_log(AZURE_LOG),
        },
        required=[],
    ),
    "description": "an Azure confidential VM; snp and tdx beside it cover the CPU's report in it",
    "anyOf": [*_REGISTER_STATED, _LOADER_STATED],
}
_BOOT_STATED: list[JsonSchema] = [{"required": [name]} for name in BOOT_REGISTERS]
TD_BOOT_JUDGED: JsonSchema = {"anyOf": [*_BOOT_STATED, _LOADER_STATED]}

_TCBS = table({str(product): _tcb(product) for product in SnpProduct})
_EXACT = table({str(product): array(_tcb(product)) for product in SnpProduct})
_SNP = mapping(
    {
        "products": demanded(array({"enum": [str(p) for p in SnpProduct]}), "product lines that are accepted"),
        "measurement": _NAMES,
        "minimum_tcb": demanded(_TCBS, "lowest REPORTED_TCB of each product line; a line without one is refused"),
        "minimum_committed_tcb": demanded(_TCBS, "the same for COMMITTED_TCB"),
        "minimum_launch_tcb": demanded(_TCBS, "the same for LAUNCH_TCB"),
        "exact_tcb": demanded(_EXACT, "the only REPORTED_TCBs of each product line; a line without any is refused"),
        "exact_committed_tcb": demanded(_EXACT, "the same for COMMITTED_TCB"),
        "exact_launch_tcb": demanded(_EXACT, "the same for LAUNCH_TCB"),
        "vmpl": demanded(array(integer(0, 3)), "privilege levels that may request a report; [0] when left out"),
        "signing_key": demanded(array({"enum": ["vcek", "vlek"]}), "either when left out"),
        "guest_policy": bit_table(GUEST_POLICY_BITS, "bits of POLICY; debug and migrate_ma are false when left out"),
        "platform_info": bit_table(
            PLATFORM_INFO_BITS, "bits of PLATFORM_INFO; alias_check_complete is true when left out"
        ),
        "provisional_firmware": _fixed(False),
        "masked_chip_id": _fixed(False),
        "rollback_protection": _fixed(True),
        "rolled_back_since_launch": _fixed(False),
        "chip_ids": demanded(array(hex_text(64)), "chips that are accepted"),
        "denied_chip_ids": array(hex_text(64)),
        "host_data": demanded(array(hex_text(32)), "HOST_DATA"),
        "id_key_digests": demanded(array(hex_text(48)), "ID_KEY_DIGEST"),
        "author_key_digests": demanded(array(hex_text(48)), "AUTHOR_KEY_DIGEST"),
        "family_ids": demanded(array(hex_text(16)), "FAMILY_ID"),
        "image_ids": demanded(array(hex_text(16)), "IMAGE_ID"),
        "csp_ids": demanded(array({"type": "string"}), "cloud provider of a VLEK"),
        "minimum_abi": demanded(
            mapping({"major": integer(0, 255), "minor": integer(0, 255)}, required=["major", "minor"]),
            "minimum version of the firmware's interface that POLICY demands",
        ),
        "minimum_guest_svn": integer(0, 2**32 - 1),
        "mitigations_at_launch": integer(1, 2**53 - 1, "bits that must be set in LAUNCH_MIT_VECTOR"),
        "mitigations_now": integer(1, 2**53 - 1, "bits that must be set in CURRENT_MIT_VECTOR"),
        "accepted_spls": named_table(
            SPL_NAME, _TEXT, "level of a spare component without a known meaning to the reason why it is accepted"
        ),
    },
    required=["products", "measurement"],
)
SNP: JsonSchema = {**_SNP, "anyOf": [{"required": ["minimum_tcb"]}, {"required": ["exact_tcb"]}]}

_DIGESTS = array(hex_text(48))
_MODULES = named_table("[0-9]{1,3}", integer(0, 255))
TDX: JsonSchema = mapping(
    {
        "mr_td": _NAMES,
        **{f"rtmr{i}": _NAMES for i in range(4)},
        "td_attributes": bit_table(
            TD_ATTRIBUTE_BITS,
            "bits of TDATTRIBUTES; debug false, sept_ve_disable true, migratable false when left out",
        ),
        "unnamed_attributes": _fixed(False),
        "unknown_xfam": _fixed(False),
        "service_td": _fixed(False, "demanded when left out and mr_service_td is not stated"),
        "mr_service_td": demanded(_DIGESTS, "MRSERVICETD"),
        "mr_seam": demanded(_DIGESTS, "MRSEAM"),
        "mr_config_id": demanded(_DIGESTS, "MRCONFIGID"),
        "mr_owner": demanded(_DIGESTS, "MROWNER"),
        "mr_owner_config": demanded(_DIGESTS, "MROWNERCONFIG"),
        "tcb_status_current": demanded(
            array({"enum": [*_STATUSES]}), "statuses that are accepted for the TDX module that runs now"
        ),
        "minimum_tdx_module_svn": demanded(
            _MODULES, "for each version of the TDX module its minimum SVN; a version without one is refused"
        ),
        **_intel_tcb(),
        "event_log": _event_log(TDX_LOG),
    },
    required=["mr_td"],
)

DSTACK: JsonSchema = {
    **mapping(
        {
            "compose_hashes": demanded(
                array(hex_text(COMPOSE_HASH_BYTES)), "SHA-256 of each app-compose that is accepted"
            ),
            "os_images": demanded(array(hex_text(OS_IMAGE_BYTES)), "hashes of images that are accepted"),
            "app_ids": demanded(
                array(hex_text(APP_ID_BYTES)), "apps that are accepted; an id does not identify the code"
            ),
            "key_providers": demanded(
                array(
                    mapping(
                        {
                            "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9-]{0,63}$"},
                            "id": {"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"},
                        },
                        required=["name"],
                    )
                ),
                "providers of the guest's keys that are accepted; without an id, any of this name",
            ),
        },
        required=[],
    ),
    "description": "facts that dstack measured into RTMR3; requires tdx with rtmr1 and rtmr2",
    "minProperties": 1,
}

SGX: JsonSchema = mapping(
    {
        "mr_enclave": demanded(array({"type": "string"}), "names under reference_values, with 32-byte digests"),
        "attributes": bit_table(ATTRIBUTE_BITS, "bits of ATTRIBUTES; debug is false when left out"),
        "mr_signer": demanded(array(hex_text(32)), "MRSIGNER"),
        "isv_prod_id": demanded(array(integer(0, 0xFFFF)), "ISVPRODID"),
        "minimum_isv_svn": integer(0, 0xFFFF),
        "config_id": demanded(array(hex_text(64)), "CONFIGID"),
        **_intel_tcb(),
    },
    required=["mr_enclave"],
)

_WORDS = array({"type": "string"})
GPU: JsonSchema = mapping(
    {
        "architectures": demanded(array({"enum": [*ARCHITECTURES]}), "architectures that are accepted"),
        "driver_versions": demanded(_ranges(Numbering.DECIMAL), "one range, or several, one of which must hold"),
        **_nvidia_device(GPU_MEASUREMENTS),
        "fwid_required": _fixed(True, "the report states its firmware id; " + _STRICT),
        "environment": _fixed("production"),
        "cc_mode": _fixed(True),
        "dev_tools_mode": _fixed(False),
        "modes": demanded(array({"enum": [*MODES]}), "modes that are accepted"),
        "projects": demanded(_WORDS, "boards, as the report names them"),
        "project_skus": demanded(_WORDS, "variants of boards"),
        "chip_skus": demanded(_WORDS, "variants of chips"),
    },
    required=["architectures", "driver_versions", "vbios_versions"],
)

NVSWITCH: JsonSchema = mapping(
    {**_nvidia_device(SWITCH_MEASUREMENTS), "locked": _fixed(True)}, required=["vbios_versions"]
)

_NUMBER = integer(0, MAX_DEVICES)
_COUNT: JsonSchema = {"anyOf": [_NUMBER, mapping({"at_least": _NUMBER, "at_most": _NUMBER}, required=["at_least"])]}
DEVICES: JsonSchema = mapping(
    {
        "gpus": demanded(_COUNT, "number of GPUs; at least one when left out"),
        "switches": demanded(_COUNT, "number of NVSwitches; at least one when left out"),
        "same_architecture": _fixed(True),
        "same_driver_version": _fixed(True),
        "bound": _fixed(True, "the CPU's report commits to the devices; " + _STRICT),
    },
    required=[],
)

SAMPLE: JsonSchema = mapping(
    {
        "launch_digest": demanded(array(_TEXT), "launch digests; sample evidence has a constant one"),
        "svn": demanded(array(_TEXT), "versions that sample evidence states"),
        "device_svn": demanded(array(_TEXT), "versions that sample devices state; refused when left out"),
    },
    required=["launch_digest"],
)

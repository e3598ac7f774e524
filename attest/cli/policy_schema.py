"""The JSON Schema of policy documents, made from the names that the policy model uses.

For editors and for reading. What counts is ``attest.policy.load_policy``; a test compares the keys of both.
"""

from __future__ import annotations

from attest.checks import Unchecked
from attest.encoding import JsonValue
from attest.evidence.intel.status import TcbStatus
from attest.evidence.sgx.structure import ATTRIBUTE_BITS
from attest.evidence.snp.structure import GUEST_POLICY_BITS, PLATFORM_INFO_BITS
from attest.evidence.snp.tcb import SnpProduct
from attest.evidence.tdx.structure import TD_ATTRIBUTE_BITS
from attest.policy.azure import PCR_KEYS, VM_SWITCHES
from attest.policy.devices import MAX_DEVICES
from attest.policy.eventlog import AZURE_LOG, LOADER_LISTS, TDX_LOG, EventLogKey
from attest.policy.gpu import (
    ARCHITECTURES,
    FWID_BYTES,
    GPU_MEASUREMENTS,
    IDENTITY_BYTES,
    MODES,
    SWITCH_MEASUREMENTS,
)
from attest.policy.model import MAX_BRANCHES, SCHEMA
from attest.policy.verifiers import LARGEST_STATED, LONGEST_AGE
from attest.policy.versions import Numbering

__all__ = ["policy_schema"]

_Schema = dict[str, JsonValue]
_REASON: _Schema = {
    "type": "object",
    "description": "not demanded, and why; shown in every result",
    "properties": {"unchecked": {"type": "string", "minLength": 1}},
    "required": ["unchecked"],
    "additionalProperties": False,
}


def policy_schema() -> _Schema:
    """Return the schema."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Appraisal policy of attest",
        **_object(
            {
                "schema": {"const": SCHEMA},
                "name": {"type": "string", "pattern": "^[a-z0-9][a-z0-9._-]{0,63}$"},
                "version": _integer(1, 2**31, "only grows"),
                "description": {"type": "string"},
                "simulated": _demand({"const": "refuse"}, "evidence of the simulator; refused when left out"),
                "unchecked": _table({name: {"type": "string", "minLength": 1} for name in Unchecked.NAMES}),
                "verifiers": {
                    "type": "array",
                    "minItems": 1,
                    "description": "Verifiers whose tokens are taken in the place of evidence; nobody's when left out",
                    "items": _verifier(),
                },
                "references": {
                    "type": "array",
                    "minItems": 1,
                    "description": "documents of reference values that are accepted, by digest or by signer",
                    "items": _accepted_document(),
                },
                "reference_values": {
                    "type": "object",
                    "minProperties": 1,
                    "description": "expected measurements by name",
                    "additionalProperties": _reference(),
                },
                "azure": _azure(),
                "snp": _snp(),
                "tdx": _tdx(),
                "sgx": _sgx(),
                "gpu": _gpu(),
                "nvswitch": _nvswitch(),
                "devices": _devices(),
                **_combinators(),
            },
            required=["schema", "name", "version"],
        ),
        **_SOMETHING,
        "$defs": {"branch": _branch()},
    }


_SECTIONS = ("azure", "snp", "tdx", "sgx", "gpu", "nvswitch")
_SOMETHING: _Schema = {"anyOf": [{"required": [name]} for name in (*_SECTIONS, "any_of", "all_of", "at_least")]}
"""A policy, and each branch of it, demands something."""


def _branch() -> _Schema:
    """Describe a branch: the sections of a policy, and branches again."""
    sections: dict[str, _Schema] = {name: {"$ref": f"#/properties/{name}"} for name in (*_SECTIONS, "devices")}
    name: _Schema = {"type": "string", "pattern": "^(?![0-9]+$)[a-z0-9][a-z0-9._-]{0,63}$"}
    return {**_object({"name": name, **sections, **_combinators()}, required=[]), **_SOMETHING}


def _combinators() -> dict[str, _Schema]:
    branches = _list({"$ref": "#/$defs/branch"})
    some = _object({"count": _integer(1, MAX_BRANCHES), "of": branches}, required=["count", "of"])
    return {
        "any_of": {**branches, "description": "branches of which one has to hold"},
        "all_of": {**branches, "description": "branches that all have to hold"},
        "at_least": {**some, "description": "branches of which this many have to hold"},
    }


def _azure() -> _Schema:
    registers_stated: list[_Schema] = [{"required": [key]} for key in PCR_KEYS]
    with_loader: _Schema = {
        "required": ["event_log"],
        "properties": {"event_log": {"anyOf": [{"required": [name]} for name in LOADER_LISTS]}},
    }
    registers = {key: _demand(_list({"type": "string"}), "names under reference_values") for key in PCR_KEYS}
    texts = _list({"type": "string", "minLength": 1})
    return {
        **_object(
            {
                **registers,
                "vm_configuration": _bits(
                    VM_SWITCHES,
                    "what the paravisor says; secure_boot and tpm_enabled true, console_enabled false when left out",
                ),
                "vm_unique_ids": _demand(texts, "VMs that are accepted"),
                "root_cert_thumbprints": _demand(texts, "thumbprints that are accepted"),
                "user_data": _demand(_list(_hex(64)), "what the guest wrote before the report was made"),
                "tpm_clock_safe": _demand({"const": True}, "the virtual TPM kept track of its clock"),
                "maximum_restart_count": _integer(0, 2**32 - 1, "times that the VM was resumed since its last reset"),
                "event_log": _event_log(AZURE_LOG),
            },
            required=[],
        ),
        "description": "an Azure confidential VM; snp and tdx beside it judge the CPU's report within",
        "anyOf": [*registers_stated, with_loader],
    }


def _snp() -> _Schema:
    tcbs = _table({str(product): _tcb(product) for product in SnpProduct})
    exact = _table({str(product): _list(_tcb(product)) for product in SnpProduct})
    strict = "demanded when left out"
    section = _object(
        {
            "products": _demand(_list({"enum": [str(p) for p in SnpProduct]}), "product lines that are accepted"),
            "measurement": _demand(_list({"type": "string"}), "names under reference_values"),
            "minimum_tcb": _demand(tcbs, "lowest REPORTED_TCB of each product line; a line without one is refused"),
            "minimum_committed_tcb": _demand(tcbs, "the same for COMMITTED_TCB"),
            "minimum_launch_tcb": _demand(tcbs, "the same for LAUNCH_TCB"),
            "exact_tcb": _demand(exact, "the only REPORTED_TCBs of each product line; a line without any is refused"),
            "exact_committed_tcb": _demand(exact, "the same for COMMITTED_TCB"),
            "exact_launch_tcb": _demand(exact, "the same for LAUNCH_TCB"),
            "vmpl": _demand(_list(_integer(0, 3)), "privilege levels that may ask; [0] when left out"),
            "signing_key": _demand(_list({"enum": ["vcek", "vlek"]}), "either when left out"),
            "guest_policy": _bits(GUEST_POLICY_BITS, "bits of POLICY; debug and migrate_ma are false when left out"),
            "platform_info": _bits(
                PLATFORM_INFO_BITS, "bits of PLATFORM_INFO; alias_check_complete is true when left out"
            ),
            "provisional_firmware": _demand({"const": False}, strict),
            "masked_chip_id": _demand({"const": False}, strict),
            "rollback_protection": _demand({"const": True}, strict),
            "chip_ids": _demand(_list(_hex(64)), "chips that are accepted"),
            "denied_chip_ids": _list(_hex(64)),
            "host_data": _demand(_list(_hex(32)), "HOST_DATA"),
            "id_key_digests": _demand(_list(_hex(48)), "ID_KEY_DIGEST"),
            "author_key_digests": _demand(_list(_hex(48)), "AUTHOR_KEY_DIGEST"),
            "family_ids": _demand(_list(_hex(16)), "FAMILY_ID"),
            "image_ids": _demand(_list(_hex(16)), "IMAGE_ID"),
            "csp_ids": _demand(_list({"type": "string"}), "cloud provider of a VLEK"),
            "minimum_abi": _demand(
                _object({"major": _integer(0, 255), "minor": _integer(0, 255)}, required=["major", "minor"]),
                "least version of the firmware's interface that POLICY demands",
            ),
            "minimum_guest_svn": _integer(0, 2**32 - 1),
            "mitigations_at_launch": _integer(1, 2**53 - 1, "bits that must be set in LAUNCH_MIT_VECTOR"),
            "mitigations_now": _integer(1, 2**53 - 1, "bits that must be set in CURRENT_MIT_VECTOR"),
        },
        required=["products", "measurement"],
    )
    return {**section, "anyOf": [{"required": ["minimum_tcb"]}, {"required": ["exact_tcb"]}]}


def _tdx() -> _Schema:
    strict = "demanded when left out"
    digests = _list(_hex(48))
    rtmrs = {f"rtmr{i}": _demand(_list({"type": "string"}), "names under reference_values") for i in range(4)}
    modules: _Schema = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": "^[0-9]{1,3}$"},
        "additionalProperties": _integer(0, 255),
    }
    return _object(
        {
            "mr_td": _demand(_list({"type": "string"}), "names under reference_values"),
            **rtmrs,
            "td_attributes": _bits(
                TD_ATTRIBUTE_BITS,
                "bits of TDATTRIBUTES; debug false, sept_ve_disable true, migratable false when left out",
            ),
            "unnamed_attributes": _demand({"const": False}, strict),
            "unknown_xfam": _demand({"const": False}, strict),
            "service_td": _demand({"const": False}, "demanded when left out and mr_service_td is not stated"),
            "mr_service_td": _demand(digests, "MRSERVICETD"),
            "mr_seam": _demand(digests, "MRSEAM"),
            "mr_config_id": _demand(digests, "MRCONFIGID"),
            "mr_owner": _demand(digests, "MROWNER"),
            "mr_owner_config": _demand(digests, "MROWNERCONFIG"),
            "minimum_tdx_module_svn": _demand(
                modules, "for each version of the TDX module its least SVN; a version without one is refused"
            ),
            **_intel_tcb(),
            "event_log": _event_log(TDX_LOG),
        },
        required=["mr_td"],
    )


def _sgx() -> _Schema:
    return _object(
        {
            "mr_enclave": _demand(_list({"type": "string"}), "names under reference_values, with 32-byte digests"),
            "attributes": _bits(ATTRIBUTE_BITS, "bits of ATTRIBUTES; debug is false when left out"),
            "mr_signer": _demand(_list(_hex(32)), "MRSIGNER"),
            "isv_prod_id": _demand(_list(_integer(0, 0xFFFF)), "ISVPRODID"),
            "minimum_isv_svn": _integer(0, 0xFFFF),
            "config_id": _demand(_list(_hex(64)), "CONFIGID"),
            **_intel_tcb(),
        },
        required=["mr_enclave"],
    )


def _gpu() -> _Schema:
    strict = "demanded when left out"
    names = _list({"type": "string"})
    return _object(
        {
            "architectures": _demand(_list({"enum": [*ARCHITECTURES]}), "architectures that are accepted"),
            "driver_versions": _demand(_ranges(Numbering.DECIMAL), "one range, or several of which one has to hold"),
            **_nvidia_device(GPU_MEASUREMENTS),
            "fwid_required": _demand({"const": True}, "the report states its firmware id; " + strict),
            "environment": _demand({"const": "production"}, strict),
            "cc_mode": _demand({"const": True}, strict),
            "dev_tools_mode": _demand({"const": False}, strict),
            "modes": _demand(_list({"enum": [*MODES]}), "modes that are accepted"),
            "projects": _demand(names, "boards, as the report names them"),
            "project_skus": _demand(names, "variants of boards"),
            "chip_skus": _demand(names, "variants of chips"),
        },
        required=["architectures", "driver_versions", "vbios_versions"],
    )


def _nvswitch() -> _Schema:
    locked = _demand({"const": True}, "demanded when left out")
    return _object({**_nvidia_device(SWITCH_MEASUREMENTS), "locked": locked}, required=["vbios_versions"])


def _nvidia_device(measurements: int) -> dict[str, _Schema]:
    """Return the keys that GPUs and NVSwitches share."""
    reason: _Schema = {"type": "string", "minLength": 1}
    identities = _list(_hex(IDENTITY_BYTES))
    waivers = _table({str(index): reason for index in range(measurements)})
    return {
        "vbios_versions": _demand(_ranges(Numbering.HEX), "one range, or several of which one has to hold"),
        "rim": _demand({"const": True}, "every measurement equals a reference value; demanded when left out"),
        "fwids": _demand(_list(_hex(FWID_BYTES)), "firmware ids that are accepted"),
        "device_identities": _demand(identities, "devices that are accepted"),
        "denied_device_identities": identities,
        "waived_measurements": {**waivers, "description": "RIM index to why its measurement may differ"},
        "held_rim_signers": _demand({"const": False}, "signers of RIMs that are on hold; refused when left out"),
    }


def _devices() -> _Schema:
    strict = "demanded when left out"
    number = _integer(0, MAX_DEVICES)
    count: _Schema = {"anyOf": [number, _object({"at_least": number, "at_most": number}, required=["at_least"])]}
    return _object(
        {
            "gpus": _demand(count, "how many GPUs; one at least when left out"),
            "switches": _demand(count, "how many NVSwitches; one at least when left out"),
            "same_architecture": _demand({"const": True}, strict),
            "same_driver_version": _demand({"const": True}, strict),
            "bound": _demand({"const": True}, "the CPU's report commits to the devices; " + strict),
        },
        required=[],
    )


def _ranges(numbering: Numbering) -> _Schema:
    version: _Schema = {"type": "string", "pattern": f"^{numbering.grammar.pattern}$"}
    bounds = _table({"at_least": version, "below": version})
    exactly = _object({"exactly": version}, required=["exactly"])
    return {"anyOf": [bounds, exactly, _list({"anyOf": [bounds, exactly]})]}


def _intel_tcb() -> dict[str, _Schema]:
    """Return the keys that TDX and SGX share."""
    statuses = [str(status) for status in TcbStatus if status is not TcbStatus.REVOKED]
    advisory = _object(
        {
            "reason": {"type": "string", "minLength": 1},
            "expires": {"type": "string", "format": "date-time", "description": "last moment, included"},
        },
        required=["reason", "expires"],
    )
    advisories: _Schema = {
        "type": "object",
        "minProperties": 1,
        "propertyNames": {"pattern": "^INTEL-SA-[0-9]{5}$"},
        "additionalProperties": advisory,
    }
    switches = tuple((name, 0) for name in ("dynamic_platform", "cached_keys", "smt_enabled"))
    return {
        "tcb_status": _demand(_list({"enum": [*statuses]}), "statuses that are accepted; UpToDate when left out"),
        "accepted_advisories": _demand(advisories, "advisories that are tolerated; none when left out"),
        "minimum_tcb_date": _demand(
            {"type": "string", "format": "date-time"}, "least date of the TCB level that the platform reaches"
        ),
        "minimum_tcb_evaluation_data_number": _integer(1, 2**31, "of TCB info and of QE identity"),
        "fmspcs": _demand(_list(_hex(6)), "platform families that are accepted"),
        "ppids": _demand(_list(_hex(16)), "machines that are accepted"),
        "denied_ppids": _list(_hex(16)),
        "platform": _bits(switches, "what the PCK certificate says of the platform"),
    }


def _event_log(key: EventLogKey) -> _Schema:
    others = "; together with the other lists of its register it must name every event there"
    digests, hashed = _list(_hex(key.digest_bytes)), f"SHA-{8 * key.digest_bytes} of the value"
    stores = _table({name: _demand(digests, hashed) for name in ("pk", "kek", "db", "dbx")})
    application = _object(
        {
            "domain": {"type": "string", "pattern": r"^\S+$"},
            "operation": {"type": "string", "pattern": r"^\S+$"},
            "contents": _list({"type": "string"}),
        },
        required=["domain", "operation"],
    )
    texts = _list({"type": "string", "minLength": 1})
    runtime: dict[str, _Schema] = {
        "application_events": _demand(_list(application), "what must and may be there" + others),
        "other_runtime_events": _demand(digests, "digests" + others),
    }
    return _object(
        {
            "required": _demand({"const": True}, "demanded when left out"),
            "secure_boot": _demand({"const": True}, "the firmware's variable SecureBoot"),
            "signature_stores": stores,
            "boot_variables": _demand(_list({"type": "string", "pattern": "^([0-9a-fA-F]{2})+$"}), "values in hex"),
            "kernel_command_lines": _demand(texts, "of the boot loader" + others),
            "grub_commands": _demand(texts, "of GRUB" + others),
            "load_options": _demand(digests, "digests" + others),
            "initrds": _demand(digests, "digests" + others),
            "other_loader_events": _demand(digests, "digests" + others),
            **(runtime if key.runtime else {}),
        },
        required=[],
    )


def _verifier() -> _Schema:
    texts = _list({"type": "string", "minLength": 1})
    return _object(
        {
            "issuer": {"type": "string", "minLength": 1, "description": "as its tokens name it (iss)"},
            "maximum_age": _integer(1, LONGEST_AGE, "seconds since a token was issued; 300 when left out"),
            "policy_ids": _demand(texts, "policies of its own, one of which it must have applied"),
            "statements": {
                "type": "object",
                "minProperties": 1,
                "description": "what it must say beyond any report: name to the values of which its own is one",
                "additionalProperties": _list(
                    {"anyOf": [{"type": "string"}, {"type": "boolean"}, _integer(0, LARGEST_STATED)]}
                ),
            },
        },
        required=["issuer"],
    )


def _accepted_document() -> _Schema:
    digest: _Schema = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
    positive: _Schema = {"type": "integer", "minimum": 1}
    return {
        "type": "object",
        "required": ["document"],
        "properties": {
            "document": {"type": "string", "minLength": 1},
            "sha256": digest,
            "signers": {"type": "array", "minItems": 1, "items": digest},
            "at_least": positive,
            "minimum_version": positive,
        },
        "additionalProperties": False,
    }


def _reference() -> _Schema:
    return _object(
        {
            "values": {"anyOf": [_list(_hex(48)), _list(_hex(32))], "description": "all SHA-384, or all SHA-256"},
            "origin": {"type": "string", "minLength": 1, "description": "where the values come from"},
            "expires": {"type": "string", "format": "date-time", "description": "last moment, included"},
        },
        required=["values", "origin"],
    )


def _tcb(product: SnpProduct) -> _Schema:
    parts = ["bootloader", "tee", "snp", "microcode"]
    names = ["fmc", *parts] if product.has_fmc else parts
    return _object({name: _integer(0, 255) for name in names}, required=names)


def _object(properties: dict[str, _Schema], *, required: list[str]) -> _Schema:
    return {
        "type": "object",
        "properties": {**properties},
        "required": [*required],
        "additionalProperties": False,
    }


def _table(properties: dict[str, _Schema]) -> _Schema:
    return {"type": "object", "properties": {**properties}, "minProperties": 1, "additionalProperties": False}


def _bits(bits: tuple[tuple[str, int], ...], description: str) -> _Schema:
    flag: _Schema = {"anyOf": [{"type": "boolean"}, _REASON]}
    return {**_table({name: flag for name, _ in bits}), "description": description}


def _demand(value: _Schema, description: str) -> _Schema:
    return {"anyOf": [value, _REASON], "description": description}


def _list(item: _Schema) -> _Schema:
    return {"type": "array", "items": item, "minItems": 1}


def _hex(length: int) -> _Schema:
    return {"type": "string", "pattern": f"^[0-9a-fA-F]{{{2 * length}}}$"}


def _integer(low: int, high: int, description: str = "") -> _Schema:
    bounds: _Schema = {"type": "integer", "minimum": low, "maximum": high}
    return {**bounds, "description": description} if description else bounds

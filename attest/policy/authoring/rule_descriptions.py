"""Every rule in words: its demand, and the remedy for a machine that does not meet it."""

from __future__ import annotations

from collections.abc import Mapping

_IMAGE = (
    "Compare the build: 'attest measure' computes the value of an image. If this image is intended, add its "
    "value under reference_values, with its origin; otherwise start the intended image."
)
_REGISTER = (
    "Compare the event log with that of a good boot (--eventlog). If this boot is intended, add the register's value "
    "under reference_values, with its origin; otherwise start the intended image."
)
_FIRMWARE = (
    "Have the host's owner update its firmware, then restart the guest; or lower the minimum if you accept that risk."
)
_THAT_FIRMWARE = (
    "Run on a host with firmware that the policy lists; or add the values of this host after you reviewed them."
)
_LAUNCH = "Start the guest with another host configuration; a running guest cannot change it."
_HOST = "Ask the host's owner to change its setting; or relax this key with {unchecked: reason}."
_OWNER = "Sign and launch the image with the owner's keys and ids that the policy names; or add these to the policy."
_OTHER_MACHINE = "Run on one of the machines that the policy names; or add this one to the policy."
_INTEL = "Have BIOS, microcode and TDX module updated; or accept this for a while: tcb_status, accepted_advisories."
_COLLATERAL = "Fetch newer endorsements: 'attest endorsements fetch', or omit --offline."
_DRIVER = "Install a driver of the range in the guest and restart; or change the range in gpu.driver_versions."
_VBIOS = "Have the device's firmware updated; or change the range in vbios_versions."
_RIM = (
    "Reinstall NVIDIA's driver and firmware: the running ones are not those that NVIDIA signed. Do not waive "
    "a measurement without an explanation."
)
_NOT_UNDERSTOOD = (
    "Remove the value once a newer version of this program knows it; name only values whose meaning you know."
)
_SETTING = "Set the GPU's mode and restart it. A report alone has no settings; 'attest collect gpu' adds them."
_LOG = "Send the event log (--eventlog) and compare it with a good boot: --reference-log names the first difference."
_DSTACK = (
    "Send dstack's event log with the evidence (--eventlog, or GetQuote's answer). If this deployment is intended, "
    "review its app-compose and add the value; otherwise deploy the intended one."
)
_SET = "Send the evidence of every device of the machine, collected together: 'attest collect'."

_INTEL_FIXES: Mapping[str, str] = {
    "tcb_status": _INTEL,
    "accepted_advisories": _INTEL,
    "minimum_tcb_date": _INTEL,
    "minimum_tcb_evaluation": _COLLATERAL,
    "minimum_qe_identity": _COLLATERAL,
    "fmspc": _OTHER_MACHINE,
    "ppid": _OTHER_MACHINE,
    "denied_ppids": "Run on another machine: the policy refuses this one.",
    "platform.": _HOST,
}
"""Remedies that TDX and SGX share."""
FIXES: Mapping[str, str] = {
    **{f"policy.{section}.{name}": text for section in ("tdx", "sgx") for name, text in _INTEL_FIXES.items()},
    "freshness": "Send a new nonce and collect again: --nonce. Recorded evidence: --unchecked freshness=REASON.",
    "policy.not_simulated": "Use evidence of hardware. Only a laboratory's policy sets simulated: {unchecked: reason}.",
    "policy.kind": "Add a section for this kind of device to the policy; or remove the device from the machine.",
    "policy.any_of": "Meet every demand of one branch: see the failed checks of the nearest branch.",
    "policy.at_least": "Meet every demand of more branches: see the failed checks of the nearest branches.",
    "policy.azure.": "Start the VM with another configuration; or relax this key with {unchecked: reason}.",
    "policy.azure.pcr": _REGISTER,
    "policy.azure.event_log.": _LOG,
    "policy.azure.vm_configuration.secure_boot": (
        "Start the VM with Secure Boot on: trusted launch has no effect without it."
    ),
    "policy.azure.vm_configuration.console_enabled": (
        "Azure enables the serial console: relax this if no account can log in."
    ),
    "policy.azure.vm_unique_ids": _OTHER_MACHINE,
    "policy.azure.user_data": "Have the guest write the value that the policy names before it requests the report.",
    "policy.azure.tpm_clock_safe": "Restart the VM cleanly: the clock of its TPM may have gone back.",
    "policy.azure.maximum_restart_count": "Reset the VM: it was suspended and resumed since it was started.",
    "policy.snp.": _HOST,
    "policy.snp.products": "Run on a processor of a product line that the policy names; or add this one to the policy.",
    "policy.snp.product_known_broken": (
        "Use Genoa or newer: software can extract Milan's report keys and forge its reports."
    ),
    "policy.snp.measurement": _IMAGE,
    "policy.snp.minimum_": _FIRMWARE,
    "policy.snp.exact_": _THAT_FIRMWARE,
    "policy.snp.minimum_abi": _LAUNCH,
    "policy.snp.vmpl": (
        "Request the report from the privilege level that the policy names; or add this one to the policy."
    ),
    "policy.snp.signing_key": "Ask the cloud provider which key its hosts use; a VLEK also needs csp_ids.",
    "policy.snp.guest_policy.": _LAUNCH,
    "policy.snp.guest_svn": "Launch a newer version of the image, by its ID block.",
    "policy.snp.host_data": _LAUNCH,
    "policy.snp.id_key_digest": _OWNER,
    "policy.snp.author_key_digest": _OWNER,
    "policy.snp.family_id": _OWNER,
    "policy.snp.image_id": _OWNER,
    "policy.snp.chip_id": _OTHER_MACHINE,
    "policy.snp.denied_chip_ids": "Run on another machine: the policy refuses this chip.",
    "policy.snp.csp_id": "Run at a cloud provider that the policy names; or add this one to the policy.",
    "policy.snp.provisional_firmware": "Have the host commit its firmware; or relax it: AWS runs provisional firmware.",
    "policy.snp.firmware_rollback_protected": "Have the host commit its firmware, so that older one cannot return.",
    "policy.snp.rolled_back_since_launch": "Have the host load its newer firmware again, then restart the guest.",
    "policy.snp.masked_chip_id": (
        "Ask the host to show CHIP_ID (MASK_CHIP_ID off), so that its key can be compared with the chip."
    ),
    "policy.snp.launch_mit_vector": _FIRMWARE,
    "policy.snp.current_mit_vector": _FIRMWARE,
    "policy.tdx.": _LAUNCH,
    "policy.tdx.mr_td": _IMAGE,
    "policy.tdx.rtmr": f"{_IMAGE} {_LOG}",
    "policy.tdx.mr_service_td": "Start the TD without a service TD, or with one that the policy names.",
    "policy.tdx.service_td": "Start the TD without a service TD, or name it under mr_service_td.",
    "policy.tdx.mr_seam": "Have the host load a TDX module that the policy names; or add this measurement.",
    "policy.tdx.minimum_tdx_module_svn": "Have the host load a newer TDX module.",
    "policy.tdx.event_log.": _LOG,
    "policy.dstack.": _DSTACK,
    "policy.sgx.": "Load the intended enclave; or change the policy.",
    "policy.sgx.mr_enclave": (
        "Compare the build of the enclave. If this enclave is intended, add it under reference_values."
    ),
    "policy.sgx.minimum_isv_svn": "Load a newer version of the enclave.",
    "policy.sgx.attributes.": "Build and launch the enclave with these attributes: the host can read a debug enclave.",
    "policy.gpu.": _SETTING,
    "policy.gpu.architectures": "Use a GPU of an architecture that the policy names; or add this one to the policy.",
    "policy.gpu.driver_versions": _DRIVER,
    "policy.gpu.vbios_versions": _VBIOS,
    "policy.gpu.rim": _RIM,
    "policy.gpu.fwid": "Update driver and firmware; fwids change with the branch: add this one if it is intended.",
    "policy.gpu.waived_measurements.": _RIM,
    "policy.gpu.accepted_opaque.": _NOT_UNDERSTOOD,
    "policy.gpu.held_rim_signers": "Update the driver: NVIDIA puts the signers of outdated ones on hold.",
    "policy.gpu.device_identities": _OTHER_MACHINE,
    "policy.gpu.denied_device_identities": "Use another GPU: the policy refuses this one.",
    "policy.gpu.project": "Use a board that the policy names; or add this one to the policy.",
    "policy.gpu.chip_skus": "Use a chip that the policy names; or add this one to the policy.",
    "policy.nvswitch.": "Have the switch configured and locked by its owner.",
    "policy.nvswitch.vbios_versions": _VBIOS,
    "policy.nvswitch.rim": _RIM,
    "policy.nvswitch.fwids": "Update the firmware of the switch; add this one if it is intended.",
    "policy.nvswitch.waived_measurements.": _RIM,
    "policy.nvswitch.accepted_opaque.": _NOT_UNDERSTOOD,
    "policy.nvswitch.held_rim_signers": "Update the firmware: NVIDIA puts the signers of outdated RIMs on hold.",
    "policy.nvswitch.device_identities": _OTHER_MACHINE,
    "policy.nvswitch.denied_device_identities": "Use another machine: the policy refuses this switch.",
    "policy.sample.": "Sample evidence proves nothing: use a confidential machine; or add the value for a trial.",
    "policy.devices.": _SET,
    "policy.devices.bound": (
        f"{_SET} The CPU's report must commit to them: a GPU's report alone does not identify a machine."
    ),
    "policy.devices.same_": "Give all GPUs of the machine one driver; run on one kind of GPU.",
}
"""Remedy for a failed check, by the longest prefix of its id."""

_INTEL_SENTENCES: Mapping[str, str] = {
    "tcb_status": "Intel's TCB status of the platform must be {expected}.",
    "accepted_advisories": "The Intel advisories that apply must be {expected}.",
    "minimum_tcb_date": "The date of the platform's TCB must be {expected}.",
    "platform.": "The platform's property {name} must be {expected}.",
}
SENTENCES: Mapping[str, str] = {
    "policy.tdx.tcb_status_current": (
        "Intel's TCB status of the platform with the current TDX module must be {expected}."
    ),
    **{f"policy.{section}.{name}": text for section in ("tdx", "sgx") for name, text in _INTEL_SENTENCES.items()},
    "policy.": "{name} must be {expected}.",
    "policy.azure.pcr": "The register {name} of the virtual TPM must be that of {expected}.",
    "policy.azure.event_log.required": "The evidence must include {expected}.",
    "policy.azure.event_log.secure_boot": "That Secure Boot is on, as the firmware measured it, must be {expected}.",
    "policy.azure.event_log.": "The event log's {name} must be {expected}.",
    "policy.azure.vm_configuration.": "The VM's setting {name} must be {expected}.",
    "policy.azure.tpm_clock_safe": "That the virtual TPM has kept track of its clock must be {expected}.",
    "policy.azure.maximum_restart_count": "The number of times the VM was resumed must be {expected}.",
    "policy.snp.products": "The processor must be {expected}.",
    "policy.snp.product_known_broken": "Anything but {expected} gives a warning.",
    "policy.snp.measurement": "The guest's launch measurement must be that of {expected}.",
    "policy.snp.minimum_tcb": "The firmware that the report is signed for must be {expected}.",
    "policy.snp.minimum_committed_tcb": "The firmware below which the chip cannot be rolled back must be {expected}.",
    "policy.snp.exact_tcb": "The firmware that the report is signed for must be {expected}.",
    "policy.snp.exact_committed_tcb": "The firmware below which the chip cannot be rolled back must be {expected}.",
    "policy.snp.exact_launch_tcb": "The firmware at the guest's launch must be {expected}.",
    "policy.snp.minimum_abi": "The guest's policy must demand firmware with an interface version of {expected}.",
    "policy.snp.minimum_launch_tcb": "The firmware at the guest's launch must be {expected}.",
    "policy.snp.vmpl": "The privilege level that requested the report must be {expected}.",
    "policy.snp.signing_key": "The key that signed the report must be {expected}.",
    "policy.snp.guest_policy.": "The guest's policy bit {name} must be {expected}.",
    "policy.snp.guest_policy.debug": "That the host may debug the guest must be {expected}.",
    "policy.snp.guest_policy.migrate_ma": "That a migration agent may move the guest must be {expected}.",
    "policy.snp.platform_info.": "The platform's property {name} must be {expected}.",
    "policy.snp.guest_svn": "The image's security version must be {expected}.",
    "policy.snp.accepted_spls.": "The level {name}, whose meaning is not known, must be {expected}.",
    "policy.snp.provisional_firmware": "That the firmware is provisional and can be rolled back must be {expected}.",
    "policy.snp.firmware_rollback_protected": "That the firmware cannot be rolled back must be {expected}.",
    "policy.snp.rolled_back_since_launch": "That older firmware runs than at the guest's launch must be {expected}.",
    "policy.snp.masked_chip_id": "That the report hides its chip must be {expected}.",
    "policy.snp.launch_mit_vector": "The mitigations that were on at launch must be {expected}.",
    "policy.snp.current_mit_vector": "The mitigations that are on now must be {expected}.",
    "policy.tdx.mr_td": "The firmware that the TD was built from (MRTD) must be that of {expected}.",
    "policy.tdx.rtmr0": "The firmware's settings (RTMR0) must be that of {expected}.",
    "policy.tdx.rtmr1": "The boot loader and kernel (RTMR1) must be that of {expected}.",
    "policy.tdx.rtmr2": "The data that the boot loader loaded (RTMR2) must be that of {expected}.",
    "policy.tdx.rtmr3": "The guest's own measurements (RTMR3) must be that of {expected}.",
    "policy.tdx.td_attributes.": "The TD's attribute {name} must be {expected}.",
    "policy.tdx.under_debug": "That the TD is under debug must be {expected}.",
    "policy.tdx.unnamed_attributes": "The TD must have {expected}.",
    "policy.tdx.unknown_xfam": "XFAM must have only {expected}.",
    "policy.tdx.service_td": "That a service TD is bound must be {expected}.",
    "policy.tdx.minimum_tdx_module_svn": "The TDX module must be {expected}.",
    "policy.tdx.event_log.required": "The evidence must include {expected}.",
    "policy.tdx.event_log.secure_boot": "That Secure Boot is on, as the firmware measured it, must be {expected}.",
    "policy.tdx.event_log.": "The event log's {name} must be {expected}.",
    "policy.dstack.compose_hashes": "The hash of the app-compose that dstack started must be {expected}.",
    "policy.dstack.os_images": "The image of dstack that the configuration of the guest names must be {expected}.",
    "policy.dstack.app_ids": "The id of the app, which no update changes, must be {expected}.",
    "policy.dstack.key_providers": "The provider of the guest's keys must be {expected}.",
    "policy.sgx.mr_enclave": "The enclave's measurement must be that of {expected}.",
    "policy.sgx.mr_signer": "The enclave's signer must be {expected}.",
    "policy.sgx.attributes.": "The enclave's attribute {name} must be {expected}.",
    "policy.gpu.architectures": "The GPU must be {expected}.",
    "policy.gpu.driver_versions": "The GPU's driver must be {expected}.",
    "policy.gpu.vbios_versions": "The GPU's VBIOS must be {expected}.",
    "policy.gpu.rim": "The GPU's firmware and driver must have {expected}.",
    "policy.gpu.fwid_required": "That the report states its certificate's firmware must be {expected}.",
    "policy.gpu.accepted_opaque.": "The value {name}, whose meaning is not known, must be {expected}.",
    "policy.gpu.waived_measurements.": "The measurement with RIM index {name} must be {expected}.",
    "policy.gpu.environment": "NVML must call the machine {expected}.",
    "policy.gpu.cc_mode": "That NVML calls confidential computing on must be {expected}.",
    "policy.gpu.dev_tools_mode": "That NVML calls developer tools on must be {expected}.",
    "policy.nvswitch.vbios_versions": "The switch's BIOS must be {expected}.",
    "policy.nvswitch.rim": "The switch's firmware must have {expected}.",
    "policy.nvswitch.accepted_opaque.": "The value {name}, whose meaning is not known, must be {expected}.",
    "policy.nvswitch.waived_measurements.": "The measurement with RIM index {name} must be {expected}.",
    "policy.nvswitch.locked": "That the switch's configuration is locked must be {expected}.",
    "policy.sample.launch_digest": "The launch digest, a constant of sample evidence, must be {expected}.",
    "policy.sample.svn": "The version that sample evidence states must be {expected}.",
    "policy.sample.device_svn": "The version that a sample device states must be {expected}.",
    "policy.devices.cpu": "There must be evidence of a CPU, {expected}.",
    "policy.devices.gpus": "The number of GPUs must be {expected}.",
    "policy.devices.switches": "The number of NVSwitches must be {expected}.",
    "policy.devices.bound": "That the CPU's report commits to exactly these devices must be {expected}.",
    "policy.devices.same_architecture": "The architecture must be {expected}.",
    "policy.devices.same_driver_version": "The driver's version must be {expected}.",
}
"""A sentence for each rule, by the longest prefix of its id; ``{name}`` is the name of the key."""


_FACT = "That "
_FACTS = {"true": "It must hold that ", "false": "It must not be that "}
_SWITCHES = {"true": "set", "false": "not set"}


def longest_prefix(table: Mapping[str, str], check_id: str) -> str | None:
    """Return the entry whose prefix fits best, or None."""
    fitting = [prefix for prefix in table if check_id.startswith(prefix)]
    return table[max(fitting, key=len)] if fitting else None


def words_for(rule_id: str, expected: str) -> str:
    """Return the demand of a rule, in one sentence."""
    name = rule_id.rpartition(".")[2].replace("_", " ")
    template = longest_prefix(SENTENCES, rule_id) or "{name} must be {expected}."
    if template.startswith(_FACT) and expected in _FACTS:
        template = _FACTS[expected] + template.removeprefix(_FACT).removesuffix(" must be {expected}.") + "."
    sentence = template.replace("{name}", name).replace("{expected}", _SWITCHES.get(expected, expected))
    return sentence[:1].upper() + sentence[1:]

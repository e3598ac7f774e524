"""The words of the check reference: for each check of a verification, its demand and the remedy."""

from typing import Final, NamedTuple

_TAMPERED: Final = "The evidence was changed or damaged. Collect it again."
_STALE: Final = "Fetch newer endorsements: `attest endorsements fetch`, or leave out `--offline`."
_ANCHOR: Final = (
    "The root is not one of your trust anchors. Do not add it unless you know its owner: "
    "[trust anchors](trust-anchors.md)."
)
_VENDOR: Final = "Report it to the vendor. Do not accept this device until the cause is known."
_RIM: Final = "Fetch the RIM again. If it is still refused, the file was changed: [GPUs and switches](gpu.md#rims)."
_UPDATE: Final = (
    "Have the host's firmware updated, or name a lower minimum in the policy: [firmware floors](firmware.md)."
)
_DOCUMENT: Final = (
    "The service sent a document that does not hold together. Request it again, and report it to the service."
)
_RECEIPT: Final = "The receipt or its chain was changed, or belongs to another exchange: [receipts](receipts.md)."
_MODEL: Final = "The chain describes another model: get the manifest of the model that answered from its owner."
_REQUEST: Final = "Request a new token from its Verifier: [tokens](tokens.md)."


class Words(NamedTuple):
    """The demand of a check, and the remedy of a failure."""

    demand: str
    remedy: str


WORDS: Final[dict[str, Words]] = {
    "snp.format": Words("The report has its 1,184 bytes, a known version, and zeros in reserved fields.", _TAMPERED),
    "snp.signing_key": Words("The report names the key that signed it: VCEK or VLEK.", _TAMPERED),
    "snp.leaf": Words("The certificate is a VCEK or VLEK with all of AMD's extensions.", _STALE),
    "snp.product": Words(
        "Report and certificate name the same product line.",
        "Fetch the certificate of this chip: `attest endorsements fetch`.",
    ),
    "snp.tcb": Words(
        "The certificate is for the TCB version that the report states.",
        "Fetch the certificate of this TCB version: `attest endorsements fetch`.",
    ),
    "snp.chip_id": Words(
        "The certificate is for the chip that the report names.",
        "Fetch the certificate of this chip: `attest endorsements fetch`.",
    ),
    "snp.signature": Words("The certificate's key signed the report (ECDSA P-384, SHA-384).", _TAMPERED),
    "snp.tcb_order": Words("No component of the committed TCB is above the current one.", _VENDOR),
    "snp.leaf_validity": Words(
        "The moment is inside the validity of the VCEK or VLEK.", "Check `--at`, then fetch the certificate again."
    ),
    "snp.chain": Words("ASK or ASVK signed the certificate, and ARK signed that.", _STALE),
    "snp.root": Words("The chain ends at a pinned key of AMD.", _ANCHOR),
    "snp.chain_validity": Words(
        "The moment is inside the validity of every issuer.", "Check `--at`, then fetch the certificates again."
    ),
    "snp.revocation": Words("A current CRL of AMD lists none of the certificates.", _STALE),
    "intel.format": Words("The quote has the structure of its version, and known types of keys and bodies.", _TAMPERED),
    "intel.pck_certificate": Words("The PCK certificate has Intel's extensions, each once.", _STALE),
    "intel.qe_report_signature": Words(
        "The PCK certificate's key signed the report of the quoting enclave.", _TAMPERED
    ),
    "intel.attestation_key": Words("The quoting enclave's report commits to the attestation key.", _TAMPERED),
    "intel.quote_signature": Words("The attestation key signed header and body.", _TAMPERED),
    "intel.pck_chain": Words(
        "The PCK certificate leads to a pinned root of Intel, and all certificates are valid.", _ANCHOR
    ),
    "intel.revocation": Words("Current CRLs of Intel list none of the certificates.", _STALE),
    "intel.tcb_info": Words("The TCB info is signed by Intel, current, and for this platform.", _STALE),
    "intel.qe_identity": Words("The quoting enclave matches the identity that Intel signed.", _STALE),
    "intel.module": Words("The TDX module matches an identity in the TCB info.", _UPDATE),
    "intel.tcb": Words("A TCB level of Intel fits this platform; its status is a claim that policies judge.", _UPDATE),
    "nvidia.format": Words(
        "The SPDM request and response have their structure, with every measurement once.", _TAMPERED
    ),
    "nvidia.chain": Words("The device's certificates lead to a pinned root of NVIDIA.", _ANCHOR),
    "nvidia.arch": Words(
        "Certificate and collection name the same architecture.", "Collect the evidence again: `attest collect gpu`."
    ),
    "nvidia.stated_nonce": Words(
        "The nonce beside the report is the one inside it.", "Collect the evidence again: `attest collect gpu`."
    ),
    "nvidia.chain_validity": Words("The moment is inside the validity of every certificate.", "Check `--at`."),
    "nvidia.signature": Words("The device's key signed request and response (ECDSA P-384).", _TAMPERED),
    "nvidia.fwid": Words("The firmware that the report states is that of the certificate.", _VENDOR),
    "nvidia.leaf_binding": Words("The issuer signed the device's key and its firmware together.", _VENDOR),
    "nvidia.revocation": Words(
        "NVIDIA's OCSP service says, freshly, that no certificate of the device is revoked.", _STALE
    ),
    "nvidia.driver_rim": Words("The driver's RIM is available, and is for this driver version.", _RIM),
    "nvidia.driver_rim_signature": Words("The XML signature of the driver's RIM holds.", _RIM),
    "nvidia.driver_rim_chain": Words("The signer of the driver's RIM leads to a pinned root of NVIDIA.", _RIM),
    "nvidia.driver_rim_revocation": Words("The signer of the driver's RIM is not revoked.", _STALE),
    "nvidia.vbios_rim": Words("The VBIOS's RIM is available, and is for this VBIOS version.", _RIM),
    "nvidia.vbios_rim_signature": Words("The XML signature of the VBIOS's RIM holds.", _RIM),
    "nvidia.vbios_rim_chain": Words("The signer of the VBIOS's RIM leads to a pinned root of NVIDIA.", _RIM),
    "nvidia.vbios_rim_revocation": Words("The signer of the VBIOS's RIM is not revoked.", _STALE),
    "nvidia.rim_conflict": Words("Driver's and VBIOS's RIM do not both have a value for one measurement.", _RIM),
    "nvidia.measurements": Words(
        "Every measurement has a value that a RIM lists.",
        "Reinstall NVIDIA's driver and firmware. Do not waive an unexplained difference.",
    ),
    "azure.format": Words("The HCL report has its structure and a known version.", _TAMPERED),
    "azure.vmpl": Words(
        "The report of the CPU was requested at VMPL 0, that of the paravisor.",
        "Collect the evidence in an Azure confidential VM with vTPM.",
    ),
    "azure.runtime_data": Words("The CPU's report commits to the runtime data.", _TAMPERED),
    "azure.td_report": Words(
        "The TD report in the HCL report and the quote agree.", "Collect the evidence again: `attest collect azure`."
    ),
    "azure.claims": Words("The runtime data holds one attestation key of the vTPM.", _TAMPERED),
    "azure.tpm_signature": Words("The attestation key signed the TPM's quote.", _TAMPERED),
    "azure.tpm_quote": Words("The quote has its structure, and states that a TPM made it.", _TAMPERED),
    "azure.user_data": Words(
        "The CPU's report commits to the user data in the evidence.",
        "Collect the evidence again: `attest collect azure`.",
    ),
    "azure.pcr_digest": Words(
        "The PCR values in the evidence hash to the digest in the quote.",
        "Collect the evidence again: `attest collect azure`.",
    ),
    "sample.format": Words(
        "The sample evidence has a version and at most 64 bytes of report data.",
        "Collect it again: the program that wrote it failed.",
    ),
    "sample.accepted": Words(
        "Simulated evidence is accepted, to which sample evidence belongs.",
        "Run the workload on a confidential machine. To try it without one, pass `--allow-simulated`.",
    ),
    "dstack.log": Words("The event log is readable, and each event has its digest.", _TAMPERED),
    "dstack.events": Words(
        "RTMR3 has dstack's events once, in order.",
        "Deploy an image of dstack that this version supports: [dstack](dstack.md).",
    ),
    "dstack.replay": Words("The events replay to the RTMR3 of the quote.", _TAMPERED),
    "dstack.compose": Words(
        "The app-compose in the evidence has the measured hash.", "Send the app-compose of this deployment."
    ),
    "dstack.statements": Words("What the service states of its guest agrees with the evidence.", _DOCUMENT),
    "provider.form": Words("The document has the form of its service.", _DOCUMENT),
    "provider.nonce": Words("The evidence commits to your nonce.", "Request the document with a new nonce."),
    "provider.binding": Words("The evidence commits to the keys that the document states.", _DOCUMENT),
    "provider.keys": Words("The keys of the document are well-formed.", _DOCUMENT),
    "provider.gpus": Words("The evidence of the GPUs answers the same nonce.", _DOCUMENT),
    "provider.statements": Words("What the document states agrees with its evidence.", _DOCUMENT),
    "provider.envelope": Words("The outer document agrees with the evidence inside.", _DOCUMENT),
    "uvm.signature": Words("The COSE signature of the endorsement of the utility VM holds.", _TAMPERED),
    "uvm.chain": Words("The certificates in the endorsement form a chain, and are valid.", _STALE),
    "uvm.issuer": Words("The issuer names that chain, and a pinned root ends it.", _ANCHOR),
    "uvm.measurement": Words(
        "The endorsement is for the measured launch digest.", "Send the endorsement of this utility VM."
    ),
    "certificate.key": Words(
        "The evidence in the certificate commits to the certificate's key.",
        "Do not trust this connection. Connect again.",
    ),
    "committed_data.report_data": Words(
        "REPORT_DATA commits to the data in the evidence.", "Collect the evidence and the data together."
    ),
    "committed_data.host_data": Words(
        "HOST_DATA commits to the data in the evidence.", "Send the data that the host was given at launch."
    ),
    "eventlog.replay": Words(
        "The event log replays to the registers of the evidence.",
        "Send the log of this boot: [event logs](event-logs.md).",
    ),
    "binding.report_data": Words(
        "The CPU's report commits to the binding: context, role, audience, nonce, key, devices.",
        "Collect the evidence again for this exchange.",
    ),
    "binding.extra_data": Words(
        "The TPM's quote commits to the same binding.", "Collect the evidence again for this exchange."
    ),
    "binding.devices": Words(
        "The binding lists every device, and no other.",
        "Send the evidence of all devices, collected together: `attest collect`.",
    ),
    "binding.device_nonce": Words(
        "Each device answered the nonce that the binding gives it.", "Collect the evidence again: `attest collect`."
    ),
    "freshness": Words(
        "The evidence answers your nonce, or has your report data.", "Send a new nonce and collect again: `--nonce`."
    ),
    "device.unique": Words("No device occurs twice in the evidence.", "Send the evidence of each device once."),
    "device.nonce": Words(
        "All devices answered the same nonce.", "Collect the evidence of all devices together: `attest collect`."
    ),
    "device.mode": Words(
        "All GPUs are in one mode.",
        "Set the mode of the GPUs, and collect the evidence again: [GPUs and switches](gpu.md).",
    ),
    "topology": Words(
        "The GPUs and switches of the evidence name each other, and none is missing.",
        "Collect the evidence of all devices together: `attest collect`.",
    ),
    "evidence.format": Words("The evidence can be read.", "Collect the evidence again, and send it unchanged."),
    "token.signature": Words("A key of a trusted issuer signed the token, with an allowed algorithm.", _REQUEST),
    "token.time": Words("The moment is inside the validity of the token.", _REQUEST),
    "token.audience": Words("The token is for you.", _REQUEST),
    "receipt.format": Words("The receipt has two signers, and every part of its chain its one spelling.", _RECEIPT),
    "receipt.statement": Words("The receipt names the statement of receipt keys in its chain.", _RECEIPT),
    "receipt.ed25519": Words("The Ed25519 key of the statement signed the claims.", _RECEIPT),
    "receipt.ml_dsa_65": Words("The ML-DSA-65 key of the statement signed the claims.", _RECEIPT),
    "receipt.evidence": Words("The evidence of the machine is genuine.", "See the checks of the evidence."),
    "receipt.binding": Words("The evidence commits to the statement, for this service.", _RECEIPT),
    "receipt.policy": Words("The policy affirms the machine.", "See the checks of the policy."),
    "receipt.model": Words("The statement has the model that the receipt names.", _MODEL),
    "receipt.manifest": Words("A given owner signed the manifest of each part of the model.", _MODEL),
    "receipt.loaded": Words(
        "The machine decrypted files of this manifest; a warning if not all of them completely.", _MODEL
    ),
    "receipt.release": Words(
        "The service that the manifest names released its key, and logged it; a warning for a break-glass release.",
        "The key came from elsewhere, or the chain has another release: [receipts](receipts.md#the-release).",
    ),
    "receipt.request": Words("The request is the one that the receipt is about.", _RECEIPT),
    "receipt.response": Words("The response is the one that the receipt is about.", _RECEIPT),
    "receipt.complete": Words(
        "The application ended the response itself; a warning if it was cut off and that is accepted.",
        "Send the request again.",
    ),
    "receipt.challenge": Words("The receipt has the challenge of this client.", _RECEIPT),
    "receipt.time": Words(
        "The time is inside the validity of the keys, not in the future, and not too long ago.",
        "Check `--at` and the clocks.",
    ),
}


class Group(NamedTuple):
    """Checks that one page section has together."""

    title: str
    prefixes: tuple[str, ...]


GROUPS: Final = (
    Group("AMD SEV-SNP", ("snp.",)),
    Group("Intel TDX and SGX", ("intel.",)),
    Group("NVIDIA GPUs and switches", ("nvidia.",)),
    Group("Azure", ("azure.",)),
    Group("dstack", ("dstack.",)),
    Group("Sample evidence", ("sample.",)),
    Group("Documents of services", ("provider.",)),
    Group("Data beside the evidence", ("uvm.", "certificate.", "committed_data.", "eventlog.")),
    Group("The whole of the evidence", ("binding.", "freshness", "topology", "device.", "evidence.")),
    Group("Tokens", ("token.",)),
    Group("Receipts for answers", ("receipt.",)),
)

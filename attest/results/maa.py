"""Claims of Microsoft Azure Attestation (MAA), under our names.

Four shapes: ``sevsnpvm``, ``tdxvm`` and ``sgx`` with the report's fields at the top, and ``azurevm`` of a VM's guest
agent, where they are under ``x-ms-isolation-tee`` and the rest is what MAA read from the log of the virtual TPM.

NOTE: MAA names the components of one TCB only (``bootloader-svn``, ``tee-svn``, ``snpfw-svn``, ``microcode-svn``) and
does not say which of the report's four it is. In every token seen so far it is REPORTED_TCB, so it is read as that.
Turin's FMC has no name there; a minimum with an FMC is not met.

Spec: specs/azure-skr.md, section 12.
"""

from __future__ import annotations

from attest.evidence.azure.runtime import USER_DATA_BYTES, VM_CONFIGURATION
from attest.evidence.claims import ClaimTree
from attest.results.tee_token_claims import evaluation_claims, present, tdx_claims
from attest.results.token_facts import ClaimReader, TokenFacts, TokenFrame, TokenKind, claim_tree, kind_unsupported

_GUEST_TOKEN = "azurevm"  # noqa: S105  a type of attestation
_SNP = "x-ms-sevsnpvm-"
_SGX = "x-ms-sgx-"
_SNP_BYTES = {
    "measurement": ("launchmeasurement", 48),
    "report_data": ("reportdata", 64),
    "host_data": ("hostdata", 32),
    "id_key_digest": ("idkeydigest", 48),
    "author_key_digest": ("authorkeydigest", 48),
    "report_id": ("reportid", 32),
    "family_id": ("familyId", 16),
    "image_id": ("imageId", 16),
    "chip_id": ("chipid", 64),
}
_SNP_BITS = {
    "policy.debug": "is-debuggable",
    "policy.migrate_ma": "migration-allowed",
    "policy.smt": "smt-allowed",
    "policy.single_socket": "singlesocket",
    "policy.cxl_allow": "cxl-allowed",
    "policy.mem_aes_256_xts": "mem-aes256-xts-required",
    "policy.rapl_dis": "rapl-disabled",
    "policy.ciphertext_hiding_dram": "ciphertext-hiding-dram-enabled",
    "policy.page_swap_disable": "page-swap-disabled",
}
_SNP_TCB = {
    "bootloader": "bootloader-svn",
    "tee": "tee-svn",
    "snp": "snpfw-svn",
    "microcode": "microcode-svn",
}
_ONE_BYTE, _TWO_BYTES, _FOUR_BYTES = 0xFF, 0xFFFF, 0xFFFFFFFF
_GUEST_PREFIX = "x-ms-azurevm-"
_PARAVISOR = "azure-compliant-cvm"
"""MAA's name for a guest below a paravisor of Azure's; containers are ``azure-compliant-uvm``."""


def maa_nonces(token: ClaimReader) -> tuple[bytes, ...]:
    """Return the nonces that MAA repeats: ``nonce`` as text, and the nonce of a VM's guest agent, which is base64."""
    found: list[bytes] = []
    text = token.text("nonce")
    if text is not None:
        found.append(text.encode())
    if token.text("x-ms-attestation-type") == _GUEST_TOKEN:
        runtime = token.object("x-ms-runtime")
        payload = None if runtime is None else runtime.object("client-payload")
        nonce = None if payload is None else payload.encoded("nonce", url=False)
        if nonce is not None:
            found.append(nonce)
    return tuple(found)


def maa_facts(token: ClaimReader, frame: TokenFrame) -> tuple[TokenFacts, ...]:
    """Return the facts of a token of MAA about its one machine.

    Raises:
        EvidenceError: ``token-claim-invalid``.
        UnsupportedError: ``token-kind-unsupported``.
    """
    kind = token.required("x-ms-attestation-type", token.text("x-ms-attestation-type"))
    tee = token
    if kind == _GUEST_TOKEN:
        isolation = token.object("x-ms-isolation-tee")
        if isolation is None:  # Trusted Launch: a virtual TPM, and no TEE around it
            return (_facts(token, token, frame, kind="vm", claims={}),)
        tee = isolation
        kind = tee.required("x-ms-attestation-type", tee.text("x-ms-attestation-type"))
    match kind:
        case "sevsnpvm":
            return (_facts(token, tee, frame, kind="sev-snp", claims=_snp_claims(tee)),)
        case "tdxvm":
            claims = {**tdx_claims(tee), **evaluation_claims(tee)}
            return (_facts(token, tee, frame, kind="tdx", claims=claims),)
        case "sgx" if tee is token:
            return (_facts(token, tee, frame, kind="sgx", claims=_sgx_claims(tee)),)
        case _:
            raise kind_unsupported(
                "x-ms-attestation-type",
                kind,
                field=tee.where("x-ms-attestation-type"),
                expected="sevsnpvm, tdxvm, sgx, or azurevm around one of the first two",
                clause="Microsoft Azure Attestation, claim sets",
            )


def _facts(
    token: ClaimReader, tee: ClaimReader, frame: TokenFrame, *, kind: TokenKind, claims: dict[str, ClaimTree]
) -> TokenFacts:
    runtime = tee.object("x-ms-runtime")
    return TokenFacts(
        frame=frame,
        name="cpu",
        kind=kind,
        claims=claims,
        statements={**_statements(token, tee), **_configuration(tee, runtime)},
        nonces=maa_nonces(token),
        held_data=_held(tee, runtime, kind),
    )


def _held(tee: ClaimReader, runtime: ClaimReader | None, kind: TokenKind) -> bytes | None:
    """Return an enclave's held data, or the user data that a paravisor put into the runtime claims."""
    if kind == "sgx":
        return tee.encoded(f"{_SGX}ehd", url=True)
    # Beside a TEE; without one nothing binds it.
    return None if runtime is None or kind == "vm" else runtime.hexadecimal("user-data", USER_DATA_BYTES)


def _statements(token: ClaimReader, tee: ClaimReader) -> dict[str, ClaimTree]:
    """Return MAA's statements beyond the report: its outcomes, and its findings in the log of the virtual TPM."""
    names = (name for name in token.members if name.startswith(_GUEST_PREFIX))
    guest = {
        f"azurevm.{name.removeprefix(_GUEST_PREFIX).replace('-', '_').replace('.', '_')}": claim_tree(
            token.members[name], name
        )
        for name in names
    }
    return present(
        {
            "attestation_type": token.text("x-ms-attestation-type"),
            "compliance_status": tee.text("x-ms-compliance-status"),
            "debug_status": tee.text("dbgstat"),
            "policy_hash": token.encoded("x-ms-policy-hash", url=True),
            "secure_boot": token.boolean("secureboot"),
            **guest,
        }
    )


def _configuration(tee: ClaimReader, runtime: ClaimReader | None) -> dict[str, ClaimTree]:
    """Return the VM's settings, where MAA states that a paravisor of Azure stated them.

    Every other guest or enclave that makes its own report has runtime data of its own choice, under the same name.
    """
    configuration = None if runtime is None else runtime.object("vm-configuration")
    if configuration is None or tee.text("x-ms-compliance-status") != _PARAVISOR:
        return {}
    return present(
        {
            f"vm_configuration.{ours}": configuration.boolean(theirs) if kind is bool else configuration.text(theirs)
            for theirs, (ours, kind) in VM_CONFIGURATION.items()
        }
    )


def _snp_claims(tee: ClaimReader) -> dict[str, ClaimTree]:
    found = {ours: tee.hexadecimal(_SNP + theirs, length) for ours, (theirs, length) in _SNP_BYTES.items()}
    for ours in ("measurement", "report_data"):
        tee.required(_SNP + _SNP_BYTES[ours][0], found[ours])
    parts = {ours: tee.integer(_SNP + theirs, most=_ONE_BYTE) for ours, theirs in _SNP_TCB.items()}
    known = present(parts)
    return present(
        {
            "product": tee.text(f"{_SNP}chip-family"),
            "guest_svn": tee.integer(f"{_SNP}guestsvn", most=_FOUR_BYTES),
            "vmpl": tee.integer(f"{_SNP}vmpl", most=_FOUR_BYTES),
            **found,
            **{ours: tee.boolean(_SNP + theirs) for ours, theirs in _SNP_BITS.items()},
            "reported_tcb": known if len(known) == len(parts) else None,  # whole, or not at all
        }
    )


def _sgx_claims(tee: ClaimReader) -> dict[str, ClaimTree]:
    enclave = tee.required(f"{_SGX}mrenclave", tee.hexadecimal(f"{_SGX}mrenclave", 32))
    signer = tee.required(f"{_SGX}mrsigner", tee.hexadecimal(f"{_SGX}mrsigner", 32))
    return present(
        {
            "mr_enclave": enclave,
            "mr_signer": signer,
            "isv_prod_id": tee.integer(f"{_SGX}product-id", most=_TWO_BYTES),
            "isv_svn": tee.integer(f"{_SGX}svn", most=_TWO_BYTES),
            "isv_ext_prod_id": tee.hexadecimal(f"{_SGX}isv-extended-product-id", 16),
            "isv_family_id": tee.hexadecimal(f"{_SGX}isv-family-id", 16),
            "config_id": tee.hexadecimal(f"{_SGX}config-id", 64),
            "config_svn": tee.integer(f"{_SGX}config-svn", most=_TWO_BYTES),
            "attributes.debug": tee.boolean(f"{_SGX}is-debuggable"),
        }
    )

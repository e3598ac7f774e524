"""Claims of Google Cloud Attestation, for Confidential Space and Confidential VMs, under our names.

Such a token describes the image and the container, and hardly the hardware: it has no measurement and no report. Few of
its claims have names of ours; the rest are Google's statements.

NOTE: ``gcp_attester_tcb_status`` is no ``tcb_status``. It compares with what Google rolls out, by Google's calendar.

Spec: Google Cloud, Confidential Space, attestation token claims.
"""

from __future__ import annotations

from collections.abc import Mapping

from attest.evidence.claims import ClaimTree
from attest.results.tee_token_claims import present
from attest.results.token_facts import ClaimReader, TokenFacts, TokenFrame, TokenKind, claim_invalid, kind_unsupported

_CLAUSE = "Google Cloud, attestation token claims"
_KINDS: Mapping[str, TokenKind] = {
    "GCP_INTEL_TDX": "tdx",
    "INTEL_TDX": "tdx",  # of the same machines, when Intel's service attests them
    "GCP_AMD_SEV_SNP": "sev-snp",
    "GCP_AMD_SEV": "sev",
    "GCP_AMD_SEV_ES": "sev-es",
    "GCP_SHIELDED_VM": "vm",
}
_MODES: Mapping[str, tuple[bool, bool]] = {"ON": (True, False), "OFF": (False, False), "DEVTOOLS": (True, True)}
"""``cc_mode``: true if confidential computing is on, true if developer tools are."""
_ARCHITECTURES = (("GCP_NVIDIA_H", "hopper"), ("GCP_NVIDIA_B", "blackwell"))
MAX_NONCES = 6
NONCE_BYTES = range(8, 89)
MAX_GPUS = 16


def google_nonces(token: ClaimReader) -> tuple[bytes, ...]:
    """Return the nonces that the workload requested: one text, or several."""
    value = token.members.get("eat_nonce")
    texts = (token.text("eat_nonce"),) if isinstance(value, str) else token.texts("eat_nonce") or ()
    found = tuple(text.encode() for text in texts if text is not None)
    if len(found) > MAX_NONCES or any(len(nonce) not in NONCE_BYTES for nonce in found):
        raise claim_invalid("eat_nonce", f"at most {MAX_NONCES} texts of 8 to 88 bytes", value)
    return found


def google_facts(token: ClaimReader, frame: TokenFrame) -> tuple[TokenFacts, ...]:
    """Return the facts of a token of Google's about the machine and each GPU.

    Raises:
        EvidenceError: ``token-claim-invalid``.
        UnsupportedError: ``token-kind-unsupported``.
    """
    model = token.required("hwmodel", token.text("hwmodel"))
    kind = _KINDS.get(model)
    if kind is None:
        raise kind_unsupported("hardware", model, field="hwmodel", expected=", ".join(_KINDS), clause=_CLAUSE)
    nonces = google_nonces(token)
    submodules = token.object("submods") or ClaimReader(members={}, path="submods")
    claims, statements = _tcb(token)
    cpu = TokenFacts(
        frame=frame,
        name="cpu",
        kind=kind,
        claims=claims,
        statements={**_statements(token), **statements, **_workload(submodules)},
        nonces=nonces,
    )
    return (cpu, *_gpus(submodules.object("nvidia_gpu"), frame, nonces))


def _statements(token: ClaimReader) -> dict[str, ClaimTree]:
    return present(
        {
            "hwmodel": token.text("hwmodel"),
            "software_name": token.required("swname", token.text("swname")),
            "software_version": token.texts("swversion"),
            "debug_status": token.text("dbgstat"),
            "secure_boot": token.boolean("secboot"),
            "attester_tcb": token.texts("attester_tcb"),
            "service_accounts": token.texts("google_service_accounts"),
        }
    )


def _tcb(token: ClaimReader) -> tuple[dict[str, ClaimTree], dict[str, ClaimTree]]:
    """Read the members about a TDX module and its platform: Intel's as claims, Google's as statements.

    Google documents an object and has written a list of one.
    """
    if isinstance(token.members.get("tdx"), list):
        listed = token.objects("tdx") or ()
        if len(listed) != 1:
            raise claim_invalid("tdx", "one object", token.members["tdx"])
        section: ClaimReader | None = listed[0]
    else:
        section = token.object("tdx")
    if section is None:
        return {}, {}
    claims = {"tcb_status": section.text("attester_tcb_status"), "tcb_date": section.moment("attester_tcb_date")}
    statements = {
        "gcp_tcb_status": section.text("gcp_attester_tcb_status"),
        "gcp_tcb_date": section.moment("gcp_attester_tcb_date"),
    }
    return present(claims), present(statements)


def _workload(submodules: ClaimReader) -> dict[str, ClaimTree]:
    """Return the software: the container, the image around it, and the instance."""
    empty = ClaimReader(members={})
    container, space = (submodules.object(name) or empty for name in ("container", "confidential_space"))
    gpu = submodules.object("nvidia_gpu")
    return present(
        {
            "container.image_digest": _image_digest(container),
            "container.image_reference": container.text("image_reference"),
            "container.image_id": container.text("image_id"),
            "container.restart_policy": container.text("restart_policy"),
            "container.args": container.texts("args"),
            "container.env": container.tree("env"),
            "container.env_override": container.tree("env_override"),
            "confidential_space.support_attributes": space.texts("support_attributes"),
            "confidential_space.monitoring_enabled": space.tree("monitoring_enabled"),
            "gce": submodules.tree("gce"),
            "nvidia_gpu.cc_mode": None if gpu is None else gpu.text("cc_mode"),
        }
    )


def _image_digest(container: ClaimReader) -> str | None:
    digest = container.text("image_digest")
    if digest is None:
        return None
    algorithm, _, text = digest.partition(":")
    if algorithm != "sha256":
        raise claim_invalid(container.where("image_digest"), "sha256: and 64 hex digits", digest)
    ClaimReader(members={"image_digest": text}, path=container.path).hexadecimal("image_digest", 32)
    return digest


def _gpus(part: ClaimReader | None, frame: TokenFrame, nonces: tuple[bytes, ...]) -> tuple[TokenFacts, ...]:
    """Return the facts of each GPU."""
    if part is None:
        return ()
    mode = part.required("cc_mode", part.text("cc_mode"))
    if mode not in _MODES:
        raise claim_invalid(part.where("cc_mode"), ", ".join(_MODES), mode)
    feature = part.text("cc_feature")
    return tuple(
        TokenFacts(
            frame=frame,
            name=f"gpu{index}",
            kind="nvidia-gpu",
            claims=_gpu_claims(gpu, mode),
            statements=present({"hwmodel": gpu.text("hwmodel"), "cc_mode": mode, "cc_feature": feature}),
            nonces=nonces,
        )
        for index, gpu in enumerate(_listed(part, mode))
    )


def _listed(part: ClaimReader, mode: str) -> tuple[ClaimReader, ...]:
    """Return the listed GPUs; of GPUs that are on and not listed, one without claims."""
    listed = part.objects("gpus")
    if listed is None:
        return () if mode == "OFF" else (ClaimReader(members={}),)
    if len(listed) > MAX_GPUS:
        raise claim_invalid(part.where("gpus"), f"at most {MAX_GPUS} GPUs", part.members["gpus"])
    return listed


def _gpu_claims(gpu: ClaimReader, mode: str) -> dict[str, ClaimTree]:
    model = gpu.text("hwmodel") or ""
    confidential, tools = _MODES[mode]
    return present(
        {
            "architecture": next((name for start, name in _ARCHITECTURES if model.startswith(start)), None),
            "ueid": gpu.text("ueid"),
            "driver_version": gpu.text("driver_version"),
            "vbios_version": gpu.text("vbios_version"),
            "nvml.cc_mode": confidential,
            "nvml.dev_tools_mode": tools,
        }
    )

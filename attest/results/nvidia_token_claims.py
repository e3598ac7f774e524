"""Claims of one GPU or switch, as NVIDIA's service writes them and Intel's repeats them, under our names.

NVIDIA's own members are kept whole under ``nvidia``, as those of verified evidence are, so that a policy written for
them finds them in both.

Spec: specs/nvidia-gpu.md, section 17.2.
"""

from __future__ import annotations

from collections.abc import Mapping

from attest.evidence.claims import ClaimTree, ClaimValue
from attest.results.tee_token_claims import present
from attest.results.token_facts import ClaimReader, TokenKind, claim_tree

MEASUREMENTS_MATCH = frozenset({"success", "comparison-successful"})
"""Values of ``measres`` when nothing differs; the longer one in claims of version 1, which Intel's service repeats."""
MEASUREMENTS_DIFFER = frozenset({"fail", "comparison-fail"})
"""Its values when a measurement differs."""
_ARCHITECTURES = (("GH1", "hopper"), ("GB1", "blackwell"), ("GB2", "blackwell"), ("LS10", "ls10"))
_ABOUT_THE_TOKEN = frozenset({"iss", "sub", "aud", "iat", "nbf", "exp", "jti"})
_SWITCH, _GPU = "x-nvidia-switch-", "x-nvidia-gpu-"


def nvidia_kind(claims: Mapping[str, object], name: str) -> TokenKind:
    """Return True for the claims of a switch: by the device type, by the names of claims, or by the item's name."""
    if claims.get("x-nvidia-device-type") == "nvswitch" or any(member.startswith(_SWITCH) for member in claims):
        return "nvidia-switch"
    is_gpu = claims.get("x-nvidia-device-type") == "gpu" or any(member.startswith(_GPU) for member in claims)
    return "nvidia-switch" if not is_gpu and name.upper().startswith("SWITCH") else "nvidia-gpu"


def members(value: ClaimValue) -> Mapping[str, ClaimTree]:
    """Return the members of a claim that is an object; none for any other, and for one that is absent."""
    return value if isinstance(value, Mapping) else {}


def nvidia_token_claims(token: ClaimReader, kind: TokenKind) -> dict[str, ClaimTree]:
    """Return the claims of a device.

    Raises:
        EvidenceError: ``token-claim-invalid``.
    """
    prefix = _SWITCH if kind == "nvidia-switch" else _GPU
    bios = "bios" if kind == "nvidia-switch" else "vbios"
    model = token.text("hwmodel")
    architecture = next((name for start, name in _ARCHITECTURES if (model or "").startswith(start)), None)
    own = {name: value for name, value in token.members.items() if name not in _ABOUT_THE_TOKEN}
    rims = {"vbios_rim": f"{bios}-rim"} | ({} if kind == "nvidia-switch" else {"driver_rim": "driver-rim"})
    return present(
        {
            "architecture": architecture,
            "hwmodel": model,
            "ueid": token.text("ueid"),
            "fwid_matched": token.boolean(f"{prefix}attestation-report-cert-chain-fwid-match"),
            "nonce": token.hexadecimal("eat_nonce", 32),
            "driver_version": None if kind == "nvidia-switch" else token.text(f"{prefix}driver-version"),
            "vbios_version": token.text(f"{prefix}{bios}-version"),
            **_mismatches(token),
            **{
                f"{ours}.{name}": value
                for ours, theirs in rims.items()
                for name, value in _rim(token.object(f"{prefix}{theirs}-cert-chain")).items()
            },
            "nvidia": claim_tree(own, token.path or "token"),
        }
    )


def _mismatches(token: ClaimReader) -> dict[str, ClaimTree]:
    """Return the measurements that differ; None where NVIDIA compared none, or does not name them."""
    detailed = token.object("x-nvidia-attestation-detailed-result")  # claims of version 1 have a level more
    records = (detailed or token).objects("x-nvidia-mismatch-measurement-records")
    if records:
        return {"measurements.mismatches": tuple(map(_mismatch, records))}
    return {"measurements.mismatches": ()} if token.text("measres") in MEASUREMENTS_MATCH else {}


def _mismatch(record: ClaimReader) -> dict[str, ClaimTree]:
    expected, got = (_measured(record, f"{which}Value") for which in ("golden", "runtime"))
    index = record.required("index", record.integer("index"))
    return present({"index": index, "expected": None if expected is None else (expected,), "got": got})


def _measured(record: ClaimReader, name: str) -> bytes | None:
    text = record.text(name)
    return None if text is None else record.hexadecimal(name, len(text) // 2)


def _rim(chain: ClaimReader | None) -> dict[str, ClaimTree]:
    """Return the Verifier's findings about a RIM's signers: their expiry, and a revocation by NVIDIA."""
    if chain is None:
        return {}
    answer, reason = chain.text("x-nvidia-cert-ocsp-status"), chain.text("x-nvidia-cert-revocation-reason")
    expires = chain.moment("x-nvidia-cert-expiration-date")
    revocation = (reason or "unspecified") if answer == "revoked" else answer
    return present({"revocation": revocation, "expires": expires, "not_after": expires})

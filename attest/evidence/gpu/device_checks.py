"""The checks of a device and its report: chain, architecture, signature, firmware id, revocation.

Spec: specs/nvidia-gpu.md, sections 5 to 8.
"""

from __future__ import annotations

from contextlib import suppress

from attest.encoding import rfc3339_text
from attest.errors import AttestError, BindingError, EndorsementError, SignatureError
from attest.evidence.gpu.attempt import Attempt, Step, Told, tell_statuses, there
from attest.evidence.gpu.certificates import read_identity, read_leaf, read_model
from attest.evidence.gpu.chain import find_root, report_signed_by, require_linked, require_path_valid
from attest.evidence.gpu.references import statuses_of

__all__ = ["DEVICE_STEPS"]


def _chain(attempt: Attempt) -> None:
    path = attempt.path
    if path.device is not None:
        with suppress(AttestError):  # it is refused below, or with the architecture; here it only chooses RIMs
            attempt.identity = read_identity(path.device)
            attempt.model = read_model(path.device, attempt.identity)
    if path.failure is not None and path.leaf is None:
        raise path.failure
    attempt.leaf = read_leaf(path.certificates[0])
    if path.failure is not None:
        raise path.failure
    require_linked(path)
    attempt.root = find_root(path, anchors=attempt.anchors)
    attempt.identity = read_identity(there(path.device))


def _tell_chain(attempt: Attempt) -> Told:
    anchor = there(attempt.root).anchor
    names = " < ".join((*(certificate.name for certificate in attempt.path.certificates), anchor.name))
    return "four certificates that lead to a pinned NVIDIA root", f"{names}, key {anchor.spki_sha256.hex()}"


def _lacks_identity(attempt: Attempt) -> str | None:
    reached = attempt.root is not None and attempt.identity is not None
    return None if reached else "the certificate chain does not hold"


def _arch(attempt: Attempt) -> None:
    device, stated = there(attempt.path.device), attempt.evidence.arch
    attempt.model = model = read_model(device, there(attempt.identity))
    if stated is not None and stated.lower() != model.architecture:
        raise BindingError(
            f"the evidence says {stated} and the certificate is of {device.name}",
            code="gpu-arch-mismatch",
            field="arch",
            expected=model.architecture.upper(),
            got=stated,
        )


def _tell_arch(attempt: Attempt) -> Told:
    model, stated = there(attempt.model), attempt.evidence.arch
    expected = "a known GPU or NVSwitch" if stated is None else f"a device of {stated}, as the evidence says"
    return expected, f"{model.kind}, {model.architecture} ({model.product}), device {there(attempt.identity).text}"


def _stated_nonce(attempt: Attempt) -> None:
    stated, nonce = there(attempt.evidence.stated_nonce), attempt.report.nonce
    if stated != nonce:
        raise BindingError(
            "the nonce that stands beside the report is not the report's (nonce, offset 0x004)",
            code="gpu-stated-nonce-mismatch",
            field="nonce",
            offset=4,
            expected=nonce.hex(),
            got=stated.hex(),
        )


def _lacks_stated_nonce(attempt: Attempt) -> str | None:
    return "none is stated beside the report" if attempt.evidence.stated_nonce is None else None


def _signature(attempt: Attempt) -> None:
    leaf = there(attempt.path.leaf)
    if not report_signed_by(attempt.report, leaf):
        raise SignatureError(
            "the report's signature does not verify with the key of its certificate",
            code="gpu-signature-invalid",
            field="signature",
            offset=len(attempt.report.signed_bytes),
            expected=f"ECDSA P-384 with SHA-384 by {leaf.name} over {len(attempt.report.signed_bytes)} bytes",
            got="a signature that does not verify",
        )


def _tell_signature(attempt: Attempt) -> Told:
    leaf = there(attempt.path.leaf)
    expected = f"ECDSA P-384 with SHA-384 over {len(attempt.report.signed_bytes)} bytes"
    return expected, f"verifies with {leaf.name}, serial {leaf.serial:#x}"


def _lacks_leaf(attempt: Attempt) -> str | None:
    return "there is no certificate of an attestation key" if attempt.path.leaf is None else None


def _fwid(attempt: Attempt) -> None:
    stated, certified = there(attempt.report.opaque.fwid), there(attempt.leaf).fwid
    if stated != certified:
        raise BindingError(
            "the report states another firmware id than the certificate of its key (opaque data, type 20)",
            code="gpu-fwid-mismatch",
            field="FWID",
            expected=certified.hex(),
            got=stated.hex(),
        )


def _lacks_fwid(attempt: Attempt) -> str | None:
    if attempt.leaf is None:
        return "there is no certificate with a firmware id"
    return "the report states no firmware id" if attempt.report.opaque.fwid is None else None


def _tell_fwid(attempt: Attempt) -> Told:
    return "the firmware id in the certificate of the key", there(attempt.report.opaque.fwid).hex()


def _leaf_binding(attempt: Attempt) -> None:
    leaf, device = there(attempt.leaf), there(attempt.path.device)
    if leaf.device_key != device.spki:
        raise BindingError(
            f"{leaf.certificate.name} was made by another device than {device.name}",
            code="gpu-leaf-binding-mismatch",
            field="deviceID",
            expected=device.spki.hex(),
            got=there(leaf.device_key).hex(),
        )


def _lacks_binding(attempt: Attempt) -> str | None:
    if attempt.leaf is None or attempt.path.device is None:
        return "there are no certificates of key and device"
    return "the certificate's firmware id carries no device key" if attempt.leaf.device_key is None else None


def _chain_validity(attempt: Attempt) -> None:
    require_path_valid(attempt.path, attempt.root, at=attempt.at)


def _lacks_path(attempt: Attempt) -> str | None:
    return None if attempt.path.certificates else "there is no certificate"


def _tell_chain_validity(attempt: Attempt) -> Told:
    first = max(certificate.not_before for certificate in attempt.path.certificates)
    last = min(certificate.not_after for certificate in attempt.path.certificates)
    return rfc3339_text(attempt.at), f"all are valid from {rfc3339_text(first)} to {rfc3339_text(last)}"


def _revocation(attempt: Attempt) -> None:
    """Ask about L4, L3 and L2; L5 is made by the device itself, and nobody can revoke it."""
    _, device, l3, l2 = attempt.path.certificates
    root = there(attempt.root).issuer
    try:
        attempt.statuses = statuses_of((device, l3, l2), root, pool=attempt.pool, at=attempt.at)
    except EndorsementError as exc:
        attempt.tolerate(exc, "revocation")


def _lacks_root(attempt: Attempt) -> str | None:
    return "the certificate chain does not hold" if attempt.root is None else None


def _tell_revocation(attempt: Attempt) -> Told:
    return tell_statuses(attempt, attempt.path.certificates[1:], attempt.statuses, "revocation")


def _nothing(_: Attempt) -> str | None:
    return None


DEVICE_STEPS: tuple[Step, ...] = (
    Step(id="nvidia.chain", clause="nvidia-gpu.md 6.1, 6.2", lacks=_nothing, run=_chain, tell=_tell_chain),
    Step(id="nvidia.arch", clause="nvidia-gpu.md 6.1, 7, 16", lacks=_lacks_identity, run=_arch, tell=_tell_arch),
    Step(
        id="nvidia.stated_nonce",
        clause="nvidia-gpu.md 16",
        lacks=_lacks_stated_nonce,
        run=_stated_nonce,
        tell=lambda a: ("the nonce of the report", a.report.nonce.hex()),
    ),
    Step(
        id="nvidia.chain_validity",
        clause="RFC 5280, 4.1.2.5; nvidia-gpu.md 6.1",
        lacks=_lacks_path,
        run=_chain_validity,
        tell=_tell_chain_validity,
    ),
    Step(id="nvidia.signature", clause="nvidia-gpu.md 5", lacks=_lacks_leaf, run=_signature, tell=_tell_signature),
    Step(id="nvidia.fwid", clause="nvidia-gpu.md 7", lacks=_lacks_fwid, run=_fwid, tell=_tell_fwid),
    Step(
        id="nvidia.leaf_binding",
        clause="nvidia-gpu.md 7",
        lacks=_lacks_binding,
        run=_leaf_binding,
        tell=lambda _: ("the key of the device that issued it", "the same key"),
    ),
    Step(
        id="nvidia.revocation",
        clause="RFC 6960; nvidia-gpu.md 8",
        lacks=_lacks_root,
        run=_revocation,
        tell=_tell_revocation,
    ),
)
"""Whether the report is a device's of NVIDIA, in order."""

"""Checks of a device's certificates and report: chain, architecture, signature, firmware id.

Spec: specs/nvidia-gpu.md, sections 5 to 7 and 16.
"""

from __future__ import annotations

from contextlib import suppress

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.chains import PinnedRoot
from attest.endorsements.x509 import Certificate
from attest.errors import AttestError, BindingError, SignatureError
from attest.evidence.gpu.certificates import DeviceIdentity, DeviceModel, GpuLeaf, read_identity, read_leaf, read_model
from attest.evidence.gpu.chain import (
    DeviceChain,
    DevicePath,
    find_root,
    report_signed_by,
    require_linked,
)
from attest.evidence.gpu.structure import ParsedGpuReport
from attest.evidence.procedure import Fact, require_equal


def stated_model(path: DevicePath) -> DeviceModel | None:
    """Return the device that a path claims to be of; it only selects RIMs, and a check refuses what is no device."""
    if path.device is not None:
        with suppress(AttestError):
            return read_model(path.device, read_identity(path.device))
    return None


def require_leaf(path: DevicePath) -> GpuLeaf:
    """Require the certificate of the attestation key, be the path complete or not."""
    if path.failure is not None and path.leaf is None:
        raise path.failure
    return read_leaf(path.certificates[0])


def require_root(path: DevicePath, *, anchors: TrustAnchors) -> PinnedRoot:
    """Require a complete path on which each certificate is issued by the next, up to a pinned root."""
    if path.failure is not None:
        raise path.failure
    require_linked(path)
    return find_root(path, anchors=anchors)


def device_chain(path: DevicePath, leaf: GpuLeaf, root: PinnedRoot, identity: DeviceIdentity) -> DeviceChain:
    """Return the chain of a known device."""
    _, device, l3, l2 = path.certificates
    model = read_model(device, identity)
    return DeviceChain(
        leaf=leaf,
        device=device,
        issuers=(l3, l2),
        identity=identity,
        kind=model.kind,
        architecture=model.architecture,
        product=model.product,
        anchor=root.anchor,
        root=root.issuer,
    )


def require_arch(chain: DeviceChain, stated: str | None) -> None:
    """Require the architecture that is stated beside the report, if one is, to be that of the certificate."""
    if stated is not None and stated.lower() != chain.architecture:
        raise BindingError(
            f"the evidence says {stated} and the certificate is of {chain.device.name}",
            code="gpu-arch-mismatch",
            field="arch",
            expected=chain.architecture.upper(),
            got=stated,
        )


def arch_facts(chain: DeviceChain, stated: str | None) -> tuple[Fact, Fact]:
    """Return the expected device, and the one that the certificate names."""
    expected = "a known GPU or NVSwitch" if stated is None else f"a device of {stated}, as the evidence says"
    return expected, ("{}, {} ({}), device {}", chain.kind, chain.architecture, chain.product, chain.identity.text)


def require_stated_nonce(report: ParsedGpuReport, stated: bytes) -> None:
    """Require the nonce that is stated beside the report to be the report's."""
    problem = "the nonce given with the report is not the report's (nonce, offset 0x004)"
    require_equal(report.nonce, stated, problem, code="gpu-stated-nonce-mismatch", field="nonce", offset=4)


def require_signature(report: ParsedGpuReport, leaf: Certificate) -> None:
    """Require the report's signature to verify with the key of its certificate."""
    if not report_signed_by(report, leaf):
        raise SignatureError(
            "the report's signature does not verify with the key of its certificate",
            code="gpu-signature-invalid",
            field="signature",
            offset=len(report.signed_bytes),
            expected=f"ECDSA P-384 with SHA-384 by {leaf.name} over {len(report.signed_bytes)} bytes",
            got="a signature that does not verify",
        )


def require_fwid(certified: bytes, stated: bytes) -> None:
    """Require the firmware id that the report states to be that of its key's certificate."""
    problem = "the report states another firmware id than the certificate of its key (opaque data, type 20)"
    require_equal(certified, stated, problem, code="gpu-fwid-mismatch", field="FWID")


def require_device_key(leaf: Certificate, device: Certificate, device_key: bytes) -> None:
    """Require the certificate of the key to name the key of the device that issued it."""
    problem = f"{leaf.name} was made by another device than {device.name}"
    require_equal(device.spki, device_key, problem, code="gpu-leaf-binding-mismatch", field="deviceID")

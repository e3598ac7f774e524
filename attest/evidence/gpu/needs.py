"""Endorsements that a device's evidence needs, by name. Another module fetches them.

The signers of a RIM are known only from the RIM, so the needs come in two rounds. Nothing here is verified: the
requests follow the claims of the evidence, and the endorsements are verified with it.

Spec: specs/nvidia-gpu.md, sections 8, 9.1 and 21.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from attest.endorsements.anchors import TrustAnchors
from attest.endorsements.pool import Endorsements
from attest.endorsements.requests import NvidiaOcspRequest, NvidiaRimRequest
from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import Certificate, Issuer
from attest.errors import EvidenceError
from attest.evidence.gpu.certificates import DeviceModel
from attest.evidence.gpu.chain import DevicePath, find_path
from attest.evidence.gpu.device_checks import stated_model
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.references import fitting_rims, served_id, sources_of, wanted_rim
from attest.evidence.gpu.rim import EMBEDDED_CERTIFICATES


def needed_rims(parsed: ParsedGpuEvidence, pool: Endorsements) -> tuple[NvidiaRimRequest, ...]:
    """List the RIMs of a device: driver and VBIOS of a GPU, the BIOS of a switch.

    Returns:
        As many as can be named. What cannot be named, because the certificates are not available or the report does
        not state what makes the name, is left out here, and missing when it comes to verification.
    """
    model = stated_model(find_path(parsed, pool))
    if model is None:
        return ()
    ids = (served_id(parsed.report.opaque, model, source) for source in sources_of(model))
    return tuple(NvidiaRimRequest(id=name) for name in ids if name is not None)


def needed_statuses(
    parsed: ParsedGpuEvidence, pool: Endorsements, rims: Iterable[RimDocument]
) -> tuple[NvidiaOcspRequest, ...]:
    """List the certificates whose revocation status is needed: L4, L3 and L2 of the device and of each of its RIMs.

    RIMs of other devices and versions are passed over. At most nine requests, pairwise different: L3 and L2 of two RIMs
    are often the same.
    """
    path = find_path(parsed, pool)
    found = list(_rim_chains(parsed, stated_model(path), tuple(rims)))
    root = _device_root(path)
    if root is not None and path.failure is None:
        found.insert(0, (path.certificates[1:], root))
    requests = [
        NvidiaOcspRequest(name=certificate.name, serial=certificate.serial, issuer=issuer)
        for certificates, last in found
        for certificate, issuer in zip(certificates, (*(c.as_issuer() for c in certificates[1:]), last), strict=True)
    ]
    return tuple({(request.issuer, request.serial): request for request in requests}.values())


_Chain = tuple[tuple[Certificate, ...], Issuer]
"""L4, L3 and L2, and the root that issued L2."""


def _device_root(path: DevicePath) -> Issuer | None:
    """Return the root as it was presented, or as it is held: an OCSP request names it, and does not trust it."""
    if path.roots:
        return path.roots[0].as_issuer()
    held = (anchor.held_issuer() for anchor in TrustAnchors.vendors().of_role("nvidia-device-root"))
    wanted = path.certificates[-1].issuer if path.certificates else b""
    return next((root for root in held if root is not None and root.subject == wanted), None)


def _rim_chains(
    parsed: ParsedGpuEvidence, model: DeviceModel | None, rims: tuple[RimDocument, ...]
) -> Iterator[_Chain]:
    """Yield the signers of every RIM that claims to be one of this device's, each with the root that it carries."""
    if model is None:
        return
    for source in sources_of(model):
        try:
            wanted = wanted_rim(parsed.report, model, source)
        except EvidenceError:
            continue
        for rim in fitting_rims(wanted, rims):
            if len(rim.certificates) == EMBEDDED_CERTIFICATES:
                yield rim.certificates[:-1], rim.certificates[-1].as_issuer()

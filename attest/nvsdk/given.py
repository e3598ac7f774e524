"""What NVIDIA's functions are given about a device: its chain, and RIMs in their two slots.

Their functions take whatever lies in a slot, so the choice is made here, by edition, product and version.
"""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Sequence
from itertools import islice, product
from textwrap import wrap

from attest.endorsements.rims import RimDocument
from attest.endorsements.x509 import Certificate
from attest.errors import AttestError, EvidenceError
from attest.evidence.gpu.certificates import is_leaf
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.rim import ParsedRim, read_rim
from attest.nvsdk.protocol import Architecture, DeviceKind, RimRole, SdkDevice

__all__ = ["device_with_rims", "offers", "readable_rims"]

MAX_TRIES = 4
"""Pairs of RIMs that are tried for one device, when several files fit a role."""
_CHAIN_CERTIFICATES = 5


def device_with_rims(
    parsed: ParsedGpuEvidence, *, rims: Sequence[RimDocument], certificates: Sequence[Certificate] = ()
) -> SdkDevice:
    """Return what their functions are given about one device: its chain, and the first RIM that fits each role."""
    return next(offers(parsed, readable_rims(rims), certificates))


def offers(
    parsed: ParsedGpuEvidence, rims: Sequence[ParsedRim], certificates: Sequence[Certificate]
) -> Iterator[SdkDevice]:
    """Put a device together with each combination of RIMs that fits it; at least once, if only without any."""
    chain = parsed.chain if parsed.chain is not None else _chain_among(certificates)
    kind, architecture = _kind(parsed, chain)
    for offered in _combinations(kind, parsed, chain, rims):
        yield SdkDevice(
            kind=kind, architecture=architecture, report=parsed.report.raw, chain_pem=_pem(chain), rims=offered
        )


def _kind(parsed: ParsedGpuEvidence, chain: Sequence[Certificate]) -> tuple[DeviceKind, Architecture]:
    """Choose by the name of the device's certificate, or, without one that tells, by the hint and else Hopper."""
    name = (chain[1].common_name or "") if len(chain) > 1 else ""
    if name.startswith("LS_10") or (not name and parsed.arch == "LS10"):
        return "nvidia-switch", "ls10"
    blackwell = name.startswith("GB") or (not name and parsed.arch == "BLACKWELL")
    return "nvidia-gpu", "blackwell" if blackwell else "hopper"


def readable_rims(rims: Sequence[RimDocument]) -> tuple[ParsedRim, ...]:
    """Read what can be read; a RIM that says no version has no role to be offered in."""
    found = []
    for document in dict.fromkeys(rims):
        try:
            found.append(read_rim(document))
        except AttestError:
            continue
    return tuple(found)


def _combinations(
    kind: DeviceKind, parsed: ParsedGpuEvidence, chain: Sequence[Certificate], rims: Sequence[ParsedRim]
) -> Iterator[dict[RimRole, bytes]]:
    """Combine the RIMs that fit each role by edition, product and version."""
    opaque = parsed.report.opaque
    if kind == "nvidia-switch":
        wanted: dict[RimRole, str | None] = {"vbios": _stated(opaque.switch_bios_version)}
    else:
        wanted = {"driver": opaque.driver_version, "vbios": _stated(opaque.gpu_vbios_version)}
    edition = "SWITCH" if kind == "nvidia-switch" else "GPU"
    name = (chain[1].common_name or "") if len(chain) > 1 else ""
    products = {name.split(" ")[0].replace("_", "")}  # section 9.2: the first word of L4's name
    fitting: list[list[tuple[RimRole, bytes] | None]] = []
    for role, version in wanted.items():
        of_device = [one for one in rims if one.edition == edition and one.product in products]
        same = [one for one in of_device if version is not None and one.version.lower() == version.lower()]
        fitting.append([(role, one.document.xml) for one in same] or [None])
    for combination in islice(product(*fitting), MAX_TRIES):
        yield dict(one for one in combination if one is not None)


def _stated(version: Callable[[], str | None]) -> str | None:
    """Return a version, or None when it is written as no device of this kind writes it: no RIM fits that."""
    try:
        return version()
    except EvidenceError:
        return None


def _chain_among(certificates: Sequence[Certificate]) -> tuple[Certificate, ...]:
    """Find the chain of a raw report: from the one leaf with a firmware id, by the names of issuers.

    Nothing is verified; that is for them to do. With no leaf, or several, they get no chain.
    """
    leaves = [one for one in certificates if is_leaf(one)]
    if len(leaves) != 1:
        return ()
    chain = leaves
    while len(chain) < _CHAIN_CERTIFICATES and chain[-1].issuer != chain[-1].subject:
        issuer = next((one for one in certificates if one.subject == chain[-1].issuer), None)
        if issuer is None:
            break
        chain.append(issuer)
    # Their functions drop the last certificate as the root, whether it is one or not.
    return (*chain, chain[-1]) if len(chain) == _CHAIN_CERTIFICATES - 1 else tuple(chain)


def _pem(chain: Sequence[Certificate]) -> str:
    blocks = []
    for certificate in chain:
        body = "\n".join(wrap(b64encode(certificate.der).decode(), 64))
        blocks.append(f"-----BEGIN CERTIFICATE-----\n{body}\n-----END CERTIFICATE-----\n")
    return "".join(blocks)

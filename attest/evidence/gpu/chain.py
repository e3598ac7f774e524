"""Chain from the attestation key of a device to NVIDIA's pinned root: L5, L4, L3, L2, and the root that is an argument.

In the JSON forms the chain belongs to the evidence and its order counts. For a raw report it lies among the
endorsements, perhaps with chains of other devices: there the leaf is the one whose key verifies the report, and
issuers are found by name, and of several the one that passes every check.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from itertools import islice, pairwise

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature

from attest.endorsements.anchors import Anchor, AnchorRole, TrustAnchors
from attest.endorsements.candidates import MAX_CANDIDATES, best_candidate
from attest.endorsements.chains import (
    PinnedRoot,
    pinned_roots,
    require_anchor_valid,
    require_ca,
    require_issued,
    require_valid,
    untrusted_root,
)
from attest.endorsements.pool import Endorsements
from attest.endorsements.signatures import SignatureAlgorithm, load_public_key
from attest.endorsements.x509 import Certificate, Issuer
from attest.errors import AttestError, ChainError, EndorsementError
from attest.evidence.gpu.certificates import (
    Architecture,
    DeviceIdentity,
    DeviceKind,
    GpuLeaf,
    is_leaf,
    read_leaf,
    require_p384,
    without_firmware_id,
)
from attest.evidence.gpu.evidence import ParsedGpuEvidence
from attest.evidence.gpu.structure import ParsedGpuReport

PATH_LENGTH = 4
"""L5, L4, L3 and L2: certificates between the report and the root (specs/nvidia-gpu.md, section 6.1)."""
MAX_LEAVES = 64
"""Leaves that are tried for one raw report: eight machines with twelve devices are fewer than a hundred."""
_ECDSA = ec.ECDSA(hashes.SHA384())
_ROLE: AnchorRole = "nvidia-device-root"
_CLAUSE = "NVIDIA nvtrust, device certificates"


@dataclass(frozen=True, slots=True, kw_only=True)
class DevicePath:
    """Certificates of a device as found; nothing of it is trusted.

    Attributes:
        certificates: L5, L4, L3 and L2 in this order, or as far as they were found.
        roots: certificates that came in the place of the root; only compared with a pin.
        failure: why the path is not complete, or None.
    """

    certificates: tuple[Certificate, ...]
    roots: tuple[Certificate, ...]
    failure: AttestError | None

    @property
    def leaf(self) -> Certificate | None:
        """The first certificate, if it claims to be that of an attestation key."""
        return self.certificates[0] if self.certificates and is_leaf(self.certificates[0]) else None

    @property
    def device(self) -> Certificate | None:
        """The certificate after the leaf, which should be the device's."""
        return self.certificates[1] if self.leaf is not None and len(self.certificates) > 1 else None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceChain:
    """A verified chain of a GPU or NVSwitch. Built by ``verify_gpu_evidence`` only.

    Attributes:
        leaf: L5, the attestation key.
        device: L4, the device.
        issuers: L3 and L2.
        product: as RIMs name it (``GH100``).
        root: the pinned root as a signer.
    """

    leaf: GpuLeaf
    device: Certificate
    issuers: tuple[Certificate, Certificate]
    identity: DeviceIdentity
    kind: DeviceKind
    architecture: Architecture
    product: str
    anchor: Anchor
    root: Issuer


# -- finding


def find_path(parsed: ParsedGpuEvidence, pool: Endorsements, *checks: Callable[[DevicePath], object]) -> DevicePath:
    """Return the certificates from the attestation key up to L2, as they came with the evidence or lie in the pool.

    The checks, of a path or of its upper part, serve to choose among several certificates in the pool.
    """
    if parsed.chain is not None:
        return _presented_path(parsed.chain, pool)
    search = _PathSearch(pool=pool, checks=checks)
    leaf = best_candidate(_find_leaves(parsed.report, pool), read_leaf, *search.judges(PATH_LENGTH))
    if leaf is None:
        return DevicePath(certificates=(), roots=(), failure=_no_leaf())
    return search.upward(leaf, PATH_LENGTH)


@dataclass(frozen=True, slots=True, kw_only=True)
class _PathSearch:
    """A search through certificates that bear the wanted names, damaged copies among them.

    Attributes:
        checks: checks of a path, or of its upper part.
    """

    pool: Endorsements
    checks: tuple[Callable[[DevicePath], object], ...]
    _found: dict[tuple[bytes, int], DevicePath] = field(default_factory=dict[tuple[bytes, int], DevicePath], repr=False)

    def upward(self, certificate: Certificate, length: int) -> DevicePath:
        """Return the best path of this length that begins with a certificate, or as far as it goes."""
        wanted = certificate.der, length
        if wanted not in self._found:
            self._found[wanted] = self._search(certificate, length)
        return self._found[wanted]

    def judges(self, length: int) -> tuple[Callable[[Certificate], object], ...]:
        """Return the checks of the path that begins with a certificate."""

        def whole(certificate: Certificate) -> None:
            failure = self.upward(certificate, length).failure
            if failure is not None:
                raise failure

        return whole, *(lambda each, check=check: check(self.upward(each, length)) for check in self.checks)

    def _search(self, child: Certificate, length: int) -> DevicePath:
        roots = self.pool.named(child.issuer)
        if length == 1:
            return DevicePath(certificates=(child,), roots=roots, failure=None)
        linked = partial(_require_link, child)
        # A self-issued certificate stands in the place of the root and is no candidate.
        candidates = (each for each in roots if each.issuer != each.subject)
        issuer = best_candidate(candidates, linked, *self.judges(length - 1))
        try:
            if issuer is None:
                raise _no_issuer(child)
            linked(issuer)
        except (ChainError, EndorsementError) as exc:
            return DevicePath(certificates=(child,), roots=roots, failure=exc)
        path = self.upward(issuer, length - 1)
        return replace(path, certificates=(child, *path.certificates))


def _presented_path(chain: tuple[Certificate, ...], pool: Endorsements) -> DevicePath:
    """Return a chain without a self-issued last certificate: a root from the evidence is not an anchor."""
    rootless = chain[:-1] if chain and chain[-1].issuer == chain[-1].subject else chain
    roots = (*chain[len(rootless) :], *(pool.named(rootless[-1].issuer) if rootless else ()))
    failure = None if len(rootless) == PATH_LENGTH else _wrong_length(rootless)
    return DevicePath(certificates=rootless, roots=roots, failure=failure)


def _wrong_length(rootless: tuple[Certificate, ...]) -> ChainError:
    return ChainError(
        f"the chain has {len(rootless)} certificates besides the root, expected {PATH_LENGTH}",
        code="gpu-chain-length",
        field="certificate",
        expected="attestation key, device and two issuers, in this order",
        got=", ".join(certificate.name for certificate in rootless[: PATH_LENGTH + 1]) or "none",
        clause=_CLAUSE,
    )


def _find_leaves(report: ParsedGpuReport, pool: Endorsements) -> tuple[Certificate, ...]:
    """Return the leaves whose key signed the report; if none did, the first, so that the signature is what fails."""
    leaves = tuple(islice(filter(is_leaf, pool.certificates), MAX_LEAVES))
    if len(leaves) < 2:
        return leaves
    return tuple(leaf for leaf in leaves if report_signed_by(report, leaf)) or leaves[:1]


def report_signed_by(report: ParsedGpuReport, leaf: Certificate) -> bool:
    """Return whether the report's signature verifies under this certificate's key (P-384, SHA-384, r and s big-endian).

    A key of another kind signed nothing.

    Spec: specs/nvidia-gpu.md, section 5.
    """
    try:
        require_p384(leaf)
        key = load_public_key(leaf.spki)
        r, s = int.from_bytes(report.signature_r, "big"), int.from_bytes(report.signature_s, "big")
        key.verify(encode_dss_signature(r, s), report.signed_bytes, _ECDSA)  # type: ignore[call-arg,arg-type]  # P-384
    except (InvalidSignature, ChainError):
        return False
    return True


def _no_leaf() -> EndorsementError:
    return EndorsementError(
        "the certificate of the device's attestation key is not available",
        code="gpu-leaf-missing",
        expected="a certificate chain that begins with a firmware id",
        got="none",
        clause=_CLAUSE,
        hint="a raw report comes without its chain: give the device's certificate chain with --endorsements PATH",
    )


def _no_issuer(child: Certificate) -> EndorsementError:
    return EndorsementError(
        f"the certificate of {child.issuer_common_name}, which issued {child.name}, is not available",
        code="gpu-issuer-missing",
        expected=child.issuer_common_name,
        got="none",
        clause=_CLAUSE,
        hint="give the device's whole certificate chain with --endorsements PATH",
    )


# -- judging


def _require_link(child: Certificate, issuer: Certificate) -> None:
    require_issued(without_firmware_id(child), issuer.as_issuer(), algorithm=SignatureAlgorithm.ECDSA_SHA384)
    require_ca(issuer)
    require_p384(issuer)


def require_linked(path: DevicePath) -> None:
    """Require that each certificate is issued by the next, which is a CA with a P-384 key.

    Raises:
        ChainError: as ``require_issued``, ``require_ca`` and ``require_p384``.
    """
    for child, issuer in pairwise(path.certificates):
        _require_link(child, issuer)


def find_root(path: DevicePath, *, anchors: TrustAnchors) -> PinnedRoot:
    """Return the pinned root that issued the last certificate of the path.

    Raises:
        ChainError: ``root-not-trusted``, ``simulated-root-refused``, or as the rules of ``attest.endorsements.chains``
            for a root of this name or a certificate of it.
        EndorsementError: ``gpu-root-missing``: an anchor is held by its digest alone, and its certificate is missing.
    """
    last, presented = path.certificates[-1], path.roots[:MAX_CANDIDATES]
    root = pinned_root(last, presented, anchors, role=_ROLE)
    if root is not None:
        return root
    if not presented and any(anchor.spki is None for anchor in anchors.of_role(_ROLE)):
        raise EndorsementError(
            f"the root {last.issuer_common_name}, which issued {last.name}, is neither pinned nor available",
            code="gpu-root-missing",
            expected=f"a pinned {last.issuer_common_name}",
            got="none",
            clause="NVIDIA nvtrust, roots of devices; RFC 5280, 6.1",
            hint="give the root's certificate with --endorsements PATH",
        )
    raise untrusted_root(
        f"{last.issuer_common_name}",
        presented,
        role=_ROLE,
        expected="a pinned NVIDIA root key",
        clause="NVIDIA nvtrust, roots of devices; RFC 5280, 6.1",
    )


def pinned_root(
    last: Certificate, presented: tuple[Certificate, ...], anchors: TrustAnchors, *, role: AnchorRole
) -> PinnedRoot | None:
    """Return the pinned root that issued a certificate; None when no anchor is of its name or among those presented.

    Raises:
        ChainError: as ``require_issued`` or ``require_ca``, for a root of this name or a certificate of it.
    """
    refusal: ChainError | None = None
    for root in pinned_roots(last, presented, anchors, role=role):
        if root.certificate is not None and root.anchor.spki is not None:
            continue  # a key that is held needs no certificate, and has its own name
        try:
            require_issued(last, root.issuer, algorithm=SignatureAlgorithm.ECDSA_SHA384)
            if root.certificate is not None:
                _require_link(root.certificate, root.certificate)
        except ChainError as exc:
            refusal = refusal or exc
        else:
            return root
    if refusal is not None:
        raise refusal
    return None


def require_path_valid(path: DevicePath, root: PinnedRoot | None, *, at: datetime) -> None:
    """Require every certificate of the path, and the root, to be within its dates; both bounds are included.

    Nested validity is not required: L5 and L4 begin before the certificates of their issuers.

    Raises:
        ChainError: ``certificate-not-yet-valid`` or ``certificate-expired``.

    Spec: specs/nvidia-gpu.md, section 6.1.
    """
    for certificate in path.certificates:
        require_valid(certificate, at=at)
    if root is None:
        return
    if root.certificate is not None:
        require_valid(root.certificate, at=at)
    require_anchor_valid(root.anchor, at=at)


def common_window(certificates: tuple[Certificate, ...]) -> tuple[datetime, datetime]:
    """Return the first and the last moment at which all of them are valid."""
    return max(each.not_before for each in certificates), min(each.not_after for each in certificates)

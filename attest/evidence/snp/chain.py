"""From a VCEK or VLEK to a pinned root of AMD's: ASK or ASVK, then the ARK.

Several certificates can bear a wanted name (there are two SEV-Genoa); the one whose key verifies the child counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime

from attest.encoding import rfc3339_text
from attest.endorsements.anchors import Anchor, TrustAnchors
from attest.endorsements.chains import require_ca, require_issued, require_valid
from attest.endorsements.pool import Endorsements
from attest.endorsements.signatures import SignatureAlgorithm
from attest.endorsements.x509 import Certificate, Issuer
from attest.errors import AttestError, ChainError, EndorsementError
from attest.evidence.snp.leaves import MAX_CANDIDATES
from attest.evidence.snp.tcb import SnpProduct


def find_issuer(child: Certificate, candidates: tuple[Certificate, ...]) -> Certificate:
    """Return the certificate that issued ``child``: of several with the wanted name, the one whose key verifies it.

    Raises:
        ChainError: those that bear the name did not issue it, or may not issue anything.
        EndorsementError: ``snp-issuer-missing``, none bears the name.
    """
    refusal: ChainError | None = None
    for candidate in candidates[:MAX_CANDIDATES]:
        try:
            require_issued(child, candidate.as_issuer(), algorithm=SignatureAlgorithm.RSA_PSS_SHA384)
            require_ca(candidate)
        except ChainError as exc:
            refusal = refusal or exc
        else:
            return candidate
    raise refusal or EndorsementError(
        f"the certificate of {child.issuer_common_name}, which issued {child.name}, is not at hand",
        code="snp-issuer-missing",
        expected=child.issuer_common_name,
        got="none",
        hint="give AMD's certificate chain with --endorsements PATH, or fetch it with 'attest endorsements fetch'",
        retryable=True,
    )


def find_root(
    child: Certificate, *, product: SnpProduct, pool: Endorsements, anchors: TrustAnchors, at: datetime
) -> tuple[Anchor, Issuer]:
    """Return the pinned root that issued an ASK or ASVK, with its name and key.

    Raises:
        ChainError: ``root-not-trusted``, ``simulated-root-refused``, ``snp-product-mismatch``, or as the rules of
            ``attest.endorsements.chains`` for a root certificate that was presented.
        EndorsementError: ``snp-root-missing``.
    """
    presented = pool.named(child.issuer)
    refusal: ChainError | None = None
    for anchor, issuer, certificate in _roots(child, presented, anchors):
        try:
            require_issued(child, issuer, algorithm=SignatureAlgorithm.RSA_PSS_SHA384)
            if certificate is not None:
                require_issued(certificate, issuer, algorithm=SignatureAlgorithm.RSA_PSS_SHA384)
                require_ca(certificate)
                require_valid(certificate, at=at)
            _require_product(anchor, product)
        except ChainError as exc:
            refusal = refusal or exc
        else:
            return anchor, issuer
    raise refusal or _no_root(child, presented)


def _roots(
    child: Certificate, presented: tuple[Certificate, ...], anchors: TrustAnchors
) -> Iterator[tuple[Anchor, Issuer, Certificate | None]]:
    """Pinned roots in the name of the child's issuer: as presented certificates, and as keys that are held."""
    for certificate in presented[:MAX_CANDIDATES]:
        anchor = anchors.pinned(certificate.spki_sha256, role="amd-ark")
        if anchor is not None:
            yield anchor, certificate.as_issuer(), certificate
    for anchor in anchors.of_role("amd-ark"):
        issuer = anchor.held_issuer()
        if issuer is not None and issuer.subject == child.issuer:
            yield anchor, issuer, None


def _require_product(anchor: Anchor, product: SnpProduct) -> None:
    if anchor.product != product:
        raise ChainError(
            f"the chain of a {product} report ends at {anchor.name}",
            code="snp-product-mismatch",
            expected=f"an anchor of {product}",
            got=anchor.name,
        )


def _no_root(child: Certificate, presented: tuple[Certificate, ...]) -> AttestError:
    if not presented:
        return EndorsementError(
            f"the root {child.issuer_common_name}, which issued {child.name}, is neither held nor at hand",
            code="snp-root-missing",
            expected=f"a pinned {child.issuer_common_name}",
            got="none",
            hint="give AMD's certificate chain with --endorsements PATH",
        )
    simulation = TrustAnchors.simulation()
    simulated = any(simulation.pinned(certificate.spki_sha256, role="amd-ark") for certificate in presented)
    return ChainError(
        f"the root {presented[0].name} is {'a SIMULATION root' if simulated else 'no anchor of this Verifier'}",
        code="simulated-root-refused" if simulated else "root-not-trusted",
        expected="a pinned AMD root key",
        got=f"SHA-256 of the public key {presented[0].spki_sha256.hex()}",
        hint="simulated evidence proves nothing about hardware; to play with it, add --allow-simulated"
        if simulated
        else "a root counts only when its key is pinned; see docs/trust-anchors.md",
    )


def require_anchor_valid(anchor: Anchor, *, at: datetime) -> None:
    """Require a root that is held as a bare key to be within its dates; both bounds are included.

    One that is held by its digest alone was judged by its certificate.

    Raises:
        ChainError: ``certificate-not-yet-valid`` or ``certificate-expired``.
    """
    if anchor.not_before is None or anchor.not_after is None or anchor.not_before <= at <= anchor.not_after:
        return
    raise ChainError(
        f"{anchor.name} is not valid at {rfc3339_text(at)}",
        code="certificate-not-yet-valid" if at < anchor.not_before else "certificate-expired",
        expected=f"{rfc3339_text(anchor.not_before)} to {rfc3339_text(anchor.not_after)}",
        got=rfc3339_text(at),
    )

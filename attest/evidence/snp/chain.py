"""Chain from a VCEK or VLEK to a pinned root of AMD's: ASK or ASVK, then the ARK.

Several certificates can bear a wanted name (there are two SEV-Genoa, and a file may be damaged); one that passes every
check counts.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from attest.endorsements.anchors import Anchor, AnchorRole, TrustAnchors
from attest.endorsements.candidates import MAX_CANDIDATES, best_candidate
from attest.endorsements.chains import pinned_roots, require_ca, require_issued, require_valid, untrusted_root
from attest.endorsements.pool import Endorsements
from attest.endorsements.signatures import SignatureAlgorithm
from attest.endorsements.x509 import Certificate, Issuer
from attest.errors import AttestError, ChainError, EndorsementError
from attest.evidence.snp.tcb import SnpProduct

_ROLE: AnchorRole = "amd-ark"


def find_issuer(
    child: Certificate, candidates: tuple[Certificate, ...], *further: Callable[[Certificate], object]
) -> Certificate:
    """Return the certificate that issued ``child``: of several with the wanted name, one that passes everything.

    The further checks serve the choice only; the caller makes them afterwards.

    Raises:
        ChainError: those that bear the name did not issue it, or may not issue anything.
        EndorsementError: ``snp-issuer-missing``, none bears the name.
    """

    def issued(candidate: Certificate) -> None:
        require_issued(child, candidate.as_issuer(), algorithm=SignatureAlgorithm.RSA_PSS_SHA384)
        require_ca(candidate)

    issuer = best_candidate(candidates, issued, *further)
    if issuer is None:
        raise EndorsementError(
            f"the certificate of {child.issuer_common_name}, which issued {child.name}, is not available",
            code="snp-issuer-missing",
            expected=child.issuer_common_name,
            got="none",
            hint="give AMD's certificate chain with --endorsements PATH, or fetch it with 'attest endorsements fetch'",
            retryable=True,
        )
    issued(issuer)
    return issuer


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
    for anchor, issuer, certificate in pinned_roots(child, presented[:MAX_CANDIDATES], anchors, role=_ROLE):
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
            f"the root {child.issuer_common_name}, which issued {child.name}, is neither pinned nor available",
            code="snp-root-missing",
            expected=f"a pinned {child.issuer_common_name}",
            got="none",
            hint="give AMD's certificate chain with --endorsements PATH",
        )
    return untrusted_root(presented[0].name, presented, role=_ROLE, expected="a pinned AMD root key")

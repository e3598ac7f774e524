"""Chain from a PCK certificate to the pinned Intel SGX Root CA.

Several certificates can bear a wanted name; one that passes every check counts. A root counts only when its key is
pinned, wherever its certificate came from.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache, partial

from attest.endorsements.anchors import Anchor, AnchorRole, TrustAnchors
from attest.endorsements.candidates import MAX_CANDIDATES, best_candidate
from attest.endorsements.chains import (
    UNPINNED_HINT,
    pinned_roots,
    require_anchor_valid,
    require_ca,
    require_issued,
    require_not_listed,
    require_valid,
    untrusted_root,
)
from attest.endorsements.pool import Endorsements
from attest.endorsements.signatures import SignatureAlgorithm
from attest.endorsements.x509 import Certificate, Issuer, parse_certificate, pem_blocks
from attest.errors import ChainError, EndorsementError, EvidenceError, VerificationError
from attest.evidence.intel.pck import PckCertificate
from attest.evidence.intel.quote import PCK_CHAIN, ParsedQuote

MAX_CHAIN_CERTIFICATES = 8
"""Intel's chain has three."""
P256_SPKI_HEAD = bytes.fromhex("3059301306072a8648ce3d020106082a8648ce3d03010703420004")
"""SubjectPublicKeyInfo of a P-256 key: x and y follow, 32 bytes each."""
_P256_SPKI_BYTES = len(P256_SPKI_HEAD) + 64
_ROLE: AnchorRole = "intel-sgx-root"
_ROOT_NAME = "Intel SGX Root CA"
_PADDING = b"\0 \t\r\n"


@dataclass(frozen=True, slots=True, kw_only=True)
class PckChain:
    """A PCK certificate that leads to a pinned root, within all dates.

    Attributes:
        issuer: PCK Platform CA or PCK Processor CA, the CA whose CRL lists PCK certificates.
        root: name and key of the Intel SGX Root CA, whose CRL lists the issuer.
        anchor: the pin behind it.
    """

    pck: PckCertificate
    issuer: Certificate
    root: Issuer
    anchor: Anchor

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The PCK certificate and its issuer; the root is an anchor and no part of what was presented."""
        return self.pck.certificate, self.issuer


@lru_cache(maxsize=256)
def _read_chain(certification_data: bytes) -> tuple[Certificate, ...]:
    blocks = pem_blocks(certification_data.rstrip(_PADDING))
    begun = certification_data.count(b"-----BEGIN")
    if len(blocks) > MAX_CHAIN_CERTIFICATES or begun != len(blocks) or {b[0] for b in blocks} != {"CERTIFICATE"}:
        raise EvidenceError(
            "the quote's certification data is not a chain of PEM certificates",
            code="certificate-malformed",
            field="certification data",
            expected=f"1 to {MAX_CHAIN_CERTIFICATES} whole PEM blocks CERTIFICATE",
            got=f"{len(blocks)} readable blocks of {begun}",
            clause="Intel DCAP, QE certification data",
        )
    return tuple(parse_certificate(der) for _, der in blocks)


def embedded_certificates(quote: ParsedQuote) -> tuple[Certificate, ...]:
    """Return the certificates that the quote brought along, in its order; none for certification data 1 to 4.

    Raises:
        EvidenceError: ``certificate-malformed`` or ``base64-invalid``.
    """
    return _read_chain(quote.certification_data) if quote.certification_type == PCK_CHAIN else ()


def require_p256(name: str, spki: bytes) -> None:
    """Require a public key of P-256, point uncompressed, as every key of Intel's is.

    Raises:
        ChainError: ``public-key-invalid``.
    """
    if len(spki) != _P256_SPKI_BYTES or not spki.startswith(P256_SPKI_HEAD):
        raise ChainError(
            f"the key of {name} is not an uncompressed point of P-256",
            code="public-key-invalid",
            expected="ECDSA P-256",
            got="another kind of key",
            clause="Intel SGX PCK certificate and CRL profile",
        )


def find_pck_chain(
    pck: PckCertificate, quote: ParsedQuote, *, endorsements: Endorsements, anchors: TrustAnchors, at: datetime
) -> PckChain:
    """T02: find the path from a PCK certificate to a pinned root, every certificate of it valid at ``at``.

    A quote with a chain (certification data 5) leads to the root by that chain alone; other quotes by endorsements. The
    root's certificate counts only when its key is pinned, and is not needed where the key itself is held.

    Raises:
        EvidenceError: ``certificate-malformed`` or ``base64-invalid``.
        ChainError: ``pck-chain-incomplete``, ``root-not-trusted``, ``simulated-root-refused``,
            ``pck-name-unexpected``, ``public-key-invalid``, or as the rules of ``attest.endorsements.chains``.
        EndorsementError: ``pck-issuer-missing`` or ``intel-root-missing``.
    """
    leaf, embedded = pck.certificate, embedded_certificates(quote)
    pool = Endorsements(certificates=embedded) if embedded else endorsements

    def issued(candidate: Certificate) -> None:
        require_p256(candidate.name, candidate.spki)
        require_issued(leaf, candidate.as_issuer(), algorithm=SignatureAlgorithm.ECDSA_SHA256)
        require_ca(candidate)

    def rooted(candidate: Certificate) -> tuple[Anchor, Issuer]:
        presented = dict.fromkeys((*pool.named(candidate.issuer), *endorsements.named(candidate.issuer)))
        return find_intel_root(candidate, tuple(presented)[:MAX_CANDIDATES], anchors=anchors, at=at)

    require_valid(leaf, at=at)
    issuer = best_candidate(
        pool.named(leaf.issuer),
        issued,
        partial(require_valid, at=at),
        rooted,
        lambda each: require_not_listed(endorsements.crls, rooted(each)[1], each.serial),
    )
    if issuer is None:
        raise _incomplete(leaf) if embedded else _no_issuer(leaf)
    issued(issuer)
    require_valid(issuer, at=at)
    anchor, root = rooted(issuer)
    return PckChain(pck=pck, issuer=issuer, root=root, anchor=anchor)


def _incomplete(leaf: Certificate) -> ChainError:
    return ChainError(
        f"the quote's certificate chain does not lead to {_ROOT_NAME}: {leaf.issuer_common_name}, which issued "
        f"{leaf.name}, is not in it",
        code="pck-chain-incomplete",
        field="certification data",
        expected=f"the certificate of {leaf.issuer_common_name}",
        got="none of that name",
        clause="Intel SGX PCK certificate and CRL profile",
    )


def _no_issuer(leaf: Certificate) -> EndorsementError:
    return EndorsementError(
        f"the certificate of {leaf.issuer_common_name}, which issued {leaf.name}, is not available",
        code="pck-issuer-missing",
        expected=leaf.issuer_common_name,
        got="none",
        clause="Intel SGX PCK certificate and CRL profile",
        hint="give Intel's certificate chain with --endorsements PATH",
        retryable=True,
    )


def find_intel_root(
    child: Certificate, presented: tuple[Certificate, ...], *, anchors: TrustAnchors, at: datetime
) -> tuple[Anchor, Issuer]:
    """Return the pinned root that issued ``child`` and is valid at ``at``, with its name and key.

    Raises:
        ChainError: ``root-not-trusted``, ``simulated-root-refused``, ``pck-name-unexpected``, ``public-key-invalid``,
            or as the rules of ``attest.endorsements.chains``.
        EndorsementError: ``intel-root-missing``.
    """
    if child.issuer_common_name != _ROOT_NAME:
        raise ChainError(
            f"{child.name} is issued by another than {_ROOT_NAME}",
            code="pck-name-unexpected",
            field="issuer CN",
            expected=_ROOT_NAME,
            got=child.issuer_common_name or "a name without one CN",
            clause="Intel SGX PCK certificate and CRL profile",
        )
    refusal: ChainError | None = None
    for anchor, issuer, certificate in pinned_roots(child, presented, anchors, role=_ROLE):
        try:
            require_p256(issuer.name, issuer.spki)
            require_issued(child, issuer, algorithm=SignatureAlgorithm.ECDSA_SHA256)
            if certificate is None:
                require_anchor_valid(anchor, at=at)
            else:
                require_issued(certificate, issuer, algorithm=SignatureAlgorithm.ECDSA_SHA256)
                require_ca(certificate)
                require_valid(certificate, at=at)
        except ChainError as exc:
            refusal = refusal or exc
        else:
            return anchor, issuer
    raise _no_root(child, presented, anchors, refusal)


def _no_root(
    child: Certificate, presented: tuple[Certificate, ...], anchors: TrustAnchors, refusal: ChainError | None
) -> VerificationError | EndorsementError:
    strangers = tuple(c for c in presented if anchors.pinned(c.spki_sha256, role=_ROLE) is None)
    if strangers:
        return untrusted_root(strangers[0].name, strangers, role=_ROLE, expected="a pinned Intel root key")
    if refusal is not None:
        return refusal
    if any(anchor.spki is None for anchor in anchors.of_role(_ROLE)):
        return EndorsementError(
            f"the root {child.issuer_common_name}, which issued {child.name}, is neither pinned nor available",
            code="intel-root-missing",
            expected=f"a pinned {child.issuer_common_name}",
            got="none",
            clause="Intel SGX root CA; RFC 5280, 6.1",
            hint="give the root's certificate with --endorsements PATH",
        )
    return ChainError(
        f"{child.name} is issued by a root that is not an anchor of this Verifier",
        code="root-not-trusted",
        expected="a pinned Intel root key",
        got=f"a root in the name {child.issuer_common_name} that is not pinned",
        clause="Intel SGX root CA; RFC 5280, 6.1",
        hint=UNPINNED_HINT,
    )

"""Choice of TCB info and QE identity: of the platform, genuine, and current (T08 to T10).

Several can belong: a directory holds the collateral of many platforms and dates. The best is tried first and the
next one when that fails, and the first failure is reported. Parsed documents and outcomes of signatures are
remembered by the bytes alone; dates, lists and the root are judged on every call.

Spec: specs/intel-tdx-sgx.md, sections 8 and 14.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Generic, Literal, TypeVar

from attest.encoding import rfc3339_text
from attest.endorsements.candidates import MAX_CANDIDATES
from attest.endorsements.chains import require_issued, require_not_listed
from attest.endorsements.intel import IntelDocument
from attest.endorsements.pool import Endorsements
from attest.endorsements.signatures import SignatureAlgorithm
from attest.endorsements.x509 import Certificate, Issuer
from attest.errors import ChainError, EndorsementError, EvidenceError, RevokedError, SignatureError, VerificationError
from attest.evidence.intel.evaluation import PlatformFacts
from attest.evidence.intel.qe_identity import EnclaveId, QeIdentity, parse_qe_identity
from attest.evidence.intel.tcb_info import TcbInfo, Tee, parse_tcb_info

TCB_SIGNING_NAME = "Intel SGX TCB Signing"
_CLAUSE = "Intel PCS, API version 4"
_FETCH_NEWER = "fetch newer collateral with 'attest endorsements fetch'"
_REMEMBERED = 64
"""Few, because the Attester chooses the input, and a document read into objects takes ten times its bytes."""

_Content = TypeVar("_Content", TcbInfo, QeIdentity)
_Piece = Literal["tcb-info", "qe-identity", "tcb-signing"]
_PIECES: dict[_Piece, str] = {
    "tcb-info": "TCB info",
    "qe-identity": "QE identity",
    "tcb-signing": "TCB Signing certificate",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SignedCollateral(Generic[_Content]):
    """A document that Intel signed and that is current. Built by this module only.

    Attributes:
        signing: the TCB Signing certificate, issued by the root.
    """

    content: _Content
    signing: Certificate


# -- available documents


def find_tcb_info(
    *, platform: PlatformFacts, endorsements: Endorsements, root: Issuer, at: datetime
) -> SignedCollateral[TcbInfo]:
    """Return the TCB info of a platform: genuine, current, and of those the one with the highest evaluation number.

    ``root`` is the anchor that the PCK chain reached. Both ends of every validity are included.

    Raises:
        SignatureError: ``collateral-signature-invalid``.
        ChainError: the TCB Signing certificate is not the root's, as the rules of ``attest.endorsements.chains``.
        RevokedError: ``certificate-revoked``, the TCB Signing certificate is on a list of the root.
        EndorsementError: ``tcb-info-missing``, ``tcb-info-expired`` or ``tcb-info-not-yet-valid``;
            ``tcb-signing-missing``, ``tcb-signing-expired`` or ``tcb-signing-not-yet-valid``.
    """
    belonging = _infos_of(platform, endorsements)
    return _best(belonging, "tcb-info", endorsements=endorsements, root=root, at=at)


def genuine_tcb_info(
    *, platform: PlatformFacts, endorsements: Endorsements, root: Issuer, at: datetime
) -> TcbInfo | None:
    """Return the best genuine TCB info of a platform, be it out of date; None without one.

    It serves to find what is against the platform, and nothing in its favour.

    Raises:
        RevokedError: ``certificate-revoked``, as ``find_tcb_info``.
    """
    with suppress(EndorsementError, SignatureError, ChainError):
        belonging = _infos_of(platform, endorsements)
        return _best(belonging, "tcb-info", endorsements=endorsements, root=root, at=at, dated=False).content
    return None


def _infos_of(platform: PlatformFacts, endorsements: Endorsements) -> list[tuple[IntelDocument, TcbInfo]]:
    readable = _readable(endorsements.documents, "tcb-info", _tcb_info)
    wanted = (platform.tee, platform.fmspc, platform.pce_id)
    belonging = [(document, info) for document, info in readable if (info.tee, info.fmspc, info.pce_id) == wanted]
    if not belonging:
        found = sorted({_kind_text(info) for _, info in readable})
        raise _missing("tcb-info", f"TCB info of {_kind_text(platform)}", found)
    return belonging


def _kind_text(platform: PlatformFacts | TcbInfo) -> str:
    return f"{platform.tee.upper()} FMSPC {platform.fmspc.hex()} PCEID {platform.pce_id.hex()}"


def find_qe_identity(
    *, tee: Tee, endorsements: Endorsements, root: Issuer, at: datetime
) -> SignedCollateral[QeIdentity]:
    """Return the identity of the quoting enclave of a TEE, chosen like a TCB info.

    Raises:
        SignatureError: ``collateral-signature-invalid``.
        ChainError: as ``find_tcb_info``.
        RevokedError: as ``find_tcb_info``.
        EndorsementError: ``qe-identity-missing``, ``qe-identity-expired`` or ``qe-identity-not-yet-valid``;
            ``tcb-signing-missing``, ``tcb-signing-expired`` or ``tcb-signing-not-yet-valid``.
    """
    return _best(_identities_of(tee, endorsements), "qe-identity", endorsements=endorsements, root=root, at=at)


def genuine_qe_identity(*, tee: Tee, endorsements: Endorsements, root: Issuer, at: datetime) -> QeIdentity | None:
    """Return the best genuine identity of the quoting enclave of a TEE, as ``genuine_tcb_info``.

    Raises:
        RevokedError: ``certificate-revoked``, as ``find_tcb_info``.
    """
    with suppress(EndorsementError, SignatureError, ChainError):
        belonging = _identities_of(tee, endorsements)
        return _best(belonging, "qe-identity", endorsements=endorsements, root=root, at=at, dated=False).content
    return None


def _identities_of(tee: Tee, endorsements: Endorsements) -> list[tuple[IntelDocument, QeIdentity]]:
    wanted = EnclaveId.TD_QE if tee == "tdx" else EnclaveId.QE
    readable = _readable(endorsements.documents, "qe-identity", _qe_identity)
    belonging = [(document, identity) for document, identity in readable if identity.id is wanted]
    if not belonging:
        raise _missing("qe-identity", f"QE identity {wanted}", sorted({str(identity.id) for _, identity in readable}))
    return belonging


@lru_cache(maxsize=_REMEMBERED)
def _tcb_info(body: bytes) -> TcbInfo | None:
    """Return the parsed document; None, which is remembered too, for one that cannot be read."""
    try:
        return parse_tcb_info(body)
    except EvidenceError:
        return None


@lru_cache(maxsize=_REMEMBERED)
def _qe_identity(body: bytes) -> QeIdentity | None:
    try:
        return parse_qe_identity(body)
    except EvidenceError:
        return None


def _readable(
    documents: Sequence[IntelDocument], kind: str, read: Callable[[bytes], _Content | None]
) -> list[tuple[IntelDocument, _Content]]:
    return [
        (document, content)
        for document in documents
        if document.kind == kind and (content := read(document.body)) is not None
    ]


def _missing(piece: _Piece, wanted: str, found: list[str]) -> EndorsementError:
    return EndorsementError(
        f"no {wanted} is available",
        code=_CODES[piece][0],
        expected=wanted,
        got=", ".join(found) or "none",
        clause=_CLAUSE,
        hint="give Intel's collateral with --endorsements PATH, or fetch it with 'attest endorsements fetch'",
        retryable=True,
    )


_CODES: dict[_Piece, tuple[str, str, str]] = {
    "tcb-info": ("tcb-info-missing", "tcb-info-not-yet-valid", "tcb-info-expired"),
    "qe-identity": ("qe-identity-missing", "qe-identity-not-yet-valid", "qe-identity-expired"),
    "tcb-signing": ("tcb-signing-missing", "tcb-signing-not-yet-valid", "tcb-signing-expired"),
}


# -- choice


def _best(
    belonging: list[tuple[IntelDocument, _Content]],
    piece: _Piece,
    *,
    endorsements: Endorsements,
    root: Issuer,
    at: datetime,
    dated: bool = True,
) -> SignedCollateral[_Content]:
    """Return the best document; without ``dated``, only its signature and the signer's chain are judged."""
    within = _require_within if dated else _any_moment
    if len(belonging) > 1:
        belonging.sort(key=lambda found: _preference(found[1], at), reverse=True)
    refusal: VerificationError | EndorsementError | None = None
    for document, content in belonging[:MAX_CANDIDATES]:
        try:
            signing = _find_signing(document, piece, endorsements=endorsements, root=root, at=at, within=within)
            within(piece, content.issue_date, content.next_update, at=at)
        except (VerificationError, EndorsementError) as exc:
            refusal = refusal or exc
        else:
            return SignedCollateral(content=content, signing=signing)
    raise refusal or _missing(piece, _PIECES[piece], [])


def _preference(content: TcbInfo | QeIdentity, at: datetime) -> tuple[bool, int, datetime]:
    """Rank current ones first, then the highest evaluation number, then the latest issue."""
    current = content.issue_date <= at <= content.next_update
    return current, content.evaluation_data_number, content.issue_date


def _find_signing(
    document: IntelDocument,
    piece: _Piece,
    *,
    endorsements: Endorsements,
    root: Issuer,
    at: datetime,
    within: Callable[..., None],
) -> Certificate:
    """Return the TCB Signing certificate whose key signed: of several with that key, the one that is valid."""
    candidates = endorsements.with_common_name(TCB_SIGNING_NAME)
    if not candidates:
        raise _missing("tcb-signing", f"certificate {TCB_SIGNING_NAME}", [])
    ordered = sorted(candidates, key=lambda c: not c.not_before <= at <= c.not_after)
    refusal: ChainError | RevokedError | EndorsementError | None = None
    for certificate in ordered[:MAX_CANDIDATES]:
        if not document.is_signed_by(certificate.spki):
            continue
        try:
            require_issued(certificate, root, algorithm=SignatureAlgorithm.ECDSA_SHA256)
            require_not_listed(endorsements.crls, root, certificate.serial, name=certificate.name)
            within("tcb-signing", certificate.not_before, certificate.not_after, at=at)
        except (ChainError, RevokedError, EndorsementError) as exc:
            refusal = refusal or exc
        else:
            return certificate
    raise refusal or SignatureError(
        f"the signature of the {_PIECES[piece]} does not verify",
        code="collateral-signature-invalid",
        field="signature",
        expected=f"ECDSA P-256 with SHA-256 over the exact bytes, by {TCB_SIGNING_NAME}",
        got="a signature that does not verify",
        clause=_CLAUSE,
        hint="fetch the collateral again; do not serialise it again with a JSON library",
    )


def _any_moment(_piece: _Piece, _begins: datetime, _ends: datetime, *, at: datetime) -> None:
    """Judge no dates."""


def _require_within(piece: _Piece, begins: datetime, ends: datetime, *, at: datetime) -> None:
    """Require ``begins <= at <= ends``; an outdated piece has to be fetched, and says nothing against a platform."""
    if begins <= at <= ends:
        return
    _, early_code, late_code = _CODES[piece]
    early = at < begins
    raise EndorsementError(
        f"the {_PIECES[piece]} is {'not valid yet' if early else 'out of date'} at {rfc3339_text(at)}",
        code=early_code if early else late_code,
        expected=f"{rfc3339_text(begins)} to {rfc3339_text(ends)}",
        got=rfc3339_text(at),
        clause=_CLAUSE,
        hint="compare the clock, or the time given with --at" if early else _FETCH_NEWER,
        retryable=True,
    )

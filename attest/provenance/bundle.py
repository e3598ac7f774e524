"""Bundles of Sigstore with the provenance of one document, verified offline against given trust material.

The library accepts trust material of any time in the past. This module gives it only the material that was valid at the
time of the log entry, so a signature under an abandoned key does not count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime

from cryptography.x509 import Certificate
from sigstore.errors import Error as SigstoreError
from sigstore.models import Bundle, TrustedRoot
from sigstore.verify import Verifier
from sigstore.verify.policy import Identity, OIDCIssuerV2, VerificationPolicy
from sigstore_models.bundle.v1 import Bundle as BundleModel
from sigstore_models.common.v1 import TimeRange
from sigstore_models.rekor.v1 import TransparencyLogEntry

from attest.encoding import base64_bytes, rfc3339_text
from attest.errors import (
    BindingError,
    ConfigurationError,
    EndorsementError,
    EvidenceError,
    SignatureError,
    UnsupportedError,
    VerificationError,
)
from attest.provenance.forms import ROOT_HINT, malformed, read_bundle, read_trusted_root, reason, root_invalid
from attest.provenance.statement import STATEMENT_MEDIA_TYPE, Provenance, parse_statement

_OLD_BUNDLE = "application/vnd.dev.sigstore.bundle+json;version=0.1"
_SUPPORTED = "a bundle of version 0.2 or 0.3, with a DSSE envelope, and the time and the promise of a Rekor v1 log"
_CHECKPOINT = re.compile(r"[^\n]+\n([0-9]+)\n([^\n]+)\n(?:[^\n]+\n)*\n((?:\u2014 [!-~]+ [!-~]+\n)+)")
"""A note of a log with its size, its root hash and its signatures."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogEntry:
    """The entry of the log: id of the log, index of the entry, and the time at which the log took it up."""

    log: bytes
    index: int
    time: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedProvenance:
    """Provenance whose bundle holds, the demanded signer, and the entry of the log."""

    provenance: Provenance
    identity: str
    issuer: str
    entry: LogEntry


def verify_provenance(
    data: bytes, *, subject: bytes, trusted_root: bytes, identity: str, issuer: str
) -> VerifiedProvenance:
    """Verify a bundle with the provenance of the document that has this SHA-256.

    Args:
        data: the bundle, JSON.
        subject: SHA-256 of the document.
        trusted_root: certificate authorities and logs, Sigstore's ``TrustedRoot`` as JSON.
        identity: subject alternative name that the certificate must have, whole.
        issuer: OpenID issuer that the certificate must name, whole.

    Raises:
        ConfigurationError: ``provenance-signer-empty``, or ``provenance-root-invalid``.
        EvidenceError: ``provenance-malformed``, ``provenance-statement-invalid``, ``json-invalid``, or as
            ``UnsupportedError`` ``provenance-unsupported``.
        EndorsementError: ``provenance-root-not-valid``.
        VerificationError: ``provenance-identity-mismatch``, ``provenance-issuer-mismatch``,
            ``provenance-not-verified``, or ``provenance-subject-mismatch``.
    """
    if not identity or not issuer:
        raise ConfigurationError(
            "provenance counts only under a demanded identity and issuer",
            code="provenance-signer-empty",
            expected="an identity and an issuer",
            got="an empty text",
            hint="name the workflow or the person that signs, and the issuer of its tokens",
        )
    model, logged = _supported(data)
    time = _time_of_log(logged)
    root = _root_at(trusted_root, time)
    payload = _verify(model, root, _Signer(identity=identity, issuer=issuer))
    _require_checkpoint(logged)
    provenance = parse_statement(payload)
    _require_subject(provenance, subject)
    entry = LogEntry(log=logged.log_id.key_id, index=logged.log_index, time=time)
    return VerifiedProvenance(provenance=provenance, identity=identity, issuer=issuer, entry=entry)


def _supported(data: bytes) -> tuple[BundleModel, TransparencyLogEntry]:
    """Read a bundle of a kind that is verified, and its log entry.

    Timestamps of other authorities are left out: the time that counts is that of the log.
    """
    model = read_bundle(data)
    envelope, material = model.dsse_envelope, model.verification_material
    entry = material.tlog_entries[0]
    if model.media_type == _OLD_BUNDLE:
        raise _unsupported(model.media_type)
    if envelope is None:
        raise _unsupported("a bundle without a DSSE envelope")
    if len(envelope.signatures) != 1:
        raise malformed("an envelope with one signature", f"{len(envelope.signatures)} signatures")
    if (kind := (entry.kind_version.kind, entry.kind_version.version)) != ("dsse", "0.0.1"):
        raise _unsupported(f"a log entry of kind {kind[0][:80]!r} {kind[1][:80]!r}")
    bare = material.model_copy(update={"timestamp_verification_data": None})
    return model.model_copy(update={"verification_material": bare}), entry


def _time_of_log(entry: TransparencyLogEntry) -> datetime:
    """Return the time of the entry, which the log's promise signs; it is a claim until the promise is verified."""
    if not entry.integrated_time or entry.inclusion_promise is None:
        raise _unsupported("a log entry without a signed time")
    try:
        return datetime.fromtimestamp(entry.integrated_time, tz=UTC)
    except (ValueError, OverflowError, OSError) as exc:
        raise malformed("a time of the log", str(entry.integrated_time)) from exc


def _root_at(data: bytes, time: datetime) -> TrustedRoot:
    """Read trust material, and keep what was valid at this time."""
    material = read_trusted_root(data)
    kept = {
        "certificate_authorities": [x for x in material.certificate_authorities if _covers(x.valid_for, time)],
        "tlogs": [x for x in material.tlogs if _covers(x.public_key.valid_for, time)],
        "ctlogs": [x for x in material.ctlogs if _covers(x.public_key.valid_for, time)],
    }
    try:
        root = TrustedRoot(material.model_copy(update=kept))
    except SigstoreError as exc:
        raise root_invalid(exc) from exc
    for name, found in kept.items():
        if not found:
            raise EndorsementError(
                f"the trusted root has no {name} that were valid at the time of the log entry",
                code="provenance-root-not-valid",
                field=name,
                expected=f"material that is valid at {rfc3339_text(time)}",
                got="none",
                hint=ROOT_HINT,
            )
    return root


def _covers(period: TimeRange | None, time: datetime) -> bool:
    return period is None or (period.start <= time and (period.end is None or time <= period.end))


def _verify(model: BundleModel, root: TrustedRoot, signer: VerificationPolicy) -> bytes:
    """Verify everything except the statement, and return its bytes."""
    try:
        media_type, payload = Verifier(trusted_root=root).verify_dsse(Bundle(model), signer)
    except VerificationError:
        raise
    except Exception as exc:  # over bytes that it cannot read, the library raises errors of many others
        raise _not_verified(reason(exc)) from exc
    if media_type != STATEMENT_MEDIA_TYPE:
        raise UnsupportedError(
            "the envelope contains no in-toto statement",
            code="provenance-unsupported",
            field="dsseEnvelope.payloadType",
            expected=STATEMENT_MEDIA_TYPE,
            got=repr(media_type[:80]),
            hint="give the bundle of the build's SLSA provenance",
        )
    return payload


def _require_checkpoint(entry: TransparencyLogEntry) -> None:
    """Require one spelling of the checkpoint, for a tree of the size of the proof. The library compares neither."""
    checkpoint = entry.inclusion_proof.checkpoint
    found = _CHECKPOINT.fullmatch(checkpoint.envelope) if checkpoint else None
    size = str(entry.inclusion_proof.tree_size)
    if not found or found[1] != size:
        raise _not_verified(f"the inclusion proof is for a tree of size {size}, the signed checkpoint is not")
    try:
        for text in (found[2], *(line.split(" ")[2] for line in found[3].splitlines())):
            base64_bytes(text, what="checkpoint")
    except EvidenceError as exc:
        raise _not_verified("the checkpoint has a second spelling") from exc


@dataclass(frozen=True, slots=True, kw_only=True)
class _Signer:
    """The demanded signer, asked about the certificate after its chain holds."""

    identity: str
    issuer: str

    def verify(self, cert: Certificate) -> None:
        """Require the certificate to have the identity, and to name the issuer."""
        for one, name, expected, code in (
            (Identity(identity=self.identity), "identity", self.identity, "provenance-identity-mismatch"),
            (OIDCIssuerV2(self.issuer), "issuer", self.issuer, "provenance-issuer-mismatch"),
        ):
            try:
                one.verify(cert)
            except Exception as exc:  # as above
                raise VerificationError(
                    f"the bundle is not signed under the demanded {name}",
                    code=code,
                    field=name,
                    expected=expected,
                    got=reason(exc),
                    hint=f"correct the demanded {name}, or do not trust this document",
                ) from exc


def _require_subject(provenance: Provenance, subject: bytes) -> None:
    if provenance.subject != subject:
        raise BindingError(
            "the provenance is that of another document",
            code="provenance-subject-mismatch",
            field="subject.0.digest.sha256",
            expected=subject.hex(),
            got=provenance.subject.hex(),
            hint="give the document exactly as it was built, byte for byte, or the bundle that belongs to it",
        )


def _unsupported(got: str) -> UnsupportedError:
    return UnsupportedError(
        f"this kind of bundle is not verified: {got}",
        code="provenance-unsupported",
        expected=_SUPPORTED,
        got=got,
        hint="give a bundle in this form, or sign the document with 'attest policy sign'",
    )


def _not_verified(got: str) -> SignatureError:
    return SignatureError(
        f"the bundle does not hold: {got}",
        code="provenance-not-verified",
        expected="a signature, a certificate with its SCT, and a log entry that hold under the trusted root",
        got=got,
        hint="do not trust this document; check that the trusted root is that of the signer's Sigstore instance",
    )

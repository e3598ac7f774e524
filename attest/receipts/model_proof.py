"""The model of a receipt: manifests of the owner, compared with the record of what the machine loaded."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.errors import BindingError
from attest.receipts.receipt_file import ModelParts, ReceiptFile, present
from attest.receipts.release_proof import VerifiedRelease, verify_release
from attest.receipts.statement import ModelRecord
from attest.release.tlog import NO_WITNESSES, WitnessPolicy
from attest.sealed.layout import segment_count
from attest.sealed.load_record import LoadedModel
from attest.sealed.manifest import SealedManifest
from attest.sealed.oms import VerifiedModel, verify_model
from attest.sealed.signed_manifest import signed_manifest

_CLAUSE: Final = "docs/receipts.md, the model"


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedPart:
    """One part of a model: an owner's, loaded by the machine.

    Attributes:
        signed: the owner's signature over the manifest; its name is the owner's.
        partial: files of the manifest that the machine did not decrypt completely, by path.
        release: of its key; None for a key from no service.
    """

    manifest: SealedManifest
    signed: VerifiedModel
    partial: tuple[str, ...] = ()
    release: VerifiedRelease | None = None


def verify_manifests(
    file: ReceiptFile, record: ModelRecord, *, owners: Collection[ec.EllipticCurvePublicKey]
) -> tuple[tuple[SealedManifest, VerifiedModel], ...]:
    """Check that a trusted owner signed the manifest of each part, and that the record names these manifests.

    Raises:
        EndorsementError: ``receipt-part-missing``.
        BindingError: ``receipt-model-mismatch``.
        EvidenceError, SignatureError: as ``verify_model``.
        SealedFileError, SealedTamperError: as ``signed_manifest``.
    """
    if len(file.models) != len(record.parts):
        raise BindingError(
            "the receipt's file has other parts of the model than its record",
            code="receipt-model-mismatch",
            field="models",
            expected=f"{len(record.parts)}: the model and {len(record.parts) - 1} adapters",
            got=str(len(file.models)),
            clause=_CLAUSE,
            hint="the chain was cut, or belongs to another receipt",
        )
    return tuple(_manifest(parts, loaded, owners) for parts, loaded in zip(file.models, record.parts, strict=True))


def _manifest(
    parts: ModelParts, loaded: LoadedModel, owners: Collection[ec.EllipticCurvePublicKey]
) -> tuple[SealedManifest, VerifiedModel]:
    raw = present(parts.manifest, "manifest")
    _require("manifest", loaded.manifest.hex(), sha256(raw).hexdigest())
    signed = verify_model(present(parts.signature, "signature"), trusted=owners)
    return signed_manifest(raw, signed), signed


def verify_loaded(manifest: SealedManifest, loaded: LoadedModel) -> tuple[str, ...]:
    """Compare a record with a verified manifest, and return the files that were not decrypted completely.

    Raises:
        BindingError: ``receipt-model-mismatch``: another model, or a file that the manifest does not have.
    """
    _require("model", manifest.model.hex(), loaded.model.hex())
    entries = {one.path: one for one in manifest.files}
    for one in loaded.files:
        entry = entries.get(one.path)
        if entry is None:
            raise _mismatch("files", "a file of the manifest", one.path[:200])
        _require(f"header of {one.path[:200]}", entry.header.hex(), one.header.hex())
        if one.decrypted > segment_count(entry.sealed_size):
            raise _mismatch(
                f"segments of {one.path[:200]}", f"at most {segment_count(entry.sealed_size)}", str(one.decrypted)
            )
    whole = {one.path for one in loaded.files if one.decrypted == segment_count(entries[one.path].sealed_size)}
    return tuple(path for path in entries if path not in whole)


def verify_releases(
    manifests: Collection[SealedManifest],
    file: ReceiptFile,
    record: ModelRecord,
    *,
    witnesses: WitnessPolicy = NO_WITNESSES,
) -> tuple[VerifiedRelease | None, ...]:
    """Check the release of each part's key; errors as ``verify_release``."""
    return tuple(
        verify_release(manifest, recorded=recorded, part=parts.release, witnesses=witnesses)
        for manifest, recorded, parts in zip(manifests, record.releases, file.models, strict=True)
    )


def _require(field: str, expected: str, got: str) -> None:
    if not hmac.compare_digest(expected.encode(), got.encode()):
        raise _mismatch(field, expected, got)


def _mismatch(field: str, expected: str, got: str) -> BindingError:
    return BindingError(
        f"the machine loaded another model than the manifest describes: {field}",
        code="receipt-model-mismatch",
        field=field,
        expected=expected,
        got=got,
        clause=_CLAUSE,
        hint="the chain has the manifest of another model, or of another version of it",
    )

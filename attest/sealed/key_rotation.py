"""Key rotation of a sealed model: two small files are replaced, and no data is encrypted again.

::

    .NAME.rewrapping/sealed.json       first the new manifest, then
    .NAME.rewrapping/model.sig         the new signature, which commits the change
    NAME/sealed.json, NAME/model.sig   then both get their places

Killed before the commit, the model is unchanged. Killed between the two renames, the model refuses to open until
the next run, or ``finish_rewrap``, completes the change.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Collection
from dataclasses import replace
from hashlib import sha256
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec

from attest.errors import ConfigurationError
from attest.files import flush_folder
from attest.sealed.atomic_file import unwritable, write_whole
from attest.sealed.data_key import unwrap_data_key, wrap_data_key
from attest.sealed.directory import verify_manifest
from attest.sealed.key_sources import KeyProvider, KeySource, key_source
from attest.sealed.manifest import MANIFEST_NAME, SealedManifest
from attest.sealed.model_sealer import SealingNames, sign_directory
from attest.sealed.oms import MAX_BUNDLE_BYTES, SIGNATURE_NAME, VerifiedModel, verify_model
from attest.sealed.staging import make_own, workplace_of
from attest.sealed.stores import FolderStore


def rewrap(
    folder: str | os.PathLike[str],
    *,
    key: bytes | KeySource | KeyProvider,
    new_key: bytes,
    names: SealingNames,
    signer: ec.EllipticCurvePrivateKey,
    trusted: Collection[ec.EllipticCurvePublicKey],
    random: Callable[[int], bytes],
    model_id: bytes | None = None,
) -> SealedManifest:
    """Put a sealed model under another released key or version, and sign it again.

    The data key stays the same, so a holder of the old key can still open old copies. If the data key may be exposed,
    seal the model again.

    Only the two small files of the folder are necessary. ``names`` is the new description; ``signer`` is P-384 or
    P-256. Without a ``model_id`` (16 bytes) any signed model is accepted: if others can write the folder, they could
    restore an older model, which would come under the new key.

    Raises:
        AttestError: as ``verify_manifest``, ``unwrap_data_key`` and ``finish_rewrap``.
        ConfigurationError: ``output-unwritable``.
    """
    place = Path(folder)
    finish_rewrap(place, trusted=(*trusted, signer.public_key()))
    old, model = verify_manifest(place, trusted=trusted, model=model_id)
    data_key = unwrap_data_key(old, key=key_source(key)(old))
    wrapped = wrap_data_key(
        data_key, key=new_key, model=old.model, reference=names.key, service=names.service, random=random
    )
    manifest = replace(old, wrapped_key=wrapped, **names.members())
    _prepare(place, manifest, model, signer)
    finish_rewrap(place, trusted=(signer.public_key(),))
    return manifest


def _prepare(place: Path, manifest: SealedManifest, model: VerifiedModel, signer: ec.EllipticCurvePrivateKey) -> None:
    sealed = tuple(one for one in model.resources if one.name != MANIFEST_NAME)
    signature = sign_directory(manifest, sealed, name=model.name, signer=signer)
    work = workplace_of(place, kind="rewrapping")
    try:
        make_own(work)
    except OSError as exc:
        raise ConfigurationError(
            f"{work} cannot be made: {exc.strerror}",
            code="output-unwritable",
            field=str(work),
            hint="a rewrapped model is prepared beside the model: write access to that folder is necessary",
        ) from exc
    write_whole(work / MANIFEST_NAME, manifest.to_bytes())
    write_whole(work / SIGNATURE_NAME, signature)


def finish_rewrap(folder: str | os.PathLike[str], *, trusted: Collection[ec.EllipticCurvePublicKey]) -> bool:
    """Finish an interrupted rewrapping: complete it if it was committed, otherwise undo it.

    ``trusted`` are the accepted signers of the new manifest.

    Returns:
        True if a committed one was completed.

    Raises:
        EvidenceError, SignatureError: as ``verify_model``, about the new files.
        ConfigurationError: ``sealed-work-differs``: the new files are incomplete; ``sealed-work-unsafe``.
        SealedSourceError: unreadable, or ``sealed-target-unwritable``.
    """
    place = Path(folder)
    work = workplace_of(place, kind="rewrapping")
    if not work.is_dir():
        return False
    make_own(work)
    if not (work / SIGNATURE_NAME).is_file():
        shutil.rmtree(work, ignore_errors=True)
        return False
    model = verify_model(FolderStore(work).read_small(SIGNATURE_NAME, MAX_BUNDLE_BYTES), trusted=trusted)
    expected = {one.name: one.digest for one in model.resources}.get(MANIFEST_NAME)
    prepared = work / MANIFEST_NAME
    current = prepared if prepared.is_file() else place / MANIFEST_NAME
    try:
        if sha256(current.read_bytes()).digest() != expected:
            raise _not_whole(work)
        if current is prepared:
            prepared.replace(place / MANIFEST_NAME)
        (work / SIGNATURE_NAME).replace(place / SIGNATURE_NAME)
        flush_folder(place)
    except OSError as exc:
        raise unwritable(place, exc) from exc
    shutil.rmtree(work, ignore_errors=True)
    return True


def _not_whole(work: Path) -> ConfigurationError:
    return ConfigurationError(
        f"an interrupted rewrapping in {work} cannot be completed: its manifest is not the signed one",
        code="sealed-work-differs",
        field=str(work),
        hint=f"remove {work}, and get {MANIFEST_NAME} and {SIGNATURE_NAME} of the model again",
    )

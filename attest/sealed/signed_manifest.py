"""A manifest beside the signature over it, from bytes: the same checks for a directory and for a receipt."""

from __future__ import annotations

import hmac
from collections.abc import Collection
from hashlib import sha256
from typing import Final

from attest.errors import SealedFileError, SealedTamperError
from attest.sealed.manifest import MANIFEST_NAME, SealedManifest
from attest.sealed.oms import VerifiedModel

_SHOWN: Final = 5
"""Largest number of file names in a message."""


def signed_manifest(raw: bytes, model: VerifiedModel) -> SealedManifest:
    """Return the manifest that an owner signed.

    Args:
        raw: ``sealed.json`` as read; not trusted.
        model: the verified signature over it.

    Raises:
        SealedFileError: ``sealed-manifest-malformed``, ``sealed-manifest-unsupported`` or ``sealed-name-unsafe``.
        SealedTamperError: ``sealed-digest-mismatch``: not the signed manifest; ``sealed-files-mismatch``.
    """
    require_listed(model, model.name)
    listed = {one.name: one.digest for one in model.resources}
    if not hmac.compare_digest(sha256(raw).digest(), listed[MANIFEST_NAME]):
        error = digest_mismatch(MANIFEST_NAME, expected=listed[MANIFEST_NAME], got=sha256(raw).digest())
        error.hint = "get the model again; if 'attest sealed rewrap' was interrupted here, run it again"
        raise error
    manifest = SealedManifest.parse(raw)
    require_same_files({one.sealed for one in manifest.files}, listed.keys() - {MANIFEST_NAME}, where=MANIFEST_NAME)
    return manifest


def require_listed(model: VerifiedModel, name: str) -> None:
    """Require that a signature covers a manifest.

    Raises:
        SealedFileError: ``sealed-manifest-malformed``.
    """
    if not any(one.name == MANIFEST_NAME for one in model.resources):
        raise SealedFileError(
            f"{name} is a signed model, but not a sealed one: {MANIFEST_NAME} is not among its files",
            code="sealed-manifest-malformed",
            field=MANIFEST_NAME,
            hint="'attest seal' seals a model",
        )


def require_same_files(found: Collection[str], expected: Collection[str], *, where: str) -> None:
    """Require two equal sets of names.

    Raises:
        SealedTamperError: ``sealed-files-mismatch``.
    """
    absent, more = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    if not absent and not more:
        return
    lists = (("without", absent), ("with", more))
    parts = [f"{word} {', '.join(map(repr, names[:_SHOWN]))}" for word, names in lists if names]
    raise SealedTamperError(
        f"{where} has other files than were signed: {'; '.join(parts)}"[:800],
        code="sealed-files-mismatch",
        field=(absent or more)[0][:200],
        expected=f"{len(expected)} files",
        got=f"{len(absent)} missing, {len(more)} not listed",
        hint="get the missing files, and remove those that do not belong to the model",
    )


def digest_mismatch(name: str, *, expected: bytes, got: bytes) -> SealedTamperError:
    """Return the error for a file other than the signed one."""
    return SealedTamperError(
        f"{name} is not the file that was signed",
        code="sealed-digest-mismatch",
        field=name,
        expected=expected.hex(),
        got=got.hex(),
        hint="get the file again",
    )

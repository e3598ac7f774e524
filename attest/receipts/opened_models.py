"""Models as a machine has opened them: the record for its statement, and the parts for its receipts."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import Final

from attest.receipts.receipt_file import ModelParts, ReleasePart
from attest.receipts.statement import ModelRecord
from attest.release.released_key import ReleasedKey
from attest.sealed.directory import SealedDirectory
from attest.sealed.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES
from attest.sealed.oms import MAX_BUNDLE_BYTES, SIGNATURE_NAME

LOADER: Final = "attest"


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenedModel:
    """A sealed model, opened with a key from a service or from elsewhere.

    Attributes:
        release: of its key; None for a key from no service.
    """

    directory: SealedDirectory
    release: ReleasedKey | None = None

    @property
    def release_part(self) -> ReleasePart | None:
        """The release of its key, for the chain."""
        if self.release is None:
            return None
        return ReleasePart(receipt=self.release.receipt, entry=self.release.entry, proof=self.release.proof)

    @property
    def parts(self) -> ModelParts:
        """The manifest with its signature and release, for the chain; manifest and signature are read from the store.

        Raises:
            SealedSourceError: one of the two is unreadable.
        """
        store, release = self.directory.verified.store, self.release_part
        return ModelParts(
            manifest=store.read_small(MANIFEST_NAME, MAX_MANIFEST_BYTES),
            signature=store.read_small(SIGNATURE_NAME, MAX_BUNDLE_BYTES),
            release=None if release is None else release.to_bytes(),
        )


def record_of(
    model: OpenedModel, *adapters: OpenedModel, loader: str = LOADER, quantisation: str | None = None
) -> ModelRecord:
    """Return the record of what is decrypted so far; take it after loading.

    Args:
        model: the base model.
        adapters: in the order of their application.
        loader: name and version of the loading program.
        quantisation: change that it makes to the weights; None if it makes none.

    Raises:
        ValueError: a text beyond the limits.
    """
    opened = (model, *adapters)
    releases = [one.release_part for one in opened]
    return ModelRecord(
        parts=tuple(one.directory.loaded for one in opened),
        releases=tuple(None if one is None else sha256(one.to_bytes()).digest() for one in releases),
        quantisation=quantisation,
        loader=loader,
    )

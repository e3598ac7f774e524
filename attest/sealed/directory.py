"""Sealed models: verified before they are opened, and opened file by file.

The order, in which each step relies on the previous ones::

    (1) the signature, by a key of the caller's choice      (4) presence and sizes of the files
    (2) the listed names                                    (5) the key, released only now
    (3) the manifest, which must match those files          (6) the segments, as they are read

Step (6) protects the content. Steps (1) to (4) prevent added, missing, exchanged or renamed files, and requests for
the keys of models that the owner did not sign.
"""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import NoReturn

from cryptography.hazmat.primitives.asymmetric import ec

from attest.context_managers import ClosedOnExit
from attest.errors import SealedSourceError, SealedTamperError
from attest.sealed.comparison import Progress, require_digests
from attest.sealed.data_key import unwrap_data_key
from attest.sealed.key_sources import KeyProvider, KeySource, key_source
from attest.sealed.layout import segment_count
from attest.sealed.load_record import LoadedModel, LoadMeter
from attest.sealed.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, SealedEntry, SealedManifest, associated_data
from attest.sealed.oms import MAX_BUNDLE_BYTES, SIGNATURE_NAME, VerifiedModel, verify_model
from attest.sealed.segment_reader import SealedReader
from attest.sealed.signed_manifest import require_listed, require_same_files, signed_manifest
from attest.sealed.sources import require_size
from attest.sealed.stores import FileStore, FolderStore


def _as_store(place: FileStore | str | os.PathLike[str]) -> FileStore:
    """Return the store, or one over the given folder."""
    return FolderStore(place) if isinstance(place, (str, os.PathLike)) else place


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedDirectory:
    """A directory with a trusted signature and all its files. ``verify_directory`` makes it.

    Attributes:
        digests_verified: all ciphertext was compared too.
    """

    store: FileStore
    manifest: SealedManifest
    model: VerifiedModel
    digests_verified: bool

    def unlock(self, key: bytes | KeySource | KeyProvider, *, threads: int | None = None) -> SealedDirectory:
        """Open it with the key that the manifest names; arguments as for ``open_directory``.

        Raises:
            SealedTamperError: ``sealed-key-mismatch``.
            ConfigurationError: ``sealed-key-length``.
            AttestError: as the source of the key raises.
        """
        released = key_source(key)(self.manifest)
        return SealedDirectory(self, data_key=unwrap_data_key(self.manifest, key=released), threads=threads)


class SealedDirectory(ClosedOnExit):
    """The plaintext of a model, file by file; ``VerifiedDirectory.unlock`` makes it.

    Closing it drops the key; open readers stay usable.
    """

    def __init__(self, verified: VerifiedDirectory, *, data_key: bytes, threads: int | None = None) -> None:
        self.verified = verified
        self.manifest = verified.manifest
        self.name = verified.store.name
        self.entries: Mapping[str, SealedEntry] = {one.path: one for one in self.manifest.files}
        """Its files by path, in order."""
        self._key: bytes | None = data_key
        self._threads = threads
        self._meter = LoadMeter()

    def open(self, path: str) -> SealedReader:
        """Open a file, and verify that it is complete and belongs to this path and model.

        Raises:
            SealedSourceError: ``sealed-file-missing``: not in the model; or unreadable.
            SealedTamperError: altered, exchanged, renamed or truncated.
            SealedFileError: not a sealed file.
            ValueError: the directory is closed.
        """
        entry = self.entries.get(path)
        if entry is None:
            raise SealedSourceError(
                f"{self.name} has no file {path[:200]!r}",
                code="sealed-file-missing",
                field=path[:200],
                hint="'attest sealed info' lists the files",
            )
        key = self.data_key()
        source = self.verified.store.open(entry.sealed)
        return SealedReader(
            source,
            key=key,
            associated_data=associated_data(self.manifest.model, path),
            expected_size=entry.size,
            expected_header=entry.header,
            threads=self._threads,
            decrypted=self._meter.count(path, entry.header, segment_count(entry.sealed_size)).add,
        )

    @property
    def loaded(self) -> LoadedModel:
        """The record of what was decrypted so far, for receipts."""
        digests = {one.name: one.digest for one in self.verified.model.resources}
        return LoadedModel(manifest=digests[MANIFEST_NAME], model=self.manifest.model, files=self._meter.files())

    def read(self, path: str) -> bytearray:
        """Return a whole file; errors as ``open`` and ``SealedReader.read_into``."""
        with self.open(path) as reader:
            return reader.read(0, reader.size)

    def data_key(self) -> bytes:
        """Return the key of its files, 32 bytes, for a Tink keyset; as secret as the model.

        Raises:
            ValueError: the directory is closed.
        """
        if self._key is None:
            raise ValueError(f"{self.name} is closed")
        return self._key

    def close(self) -> None:
        """Drop the key; repeated calls are harmless."""
        self._key = None

    def __reduce__(self) -> NoReturn:
        raise TypeError("a SealedDirectory does not leave its process")


def open_directory(
    place: FileStore | str | os.PathLike[str],
    *,
    key: bytes | KeySource | KeyProvider,
    trusted: Collection[ec.EllipticCurvePublicKey],
    model: bytes | None = None,
    verify_digests: bool = False,
    threads: int | None = None,
) -> SealedDirectory:
    """Verify a sealed directory and open it. The key is requested after all other checks.

    Args:
        place: a folder, or a store.
        key: 32 bytes as released, or a source of them: an ``attest.Session``, or a function of the manifest.
        trusted: accepted signers; an empty collection accepts nothing.
        model: required identity, 16 bytes; None accepts any of the owner's models, older ones too.
        verify_digests: first compare all ciphertext with the signature.
        threads: parallel threads; by default one for each processor.

    Raises:
        AttestError: as ``verify_directory`` and ``VerifiedDirectory.unlock``.
    """
    verified = verify_directory(place, trusted=trusted, model=model, digests=verify_digests, threads=threads)
    return verified.unlock(key, threads=threads)


def verify_directory(
    place: FileStore | str | os.PathLike[str],
    *,
    trusted: Collection[ec.EllipticCurvePublicKey],
    model: bytes | None = None,
    digests: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> VerifiedDirectory:
    """Verify the signature of a directory and the presence of its files. No key is necessary.

    Arguments as for ``open_directory``. ``digests`` also compares all ciphertext, and calls ``progress`` with the
    compared bytes. In a store without listing, surplus files go unnoticed.

    Raises:
        EvidenceError, SignatureError: as ``verify_model``.
        SealedFileError: ``sealed-manifest-malformed``, ``sealed-manifest-unsupported``, ``sealed-name-unsafe`` or
            ``sealed-folder-unsafe``.
        SealedTamperError: ``sealed-files-mismatch``, ``sealed-size-mismatch``, ``sealed-digest-mismatch`` or
            ``sealed-model-mismatch``.
        SealedSourceError: a file is unreadable.
    """
    store = _as_store(place)
    # (1) The owner's key signed a list of files, (2) whose names are safe. (3) The manifest matches these files.
    manifest, signed = verify_manifest(store, trusted=trusted, model=model)
    # (4) Exactly these files are present, with their sizes.
    _require_sizes(store, manifest, signed)
    if digests:
        sizes = {MANIFEST_NAME: len(manifest.to_bytes()), **{one.sealed: one.sealed_size for one in manifest.files}}
        require_digests(store, signed.resources, sizes=sizes, threads=threads, progress=progress)
    return VerifiedDirectory(store=store, manifest=manifest, model=signed, digests_verified=digests)


def verify_manifest(
    place: FileStore | str | os.PathLike[str],
    *,
    trusted: Collection[ec.EllipticCurvePublicKey],
    model: bytes | None = None,
) -> tuple[SealedManifest, VerifiedModel]:
    """Verify the signature of a manifest and of its list of files, without the other files.

    Arguments as for ``open_directory``; only ``model.sig`` and ``sealed.json`` are read.

    Raises:
        EvidenceError, SignatureError: as ``verify_model``.
        SealedFileError: ``sealed-manifest-malformed``, ``sealed-manifest-unsupported`` or ``sealed-name-unsafe``.
        SealedTamperError: ``sealed-files-mismatch``, or ``sealed-digest-mismatch``: not the signed manifest; or
            ``sealed-model-mismatch``.
        SealedSourceError: one of the two is unreadable.
    """
    if not isinstance(trusted, Collection) or not all(isinstance(one, ec.EllipticCurvePublicKey) for one in trusted):
        raise TypeError('trusted must be a tuple of public keys: (read_trusted_key(Path("owner.pub").read_bytes()),)')
    store = _as_store(place)
    signed = verify_model(_signature(store), trusted=trusted)
    manifest = _signed_manifest(store, signed)
    if model is not None and manifest.model != model:
        raise SealedTamperError(
            f"{store.name} is another model of its owner than the requested one",
            code="sealed-model-mismatch",
            field="model",
            expected=model.hex(),
            got=manifest.model.hex(),
            hint="an older or a newer sealing of the model; 'attest sealed info' shows which one",
        )
    return manifest, signed


def unverified_manifest(store: FileStore) -> SealedManifest:
    """Parse the manifest of a directory without verification.

    Raises:
        SealedFileError: as ``SealedManifest.parse``.
        SealedSourceError: it is unreadable.
    """
    return SealedManifest.parse(store.read_small(MANIFEST_NAME, MAX_MANIFEST_BYTES))


def _signature(store: FileStore) -> bytes:
    try:
        return store.read_small(SIGNATURE_NAME, MAX_BUNDLE_BYTES)
    except SealedSourceError as exc:
        if exc.got not in {"ENOENT", "ENOTDIR"}:
            raise
        raise SealedSourceError(
            f"{store.name} is not a sealed model: there is no {SIGNATURE_NAME}",
            code="sealed-file-missing",
            field=SIGNATURE_NAME,
            hint="check the path; 'attest seal' makes a sealed model of a plain one",
        ) from exc


def _signed_manifest(store: FileStore, model: VerifiedModel) -> SealedManifest:
    require_listed(model, store.name)
    return signed_manifest(store.read_small(MANIFEST_NAME, MAX_MANIFEST_BYTES), model)


def _require_sizes(store: FileStore, manifest: SealedManifest, model: VerifiedModel) -> None:
    expected = {one.sealed: one.sealed_size for one in manifest.files}
    found = store.sizes()
    if found is None:
        return  # Opening a file compares its size.
    there = {name for name in found if not model.is_ignored(name)}
    require_same_files(there - {MANIFEST_NAME, SIGNATURE_NAME}, expected.keys(), where=store.name)
    for name, size in expected.items():
        require_size(name, found[name], size)

"""A sealed model: verified before it is opened, and opened file by file.

The order, in which each step relies on the ones before::

    (1) the signature, by a key that the caller names       (4) the files that are there, and their sizes
    (2) the names that it lists                             (5) the key, released only now
    (3) the manifest, and that it speaks of those files     (6) the segments, when they are read

What protects content is (6). Steps (1) to (4) let nobody add, leave out, exchange or rename a file, and let nobody ask
for a key for a model that its owner did not sign.
"""

from __future__ import annotations

import hmac
import os
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from types import TracebackType
from typing import NoReturn, Self

from cryptography.hazmat.primitives.asymmetric import ec

from attest.errors import SealedFileError, SealedSourceError, SealedTamperError
from attest.sealed.comparison import Progress, digest_mismatch, require_digests, require_same_files, require_size
from attest.sealed.data_key import unwrap_data_key
from attest.sealed.key_sources import KeyProvider, KeySource, key_source
from attest.sealed.manifest import MANIFEST_NAME, MAX_MANIFEST_BYTES, SealedEntry, SealedManifest, associated_data
from attest.sealed.oms import MAX_BUNDLE_BYTES, SIGNATURE_NAME, VerifiedModel, verify_model
from attest.sealed.segment_reader import SealedReader
from attest.sealed.stores import FileStore, FolderStore

__all__ = [
    "KeySource",
    "SealedDirectory",
    "VerifiedDirectory",
    "as_store",
    "open_directory",
    "unverified_manifest",
    "verify_directory",
    "verify_manifest",
]


def as_store(place: FileStore | str | os.PathLike[str]) -> FileStore:
    """Return a store: the place itself, or the folder that it names."""
    return FolderStore(place) if isinstance(place, (str, os.PathLike)) else place


@dataclass(frozen=True, slots=True, kw_only=True)
class VerifiedDirectory:
    """A directory that a trusted key signed, whose files are there with their sizes. ``verify_directory`` makes it.

    Attributes:
        store: where it lies.
        manifest: what its owner says of it.
        model: what was signed.
        digests_verified: whether every byte of ciphertext was compared too.
    """

    store: FileStore
    manifest: SealedManifest
    model: VerifiedModel
    digests_verified: bool

    def unlock(self, key: bytes | KeySource | KeyProvider, *, threads: int | None = None) -> SealedDirectory:
        """Open it with the key that its manifest names.

        Args:
            key: 32 bytes as released, or where to get them: see ``open_directory``.
            threads: how many decrypt a file; by default one for each processor.

        Raises:
            SealedTamperError: ``sealed-key-mismatch``.
            ConfigurationError: ``sealed-key-length``.
            AttestError: whatever obtaining the key raises.
        """
        source = key_source(key)
        released = source if isinstance(source, bytes) else source(self.manifest)
        return SealedDirectory(self, data_key=unwrap_data_key(self.manifest, key=released), threads=threads)


class SealedDirectory:
    """The plaintext of a model, file by file. Closing it forgets the key; readers that are open stay so.

    Args:
        verified: what it is.
        data_key: opens its files.
        threads: how many decrypt a file; by default one for each processor.
    """

    def __init__(self, verified: VerifiedDirectory, *, data_key: bytes, threads: int | None = None) -> None:
        """Keep the key."""
        self._verified = verified
        self._key: bytes | None = data_key
        self._threads = threads
        self._entries = {one.path: one for one in verified.manifest.files}

    @property
    def manifest(self) -> SealedManifest:
        """What its owner says of it, verified."""
        return self._verified.manifest

    @property
    def verified(self) -> VerifiedDirectory:
        """What was verified of it."""
        return self._verified

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return self._verified.store.name

    @property
    def entries(self) -> Mapping[str, SealedEntry]:
        """Its files by their paths, in their order."""
        return self._entries

    def open(self, path: str) -> SealedReader:
        """Open a file, and verify that it is this file of this model, and whole.

        Raises:
            SealedSourceError: ``sealed-file-missing``: the model has no such file; or it cannot be read.
            SealedTamperError: it was altered, exchanged, renamed or cut.
            SealedFileError: it is no sealed file.
            ValueError: the directory is closed.
        """
        entry = self._entries.get(path)
        if entry is None:
            raise SealedSourceError(
                f"{self.name} has no file {path[:200]!r}",
                code="sealed-file-missing",
                field=path[:200],
                hint="'attest sealed info' lists the files",
            )
        key = self._open_key()
        source = self._verified.store.open(entry.sealed)
        return SealedReader(
            source,
            key=key,
            associated_data=associated_data(self.manifest.model, path),
            expected_size=entry.size,
            expected_header=entry.header,
            threads=self._threads,
        )

    def read(self, path: str) -> bytearray:
        """Return a whole file; the errors are those of ``open`` and of ``SealedReader.read_into``."""
        with self.open(path) as reader:
            return reader.read(0, reader.size)

    def data_key(self) -> bytes:
        """Return the key of its files, 32 bytes, for a Tink keyset. It is as secret as the model.

        Raises:
            ValueError: the directory is closed.
        """
        return self._open_key()

    def close(self) -> None:
        """Forget the key. Twice is allowed."""
        self._key = None

    def _open_key(self) -> bytes:
        if self._key is None:
            msg = f"{self.name} is closed"
            raise ValueError(msg)
        return self._key

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def __reduce__(self) -> NoReturn:
        """Refuse to leave the process."""
        msg = "a SealedDirectory does not leave its process"
        raise TypeError(msg)


def open_directory(
    place: FileStore | str | os.PathLike[str],
    *,
    key: bytes | KeySource | KeyProvider,
    trusted: Collection[ec.EllipticCurvePublicKey],
    model: bytes | None = None,
    verify_digests: bool = False,
    threads: int | None = None,
) -> SealedDirectory:
    """Verify a sealed directory and open it. The key is not asked for before everything else holds.

    Args:
        place: a folder, or a store.
        key: 32 bytes as released, or where to get them: an ``attest.Session``, or a function of the manifest.
        trusted: the keys whose signatures count; none accepts nothing.
        model: the identity that it must have, 16 bytes; None takes any model of the owner's, an older one too.
        verify_digests: also compare every byte of ciphertext with the signature first.
        threads: how many work at a time; by default one for each processor.

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
    """Check that a trusted key signed this directory, and that its files are there. It takes no key to open it.

    Args:
        place: a folder, or a store; where a store lists nothing, unlisted files are not looked for.
        trusted: the keys whose signatures count; none accepts nothing.
        model: the identity that it must have, 16 bytes; None takes any model of the owner's, an older one too.
        digests: also compare every byte of ciphertext.
        threads: how many compare.
        progress: is told what was compared.

    Raises:
        EvidenceError, SignatureError: as ``verify_model``.
        SealedFileError: ``sealed-manifest-malformed``, ``sealed-manifest-unsupported``, ``sealed-name-unsafe`` or
            ``sealed-folder-unsafe``.
        SealedTamperError: ``sealed-files-mismatch``, ``sealed-size-mismatch``, ``sealed-digest-mismatch`` or
            ``sealed-model-mismatch``.
        SealedSourceError: something cannot be read.
    """
    store = as_store(place)
    # (1) A key of the owner signed a list of files, (2) whose names are safe. (3) The manifest speaks of exactly these.
    manifest, signed = verify_manifest(store, trusted=trusted, model=model)
    # (4) The files are there, no others, with their sizes.
    _require_sizes(store, manifest, signed)
    if digests:
        sizes = {MANIFEST_NAME: len(manifest.to_bytes()), **{one.sealed: one.sealed_size for one in manifest.files}}
        require_digests(store, signed.resources, sizes=sizes, threads=threads, progress=progress)
    return VerifiedDirectory(store=store, manifest=manifest, model=signed, digests_verified=digests)


def _another_model(store: FileStore, *, expected: bytes, got: bytes) -> SealedTamperError:
    return SealedTamperError(
        f"{store.name} is another model of its owner's than was asked for",
        code="sealed-model-mismatch",
        field="model",
        expected=expected.hex(),
        got=got.hex(),
        hint="an older or a newer sealing of the model; 'attest sealed info' shows which one",
    )


def verify_manifest(
    place: FileStore | str | os.PathLike[str],
    *,
    trusted: Collection[ec.EllipticCurvePublicKey],
    model: bytes | None = None,
) -> tuple[SealedManifest, VerifiedModel]:
    """Check that a trusted key signed a manifest and the list of files that it speaks of; look at no other file.

    Args:
        place: a folder, or a store, with ``model.sig`` and ``sealed.json``.
        trusted: the keys whose signatures count; none accepts nothing.
        model: the identity that it must have, 16 bytes; None takes any model of the owner's, an older one too.

    Raises:
        EvidenceError, SignatureError: as ``verify_model``.
        SealedFileError: ``sealed-manifest-malformed``, ``sealed-manifest-unsupported`` or ``sealed-name-unsafe``.
        SealedTamperError: ``sealed-files-mismatch``, or ``sealed-digest-mismatch``: another manifest was signed; or
            ``sealed-model-mismatch``.
        SealedSourceError: one of the two cannot be read.
    """
    _require_keys(trusted)
    store = as_store(place)
    signed = verify_model(_signature(store), trusted=trusted)
    manifest = _signed_manifest(store, signed)
    if model is not None and manifest.model != model:
        raise _another_model(store, expected=model, got=manifest.model)
    return manifest, signed


def unverified_manifest(place: FileStore | str | os.PathLike[str]) -> SealedManifest:
    """Read what a directory says of itself. A stranger's word: nothing is verified.

    Raises:
        SealedFileError: as ``SealedManifest.parse``.
        SealedSourceError: it cannot be read.
    """
    return SealedManifest.parse(as_store(place).read_small(MANIFEST_NAME, MAX_MANIFEST_BYTES))


def _signature(store: FileStore) -> bytes:
    try:
        return store.read_small(SIGNATURE_NAME, MAX_BUNDLE_BYTES)
    except SealedSourceError as exc:
        if exc.got not in {"ENOENT", "ENOTDIR"}:
            raise
        raise SealedSourceError(
            f"{store.name} is no sealed model: there is no {SIGNATURE_NAME}",
            code="sealed-file-missing",
            field=SIGNATURE_NAME,
            hint="check the path; 'attest seal' makes a sealed model of a plain one",
        ) from exc


def _require_keys(trusted: object) -> None:
    if not isinstance(trusted, Collection) or not all(isinstance(one, ec.EllipticCurvePublicKey) for one in trusted):
        msg = 'trusted must be a tuple of public keys: (read_trusted_key(Path("owner.pub").read_bytes()),)'
        raise TypeError(msg)


def _signed_manifest(store: FileStore, model: VerifiedModel) -> SealedManifest:
    listed = {one.name: one.digest for one in model.resources}
    if MANIFEST_NAME not in listed:
        raise _no_sealed_model(store)
    raw = store.read_small(MANIFEST_NAME, MAX_MANIFEST_BYTES)
    if not hmac.compare_digest(sha256(raw).digest(), listed[MANIFEST_NAME]):
        error = digest_mismatch(MANIFEST_NAME, expected=listed[MANIFEST_NAME], got=sha256(raw).digest())
        error.hint = "get the model again; if 'attest sealed rewrap' was interrupted here, run it again"
        raise error
    manifest = SealedManifest.parse(raw)
    require_same_files({one.sealed for one in manifest.files}, listed.keys() - {MANIFEST_NAME}, where=MANIFEST_NAME)
    return manifest


def _no_sealed_model(store: FileStore) -> SealedFileError:
    return SealedFileError(
        f"{store.name} is a signed model, but not a sealed one: {MANIFEST_NAME} is not among its files",
        code="sealed-manifest-malformed",
        field=MANIFEST_NAME,
        hint="'attest seal' seals a model",
    )


def _require_sizes(store: FileStore, manifest: SealedManifest, model: VerifiedModel) -> None:
    expected = {one.sealed: one.sealed_size for one in manifest.files}
    found = store.sizes()
    if found is None:
        return  # Each file's size is compared when it is opened.
    there = {name for name in found if not model.is_ignored(name)}
    require_same_files(there - {MANIFEST_NAME, SIGNATURE_NAME}, expected.keys(), where=store.name)
    for name, size in expected.items():
        require_size(name, found[name], size)

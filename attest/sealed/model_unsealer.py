"""Unsealing of models into a folder in memory, atomically."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.sealed.comparison import FileProgress, Progress, file_digest, require_digests
from attest.sealed.directory import SealedDirectory
from attest.sealed.file_sealer import unseal_file
from attest.sealed.manifest import SealedEntry
from attest.sealed.oms import MAX_BUNDLE_BYTES, SIGNATURE_NAME, VerifiedModel, verify_model
from attest.sealed.signed_manifest import digest_mismatch, require_same_files
from attest.sealed.sources import FileSource, file_identity
from attest.sealed.staging import Workplace, is_memory, remove_unlisted, require_room
from attest.sealed.stores import FolderStore

_SCHEMA: Final = "attest.unsealing/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class UnsealedModel:
    """Result of unsealing.

    Attributes:
        kept: number of files that an interrupted run had finished.
        plaintext_key: hint of the verified signer of the plaintext; None without that check.
    """

    folder: Path
    in_memory: bool
    kept: int
    plaintext_key: str | None


def unseal_directory(
    directory: SealedDirectory,
    target: str | os.PathLike[str],
    *,
    random: Callable[[int], bytes],
    allow_disk: bool = False,
    verify_digests: bool = False,
    plaintext_trusted: Collection[ec.EllipticCurvePublicKey] | None = None,
    progress: Progress | None = None,
) -> UnsealedModel:
    """Write the plaintext of a model into a new folder, or resume an interrupted run.

    Only the owner can access folders and files. The output of an interrupted run stays until the next one, or until
    the folder ``.NAME.unsealing`` beside the target is removed.

    Args:
        directory: the model.
        target: folder to create; must not exist.
        random: returns so many random bytes, for temporary names.
        allow_disk: also write to disk file systems.
        verify_digests: also compare each plaintext with the manifest's SHA-256.
        plaintext_trusted: require a signature over the plaintext (``model.sig`` in the model) by one of these keys;
            None requires none, an empty collection accepts nothing.
        progress: called with a file and its newly finished bytes.

    Raises:
        ConfigurationError: ``target-not-memory``, ``output-exists``, ``output-no-room``, ``output-unwritable``,
            ``sealed-work-in-use``; ``sealed-work-differs``: the interrupted run was for another model;
            ``sealed-no-digests``: the manifest has none.
        SealedTamperError: an invalid file, or ``sealed-journal-invalid``. No part of the file is left.
        EvidenceError, SignatureError: as ``verify_model``, about the signature over the plaintext.
        SealedSourceError: a file is unreadable or unwritable.
    """
    place = Path(target)
    memory = require_memory(place, allow_disk=allow_disk)
    if verify_digests and any(one.sha256 is None for one in directory.entries.values()):
        raise ConfigurationError(
            "the model states no digests of its plaintext",
            code="sealed-no-digests",
            hint="every segment is authenticated without them",
        )
    with Workplace(place, kind="unsealing") as work:
        _require_memory(work.model, place, allow_disk=allow_disk)  # the new folder may be a mount point
        done = _begin(work, directory)
        kept = _run(work, directory, done, random=random, progress=progress)
        if verify_digests:
            _require_plaintexts(work.model, directory)
        signed = None if plaintext_trusted is None else verify_plaintext(work.model, trusted=plaintext_trusted)
        work.finish()
    plaintext_key = None if signed is None else signed.key
    return UnsealedModel(folder=place, in_memory=memory, kept=kept, plaintext_key=plaintext_key)


def verify_plaintext(
    folder: str | os.PathLike[str],
    *,
    trusted: Collection[ec.EllipticCurvePublicKey],
    threads: int | None = None,
    progress: Progress | None = None,
) -> VerifiedModel:
    """Require a trusted signature over exactly the files of a folder, from its ``model.sig``.

    Raises:
        EvidenceError, SignatureError: as ``verify_model``.
        SealedTamperError: ``sealed-files-mismatch`` or ``sealed-digest-mismatch``.
        SealedSourceError: no signature, or an unreadable file.
        SealedFileError: ``sealed-folder-unsafe``.
    """
    store = FolderStore(folder)
    model = verify_model(store.read_small(SIGNATURE_NAME, MAX_BUNDLE_BYTES), trusted=trusted)
    found = {name for name in store.sizes() if name != SIGNATURE_NAME and not model.is_ignored(name)}
    require_same_files(found, {one.name for one in model.resources}, where=store.name)
    require_digests(store, model.resources, threads=threads, progress=progress)
    return model


def _begin(work: Workplace, directory: SealedDirectory) -> Mapping[str, JsonValue]:
    """Start or resume: return the finished files with their times of change."""
    head = work.journal.head()
    first: dict[str, JsonValue] = {"schema": _SCHEMA, "model": directory.manifest.model.hex()}
    if head is None:
        work.journal.begin(first, data_key=directory.data_key())
        return {}
    if head != first:
        raise ConfigurationError(
            f"an interrupted unsealing in {work.folder} was for another model",
            code="sealed-work-differs",
            field=str(work.folder),
            hint=f"remove {work.folder} to start again",
        )
    return {str(one["path"]): one["changed"] for one in work.journal.resume(data_key=directory.data_key())}


def _run(
    work: Workplace,
    directory: SealedDirectory,
    done: Mapping[str, JsonValue],
    *,
    random: Callable[[int], bytes],
    progress: Progress | None,
) -> int:
    kept = {path for path, one in directory.entries.items() if path in done and _identity(work, one) == done[path]}
    remove_unlisted(work.model, kept)
    missing = [one for path, one in directory.entries.items() if path not in kept]
    require_room(work.model, sum(one.size for one in missing))
    for finished in kept:
        FileProgress(finished, progress)(directory.entries[finished].size)
    for entry in missing:
        path = work.model / entry.path
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with directory.open(entry.path) as reader:
            unseal_file(reader, path, random=random, progress=FileProgress(entry.path, progress))
        work.journal.append({"path": entry.path, "changed": _identity(work, entry)})
    return len(kept)


def _identity(work: Workplace, entry: SealedEntry) -> str | None:
    """Return the identity of a written file; None for a missing file."""
    try:
        return file_identity((work.model / entry.path).lstat())
    except OSError:
        return None


def _require_plaintexts(folder: Path, directory: SealedDirectory) -> None:
    for entry in directory.entries.values():
        with FileSource(folder / entry.path) as source:
            got = file_digest(source)
        if entry.sha256 is not None and got != entry.sha256:
            raise digest_mismatch(entry.path, expected=entry.sha256, got=got)


def require_memory(target: Path, *, allow_disk: bool) -> bool:
    """Require a target in memory, unless disks are allowed; return whether it is in memory.

    Raises:
        ConfigurationError: ``target-not-memory``, or ``output-unwritable``: the parent folder is missing.
    """
    if not target.parent.is_dir():
        raise ConfigurationError(
            f"{target.parent} is not a folder: {target.name} cannot be created in it",
            code="output-unwritable",
            field=str(target),
            hint="name a new folder below an existing one, such as /dev/shm",
        )
    return _require_memory(target.parent, target, allow_disk=allow_disk)


def _require_memory(folder: Path, target: Path, *, allow_disk: bool) -> bool:
    memory = is_memory(folder)
    if memory or allow_disk:
        return memory
    raise ConfigurationError(
        f"{folder} is not in memory: plaintext would be written to a disk",
        code="target-not-memory",
        field=str(target),
        expected="tmpfs or ramfs",
        hint="name a folder below /dev/shm, or pass --allow-disk if the disk may contain the model in the clear",
    )

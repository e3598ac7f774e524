"""Sealing of models: every file is encrypted, then manifest and signature are written, and the folder is renamed last.

An interrupted run resumes: finished and unchanged files are kept, others are encrypted again under a new header. The
journal beside the files has the data key in encrypted form, as the manifest does.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.encoding import JsonValue, base64url_bytes, base64url_text
from attest.errors import AttestError, ConfigurationError, SealedFileError, SealedSourceError
from attest.release.names import KeyReference
from attest.release.notes import VerifierKey
from attest.sealed.atomic_file import write_whole
from attest.sealed.cipher import KEY_BYTES
from attest.sealed.comparison import FileProgress, Progress
from attest.sealed.data_key import unwrap_data_key, wrap_data_key
from attest.sealed.file_sealer import seal_file
from attest.sealed.inventory import ModelScan, SourceFile, scan_model
from attest.sealed.layout import ciphertext_size
from attest.sealed.manifest import (
    MANIFEST_NAME,
    MODEL_ID_BYTES,
    SEALED_SUFFIX,
    SealedEntry,
    SealedManifest,
    associated_data,
)
from attest.sealed.oms import SIGNATURE_NAME, ModelResource, sign_model
from attest.sealed.segment_reader import SealedReader
from attest.sealed.sources import FileSource, changed, open_descriptor
from attest.sealed.staging import Workplace, remove_unlisted, require_room

_SCHEMA: Final = "attest.sealing/1"


@dataclass(frozen=True, slots=True, kw_only=True)
class SealingNames:
    """Description of a sealed model in its manifest.

    Attributes:
        key: released key to seal under, with its version.
        service: verifier key of the key-release service; None without one.
        service_url: address of the service, as information.
        policy_digest: SHA-256 of the policy under which the key is to be released.
    """

    key: KeyReference
    service: VerifierKey | None = None
    service_url: str | None = None
    policy_digest: bytes | None = None
    creator: str | None = None

    def members(self) -> dict[str, Any]:  # Any: each has the type of its field
        """Return the members of a manifest with this description."""
        return {one.name: getattr(self, one.name) for one in fields(self)}


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedModel:
    """Result of sealing.

    Attributes:
        left_out: folders outside the model.
        kept: number of files that an interrupted run had finished.
    """

    manifest: SealedManifest
    left_out: tuple[str, ...]
    kept: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _SealedSource:
    """A finished sealed file: its source at that time, its header, and SHA-256 over plaintext and ciphertext."""

    source: SourceFile
    header: bytes
    digest: bytes
    sealed_digest: bytes

    def entry(self, *, fingerprint: bool) -> SealedEntry:
        digest = self.digest if fingerprint else None
        return SealedEntry.of(self.source.path, size=self.source.size, header=self.header, sha256=digest)

    def record(self) -> Mapping[str, JsonValue]:
        return {
            "path": self.source.path,
            "size": self.source.size,
            "identity": self.source.identity,
            "header": self.header.hex(),
            "sha256": self.digest.hex(),
            "sealed_sha256": self.sealed_digest.hex(),
        }

    @staticmethod
    def of(record: Mapping[str, JsonValue]) -> _SealedSource:
        """Parse an authenticated line of the journal."""
        path, size, identity = record["path"], record["size"], record["identity"]
        return _SealedSource(
            source=SourceFile(path=str(path), size=size if isinstance(size, int) else 0, identity=str(identity)),
            header=bytes.fromhex(str(record["header"])),
            digest=bytes.fromhex(str(record["sha256"])),
            sealed_digest=bytes.fromhex(str(record["sealed_sha256"])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _SealingRun:
    """One run over the files of a model.

    Attributes:
        model: identity of the model, 16 bytes.
    """

    folder: Path
    scan: ModelScan
    work: Workplace
    model: bytes
    data_key: bytes = field(repr=False)
    random: Callable[[int], bytes]
    follow_symlinks: bool
    threads: int | None
    progress: Progress | None

    def finished(self, done: tuple[_SealedSource, ...]) -> dict[str, _SealedSource]:
        """Return those files of an interrupted run, by path, that are unchanged and complete."""
        known = {one.source.path: one for one in done}  # for a file sealed twice, the last line counts
        return {
            one.path: known[one.path] for one in self.scan.files if one.path in known and self._is_whole(known, one)
        }

    def _is_whole(self, known: Mapping[str, _SealedSource], source: SourceFile) -> bool:
        """Return True if the source is unchanged, and header and last segment are present."""
        if known[source.path].source != source:
            return False
        try:
            SealedReader(
                FileSource(self._target(source)),
                key=self.data_key,
                associated_data=associated_data(self.model, source.path),
                expected_size=source.size,
                expected_header=known[source.path].header,
                threads=1,
            ).close()
        except SealedFileError:
            return False
        return True

    def run(self, finished: Mapping[str, _SealedSource]) -> tuple[_SealedSource, ...]:
        """Seal the other files, and return all in the order of their paths."""
        remove_unlisted(self.work.model, {path + SEALED_SUFFIX for path in finished})
        missing = [one for one in self.scan.files if one.path not in finished]
        require_room(self.work.model, sum(ciphertext_size(one.size) for one in missing))
        for path, one in finished.items():
            FileProgress(path, self.progress)(one.source.size)
        made = dict(finished)
        for source in missing:
            made[source.path] = self._seal(source)
            self.work.journal.append(made[source.path].record())
        if scan_model(self.folder, follow_symlinks=self.follow_symlinks) != self.scan:
            raise changed(str(self.folder), "the files that were there", "others")
        return tuple(made[one.path] for one in self.scan.files)

    def _seal(self, source: SourceFile) -> _SealedSource:
        target, name = self._target(source), self.folder / source.path
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # A file that has become a link since the inventory is refused.
        descriptor = open_descriptor(name, flags=0 if self.follow_symlinks else os.O_NOFOLLOW)
        try:
            made = seal_file(
                descriptor,
                target,
                key=self.data_key,
                associated_data=associated_data(self.model, source.path),
                random=self.random,
                threads=self.threads,
                progress=FileProgress(source.path, self.progress),
                digests=True,
            )
        finally:
            os.close(descriptor)
        digest, sealed_digest = made.plaintext_sha256, made.ciphertext_sha256
        if digest is None or sealed_digest is None or made.plaintext_size != source.size:
            raise changed(str(name), f"{source.size} bytes", f"{made.plaintext_size}")
        return _SealedSource(source=source, header=made.header, digest=digest, sealed_digest=sealed_digest)

    def _target(self, source: SourceFile) -> Path:
        return self.work.model / (source.path + SEALED_SUFFIX)


def seal_directory(
    source: str | os.PathLike[str],
    target: str | os.PathLike[str],
    *,
    key: bytes,
    names: SealingNames,
    signer: ec.EllipticCurvePrivateKey,
    random: Callable[[int], bytes],
    at: datetime | None,
    fingerprints: bool = True,
    follow_symlinks: bool = False,
    threads: int | None = None,
    progress: Progress | None = None,
) -> SealedModel:
    """Seal a model into a new folder, or resume an interrupted run.

    Args:
        source: folder of the model. Git's folders at its top are left out.
        target: folder to create; must not exist.
        key: 32 bytes as released; wraps the data key, which is generated here.
        names: description of the model.
        signer: of the sealed folder, P-384 or P-256.
        random: returns so many random bytes, such as ``os.urandom``.
        at: moment for people; None omits it.
        fingerprints: state the SHA-256 of plaintexts, which identify public models.
        follow_symlinks: seal the targets of links.
        threads: for encryption; by default one for each processor.
        progress: called with a file and its newly finished bytes, those of an interrupted run included.

    Raises:
        ConfigurationError: ``model-unsealable``, ``output-exists``, ``output-no-room``, ``output-unwritable``,
            ``sealed-key-length``, ``sealed-work-in-use``; ``sealed-work-differs``: the interrupted run had another key
            or description.
        SealedSourceError: a file is unreadable or unwritable, or changed meanwhile.
        SealedFileError: ``sealed-manifest-malformed``: an invalid description; or a file is too large.
        SealedTamperError: ``sealed-journal-invalid``, or ``sealed-key-mismatch``: the interrupted run is not ours.
    """
    folder, place = Path(source), Path(target)
    scan = scan_model(folder, follow_symlinks=follow_symlinks)
    _require_apart(folder, place)
    with Workplace(place, kind="sealing") as work:
        stub, data_key, done = _begin(work, names, key=key, random=random, at=at, fingerprints=fingerprints)
        sealing = _SealingRun(
            folder=folder,
            scan=scan,
            work=work,
            model=stub.model,
            data_key=data_key,
            random=random,
            follow_symlinks=follow_symlinks,
            threads=threads,
            progress=progress,
        )
        kept = sealing.finished(done)
        files = sealing.run(kept)
        manifest = replace(stub, files=tuple(one.entry(fingerprint=fingerprints) for one in files))
        _write_last(work.model, manifest, files, name=place.name, signer=signer)
        work.finish()
    return SealedModel(manifest=manifest, left_out=scan.left_out, kept=len(kept))


def _begin(
    work: Workplace,
    names: SealingNames,
    *,
    key: bytes,
    random: Callable[[int], bytes],
    at: datetime | None,
    fingerprints: bool,
) -> tuple[SealedManifest, bytes, tuple[_SealedSource, ...]]:
    """Start or resume: return the manifest without files, the data key, and the finished files."""
    head = work.journal.head()
    if head is not None:
        stub = _resumed_stub(work, head, names, fingerprints=fingerprints)
        data_key = unwrap_data_key(stub, key=key)
        return stub, data_key, tuple(map(_SealedSource.of, work.journal.resume(data_key=data_key)))
    model, data_key = random(MODEL_ID_BYTES), random(KEY_BYTES)
    wrapped = wrap_data_key(data_key, key=key, model=model, reference=names.key, service=names.service, random=random)
    stub = SealedManifest(model=model, wrapped_key=wrapped, files=(), created_at=at, **names.members())
    head = {"schema": _SCHEMA, "manifest": base64url_text(stub.to_bytes()), "fingerprints": fingerprints}
    work.journal.begin(head, data_key=data_key)
    return stub, data_key, ()


def _resumed_stub(
    work: Workplace, head: Mapping[str, JsonValue], names: SealingNames, *, fingerprints: bool
) -> SealedManifest:
    try:
        stub = SealedManifest.parse(base64url_bytes(str(head.get("manifest")), what="manifest"))
    except AttestError as exc:
        raise _differs(work, "it is of another version, or altered") from exc
    same = all(getattr(stub, name) == value for name, value in names.members().items())
    if not same or head.get("fingerprints") is not fingerprints:
        raise _differs(work, f"it was for {stub.key}, with other names or options")
    return stub


def _differs(work: Workplace, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"an interrupted sealing in {work.folder} cannot resume: {problem}",
        code="sealed-work-differs",
        field=str(work.folder),
        hint=f"use the same options as before, or remove {work.folder} to start again",
    )


def _write_last(
    folder: Path,
    manifest: SealedManifest,
    finished: tuple[_SealedSource, ...],
    *,
    name: str,
    signer: ec.EllipticCurvePrivateKey,
) -> None:
    digests = {one.source.path: one.sealed_digest for one in finished}
    resources = tuple(ModelResource(name=one.sealed, digest=digests[one.path]) for one in manifest.files)
    write_whole(folder / MANIFEST_NAME, manifest.to_bytes())
    write_whole(folder / SIGNATURE_NAME, sign_directory(manifest, resources, name=name, signer=signer))


def sign_directory(
    manifest: SealedManifest, sealed: tuple[ModelResource, ...], *, name: str, signer: ec.EllipticCurvePrivateKey
) -> bytes:
    """Return the signature over a manifest and its sealed files."""
    own = ModelResource(name=MANIFEST_NAME, digest=sha256(manifest.to_bytes()).digest())
    return sign_model((own, *sealed), name=name, signer=signer)


def _require_apart(source: Path, target: Path) -> None:
    try:
        inside = target.resolve().is_relative_to(source.resolve())
    except (OSError, RuntimeError) as exc:
        raise SealedSourceError(
            f"{target} cannot be resolved: {exc}", code="sealed-target-unwritable", field=str(target)
        ) from exc
    if inside:
        raise ConfigurationError(
            f"{target} is inside the model to seal",
            code="output-unwritable",
            field=str(target),
            hint="name a folder beside the model",
        )

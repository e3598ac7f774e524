"""One run of sealing over the files of a model, with resumption of finished ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from attest.encoding import JsonValue
from attest.errors import SealedFileError
from attest.sealed.comparison import FileProgress, Progress
from attest.sealed.file_sealer import seal_file
from attest.sealed.inventory import ModelScan, SourceFile, scan_model
from attest.sealed.layout import ciphertext_size
from attest.sealed.manifest import SEALED_SUFFIX, associated_data
from attest.sealed.segment_reader import SealedReader
from attest.sealed.sources import FileSource, changed, open_descriptor
from attest.sealed.staging import Workplace, remove_unlisted, require_room


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSource:
    """A finished sealed file: its source at that time, its header, and SHA-256 over plaintext and ciphertext."""

    source: SourceFile
    header: bytes
    digest: bytes
    sealed_digest: bytes

    def record(self) -> Mapping[str, JsonValue]:
        """Return its line of the journal."""
        return {
            "path": self.source.path,
            "size": self.source.size,
            "identity": self.source.identity,
            "header": self.header.hex(),
            "sha256": self.digest.hex(),
            "sealed_sha256": self.sealed_digest.hex(),
        }

    @staticmethod
    def of(record: Mapping[str, JsonValue]) -> SealedSource:
        """Parse an authenticated line of the journal."""
        path, size, identity = record["path"], record["size"], record["identity"]
        return SealedSource(
            source=SourceFile(path=str(path), size=size if isinstance(size, int) else 0, identity=str(identity)),
            header=bytes.fromhex(str(record["header"])),
            digest=bytes.fromhex(str(record["sha256"])),
            sealed_digest=bytes.fromhex(str(record["sealed_sha256"])),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class SealingRun:
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

    def finished(self, done: tuple[SealedSource, ...]) -> dict[str, SealedSource]:
        """Return those files of an interrupted run, by path, that are unchanged and complete."""
        known = {one.source.path: one for one in done}  # for a file sealed twice, the last line counts
        return {
            one.path: known[one.path] for one in self.scan.files if one.path in known and self._is_whole(known, one)
        }

    def _is_whole(self, known: Mapping[str, SealedSource], source: SourceFile) -> bool:
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

    def run(self, finished: Mapping[str, SealedSource]) -> tuple[SealedSource, ...]:
        """Seal the other files, and return all in the order of their paths.

        Raises:
            ConfigurationError: ``output-no-room``.
            SealedSourceError: a file is unreadable or unwritable, or changed meanwhile.
            SealedFileError: a file is too large.
        """
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

    def _seal(self, source: SourceFile) -> SealedSource:
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
        return SealedSource(source=source, header=made.header, digest=digest, sealed_digest=sealed_digest)

    def _target(self, source: SourceFile) -> Path:
        return self.work.model / (source.path + SEALED_SUFFIX)

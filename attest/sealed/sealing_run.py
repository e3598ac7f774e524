"""One run of sealing over the files of a model, with resumption of finished ones."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from attest.encoding import JsonValue
from attest.errors import SealedFileError
from attest.sealed.comparison import Progress
from attest.sealed.file_sealer import seal_file
from attest.sealed.inventory import ModelScan, SourceFile
from attest.sealed.layout import ciphertext_size
from attest.sealed.manifest import SEALED_SUFFIX, associated_data
from attest.sealed.segment_reader import SealedReader
from attest.sealed.sources import FileSource, changed, unreadable
from attest.sealed.staging import Workplace, remove_unlisted, require_room


@dataclass(frozen=True, slots=True, kw_only=True)
class SealedSource:
    """A finished sealed file.

    Attributes:
        source: the source's identity at that time.
        header: of the sealed file, 40 bytes.
        digest: SHA-256 of its plaintext.
        sealed_digest: SHA-256 of its ciphertext.
    """

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
        size = record["size"]
        return SealedSource(
            source=SourceFile(
                path=str(record["path"]), size=size if isinstance(size, int) else 0, identity=str(record["identity"])
            ),
            header=bytes.fromhex(str(record["header"])),
            digest=bytes.fromhex(str(record["sha256"])),
            sealed_digest=bytes.fromhex(str(record["sealed_sha256"])),
        )


class SealingRun:
    """One run over the files of a model.

    Args:
        folder: the model.
        scan: its inventory.
        random: returns so many random bytes.
        follow_symlinks: seal the targets of links.
        threads: for encryption.
        progress: called with a file and its newly finished bytes.
    """

    def __init__(
        self,
        folder: Path,
        scan: ModelScan,
        *,
        random: Callable[[int], bytes],
        follow_symlinks: bool,
        threads: int | None,
        progress: Progress | None,
    ) -> None:
        self._folder = folder
        self._scan = scan
        self._random = random
        self._follow_symlinks = follow_symlinks
        self._threads = threads
        self._progress = progress
        self.kept = 0

    def run(
        self, work: Workplace, model: bytes, data_key: bytes, done: tuple[SealedSource, ...]
    ) -> tuple[SealedSource, ...]:
        """Seal the remaining files, and return all in the order of their paths.

        Args:
            work: folder of the output.
            model: identity of the model, 16 bytes.
            data_key: 32 bytes.
            done: files finished by an interrupted run, in its order.

        Raises:
            ConfigurationError: ``output-no-room``.
            SealedSourceError: a file is unreadable or unwritable, or changed meanwhile.
            SealedFileError: a file is too large.
        """
        # For a file sealed twice, the last line counts.
        known = {one.source.path: one for one in done}
        finished: dict[str, SealedSource] = {
            one.path: known[one.path]
            for one in self._scan.files
            if one.path in known and self._is_whole(work.model, known[one.path], one, model, data_key)
        }
        self.kept = len(finished)
        remove_unlisted(work.model, {path + SEALED_SUFFIX for path in finished})
        missing = [one for one in self._scan.files if one.path not in finished]
        require_room(work.model, sum(ciphertext_size(one.size) for one in missing))
        for path, one in finished.items():
            self._tell(path, one.source.size)
        for source in missing:
            finished[source.path] = self._seal(work, source, model, data_key)
            work.journal.append(finished[source.path].record())
        return tuple(finished[one.path] for one in self._scan.files)

    @staticmethod
    def _is_whole(folder: Path, known: SealedSource, source: SourceFile, model: bytes, data_key: bytes) -> bool:
        """Return whether a file is finished: source unchanged, and header and last segment present."""
        if known.source != source:
            return False
        try:
            SealedReader(
                FileSource(folder / (source.path + SEALED_SUFFIX)),
                key=data_key,
                associated_data=associated_data(model, source.path),
                expected_size=source.size,
                expected_header=known.header,
                threads=1,
            ).close()
        except SealedFileError:
            return False
        return True

    def _seal(self, work: Workplace, source: SourceFile, model: bytes, data_key: bytes) -> SealedSource:
        target = work.model / (source.path + SEALED_SUFFIX)
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        before = 0

        def tell(done: int) -> None:
            nonlocal before
            self._tell(source.path, done - before)
            before = done

        name = self._folder / source.path
        # A file that has become a link since the inventory is refused.
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | (0 if self._follow_symlinks else os.O_NOFOLLOW)
        try:
            descriptor = os.open(name, flags)
        except OSError as exc:
            raise unreadable(str(name), exc) from exc
        try:
            made = seal_file(
                descriptor,
                target,
                key=data_key,
                associated_data=associated_data(model, source.path),
                random=self._random,
                threads=self._threads,
                progress=tell,
                digests=True,
            )
        finally:
            os.close(descriptor)
        if made.plaintext_sha256 is None or made.ciphertext_sha256 is None or made.plaintext_size != source.size:
            raise changed(str(name), f"{source.size} bytes", f"{made.plaintext_size}")
        return SealedSource(
            source=source,
            header=made.header,
            digest=made.plaintext_sha256,
            sealed_digest=made.ciphertext_sha256,
        )

    def _tell(self, path: str, count: int) -> None:
        if self._progress is not None:
            self._progress(path, count)

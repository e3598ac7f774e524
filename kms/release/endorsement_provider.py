"""Endorsements from the operator's files, read at start and on SIGHUP, and optionally from the vendors' services."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from attest import Endorsements, Evidence, read_endorsements
from attest.endorsements import BundleTrust, UnsignedBundles
from attest.errors import ConfigurationError
from attest.evidence import MAX_FILE_BYTES, MAX_FILES
from attest.fetch import VendorServices, gather_for_evidence
from kms.release.vendor_cache import NotedCache

REREAD_SECONDS: Final = 600
"""Interval at which loaded bundles are checked for expiry, without reading the disk."""

Report = Callable[[str], None]
"""Callback for a message to the operator."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchService:
    """The vendors' services with the cache of their answers."""

    vendors: VendorServices
    cache: NotedCache | None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    endorsements: Endorsements
    at: datetime


class EndorsementProvider:
    """Provider of endorsements, as candidates for verification. ``reload`` reads the files.

    Directories are read with all that is below them. ``service`` is the source of what the files lack.
    """

    def __init__(
        self,
        paths: tuple[Path, ...],
        *,
        bundle_trust: BundleTrust = UnsignedBundles.ACCEPTED,
        service: FetchService | None = None,
        report: Report = lambda _: None,
    ) -> None:
        self._paths = paths
        self._bundle_trust = bundle_trust
        self._service = service
        self._report = report
        self._files: tuple[tuple[str, bytes], ...] = ()
        self._read: _Read | None = None

    @property
    def service(self) -> FetchService | None:
        """Vendors' services for endorsements that the files lack, or None."""
        return self._service

    def reload(self, *, at: datetime) -> None:
        """Read every file again. If one is unreadable, the previous content stays in use.

        Raises:
            ConfigurationError: ``endorsements-unreadable``.
        """
        files = tuple(_contents(self._paths))
        found = read_endorsements(files, at=at, bundle_keys=self._bundle_trust)
        for warning in found.warnings:
            self._report(f"warning: endorsements: {warning}")
        self._files, self._read = files, _Read(endorsements=found.endorsements, at=at)

    def current(self, *, at: datetime) -> Endorsements:
        """Return the endorsements in the files, as of this moment."""
        read = self._read
        if read is None or not timedelta(0) <= at - read.at < timedelta(seconds=REREAD_SECONDS):
            found = read_endorsements(self._files, at=at, bundle_keys=self._bundle_trust)
            read = self._read = _Read(endorsements=found.endorsements, at=at)
        return read.endorsements

    def at_hand(self, *, at: datetime) -> Endorsements:
        """Return the endorsements in the files and the recently used ones in the cache, without network access."""
        current = self.current(at=at)
        cache = None if self._service is None else self._service.cache
        return current.merged(cache.endorsements()) if cache is not None else current

    def fetched(self, evidence: Evidence, *, at: datetime) -> Endorsements | None:
        """Fetch the endorsements that this evidence needs; None if there is no service, or it returned none.

        Current endorsements come from the cache; only the others are requested.

        Raises:
            EvidenceError: the evidence cannot be read.
            ChainError: the names in a quote's PCK certificate are not Intel's.
            ConfigurationError: the cache or the network settings cannot be used.
        """
        if self._service is None:
            return None
        gathered = gather_for_evidence(evidence, at=at, services=self._service.vendors, cache=self._service.cache)
        return gathered.endorsements if gathered.entries else None


def _contents(paths: Iterable[Path]) -> Iterable[tuple[str, bytes]]:
    """Read files in the order of their names; refuse a directory over the limits."""
    count = 0
    try:
        for path in paths:
            files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
            for file in files:
                count += 1
                if count > MAX_FILES:
                    raise _unreadable(path, f"more than {MAX_FILES} files")
                with file.open("rb") as stream:
                    yield str(file), stream.read(MAX_FILE_BYTES + 1)
    except OSError as exc:
        raise _unreadable(Path(str(exc.filename)), exc.strerror or str(exc)) from exc


def _unreadable(path: Path, problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"endorsements cannot be read from {path}: {problem}",
        code="endorsements-unreadable",
        field="endorsements",
        got=problem,
        hint="name existing files or directories; create a bundle with 'attest endorsements fetch'",
    )

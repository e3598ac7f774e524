"""Endorsements on disk, so that each is fetched once.

A cache is no anchor. A writer can withhold an endorsement or plant one that verification refuses. The cache is private
all the same, because its file names and contents tell which chips were looked at.

One file for each request, ``<kind>/<digest of service and request>.cbor``, in canonical CBOR::

    {"format": "attest.cache/1", "service": text, "request": text, "source": text, "data": bytes,
     "received": RFC 3339, for a RIM only, "digest": SHA-256 of the canonical CBOR of the rest}

A file is replaced as a whole, so that a reader sees the old or the new one and never a part.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import astuple
from hashlib import sha256
from pathlib import Path
from typing import cast, get_args

from attest.encoding import CborValue, cbor_bytes, cbor_value, rfc3339, rfc3339_text
from attest.endorsements.bundle_records import MAX_BUNDLE_BYTES, BundleEntry, EntryKind
from attest.endorsements.requests import EndorsementRequest, NvidiaOcspRequest
from attest.errors import ConfigurationError, EndorsementError, EvidenceError, OutputError
from attest.fetch.answers import CheckedAnswer, kind_of_request, max_answer_bytes, read_answer
from attest.files import write_file
from attest.user_folders import user_folder

_FORMAT = "attest.cache/1"
_DIRECTORY_MODE = 0o700
_OVERHEAD_BYTES = 8192
"""Maximum size of a record without the answer: two addresses and the request."""


def default_cache_directory(environ: Mapping[str, str]) -> Path:
    """Return ``$XDG_CACHE_HOME/attest/endorsements``, by default below ``~/.cache``.

    Raises:
        ConfigurationError: ``endorsement-cache-unusable``, neither variable names an absolute path.
    """
    base = user_folder("XDG_CACHE_HOME", ".cache", environ)
    if base is not None:
        return base / "attest" / "endorsements"
    raise ConfigurationError(
        "there is no directory for the cache of endorsements",
        code="endorsement-cache-unusable",
        expected="XDG_CACHE_HOME or HOME with an absolute path",
        hint="name a directory with --cache DIR, or set XDG_CACHE_HOME",
    )


class EndorsementCache:
    """A directory of answers, made with the first one, for its owner alone; files in it are 0600."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    @property
    def directory(self) -> Path:
        """Directory of the answers."""
        return self._directory

    def read(self, request: EndorsementRequest, *, service: str) -> CheckedAnswer | None:
        """Return the answer to a request of this service, or None when there is none that can be read.

        A record that is cut off, altered or of another request counts as absent, and the next one replaces it.

        Raises:
            ConfigurationError: ``endorsement-cache-unusable``, the directory or file is there and cannot be opened.
        """
        path = self._path(request, service)
        try:
            with path.open("rb") as file:
                record = file.read(max_answer_bytes(request) + _OVERHEAD_BYTES + 1)
        except FileNotFoundError:
            return None
        except OSError as exc:
            raise self._unusable(exc.strerror or str(exc)) from exc
        try:
            return _answer_of(record, request, service)
        except (EvidenceError, EndorsementError):
            return None  # damaged, or kept by another version

    def write(self, answer: CheckedAnswer, *, service: str) -> None:
        """Keep an answer, in place of an earlier one to the same request.

        Raises:
            ConfigurationError: ``endorsement-cache-unusable``.
        """
        path = self._path(answer.request, service)
        record = cbor_bytes(_record(answer, service))
        try:
            _make_directory(path.parent)
            write_file(path, record, replace=True)
        except OSError as exc:
            raise self._unusable(exc.strerror or str(exc)) from exc
        except OutputError as exc:
            raise self._unusable(exc.reason) from exc

    def entries(self) -> Iterator[BundleEntry]:
        """Return every answer that can be read, as a bundle would hold it, in the order of the files' names.

        Raises:
            ConfigurationError: ``endorsement-cache-unusable``.
        """
        try:
            paths = sorted(self._directory.glob("*/*.cbor"))
            for path in paths:
                with path.open("rb") as file:
                    record = file.read(MAX_BUNDLE_BYTES)
                entry = _entry_of(path.parent.name, record)
                if entry is not None:
                    yield entry
        except OSError as exc:
            raise self._unusable(exc.strerror or str(exc)) from exc

    def _path(self, request: EndorsementRequest, service: str) -> Path:
        digest = sha256(cbor_bytes((service, _name_of(request)))).hexdigest()
        return self._directory / kind_of_request(request) / f"{digest}.cbor"

    def _unusable(self, problem: str) -> ConfigurationError:
        return ConfigurationError(
            f"the cache of endorsements {self._directory} cannot be used: {problem}",
            code="endorsement-cache-unusable",
            got=problem,
            hint="name another directory with --cache DIR, or set XDG_CACHE_HOME",
        )


def _name_of(request: EndorsementRequest) -> bytes:
    """Return a request as canonical bytes: its kind and its fields in order.

    A serial number may have 20 bytes, more than an integer here; what people call a certificate tells nothing apart.
    """
    if isinstance(request, NvidiaOcspRequest):
        issuer = request.issuer
        return cbor_bytes((kind_of_request(request), f"{request.serial:x}", issuer.subject, issuer.spki))
    return cbor_bytes((kind_of_request(request), *astuple(request)))


def _record(answer: CheckedAnswer, service: str) -> CborValue:
    """Make a record. Its digest is over all of it, so that damage to any part is noticed."""
    content: dict[str, CborValue] = {
        "format": _FORMAT,
        "service": service,
        "request": _name_of(answer.request),
        "source": answer.source,
        "data": answer.data,
    }
    if answer.received is not None:
        content["received"] = rfc3339_text(answer.received)
    return {**content, "digest": sha256(cbor_bytes(content)).digest()}


def _answer_of(record: bytes, request: EndorsementRequest, service: str) -> CheckedAnswer | None:
    """Read a record back; None unless every byte of it is what ``write`` wrote for this request."""
    found = cbor_value(record, what="cache record")
    if not isinstance(found, Mapping):
        return None
    source, data, stated = found.get("source"), found.get("data"), found.get("received")
    if not isinstance(source, str) or not isinstance(data, bytes):
        return None
    received = rfc3339(stated, what="received") if isinstance(stated, str) else None
    answer = read_answer(request, data, source=source, cached=True, received=received)
    return answer if cbor_bytes(_record(answer, service)) == record else None


def _entry_of(kind: str, record: bytes) -> BundleEntry | None:
    """Read a record without its request; None for what is damaged, or of no known kind."""
    try:
        found = cbor_value(record, what="cache record")
    except EvidenceError:
        return None
    if not isinstance(found, Mapping) or kind not in get_args(EntryKind):
        return None
    rest = {name: value for name, value in found.items() if name != "digest"}
    source, data = found.get("source"), found.get("data")
    whole = found.get("digest") == sha256(cbor_bytes(rest)).digest()
    if not whole or not isinstance(source, str) or not isinstance(data, bytes):
        return None
    return BundleEntry(kind=cast("EntryKind", kind), source=source, data=data)  # compared above


def _make_directory(directory: Path) -> None:
    """Make a directory with all that is missing above it, each for its owner alone."""
    if not directory.is_dir():
        _make_directory(directory.parent)
        directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)

"""Sealed files and models by location: a path, ``https://…``, or ``s3://bucket/key``."""

from __future__ import annotations

import os
from typing import Final

from attest.errors import ConfigurationError
from attest.sealed.http_connections import HeaderSource
from attest.sealed.http_source import HttpSource, HttpStore
from attest.sealed.ranges import RetryPolicy
from attest.sealed.s3_source import S3Source, S3Store
from attest.sealed.sources import FileSource, Source
from attest.sealed.stores import FolderStore

_BLOB: Final = (
    "Azure Blob Storage: use https://ACCOUNT.blob.core.windows.net/CONTAINER/PATH, with --headers for the token"
)
_GOOGLE: Final = "Google Cloud Storage: use s3://BUCKET/PATH with --endpoint-url https://storage.googleapis.com"
_OCI: Final = "an OCI registry: pull the artifact first, for example with 'oras pull', and give the folder"
_ELSEWHERE: Final = {"az": _BLOB, "abfs": _BLOB, "abfss": _BLOB, "gs": _GOOGLE, "gcs": _GOOGLE, "oci": _OCI}
"""What to use for addresses of other programs."""


def source_of(
    place: str | os.PathLike[str],
    *,
    headers: HeaderSource | None = None,
    endpoint_url: str | None = None,
    patience: RetryPolicy | None = None,
) -> Source:
    """Open a sealed file at a location.

    ``headers`` are for URLs, ``endpoint_url`` is for object storage other than Amazon's.

    Raises:
        ConfigurationError: ``sealed-url-invalid``, ``s3-unavailable``, ``s3-settings-invalid`` or
            ``network-settings-invalid``.
        SealedSourceError: it cannot be opened.
    """
    if isinstance(place, str) and _is_s3(place):
        return S3Source(place, endpoint_url=endpoint_url, patience=patience)
    if isinstance(place, str) and _is_url(place):
        _require_scheme(place)
        return HttpSource(place, headers=headers, patience=patience)
    return FileSource(place)


def store_of(
    place: str | os.PathLike[str],
    *,
    headers: HeaderSource | None = None,
    endpoint_url: str | None = None,
    patience: RetryPolicy | None = None,
) -> FolderStore | HttpStore | S3Store:
    """Return the store of a sealed model at a folder, a URL, or ``s3://bucket/prefix``, without reading.

    The caller closes it. Other arguments, and errors, as ``source_of``.
    """
    if isinstance(place, str) and _is_s3(place):
        return S3Store(place, endpoint_url=endpoint_url, patience=patience)
    if isinstance(place, str) and _is_url(place):
        _require_scheme(place)
        return HttpStore(place, headers=headers, patience=patience)
    return FolderStore(place)


def _require_scheme(place: str) -> None:
    """Refuse an address of a kind that cannot be read, and say what can.

    Raises:
        ConfigurationError: ``sealed-url-invalid``.
    """
    scheme = place.partition("://")[0].lower()
    if scheme in {"http", "https"}:
        return
    named = _ELSEWHERE.get(scheme)
    raise ConfigurationError(
        f"addresses of the kind {scheme[:40]}:// cannot be read",
        code="sealed-url-invalid",
        expected="a path, https://, http:// or s3://",
        got=f"{scheme[:40]}://",
        hint=named or "check the spelling; a local path has no '://'",
    )


def connections_of(place: object) -> int | None:
    """Return the number of parallel requests of a remote source or store; None for local ones.

    Readers of remote files use as many threads: they wait for the network, not for a processor.
    """
    known = getattr(place, "connections", None)
    return known if isinstance(known, int) else None


def _is_s3(place: str) -> bool:
    return place.lower().startswith("s3://")


def _is_url(place: str) -> bool:
    # Any scheme counts, so that a misspelt one is refused instead of taken for a path.
    scheme, separator, _ = place.partition("://")
    return bool(separator) and scheme.isalnum()

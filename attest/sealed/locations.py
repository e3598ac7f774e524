"""Sealed files and models by location: a path, a URL, or an address in object storage or a registry."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final

from attest.errors import ConfigurationError
from attest.sealed.azure_blob import azure_place
from attest.sealed.cloud_places import HttpPlace
from attest.sealed.google_storage import google_place
from attest.sealed.http_connections import HeaderSource
from attest.sealed.http_source import HttpSource, HttpStore
from attest.sealed.oci_artifact import OciSource, OciStore
from attest.sealed.ranges import RetryPolicy
from attest.sealed.s3_source import S3Source, S3Store
from attest.sealed.sources import FileSource, Source
from attest.sealed.stores import FolderStore

_SUPPORTED: Final = "a path, https://, http://, s3://, az://, abfss://, gs:// or oci://"
_PLACES: Final[Mapping[str, Callable[..., HttpPlace]]] = MappingProxyType(
    {"az": azure_place, "abfs": azure_place, "abfss": azure_place, "gs": google_place, "gcs": google_place}
)
"""Object storage that is read over HTTP."""


def source_of(
    place: str | os.PathLike[str],
    *,
    headers: HeaderSource | None = None,
    endpoint_url: str | None = None,
    patience: RetryPolicy | None = None,
) -> Source:
    """Open a sealed file at a location.

    ``headers`` are for URLs, ``endpoint_url`` is for object storage at another address than its service's own.

    Raises:
        ConfigurationError: ``sealed-url-invalid``, ``network-settings-invalid`` or ``headers-invalid``; for ``s3``,
            ``azure`` and ``gs``, ``…-unavailable`` or ``…-settings-invalid``; ``oci-settings-invalid``.
        SealedFileError: ``oci-artifact-invalid`` or ``oci-digest-mismatch``.
        SealedSourceError: it cannot be opened.
    """
    scheme = _scheme_of(place)
    if scheme is None:
        return FileSource(place)
    place = str(place)
    if scheme == "s3":
        return S3Source(place, endpoint_url=endpoint_url, patience=patience)
    if scheme == "oci":
        return OciSource(place, patience=patience)
    if scheme in _PLACES:
        url, access = _PLACES[scheme](place, endpoint_url=endpoint_url)
        return HttpSource(url, access=access, patience=patience)
    return HttpSource(place, headers=headers, patience=patience)


def store_of(
    place: str | os.PathLike[str],
    *,
    headers: HeaderSource | None = None,
    endpoint_url: str | None = None,
    patience: RetryPolicy | None = None,
) -> FolderStore | HttpStore | S3Store | OciStore:
    """Return the store of a sealed model at a location. Only an artifact of a registry is asked for yet.

    The caller closes it. Other arguments, and errors, as ``source_of``.
    """
    scheme = _scheme_of(place)
    if scheme is None:
        return FolderStore(place)
    place = str(place)
    if scheme == "s3":
        return S3Store(place, endpoint_url=endpoint_url, patience=patience)
    if scheme == "oci":
        return OciStore(place, patience=patience)
    if scheme in _PLACES:
        url, access = _PLACES[scheme](place, endpoint_url=endpoint_url)
        return HttpStore(url, access=access, patience=patience)
    return HttpStore(place, headers=headers, patience=patience)


def _scheme_of(place: str | os.PathLike[str]) -> str | None:
    """Return the scheme of an address; None for a local path.

    Any scheme counts, so that a misspelt one is refused instead of taken for a path.

    Raises:
        ConfigurationError: ``sealed-url-invalid``: addresses of this kind cannot be read.
    """
    scheme, separator, _ = place.partition("://") if isinstance(place, str) else ("", "", "")
    if not separator or not scheme.isalnum():
        return None
    scheme = scheme.lower()
    if scheme in {"http", "https", "s3", "oci"} or scheme in _PLACES:
        return scheme
    raise ConfigurationError(
        f"addresses of the kind {scheme[:40]}:// cannot be read",
        code="sealed-url-invalid",
        expected=_SUPPORTED,
        got=f"{scheme[:40]}://",
        hint="check the spelling; a local path has no '://'",
    )


def connections_of(place: object) -> int | None:
    """Return the number of parallel requests of a remote source or store; None for local ones.

    Readers of remote files use as many threads: they wait for the network, not for a processor.
    """
    known = getattr(place, "connections", None)
    return known if isinstance(known, int) else None

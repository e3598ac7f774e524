"""Sealed models as artifacts in OCI registries: each file is a layer whose title is its path, as from ``oras push``.

A tag is resolved once, at opening; from then on everything is asked for by digest. Blobs are read by ranges, as files
on a web server.

Spec: OCI Distribution 1.1, pulling manifests and blobs; OCI Image 1.1, image manifest and annotations.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from attest.encoding import json_value
from attest.errors import EvidenceError, SealedFileError, SealedTamperError
from attest.sealed.http_connections import HttpAccess, HttpConnections, answer_invalid, bad_url, blocks_of, not_found
from attest.sealed.http_source import MAX_SIZE, HttpSource
from attest.sealed.names import MAX_FILES
from attest.sealed.ranges import RetryPolicy
from attest.sealed.registry_tokens import RegistryTokens
from attest.sealed.remote_source import RemoteStore

MAX_MANIFEST_BYTES: Final = 4 << 20
"""Registries accept at least this much (OCI Distribution 1.1), and few accept more."""
_TITLE: Final = "org.opencontainers.image.title"
_MANIFESTS: Final = "application/vnd.oci.image.manifest.v1+json, application/vnd.docker.distribution.manifest.v2+json"
_DIGEST: Final = re.compile(r"sha256:[0-9a-f]{64}")
_REPOSITORY: Final = r"[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*(?:/[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*)*"
_ADDRESS: Final = re.compile(
    rf"oci://(?P<registry>[A-Za-z0-9.-]+|\[::1\])(?P<port>:[0-9]{{1,5}})?/(?P<repository>{_REPOSITORY})"
    r"(?::(?P<tag>[A-Za-z0-9_][A-Za-z0-9._-]{0,127}))?(?:@(?P<digest>sha256:[0-9a-f]{64}))?(?:#(?P<file>[^\x00-\x1f\x7f]+))?"
)
_LOOPBACK: Final = frozenset({"127.0.0.1", "[::1]", "localhost"})
_DOCKER_HUB: Final = "registry-1.docker.io"


@dataclass(frozen=True, slots=True, kw_only=True)
class OciAddress:
    """Location of an artifact: the base of its repository, and a tag or digest.

    Attributes:
        registry: host and port, also the name under which credentials are kept.
        base: ``https://registry/v2/repository``; ``http`` on the loopback address, as in other programs.
        reference: a digest if there is one, otherwise a tag.
        file: title of one layer; None for the whole artifact.
    """

    registry: str
    repository: str
    base: str
    reference: str
    file: str | None

    @staticmethod
    def parse(url: str) -> OciAddress:
        """Parse ``oci://registry/repository:tag`` or ``…@sha256:digest``, with ``#file`` for one file.

        Raises:
            ConfigurationError: ``sealed-url-invalid``.
        """
        match = _ADDRESS.fullmatch(url)
        if match is None or len(match["repository"]) > 255:
            raise bad_url(repr(url[:200]), "oci://REGISTRY/REPOSITORY:TAG or oci://REGISTRY/REPOSITORY@sha256:DIGEST")
        registry = match["registry"] + (match["port"] or "")
        scheme = "http" if match["registry"] in _LOOPBACK else "https"
        host = _DOCKER_HUB if registry == "docker.io" else registry
        return OciAddress(
            registry=registry,
            repository=match["repository"],
            base=f"{scheme}://{host}/v2/{match['repository']}",
            reference=match["digest"] or match["tag"] or "latest",
            file=match["file"],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Layer:
    digest: str
    size: int


class OciStore(RemoteStore):
    """A sealed directory that is an artifact of a registry; opening it reads its manifest.

    Credentials are those of ``docker login``, ``podman login`` or ``oras login``; without any, access is anonymous.

    Args:
        url: ``oci://registry/repository:tag`` or ``oci://registry/repository@sha256:digest``.

    Raises:
        ConfigurationError: ``sealed-url-invalid``, ``oci-settings-invalid`` or ``network-settings-invalid``.
        SealedSourceError: ``sealed-source-…``: unreachable, not-found, refused, answer-invalid.
        SealedTamperError: ``oci-digest-mismatch``: the manifest is not that of the digest.
        SealedFileError: ``oci-artifact-invalid``: not an artifact of files with titles.
    """

    def __init__(self, url: str, *, patience: RetryPolicy | None = None, trust_env: bool = True) -> None:
        self._address = OciAddress.parse(url)
        self._name = f"oci://{self._address.registry}/{self._address.repository}"
        patience = patience or RetryPolicy()
        self._tokens = RegistryTokens(
            self._address.base, registry=self._address.registry, repository=self._address.repository,
            patience=patience, trust_env=trust_env,
        )  # fmt: skip
        access = HttpAccess(headers=self._tokens, hint="log in to the registry with 'docker login' or 'oras login'")
        self._client = HttpConnections(access=access, patience=patience, trust_env=trust_env)
        super().__init__(self._name, patience=patience, owned=self._client)
        try:
            self._layers = self._read_manifest(patience)
        except BaseException:
            self.close()
            raise

    def _read_manifest(self, patience: RetryPolicy) -> Mapping[str, _Layer]:
        reference = self._address.reference
        raw = patience.retried(lambda: self._received(f"{self._address.base}/manifests/{reference}"))
        digest = f"sha256:{hashlib.sha256(raw).hexdigest()}"
        if _DIGEST.fullmatch(reference) and digest != reference:
            raise SealedTamperError(
                f"{self._name}: the registry's manifest is not that of the digest",
                code="oci-digest-mismatch",
                expected=reference,
                got=digest,
                hint="the registry, or something between, returned another artifact",
            )
        return _layers_of(self._name, raw)

    def _received(self, url: str) -> bytes:
        with self._client.get(url, {"Accept": _MANIFESTS}) as response:
            if response.status != 200:
                raise answer_invalid(self._name, "status 200", f"status {response.status}")
            raw = bytearray()
            for block in blocks_of(response):
                raw += block
                if len(raw) > MAX_MANIFEST_BYTES:
                    raise answer_invalid(self._name, f"at most {MAX_MANIFEST_BYTES} bytes of manifest", "more")
        return bytes(raw)

    def open(self, name: str) -> HttpSource:
        """Open a file of the artifact; errors as ``HttpSource``."""
        layer = self._layers.get(name)
        if layer is None:
            hint = "push the files of the sealed folder with their paths in it as titles"
            raise not_found(f"{self._name}: {name}", "no layer has this title", hint=hint)
        url = f"{self._address.base}/blobs/{quote(layer.digest, safe=':')}"
        return HttpSource(url, over=self._client, size=layer.size)

    def close(self) -> None:
        """Close the connections; repeated calls are harmless."""
        self._tokens.close()
        super().close()


class OciSource(HttpSource):
    """One file of an artifact: ``oci://registry/repository:tag#file``; errors as ``OciStore``."""

    def __init__(self, url: str, *, patience: RetryPolicy | None = None) -> None:
        address = OciAddress.parse(url)
        if address.file is None:
            raise bad_url(repr(url[:200]), "oci://REGISTRY/REPOSITORY:TAG#FILE for one file of an artifact")
        self._store = OciStore(url, patience=patience)
        try:
            opened = self._store.open(address.file)
        except BaseException:
            self._store.close()
            raise
        super().__init__(opened.url, over=opened.client, size=opened.size)

    def close(self) -> None:
        """Close the connections; repeated calls are harmless."""
        super().close()
        self._store.close()


def _layers_of(name: str, raw: bytes) -> Mapping[str, _Layer]:
    """Parse the titles, digests and sizes of a manifest's layers.

    Raises:
        SealedFileError: ``oci-artifact-invalid``.
    """
    try:
        manifest = json_value(raw, what="manifest")
    except EvidenceError as exc:
        raise _invalid(name, "a manifest in JSON", "other bytes") from exc
    layers = manifest.get("layers") if isinstance(manifest, dict) else None
    if not isinstance(layers, list) or len(layers) > 2 * MAX_FILES:
        raise _invalid(name, "the manifest of one artifact, with layers", "an index, or something else")
    found: dict[str, _Layer] = {}
    for layer in layers:
        annotations = layer.get("annotations") if isinstance(layer, dict) else None
        title = annotations.get(_TITLE) if isinstance(annotations, dict) else None
        if not isinstance(layer, dict) or not isinstance(title, str):
            continue  # not a file, such as the layer of an image
        if title in found:
            raise _invalid(name, "layers with different titles", repr(title[:100]))
        digest, size = layer.get("digest"), layer.get("size")
        sound = isinstance(digest, str) and _DIGEST.fullmatch(digest) is not None
        if not sound or not isinstance(size, int) or not 0 <= size <= MAX_SIZE:
            raise _invalid(name, "layers with a SHA-256 digest and a size", repr(title[:100]))
        found[title] = _Layer(digest=str(digest), size=size)
    if not found:
        raise _invalid(name, f"layers with the annotation {_TITLE}", "none")
    return found


def _invalid(name: str, expected: str, got: str) -> SealedFileError:
    return SealedFileError(
        f"{name} is not an artifact of files: expected {expected}, got {got}",
        code="oci-artifact-invalid",
        expected=expected,
        got=got,
        hint="push the files of the sealed folder with 'oras push', one layer each",
    )

"""The page's files with their headers: content, connection and framing restrictions for browsers."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from importlib.resources import files
from typing import Final
from urllib.parse import urlsplit

from attest.errors import ConfigurationError

_TYPES: Final = {
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "css": "text/css",
    "json": "application/json",
}
_BUNDLE: Final = files("attest.page") / "bundle"
EVIDENCE_PAGE: Final = "evidence.html"
_HEADERS: Final = {
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
    # A reload brings a new page as a whole: each part is named by its digest.
    "cache-control": "no-cache",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PageFile:
    """A file of the page, with its headers besides the content type."""

    media_type: str
    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def page_digest() -> str:
    """Return the digest of the whole page: the SHA-256 of its manifest, which has the SHA-256 of every file."""
    return sha256((_BUNDLE / "manifest.json").read_bytes()).hexdigest()


def page_files(*, service: str | None = None, name: str | None = None) -> Mapping[str, PageFile]:
    """Return all files of the page, by path.

    Args:
        service: origin of a service on another host; None: the service itself serves the page.
        name: required name of the service in its evidence; None: its own statement, if the user consents.

    Raises:
        ConfigurationError: ``page-address-invalid``.
    """
    origin = None if service is None else origin_of(service)
    settings = {"service": origin, "name": name, "own": origin is not None}
    sources = "'self'" if origin is None else f"'self' {origin}"
    headers = _headers("index.html", sources)
    found = {
        "/page.json": PageFile(media_type="application/json", body=json.dumps(settings).encode(), headers=headers),
    }
    for part in sorted(_BUNDLE.iterdir(), key=lambda one: one.name):
        if part.name.rpartition(".")[2] in _TYPES and part.name != EVIDENCE_PAGE:
            found["/" if part.name == "index.html" else f"/{part.name}"] = _file(part.name, headers)
    # Its own import map has another digest, and it connects to nothing.
    return found | {f"/{EVIDENCE_PAGE}": _file(EVIDENCE_PAGE, _headers(EVIDENCE_PAGE, "'none'"))}


def evidence_page_files() -> Mapping[str, PageFile]:
    """Return the page that checks files of evidence without a service, and its parts, by path.

    The document states its own restrictions, for hosts that send no headers.
    """
    headers = _headers(EVIDENCE_PAGE, "'none'")
    html = (_BUNDLE / EVIDENCE_PAGE).read_text()
    names = {*re.findall(r'(?:src|href)="([^"]+)" integrity=', html), *re.findall(r'"\./([^"]+)":"sha256-', html)}
    return {"/": _file(EVIDENCE_PAGE, headers)} | {f"/{name}": _file(name, headers) for name in sorted(names)}


def _file(name: str, headers: Mapping[str, str]) -> PageFile:
    return PageFile(media_type=_TYPES[name.rpartition(".")[2]], body=(_BUNDLE / name).read_bytes(), headers=headers)


def _headers(document: str, sources: str) -> dict[str, str]:
    return {**_HEADERS, "content-security-policy": _policy(document, sources)}


def origin_of(url: str) -> str:
    """Return the origin of a URL with scheme, host and port only.

    Raises:
        ConfigurationError: ``page-address-invalid``; the input is not repeated, since it may contain a password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise _invalid("something else") from None
    host = parts.hostname or ""
    beyond = parts.path.strip("/") or parts.query or parts.fragment or parts.username or parts.password
    if parts.scheme not in {"http", "https"} or not _is_host(host):
        raise _invalid("no address of a host")
    if beyond:
        raise _invalid("a path, a query, a fragment or a user beside it")
    shown = f"[{host}]" if ":" in host else host
    usual = {"http": 80, "https": 443}[parts.scheme]
    return f"{parts.scheme}://{shown}" + ("" if port in {None, usual} else f":{port}")


def _is_host(host: str) -> bool:
    # Part of a header: no character may end a directive.
    return bool(host) and host.isascii() and all(one.isalnum() or one in "-.:" for one in host)


def _import_map_digest(document: str) -> str:
    """Return the digest of a page's import map, its only inline element, which names the modules' digests."""
    html = (_BUNDLE / document).read_bytes()
    (found,) = re.findall(rb'<script type="importmap">(.*?)</script>', html)
    return b64encode(sha256(found).digest()).decode()


def _policy(document: str, sources: str) -> str:
    return "; ".join(
        (
            "default-src 'none'",
            f"script-src 'self' 'sha256-{_import_map_digest(document)}'",
            "style-src 'self'",
            f"connect-src {sources}",
            "base-uri 'none'",
            "form-action 'none'",
            "frame-ancestors 'none'",
            "require-trusted-types-for 'script'",
            "trusted-types 'none'",
        )
    )


def _invalid(got: str) -> ConfigurationError:
    return ConfigurationError(
        f"the service's address: expected scheme, host and port, got {got}",
        code="page-address-invalid",
        field="URL",
        expected="https://HOST[:PORT] or http://HOST[:PORT]",
        got=got,
        hint="give it as in https://rag.example:8460",
    )

"""Sealed files in Google Cloud Storage, read over HTTP as from any web server.

Google's library, from the extra ``gs``, finds the credentials and renews tokens for reading. Every request after the
first asks for the generation that was opened.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Mapping
from typing import Final

from attest.errors import ConfigurationError
from attest.sealed.cloud_places import HttpPlace, extra_missing, joined, setting
from attest.sealed.http_connections import HttpAccess, bad_url, shown
from attest.sealed.ranges import Interruption, unreachable

_ENDPOINT: Final = "https://storage.googleapis.com"
_SCOPE: Final = "https://www.googleapis.com/auth/devstorage.read_only"
_ADDRESS: Final = re.compile(
    r"(?:gs|gcs)://(?P<bucket>[a-z0-9][a-z0-9._-]{1,220}[a-z0-9])(?:/(?P<path>[^\x00-\x1f\x7f]{0,1024}))?"
)
_VERSIONS: Final = (("X-Goog-Generation", "x-goog-if-generation-match"),)
_HINT: Final = "check that the credentials may read the bucket's objects (roles/storage.objectViewer)"


def google_place(url: str, *, endpoint_url: str | None = None) -> HttpPlace:
    """Return the place of an object or of a prefix of objects; the library may look for credentials.

    With ``STORAGE_EMULATOR_HOST``, as in Google's own programs, no credentials are used.

    Raises:
        ConfigurationError: ``sealed-url-invalid``, ``gs-unavailable`` or ``gs-settings-invalid``.
        SealedSourceError: ``sealed-source-unreachable``: the source of the credentials does not answer.
    """
    match = _ADDRESS.fullmatch(url)
    if match is None:
        raise bad_url(shown(url), "gs://BUCKET/PATH")
    emulator = None if endpoint_url else setting("STORAGE_EMULATOR_HOST")
    endpoint = endpoint_url or emulator or _ENDPOINT
    place = joined(endpoint if "://" in endpoint else f"http://{endpoint}", match["bucket"], match["path"] or "")
    if emulator:
        return HttpPlace(place, HttpAccess(versions=_VERSIONS, hint=_HINT))
    try:
        return HttpPlace(place, HttpAccess(headers=_Tokens(place), versions=_VERSIONS, hint=_HINT))
    except ImportError as exc:
        raise extra_missing("Google Cloud Storage", extra="gs", code="gs-unavailable") from exc


class _Tokens:
    """Headers with a token, renewed by the library when it is about to expire; thread-safe."""

    def __init__(self, url: str) -> None:
        import google.auth
        from google.auth.exceptions import DefaultCredentialsError, TransportError
        from google.auth.transport.requests import Request

        self._url = url
        self._lock = threading.Lock()
        self._request = Request()
        try:
            self._credentials, _ = google.auth.default(scopes=[_SCOPE], request=self._request)
        except DefaultCredentialsError as exc:
            raise _settings_invalid("no credentials are found, or they are damaged") from exc
        except TransportError as exc:
            raise unreachable(shown(url), "the source of the credentials does not answer") from exc

    def __call__(self) -> Mapping[str, str]:
        from google.auth.exceptions import RefreshError, TransportError

        headers: dict[str, str] = {}
        try:
            with self._lock:
                self._credentials.before_request(  # type: ignore[no-untyped-call]  # the library's
                    self._request, "GET", self._url, headers
                )
        except RefreshError as exc:
            if exc.retryable:
                raise Interruption(unreachable(shown(self._url), "no token is issued")) from exc
            raise _settings_invalid("the credentials have expired or were revoked") from exc
        except TransportError as exc:
            raise Interruption(unreachable(shown(self._url), "the issuer of tokens does not answer")) from exc
        return headers


def _settings_invalid(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"Google Cloud Storage cannot be used: {problem}",
        code="gs-settings-invalid",
        hint="set GOOGLE_APPLICATION_CREDENTIALS, or use 'gcloud auth application-default login' or the machine's "
        "service account; read public objects by their https address",
    )

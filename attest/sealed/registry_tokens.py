"""Authorization for pulling from an OCI registry: anonymous, by name and password, or by token.

The credentials are those that ``docker login``, ``podman login`` or ``oras login`` left: in a file, or with a
credential helper, a program that is asked over pipes. They are sent to the registry and to the token service that it
names, over TLS alone, except on the loopback address.

Spec: Docker Registry v2 token authentication; RFC 9110 §11 (challenges); RFC 7617 (Basic).
"""

from __future__ import annotations

import base64
import os
import re
import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import urlencode, urlsplit

from attest.encoding import JsonValue, base64_bytes, json_value
from attest.errors import ConfigurationError, EvidenceError
from attest.sealed.http_connections import (
    HttpAccess,
    HttpConnections,
    answer_invalid,
    blocks_of,
    end,
    require_url,
    shown,
)
from attest.sealed.ranges import Interruption, RetryPolicy, unreachable

MAX_CONFIG_BYTES: Final = 1 << 20
MAX_TOKEN_BYTES: Final = 64 << 10
_LEAST_SECONDS: Final = 60
"""Validity of a token that does not state it (token authentication, Token Response Fields)."""
_MOST_SECONDS: Final = 86_400
"""After this time another token is asked for, however long the last one is valid."""
_HELPER_SECONDS: Final = 30
_HELPER: Final = re.compile(r"[A-Za-z0-9._-]{1,100}")
_CHALLENGE: Final = re.compile(r"(?i)(bearer|basic)(?:\s+(.*))?")
_PARAMETER: Final = re.compile(r'([a-z]+)="([^"\x00-\x1f]{0,2000})"')
_LOGIN: Final = "log in to the registry with 'docker login' or 'oras login'"
_DOCKER_HUB: Final = "https://index.docker.io/v1/"


class RegistryTokens:
    """Headers for one repository; thread-safe. The first call asks the registry what it demands.

    Args:
        base: address of the repository.
        registry: host and port, under which credentials are kept.
        repository: its name, for the scope of tokens.
    """

    def __init__(
        self, base: str, *, registry: str, repository: str, patience: RetryPolicy, trust_env: bool = True
    ) -> None:
        self._ping = base.removesuffix(repository)
        self._registry = registry
        self._scope = f"repository:{repository}:pull"
        self._now = patience.monotonic
        # The password is for the token service alone, and not for a host that it redirects to.
        access = HttpAccess(headers=lambda: self._basic, hint=_LOGIN)
        self._client = HttpConnections(patience=patience, trust_env=trust_env, access=access)
        self._lock = threading.Lock()
        self._challenge: tuple[str, Mapping[str, str]] | None = None
        self._basic: Mapping[str, str] = {}
        self._headers: Mapping[str, str] = {}
        self._until: float | None = None

    def __call__(self) -> Mapping[str, str]:
        """Return the headers, with a token that is valid.

        Raises:
            Interruption: the registry or its token service does not answer.
            SealedSourceError: ``sealed-source-refused`` or ``sealed-source-answer-invalid``.
            ConfigurationError: ``oci-settings-invalid``: the credentials cannot be read.
        """
        with self._lock:
            if self._challenge is None:
                challenge = self._challenged()
                self._basic = {} if challenge[0] == "none" else _basic(self._registry)
                self._challenge = challenge
            scheme, parameters = self._challenge
            if scheme == "basic":
                self._headers = self._basic
            elif scheme == "bearer" and (self._until is None or self._now() >= self._until):
                token, seconds = self._token(parameters)
                self._headers, self._until = {"Authorization": f"Bearer {token}"}, self._now() + seconds * 0.8
            return self._headers

    def close(self) -> None:
        """Close the connections, and forget the credentials."""
        self._client.close()
        self._basic = self._headers = {}

    def _challenged(self) -> tuple[str, Mapping[str, str]]:
        from urllib3.exceptions import HTTPError

        try:
            response = self._client.send(self._ping, {})
        except HTTPError as exc:
            raise Interruption(unreachable(shown(self._ping), str(exc))) from exc
        status, stated = response.status, response.headers.get("WWW-Authenticate", "")
        end(response)
        if status != 401:
            return "none", {}  # a refusal of the repository itself says more
        match = _CHALLENGE.fullmatch(stated.strip())
        if match is None:
            raise answer_invalid(shown(self._ping), "a challenge Bearer or Basic", repr(stated[:40]))
        return match[1].lower(), dict(_PARAMETER.findall(match[2] or ""))

    def _token(self, parameters: Mapping[str, str]) -> tuple[str, float]:
        asked = {"scope": self._scope} | ({"service": parameters["service"]} if "service" in parameters else {})
        realm = parameters.get("realm", "")
        require_realm(realm, self._ping)
        url = f"{realm}{'&' if urlsplit(realm).query else '?'}{urlencode(asked)}"
        raw = bytearray()
        with self._client.get(url, {}) as response:
            for block in blocks_of(response):
                raw += block
                if len(raw) > MAX_TOKEN_BYTES:
                    break
        answer = _json(bytes(raw))
        token = answer.get("token") or answer.get("access_token")
        if len(raw) > MAX_TOKEN_BYTES or not isinstance(token, str) or not re.fullmatch(r"[\x21-\x7e]+", token):
            raise answer_invalid(shown(realm), "a token", "none")
        seconds = answer.get("expires_in")
        return token, min(max(seconds, _LEAST_SECONDS), _MOST_SECONDS) if isinstance(seconds, int) else _LEAST_SECONDS


def require_realm(realm: str, registry: str) -> None:
    """Refuse a token service to which the password of a registry with TLS would go in clear.

    Raises:
        SealedSourceError: ``sealed-source-answer-invalid``.
    """
    try:
        require_url(realm)
    except ConfigurationError as exc:
        raise answer_invalid(shown(registry), "the address of a token service", "none") from exc
    if urlsplit(realm).scheme != "https" and urlsplit(registry).scheme == "https":
        raise answer_invalid(shown(registry), "a token service with https", shown(realm))


def _basic(registry: str) -> Mapping[str, str]:
    """Return the header with the registry's name and password, or nothing without any.

    Raises:
        ConfigurationError: ``oci-settings-invalid``.
    """
    kept = _DOCKER_HUB if registry == "docker.io" else registry
    for file in _config_files():
        found = _kept_in(file, kept)
        if found is not None:
            return {"Authorization": "Basic " + base64.b64encode(found).decode()}
    return {}


def _config_files() -> Iterator[Path]:
    environ = os.environ
    if "REGISTRY_AUTH_FILE" in environ:
        yield Path(environ["REGISTRY_AUTH_FILE"])
    if "DOCKER_CONFIG" in environ:
        yield Path(environ["DOCKER_CONFIG"], "config.json")
    elif "HOME" in environ:
        yield Path(environ["HOME"], ".docker", "config.json")
    if "XDG_RUNTIME_DIR" in environ:
        yield Path(environ["XDG_RUNTIME_DIR"], "containers", "auth.json")


def _kept_in(file: Path, registry: str) -> bytes | None:
    """Return ``name:password`` from a file of Docker's form, or from the helper that it names."""
    try:
        with file.open("rb") as opened:
            raw = opened.read(MAX_CONFIG_BYTES + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as exc:
        raise _settings_invalid(f"{file} cannot be read: {exc.strerror}") from exc
    config = _json(raw[: MAX_CONFIG_BYTES + 1])
    if not config and raw.strip() not in {b"", b"{}"}:
        raise _settings_invalid(f"{file} is not a configuration of Docker's form")
    helpers, entries = config.get("credHelpers"), config.get("auths")
    helper = (helpers.get(registry) if isinstance(helpers, dict) else None) or config.get("credsStore")
    if isinstance(helper, str) and helper:
        return _asked_of(helper, registry)
    entry = entries.get(registry) if isinstance(entries, dict) else None
    if not isinstance(entry, dict):
        return None
    if entry.get("identitytoken"):
        raise _settings_invalid(f"{file} has an identity token for {registry}: log in with a name and a password")
    try:
        return base64_bytes(str(entry.get("auth", "")), what="auth") or None
    except EvidenceError:
        raise _settings_invalid(f"{file} has damaged credentials for {registry}") from None


def _asked_of(helper: str, registry: str) -> bytes | None:
    """Return ``name:password`` from a credential helper; None if it has none."""
    program = shutil.which(f"docker-credential-{helper}") if _HELPER.fullmatch(helper) else None
    if program is None:
        raise _settings_invalid(f"the credential helper {helper[:100]!r} is not installed")
    try:
        done = subprocess.run(  # noqa: S603  the program that the user's configuration names
            [program, "get"], input=registry.encode(), capture_output=True, timeout=_HELPER_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as exc:
        raise _settings_invalid(f"the credential helper {helper!r} does not answer") from exc
    if done.returncode != 0 and b"credentials not found" in done.stdout + done.stderr:
        return None
    answer = _json(done.stdout) if done.returncode == 0 else {}
    user, secret = answer.get("Username"), answer.get("Secret")
    if not isinstance(user, str) or not isinstance(secret, str) or user == "<token>":
        raise _settings_invalid(f"the credential helper {helper!r} gives no name and password")
    return f"{user}:{secret}".encode()


def _json(raw: bytes) -> Mapping[str, JsonValue]:
    """Parse an object; nothing for other bytes."""
    try:
        value = json_value(raw, what="answer")
    except EvidenceError:
        return {}
    return value if isinstance(value, dict) else {}


def _settings_invalid(problem: str) -> ConfigurationError:
    return ConfigurationError(
        f"the credentials of the registry cannot be used: {problem}", code="oci-settings-invalid", hint=_LOGIN
    )

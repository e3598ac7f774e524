"""Key-encryption key in the transit engine of OpenBao or Vault, which it never leaves.

::

    engine   vault:v<version>:<base64 of nonce (12 bytes) ‖ ciphertext ‖ tag (16 bytes)>
    wrapped  0x03 (aes256-gcm96 by transit) ‖ version (4 bytes, big-endian) ‖ what the base64 holds

The associated data is sent with each request as ``associated_data``. If the token is refused, it is read again from its
file, so that you renew it by writing the file.
"""

from __future__ import annotations

import binascii
import re
import threading
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from http.cookiejar import DefaultCookiePolicy
from typing import Any, Final

import hvac
import requests
from hvac import exceptions as errors
from requests.adapters import HTTPAdapter

from attest.errors import ConfigurationError
from kms.domain.errors import UnavailableError
from kms.domain.kek_records import Backend
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.wrapping.backend import NotCopied, NotOpenedError
from kms.keys.wrapping.definitions import TransitDefinition
from kms.keys.wrapping.errors import refused, unavailable
from kms.keys.wrapping.secret_files import read_credential

TIMEOUT_SECONDS: Final = 5.0
CONNECTIONS: Final = 32
_FORMAT = b"\x03"
_VERSION_BYTES = 4
_SHORTEST = 12 + 16
_CIPHERTEXT = re.compile(r"vault:v([1-9][0-9]{0,8}):([A-Za-z0-9+/]+={0,2})")
_KEY_GONE = "key not found"
_TOO_OLD = "disallowed by policy"
_KIND = "aes256-gcm96"
_FIT: Final[Mapping[str, object]] = {
    "type": _KIND,
    "derived": False,
    "exportable": False,
    "allow_plaintext_backup": False,
    "supports_encryption": True,
    "supports_decryption": True,
}
"""Required properties of the key in the engine."""
_REFUSALS: Final = (errors.Forbidden, errors.Unauthorized)
_Request = Callable[[hvac.Client], object]
_Answer = Mapping[str, Any]  # Any: JSON of another service; each member is looked at where it is used


class TransitBackend(NotCopied):
    """AES-256-GCM inside the engine."""

    kind: Final = Backend.TRANSIT
    derived_id: Final = None

    def __init__(self, definition: TransitDefinition) -> None:
        self.description = definition.description
        self._definition = definition
        self._session = _session(definition)
        self._lock = threading.Lock()
        self._current: tuple[SecretBytes, hvac.Client] | None = None

    def connect(self) -> None:
        """Read the token and check that the CA's file exists. The key is verified at its first use.

        Raises:
            ConfigurationError: the token's file is unusable, or that of the CA is missing (``file-unreadable``).
        """
        self._client(renew=False)
        ca_file = self._definition.ca_file
        if ca_file is not None and not ca_file.is_file():
            raise ConfigurationError(
                f"kek_ca_file: {ca_file} cannot be read", code="file-unreadable", field="kek_ca_file", got=str(ca_file)
            )

    def create(self) -> None:
        """Make the key in the engine unless it is there, and check its properties.

        Raises:
            ConfigurationError: ``kek-unfit``, or the token's file is unusable.
            UnavailableError: ``kek-unavailable``, or ``kek-refused``: the token must not read or create it.
        """
        where = {"name": self._definition.key, "mount_point": self._definition.mount}
        found = self._request(lambda client: client.secrets.transit.read_key(**where), nothing=True)
        if not found:
            members = {"key_type": _KIND, "exportable": False, "allow_plaintext_backup": False, "derived": False}
            self._request(lambda client: client.secrets.transit.create_key(**where, **members), nothing=True)
            found = self._request(lambda client: client.secrets.transit.read_key(**where))
        self._require_fit(_data(found))

    def seal(self, content: bytes | memoryview, *, associated_data: bytes) -> bytes:
        """Encrypt in the engine."""
        try:
            answer = self._request(
                lambda client: client.secrets.transit.encrypt_data(
                    name=self._definition.key,
                    mount_point=self._definition.mount,
                    plaintext=_text(content),
                    associated_data=_text(associated_data),
                )
            )
        except NotOpenedError as exc:
            raise unavailable(self.description, "it refuses to encrypt") from exc
        found = _CIPHERTEXT.fullmatch(str(_data(answer).get("ciphertext")))
        raw = None if found is None else _decoded(found[2])
        if found is None or raw is None or len(raw) < _SHORTEST:
            raise unavailable(self.description, "its response to an encryption is malformed")
        return _FORMAT + int(found[1]).to_bytes(_VERSION_BYTES, "big") + raw

    def open(self, sealed: bytes, *, associated_data: bytes) -> bytes:
        """Decrypt in the engine."""
        head, version, raw = sealed[:1], sealed[1 : 1 + _VERSION_BYTES], sealed[1 + _VERSION_BYTES :]
        if head != _FORMAT or not any(version) or len(raw) < _SHORTEST:  # the engine takes version 0 for 1
            raise NotOpenedError
        answer = self._request(
            lambda client: client.secrets.transit.decrypt_data(
                name=self._definition.key,
                mount_point=self._definition.mount,
                ciphertext=f"vault:v{int.from_bytes(version, 'big')}:{_text(raw)}",
                associated_data=_text(associated_data),
            )
        )
        content = _decoded(_data(answer).get("plaintext"))
        if content is None:
            raise unavailable(self.description, "its response to a decryption is malformed")
        return content

    def close(self) -> None:
        """Close connections."""
        self._session.close()

    def _request(self, request: _Request, *, nothing: bool = False) -> _Answer:
        """Send a request; if its token is refused, send it again with the token that the file holds now.

        With ``nothing``, "no such thing" and "no content" are empty answers.
        """
        try:
            client = self._client(renew=False)
            try:
                answer = self._send(request, client)
            except _REFUSALS:
                again = self._client(renew=True)
                if again is client:
                    raise
                answer = self._send(request, again)
        except ConfigurationError as exc:
            raise refused(self.description, exc.message) from exc
        except _REFUSALS as exc:
            raise refused(self.description, _error_text(exc)) from exc
        except errors.InvalidPath as exc:
            if nothing:
                return {}
            raise self._away(exc) from exc
        if isinstance(answer, dict):
            return answer
        if nothing and isinstance(answer, requests.Response) and answer.status_code == requests.codes.no_content:
            return {}
        raise unavailable(self.description, "its response does not conform to its API")

    def _send(self, request: _Request, client: hvac.Client) -> object:
        """Send a request, and repeat it if the connection was closed since the last one; all are idempotent."""
        try:
            try:
                return request(client)
            except requests.ConnectionError:
                return request(client)
        except (*_REFUSALS, errors.InvalidPath):
            raise
        except errors.InvalidRequest as exc:
            raise self._refusal(exc) from exc
        except (errors.VaultError, OSError) as exc:  # every error of requests is an OSError
            raise self._away(exc) from exc

    def _refusal(self, exc: errors.InvalidRequest) -> Exception:
        """Distinguish a missing key from data that does not open: both are 400."""
        said = _error_text(exc)
        if _KEY_GONE in said:
            return self._away(exc)
        if _TOO_OLD in said:
            return unavailable(self.description, f"min_decryption_version excludes the version that wrapped it: {said}")
        return NotOpenedError()

    def _away(self, exc: Exception) -> UnavailableError:
        return unavailable(self.description, _error_text(exc))

    def _client(self, *, renew: bool) -> hvac.Client:
        with self._lock:
            if self._current is None or renew:
                token = read_credential(self._definition.token_file, noun="file of the token", field="kek_token_file")
                if self._current is None or self._current[0] != token:
                    self._current = token, self._made(token)
            return self._current[1]

    def _made(self, token: SecretBytes) -> hvac.Client:
        return hvac.Client(
            url=self._definition.url,
            token=token.lend(EXPORT, lambda text: str(text, "ascii")),
            verify=self._session.verify,
            timeout=TIMEOUT_SECONDS,
            allow_redirects=False,  # a redirect would take the token elsewhere
            session=self._session,
            namespace=self._definition.namespace,
        )

    def _require_fit(self, said: _Answer) -> None:
        for name, expected in _FIT.items():
            if said.get(name) != expected:
                raise ConfigurationError(
                    f"the {self.description} is unsuitable as a key-encryption key: expected {name} {expected}",
                    code="kek-unfit",
                    field="kek_key",
                    expected=f"{name} {expected}",
                    got=str(said.get(name))[:80],
                    hint="'kms init' and 'kms kek create' create a suitable key, if the token permits this",
                )


def _session(definition: TransitDefinition) -> requests.Session:
    session = requests.Session()
    session.trust_env = False  # neither proxies nor certificates nor passwords from the environment
    session.verify = True if definition.ca_file is None else str(definition.ca_file)
    session.cookies.set_policy(DefaultCookiePolicy(allowed_domains=[]))
    session.mount(definition.url, HTTPAdapter(pool_maxsize=CONNECTIONS))
    return session


def _data(answer: _Answer) -> _Answer:
    data = answer.get("data")
    return data if isinstance(data, dict) else {}


def _text(content: bytes | memoryview) -> str:
    return b64encode(content).decode("ascii")


def _decoded(text: object) -> bytes | None:
    """Decode canonical base64 only."""
    try:
        content = b64decode(text, validate=True) if isinstance(text, str) else None
    except (binascii.Error, ValueError):
        return None
    return content if content is not None and _text(content) == text else None


def _error_text(exc: Exception) -> str:
    """Return the loggable part of a response: the engine's own messages, never the request."""
    if isinstance(exc, errors.VaultError):
        return f"{type(exc).__name__}: {', '.join(map(str, exc.errors or ()))}"
    return type(exc).__name__

"""PKCS#11 library: one for the whole process, used by one thread at a time, and restarted after a failure."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pkcs11
from pkcs11.exceptions import PinIncorrect, PKCS11Error, UserAlreadyLoggedIn

from attest.errors import ConfigurationError
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.wrapping.errors import refused, unavailable

if TYPE_CHECKING:
    from pkcs11._pkcs11 import lib as LoadedLibrary  # noqa: N812  a class with a name like a function's
    from pkcs11.types import Session, Token

PATIENCE_SECONDS: Final = 5.0
"""Longest wait of a request for earlier ones, so that a library that hangs does not block every thread."""


class TokenLibrary:
    """One library, a vendor's shared object, with its open sessions."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.started = 0
        """Number of restarts: older handles are invalid."""
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._sessions: dict[str, Session] = {}
        self._refused: dict[str, SecretBytes] = {}

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Exclude other threads.

        Raises:
            UnavailableError: ``kek-unavailable``: earlier calls take too long.
        """
        if not self._lock.acquire(timeout=PATIENCE_SECONDS):
            raise unavailable(str(self.path), "a call does not return")
        try:
            if self._process != os.getpid():  # sessions of a parent process are not usable
                self.restart()
                self._process = os.getpid()
            yield
        finally:
            self._lock.release()

    def restart(self) -> None:
        """Drop every session and handle; only within ``exclusive``."""
        self._sessions.clear()
        self.started += 1
        with suppress(PKCS11Error, ConfigurationError):
            self._loaded().finalize()

    def token(self, label: str) -> Token:
        """Find a token; only within ``exclusive``.

        Raises:
            ConfigurationError: ``kek-library-unusable``.
            PKCS11Error: there is none, or more than one.
        """
        return self._loaded().get_token(token_label=label)

    def session(self, label: str, pin: Callable[[], SecretBytes]) -> Session:
        """Return the session on a token, and log into it first when there is none; only within ``exclusive``.

        Raises:
            ConfigurationError: as ``token``, or the PIN cannot be read.
            UnavailableError: ``kek-refused``: the token refused this PIN before; another attempt could lock it.
            PKCS11Error: any error of the token.
        """
        found = self._sessions.get(label)
        if found is None:
            found = self._sessions[label] = self._logged_in(label, pin())
        return found

    def _logged_in(self, label: str, pin: SecretBytes) -> Session:
        token = self.token(label)
        if self._refused.get(label) == pin:
            raise refused(f"token {label!r}", "it refused this PIN before; another attempt could lock it")
        try:
            session = pin.lend(EXPORT, lambda text: token.open(user_pin=str(text, "ascii")))
        except UserAlreadyLoggedIn:  # by another session of this process
            return token.open()
        except PinIncorrect:
            self._refused[label] = pin
            raise
        self._refused.pop(label, None)
        return session

    def _loaded(self) -> LoadedLibrary:
        try:
            return pkcs11.lib(str(self.path))
        except PKCS11Error as exc:
            raise ConfigurationError(
                f"the PKCS#11 library {self.path} cannot be used: {str(exc) or type(exc).__name__}",
                code="kek-library-unusable",
                field="kek_module",
                got=str(self.path),
                hint="name the shared object of the token's vendor, such as /usr/lib/softhsm/libsofthsm2.so",
            ) from exc


_libraries: dict[Path, TokenLibrary] = {}
_libraries_lock = threading.Lock()


def library_at(path: Path) -> TokenLibrary:
    """Return the only instance of this library in this process, as PKCS#11 requires."""
    with _libraries_lock:
        return _libraries.setdefault(path.resolve(), TokenLibrary(path.resolve()))

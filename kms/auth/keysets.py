"""Key sets of issuers, refreshed outside of requests, and used only for a limited time."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field
from datetime import datetime, timedelta
from typing import Final, Self

import httpx

from attest.clock import Clock
from attest.errors import AttestError, ConfigurationError
from attest.results import MAX_JWKS_BYTES, TokenKey, read_jwks
from kms.auth.issuers import BearerIssuer
from kms.auth.tokens import usable_keys
from kms.domain.bounded_content import bounded_content
from kms.domain.errors import UnavailableError

FETCH_SECONDS: Final = 10.0
CLOCK_SECONDS: Final = 60
"""Maximum step back of the clock before the key sets read under it are considered stale."""
_OK: Final = 200

Fetch = Callable[[BearerIssuer], bytes]
"""Returns the present key set of an issuer from its file or URL.

Raises OSError if it is unavailable."""

Noted = Callable[[str, tuple[BearerIssuer, ...]], object]
"""Called with the setting of the issuers, and the issuers, when one of their key files has changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Read:
    keys: tuple[TokenKey, ...]
    at: datetime


@dataclass(slots=True, eq=False)
class KeySets:
    """Signing keys of issuers. Before the first read there are none, and every token is refused.

    ``noted`` is called before a changed file takes effect; if it raises, the old keys stay in effect.
    """

    issuers: tuple[BearerIssuer, ...]
    _: KW_ONLY
    fetch: Fetch
    clock: Clock
    report: Callable[[str], None]
    noted: Callable[[], object] = lambda: None
    _said: dict[str, bytes] = field(default_factory=dict, init=False)
    _read: dict[str, _Read] = field(default_factory=dict, init=False)
    _tried: dict[str, datetime] = field(default_factory=dict, init=False)
    _stop: threading.Event = field(default_factory=threading.Event, init=False)
    _thread: threading.Thread | None = field(default=None, init=False)

    def keys(self, issuer: BearerIssuer, *, at: datetime) -> tuple[TokenKey, ...]:
        """Return the keys that sign tokens of an issuer.

        Raises:
            UnavailableError: ``token-keys-stale``: the last successful read is too old.
        """
        read = self._read.get(issuer.issuer)
        back, oldest = timedelta(seconds=CLOCK_SECONDS), timedelta(seconds=issuer.max_age_seconds)
        if read is None or not -back <= at - read.at <= oldest:
            raise UnavailableError(
                "the keys of the token's issuer are stale",
                code="token-keys-stale",
                field="iss",
                expected=f"read within {issuer.max_age_seconds} s",
                hint="the reason is in the service's log, for its operator",
                retryable=True,
            )
        return read.keys

    def refresh(self, *, everything: bool = False) -> None:
        """Read the key sets that are due, or all; one that is unreadable keeps its old keys until they are stale."""
        for issuer in self.issuers:
            at = self.clock()
            last = self._tried.get(issuer.issuer)
            if everything or last is None or not timedelta(0) <= at - last < timedelta(seconds=issuer.refresh_seconds):
                self._tried[issuer.issuer] = at
                self._refresh(issuer, at)

    def _refresh(self, issuer: BearerIssuer, at: datetime) -> None:
        try:
            content = self.fetch(issuer)
            keys = parse_key_set(content, issuer)
            if issuer.jwks_file is not None and self._said.get(issuer.issuer) != content:
                self.noted()
                self._said[issuer.issuer] = content
        except (OSError, AttestError) as exc:
            problem = exc.message if isinstance(exc, AttestError) else str(exc)
            self.report(f"error: the key set of {issuer.issuer} was not read: {problem}")
            return
        self._read[issuer.issuer] = _Read(keys=keys, at=at)

    def __enter__(self) -> Self:
        """Read all key sets once, and start the thread that refreshes them."""
        self.refresh(everything=True)
        if not self.issuers:
            return self
        period = min(issuer.refresh_seconds for issuer in self.issuers)

        def run() -> None:
            while not self._stop.wait(period):
                self.refresh()

        self._thread = threading.Thread(target=run, name="key-sets", daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """End the thread."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(FETCH_SECONDS)


def parse_key_set(content: bytes, issuer: BearerIssuer) -> tuple[TokenKey, ...]:
    """Return the keys of a set that may sign tokens of an issuer.

    Raises:
        ConfigurationError: ``jwks-invalid``: it is unreadable, or has no such key.
    """
    keys = usable_keys(read_jwks(content), issuer)
    if not keys:
        problem = "it has no signing key for the configured algorithms"
        raise ConfigurationError(problem, code="jwks-invalid")
    return keys


def read_key_set(issuer: BearerIssuer) -> bytes:
    """Read a key set from its file or its configured URL, without following redirects.

    Raises:
        OSError: it is unavailable or too long.
    """
    if issuer.jwks_file is None:
        return _fetch_key_set(issuer)
    with issuer.jwks_file.open("rb") as file:
        return file.read(MAX_JWKS_BYTES + 1)


def _fetch_key_set(issuer: BearerIssuer) -> bytes:
    context = ssl.create_default_context(cafile=None if issuer.ca_file is None else str(issuer.ca_file))
    try:
        with (
            httpx.Client(verify=context, timeout=FETCH_SECONDS) as http,
            http.stream("GET", str(issuer.jwks_url), headers={"Accept": "application/json"}) as answer,
        ):
            if answer.status_code != _OK:
                raise OSError(f"status {answer.status_code}")
            return bounded_content(answer.iter_bytes(), MAX_JWKS_BYTES)
    except (httpx.HTTPError, httpx.InvalidURL) as exc:
        raise OSError(str(exc)) from exc

"""Client of a Key Broker Service for a guest: attest, then get resources, each encrypted to a key of this handshake."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from attest.context_managers import ClosedOnExit
from attest.errors import ConfigurationError
from attest.fetch.client import ServiceWords, require_base_url
from attest.kbs.addresses import resource_path
from attest.kbs.guest import Guest, MachineGuest
from attest.kbs.guest_key import GuestKey, KeyKind
from attest.kbs.handshake import (
    ATTEST,
    AUTH,
    RESOURCE,
    additional_text,
    attest_body,
    auth_body,
    read_challenge,
    read_token,
    require_success,
    session_cookie,
)
from attest.kbs.result_token import require_token
from attest.kbs.runtime_data import runtime_digest, runtime_document
from attest.release.opened_key import OpenedKey
from attest.release.transport import CONNECT_SECONDS, TIMEOUT_SECONDS, HttpAnswer, Timeouts, peer_of_others, request
from attest.results import TokenKey
from attest.session.connection import open_client
from attest.session.retry import retried
from attest.session.schedule import SYSTEM_TIMING, Deadline, SessionTiming

if TYPE_CHECKING:
    from pathlib import Path

    import httpx

BASE: Final = "kbs/v0"
MAX_RESOURCES: Final = 16
_WORDS: Final = ServiceWords(prefix="kbs", name="a Key Broker Service", known="", unknown="")
_JSON: Final = {"Content-Type": "application/json"}
_INSECURE: Final = "http://"


class KbsClient(ClosedOnExit):
    """Client of one Key Broker Service, which speaks version 0.4.0 of its protocol.

    Each call is one handshake with a fresh key pair, erased at its end. The protocol proves nothing about the service:
    TLS, and keys that are trusted for its tokens, are what identifies it.

    Args:
        url: of the service, without ``/kbs/v0``; ``https``, or ``http`` to the loopback address.
        guest: source of the evidence; None is this machine with its GPUs.
        key: kind of the key pair.
        tls_ca: accepted issuers of the service's TLS certificate (PEM); None uses the system's.
        unchecked_tls: reason to use ``http`` over a network; None refuses it.
        trusted: keys that may sign the service's tokens; empty leaves signatures unchecked.
        timeout: seconds for one call, retries and pauses included.
        timing: clock, randomness and pauses.
        http: makes the HTTP client instead of one for ``url``.

    Raises:
        ConfigurationError: ``kbs-url-invalid``, ``tls-ca-unusable`` or ``http-client-missing``.
        CollectionError: this machine is no guest.
    """

    def __init__(
        self,
        url: str,
        *,
        guest: Guest | None = None,
        key: KeyKind = "p256",
        tls_ca: Path | str | None = None,
        unchecked_tls: str | None = None,
        trusted: tuple[TokenKey, ...] = (),
        timeout: float = TIMEOUT_SECONDS,
        timing: SessionTiming = SYSTEM_TIMING,
        http: httpx.Client | None = None,
    ) -> None:
        self.url = require_service_url(url, unchecked_tls=unchecked_tls)
        self.guest = MachineGuest.of() if guest is None else guest
        self._kind: KeyKind = key
        self._trusted = trusted
        self._timeout = timeout
        self._timing = timing
        self._http = open_client(self.url, tls_ca=tls_ca) if http is None else http

    def resource(self, address: str) -> OpenedKey:
        """Attest, and get one resource ``kbs:///REPOSITORY/TYPE/TAG``; errors as ``resources``."""
        (found,) = self.resources(address)
        return found

    def resources(self, *addresses: str) -> tuple[OpenedKey, ...]:
        """Attest once, and get resources in the order of their addresses: all of them, or none.

        Raises:
            PolicyNotMetError: a policy of the service denies a resource.
            KeyUnknownError: no such resource for this guest.
            ReleaseRefusedError: the service refuses for another reason; see ``code`` and the service's own text.
            ServiceUnreachableError: no answer in time.
            BindingError: the service's answers violate the protocol, or its token is about another guest.
            VerificationError: an answer does not open, or the token does not hold.
            CollectionError: this machine gives no evidence.
            ConfigurationError: ``kbs-address-invalid``.
            ValueError: no address, or too many.
        """
        if not 0 < len(addresses) <= MAX_RESOURCES:
            raise ValueError(f"a call gets 1 to {MAX_RESOURCES} resources")
        paths = tuple((address, resource_path(address)) for address in addresses)
        deadline = self._timing.deadline(self._timeout)
        return retried(lambda deadline: self._attempt(paths, deadline), url=self.url, deadline=deadline)

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _attempt(self, paths: tuple[tuple[str, str], ...], deadline: Deadline) -> tuple[OpenedKey, ...]:
        opened: list[OpenedKey] = []
        with GuestKey.generate(self._kind) as key:
            cookie = self._attested(key, deadline)
            try:
                for address, path in paths:
                    answer = self._send("GET", f"{RESOURCE}/{path}", deadline, cookie=cookie)
                    opened.append(OpenedKey(address, key.open(require_success(answer, RESOURCE))))
            except BaseException:
                for one in opened:
                    one.close()
                raise
        return tuple(opened)

    def _attested(self, key: GuestKey, deadline: Deadline) -> str:
        """Attest with a key pair, and return the cookie of the session."""
        # (1) A nonce, and the cookie of the session.
        answer = self._send("POST", AUTH, deadline, body=auth_body(self.guest.tee))
        nonce = read_challenge(answer)
        cookie = session_cookie(answer, held=None)
        # (2) The devices commit to nonce and key, and the CPU to their evidence, too.
        runtime = runtime_document(key.jwk, nonce=nonce)
        additional = additional_text(self.guest.devices(runtime_digest(runtime)))
        whole = runtime_document(key.jwk, nonce=nonce, additional=additional)
        primary = self.guest.cpu(runtime_digest(whole))
        # (3) The service's token says how it appraised this guest.
        body = attest_body(runtime, primary=primary, additional=additional)
        answer = self._send("POST", ATTEST, deadline, body=body, cookie=cookie)
        token = read_token(answer)
        require_token(token, trusted=self._trusted, jwk=key.jwk, nonce=nonce, at=self._timing.now())
        return session_cookie(answer, held=cookie)

    def _send(
        self, method: str, path: str, deadline: Deadline, *, body: bytes | None = None, cookie: str | None = None
    ) -> HttpAnswer:
        self._http.cookies.clear()  # the session's cookie is this client's own matter
        headers = {**({} if body is None else _JSON), **({} if cookie is None else {"Cookie": cookie})}
        peer = peer_of_others("the Key Broker Service", self.url)
        patience = Timeouts(connect_seconds=CONNECT_SECONDS, left=deadline.left, peer=peer)
        return request(self._http, method, f"{BASE}/{path}", content=body, headers=headers, patience=patience)


def require_service_url(url: str, *, unchecked_tls: str | None = None) -> str:
    """Return the address of a service, without a slash at its end.

    Raises:
        ConfigurationError: ``kbs-url-invalid``: no address, or ``http`` over a network without a reason.
    """
    if unchecked_tls is not None and not unchecked_tls.strip():
        raise ConfigurationError("unchecked_tls needs a reason", code="kbs-url-invalid", field="unchecked_tls")
    checked = f"https://{url.removeprefix(_INSECURE)}" if unchecked_tls and url.startswith(_INSECURE) else url
    require_base_url(checked, _WORDS)
    return url.rstrip("/")

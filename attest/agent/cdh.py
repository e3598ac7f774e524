"""The interface of the Confidential Data Hub: keys and secrets for programs of this network namespace, over HTTP.

::

    GET  /cdh/resource/REPO/TYPE/TAG                    the key or secret that the configuration names so, raw bytes
    GET  /info                                          version and features
    GET  /aa/evidence?runtime_data=DATA&encoding=base64 evidence with this report data, if the configuration says so
    GET  /aa/token?token_type=kbs                       a refusal: there is no issuer of tokens

A peer has no credentials, so each process that can connect may have what the table of resources names. Requests that a
browser makes for a page are refused: by the name of the host, which a page can let point here, and by their marks.
"""

from __future__ import annotations

import ipaddress
import re
import socket
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final
from urllib.parse import parse_qs

from attest import __version__
from attest.agent.answers import AgentAnswer, AgentRequest, json_answer
from attest.agent.cdh_config import CdhConfig
from attest.agent.coco_evidence import Collecting, coco_evidence, runtime_data_of
from attest.agent.keys import AgentKeys
from attest.agent.peers import ANYONE, Peer
from attest.errors import AgentRefusedError, AttestError
from attest.listening_socket import AddressFields, listen
from attest.release.padded_secret import SECRET_PURPOSE

LOOPBACK: Final = "127.0.0.1"
_BACKLOG: Final = 128
_RESOURCES: Final = "/cdh/resource/"
_NO_EVIDENCE: Final = "this agent gives no evidence: a program that chose its report data could obtain every key itself"
_CODES: Final = {
    HTTPStatus.BAD_REQUEST: "agent-request-invalid",
    HTTPStatus.FORBIDDEN: "agent-peer-refused",
    HTTPStatus.NOT_FOUND: "agent-unknown",
    HTTPStatus.METHOD_NOT_ALLOWED: "method-not-allowed",
    HTTPStatus.INTERNAL_SERVER_ERROR: "agent-token-unavailable",
}
_HOST: Final = re.compile(r"(?:127\.0\.0\.1|localhost)(?::[0-9]{1,5})?")
_BROWSER: Final = ("origin", "referer", "sec-fetch-site", "sec-fetch-mode", "sec-fetch-dest")
"""Fields that browsers add to the requests of a page, and that its script can neither set nor remove."""
_SAFE: Final = (
    ("Cache-Control", "no-store"),
    ("X-Content-Type-Options", "nosniff"),
    ("Cross-Origin-Resource-Policy", "same-origin"),
)


def listen_for_cdh(config: CdhConfig) -> socket.socket:
    """Listen on the loopback alone.

    Raises:
        ConfigurationError: ``address-in-use`` or ``address-unusable``.
    """
    fields = AddressFields("cdh.port", "cdh.port", "name another port", "end the other program, or name another port")
    return listen(LOOPBACK, config.port, backlog=_BACKLOG, fields=fields)


def anyone(sock: socket.socket) -> Peer:
    """Return the peer of a connection over TCP, of which nothing is known."""
    del sock
    return ANYONE


def foreign(sock: socket.socket) -> AgentRefusedError | None:
    """Return the refusal of a peer whose address is not this host's own."""
    address = ipaddress.ip_address(sock.getpeername()[0])
    return None if address.is_loopback else _refused(HTTPStatus.FORBIDDEN, "only programs of this machine are served")


@dataclass(frozen=True, slots=True, kw_only=True)
class CdhRoutes:
    """Answers to requests; thread-safe."""

    config: CdhConfig
    keyring: AgentKeys
    collecting: Collecting

    def answer(self, peer: Peer, request: AgentRequest) -> AgentAnswer:
        """Answer a request; errors of this package become text."""
        del peer
        try:
            _require_program(request)
            if request.method != "GET":
                raise _refused(HTTPStatus.METHOD_NOT_ALLOWED, "only GET is possible here", headers=(("Allow", "GET"),))
            return self._answer(request.target.partition("?"))
        except AttestError as exc:
            return text_answer(exc)

    def _answer(self, target: tuple[str, str, str]) -> AgentAnswer:
        path, _, query = target
        if path.startswith(_RESOURCES) and not query:
            return self._resource(path.removeprefix(_RESOURCES))
        if path == "/info":
            return json_answer({"version": __version__, "feature": self._feature})
        if path == "/aa/token":
            return self._token(query)
        if path == "/aa/evidence" and self.config.evidence is not None:
            return json_answer(coco_evidence(self.collecting(runtime_data_of(parse_qs(query)))))
        if path.startswith("/aa/"):
            raise _refused(HTTPStatus.NOT_FOUND, _NO_EVIDENCE)
        raise _refused(HTTPStatus.NOT_FOUND, "no such address")

    @property
    def _feature(self) -> str:
        return "resource" if self.config.evidence is None else "all"

    def _resource(self, name: str) -> AgentAnswer:
        reference = self.config.resources.get(name)
        if reference is None:
            raise _refused(HTTPStatus.NOT_FOUND, "the agent's configuration names no such resource")
        try:
            key, material = self.keyring.copied(reference)
        except AttestError as exc:
            return text_answer(exc)
        headers = (("Content-Type", "application/octet-stream"), *_SAFE)
        return AgentAnswer(
            status=HTTPStatus.OK,
            headers=headers,
            body=material,
            length=len(material),
            hides_size=key.purpose == SECRET_PURPOSE,
        )

    def _token(self, query: str) -> AgentAnswer:
        if not parse_qs(query).get("token_type"):
            raise _refused(HTTPStatus.BAD_REQUEST, "the query has no token_type")
        raise _refused(HTTPStatus.INTERNAL_SERVER_ERROR, "this agent has no issuer of attestation tokens")


def text_answer(error: AttestError) -> AgentAnswer:
    """Return a refusal as text."""
    status = HTTPStatus(error.status) if isinstance(error, AgentRefusedError) else HTTPStatus.INTERNAL_SERVER_ERROR
    body = f"{error.message} [{error.code}]\n".encode()
    more = error.headers if isinstance(error, AgentRefusedError) else ()
    headers = (("Content-Type", "text/plain; charset=utf-8"), *_SAFE, *more)
    return AgentAnswer(status=status, headers=headers, body=body, length=len(body), code=error.code)


def _require_program(request: AgentRequest) -> None:
    """Refuse what a browser sends for a page, also for one whose name was made to point at the loopback."""
    if not _HOST.fullmatch(request.headers.get("host", "").lower()):
        raise _refused(HTTPStatus.FORBIDDEN, "the host of the request is not 127.0.0.1 or localhost")
    if any(name in request.headers for name in _BROWSER):
        raise _refused(HTTPStatus.FORBIDDEN, "requests of browsers are refused")


def _refused(status: HTTPStatus, text: str, *, headers: tuple[tuple[str, str], ...] = ()) -> AgentRefusedError:
    return AgentRefusedError(text, code=_CODES[status], status=status, headers=headers)

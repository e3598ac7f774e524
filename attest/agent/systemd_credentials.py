"""Credentials for systemd: one connection gives one key, and the address of the peer says which (systemd.exec(5)).

systemd connects from a socket of the abstract namespace whose name states what it asks for::

    NUL  random hexadecimal digits  /unit/UNIT/CREDENTIAL       LoadCredential=CREDENTIAL:/path/of/the/socket
    NUL  random hexadecimal digits  /cryptsetup/VOLUME          the key file of crypttab(5)

Any process may choose such a name, so only processes of root are served. Everything else is closed without a byte.
"""

from __future__ import annotations

import logging
import re
import socket
from contextlib import suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from attest.agent.answers import AgentAnswer
from attest.agent.keys import AgentKeys
from attest.agent.peers import ROOT_ID, Peer
from attest.agent.systemd_config import SystemdConfig
from attest.errors import AgentRefusedError, AttestError
from attest.release.names import KeyReference

MAX_SHOWN: Final = 300
_NAME: Final = re.compile(rb"\0[0-9a-f]{1,16}/(?:unit/([^/]+)/([^/]+)|cryptsetup/([^/]+))")
_log = logging.getLogger("attest.agent")


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemdCredentials:
    """Connections of systemd, each for one key; thread-safe. ``seconds`` limits the writing of an answer."""

    config: SystemdConfig
    keyring: AgentKeys
    seconds: float

    @staticmethod
    def refusal(sock: socket.socket, peer: Peer) -> AgentRefusedError | None:
        """Return the reason to turn away a process of another user than root."""
        del sock
        if peer.uid == ROOT_ID:
            return None
        return _refused("only processes of root are served", HTTPStatus.FORBIDDEN, "agent-peer-refused")

    @staticmethod
    def refused(error: AgentRefusedError) -> AgentAnswer | None:
        """Return None: a reader would take any byte for the key."""
        del error
        return None

    def talk(self, sock: socket.socket, peer: Peer) -> None:
        """Send the key of a connection, and close it."""
        address = _address_of(sock)
        extra: dict[str, object] = {"uid": peer.uid, "gid": peer.gid, "pid": peer.pid, "target": shown_name(address)}
        with sock:
            try:
                key, material = self.keyring.copied(self._reference(address))
            except AttestError as exc:
                _log.warning("a credential is refused: %s", exc.message, extra=extra | {"code": exc.code})
                return
            try:
                sock.settimeout(self.seconds)
                sock.sendall(material)
            except OSError as exc:
                _log.warning("a credential was not read: %s", exc, extra=extra | {"code": "agent-peer-gone"})
                return
            finally:
                material[:] = bytes(len(material))
            with suppress(OSError):
                sock.shutdown(socket.SHUT_WR)
        _log.info("a credential was given: %s", key.reference, extra=extra)

    def _reference(self, address: object) -> KeyReference:
        found = _NAME.fullmatch(address) if isinstance(address, bytes) else None
        if found is None:
            raise _refused(
                "the peer's address states no unit or volume", HTTPStatus.BAD_REQUEST, "agent-request-invalid"
            )
        unit, credential, volume = ((part or b"").decode(errors="replace") for part in found.groups())
        reference = self.config.volumes.get(volume) if volume else self.config.units.get(unit, {}).get(credential)
        if reference is None:
            raise _refused("the configuration names no such credential", HTTPStatus.NOT_FOUND, "agent-unknown")
        return reference


def _address_of(sock: socket.socket) -> object:
    try:
        return sock.getpeername()
    except OSError:  # the peer is gone
        return b""


def shown_name(address: object) -> str:
    """Return the address of a peer for the log."""
    raw = address if isinstance(address, bytes) else str(address).encode(errors="replace")
    return raw.lstrip(b"\0").decode(errors="replace")[:MAX_SHOWN]


def _refused(text: str, status: HTTPStatus, code: str) -> AgentRefusedError:
    return AgentRefusedError(text, code=code, status=status)

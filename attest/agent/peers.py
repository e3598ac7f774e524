"""Credentials of the process at the other end of a UNIX socket, and the rules that match them.

The kernel records user, group and process at the moment of connecting (SO_PEERCRED, unix(7)); nothing that the peer
sends counts. Two properties are deliberately not checked:

* the executable (``/proc/PID/exe``): between connecting and the check a process can replace its program, or end and
  leave its number to another; from another PID namespace the number is 0. The check would prove nothing;
* supplementary groups: only the process's own group counts.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

MAX_ID: Final = 2**32 - 2
"""Largest id of a user or group; 2³² - 1 means none."""
NOBODY_ID: Final = 65534
"""The kernel's substitute for users and groups without a number in this user namespace, see user_namespaces(7).
A rule for it would match every foreign user."""
_UCRED: Final = struct.Struct("=iII")
ROOT_ID: Final = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """The process at the other end: effective user and group, as this process's user namespace numbers them.

    ``pid`` is for the log alone; it is 0 without a number in this PID namespace.
    """

    uid: int
    gid: int
    pid: int


ANYONE: Final = Peer(uid=NOBODY_ID, gid=NOBODY_ID, pid=0)
"""A process at the other end of a TCP connection, which has no credentials; no rule can name it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRule:
    """A rule that matches peers by user, group, or both; at least one is stated, and None matches any."""

    name: str
    uid: int | None
    gid: int | None

    def __post_init__(self) -> None:
        """Refuse a rule that would match every peer (``ValueError``)."""
        if self.uid is None and self.gid is None:
            raise ValueError("a rule names a user, a group or both")

    def admits(self, peer: Peer) -> bool:
        """Return whether the rule matches this peer."""
        return (self.uid is None or self.uid == peer.uid) and (self.gid is None or self.gid == peer.gid)


def peer_of(sock: socket.socket) -> Peer:
    """Return the credentials of the peer; on a connecting socket, those of the listener.

    Raises:
        OSError: not a UNIX socket, or closed.
    """
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(raw)
    return Peer(uid=uid, gid=gid, pid=pid)

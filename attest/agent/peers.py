"""Who is at the other end of a UNIX socket, as the kernel says, and which rule means them.

The kernel notes user, group and process of whoever connects, at that moment (SO_PEERCRED, unix(7)); nothing that the
peer sends counts. Two things are not looked at, on purpose:

* the executable (``/proc/PID/exe``): between connecting and looking, a process can replace its program or end and leave
  its number to another one, and from another PID namespace the number is 0. It would look like a check and be none;
* supplementary groups: one group counts, the one that the process has as its own.
"""

from __future__ import annotations

import socket
import struct
from dataclasses import dataclass
from typing import Final

__all__ = ["MAX_ID", "NOBODY_ID", "Peer", "PeerRule", "peer_of"]

MAX_ID: Final = 2**32 - 2
"""Of a user or group; 2³² - 1 means none."""
NOBODY_ID: Final = 65534
"""What the kernel says in the place of every user and group that has no number in this user namespace, see
user_namespaces(7). A rule for it would mean everybody from elsewhere."""
_UCRED: Final = struct.Struct("=iII")


@dataclass(frozen=True, slots=True, kw_only=True)
class Peer:
    """Whoever connected.

    Attributes:
        uid: effective user, as this process's user namespace numbers it.
        gid: effective group.
        pid: for the log alone; 0 where it has none in this PID namespace. Nothing is decided by it.
    """

    uid: int
    gid: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class PeerRule:
    """Whom a name of the configuration means: everything that is said has to hold, and something has to be said.

    Attributes:
        name: in the configuration.
        uid: the user; None where the group says it.
        gid: the group; None where the user says it.
    """

    name: str
    uid: int | None
    gid: int | None

    def __post_init__(self) -> None:
        """Refuse a rule that means everybody (``ValueError``)."""
        if self.uid is None and self.gid is None:
            msg = "a rule names a user, a group or both"
            raise ValueError(msg)

    def admits(self, peer: Peer) -> bool:
        """Say whether it means this peer."""
        return (self.uid is None or self.uid == peer.uid) and (self.gid is None or self.gid == peer.gid)


def peer_of(sock: socket.socket) -> Peer:
    """Ask the kernel who connected; of a connecting socket, who listens.

    Raises:
        OSError: the socket is no UNIX socket, or gone.
    """
    raw = sock.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size)
    pid, uid, gid = _UCRED.unpack(raw)
    return Peer(uid=uid, gid=gid, pid=pid)

"""Entrances of the agent: each listens in its own way, and identifies and serves its peers."""

from __future__ import annotations

import socket
from collections.abc import Callable
from dataclasses import dataclass

from attest.agent.answers import AgentAnswer
from attest.agent.peers import Peer
from attest.errors import AgentRefusedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Face:
    """A listening socket and the treatment of its connections.

    Attributes:
        sock: listens.
        identify: returns the peer of a connection (``OSError``: none).
        refusal: returns the reason to turn a peer away, or None.
        refused: renders such a reason; None closes the connection without a byte.
        talk: serves a connection in a thread of its own, and closes it.
    """

    sock: socket.socket
    identify: Callable[[socket.socket], Peer]
    refusal: Callable[[socket.socket, Peer], AgentRefusedError | None]
    refused: Callable[[AgentRefusedError], AgentAnswer | None]
    talk: Callable[[socket.socket, Peer], None]

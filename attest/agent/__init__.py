"""``attest agent``: one process of a pod attests, and gives keys and unsealed files to the others over a UNIX socket.

The agent's side, from the kernel inwards: ``place`` makes the socket, ``peers`` says who is at its other end,
``serving`` bounds connections, ``http`` speaks, ``routes`` decides, ``keys`` and ``models`` hold what is given out.
``config`` says what is given to whom. The other side is ``AgentClient``::

    with AgentClient("/run/attest/agent.sock", uid=65532) as agent:
        key = agent.key("llama-70b")                                  # bytes
        tensors = load_model(agent.model("llama"))                    # as of a sealed model that is opened here
        model = open_directory("llama.sealed", key=key_source(agent), trusted=(owner,))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from attest.agent.client import AgentClient, AgentModel
    from attest.agent.config import AgentConfig, load_config
    from attest.agent.peers import Peer, PeerRule
    from attest.errors import AgentRefusedError, AgentUnavailableError

_HOMES = {
    "AgentClient": "attest.agent.client",
    "AgentConfig": "attest.agent.config",
    "AgentModel": "attest.agent.client",
    "AgentRefusedError": "attest.errors",
    "AgentUnavailableError": "attest.errors",
    "Peer": "attest.agent.peers",
    "PeerRule": "attest.agent.peers",
    "load_config": "attest.agent.config",
}
__all__ = [
    "AgentClient",
    "AgentConfig",
    "AgentModel",
    "AgentRefusedError",
    "AgentUnavailableError",
    "Peer",
    "PeerRule",
    "load_config",
]


def __getattr__(name: str) -> object:
    """Bring a name's module when it is first used: a container that only asks loads nothing of the agent."""
    if name not in _HOMES:
        msg = f"module {__name__!r} has no attribute {name!r}"
        raise AttributeError(msg)
    return getattr(import_module(_HOMES[name]), name)

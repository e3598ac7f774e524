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

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.agent.client import AgentClient, AgentModel
    from attest.agent.config import AgentConfig, load_config
    from attest.agent.peers import Peer, PeerRule
    from attest.errors import AgentRefusedError, AgentUnavailableError

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

__getattr__ = lazy_names(
    __name__,
    {
        "attest.agent.client": (
            "AgentClient",
            "AgentModel",
        ),
        "attest.agent.config": (
            "AgentConfig",
            "load_config",
        ),
        "attest.agent.peers": (
            "Peer",
            "PeerRule",
        ),
        "attest.errors": (
            "AgentRefusedError",
            "AgentUnavailableError",
        ),
    },
)

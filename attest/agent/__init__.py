"""``attest agent``: one process of a pod attests, and serves keys and unsealed files to the others over a UNIX socket.

On the agent's side ``unix_socket`` makes the socket, ``peers`` identifies the process at its other end, ``server``
bounds connections, ``http`` implements the protocol, ``routes`` authorises, ``keys`` and ``models`` hold secrets.
``config`` states the grants of each peer. The client's side is ``AgentClient``::

    with AgentClient("/run/attest/agent.sock", uid=65532) as agent:
        key = agent.key("llama-70b")                                  # bytes
        tensors = load_model(agent.model("llama"))                    # as of a sealed model opened in this process
        model = open_directory("llama.sealed", key=key_source(agent), trusted=(owner,))
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from attest.lazy_names import lazy_names

if TYPE_CHECKING:
    from attest.agent.client import AgentClient, AgentModel
    from attest.agent.config import AgentConfig, load_config
    from attest.agent.peers import Peer, PeerRule
    from attest.agent.trusted_files import read_guarded
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
    "read_guarded",
]

__getattr__ = lazy_names(
    __name__,
    {
        "attest.agent.client": ("AgentClient", "AgentModel"),
        "attest.agent.config": ("AgentConfig", "load_config"),
        "attest.agent.peers": ("Peer", "PeerRule"),
        "attest.agent.trusted_files": ("read_guarded",),
        "attest.errors": ("AgentRefusedError", "AgentUnavailableError"),
    },
)

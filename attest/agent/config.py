"""The agent's configuration: one closed TOML file. Anything that it does not grant is refused.

::

    [socket]
    mode = "0660"                     # 0600 unless given, or 0666; the credentials are checked in every case
    group = 2000

    [peers.inference]                 # a name for peers of this user, this group, or both
    uid = 10001

    [keys."acme/llama-70b"]           # a reference as for 'attest key get'
    peers = ["inference"]

    [models.embedder]
    place = "/models/embedder.sealed" # a folder, or an address: https://…, s3://…
    trust = ["owner.pem"]             # accepted signers; relative paths start at this file's folder
    peers = ["inference"]

``files_config`` has the tables ``[files.NAME]`` and ``[program]``, ``cdh_config`` has ``[cdh]``, and ``systemd_config``
has ``[systemd]``.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final

from cryptography.hazmat.primitives.asymmetric import ec

from attest.agent.cdh_config import CdhConfig, cdh_of
from attest.agent.files_config import ProgramConfig, RenderedFile, files_of, program_of
from attest.agent.peers import Peer, PeerRule
from attest.agent.systemd_config import SystemdConfig, systemd_of
from attest.agent.toml_tables import (
    Table,
    config_invalid,
    entries_of,
    id_of,
    number_of,
    require_known,
    table_of,
    text_of,
    texts_of,
)
from attest.agent.trusted_files import read_guarded
from attest.encoding import hex_bytes
from attest.errors import EvidenceError
from attest.release.names import KeyReference
from attest.sealed.manifest import MODEL_ID_BYTES
from attest.sealed.signing_keys import read_trusted_key

MAX_CONFIG_BYTES: Final = 1024 * 1024
MAX_PEM_BYTES: Final = 64 * 1024
_NAME: Final = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}")
_GRANTS: Final = {"keys", "models", "files", "cdh", "systemd"}
_TABLES: Final = _GRANTS | {"socket", "limits", "peers", "program"}
_MODES: Final = {"0600": 0o600, "0660": 0o660, "0666": 0o666}


@dataclass(frozen=True, slots=True, kw_only=True)
class SocketConfig:
    """Mode and group of the socket's file, None for the system's, and a reason to allow an unsafe directory.

    The mode limits connections at all. A directory is unsafe if others can write it, such as a volume of a pod.
    """

    mode: int = 0o600
    group: int | None = None
    unchecked_directory: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentLimits:
    """Limits of size and time. All have defaults.

    Attributes:
        connections: open at once.
        connections_per_uid: of one user.
        streams: files sent at once; each takes a few MiB.
        streams_per_uid: to one user.
        head_seconds: for a request's head, from its first byte to its last.
        idle_seconds: between requests of one connection.
        wait_seconds: for a file's turn, with too many streams under way.
        stall_seconds: for a peer to receive one MiB of an answer.
        drain_seconds: for answers under way at shutdown.
    """

    connections: int = 64
    connections_per_uid: int = 32
    streams: int = 8
    streams_per_uid: int = 4
    head_seconds: float = 10.0
    idle_seconds: float = 30.0
    wait_seconds: float = 5.0
    stall_seconds: float = 30.0
    drain_seconds: float = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedKey:
    """A key and its permitted peers."""

    reference: KeyReference
    peers: tuple[PeerRule, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ServedModel:
    """A sealed model and its permitted peers.

    Attributes:
        name: in addresses.
        place: a folder, or an address as for ``store_of``.
        trusted: accepted signers.
        verify_digests: compare all ciphertext with the signature before serving any of it.
        model_id: identity of the required sealing, 16 bytes; None accepts any of its owner's, older ones too.
        peers: names of the permitted peers.
    """

    name: str
    place: str
    trusted: tuple[ec.EllipticCurvePublicKey, ...]
    verify_digests: bool
    peers: tuple[PeerRule, ...]
    model_id: bytes | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentConfig:
    """The grants of all peers, and the files for a shared volume. A peer that no rule or entry names is refused."""

    socket: SocketConfig = field(default_factory=SocketConfig)
    limits: AgentLimits = field(default_factory=AgentLimits)
    peers: tuple[PeerRule, ...] = ()
    keys: tuple[ServedKey, ...] = ()
    models: tuple[ServedModel, ...] = ()
    files: tuple[RenderedFile, ...] = ()
    program: ProgramConfig | None = None
    cdh: CdhConfig | None = None
    systemd: SystemdConfig | None = None

    @property
    def references(self) -> tuple[KeyReference, ...]:
        """The keys and secrets to obtain at the start, each once."""
        found = [one.reference for one in self.keys]
        found += self.cdh.resources.values() if self.cdh is not None else ()
        found += self.systemd.references if self.systemd is not None else ()
        return tuple(dict.fromkeys(found))

    def knows(self, peer: Peer) -> bool:
        """Return whether any rule matches this peer."""
        return any(rule.admits(peer) for rule in self.peers)

    def key_for(self, peer: Peer, name: str) -> ServedKey | None:
        """Return a key if this peer may have it, else None."""
        return next((one for one in self.keys_for(peer) if str(one.reference) == name), None)

    def model_for(self, peer: Peer, name: str) -> ServedModel | None:
        """Return a model if this peer may have it, else None."""
        return next((one for one in self.models_for(peer) if one.name == name), None)

    def keys_for(self, peer: Peer) -> tuple[ServedKey, ...]:
        """Return the keys of this peer."""
        return tuple(one for one in self.keys if any(rule.admits(peer) for rule in one.peers))

    def models_for(self, peer: Peer) -> tuple[ServedModel, ...]:
        """Return the models of this peer."""
        return tuple(one for one in self.models if any(rule.admits(peer) for rule in one.peers))


def load_config(path: Path) -> AgentConfig:
    """Read the file and the owners' keys that it names.

    Raises:
        ConfigurationError: ``agent-config-invalid``, ``file-writable-by-others``, ``file-unreadable``,
            ``model-key-invalid``, ``template-library-missing``, or as ``KeyReference.parse``.
    """
    text = read_guarded(path, what="the agent's configuration", limit=MAX_CONFIG_BYTES)
    folder = path.absolute().parent
    return parse_config(
        text,
        read=lambda name: read_guarded(folder / name, what="a file of the configuration", limit=MAX_PEM_BYTES),
        folder=folder,
    )


def parse_config(text: bytes, *, read: Callable[[str], bytes], folder: Path) -> AgentConfig:
    """Parse TOML; ``read`` returns the content of a file that it names, ``folder`` is the base of relative paths.

    Raises:
        ConfigurationError: as ``load_config``.
    """
    try:
        document: dict[str, Any] = tomllib.loads(text.decode())  # Any: TOML
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as exc:
        raise config_invalid("the file", "TOML", str(exc)) from exc
    require_known(document, _TABLES, "")
    rules = {name: _rule(name, one) for name, one in entries_of(document, "peers").items()}
    keys = tuple(_key(name, one, rules) for name, one in entries_of(document, "keys").items())
    models = tuple(_model(name, one, rules, read, folder) for name, one in entries_of(document, "models").items())
    files = files_of(document, read=read)
    if not any(document.get(name) for name in _GRANTS):
        expected = "a table [keys.NAME], [models.NAME], [files.NAME], [cdh] or [systemd]"
        raise config_invalid("the file", expected, "none")
    return AgentConfig(
        socket=_socket(table_of(document, "socket")),
        limits=_limits(table_of(document, "limits")),
        peers=tuple(rules.values()),
        keys=keys,
        models=models,
        files=files,
        program=program_of(document, files=files),
        cdh=cdh_of(document),
        systemd=systemd_of(document),
    )


# -- tables


def _socket(table: Table) -> SocketConfig:
    require_known(table, {"mode", "group", "unchecked_directory"}, "socket.")
    mode = table.get("mode", "0600")
    if not isinstance(mode, str) or mode not in _MODES:
        raise config_invalid("socket.mode", ", ".join(map(repr, _MODES)), repr(mode))
    group = id_of(table, "group", "socket.")
    if mode == "0660" and group is None:
        raise config_invalid("socket.group", "a group beside mode 0660, whose members may connect", "none")
    reason = text_of(table, "unchecked_directory", "socket.") if "unchecked_directory" in table else None
    return SocketConfig(mode=_MODES[mode], group=group, unchecked_directory=reason)


def _limits(table: Table) -> AgentLimits:
    require_known(table, {one.name for one in fields(AgentLimits)}, "limits.")
    values: dict[str, Any] = {}  # Any: each has the type of its field
    for one in fields(AgentLimits):
        if one.name in table:
            whole = isinstance(one.default, int)
            values[one.name] = number_of(table[one.name], f"limits.{one.name}", whole=whole)
    return AgentLimits(**values)


def _rule(name: str, table: Table) -> PeerRule:
    where = f"peers.{name}."
    if not _NAME.fullmatch(name):
        raise config_invalid("peers", "names of lower-case letters, digits, '.', '_' and '-'", repr(name)[:80])
    require_known(table, {"uid", "gid"}, where)
    uid, gid = id_of(table, "uid", where), id_of(table, "gid", where)
    if uid is None and gid is None:
        raise config_invalid(f"peers.{name}", "uid, gid or both", "neither")
    return PeerRule(name=name, uid=uid, gid=gid)


def _key(name: str, table: Table, rules: Mapping[str, PeerRule]) -> ServedKey:
    where = f'keys."{name[:80]}".'
    require_known(table, {"peers"}, where)
    return ServedKey(reference=KeyReference.parse(name), peers=_peers(table, where, rules))


def _model(
    name: str, table: Table, rules: Mapping[str, PeerRule], read: Callable[[str], bytes], folder: Path
) -> ServedModel:
    where = f"models.{name[:80]}."
    if not _NAME.fullmatch(name):
        raise config_invalid("models", "names of lower-case letters, digits, '.', '_' and '-'", repr(name)[:80])
    require_known(table, {"place", "trust", "peers", "verify_digests", "model_id"}, where)
    place = text_of(table, "place", where)
    digests = table.get("verify_digests", False)
    if not isinstance(digests, bool):
        raise config_invalid(f"{where}verify_digests", "true or false", repr(digests)[:80])
    return ServedModel(
        name=name,
        place=place if "://" in place else str(folder / place),
        trusted=tuple(read_trusted_key(read(one)) for one in texts_of(table, "trust", where)),
        verify_digests=digests,
        peers=_peers(table, where, rules),
        model_id=_model_id(table, where),
    )


def _model_id(table: Table, where: str) -> bytes | None:
    if "model_id" not in table:
        return None
    text = text_of(table, "model_id", where)
    try:
        return hex_bytes(text, what="model_id", length=MODEL_ID_BYTES)
    except EvidenceError as exc:
        raise config_invalid(f"{where}model_id", f"{2 * MODEL_ID_BYTES} hex digits", repr(text)[:80]) from exc


def _peers(table: Table, where: str, rules: Mapping[str, PeerRule]) -> tuple[PeerRule, ...]:
    names = texts_of(table, "peers", where)
    unknown = [name for name in names if name not in rules]
    if unknown:
        raise config_invalid(f"{where}peers", "names of tables [peers.NAME]", ", ".join(map(repr, unknown))[:200])
    return tuple(rules[name] for name in dict.fromkeys(names))

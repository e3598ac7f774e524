"""Services of a compose file, as far as they decide what runs: image, privileges, mounts.

A compose file is YAML with anchors and merge keys, which a policy may not have. So its nodes are read where they stand,
and nothing is built of them: a short file cannot grow into a large one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from attest.errors import ConfigurationError
from attest.policy.document import yaml_reader

MAX_COMPOSE_BYTES = 1024 * 1024
MAX_COMPOSE_EVENTS = 50_000
MAX_MERGES = 8
"""Merge keys that are followed one behind the other."""
_MERGE = "<<"


@dataclass(frozen=True, slots=True, kw_only=True)
class ComposeService:
    """One service.

    Attributes:
        image: as written, variables included; None for a service without one.
        powers: keys by which it can leave its container, with their values.
        mounts: sources of its bind mounts and volumes, as written.
    """

    name: str
    image: str | None
    powers: tuple[str, ...]
    mounts: tuple[str, ...]


def compose_services(text: bytes, *, name: str) -> tuple[ComposeService, ...]:
    """Read the services of a compose file; ``name`` is its name in errors.

    Raises:
        ConfigurationError: ``app-compose-unreadable``: no YAML, too large, or without a mapping of services.
    """
    services = _mapping(_member(_root(text, name), "services"))
    if services is None:
        raise unreadable(name, "a mapping of services")
    return tuple(
        ComposeService(
            name=service,
            image=_scalar(_member(node, "image")),
            powers=tuple(_powers(node)),
            mounts=tuple(_mounts(_member(node, "volumes"))),
        )
        for service, node in services
    )


def unreadable(name: str, expected: str) -> ConfigurationError:
    """Return the error for a file that is not read."""
    return ConfigurationError(
        f"{name}: expected {expected}", code="app-compose-unreadable", field=name, expected=expected
    )


_Node = Any  # a node of the library, whose own annotations are partial


def _root(text: bytes, name: str) -> _Node:
    if len(text) > MAX_COMPOSE_BYTES:
        raise unreadable(name, f"at most {MAX_COMPOSE_BYTES} bytes")
    reader = yaml_reader(name)
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415  of the extra 'cli'

    try:
        for number, _ in enumerate(reader.parse(text)):
            if number > MAX_COMPOSE_EVENTS:
                raise unreadable(name, f"at most {MAX_COMPOSE_EVENTS} keys and values")
        return reader.compose(text)
    except (YAMLError, ValueError, RecursionError) as exc:
        raise unreadable(name, "YAML") from exc


def _mapping(node: _Node) -> list[tuple[str, _Node]] | None:
    """Return the members of a mapping, as written."""
    if node is None or node.id != "mapping":
        return None
    return [(key.value, value) for key, value in node.value if key.id == "scalar"]


def _member(node: _Node, name: str, depth: int = 0) -> _Node:
    """Return a member of a mapping, or of a mapping that is merged into it; None where there is none."""
    members = _mapping(node) or []
    found = next((value for key, value in members if key == name), None)
    if found is not None or depth == MAX_MERGES:
        return found
    merged = (each for key, value in members if key == _MERGE for each in _merged(value))
    return next((value for each in merged if (value := _member(each, name, depth + 1)) is not None), None)


def _merged(node: _Node) -> list[_Node]:
    members: list[_Node] = node.value if node.id == "sequence" else [node]
    return members[:MAX_MERGES]


def _scalar(node: _Node) -> str | None:
    return node.value if node is not None and node.id == "scalar" else None


_HOST_CAPABILITIES = frozenset({"ALL", "SYS_ADMIN", "SYS_MODULE", "SYS_PTRACE", "SYS_RAWIO"})


def _powers(service: _Node) -> Iterator[str]:
    """Yield the keys by which a container can leave its namespaces."""
    if _scalar(_member(service, "privileged")) not in (None, "false"):
        yield "privileged"
    if _scalar(_member(service, "pid")) == "host":
        yield "pid host"
    granted = _member(service, "cap_add")
    for entry in granted.value if granted is not None and granted.id == "sequence" else ():
        capability = (_scalar(entry) or "").upper().removeprefix("CAP_")
        if capability in _HOST_CAPABILITIES:
            yield f"cap_add {capability}"


def _mounts(node: _Node) -> Iterator[str]:
    """Yield the sources of mounts in both spellings, ``source:target`` and a mapping."""
    if node is None or node.id != "sequence":
        return
    for entry in node.value:
        source = _scalar(entry) if entry.id == "scalar" else _scalar(_member(entry, "source"))
        if source is not None:
            yield source.partition(":")[0] if entry.id == "scalar" else source

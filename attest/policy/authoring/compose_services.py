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
MAX_MERGES = 100
"""Mappings that may be merged into one."""
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
        ConfigurationError: ``app-compose-unreadable``: no YAML, too large, with too many merges, or without a mapping
            of services.
    """
    root = _root(text, name)
    try:
        services = _mapping(_member(root, "services"))
        if services is None:
            raise unreadable(name, "a mapping of services")
        return tuple(_service(service, node) for service, node in services)
    except _TooManyMergesError as exc:
        raise unreadable(name, f"at most {MAX_MERGES} mappings merged into one") from exc


def _service(name: str, node: _Node) -> ComposeService:
    return ComposeService(
        name=name,
        image=_scalar(_member(node, "image")),
        powers=tuple(_powers(node)),
        mounts=tuple(_mounts(_member(node, "volumes"))),
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


class _TooManyMergesError(Exception):
    """More mappings are merged into one than are followed."""


def _member(node: _Node, name: str) -> _Node:
    """Return a member of a mapping, or of a mapping that is merged into it; None if no mapping has it.

    Each mapping is looked at once, since aliases let a short file name the same mapping in millions of ways.
    """
    seen: set[int] = set()
    pending = [node]
    while pending:
        mapping = pending.pop()
        if id(mapping) in seen:
            continue
        if len(seen) > MAX_MERGES:
            raise _TooManyMergesError
        seen.add(id(mapping))
        members = _mapping(mapping) or []
        found = next((value for key, value in members if key == name), None)
        if found is not None:
            return found
        pending += reversed([each for key, value in members if key == _MERGE for each in _merged(value)])
    return None


def _merged(node: _Node) -> list[_Node]:
    members: list[_Node] = node.value if node.id == "sequence" else [node]
    return members


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

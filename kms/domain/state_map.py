"""An authenticated map from 32-byte keys to 32-byte values, whose root digest commits to all of it.

A **node** is a bucket of a few entries, or a branch with sixteen children, one for each value of the next four bits of
the key. The digest of a node is SHA-256 of its content, and a branch holds the digests of its children, so that the
root determines which entries exist and which do not. A node is stored under its path: the digits from the root.

An absent child has the digest ``EMPTY``. A full bucket becomes a branch; a branch remains until its last entry is gone.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple, TypeVar

DIGEST_BYTES: Final = 32
EMPTY: Final = bytes(DIGEST_BYTES)
"""Digest of a map without entries."""
MAX_BUCKET: Final = 16
"""Most entries of a bucket."""
_BUCKET, _BRANCH = b"\x00", b"\x01"
CHILDREN: Final = 16
_ENTRY_BYTES: Final = 2 * DIGEST_BYTES

V = TypeVar("V")
Path = bytes
"""Digits of four bits from the root, a byte each."""
Changes = Mapping[bytes, bytes | None]
"""New values by key; None removes an entry."""


@dataclass(frozen=True, slots=True)
class Bucket:
    """Entries of a part of the map, by key."""

    entries: Mapping[bytes, bytes]

    def content(self) -> bytes:
        """Return the stored form."""
        return _BUCKET + b"".join(key + self.entries[key] for key in sorted(self.entries))


@dataclass(frozen=True, slots=True)
class Branch:
    """Digests of the sixteen children."""

    children: tuple[bytes, ...]

    def content(self) -> bytes:
        """Return the stored form."""
        return _BRANCH + b"".join(self.children)


Node = Bucket | Branch
ReadNode = Callable[[Path, bytes], Node]
"""Returns the node of a path, which has this digest, or raises."""
ReadAtDepth = Callable[[int, bytes], Node]
"""Returns the node, with this digest, on the path of the wanted key after this many digits, or raises."""


class StoredNode(NamedTuple):
    """A node with its stored form and the digest of that."""

    node: Node
    content: bytes
    digest: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """A map after changes.

    ``nodes`` are the nodes that differ, by path; None for one that is gone.
    """

    root: bytes
    nodes: Mapping[Path, StoredNode | None]


def read_node(content: bytes) -> Node:
    """Read a node's stored form.

    Raises:
        ValueError: it is not a node.
    """
    kind, rest = content[:1], content[1:]
    if kind == _BRANCH and len(rest) == CHILDREN * DIGEST_BYTES:
        return Branch(tuple(rest[at : at + DIGEST_BYTES] for at in range(0, len(rest), DIGEST_BYTES)))
    if kind != _BUCKET or not rest or len(rest) % _ENTRY_BYTES or len(rest) > MAX_BUCKET * _ENTRY_BYTES:
        raise ValueError("not a node of the map")
    starts = range(0, len(rest), _ENTRY_BYTES)
    return Bucket({rest[at : at + DIGEST_BYTES]: rest[at + DIGEST_BYTES : at + _ENTRY_BYTES] for at in starts})


def digits_of(key: bytes) -> Path:
    """Return the digits of a key: the path on which its entry can be."""
    return bytes(digit for byte in key for digit in (byte >> 4, byte & 15))


def find(root: bytes, key: bytes, read: ReadAtDepth) -> bytes | None:
    """Return the value of a key, or None if the map has no such entry."""
    digest, depth = root, 0
    while digest != EMPTY:
        node = read(depth, digest)
        if isinstance(node, Bucket):
            return node.entries.get(key)
        byte = key[depth >> 1]
        digest, depth = node.children[byte & 15 if depth & 1 else byte >> 4], depth + 1
    return None


def changed(root: bytes, changes: Changes, read: ReadNode) -> Changed:
    """Return the map after these changes, and the nodes that differ."""
    change = _Change(read)
    return Changed(root=change.below(b"", root, changes), nodes=change.nodes)


class _Change:
    """One pass over the parts of a map that change."""

    def __init__(self, read: ReadNode) -> None:
        self._read = read
        self.nodes: dict[Path, StoredNode | None] = {}

    def below(self, path: Path, digest: bytes, changes: Changes) -> bytes:
        """Change the part of the map below a path; return its new digest."""
        node = Bucket({}) if digest == EMPTY else self._read(path, digest)
        if isinstance(node, Bucket):
            entries = {**node.entries, **changes}
            return self._fill(path, {key: value for key, value in entries.items() if value is not None}, digest)
        children = list(node.children)
        for digit, part in _by_digit(changes, len(path)):
            children[digit] = self.below(path + bytes([digit]), children[digit], part)
        return self._store(path, Branch(tuple(children)) if any(map(EMPTY.__ne__, children)) else None, digest)

    def _fill(self, path: Path, entries: Mapping[bytes, bytes], before: bytes) -> bytes:
        """Store entries as a bucket, or as a branch over buckets."""
        if len(entries) <= MAX_BUCKET:
            return self._store(path, Bucket(entries) if entries else None, before)
        children = [EMPTY] * CHILDREN
        for digit, part in _by_digit(entries, len(path)):
            children[digit] = self._fill(path + bytes([digit]), part, EMPTY)
        return self._store(path, Branch(tuple(children)), before)

    def _store(self, path: Path, node: Node | None, before: bytes) -> bytes:
        content = b"" if node is None else node.content()
        digest = EMPTY if node is None else sha256(content).digest()
        if digest != before:
            self.nodes[path] = None if node is None else StoredNode(node, content, digest)
        return digest


def _by_digit(changes: Mapping[bytes, V], depth: int) -> Iterable[tuple[int, Mapping[bytes, V]]]:
    groups: dict[int, dict[bytes, V]] = defaultdict(dict)
    for key, value in changes.items():
        byte = key[depth >> 1]
        groups[byte & 15 if depth & 1 else byte >> 4][key] = value
    return groups.items()

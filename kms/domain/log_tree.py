"""The Merkle tree over the entries: the stored hashes of which a proof consists, and those that an entry adds.

A **node** is (level, index): the hash of the 2^level leaves from index · 2^level on. Nodes with all their leaves are
stored and never change, so that an entry adds two of them on average, and a proof reads few: about twice as many as
the size of the log has binary digits. Leaves are counted from 0; entry ``seq`` is leaf ``seq - 1``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from attest.release import EMPTY_ROOT, node_hash
from kms.domain.errors import LogBrokenError

Node = tuple[int, int]
_Range = tuple[int, int]
ReadNodes = Callable[[Sequence[Node]], Mapping[Node, bytes]]
"""Returns the hashes of these nodes; missing ones are left out."""


def node_position(node: Node) -> int:
    """Return the number of a node when all nodes of an endless tree are counted from left to right."""
    level, index = node
    return (index << (level + 1)) + (1 << level) - 1


def root(size: int, read: ReadNodes) -> bytes:
    """Return the hash of the tree of the first ``size`` leaves.

    Raises:
        LogBrokenError: ``log-tree-broken``: a node is missing.
    """
    return _hashes([(0, size)], read)[0] if size else EMPTY_ROOT


def inclusion_proof(index: int, size: int, read: ReadNodes) -> tuple[bytes, ...]:
    """Return the siblings of leaf ``index``, from the leaf upwards (RFC 9162, section 2.1.3.1); ``index < size``.

    Raises:
        LogBrokenError: ``log-tree-broken``: a node is missing.
    """
    siblings, _ = _path(index + 1, size, to_leaf=True)
    return _hashes(siblings, read)


def consistency_proof(old: int, new: int, read: ReadNodes) -> tuple[bytes, ...]:
    """Return the proof that a tree extends an older one (RFC 9162, section 2.1.4.1); ``old <= new``.

    It is empty if the older tree is empty or the same.

    Raises:
        LogBrokenError: ``log-tree-broken``: a node is missing.
    """
    if old in {0, new}:
        return ()
    siblings, (low, high) = _path(old, new, to_leaf=False)
    # Without a left neighbour, the last range is the whole older tree, and the reader has its root.
    own = [(low, high)] if low else []
    return _hashes(own + siblings, read)


def grown(size: int, leaf: bytes, read: ReadNodes) -> list[tuple[Node, bytes]]:
    """Return the nodes that the next leaf completes, itself first; ``size`` leaves precede it.

    Raises:
        LogBrokenError: ``log-tree-broken``: a node is missing.
    """
    left = [(level, (size >> level) - 1) for level in range((~size & (size + 1)).bit_length() - 1)]
    stored = _required(left, read)
    nodes: list[tuple[Node, bytes]] = [((0, size), leaf)]
    for level, index in left:
        nodes.append(((level + 1, index >> 1), node_hash(stored[level, index], nodes[-1][1])))
    return nodes


def recent_nodes(size: int, *, leaves: int) -> list[Node]:
    """Return the nodes of which the root of a tree and the inclusion proofs of its newest leaves consist."""
    low = max(0, size - leaves)
    nodes = _cover(0, size)
    for level in range(size.bit_length()):
        first = low >> level
        # The whole nodes from the oldest of these leaves on, and on the left the sibling on its path to the root.
        nodes += [(level, index) for index in range(first - (first & 1), size >> level)]
    return list(dict.fromkeys(nodes))


def edge_nodes(size: int) -> list[Node]:
    """Return the nodes of which the root of a tree consists: its right edge."""
    return _cover(0, size)


class Frontier:
    """A tree that grows leaf by leaf and keeps no more than its right edge, the hashes of ``edge_nodes``."""

    def __init__(self, size: int = 0, edge: Mapping[Node, bytes] | None = None) -> None:
        self.size = size
        self._edge = dict(edge or {})

    def copy(self) -> Frontier:
        """Return an independent copy of the tree."""
        return Frontier(self.size, self._edge)

    def add(self, leaf: bytes) -> list[tuple[Node, bytes]]:
        """Add a leaf, and return the nodes that it completes."""
        nodes = grown(self.size, leaf, lambda _: self._edge)
        self.size += 1
        self._edge.update(nodes)
        self._edge = {node: self._edge[node] for node in _cover(0, self.size)}
        return nodes

    def root(self) -> bytes:
        """Return the hash of the tree as it is now."""
        return root(self.size, lambda _: self._edge)


def _path(end: int, size: int, *, to_leaf: bool) -> tuple[list[_Range], _Range]:
    """Return the siblings of a subtree that ends before leaf ``end``, from the bottom upwards, and the subtree.

    It is the largest one on the way from the root, or with ``to_leaf`` the last leaf of it.
    """
    siblings: list[_Range] = []
    low, high = 0, size
    while high != end or (to_leaf and high - low > 1):
        middle = _split(low, high)
        if end <= middle:
            siblings.append((middle, high))
            high = middle
        else:
            siblings.append((low, middle))
            low = middle
    return siblings[::-1], (low, high)


def _split(low: int, high: int) -> int:
    """Return where the right part of a tree begins: behind the largest power of two below its size."""
    return low + (1 << (high - low - 1).bit_length() - 1)


def _cover(low: int, high: int) -> list[Node]:
    """Return the nodes that make up a range of leaves, from left to right, the largest first."""
    nodes: list[Node] = []
    while low < high:
        level = (high - low).bit_length() - 1
        nodes.append((level, low >> level))
        low += 1 << level
    return nodes


def _hashes(ranges: Sequence[_Range], read: ReadNodes) -> tuple[bytes, ...]:
    """Return the hash of each range of leaves; everything is read at once."""
    covers = [_cover(low, high) for low, high in ranges]
    stored = _required([node for cover in covers for node in cover], read)
    return tuple(_folded([stored[node] for node in cover]) for cover in covers)


def _folded(hashes: Iterable[bytes]) -> bytes:
    *left, folded = hashes
    for one in reversed(left):
        folded = node_hash(one, folded)
    return folded


def _required(nodes: Sequence[Node], read: ReadNodes) -> Mapping[Node, bytes]:
    stored = read(nodes) if nodes else {}
    missing = next((node for node in nodes if node not in stored), None)
    if missing is not None:
        raise LogBrokenError(
            f"the hash at level {missing[0]}, index {missing[1]} is missing in the tree of the log",
            code="log-tree-broken",
            field="log_nodes",
            hint="the database was altered or damaged; restore it from a backup",
        )
    return stored

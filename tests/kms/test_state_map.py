"""The authenticated map: a dictionary whose root digest admits no other content."""

from hashlib import sha256

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kms.domain.state_map import (
    DIGEST_BYTES,
    EMPTY,
    MAX_BUCKET,
    Branch,
    Bucket,
    Node,
    Path,
    changed,
    digits_of,
    find,
    read_node,
)


class AlteredError(Exception):
    """A node is not the one that its digest names."""


class Memory:
    """A map whose nodes are in memory, as a database has them."""

    def __init__(self) -> None:
        self.root = EMPTY
        self.nodes: dict[Path, bytes] = {}

    def read(self, path: Path, digest: bytes) -> Node:
        content = self.nodes.get(path)
        if content is None or sha256(content).digest() != digest:
            raise AlteredError
        return read_node(content)

    def apply(self, changes: dict[bytes, bytes | None]) -> None:
        made = changed(self.root, changes, self.read)
        for path, node in made.nodes.items():
            if node is None:
                del self.nodes[path]
            else:
                assert (sha256(node.content).digest(), read_node(node.content)) == (node.digest, node.node)
                self.nodes[path] = node.content
        self.root = made.root

    def find(self, key: bytes) -> bytes | None:
        return find(self.root, key, lambda depth, digest: self.read(digits_of(key)[:depth], digest))


def far(number: int) -> bytes:
    """A key that shares its first digits with few others."""
    return sha256(number.to_bytes(2, "big")).digest()


def near(number: int) -> bytes:
    """A key that shares all but its last digits with others."""
    return bytes(DIGEST_BYTES - 1) + bytes([number])


KEYS = st.one_of(st.integers(0, 99).map(far), st.integers(0, 59).map(near))
VALUES = st.integers(0, 3).map(lambda number: bytes([number]) * DIGEST_BYTES)
CHANGES = st.dictionaries(KEYS, st.one_of(st.none(), VALUES), max_size=60)
SEQUENCES = st.lists(CHANGES, max_size=6)
EVERY_KEY = [far(number) for number in range(100)] + [near(number) for number in range(60)]


def filled(sequence: list[dict[bytes, bytes | None]]) -> tuple[Memory, dict[bytes, bytes]]:
    memory, expected = Memory(), dict[bytes, bytes]()
    for changes in sequence:
        memory.apply(changes)
        for key, value in changes.items():
            if value is None:
                expected.pop(key, None)
            else:
                expected[key] = value
    return memory, expected


def reachable(memory: Memory) -> set[Path]:
    """Return the paths of the nodes that the root leads to."""
    found: set[Path] = set()

    def visit(path: Path, digest: bytes) -> None:
        if digest != EMPTY:
            found.add(path)
            node = memory.read(path, digest)
            if isinstance(node, Branch):
                for digit, child in enumerate(node.children):
                    visit(path + bytes([digit]), child)

    visit(b"", memory.root)
    return found


@given(SEQUENCES)
def test_it_holds_what_a_dictionary_holds(sequence: list[dict[bytes, bytes | None]]) -> None:
    memory, expected = filled(sequence)
    assert {key: value for key in EVERY_KEY if (value := memory.find(key)) is not None} == expected
    assert reachable(memory) == set(memory.nodes)


@given(SEQUENCES)
def test_nothing_is_left_when_the_last_entry_goes(sequence: list[dict[bytes, bytes | None]]) -> None:
    memory, expected = filled(sequence)
    memory.apply(dict.fromkeys(expected))
    assert (memory.root, memory.nodes) == (EMPTY, {})


@given(CHANGES, st.randoms(use_true_random=False))
def test_the_order_of_changes_changes_no_answer(changes: dict[bytes, bytes | None], random: object) -> None:
    at_once, one_by_one = Memory(), Memory()
    at_once.apply(changes)
    items = list(changes.items())
    random.shuffle(items)  # type: ignore[attr-defined]  # what hypothesis gives
    for key, value in items:
        one_by_one.apply({key: value})
    assert [at_once.find(key) for key in EVERY_KEY] == [one_by_one.find(key) for key in EVERY_KEY]
    if None not in changes.values():
        assert at_once.root == one_by_one.root


@given(SEQUENCES, KEYS, VALUES)
def test_every_change_of_content_changes_the_root(
    sequence: list[dict[bytes, bytes | None]], key: bytes, value: bytes
) -> None:
    memory, expected = filled(sequence)
    before = memory.root
    memory.apply({})
    assert memory.root == before
    memory.apply({key: value})
    assert (memory.root == before) is (expected.get(key) == value)


@given(SEQUENCES.filter(any), st.data())
def test_no_altered_node_changes_an_answer(sequence: list[dict[bytes, bytes | None]], data: st.DataObject) -> None:
    """A bit that is flipped, a node that is missing, another's, or an older one."""
    memory, expected = filled(sequence)
    older, _ = filled(sequence[:-1])
    if not memory.nodes:
        return
    path = data.draw(st.sampled_from(sorted(memory.nodes)))
    content = memory.nodes[path]
    altered: list[bytes | None] = [None, b"", older.nodes.get(path)]
    altered += [other for other in memory.nodes.values() if other != content][:3]
    bit = data.draw(st.integers(0, 8 * len(content) - 1))
    altered.append(bytes(byte ^ (1 << bit % 8 if at == bit // 8 else 0) for at, byte in enumerate(content)))
    altered.append(content[:-1])
    for other in altered:
        if other == content:
            continue
        memory.nodes[path] = b"" if other is None else other
        if other is None:
            del memory.nodes[path]
        refused = 0
        for key in {*expected, *EVERY_KEY[::10]}:
            try:
                assert memory.find(key) == expected.get(key)
            except AlteredError:
                refused += 1
        if expected:
            with pytest.raises(AlteredError):
                reachable(memory)
        memory.nodes[path] = content


def test_a_bucket_of_sixteen_becomes_a_branch_with_the_seventeenth() -> None:
    memory = Memory()
    keys = [far(number) for number in range(MAX_BUCKET + 1)]
    memory.apply(dict.fromkeys(keys[:-1], bytes(DIGEST_BYTES)))
    assert isinstance(memory.read(b"", memory.root), Bucket)
    assert list(memory.nodes) == [b""]
    memory.apply({keys[-1]: bytes(DIGEST_BYTES)})
    assert isinstance(memory.read(b"", memory.root), Branch)
    memory.apply({keys[-1]: None})  # a branch stays
    assert isinstance(memory.read(b"", memory.root), Branch)
    assert all(memory.find(key) is not None for key in keys[:-1])


def test_keys_that_differ_in_their_last_digit_alone_are_told_apart() -> None:
    memory = Memory()
    keys = [near(number) for number in range(MAX_BUCKET + 1)]
    memory.apply({key: key for key in keys})
    assert [memory.find(key) for key in keys] == keys
    assert max(map(len, memory.nodes)) == 2 * DIGEST_BYTES - 1
    assert memory.find(near(MAX_BUCKET + 1)) is None


def test_the_digits_of_a_key_are_halves_of_its_bytes() -> None:
    assert digits_of(b"\x1f\xa0") == b"\x01\x0f\x0a\x00"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00",
        b"\x01",
        b"\x02" + bytes(64),
        b"\x00" + bytes(63),
        b"\x00" + bytes(64 * (MAX_BUCKET + 1)),
        b"\x01" + bytes(32 * 15),
        b"\x01" + bytes(32 * 17),
    ],
)
def test_what_is_no_node_is_refused(content: bytes) -> None:
    with pytest.raises(ValueError, match="not a node"):
        read_node(content)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=MAX_BUCKET))
def test_a_bucket_is_read_as_it_was_written(entries: dict[bytes, bytes]) -> None:
    assert read_node(Bucket(entries).content()) == Bucket(entries)


@given(st.lists(VALUES, min_size=16, max_size=16))
def test_a_branch_is_read_as_it_was_written(children: list[bytes]) -> None:
    assert read_node(Branch(tuple(children)).content()) == Branch(tuple(children))

"""The log: entries as leaves of a tree, the tree as tiles, and every way in which somebody could have changed them."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import pytest
import rfc8785

from attest.encoding import JsonValue
from attest.errors import ConfigurationError
from attest.release.tlog import leaf_hash, verify_consistency, verify_inclusion
from kms.domain.errors import LogBrokenError, LogTileUnknownError
from kms.domain.log_entries import GENESIS, MAX_ENTRY_BYTES, LogEntry, LogHead, make_entry
from kms.domain.log_tiles import Tile, parse_tile, read_tile, tiles_of
from kms.domain.log_tree import (
    Frontier,
    Node,
    consistency_proof,
    grown,
    inclusion_proof,
    node_position,
    recent_nodes,
    root,
)
from kms.domain.log_verification import LogState, parse_noted, verify_log
from tests.kms.support import AT


@dataclass
class MemoryLog:
    """A log in memory, as the database would give it."""

    written: list[LogEntry] = field(default_factory=list)
    stored: dict[Node, bytes] = field(default_factory=dict)

    @staticmethod
    def of(length: int) -> "MemoryLog":
        log = MemoryLog()
        head = GENESIS
        for number in range(length):
            entry = make_entry(head, kind="test", at=AT, body={"number": number})
            log.stored |= dict(grown(number, entry.leaf_hash, log.nodes))
            log.written.append(entry)
            head = LogHead(seq=entry.seq, time=AT)
        return log

    def entries(self, *, after: int = 0, limit: int | None = None) -> Iterator[LogEntry]:
        yield from [entry for entry in self.written if entry.seq > after][:limit]

    def size(self) -> int:
        return max((entry.seq for entry in self.written), default=0)

    def nodes(self, wanted: Sequence[Node]) -> dict[Node, bytes]:
        return {node: self.stored[node] for node in wanted if node in self.stored}

    def node_count(self) -> int:
        return len(self.stored)


LONG = MemoryLog.of(600)


def state(log: MemoryLog, size: int) -> LogState:
    return LogState(size=size, root=root(size, log.nodes))


# -- the tree


def test_every_proof_of_every_small_tree_verifies() -> None:
    roots = [root(size, LONG.nodes) for size in range(41)]
    for new in range(41):
        for old in range(new + 1):
            proof = consistency_proof(old, new, LONG.nodes)
            verify_consistency(proof, old_size=old, old_root=roots[old], new_size=new, new_root=roots[new])
        for index in range(new):
            leaf = LONG.written[index].leaf_hash
            verify_inclusion(inclusion_proof(index, new, LONG.nodes), index=index, size=new, leaf=leaf, root=roots[new])


def test_a_tree_that_grows_leaf_by_leaf_is_the_stored_one() -> None:
    frontier, nodes = Frontier(), dict[Node, bytes]()
    for entry in LONG.written:
        nodes |= dict(frontier.add(entry.leaf_hash))
        assert frontier.root() == root(frontier.size, LONG.nodes)
    assert nodes == LONG.stored


def test_a_proof_reads_few_hashes_and_an_entry_adds_two_on_average() -> None:
    read: list[int] = []

    def counted(wanted: Sequence[Node]) -> dict[Node, bytes]:
        read.append(len(wanted))
        return LONG.nodes(wanted)

    for size in (599, 600):
        root(size, counted)
        inclusion_proof(size // 2, size, counted)
        consistency_proof(size - 255, size, counted)
        grown(size - 1, bytes(32), counted)
    assert max(read) <= 2 * (600).bit_length()
    assert len(LONG.stored) <= 2 * 600


def test_the_newest_nodes_suffice_for_the_root_and_for_the_proof_of_each_of_the_newest_leaves() -> None:
    for size in [*range(70), 599, 600]:
        for leaves in (1, 2, 7, 64):
            wanted = recent_nodes(size, leaves=leaves)
            stored = LONG.nodes(wanted)
            assert set(stored) == set(wanted)
            assert len(wanted) <= 2 * leaves + 4 * size.bit_length()
            assert root(size, lambda _, stored=stored: stored) == root(size, LONG.nodes)  # type: ignore[misc]
            for index in range(max(0, size - leaves), size):
                proof = inclusion_proof(index, size, lambda _, stored=stored: stored)  # type: ignore[misc]
                assert proof == inclusion_proof(index, size, LONG.nodes)


def test_every_node_has_a_place_of_its_own() -> None:
    nodes = [(level, index) for level in range(10) for index in range(1024 >> level)]
    assert len({node_position(node) for node in nodes}) == len(nodes)
    assert [node_position(node) for node in [(0, 0), (1, 0), (0, 1), (2, 0), (0, 2)]] == [0, 1, 2, 3, 4]
    assert node_position((62, 0)) < 2**63


def test_a_missing_hash_is_no_proof() -> None:
    for node in [(9, 0), (3, 74), (0, 599)]:
        damaged = MemoryLog(LONG.written, {key: value for key, value in LONG.stored.items() if key != node})
        with pytest.raises(LogBrokenError) as caught:
            root(600, damaged.nodes) if node != (0, 599) else inclusion_proof(598, 600, damaged.nodes)
        assert caught.value.code == "log-tree-broken"


# -- entries


def test_what_a_stranger_says_is_quoted_up_to_a_bound() -> None:
    entry = make_entry(GENESIS, kind="test", at=AT, body={"a": ["x" * 10_000, {"b": "y" * 10_000}]})
    assert len(entry.raw) < 10_000


def test_an_entry_is_never_longer_than_a_bundle_can_carry() -> None:
    many: list[JsonValue] = [{"id": "check", "got": "x" * 4000} for _ in range(40)]
    entry = make_entry(GENESIS, kind="test", at=AT, body={"failed_checks": many, "more": many[:5], "outcome": "deny"})
    assert len(entry.raw) <= MAX_ENTRY_BYTES
    document = entry.document()
    assert (document["outcome"], document["more"]) == ("deny", many[:5])
    omitted = document["failed_checks"]
    assert isinstance(omitted, dict)
    assert (omitted["omitted_bytes"], set(omitted)) == (len(rfc8785.dumps(many)), {"omitted_bytes", "sha256"})


# -- the whole log


def test_an_unbroken_log_has_a_state() -> None:
    assert verify_log(LONG) == state(LONG, 600)
    assert verify_log(MemoryLog()).size == 0
    noted = [state(LONG, size) for size in (0, 1, 256, 599, 600)]
    assert verify_log(LONG, noted=[*noted, *(entry.leaf_hash for entry in LONG.written[::100])]).size == 600


def altered(seq: int, **changes: object) -> MemoryLog:
    entries = list(LONG.written)
    values = {"seq": seq, "raw": entries[seq - 1].raw}
    entries[seq - 1] = LogEntry(**(values | changes))  # type: ignore[arg-type]
    return MemoryLog(entries, LONG.stored)


def test_every_alteration_of_a_log_is_found() -> None:
    entries, raw = LONG.written, LONG.written[299].raw
    flipped = {**LONG.stored, (3, 7): bytes(32)}
    without = {node: value for node, value in LONG.stored.items() if node != (0, 300)}
    rebuilt = MemoryLog(entries[:299], {}).written
    broken = [
        (MemoryLog(entries[1:], LONG.stored), "log-gap"),
        (MemoryLog([*entries[:299], *entries[300:]], LONG.stored), "log-gap"),
        (MemoryLog([entries[0], *entries], LONG.stored), "log-gap"),
        (MemoryLog([entries[1], entries[0], *entries[2:]], LONG.stored), "log-gap"),
        (MemoryLog(rebuilt, LONG.stored), "log-hash-mismatch"),
        (altered(300, raw=raw.replace(b'"number":299', b'"number":298')), "log-hash-mismatch"),
        (altered(300, raw=b" " + raw), "log-entry-invalid"),
        (altered(300, raw=raw.replace(b'"seq":300', b'"seq":301')), "log-entry-invalid"),
        (altered(300, raw=b"[]"), "log-entry-invalid"),
        (altered(300, raw=b"\xff"), "log-entry-invalid"),
        (MemoryLog(entries, flipped), "log-hash-mismatch"),
        (MemoryLog(entries, without), "log-hash-mismatch"),
        (MemoryLog(entries, {**LONG.stored, (0, 600): bytes(32)}), "log-hash-mismatch"),
    ]
    for case, code in broken:
        with pytest.raises(LogBrokenError) as caught:
            verify_log(case)
        assert caught.value.code == code


def test_mc_36_a_log_that_was_cut_off_or_rewritten_is_found_by_what_was_noted_elsewhere() -> None:
    short = MemoryLog.of(250)
    for noted in (state(LONG, 251), LONG.written[300].leaf_hash):
        with pytest.raises(LogBrokenError) as caught:
            verify_log(short, noted=[noted])
        assert caught.value.code == "log-rolled-back"
    for size in (0, 250):
        with pytest.raises(LogBrokenError) as caught:
            verify_log(short, noted=[state(short, 250), LogState(size=size, root=bytes(32))])
        assert caught.value.code == "log-forked"


@pytest.mark.parametrize("text", ["", "4", "4:00", "x:" + "0" * 64, "4:" + "A" * 64])
def test_what_was_noted_is_a_size_and_a_root_or_the_hash_of_an_entry(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_noted(text)
    assert caught.value.code == "log-head-invalid"
    assert parse_noted("4:" + "0" * 64) == LogState(size=4, root=bytes(32))
    assert parse_noted("0" * 64) == bytes(32)


# -- tiles


def test_the_path_of_a_tile_is_as_c2sp_writes_it() -> None:
    assert Tile(level=0, number=1234067).path == "0/x001/x234/067"
    assert Tile(level=None, number=0, width=7).path == "entries/000.p/7"
    for tile in (Tile(level=63, number=0), Tile(level=1, number=999), Tile(level=None, number=10**20, width=255)):
        assert parse_tile(tile.path) == tile


@pytest.mark.parametrize(
    "path",
    [
        "",
        "0",
        "0/0",
        "0/00",
        "0/0000",
        "00/000",
        "64/000",
        "-1/000",
        "x/000",
        "0/x000/000",
        "0/001/234",
        "0/x001",
        "0/000.p/0",
        "0/000.p/256",
        "0/000.p/07",
        "0/000.p",
        "0/000/",
        "/0/000",
        "0/../000",
        "0/\u0660\u0660\u0660",
        "data/000",
        "0/000\n",
        "0/" + "x999/" * 7 + "999",
    ],
)
def test_a_path_that_is_no_tile_is_unknown(path: str) -> None:
    with pytest.raises(LogTileUnknownError) as caught:
        parse_tile(path)
    assert caught.value.code == "log-tile-unknown"


def test_a_size_implies_its_tiles() -> None:
    def counts(size: int) -> dict[int | None, list[int]]:
        found: dict[int | None, list[int]] = {}
        for tile in tiles_of(size):
            found.setdefault(tile.level, []).append(tile.width)
        return found

    assert counts(70_000) == {None: [256] * 273 + [112], 0: [256] * 273 + [112], 1: [256, 17], 2: [1]}
    assert counts(256) == {None: [256], 0: [256], 1: [1]}
    assert counts(0) == {}
    grew = {tile.path for tile in tiles_of(600, old=300)}
    assert grew == {"entries/001", "entries/002.p/88", "0/001", "0/002.p/88", "1/000.p/2"}
    assert list(tiles_of(600, old=600)) == []


def test_tiles_hold_the_hashes_of_their_level_and_bundles_the_entries() -> None:
    content = {tile.path: read_tile(LONG, tile) for tile in tiles_of(600)}
    assert set(content) == {
        *("0/000", "0/001", "0/002.p/88", "1/000.p/2"),
        *("entries/000", "entries/001", "entries/002.p/88"),
    }
    assert content["0/001"] == b"".join(entry.leaf_hash for entry in LONG.written[256:512])
    assert content["1/000.p/2"] == root(256, LONG.nodes) + LONG.stored[8, 1]
    bundle, read = content["entries/002.p/88"], []
    while bundle:
        length = int.from_bytes(bundle[:2], "big")
        read.append(leaf_hash(bundle[2 : 2 + length]))
        bundle = bundle[2 + length :]
    assert b"".join(read) == content["0/002.p/88"]
    assert read_tile(LONG, Tile(level=0, number=0, width=3)) == content["0/000"][:96]


@pytest.mark.parametrize("path", ["0/002", "0/002.p/89", "1/000.p/3", "2/000.p/1", "entries/003.p/1", "63/000"])
def test_a_tile_that_is_not_there_yet_is_unknown(path: str) -> None:
    with pytest.raises(LogTileUnknownError):
        read_tile(LONG, parse_tile(path))


def test_a_damaged_log_gives_no_tile() -> None:
    without = {node: value for node, value in LONG.stored.items() if node != (0, 300)}
    long = altered(300, raw=b"x" * 70_000)
    cases = [
        (MemoryLog(LONG.written, without), "0/001", "log-tree-broken"),
        (MemoryLog([*LONG.written[:299], *LONG.written[300:]], LONG.stored), "entries/001", "log-gap"),
        (long, "entries/001", "log-entry-invalid"),
    ]
    for case, path, code in cases:
        with pytest.raises(LogBrokenError) as caught:
            read_tile(case, parse_tile(path))
        assert caught.value.code == code


def test_only_ascii_digits_are_digits() -> None:
    assert re.fullmatch(r"\d", "\u0661")
    with pytest.raises(ConfigurationError):
        parse_noted("\u0661:" + "0" * 64)

"""A listening socket that resets the connections of an address that opens too many."""

import select
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field

import pytest

from attest.paced_listener import RESETS_AT_ONCE, PacedListener
from attest.rate_limits import Rate, RateTable

pytestmark = pytest.mark.loopback


@dataclass
class Scene:
    """A listener on a clock that the test moves, and the clients that connect to it."""

    listener: PacedListener
    stack: ExitStack
    now: list[float]
    refused: list[None] = field(default_factory=list)

    def connect(self, address: str = "127.0.0.1") -> socket.socket:
        made = socket.create_connection(self.listener.getsockname(), timeout=30, source_address=(address, 0))
        return self.stack.enter_context(made)

    def accept(self) -> socket.socket:
        assert select.select([self.listener], [], [], 30)[0], "no connection has arrived"
        return self.stack.enter_context(self.listener.accept()[0])


@contextmanager
def scene(*, per_second: float = 1, burst: int = 2) -> Iterator[Scene]:
    now, refused = [0.0], list[None]()
    with ExitStack() as stack:
        sock = socket.create_server(("127.0.0.1", 0), backlog=512)
        sock.setblocking(False)
        listener = PacedListener(
            sock,
            rates=RateTable(Rate(per_second=per_second, burst=burst)),
            monotonic=lambda: now[0],
            refused=lambda: refused.append(None),
        )
        stack.enter_context(listener)
        assert sock.fileno() == -1, "the socket has one owner"
        yield Scene(listener=listener, stack=stack, now=now, refused=refused)


def test_mc_32_connections_above_the_rate_of_their_address_are_reset_and_others_are_not() -> None:
    with scene() as made:
        first, second, third = (made.connect() for _ in range(3))
        made.accept().sendall(b"1")
        made.accept().sendall(b"2")
        with pytest.raises(BlockingIOError):
            made.accept()
        assert (first.recv(1), second.recv(1)) == (b"1", b"2")
        with pytest.raises(ConnectionResetError):
            third.recv(1)
        assert len(made.refused) == 1
        other = made.connect("127.0.0.2")
        made.accept().sendall(b"3")
        assert other.recv(1) == b"3"


def test_an_address_may_connect_again_when_its_rate_allows_it() -> None:
    with scene(burst=1) as made:
        made.connect()
        made.accept()
        made.now[0] = 0.99
        made.connect()
        with pytest.raises(BlockingIOError):
            made.accept()
        made.now[0] = 1.0
        made.connect()
        made.accept()


def test_a_connection_behind_refused_ones_is_accepted_in_the_same_turn() -> None:
    with scene(burst=1) as made:
        for address in ("127.0.0.2", "127.0.0.2", "127.0.0.2", "127.0.0.3"):
            made.connect(address)
        assert [made.accept().getpeername()[0] for _ in range(2)] == ["127.0.0.2", "127.0.0.3"]


def test_only_so_many_connections_are_reset_before_the_loop_has_its_turn() -> None:
    with scene(burst=1) as made:
        for _ in range(1 + RESETS_AT_ONCE):
            made.connect("127.0.0.2")
        made.connect("127.0.0.3")
        made.accept()
        with pytest.raises(BlockingIOError):
            made.accept()
        assert len(made.refused) == RESETS_AT_ONCE
        assert made.accept().getpeername()[0] == "127.0.0.3"


def test_a_listener_keeps_the_blocking_mode_of_its_socket() -> None:
    with socket.create_server(("127.0.0.1", 0)) as sock:
        rates = RateTable(Rate(per_second=1, burst=1))
        with PacedListener(sock, rates=rates, monotonic=lambda: 0.0) as listener:
            assert listener.gettimeout() is None

"""Remote files and directories: the part that web servers and object storage have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import AbstractContextManager
from typing import Protocol

from attest.context_managers import ClosedOnExit
from attest.sealed.ranges import RangeReader, RangeStream, Receive, RetryPolicy
from attest.sealed.sources import read_at_most


class _Closable(Protocol):
    def close(self) -> None: ...


class RemoteSource(ClosedOnExit):
    """One remote file, read by ranges; thread-safe. The constructor sends the first request.

    Args:
        name: the address in messages.
        owned: connections that are closed with the source.
    """

    size: int
    """In bytes, when the file was opened; the answer to the first request sets it."""

    def __init__(self, name: str, *, patience: RetryPolicy, owned: _Closable | None) -> None:
        self.name = name
        self.connections = patience.connections
        self._owned = owned
        try:
            first = RangeReader(name=name, size=1, ask=self._ask_first, patience=patience)
            first.read_into(0, memoryview(bytearray(1)))
        except BaseException:
            self._release()
            raise
        self._reader = RangeReader(name=name, size=self.size, ask=self._ask, patience=patience)

    @abstractmethod
    def _ask_first(self, start: int, stop: int) -> AbstractContextManager[Receive]:
        """Set the size, remember the version, and yield one byte."""

    @abstractmethod
    def _ask(self, start: int, stop: int) -> AbstractContextManager[Receive]:
        """Open the stream of a range of the version that was opened."""

    def read_into(self, offset: int, buffer: memoryview) -> None:
        """Fill the buffer from this offset.

        Raises:
            ValueError: the range exceeds the file, or the source is closed.
            SealedSourceError: ``sealed-source-…``: changed, unreachable, not-found, refused, answer-invalid.
        """
        self._reader.read_into(offset, buffer)

    def stream(self, offset: int, size: int) -> AbstractContextManager[RangeStream]:
        """Open the stream of a range, in one request; errors as ``read_into``."""
        return self._reader.stream(offset, size)

    def close(self) -> None:
        """Close its own connections; repeated calls are harmless."""
        self._reader.close()
        self._release()

    def _release(self) -> None:
        if self._owned is not None:
            self._owned.close()


class RemoteStore(ABC):
    """A sealed directory below an address; see ``attest.sealed.open_directory``. Its files share connections."""

    def __init__(self, name: str, *, patience: RetryPolicy, owned: _Closable | None) -> None:
        self.name = name
        self.connections = patience.connections
        self._owned = owned

    def sizes(self) -> Mapping[str, int] | None:
        """Return None: listing has no common form, or needs more permissions. Opening a file compares its size."""
        return None

    @abstractmethod
    def open(self, name: str) -> RemoteSource:
        """Open a file of the directory; its name is relative, with ``/``, as in the manifest."""

    def read_small(self, name: str, limit: int) -> bytes:
        """Return a whole file, or limit + 1 bytes of a larger one; errors as ``open``."""
        with self.open(name) as source:
            return read_at_most(source, limit)

    def close(self) -> None:
        """Close its own connections, and with them its files; repeated calls are harmless."""
        if self._owned is not None:
            self._owned.close()

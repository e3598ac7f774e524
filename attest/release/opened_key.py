"""A key that another party's service released to this process, in memory that is overwritten at its end."""

from __future__ import annotations

import secrets
from typing import Final, NoReturn

from attest.context_managers import ClosedOnExit

_CLOSED: Final = "this key was closed, and its memory was overwritten"


class OpenedKey(ClosedOnExit):
    """A key or secret in the clear. Its repr shows its name alone, and it cannot be pickled.

    Args:
        name: its address.
        buffer: the material; the object keeps and finally overwrites this memory.
    """

    __slots__ = ("_buffer", "name")

    def __init__(self, name: str, buffer: bytearray) -> None:
        self.name = name
        self._buffer: bytearray | None = buffer

    @property
    def material(self) -> memoryview:
        """The material for reading; do not keep it: ``close`` overwrites it with random bytes.

        Raises:
            ValueError: the key is closed.
        """
        if self._buffer is None:
            raise ValueError(_CLOSED)
        return memoryview(self._buffer).toreadonly()

    def export(self) -> bytes:
        """Return a copy, which ``close`` does not overwrite.

        Raises:
            ValueError: the key is closed.
        """
        return bytes(self.material)

    def close(self) -> None:
        """Overwrite the material; zeros would be a key that everyone knows."""
        if self._buffer is not None:
            self._buffer[:] = secrets.token_bytes(len(self._buffer))
            self._buffer = None

    def __repr__(self) -> str:
        return f"{type(self).__name__}(name={self.name!r})"

    def __reduce__(self) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} does not leave its process")

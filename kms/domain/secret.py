"""Secret bytes.

``SecretBytes`` shows nothing in ``repr``, ``str`` or a traceback and cannot be pickled or copied. Reading its content
requires the capability ``EXPORT``; a test lists the modules that import it. A function gets a view of the content,
which is overwritten when the secret is wiped or freed. Copies made by libraries are not overwritten.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Final, NoReturn, Self, TypeVar, final

_T = TypeVar("_T")


@final
class ExportCapability:
    """Capability of the few modules that may read secrets."""

    __slots__ = ()


EXPORT: Final = ExportCapability()


@final
class SecretBytes:
    """Secret bytes, compared in constant time and never shown. The context manager wipes them at its end."""

    __slots__ = ("__content", "__length")

    def __init__(self, content: bytes | bytearray) -> None:
        """Copy ``bytes``, or take over a ``bytearray``, which is wiped with the secret.

        Raises:
            TypeError: not bytes.
        """
        self.__content: bytearray | None = None
        if not isinstance(content, bytes | bytearray):
            raise TypeError(f"a secret is bytes, not {type(content).__name__}")
        self.__content = content if isinstance(content, bytearray) else bytearray(content)
        self.__length = len(content)

    def lend(self, capability: ExportCapability, to: Callable[[memoryview], _T]) -> _T:
        """Call a function with a read-only view of the content, valid during the call, and return its result.

        Raises:
            TypeError: without the capability.
            ValueError: the secret was wiped.
        """
        if capability is not EXPORT:
            raise TypeError("reading a secret requires the export capability")
        view = memoryview(self._held()).toreadonly()
        returned = to(view)
        view.release()
        return returned

    def wipe(self) -> None:
        """Overwrite the content; a second call does nothing."""
        content, self.__content = self.__content, None
        if content is not None:
            memoryview(content)[:] = bytes(len(content))

    def _held(self) -> bytearray:
        if self.__content is None:
            raise ValueError("the secret was wiped")
        return self.__content

    def __enter__(self) -> Self:
        return self

    def __exit__(self, _: type[BaseException] | None, __: BaseException | None, ___: TracebackType | None) -> None:
        self.wipe()

    def __del__(self) -> None:
        self.wipe()

    def __len__(self) -> int:
        """Return the number of bytes, also after wiping."""
        return self.__length

    def __eq__(self, other: object) -> bool:
        """Compare in constant time; raise ``ValueError`` if either was wiped."""
        if not isinstance(other, SecretBytes):
            return NotImplemented
        return hmac.compare_digest(self._held(), other._held())

    __hash__ = None  # type: ignore[assignment]  # a hash would be a fingerprint of the secret

    def __repr__(self) -> str:
        """Show the length alone."""
        return f"SecretBytes(<{self.__length} bytes>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a secret cannot be pickled or copied")


@contextmanager
def wiped_after(secrets: Iterable[SecretBytes]) -> Iterator[None]:
    """Wipe secrets at the end of the block, whether it fails or not."""
    try:
        yield
    finally:
        for secret in secrets:
            secret.wipe()

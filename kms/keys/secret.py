"""Bytes that must not be seen.

``SecretBytes`` shows nothing in ``repr``, ``str`` or a traceback and cannot be pickled or copied. Its content comes out
only against the capability ``EXPORT``; a test lists the modules that import it. Memory is handled as well as Python
allows: nothing can be promised about what the interpreter or the kernel keeps.
"""

from __future__ import annotations

import hmac
from typing import Final, NoReturn, final

__all__ = ["EXPORT", "ExportCapability", "SecretBytes"]


@final
class ExportCapability:
    """Held by the few modules that may read secrets."""

    __slots__ = ()


EXPORT: Final = ExportCapability()


@final
class SecretBytes:
    """Secret bytes. Equal only by constant-time comparison, and never shown."""

    __slots__ = ("__content",)

    def __init__(self, content: bytes) -> None:
        """Hold a copy of the content.

        Raises:
            TypeError: something else than bytes.
        """
        if not isinstance(content, bytes):
            msg = f"a secret is bytes, not {type(content).__name__}"
            raise TypeError(msg)
        self.__content = content

    def export(self, capability: ExportCapability) -> bytes:
        """Return the content.

        Raises:
            TypeError: without the capability.
        """
        if capability is not EXPORT:
            msg = "reading a secret takes the export capability"
            raise TypeError(msg)
        return self.__content

    def __len__(self) -> int:
        """Return the number of bytes."""
        return len(self.__content)

    def __eq__(self, other: object) -> bool:
        """Compare in constant time."""
        if not isinstance(other, SecretBytes):
            return NotImplemented
        return hmac.compare_digest(self.__content, other.__content)

    __hash__ = None  # type: ignore[assignment]  # a hash would be a fingerprint of the secret

    def __repr__(self) -> str:
        """Show the length alone."""
        return f"SecretBytes(<{len(self.__content)} bytes>)"

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        """Refuse to be pickled or copied."""
        msg = "a secret is not pickled or copied"
        raise TypeError(msg)

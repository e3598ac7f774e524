"""Interface that wraps and unwraps keys, independent of the back-end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kms.domain.keys import WrapContext, Wrapped
from kms.domain.secret import SecretBytes

RandomBytes = Callable[[int], bytes]
"""Source of unpredictable bytes; ``secrets.token_bytes`` at the edge."""


class KeyEncryptionKey(Protocol):
    """One key-encryption key, or the ring of those of a database (``kms.keys.wrapping.keyring``).

    Wrapping and unwrapping may call another machine, so neither is done in a writing transaction.
    """

    @property
    def id(self) -> bytes:
        """32 bytes that name the key under which ``wrap`` wraps."""

    def wrap(self, secret: SecretBytes, *, context: WrapContext) -> Wrapped:
        """Encrypt a secret and tie it to its context.

        Raises:
            UnavailableError: its back-end does not answer.
        """

    def unwrap(self, wrapped: Wrapped, *, context: WrapContext) -> SecretBytes:
        """Decrypt a secret that was wrapped in this context.

        Raises:
            IntegrityError: ``wrapped-key-invalid``: altered, cut off, swapped, of another key or of another format.
            UnavailableError: its back-end does not answer, or the settings do not locate the key.
        """

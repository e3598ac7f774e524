"""Interface of key-encryption key back-ends, and the key-encryption key on top of one."""

from __future__ import annotations

import hmac
from functools import partial
from typing import NoReturn, Protocol, final

from attest.errors import ConfigurationError
from kms.domain.errors import IntegrityError, damaged
from kms.domain.kek_records import Backend, KekRecord, proof_content, proof_context
from kms.domain.keys import WrapContext, Wrapped
from kms.domain.secret import EXPORT, SecretBytes
from kms.keys.wrapping.errors import replaced, unavailable


class NotOpenedError(Exception):
    """The content was not sealed under this key with this associated data; the reason is unknown."""


class NotCopied:
    """Base of objects that hold a key or its handle; they cannot be pickled or copied."""

    __slots__ = ()

    def __reduce_ex__(self, protocol: object) -> NoReturn:
        raise TypeError("a key-encryption key cannot be pickled or copied")


class WrappingBackend(Protocol):
    """Authenticated encryption under one key that is held somewhere."""

    @property
    def kind(self) -> Backend:
        """Kind of the back-end."""

    @property
    def description(self) -> str:
        """Location of the key for display; contains no secret."""

    @property
    def derived_id(self) -> bytes | None:
        """The key's id if it is derived from the key, 32 bytes; otherwise None."""

    def seal(self, content: bytes | memoryview, *, associated_data: bytes) -> bytes:
        """Encrypt. The first byte of the result names the format.

        Raises:
            UnavailableError: the back-end is unavailable, or denies the use of the key.
        """

    def open(self, sealed: bytes, *, associated_data: bytes) -> bytes | bytearray:
        """Decrypt; into a ``bytearray``, which can be wiped, if the back-end can write into one.

        Raises:
            NotOpenedError: altered, cut off, sealed under another key, with other data or in another format.
            UnavailableError: as above.
        """

    def close(self) -> None:
        """Close connections."""


@final
class SingleKek(NotCopied):
    """One key-encryption key, whose id ``proves`` checks.

    Its proof is wrapped under it, so that no other key opens the proof; None if the id is derived from the key.
    """

    def __init__(self, backend: WrappingBackend, *, kek_id: bytes, proof: bytes | None) -> None:
        self.backend = backend
        self._id = kek_id
        self._proof = proof

    @property
    def id(self) -> bytes:
        """32 bytes that identify the key and reveal nothing about it."""
        return self._id

    def wrap(self, secret: SecretBytes, *, context: WrapContext) -> Wrapped:
        """Encrypt a secret and tie it to its context.

        A key that is held elsewhere first proves that it is still the same, and the result must open again: a secret
        that no key opens is lost.
        """
        self.require_same()
        return secret.lend(EXPORT, partial(self._wrapped, data=context.associated_data()))

    def _wrapped(self, content: memoryview, *, data: bytes) -> Wrapped:
        sealed = self.backend.seal(content, associated_data=data)
        if self._proof is not None and not self._opens(sealed, data, content):
            raise unavailable(self.backend.description, "its wrapped form cannot be unwrapped; nothing was stored")
        return Wrapped(kek_id=self.id, content=sealed)

    def unwrap(self, wrapped: Wrapped, *, context: WrapContext) -> SecretBytes:
        """Decrypt a secret that was wrapped under this key in this context.

        Raises:
            IntegrityError: ``wrapped-key-invalid``: altered, cut off, swapped, of another key or of another format.
            UnavailableError: the back-end is unavailable, or holds a different key now (``kek-replaced``).
        """
        if not hmac.compare_digest(wrapped.kek_id, self.id):
            raise not_opened(context)
        try:
            return SecretBytes(self.backend.open(wrapped.content, associated_data=context.associated_data()))
        except NotOpenedError as exc:
            self.require_same()  # distinguishes a replaced key from damaged data
            raise not_opened(context) from exc

    def require_same(self) -> None:
        """Refuse a key that does not open its own proof.

        Raises:
            UnavailableError: ``kek-replaced``, or the back-end does not answer.
        """
        if not self.proves():
            raise replaced(self.backend.description, self.id)

    def proves(self) -> bool:
        """Return True if this is the key of this id.

        Raises:
            UnavailableError: the back-end does not answer.
        """
        if self._proof is None:
            derived = self.backend.derived_id
            return derived is not None and hmac.compare_digest(derived, self.id)
        return self._opens(self._proof, proof_context(self.id).associated_data(), proof_content(self.id))

    def _opens(self, sealed: bytes, data: bytes, expected: bytes | memoryview) -> bool:
        try:
            return hmac.compare_digest(self.backend.open(sealed, associated_data=data), expected)
        except NotOpenedError:
            return False

    def __repr__(self) -> str:
        """Show the beginning of the id."""
        return f"SingleKek(id={self.id.hex()[:16]})"


def make_proof(backend: WrappingBackend, kek_id: bytes) -> bytes | None:
    """Make the later proof of a key's id; None if the id is derived from the key.

    Raises:
        UnavailableError: the back-end does not answer.
    """
    if backend.derived_id is not None:
        return None
    data = proof_context(kek_id).associated_data()
    return backend.seal(proof_content(kek_id), associated_data=data)


def require_binding(backend: WrappingBackend, record: KekRecord) -> None:
    """Refuse a back-end that ignores associated data: wrapped keys could be swapped under it (MC-28).

    Raises:
        ConfigurationError: ``kek-binds-nothing``.
        UnavailableError: the back-end does not answer.
    """
    if record.proof is None:
        return
    try:
        backend.open(record.proof, associated_data=proof_context(proof_content(record.id)).associated_data())
    except NotOpenedError:
        return
    raise ConfigurationError(
        f"{backend.description} does not bind associated data to what it wraps",
        code="kek-binds-nothing",
        field="kek",
        expected="authenticated encryption with associated data",
        got="a wrapped form was unwrapped with different data",
        hint="it is too old, or a proxy drops a part of each request",
    )


def not_opened(context: WrapContext) -> IntegrityError:
    """Return the error for a wrapped form that cannot be unwrapped."""
    wrapped = f"the wrapped form of {context.key_id!r} version {context.version}"
    problem = f"{wrapped} cannot be unwrapped in its stored context"
    return damaged(problem, code="wrapped-key-invalid", field=context.key_id)

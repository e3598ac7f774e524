"""What a database that is told too much is not told: texts, names, words and whose they are, under keys of the enclave.

A key for each document, so that no number of passages wears it out; a nonce of chance for each text; and the place of
each text goes into its authentication, so that one put in another's place does not open.
"""

from __future__ import annotations

import os
from collections.abc import Iterable

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from rag_demo.enclave.store.errors import StoreDamagedError

__all__ = ["KEY_BYTES", "WORD_BYTES", "Envelope"]

KEY_BYTES = 32
WORD_BYTES = 16
"""Of a word's tag. Two words of a collection fall together once in 2^64 of them."""
_NONCE_BYTES = 12
_PURPOSE = b"rag postgres store v1 "


class Envelope:
    """Seals what belongs to one store.

    Args:
        key: 32 bytes.
    """

    def __init__(self, key: bytes) -> None:
        """Derive a key for each purpose."""
        if len(key) != KEY_BYTES:
            raise ValueError(f"a database key has {KEY_BYTES} bytes")
        self._texts = _derived(key, b"texts")
        self._names = _derived(key, b"names")
        self._words = _derived(key, b"words")

    def name(self, collection: bytes) -> bytes:
        """Return what a collection is called in the database."""
        return _tag(self._names, collection)

    def words(self, collection: bytes, words: Iterable[str]) -> list[bytes]:
        """Return what words are called there: equal ones alike within a collection, and nowhere else."""
        key = _tag(self._words, collection)
        return [_tag(key, word.encode())[:WORD_BYTES] for word in words]

    def seal(self, document: bytes, place: bytes, text: str) -> bytes:
        """Return a text sealed for one place of one document."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce + self._cipher(document).encrypt(nonce, text.encode(), place)

    def open(self, document: bytes, place: bytes, sealed: bytes) -> str:
        """Return the text.

        Raises:
            StoreDamagedError: it was not sealed for this place under this key.
        """
        try:
            text = self._cipher(document).decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], place)
            return text.decode()
        except (InvalidTag, ValueError) as exc:
            raise StoreDamagedError(
                "a stored text does not open under this key, or is not what was stored there",
                code="rag-store-damaged",
                hint="check that the right key was released for it; if it was, restore the database from a copy",
            ) from exc

    def _cipher(self, document: bytes) -> AESGCM:
        return AESGCM(_derived(self._texts, b"document " + document))


def _derived(key: bytes, purpose: bytes) -> bytes:
    return HKDF(algorithm=SHA256(), length=KEY_BYTES, salt=None, info=_PURPOSE + purpose).derive(key)


def _tag(key: bytes, data: bytes) -> bytes:
    code = HMAC(key, SHA256())
    code.update(data)
    return code.finalize()

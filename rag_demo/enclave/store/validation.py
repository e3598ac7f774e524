"""Checks of callers' arguments, before they are stored or looked up.

A wrong type or shape is a programmer's (`TypeError`, `ValueError`); what a user may have caused is a `StoreInputError`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from datetime import UTC

import numpy as np

from rag_demo.enclave.errors import StoreInputError, StoreLimitError
from rag_demo.enclave.interfaces import IndexedDocument, IndexedPassage, Vectors
from rag_demo.enclave.store.limits import (
    MAX_FOUND,
    MAX_MEDIA_TYPE_CHARACTERS,
    MAX_NAME_CHARACTERS,
    StoreLimits,
)

COLLECTION_BYTES = 32
MAX_SECTION_CHARACTERS = 255
MAX_NUMBER = 2**31 - 1
_JOINERS = "\u200c\u200d"
"""Part of how words are spelt, in Persian say, and of how some emoji are put together."""
_ID = re.compile(r"[0-9a-f]{32}")
_LANGUAGE = re.compile(r"[a-z]{2,3}")
_LENGTH_TOLERANCE = 1e-3
"""Tolerance of the length of a vector around 1: float32 and a model's own rounding, and no more."""


def check_collection(collection: bytes) -> None:
    """Refuse anything but the name of a collection."""
    if not isinstance(collection, bytes) or len(collection) != COLLECTION_BYTES:
        raise ValueError(f"a collection is named by {COLLECTION_BYTES} bytes")


def is_document_id(document: str) -> bool:
    """Return true if this could be the id of a document; anything else is not looked up."""
    return isinstance(document, str) and _ID.fullmatch(document) is not None


def check_document(document: IndexedDocument) -> None:
    """Refuse a document with an id, a name or a size that none has."""
    if not is_document_id(document.id):
        raise ValueError("a document's id is 32 lower-case hexadecimal digits")
    if document.added.tzinfo is None or document.added.utcoffset() != UTC.utcoffset(None):
        raise ValueError("the time a document was added is aware, and UTC")
    if type(document.size) is not int or not 0 <= document.size < 2**63:
        raise ValueError("a document's size is a whole number from 0")
    if document.language and _LANGUAGE.fullmatch(document.language) is None:
        raise ValueError("a document's language is two or three small letters, or empty")
    _check_label(document.name, "name", MAX_NAME_CHARACTERS)
    _check_label(document.media_type, "media_type", MAX_MEDIA_TYPE_CHARACTERS)


def _check_label(text: str, field: str, longest: int) -> None:
    # Cc, Cf, Cs: controls, among them NUL; characters that turn the direction of text; halves of characters.
    hidden = any(unicodedata.category(c) in {"Cc", "Cf", "Cs"} for c in text if c not in _JOINERS)
    if not 0 < len(text) <= longest or hidden:
        raise StoreInputError(
            "the name or the media type of a document is empty, too long, or contains unprintable characters",
            code="rag-document-name-invalid",
            field=field,
            expected=f"1 to {longest} characters that print",
            got=f"{len(text)} characters",
            hint="rename the file, and add it again",
        )


def check_part(
    passages: Sequence[IndexedPassage], vectors: Vectors, *, after: int, dimensions: int, limits: StoreLimits
) -> int:
    """Check passages and their vectors; return the ordinal of the last one. The one before the first is -1."""
    if vectors.shape != (len(passages), dimensions) or vectors.dtype != np.float32:
        raise ValueError(f"vectors are float32 of shape ({len(passages)}, {dimensions})")
    _check_lengths(vectors)
    for passage in passages:
        real = passage.page is None or 1 <= passage.page <= MAX_NUMBER
        if passage.ordinal <= after or not real or passage.ordinal > MAX_NUMBER:
            raise ValueError("passages come in order, and pages count from 1")
        after = passage.ordinal
        _check_text(passage.text, limits)
        if len(passage.section) > MAX_SECTION_CHARACTERS:
            raise ValueError(f"a section has at most {MAX_SECTION_CHARACTERS} characters")
    return after


def _check_text(text: str, limits: StoreLimits) -> None:
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        size = None
    # The readers of documents never return a NUL.
    if size is None or not text.strip() or "\0" in text:
        raise StoreInputError(
            "a passage is empty, or is not text",
            code="rag-passage-invalid",
            field="text",
            expected="text that can be written in UTF-8, without NUL",
        )
    if size > limits.passage_bytes:
        raise over_limit("rag-limit-passage-bytes", limits.passage_bytes, "split the document into shorter passages")


def check_question_vector(vector: Vectors, *, dimensions: int) -> None:
    """Refuse a vector of a question that is none of this model."""
    if vector.shape != (dimensions,) or vector.dtype != np.float32:
        raise ValueError(f"a question's vector is float32 of shape ({dimensions},)")
    _check_lengths(vector.reshape(1, -1))


def _check_lengths(vectors: Vectors) -> None:
    # Comparisons with NaN are false, so NaN is refused too.
    if not bool(np.all(np.abs(np.linalg.norm(vectors, axis=1) - 1) <= _LENGTH_TOLERANCE)):
        raise ValueError("a vector is of length 1")


def check_limit(limit: int) -> None:
    """Refuse a number of passages that no search returns."""
    if type(limit) is not int or not 1 <= limit <= MAX_FOUND:
        raise ValueError(f"from 1 to {MAX_FOUND} passages are found at once")


def over_limit(code: str, most: int, hint: str) -> StoreLimitError:
    """Return the error that says which limit was reached."""
    what = code.removeprefix("rag-limit-")
    return StoreLimitError(
        f"the limit of {most} is reached ({what})", code=code, field=what, expected=f"at most {most}", hint=hint
    )

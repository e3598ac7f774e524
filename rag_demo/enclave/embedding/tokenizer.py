"""``tokenizer.json`` of a model, whose kind its own members say."""

from __future__ import annotations

from rag_demo.enclave.embedding.configuration import json_object
from rag_demo.enclave.embedding.refusals import TOKENIZER
from rag_demo.enclave.embedding.tokenizer_parts import MEMBERS, TOKENIZER_NAME, require_members
from rag_demo.enclave.embedding.tokens import TextTokens
from rag_demo.enclave.embedding.unigram import unigram
from rag_demo.enclave.embedding.wordpiece import word_piece


def parse_tokenizer(raw: bytes, *, vocabulary: int) -> TextTokens:
    """Read ``tokenizer.json``. Its decoder, and its own truncation and padding, are of no use here and not used.

    Args:
        raw: the file.
        vocabulary: number of tokens with a vector in the model.

    Raises:
        ConfigurationError: ``embedding-tokenizer-unsupported``.
    """
    document = json_object(raw, name=TOKENIZER_NAME, code=TOKENIZER)
    require_members(document, MEMBERS, where="")
    model = document.get("model")
    kind = model.get("type", "Unigram") if isinstance(model, dict) else None  # older files do not name this kind
    return (unigram if kind == "Unigram" else word_piece)(document, vocabulary=vocabulary)

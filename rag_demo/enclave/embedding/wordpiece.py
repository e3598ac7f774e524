"""WordPiece, the tokeniser of BERT, from the checked parts of ``tokenizer.json``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, cast

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from attest.encoding import JsonValue
from rag_demo.enclave.embedding.tokenizer_parts import marks, part_of, refuse, require, require_known
from rag_demo.enclave.embedding.tokens import TextTokens

_MODEL_MEMBERS: Final = frozenset(
    {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}
)
_NORMALIZER_MEMBERS: Final = frozenset({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"})
_PREFIX: Final = "##"
_MAX_WORD_CHARACTERS: Final = 1000


def word_piece(document: Mapping[str, JsonValue], *, vocabulary: int) -> TextTokens:
    """Make a tokeniser of a document whose members were checked.

    Raises:
        ConfigurationError: ``embedding-tokenizer-unsupported``.
    """
    model = part_of(document, "model", kind="WordPiece", members=_MODEL_MEMBERS)
    numbers = _vocabulary(model.get("vocab"), vocabulary)
    require(model, "model.continuing_subword_prefix", (_PREFIX,))
    unknown = model.get("unk_token")
    if not isinstance(unknown, str) or unknown not in numbers:
        raise refuse("model.unk_token", expected="a token of the vocabulary", got=unknown)
    word_characters = model.get("max_input_chars_per_word")
    if type(word_characters) is not int or not 1 <= word_characters <= _MAX_WORD_CHARACTERS:
        expected = f"an integer from 1 to {_MAX_WORD_CHARACTERS}"
        raise refuse("model.max_input_chars_per_word", expected=expected, got=word_characters)
    require_known(document.get("added_tokens"), numbers)
    part_of(document, "pre_tokenizer", kind="BertPreTokenizer", members=frozenset({"type"}))
    first, last = marks(document.get("post_processor"), numbers)
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token=unknown, max_input_chars_per_word=word_characters))
    tokenizer.normalizer = _normalizer(
        part_of(document, "normalizer", kind="BertNormalizer", members=_NORMALIZER_MEMBERS)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return TextTokens(tokenizer=tokenizer, first=first, last=last, between=(last,), word_characters=word_characters)


def _vocabulary(found: JsonValue, size: int) -> dict[str, int]:
    """Return token to number: each number from 0 has one token, and there are as many as the model has vectors for."""
    if not isinstance(found, dict) or len(found) != size:
        expected = f"{size} tokens, as config.json says"
        raise refuse("model.vocab", expected=expected, got=len(found) if isinstance(found, dict) else found)
    if any(type(number) is not int for number in found.values()) or set(found.values()) != set(range(size)):
        raise refuse("model.vocab", expected=f"each number from 0 to {size - 1} once", got="others")
    return cast("dict[str, int]", found)  # Just checked; JSON's own type is wider.


def _normalizer(part: Mapping[str, JsonValue]) -> normalizers.Normalizer:
    clean = require(part, "normalizer.clean_text", (True,))
    chinese = require(part, "normalizer.handle_chinese_chars", (True, False))
    accents = require(part, "normalizer.strip_accents", (None, True, False))
    lowercase = require(part, "normalizer.lowercase", (True, False))
    return normalizers.BertNormalizer(
        clean_text=clean is True,
        handle_chinese_chars=chinese is True,
        strip_accents=None if accents is None else accents is True,
        lowercase=lowercase is True,
    )

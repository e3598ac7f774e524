"""Text to the token numbers of the model: WordPiece, by the ``tokenizers`` package.

The tokeniser is built from the parts of ``tokenizer.json`` that were checked, not from the file itself, so
that no other setting in it can truncate, pad or change a text. Two deviations from the usual tokenisers of such models
are deliberate:

* Marks such as ``[SEP]`` are ordinary text when a text holds them. A document is untrusted, and must not
  use the model's own marks.
* Half of a surrogate pair, which is no character and which a JSON string may hold, is read as U+FFFD. The model's own
  cleaning then leaves it out, as it does NUL and other control characters.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, cast

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers

from attest.encoding import JsonValue
from rag_demo.enclave.embedding.configuration import json_object
from rag_demo.enclave.embedding.refusals import TOKENIZER, brief, unsuitable

TOKENIZER_NAME: Final = "tokenizer.json"

_MEMBERS: Final = frozenset(
    {
        "version",
        "truncation",
        "padding",
        "added_tokens",
        "normalizer",
        "pre_tokenizer",
        "post_processor",
        "decoder",
        "model",
    }
)
_MODEL_MEMBERS: Final = frozenset(
    {"type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word", "vocab"}
)
_NORMALIZER_MEMBERS: Final = frozenset({"type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"})
_PREFIX: Final = "##"
_MAX_WORD_CHARACTERS: Final = 1000
FIRST_CHARACTERS: Final = 8192
"""First part of a long text; more is read where it has fewer tokens than the model reads."""
_GROWTH: Final = 4


@dataclass(frozen=True, slots=True, kw_only=True)
class WordPiece:
    """Tokenizer of texts. ``parse_tokenizer`` makes it.

    Attributes:
        tokenizer: without truncation, padding or marks of its own.
        first: the mark before a text, as a number.
        last: the mark behind it.
        word_characters: a longer word is one unknown token.
    """

    tokenizer: Tokenizer
    first: int
    last: int
    word_characters: int

    def count(self, text: str) -> int:
        """Return how many tokens a text is, all of it, without the two marks."""
        return len(self._numbers(_characters(text)))

    def encode(self, text: str, *, most: int) -> list[int]:
        """Return a text as the model reads it: the first mark, tokens, the last mark.

        Args:
            text: any; what is beyond is not looked at.
            most: maximum length of the result, 2 or more.
        """
        wanted = most - 2
        text = _characters(text)
        end = FIRST_CHARACTERS
        while True:
            # The cut may change the last word of the part, and with it up to this many tokens.
            numbers = self._numbers(text[:end])
            if end >= len(text) or len(numbers) >= wanted + self.word_characters:
                return [self.first, *numbers[:wanted], self.last]
            end *= _GROWTH

    def _numbers(self, text: str) -> list[int]:
        return self.tokenizer.encode(text, add_special_tokens=False).ids


def parse_tokenizer(raw: bytes, *, vocabulary: int) -> WordPiece:
    """Read ``tokenizer.json``. Its decoder, and its own truncation and padding, are of no use here and not used.

    Args:
        raw: the file.
        vocabulary: number of tokens with a vector in the model.

    Raises:
        ConfigurationError: ``embedding-tokenizer-unsupported``.
    """
    document = json_object(raw, name=TOKENIZER_NAME, code=TOKENIZER)
    _require_members(document, _MEMBERS, where="")
    model = _part(document, "model", kind="WordPiece", members=_MODEL_MEMBERS)
    numbers = _vocabulary(model.get("vocab"), vocabulary)
    _require(model, "model.continuing_subword_prefix", (_PREFIX,))
    unknown = model.get("unk_token")
    if not isinstance(unknown, str) or unknown not in numbers:
        raise _refuse("model.unk_token", expected="a token of the vocabulary", got=unknown)
    word_characters = model.get("max_input_chars_per_word")
    if type(word_characters) is not int or not 1 <= word_characters <= _MAX_WORD_CHARACTERS:
        expected = f"an integer from 1 to {_MAX_WORD_CHARACTERS}"
        raise _refuse("model.max_input_chars_per_word", expected=expected, got=word_characters)
    _require_known(document.get("added_tokens"), numbers)
    _part(document, "pre_tokenizer", kind="BertPreTokenizer", members=frozenset({"type"}))
    first, last = _marks(document.get("post_processor"), numbers)
    tokenizer = Tokenizer(models.WordPiece(numbers, unk_token=unknown, max_input_chars_per_word=word_characters))
    tokenizer.normalizer = _normalizer(
        _part(document, "normalizer", kind="BertNormalizer", members=_NORMALIZER_MEMBERS)
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    return WordPiece(tokenizer=tokenizer, first=first, last=last, word_characters=word_characters)


def _characters(text: str) -> str:
    """Return a text of whole characters: halves that belong together are joined, others are U+FFFD."""
    if not isinstance(text, str):
        raise TypeError(f"a text must be str, not {type(text).__name__}")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _part(document: Mapping[str, JsonValue], name: str, *, kind: str, members: frozenset[str]) -> dict[str, JsonValue]:
    part = document.get(name)
    if not isinstance(part, dict) or part.get("type") != kind:
        raise _refuse(name, expected=kind, got=part.get("type") if isinstance(part, dict) else part)
    _require_members(part, members, where=f"{name}.")
    return part


def _require_members(part: Mapping[str, JsonValue], members: frozenset[str], *, where: str) -> None:
    for name in sorted(part.keys() ^ members):
        there = name in part
        raise _refuse(
            f"{where}{name[:100]}",
            expected="no such member: its meaning is unknown" if there else "it to be there",
            got="it" if there else "nothing",
        )


def _require(part: Mapping[str, JsonValue], path: str, values: tuple[JsonValue, ...]) -> JsonValue:
    value = part.get(path.rpartition(".")[2])
    if not any(type(value) is type(one) and value == one for one in values):
        raise _refuse(path, expected=" or ".join(map(brief, values)), got=value)
    return value


def _vocabulary(found: JsonValue, size: int) -> dict[str, int]:
    """Return token to number: each number from 0 has one token, and there are as many as the model has vectors for."""
    if not isinstance(found, dict) or len(found) != size:
        expected = f"{size} tokens, as config.json says"
        raise _refuse("model.vocab", expected=expected, got=len(found) if isinstance(found, dict) else found)
    if any(type(number) is not int for number in found.values()) or set(found.values()) != set(range(size)):
        raise _refuse("model.vocab", expected=f"each number from 0 to {size - 1} once", got="others")
    return cast("dict[str, int]", found)  # Just checked; JSON's own type is wider.


def _require_known(added: JsonValue, numbers: Mapping[str, int]) -> None:
    """Require that what the file adds is marks of the vocabulary: anything else would have to be found in texts."""
    tokens = added if isinstance(added, list) else [added]
    for at, token in enumerate(tokens):
        field = f"added_tokens[{at}]"
        if not isinstance(token, dict) or token.get("special") is not True:
            raise _refuse(field, expected="a mark (special: true)", got=token)
        content = token.get("content")
        if not isinstance(content, str) or numbers.get(content) != token.get("id"):
            raise _refuse(field, expected="a token of the vocabulary, with its number", got=content)


def _marks(processor: JsonValue, numbers: Mapping[str, int]) -> tuple[int, int]:
    """Return the marks around one text. How two texts are put together is not looked at: there is always one."""
    single = processor.get("single") if isinstance(processor, dict) else None
    if not isinstance(processor, dict) or processor.get("type") != "TemplateProcessing":
        raise _refuse("post_processor", expected="TemplateProcessing", got=processor)
    if not isinstance(single, list) or len(single) != 3 or single[1] != {"Sequence": {"id": "A", "type_id": 0}}:
        raise _refuse("post_processor.single", expected="a mark, the text, a mark", got=single)
    return _mark(processor, single[0], numbers), _mark(processor, single[2], numbers)


def _mark(processor: Mapping[str, JsonValue], piece: JsonValue, numbers: Mapping[str, int]) -> int:
    special = piece.get("SpecialToken") if isinstance(piece, dict) else None
    name = special.get("id") if isinstance(special, dict) else None
    if not isinstance(special, dict) or not isinstance(name, str) or special.get("type_id") != 0 or name not in numbers:
        raise _refuse("post_processor.single", expected="marks of the vocabulary, of type 0", got=piece)
    table = processor.get("special_tokens")
    meant = table.get(name) if isinstance(table, dict) else None
    if not isinstance(meant, dict) or meant.get("ids") != [numbers[name]]:
        raise _refuse(f"post_processor.special_tokens.{name[:100]}", expected=f"ids [{numbers[name]}]", got=meant)
    return numbers[name]


def _normalizer(part: Mapping[str, JsonValue]) -> normalizers.Normalizer:
    clean = _require(part, "normalizer.clean_text", (True,))
    chinese = _require(part, "normalizer.handle_chinese_chars", (True, False))
    accents = _require(part, "normalizer.strip_accents", (None, True, False))
    lowercase = _require(part, "normalizer.lowercase", (True, False))
    return normalizers.BertNormalizer(
        clean_text=clean is True,
        handle_chinese_chars=chinese is True,
        strip_accents=None if accents is None else accents is True,
        lowercase=lowercase is True,
    )


def _refuse(path: str, *, expected: str, got: JsonValue) -> Exception:
    return unsuitable(TOKENIZER, f"{TOKENIZER_NAME}: {path}", expected=expected, got=brief(got))
